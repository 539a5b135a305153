package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/python/pythontest"
)

// example copies a job file of examples/programs into a site, next to links to what it needs, and changes it.
func (s *site) example(name string, changes ...string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join("../../examples/programs", name+".yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.MkdirAll(s.path("programs"), 0o755); err != nil {
		s.t.Fatal(err)
	}
	for link, to := range map[string]string{"data": "../../examples/data", "programs/" + name: "../../examples/programs/" + name} {
		full, err := filepath.Abs(to)
		if err != nil {
			s.t.Fatal(err)
		}
		if err := os.Symlink(full, s.path(link)); err != nil {
			s.t.Fatal(err)
		}
	}
	// The cloud's bill is recomputed from the site's prices.
	for to, from := range map[string]string{"prices.csv": "aws-us-west-1a-c3-2014.csv.gz", "catalog.csv": "aws-ondemand-us-west-1-2015-04-02.csv"} {
		text, err := os.ReadFile(filepath.Join("../../examples/data", from))
		if err != nil {
			s.t.Fatal(err)
		}
		s.write(to, string(text))
	}
	job := filepath.Join("programs", name+".yaml")
	s.write(job, strings.NewReplacer(changes...).Replace(string(text)))
	return job
}

// The demo writes a valid job. make demo runs it to the end.
func TestDemoBegins(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	demo := s.start("demo")
	s.until(demo, "demo-1", "a machine", func(entries []journal.Entry) bool { return count(entries, journal.Join) > 0 })
	demo.abandon()
	s.poll("the end of its machines", func() bool { return len(s.processesBelow()) == 0 })
}

// A program on GPUs is planned on recorded prices by performance per price, and replayed from past starts.
func TestGPUsOnRecordedPrices(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	job := s.example("gpu")
	plan := strings.Join(strings.Fields(s.start("plan", job).wait(cli.ExitDone)), " ")
	for _, words := range []string{"✓ p3.2xlarge", "p2.xlarge has K80:1 (12 GB each), p3.2xlarge has V100:1 (16 GB each); machines of the local cloud are processes",
		"$15.30 1 x p3.2xlarge for 5h, undisturbed"} {
		if !strings.Contains(plan, words) {
			t.Errorf("%q is not in the plan:\n%s", words, plan)
		}
	}
	if out := s.start("dry-run", job, "--starts", "2", "--policy", "checkpoint,on-demand").wait(cli.ExitDone); !strings.Contains(out, "on-demand") || strings.Contains(out, "0.0 % of") {
		t.Error(out)
	}
	s.write(job, strings.Replace(string(must(os.ReadFile(s.path(job)))(t)), "gpu: V100:1", "gpu: L40S:1", 1))
	if out := s.start("plan", job).wait(cli.ExitUsage); !strings.Contains(out, "no machine on sale has gpu: L40S:1") {
		t.Error(out)
	}
}

// The program examples run to completion on the fake cloud, with real processes that are evicted and killed on the way.
func TestProgramExamples(t *testing.T) {
	if os.Getenv("TIERML_PROGRAMS") == "" {
		t.Skip("they take minutes, and install what they need: make test-programs")
	}
	pythontest.Interpreter(t, "torch")
	for name, ends := range map[string]string{
		"xgboost":        `\[300\]`,
		"sklearn":        `accuracy 0\.9\d* after 200 batches`,
		"torch-finetune": `the model is ([0-9a-f]{16})`,
		"elastic":        `loss 0\.\d+ after 1500 steps`,
		"inference":      `file 10 of 10`,
		"sweep":          `'accuracy': `,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			p := s.start("run", "-y", s.example(name))
			printed := p.wait(cli.ExitDone)
			s.nothingRuns()
			s.addsUp(name + "-1")
			entries := s.journal(name + "-1")
			checkEntries(t, entries)
			outcome := outcomes(programLines(entries, journal.ProgramEnd, ""))
			if number(outcome, "lost") == 0 || number(outcome, "stopped") == 0 || number(outcome, "failed") != 0 {
				t.Errorf("its attempts have come to %v", outcome)
			}
			s.resultsOf(name, 2)
			logs := s.start("logs", name+"-1").wait(cli.ExitDone)
			found := regexp.MustCompile(ends).FindStringSubmatch(logs)
			if found == nil {
				t.Fatalf("no %q in its output:\n%s\n%s", ends, tail(logs, 2000), tail(printed, 2000))
			}
			if name == "torch-finetune" {
				s.sameModel(found[0], "300")
			}
			if name == "sweep" {
				s.bestTrialAlone()
			}
		})
	}
}

// bestTrialAlone compares the sweep's best trial with an undisturbed process that has the same settings, and checks that most trials were
// dropped.
func (s *site) bestTrialAlone() {
	s.t.Helper()
	p := s.report("sweep-1").Programs
	if p.Done != 2 || p.Dropped != 22 || len(p.Trials) != 24 {
		s.t.Fatalf("%d trials are done and %d dropped, of %d", p.Done, p.Dropped, len(p.Trials))
	}
	best, sum := p.Trials[0], market.USD(0)
	for _, trial := range p.Trials {
		sum += trial.USD
	}
	if total := s.report("sweep-1").Totals.Total; sum > total || sum == 0 { // most of a paid hour may lie beyond the end
		s.t.Errorf("the trials' shares are $%s of $%s", sum, total)
	}
	state := s.t.TempDir()
	alone := exec.Command("python3", "train.py")
	alone.Dir = "../../examples/programs/sweep"
	alone.Env = append(os.Environ(), "PYTHONPATH=../../../python", "PYTHONDONTWRITEBYTECODE=1", "TIERML_STATE="+state)
	for name, value := range best.Settings {
		alone.Env = append(alone.Env, name+"="+value)
	}
	if out, err := alone.CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	undisturbed := string(must(os.ReadFile(filepath.Join(state, "result.json")))(s.t))
	if got := string(must(os.ReadFile(s.path("results", fmt.Sprintf("task-%d", best.Task), "result.json")))(s.t)); got != undisturbed {
		s.t.Errorf("the best trial has %s, alone %s", got, undisturbed)
	}
}
