package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
)

// sharedJobs runs dry-run jobs with more arguments.
func sharedJobs(args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = tierml(append([]string{"dry-run", "jobs"}, args...), nil, &o, &e)
	return code, o.String(), e.String()
}

func TestDryRunOfASweep(t *testing.T) {
	code, out, errOut := sharedJobs("sweep:12:3m", "--hosts", "10x4", "--scheduler", "fifo,h", "--starts", "3", "--seed", "4")
	if code != cli.ExitDone || !strings.Contains(out, "12.0 jobs on the machines of 10x4, 3 times, with 95 % intervals") || !strings.Contains(out, "  h ") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
	for line := range strings.Lines(out) {
		if len([]rune(line)) > 81 {
			t.Errorf("a line of %d columns: %s", len([]rune(line)), line)
		}
	}
	_, out, _ = sharedJobs("sweep:3:3m", "--hosts", "10x4", "--scheduler", "fifo,dorm:0.1,0.5,h")
	for _, name := range []string{"  fifo ", "  dorm:0.1,0.5 ", "  h "} {
		if strings.Count(out, name) != 3 {
			t.Errorf("no three rows of %q: %s", name, out)
		}
	}
}

func TestDryRunOfASweepTwice(t *testing.T) {
	_, out, _ := sharedJobs("sweep:12:3m", "--hosts", "10x4", "--scheduler", "fifo,h", "--starts", "3", "--seed", "4")
	if _, again, _ := sharedJobs("sweep:12:3m", "--hosts", "10x4", "--scheduler", "fifo,h", "--starts", "3", "--seed", "4"); again != out {
		t.Error("the second time it prints something else")
	}
}

// Recorded arrivals on bought machines: the same jobs finish, sooner with more machines, and on demand costs more than spot at a tenth of
// its price.
func TestDryRunOfArrivals(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	arrivals, runtimes := "vc,arrival_s,num_gpus\nother,0,1\n", "runtime_s,num_gpus\n"
	for i := range 20 {
		arrivals += fmt.Sprintf("mine,%d,%d\n", i*600, 1+i%3)
		runtimes += fmt.Sprintf("%d,%d\n", 600+100*i, 1+i%3)
	}
	jobs, times := write("arrivals.csv", arrivals), write("runtimes.csv", runtimes)
	prices := writePrices(t, "us-west-1b", "c3.xlarge", "0.02")
	args := []string{jobs, "--runtimes", times, "--group", "mine", "--prices", prices, "--catalog", "../../examples/data/aws-ondemand-us-west-1-2015-04-02.csv", "--vcpu", "32",
		"--scheduler", "fifo,drf", "-o", "json"}
	code, out, errOut := sharedJobs(args...)
	if code != cli.ExitDone || !strings.Contains(errOut, "is not a recording") {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	type figure struct{ Mean float64 }
	var cells []struct {
		Scheduler, Machines                      string
		Finished, Completion, Least, Dollars, Lo figure
	}
	out = strings.NewReplacer("completion_hours", "Completion", "completion_bound_hours", "Least", `"usd"`, `"Dollars"`, "usd_bound", "Lo").Replace(out)
	if err := json.Unmarshal([]byte(out), &cells); err != nil {
		t.Fatal(err)
	}
	if len(cells) != 4 || cells[0].Machines != "on-demand" || cells[3].Machines != "cost-per-work" || cells[3].Scheduler != "drf" {
		t.Fatalf("%+v", cells)
	}
	for _, c := range cells {
		if c.Finished.Mean != 20 || c.Completion.Mean < c.Least.Mean || c.Dollars.Mean < c.Lo.Mean || c.Lo.Mean <= 0 {
			t.Errorf("%+v", c)
		}
	}
	if cells[3].Dollars.Mean > cells[1].Dollars.Mean {
		t.Errorf("spot costs more than on demand: %+v", cells)
	}
	if _, out, _ := sharedJobs(append(args, "--fixed=mean")...); strings.Count(out, `"machines": "on-demand, fixed at the mean"`) != 2 {
		t.Errorf("--fixed=mean: %s", out)
	}
	for want, wrong := range map[string][]string{
		"choose one with --group: mine, other":        {jobs, "--runtimes", times, "--hosts", "4x4"},
		"the virtual clusters are mine, other":        {jobs, "--runtimes", times, "--group", "none", "--hosts", "4x4"},
		"has no run times: give them with --runtimes": {jobs, "--group", "mine", "--hosts", "4x4"},
		"What do the jobs run on?":                    {jobs, "--group", "mine", "--runtimes", times},
		"did you mean fifo?":                          {"sweep:12:3m", "--scheduler", "fifa"},
		"write sweep:TRIALS:APART":                    {"sweep:12"},
		"it is for sweeps":                            {jobs, "--group", "mine", "--runtimes", times, "--hosts", "4x4", "--scheduler", "asha"},
		"needs --catalog":                             {jobs, "--group", "mine", "--runtimes", times, "--prices", prices},
		"write --fixed or --fixed=mean":               {"sweep:12:3m", "--fixed=most of it"},
		"write COUNTxVCPUS":                           {"sweep:12:3m", "--hosts", "10"},
		"buys for one job by kill and restart":        {jobs, "--group", "mine", "--runtimes", times, "--prices", prices, "--catalog", "../../examples/data/aws-ondemand-us-west-1-2015-04-02.csv", "--vcpu", "32", "--policy", "deadline"},
		"name one file of arrivals":                   {"sweep:12:3m", "job.yaml"},
		"neither Philly's":                            {times},
	} {
		code, _, errOut := sharedJobs(wrong...)
		if code != cli.ExitUsage || !strings.Contains(strings.ToLower(errOut), strings.ToLower(want)) {
			t.Errorf("%v: exit code %d: %s, want %q", wrong, code, errOut, want)
		}
	}
}
