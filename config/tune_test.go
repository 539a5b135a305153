package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tierml/tierml/sched/trials"
)

// A program's knobs load, and load again as printed. Knobs that cannot be tuned are refused with what to write.
func TestKnobs(t *testing.T) {
	const program = `name: own
cloud: local
resources: {count: 2, any_of: [{type: c3.xlarge}]}
run: ./train
`
	const rest = "progress: {of: 100}\nstate: {dir: state}\n"
	for _, c := range []struct{ text, fault string }{
		{program + rest + "tune: {threads: 1..8, prefetch: [4, 0, 2]}\n", ""},
		{program + rest + "tune: true\n", "names no knobs of the program"},
		{program + rest + "tune: {threads: 0.5..8}\n", "no whole numbers"},
		{program + rest + "tune: {threads: [one, two]}\n", `"one" is no whole number`},
		{program + rest + "tune: {threads: [1, 1]}\n", "is there twice"},
		{program + rest + "tune: {a-b: 1..2}\n", "cannot end the name of a variable"},
		{program + rest + "tune: {a: 1..2, A: 1..2}\n", "cannot end the name of a variable"},
		{program + rest + "tasks: 4\ntune: {threads: 1..8}\n", "are of one program"},
		{program + rest + "on_loss: replace\ntune: {threads: 1..8}\n", "restarts as a whole"},
		{program + "state: {dir: state}\ntune: {threads: 1..8}\n", "needs the program's last step"},
		{program + "progress: {of: 100}\ntune: {threads: 1..8}\n", "needs a state"},
		{"name: own\ncloud: local\nresources: {count: 2, any_of: [{type: c3.xlarge}]}\ntrain: {app: mf, data: r.csv, clocks: 40}\ntune: {threads: 1..8}\n", "has knobs, which programs have"},
	} {
		job, err := parse(filepath.Join(t.TempDir(), "job.yaml"), []byte(c.text), noEnvironment)
		switch {
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%s: %v, not %q", c.text, err, c.fault)
		case c.fault == "" && err != nil:
			t.Errorf("%s: %v", c.text, err)
		case c.fault == "":
			again, err := parse("again.yaml", job.Resolved(), noEnvironment)
			want := []trials.Range{{Name: "prefetch", Values: []string{"4", "0", "2"}}, {Name: "threads", Low: 1, High: 8, Whole: true}}
			if err != nil || !reflect.DeepEqual(again.Knobs(), want) || job.TunesTraining() {
				t.Errorf("%s: knobs %+v, %v", job.Resolved(), again.Knobs(), err)
			}
		}
	}
}

// `tune: true` keeps its meaning.
func TestTuningOfTraining(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"p.csv", "c.csv", "r.csv"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for text, on := range map[string]bool{"tune: true\n": true, "tune: false\n": false, "": false} {
		job, err := parse(filepath.Join(dir, "job.yaml"), []byte("name: own\ncloud: local\npolicy: tierml\nresources: {count: 2, any_of: [{type: c3.xlarge}]}\n"+
			"reliable: {type: c3.xlarge}\ntrain: {app: mf, data: r.csv, clocks: 40}\nlocal: {prices: p.csv, catalog: c.csv, start: 2014-03-11T12:00:00Z}\n"+text), noEnvironment)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse("again.yaml", job.Resolved(), noEnvironment)
		if err != nil || job.TunesTraining() != on || again.TunesTraining() != on || strings.Contains(string(job.Resolved()), "tune: true") != on {
			t.Errorf("%q: %v", text, err)
		}
	}
}
