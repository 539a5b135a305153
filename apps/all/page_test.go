package all

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/apps/splitmem"
	"github.com/tierml/tierml/ps"
)

const page = "../../docs/applications.md"

var update = flag.Bool("update", false, "write the tables of docs/applications.md")

func find(t *testing.T, name string) apps.Kind {
	t.Helper()
	kind, err := Registry().Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

// The tables of settings on the page are those of the applications.
func TestSettingsOnThePage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	marks := regexp.MustCompile(`(?s)(<!-- settings of (\w+)(?: beyond (\w+))?; made from the application by .make golden. -->\n).*?(<!-- end -->)`)
	found := 0
	fresh := marks.ReplaceAllFunc(text, func(block []byte) []byte {
		found++
		parts := marks.FindSubmatch(block)
		var known []apps.Param
		if beyond := string(parts[3]); beyond != "" {
			known = find(t, beyond).Params()
		}
		return slices.Concat(parts[1], settings(find(t, string(parts[2])).Params(), known), parts[4])
	})
	if found != 5 {
		t.Errorf("%d tables of settings on the page", found)
	}
	if *update {
		if err := os.WriteFile(page, fresh, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(fresh, text) {
		t.Errorf("the tables of %s are out of date: run make golden", page)
	}
}

// settings omits params that are known with the same default. Limits are left to the messages about values beyond them.
func settings(params, known []apps.Param) []byte {
	var b bytes.Buffer
	b.WriteString("| setting | default | what it is |\n|---|---|---|\n")
	for _, p := range params {
		if slices.ContainsFunc(known, func(k apps.Param) bool { return k.Name == p.Name && k.Default == p.Default && k.Shared == p.Shared }) {
			continue
		}
		usual, why := p.Usual(), p.Why
		switch {
		case len(p.Choices) > 0:
			usual, why = "`"+usual+"`", "`"+strings.Join(p.Choices, "` `")+"`: "+p.Why
		case !p.Column && !p.Shared && p.Default != 0:
			usual += " " + p.Unit
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.Name, usual, why)
	}
	return b.Bytes()
}

// example is a small data set in our format and in Python's.
type example struct {
	data   string
	python map[string]any
	common bool // it is a table, and the page's formula for x comes first
}

func examples() map[string]example {
	random := rand.New(rand.NewPCG(1, 2))
	var values [][]float64
	table := map[int]*strings.Builder{0: {}, 2: {}, 3: {}} // by classes; 0: a number
	for classes, b := range table {
		b.WriteString("f1,f2,f3,class\n")
		_ = classes
	}
	for i := range 120 {
		x := []float64{math.Round(random.NormFloat64()*100)/100 + float64(i%3), math.Round(random.NormFloat64()*1000) / 10, float64(random.IntN(9))}
		values = append(values, x)
		row := fmt.Sprintf("%v,%v,%v,", x[0], x[1], x[2])
		fmt.Fprintf(table[0], "%s%v\n", row, math.Round(100*(3*x[0]-x[1]/20+x[2]+random.NormFloat64()))/100+50)
		fmt.Fprintf(table[2], "%s%s\n", row, []string{"no", "yes"}[min(i%3, 1)])
		fmt.Fprintf(table[3], "%s%s\n", row, []string{"a", "b", "c"}[i%3])
	}
	all := map[string]example{}
	for app, classes := range map[string]int{"mlr": 3, "dnn": 3, "logistic": 2, "svm": 2, "linear": 0, "ridge": 0, "lasso": 0, "robust": 0} {
		all[app] = example{data: table[classes].String(), python: map[string]any{"values": values}, common: true}
	}
	var ratings strings.Builder
	ratings.WriteString("user,item,rating\n")
	var users, items []int
	for i := range 200 {
		users, items = append(users, i%20*3), append(items, i/20*7)
		fmt.Fprintf(&ratings, "%d,%d,%v\n", users[i], items[i], float64(i%5)/2+1)
	}
	all["mf"] = example{data: ratings.String(), python: map[string]any{"users": users, "items": items}}
	all["lda"] = example{data: "3\n6\n9\n1 1 2\n1 2 1\n1 5 1\n2 3 4\n2 4 1\n2 6 2\n3 1 1\n3 3 1\n3 6 3\n",
		python: map[string]any{"words": []int{2, 3, 5}, "counts": []int{4, 1, 2}}} // the second document
	return all
}

// sections returns the page's blocks of Python by heading.
func sections(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]string{}
	for i, section := range regexp.MustCompile(`(?m)^#+ `).Split(string(text), -1) {
		heading, _, _ := strings.Cut(section, "\n")
		if i == 1 {
			heading = "all"
		}
		for _, block := range regexp.MustCompile("(?s)```python\n(.*?)```").FindAllStringSubmatch(section, -1) {
			blocks[heading] += block[1]
		}
	}
	return blocks
}

// The page's lines of Python make the same predictions as tierml predict.
func TestPythonOnThePage(t *testing.T) {
	python := os.Getenv("PYTHON")
	if python == "" {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import numpy, safetensors").CombinedOutput(); err != nil {
		t.Skipf("no Python with numpy and safetensors (pip install numpy safetensors, and PYTHON=its python): %v\n%s", err, out)
	}
	blocks := sections(t)
	of := map[string]string{"mf": "mf", "mlr": "mlr and dnn", "dnn": "mlr and dnn", "lda": "lda"}
	for app, e := range examples() {
		t.Run(app, func(t *testing.T) {
			section := of[app]
			if section == "" {
				section = "Linear models"
			}
			code := "import json, numpy\nfor _k, _v in json.load(open('data.json')).items(): globals()[_k] = numpy.array(_v)\n" + blocks["all"]
			if e.common {
				code += blocks["Data"]
			}
			result := map[string]string{"lda": "mixture"}[app]
			if result == "" {
				result = "prediction"
			}
			code += blocks[section] + "\nprint(json.dumps(" + result + ".tolist()))\n"
			dir := t.TempDir()
			predictions := predict(t, app, e.data, filepath.Join(dir, "model.safetensors"))
			data, err := json.Marshal(e.python)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "data.json"), data, 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(python, "-c", code)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, code, out)
			}
			var got []any
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			compare(t, app, got, predictions)
		})
	}
}

