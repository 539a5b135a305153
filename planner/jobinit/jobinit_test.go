package jobinit

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/all"
	"github.com/tierml/tierml/config"
	_ "github.com/tierml/tierml/providers/all"
)

const examples = "../../examples/data/"

func dialogue(answers string) (*Dialogue, *bytes.Buffer) {
	var out bytes.Buffer
	d := &Dialogue{Out: &out, Clouds: []string{config.CloudLocal, "ec2", config.CloudNone}}
	for _, kind := range all.Registry() {
		d.Apps = append(d.Apps, kind.Name())
		if slices.ContainsFunc(kind.Params(), func(p apps.Param) bool { return p.Name == "target" }) {
			d.Targets = append(d.Targets, kind.Name())
		}
	}
	if answers != "" {
		d.In = strings.NewReader(answers)
	}
	return d, &out
}

// load writes the wanted job to a file and reads it back.
func load(t *testing.T, w Wanted) *config.Job {
	t.Helper()
	var params []apps.Param
	if w.Program == nil {
		kind, err := all.Registry().Find(w.App)
		if err != nil {
			t.Fatal(err)
		}
		params = kind.Params()
	}
	path := filepath.Join(t.TempDir(), "job.yaml")
	text, err := w.Write(filepath.Dir(path), params)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	job, err := config.Load(path)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return job
}

func given() Wanted {
	return Wanted{Data: examples + "jester5k.csv.gz", Prices: examples + "aws-us-west-1a-c3-2014.csv.gz",
		Catalog: examples + "aws-ondemand-us-west-1-2015-04-02.csv"}
}

// Without a terminal everything except the files is suggested.
func TestSuggestions(t *testing.T) {
	w := given()
	d, _ := dialogue("")
	if err := d.Fill(&w); err != nil {
		t.Fatal(err)
	}
	job := load(t, w)
	if job.Name != "jester5k" || job.Train.App != "mf" || job.Train.Clocks != 300 || job.Cloud != "local" || job.Resources.VCPU != 32 || job.Resources.Count.Most != 0 {
		t.Errorf("suggested %s, %s, %d clocks, %s, %d vCPUs; want those of 8 c3.xlarge", job.Name, job.Train.App, job.Train.Clocks, job.Cloud, job.Resources.VCPU)
	}
	if len(job.Resources.AnyOf) != suggested || !slices.Equal(job.Resources.Zones, []string{"us-west-1a"}) || job.Local.Start.IsZero() {
		t.Errorf("suggested %v in %v from %v", job.Resources.AnyOf, job.Resources.Zones, job.Local.Start)
	}
	if filepath.Base(job.Train.Data) != "jester5k.csv.gz" {
		t.Errorf("data %s", job.Train.Data)
	}
}

// If all have one size, machines are counted: vCPUs are written only if sizes differ.
func TestCountOfOneSize(t *testing.T) {
	w := given()
	w.Types, w.Count = []string{"c3.2xlarge"}, 4
	d, _ := dialogue("")
	if err := d.Fill(&w); err != nil {
		t.Fatal(err)
	}
	if job := load(t, w); job.Resources.VCPU != 0 || job.Resources.Count.Most != 4 {
		t.Errorf("the job is %s", job.Resolved())
	}
}

// If a required answer is missing the questions eventually end, with advice.
func TestNeededAnswers(t *testing.T) {
	w := given()
	data, err := filepath.Abs(w.Data)
	if err != nil {
		t.Fatal(err)
	}
	w.Data, w.App, w.Name, w.Clocks, w.StopLoss, w.Cloud, w.Prices = data, "mf", "ratings", 40, 1, "local", ""
	t.Chdir(t.TempDir()) // nothing to suggest
	d, out := dialogue(strings.Repeat("\n", 10))
	err = d.Fill(&w)
	if err == nil || !strings.Contains(err.Error(), "--prices is needed: `tierml prices sample` writes some into data") || strings.Count(out.String(), "This one is needed: ") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
}

// If a question offers "none", it is a valid answer.
func TestNoneIsAValidAnswer(t *testing.T) {
	d, out := dialogue("none\n")
	if loss, err := d.ask("", question{flag: "stop-loss", text: "Stop", optional: true, check: figure}); err != nil || loss != "" {
		t.Errorf("%q, %v\n%s", loss, err, out)
	}
}

