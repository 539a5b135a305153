package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/python/pythontest"
)

// example makes a copy of a job file of examples/programs in a site, next to links to what it needs, and changes it.
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
	// The cloud's bill is reckoned again from the site's prices.
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

// disturb waits for a run's end and, for so long, evicts or kills its oldest machine every 20 to 40 seconds.
func (s *site) disturb(run string, long time.Duration) (times int) {
	s.t.Helper()
	chance := rand.New(rand.NewPCG(1, 2))
	began := time.Now()
	pause := func() time.Time {
		return time.Now().Add(20*time.Second + time.Duration(chance.Int64N(int64(20*time.Second))))
	}
	for next := pause(); ; time.Sleep(100 * time.Millisecond) {
		if len(programLines(s.journal(run), journal.Done, "")) > 0 {
			return times
		}
		now := time.Now()
		switch {
		case now.Sub(began) > long+20*time.Minute:
			s.t.Fatalf("%s does not end", run)
		case now.After(next) && now.Sub(began) < long:
			s.order(run, []string{"evict oldest", "kill oldest"}[chance.IntN(2)])
			times, next = times+1, pause()
		}
	}
}

// The examples of programs run to their ends on the fake cloud, with real processes that are evicted and killed on the way.
func TestProgramExamples(t *testing.T) {
	if os.Getenv("TIERML_PROGRAMS") == "" {
		t.Skip("they take minutes, and install what they need: make test-programs")
	}
	python := pythontest.Interpreter(t, "torch")
	for name, ends := range map[string]string{
		"xgboost":        `\[300\]`,
		"sklearn":        `accuracy 0\.9\d* after 200 batches`,
		"torch-finetune": `the model is ([0-9a-f]{16})`,
		"inference":      `file 10 of 10`,
		"sweep":          `'accuracy': `,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			var changes []string
			storm, _ := time.ParseDuration(os.Getenv("TIERML_PROGRAMS_STORM"))
			steps := "300"
			if storm > 0 && name == "torch-finetune" {
				steps = "4000"
				changes = []string{"hours: 1 ", "hours: 10 ", "hours: 1\n", "hours: 10\n", "envs: {", "envs: {STEPS: " + steps + ", "}
			} else if storm > 0 {
				t.Skip("it is too short for a storm")
			}
			p := s.start("run", "-y", s.example(name, changes...))
			if storm > 0 {
				s.until(p, name+"-1", "some steps", reached(1))
			}
			t.Logf("%d machines were taken besides those of the job file", s.disturb(name+"-1", storm))
			printed := p.wait(exitDone)
			s.nothingRuns()
			s.addsUp(name + "-1")
			entries := s.journal(name + "-1")
			checkEntries(t, entries)
			outcome := outcomes(programLines(entries, journal.ProgramEnd, ""))
			if number(outcome, "lost") == 0 || number(outcome, "stopped") == 0 || number(outcome, "failed") != 0 {
				t.Errorf("its attempts have come to %v", outcome)
			}
			if name == "sweep" || name == "inference" {
				s.start("state", name+"-1", "--to", "results").wait(exitDone)
				files, err := filepath.Glob(s.path("results", "task-*", map[string]string{"sweep": "result.json", "inference": "*.txt"}[name]))
				if want := map[string]int{"sweep": 24, "inference": 200}[name]; err != nil || len(files) != want {
					t.Errorf("%d of %d results: %v", len(files), want, err)
				}
			}
			logs := s.start("logs", name+"-1").wait(exitDone)
			found := regexp.MustCompile(ends).FindStringSubmatch(logs)
			if found == nil {
				t.Fatalf("no %q in its output:\n%s\n%s", ends, tail(logs, 2000), tail(printed, 2000))
			}
			if name == "torch-finetune" {
				whole := exec.Command(python, "finetune.py")
				whole.Dir = "../../examples/programs/torch-finetune"
				whole.Env = append(os.Environ(), "PYTHONPATH=../../../python", "OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1", "PAUSE=0", "STEPS="+steps)
				out, err := whole.CombinedOutput()
				if err != nil || !strings.Contains(string(out), found[0]) {
					t.Errorf("undisturbed %s, %v; on spot machines %s", out, err, found[0])
				}
			}
		})
	}
}
