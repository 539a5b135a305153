package config

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// The trials of an application's sweep are jobs that can be loaded again, each with its own settings and the sweep's feedback; the same job has
// the same trials.
func TestTrialJobs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"p.csv", "c.csv", "r.csv"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := `name: own
cloud: local
resources: {count: 1..4, any_of: [{type: c3.xlarge}]}
start_with: 2
reliable: {type: c3.xlarge}
train: {app: mf, data: r.csv, clocks: 40, params: {rank: 8}}
sweep: {params: {step: log 1e-3..1, batches: [2, 4]}, samples: 6, feedback: [{at: 10, keep: 3}, {at: 20, keep: 1}]}
local: {prices: p.csv, catalog: c.csv, start: 2014-03-11T12:00:00Z}
`
	job, err := parse(filepath.Join(dir, "job.yaml"), []byte(text), noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	again, err := parse("elsewhere.yaml", job.Resolved(), noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[any]bool{}
	for i, trial := range job.TrialJobs() {
		if string(trial.Resolved()) != string(again.TrialJobs()[i].Resolved()) {
			t.Errorf("trial %d of the same job is another", i)
		}
		got, err := parse("trial.yaml", trial.Resolved(), noEnvironment)
		if err != nil {
			t.Fatalf("%v\n%s", err, trial.Resolved())
		}
		step, isNumber := got.Train.Params["step"].(float64)
		if others := fmt.Sprint(got.Train.Params["rank"], " ", got.Train.Params["batches"]); !isNumber || step < 1e-3 || step > 1 || others != "8 2" && others != "8 4" {
			t.Errorf("%v", got.Train.Params)
		}
		if len(got.TrialJobs()) > 0 || len(got.Feedback) != 2 || got.Feedback[0] != (Feedback{10, 3}) || got.StartWith != 2 || got.Tasks != 0 {
			t.Errorf("%s", trial.Resolved())
		}
		seen[step] = true
	}
	if len(seen) != 6 || len(job.Train.Params) != 1 {
		t.Errorf("%d different trials of 6; the job's own settings are %v", len(seen), job.Train.Params)
	}
}