// Questions with wrong answers are repeated, with the choices.
func TestAnswers(t *testing.T) {
	w := given()
	d, out := dialogue("nn\nmf\nno name\nratings\nmany\n40\n\nmoon\nlocal\nyesterday\n2014-05-01T00:00:00Z\nz9.huge\nc3.xlarge, c3.2xlarge\n0\n5\nfree\n$20\n")
	if err := d.Fill(&w); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	job := load(t, w)
	if job.Name != "ratings" || job.Train.Clocks != 40 || job.Resources.VCPU != 20 || job.Budget.String() != "20" ||
		!job.Local.Start.Equal(time.Date(2014, 5, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("the job is %s\n%s", job.Resolved(), out)
	}
	for _, words := range []string{`"nn" does not exist; there is mf`, `"no name" cannot be a name`, `"many" is not a whole number`,
		`"moon" does not exist`, `"yesterday" is not a time`, `"z9.huge" does not exist`, `"free" is not an amount`, "SPOT $/H"} {
		if !strings.Contains(out.String(), words) {
			t.Errorf("%q was not said:\n%s", words, out)
		}
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*Wanted)
		answers string
		want    string
	}{
		"nothing to suggest": {change: func(w *Wanted) { *w = Wanted{} }, want: "add it, or --script"},
		"unknown app":        {change: func(w *Wanted) { w.App = "nn" }, want: `--app: "nn" does not exist`},
		"no data":            {change: func(w *Wanted) { w.Data = "nowhere.csv" }, want: "--data: there is no file nowhere.csv"},
		"foreign catalog":    {change: func(w *Wanted) { w.Catalog = examples + "gce-us-central1-n2-ondemand.csv" }, want: "of the same region"},
		"no prices":          {change: func(w *Wanted) { w.Prices = examples + "README.md" }, want: "--prices: "},
		"before the prices":  {change: func(w *Wanted) { w.Start = time.Unix(0, 0) }, want: "--set start: no type"},
		"no more answers":    {change: func(*Wanted) {}, answers: "mf\n", want: "no more answers"},
		"settings of another": {change: func(w *Wanted) {
			w.Cloud, w.Settings = "ec2", "gce:\n  region: us-west-1\n"
		}, want: "not those of an installation on ec2"},
		"another region": {change: func(w *Wanted) { w.Cloud, w.Settings = "ec2", "ec2:\n  region: us-east-9\n" }, want: `no types of the region "us-east-9"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := given()
			c.change(&w)
			d, _ := dialogue(c.answers)
			err := d.Fill(&w)
			if err == nil {
				_, err = w.Write(".", nil)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v; want %q", err, c.want)
			}
		})
	}
}

func TestOnEC2(t *testing.T) {
	w := given()
	w.Cloud, w.Prices = "ec2", ""
	w.Settings = "\"ec2\":\n  \"region\": \"us-west-1\"\n  \"image\": \"ami-0123456789abcdef0\"\n  \"program\":\n    \"sha256\": \"" +
		strings.Repeat("ab", 32) + "\"\n    \"url\": \"s3://bucket/tierml\"\n  \"checkpoints\": \"s3://bucket/checkpoints\"\n"
	d, _ := dialogue("")
	if err := d.Fill(&w); err != nil {
		t.Fatal(err)
	}
	job := load(t, w)
	if job.Installation().Region != "us-west-1" || filepath.Base(job.Installation().Catalog) != "aws-ondemand-us-west-1-2015-04-02.csv" || len(job.Resources.AnyOf) != suggested {
		t.Errorf("the job is %s", job.Resolved())
	}
}

func TestWithoutMachines(t *testing.T) {
	w := Wanted{Data: examples + "jester5k.csv.gz", Cloud: "none", StopLoss: 4.2}
	d, _ := dialogue("")
	if err := d.Fill(&w); err != nil {
		t.Fatal(err)
	}
	if job := load(t, w); job.Train.Stop.Loss != 4.2 {
		t.Errorf("the job is %s", job.Resolved())
	}
}

// If no column name suggests what to predict, init asks; without a terminal, or with only the data, the message names the flag.
func TestInitAsksForTheColumn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.csv")
	if err := os.WriteFile(path, []byte("tons,soil,rain\n1.5,a,2.5\n2.5,b,3.5\n4.25,a,5.5\n7.5,b,1.5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, app := range []string{"", "ridge"} { // an application does not determine the column
		w := Wanted{Data: path, Cloud: "none", App: app}
		silent, _ := dialogue("")
		if err := silent.Fill(&w); err == nil || !strings.Contains(err.Error(), "--target") || !strings.Contains(err.Error(), "tons, soil, rain") {
			t.Errorf("without a terminal, application %q: %v", app, err)
		}
	}
	asking, out := dialogue("snow\ntons\n\n\n\n\n")
	w := Wanted{Data: path, Cloud: "none", Name: "x", Clocks: 3}
	if err := asking.Fill(&w); err != nil || w.Target != "tons" || w.App != "ridge" {
		t.Errorf("%v: %+v\n%s", err, w, out)
	}
	if _, err := CommandOf(path, ""); err == nil || !strings.Contains(err.Error(), "add --target COLUMN, one of tons, soil, rain") {
		t.Error(err)
	}
	if c, err := CommandOf(path, "soil"); err != nil || c.App != "logistic" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := CommandOf(path, "snow"); err == nil || !strings.Contains(err.Error(), "--target snow") || !strings.Contains(err.Error(), "it has tons, soil, rain") {
		t.Error(err)
	}
}

func TestPropose(t *testing.T) {
	for text, want := range map[string]string{
		"1,2,3\n2,3,4.5\n7,8,1\n":                                         "",
		"1::2::3::978300760\n" + "2::2::5::9\n" + "3::2::5::9\n":          "mf",
		"user,item,rating\n1,2,3\n1,3,3\n1,4,3\n":                         "mf",
		"+1 1:0.5 7:1\n-1 2:0.25\n+1 3:1\n":                               "logistic",
		"24.5 1:0.5 7:1\n11 2:0.25\n3 3:1\n":                              "ridge",
		"1 1:0.5\n2 2:0.25\n3 3:1\n1 1:1\n":                               "mlr",
		"x,class,z\n1,yes,2\n2,no,3\n4,yes,5\n":                           "logistic",
		"x;class;z\n1;yes;2\n2;no;3\n4;yes;5\n":                           "logistic",
		"\ufeffx,z,kind\r\n1,2,a\r\n2,3,b\r\n4,5,c\r\n":                   "mlr",
		"x,z,price\n1,2,0.5\n2,3,1.25\n4,5,7\n":                           "ridge",
		"x,weight\n1,191\n2,189\n3,193\n4,162\n5,189\n":                   "ridge",
		"x,kind\n1,100\n2,200\n3,300\n4,100\n5,200\n6,300\n":              "mlr",
		"x,z,count\n" + strings.Repeat("1,2,3\n", 100) + "1,1,4\n1,1,5\n": "mlr",
		"x,z\n1,2\n2,2\n3,2\n":                                            "",
		"\x00\x00\x08\x03\x00\x00":                                        "mlr",
		"once upon a time\n":                                              "",
		"":                                                                "",
	} {
		path := filepath.Join(t.TempDir(), "data.txt")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := Propose(path, ""); got.App != want {
			t.Errorf("%.60q is taken for %+v; want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"userId,movieId,rating,timestamp\n1,2,3.5,964982703\n1,3,4,964982224\n1,2,3,964982931\n2,2,5,964982400\n3,1,2,964982300\n4,1,2,964982301\n": "mf",
		"7 3 4.5\n7 1 2\n2 3 1\n":    "mf",
		"user,item\n7,3\n7,1\n2,3\n": "mf",
		"city,price\n\"Paris, France\",10.5\n\"Rome, Italy\",11.25\n\"Bonn, Germany\",9.75\n\"Oslo, Norway\",8.5\n": "ridge",
		"1 qid:1 1:2\n-1 qid:1 2:3\n1 qid:2 1:1\n": "logistic",
	} {
		path := filepath.Join(t.TempDir(), "data.txt")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := Propose(path, "").App; got != want {
			t.Errorf("%.40q: %q, want %q", text, got, want)
		}
	}
}

// Refusals of data say what helps.
func TestRefusalsHaveCures(t *testing.T) {
	for text, want := range map[string]string{
		"a,b,price\n1,2,3\n4,5\n6,7,8\n":                     "data.csv:3: 2 columns, the header has 3; `max_bad_lines: N` under train in a job file leaves up to N such lines out",
		"{\"a\":1,\"price\":2}\n{\"a\":3,\"price\":\n":       "data.csv: JSON object 2: ",
		"date,price\n1/02/2021,1\n4/02/2021,2\n5/2/2021,3\n": "`sed -E 's#([0-9]{1,2})/([0-9]{1,2})/([0-9]{4})#\\3/\\1/\\2#g' OLD >NEW`",
		"x,price\n": "no rows in it",
	} {
		path := filepath.Join(t.TempDir(), "data.csv")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := CommandOf(path, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Without data and terminal, only the data is missing: the rest follows from it.
func TestOnlyTheDataIsMissing(t *testing.T) {
	t.Chdir(t.TempDir())
	d, _ := dialogue("")
	if err := d.Fill(&Wanted{Cloud: "none"}); err == nil || !strings.HasSuffix(err.Error(), "no suggestion for --data: add it, or --script for a program of your own") {
		t.Error(err)
	}
}
