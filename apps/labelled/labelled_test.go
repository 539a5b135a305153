package labelled

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/apps/splitmem"
	"github.com/tierml/tierml/ps"
)

func prepare(t testing.TB, text string, cut apps.Cut) (splitmem.Files, apps.Dataset) {
	t.Helper()
	files := splitmem.Files{}
	dataset, err := Prepare(apps.Input{Name: "small", Data: strings.NewReader(text)}, cut, files.Create)
	if err != nil {
		t.Fatal(err)
	}
	return files, dataset
}

// sparse returns n vectors that identify their line: the label is 1 or -1, feature 0 is the line number.
func sparse(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d 1:%d %d:1\n", 1-2*(i%2), i+1, 2+i%5)
	}
	return b.String()
}

// gather lists all examples by rank as text: training and held-out ones.
func gather(t *testing.T, task *Task, files splitmem.Files) (train, test []string) {
	t.Helper()
	byRank := map[string]map[uint32]string{"train": {}, "test": {}}
	err := task.EachSplit(files.Open, func(_ ps.Split, train, test *Examples) error {
		for name, e := range map[string]*Examples{"train": train, "test": test} {
			for i := range e.Len() {
				index, value := e.Row(i)
				if _, twice := byRank[name][e.Ranks[i]]; twice {
					t.Errorf("two %s examples have rank %d", name, e.Ranks[i])
				}
				byRank[name][e.Ranks[i]] = fmt.Sprint(e.Targets[i], index, value)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	list := func(m map[uint32]string) (all []string) {
		for rank := range len(m) {
			all = append(all, m[uint32(rank)]) // ranks are all numbers below their count
		}
		return all
	}
	return list(byRank["train"]), list(byRank["test"])
}

func TestCutDoesNotDependOnSplits(t *testing.T) {
	var first [2][]string
	for i, splits := range []int{1, 7} {
		files, dataset := prepare(t, sparse(100), apps.Cut{Splits: splits, Holdout: 0.2, Seed: 3})
		if dataset.Examples != 80 || dataset.Test != 20 || len(files) != splits {
			t.Fatalf("%+v in %d files", dataset, len(files))
		}
		task, err := Classification(dataset, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(task.Classes, []string{"-1", "1"}) || task.Inputs != 6 || task.Entries != 160 {
			t.Errorf("%+v", task)
		}
		train, test := gather(t, task, files)
		all := slices.Concat(train, test)
		slices.Sort(all)
		if len(slices.Compact(all)) != 100 {
			t.Error("examples are missing or there twice")
		}
		if i == 0 {
			first = [2][]string{train, test}
		} else if !slices.Equal(train, first[0]) || !slices.Equal(test, first[1]) {
			t.Error("another number of splits orders or holds out other examples")
		}
	}
	_, a := prepare(t, sparse(100), apps.Cut{Splits: 1, Holdout: 0.2, Seed: 3})
	_, b := prepare(t, sparse(100), apps.Cut{Splits: 7, Holdout: 0.2, Seed: 3})
	if !bytes.Equal(a.Detail, b.Detail) {
		t.Errorf("details differ: %s and %s", a.Detail, b.Detail)
	}
}

func TestSeedOrders(t *testing.T) {
	cut := apps.Cut{Splits: 3, Holdout: 0.2, Seed: 1}
	files, _ := prepare(t, sparse(100), cut)
	again, _ := prepare(t, sparse(100), cut)
	cut.Seed = 2
	other, _ := prepare(t, sparse(100), cut)
	if !reflect.DeepEqual(files, again) || reflect.DeepEqual(files, other) {
		t.Error("the cut is not a function of the seed")
	}
}

const table = "age,town,price\n1,york,10\n2,bath,20\n3,,30\n,york,40\n6,york,50\n"

func TestTableIsEncoded(t *testing.T) {
	files, dataset := prepare(t, table, apps.Cut{Splits: 1})
	task, err := Regression(dataset, nil)
	if err != nil {
		t.Fatal(err)
	}
	if task.Target.Name != "price" || task.Target.Mean != 30 || task.Target.Scale != float64(float32(math.Sqrt(200))) {
		t.Errorf("target %+v", task.Target)
	}
	if want := []string{"age", "town=bath", "town=york"}; !slices.Equal(task.Names(), want) || task.Inputs != 3 || task.Entries != 8 {
		t.Errorf("features %v, %d inputs, %d entries", task.Names(), task.Inputs, task.Entries)
	}
	scale := float64(float32(math.Sqrt((4 + 1 + 0 + 9) / 4.0))) // of 1, 2, 3, 6, mean 3
	age := func(x float64) float32 { return float32((x - 3) / scale) }
	want := []string{
		fmt.Sprint(10, []uint32{0, 2}, []float32{age(1), 1}), fmt.Sprint(20, []uint32{0, 1}, []float32{age(2), 1}),
		fmt.Sprint(30, []uint32{0}, []float32{age(3)}), fmt.Sprint(40, []uint32{2}, []float32{1}),
		fmt.Sprint(50, []uint32{0, 2}, []float32{age(6), 1}),
	}
	got, _ := gather(t, task, files)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
}

// Rows without the named target are left out, so that it can be the target.
func TestRowsWithoutTarget(t *testing.T) {
	files := splitmem.Files{}
	dataset, err := Prepare(apps.Input{Name: "f", Data: strings.NewReader("class,a\nx,1\ny,\nx,3\n"), Target: "a"}, apps.Cut{Splits: 1}, files.Create)
	if err != nil || dataset.Examples != 2 {
		t.Fatalf("%+v, %v", dataset, err)
	}
	if task, err := Regression(dataset, apps.Params{"target": "a"}); err != nil || task.Target.Missing != 0 {
		t.Errorf("%+v, %v", task, err)
	}
}

func TestTargets(t *testing.T) {
	_, dataset := prepare(t, "class,a,b\nx,1,u\ny,2,v\nx,,u\n", apps.Cut{Splits: 1})
	task, err := Classification(dataset, nil)
	if err != nil || task.Target.Name != "class" || !slices.Equal(task.Classes, []string{"x", "y"}) {
		t.Errorf("%+v, %v", task, err)
	}
	if task, err := Classification(dataset, apps.Params{"target": 3}); err != nil || task.Target.Name != "b" {
		t.Errorf("%+v, %v", task, err)
	}
	if task, err := Classification(dataset, apps.Params{"target": "b"}); err != nil || task.Target.Name != "b" {
		t.Errorf("%+v, %v", task, err)
	}
	for _, c := range []struct {
		make   func(apps.Dataset, apps.Params) (*Task, error)
		target any
		want   string
	}{
		{Regression, 0, `column "a" cannot be the target: 1 examples lack it; set target to one of the columns class, a, b`},
		{Regression, 1, `column "class" holds words`},
		{Classification, 4, "target 4: set target"},
		{Classification, "c", `target: no column is named "c"; set target to one of the columns class, a, b`},
	} {
		if _, err := c.make(dataset, apps.Params{"target": c.target}); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("target %v: %v, want %q", c.target, err, c.want)
		}
	}
	_, dataset = prepare(t, "kind,x\na,1.5\nb,2\na,2.25\n", apps.Cut{Splits: 1})
	if _, err := Classification(dataset, nil); err == nil || !strings.Contains(err.Error(), `column "x" cannot be the class unless you say so: it has 3 different values`) {
		t.Errorf("measured numbers as classes: %v", err)
	}
	if task, err := Classification(dataset, apps.Params{"target": "x"}); err != nil || len(task.Classes) != 3 {
		t.Errorf("measured numbers as classes, as asked for: %v", err)
	}
	_, dataset = prepare(t, "1 1:1\n1 1:2\n", apps.Cut{Splits: 1})
	if _, err := Classification(dataset, nil); err == nil || !strings.Contains(err.Error(), "cannot be the class") {
		t.Errorf("one class: %v", err)
	}
	if _, err := Classification(dataset, apps.Params{"target": 1}); err == nil || !strings.Contains(err.Error(), "target is for tables") {
		t.Errorf("target of a file without columns: %v", err)
	}
}

// The image file is recognised by its bytes, its label file by its name.
func TestImages(t *testing.T) {
	images := "\x00\x00\x08\x03\x00\x00\x00\x03\x00\x00\x00\x01\x00\x00\x00\x02" + "\x00\xff" + "\x33\x00" + "\x00\x00"
	labels := "\x00\x00\x08\x01\x00\x00\x00\x03\x07\x01\x07"
	files := splitmem.Files{}
	in := apps.Input{Name: "data/t-images-idx3-ubyte", Data: strings.NewReader(images), Beside: func(name string) (io.ReadCloser, error) {
		if name != "t-labels-idx1-ubyte" {
			return nil, fs.ErrNotExist
		}
		return io.NopCloser(strings.NewReader(labels)), nil
	}}
	dataset, err := Prepare(in, apps.Cut{Splits: 1}, files.Create)
	if err != nil {
		t.Fatal(err)
	}
	task, err := Classification(dataset, nil)
	if err != nil || !slices.Equal(task.Classes, []string{"1", "7"}) {
		t.Fatalf("%+v, %v", task, err)
	}
	got, _ := gather(t, task, files)
	slices.Sort(got)
	if want := []string{"0 [0] [0.20000002]", "1 [1] [1]", "1 [] []"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for name, want := range map[string]string{"data/other": "its labels cannot be found", "x-images-idx3": "its labels, which belong into the same folder as "} {
		in.Name, in.Data = name, strings.NewReader(images)
		if _, err := Prepare(in, apps.Cut{Splits: 1}, files.Create); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func TestPrepareRefuses(t *testing.T) {
	for _, c := range []struct {
		data string
		cut  apps.Cut
		want string
	}{
		{sparse(3), apps.Cut{}, "0 splits: write 1 or more"},
		{sparse(3), apps.Cut{Splits: 1, Holdout: 1}, "held-out share 1"},
		{sparse(3), apps.Cut{Splits: 4}, "small: 3 examples to train on are fewer than the number of splits, 4: ask for at most 3 splits, or hold out less"},
		{"hello\n", apps.Cut{Splits: 1}, "small:1: the format is not known: want LIBSVM"},
		{"", apps.Cut{Splits: 1}, "small:1: the format is not known"},
		{"a\n1\n", apps.Cut{Splits: 1}, "small:1: the format is not known"},
		{"1 1:1\n1 x\n", apps.Cut{Splits: 1}, "small:2: "},
		{"a,b\n1\n", apps.Cut{Splits: 1}, "small:2: 1 columns"},
		{"\x00\x00\x08\x01\x00\x00\x00\x01\x01", apps.Cut{Splits: 1}, "small: one-dimensional"},
	} {
		_, err := Prepare(apps.Input{Name: "small", Data: strings.NewReader(c.data)}, c.cut, splitmem.Files{}.Create)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q %+v: error %v, want %q", c.data, c.cut, err, c.want)
		}
	}
	full := errors.New("disk full")
	_, err := Prepare(apps.Input{Data: strings.NewReader(sparse(3))}, apps.Cut{Splits: 1},
		func(ps.Split) (io.WriteCloser, error) { return nil, full })
	if !errors.Is(err, full) || !strings.Contains(err.Error(), "write split 0") {
		t.Errorf("error %v, want the disk's", err)
	}
}

// The largest eigenvalue of a Gram matrix, computed by hand: with features (2, 0) and (0, 2) it is X'X/n = diag(2, 2) without the constant,
// and with it the matrix [[2 0 1] [0 2 1] [1 1 1]], whose largest is 3.
func TestCurvature(t *testing.T) {
	_, dataset := prepare(t, "1 1:2\n-1 2:2\n", apps.Cut{Splits: 1})
	data, err := dataOf(dataset)
	if want := curvatureMargin * 3; err != nil || math.Abs(data.Curvature-want) > 1e-6 {
		t.Errorf("curvature %v, %v; want %v", data.Curvature, err, want)
	}
}

func sample() *splitFile {
	return &splitFile{
		id: 3, features: 9,
		train: examples{[]uint32{3, 7}, []float32{1, -1}, []int{0, 2, 2}, []uint32{0, 8}, []float32{0.5, -2}},
		test:  examples{[]uint32{0}, []float32{4}, []int{0, 1}, []uint32{5}, []float32{1}},
	}
}

func TestSplitFile(t *testing.T) {
	whole := sample().encode(nil)
	if got, err := readSplit(bytes.NewReader(whole), 3); err != nil || !reflect.DeepEqual(got, sample()) {
		t.Errorf("%+v, %v; want %+v", got, err, sample())
	}
	for n := range whole {
		if _, err := readSplit(bytes.NewReader(whole[:n]), 3); !errors.Is(err, ErrSplit) {
			t.Fatalf("%d of %d bytes: error %v, want ErrSplit", n, len(whole), err)
		}
	}
	for bit := range 8 * len(whole) {
		damaged := bytes.Clone(whole)
		damaged[bit/8] ^= 1 << (bit % 8)
		if _, err := readSplit(bytes.NewReader(damaged), 3); err == nil {
			t.Fatalf("bit %d flipped: not noticed", bit)
		}
	}
	if _, err := readSplit(bytes.NewReader(whole), 4); !errors.Is(err, ErrSplit) {
		t.Errorf("read as another split: %v", err)
	}
	for name, spoil := range map[string]func(*splitFile){
		"index":          func(s *splitFile) { s.features = 8 },
		"order of index": func(s *splitFile) { s.train.index[0] = 8 },
		"order of rank":  func(s *splitFile) { s.train.ranks[1] = 3 },
		"value":          func(s *splitFile) { s.test.value[0] = float32(math.Inf(1)) },
		"label":          func(s *splitFile) { s.test.labels[0] = float32(math.NaN()) },
	} {
		s := sample()
		spoil(s)
		if _, err := readSplit(bytes.NewReader(s.encode(nil)), 3); !errors.Is(err, ErrSplit) {
			t.Errorf("%s: error %v, want ErrSplit", name, err)
		}
	}
}

func TestOtherDataIsRefused(t *testing.T) {
	files, _ := prepare(t, sparse(10), apps.Cut{Splits: 1})
	_, wide := prepare(t, sparse(10)+"1 99:1\n", apps.Cut{Splits: 1})
	_, short := prepare(t, sparse(9), apps.Cut{Splits: 1})
	_, other := prepare(t, strings.ReplaceAll(sparse(10), "-1 ", "3 "), apps.Cut{Splits: 1})
	for name, dataset := range map[string]apps.Dataset{"features": wide, "examples": short, "classes": other} {
		task, err := Classification(dataset, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := task.Load(0, bytes.NewReader(files[0].Bytes())); err == nil {
			t.Errorf("%s: a split of other data was loaded", name)
		}
	}
	for _, detail := range []string{"", "{}", "oops", `{"columns":[{"scale":0}],"unit":1}`} {
		dataset := apps.Dataset{Splits: 1, Examples: 1, Detail: []byte(detail)}
		if _, err := Regression(dataset, nil); err == nil {
			t.Errorf("details %q were taken", detail)
		}
	}
}

func FuzzReadSplit(f *testing.F) {
	f.Add(sample().encode(nil))
	f.Add((&splitFile{id: 3, train: examples{start: []int{0}}, test: examples{start: []int{0}}}).encode(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4 { // let contents past the checksum, so that the checks behind it run
			body := data[:len(data)-4]
			data = binary.LittleEndian.AppendUint32(bytes.Clone(body), crc32.Checksum(body, castagnoli))
		}
		s, err := readSplit(bytes.NewReader(data), 3)
		if err != nil {
			return
		}
		if again := s.encode(nil); !bytes.Equal(again, data) {
			t.Fatalf("read %+v, which is written differently", s)
		}
	})
}

func encoded(t *testing.T, m model.Model, inputs int, data string) (rows []string, labels []string) {
	t.Helper()
	encoding, err := NewEncoding(m, inputs)
	if err != nil {
		t.Fatal(err)
	}
	examples, labels, _, err := encoding.Read(apps.Input{Name: "new", Data: strings.NewReader(data)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(examples.Start) - 1 {
		index, value := examples.Row(i)
		rows = append(rows, fmt.Sprint(index, value))
	}
	return rows, labels
}

// A data file is encoded by the columns' names, in any order, with or without the target; unknown and missing columns are ignored.
func TestEncoding(t *testing.T) {
	_, dataset := prepare(t, "town,age,price\nb,1,10\na,3,20\nb,5,30\na,3,40\n", apps.Cut{Splits: 1})
	task, err := Regression(dataset, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := model.Model{Metadata: map[string]string{}}
	task.Describe(&m)
	scale := float32(math.Sqrt2)
	want := []string{fmt.Sprint([]uint32{2, 1}, []float32{2 / scale, 1}), fmt.Sprint([]uint32{2}, []float32{0}), fmt.Sprint([]uint32{0}, []float32{1})}
	rows, labels := encoded(t, m, task.Inputs, "age,other,town,price\n5,x,b,7\n3,x,c,8.5\n,y,a,9\n")
	if !slices.Equal(rows, want) || !slices.Equal(labels, []string{"7", "8.5", "9"}) {
		t.Errorf("%v, labels %v; want %v", rows, labels, want)
	}
	if rows, labels := encoded(t, m, task.Inputs, "town,age\nb,5\n"); len(rows) != 1 || labels != nil {
		t.Errorf("without a target: %v, labels %v", rows, labels)
	}
	for data, want := range map[string]string{
		"age,other\n1,2\n":       `new: there is no column "town", which the model was trained on`,
		"town,other\na,2\n":      `new: there is no column "age", which the model was trained on`,
		"age,town\nyoung,a\n":    `new:2: column 1 (age): "young" is not a number, as the column's other fields are: leave it empty if nothing is known; train.ignore leaves a column out, train.max_bad_lines bad lines`,
		"1 1:2\n":                "new: it has numbered features, and the model was trained on a table",
		"age,town\n1,a\n2,a,b\n": "new:3: 3 columns, the header has 2",
	} {
		encoding, err := NewEncoding(m, task.Inputs)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := encoding.Read(apps.Input{Name: "new", Data: strings.NewReader(data)}); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %q", data, err, want)
		}
	}
	if _, err := NewEncoding(m, task.Inputs+1); err == nil {
		t.Error("a model of other inputs is taken")
	}
}

// A file to predict has dates in the order of the training data, even if it does not show one.
func TestEncodingKeepsTheOrderOfDates(t *testing.T) {
	for date, want := range map[string]string{"13/1/2024": "2/1/2024", "1/13/2024": "1/2/2024"} {
		_, dataset := prepare(t, "at,y\n"+date+",1\n"+want+",2\n", apps.Cut{Splits: 1})
		task, err := Regression(dataset, nil)
		if err != nil {
			t.Fatal(err)
		}
		m := model.Model{Metadata: map[string]string{}}
		task.Describe(&m)
		slashes, _ := encoded(t, m, task.Inputs, "at,other\n"+want+",5\n")
		iso, _ := encoded(t, m, task.Inputs, "at,other\n2024-01-02,5\n")
		if !slices.Equal(slashes, iso) {
			t.Errorf("%s: %v, want %v", want, slashes, iso)
		}
	}
}

// Numbered features beyond the model's are ignored, and images need no labels.
func TestEncodingOfNumberedFeatures(t *testing.T) {
	_, dataset := prepare(t, "1 1:1 2:3\n-1 1:2\n", apps.Cut{Splits: 1})
	task, err := Classification(dataset, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := model.Model{Metadata: map[string]string{}}
	task.Describe(&m)
	rows, labels := encoded(t, m, task.Inputs, "-1 1:4 3:9\n")
	if want := []string{fmt.Sprint([]uint32{0}, []float32{4})}; !slices.Equal(rows, want) || !slices.Equal(labels, []string{"-1"}) {
		t.Errorf("%v, labels %v; want %v", rows, labels, want)
	}
	m.Metadata["unit"] = "0.5"
	if rows, labels := encoded(t, m, 2, "\x00\x00\x08\x03\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x02\x00\x08"); labels != nil || !slices.Equal(rows, []string{"[1] [4]"}) {
		t.Errorf("an image: %v, labels %v", rows, labels)
	}
	encoding, err := NewEncoding(m, task.Inputs)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := encoding.Read(apps.Input{Name: "new", Data: strings.NewReader("a,b\n1,2\n")}); err == nil || !strings.Contains(err.Error(), "it is a table") {
		t.Errorf("a table for a model of numbered features: %v", err)
	}
}