// predict trains a model, saves it, and predicts its training data.
func predict(t *testing.T, app, data, path string) apps.Predictions {
	t.Helper()
	kind, files := find(t, app), splitmem.Files{}
	dataset, err := kind.Prepare(apps.Input{Name: "small", Data: strings.NewReader(data)}, apps.Cut{Splits: 2, Seed: 1}, files.Create)
	if err != nil {
		t.Fatal(err)
	}
	params := apps.Params{}
	if app == "lda" {
		params["topics"] = 3
	}
	program, err := kind.New(params, dataset)
	if err != nil {
		t.Fatal(err)
	}
	trainer, err := local.New(program, ps.Schema{Splits: dataset.Splits, Seed: 1}, files.Open)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := trainer.Step(false); err != nil {
			t.Fatal(err)
		}
	}
	m, err := program.Export(trainer, files.Open)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	if m, err = model.Load(path); err != nil {
		t.Fatal(err)
	}
	predictions, err := kind.(apps.Predictor).Predict(m, apps.Input{Name: "small", Data: strings.NewReader(data)})
	if err != nil {
		t.Fatal(err)
	}
	return predictions
}

func compare(t *testing.T, app string, got []any, p apps.Predictions) {
	t.Helper()
	var want []string
	column := slices.Index(p.Columns, "prediction")
	for i := range p.Rows {
		row := p.Row(i, nil)
		if app != "lda" {
			want = append(want, row[column])
		} else if i == 1 {
			want = row[1:]
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d predictions, %d by Python", len(want), len(got))
	}
	for i, g := range got {
		if x, isNumber := g.(float64); isNumber {
			if y, err := strconv.ParseFloat(want[i], 64); err != nil || math.Abs(x-y) > 1e-6*max(1, math.Abs(y)) {
				t.Fatalf("%d: %v, by Python %v", i, want[i], x)
			}
		} else if g != want[i] {
			t.Fatalf("%d: %v, by Python %v", i, want[i], g)
		}
	}
}
