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

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/python/pythontest"
)

// storm is a program example made to last, and what must hold when machines are reclaimed all the time.
type storm struct {
	name    string
	changes []string          // of its job file, in addition to those of all
	code    map[string]string // of files of its workdir: old and new text
	step    time.Duration     // the least wall-clock time between steps of its progress
	keeps   bool              // it is saved between steps by tierml.keep: no step is repeated after a notice
	ends    string            // in its output
}

// storms last up to ten minutes when undisturbed.
var storms = []storm{
	{name: "xgboost", code: map[string]string{"train.py": "ROUNDS, EACH = 300, 5|ROUNDS, EACH = 1500, 5|time.sleep(0.8)|time.sleep(1.8)"},
		changes: []string{"of: 300", "of: 1500"}, step: 1800 * time.Millisecond / 5, ends: `\[1500\]`},
	{name: "sklearn", code: map[string]string{"train.py": "kept.steps(200)|kept.steps(3600)"}, step: 150 * time.Millisecond, keeps: true,
		ends: `accuracy 0\.9\d* after 3600 batches`},
	{name: "torch-finetune", changes: []string{"envs: {", "envs: {STEPS: 1500, ", "of: 300", "of: 1500"}, step: 100 * time.Millisecond, keeps: true,
		ends: `the model is ([0-9a-f]{16})`},
	{name: "inference", code: map[string]string{"classify.py": "time.sleep(0.3)|time.sleep(12)"}, step: 12 * time.Second, ends: `file 10 of 10`},
	{name: "sweep", changes: []string{"  feedback: [{at: 5, keep: 8}, {at: 15, keep: 2}]\n", ""}, code: map[string]string{"train.py": "time.sleep(0.15)|time.sleep(3)"}, step: 3 * time.Second, keeps: true, ends: `'accuracy': `},
}

// disturb evicts or kills a machine of a run at a random moment every 20 to 40 seconds for that long, and waits for the run to end.
func (s *site) disturb(run string, long time.Duration) (times int) {
	s.t.Helper()
	chance := rand.New(rand.NewPCG(1, 2))
	pause := func() time.Time {
		return time.Now().Add(20*time.Second + time.Duration(chance.Int64N(int64(20*time.Second))))
	}
	for began, next := time.Now(), pause(); ; time.Sleep(100 * time.Millisecond) {
		if len(programLines(s.journal(run), journal.Done, "")) > 0 {
			return times
		}
		now := time.Now()
		switch {
		case now.Sub(began) > 3*long+20*time.Minute:
			s.t.Fatalf("%s does not end", run)
		case now.After(next) && now.Sub(began) < long:
			s.order(run, []string{"evict oldest", "kill oldest", "evict newest", "kill newest"}[chance.IntN(4)])
			times, next = times+1, pause()
		}
	}
}

// TestProgramStorm removes machines of each example at random moments, with and without a notice: make -C lab storm-programs.
func TestProgramStorm(t *testing.T) {
	long, err := time.ParseDuration(os.Getenv("TIERML_PROGRAMS_STORM"))
	if err != nil {
		t.Skip("it takes an hour: make -C lab storm-programs")
	}
	for _, one := range storms {
		t.Run(one.name, func(t *testing.T) { one.blow(t, long) })
	}
}

func (o *storm) blow(t *testing.T, long time.Duration) {
	s := newSite(t)
	job := s.example(o.name, append([]string{"hours: 1 ", "hours: 10 ", "hours: 1\n", "hours: 10\n", "hours: 0.7\n", "hours: 10\n", "hours: 0.1", "hours: 2", "\nlocal:", "\nmax_duration: 200h\nlocal:"}, o.changes...)...)
	s.own(o.name, o.code)
	p := s.start("run", "-y", job)
	s.until(p, o.name+"-1", "some steps", reached(1))
	times := s.disturb(o.name+"-1", long)
	printed := p.wait(cli.ExitDone)
	s.nothingRuns()
	s.addsUp(o.name + "-1")
	entries := s.journal(o.name + "-1")
	checkEntries(t, entries)
	o.check(t, entries, times)
	logs := s.start("logs", o.name+"-1").wait(cli.ExitDone)
	found := regexp.MustCompile(o.ends).FindStringSubmatch(logs)
	if found == nil {
		t.Fatalf("no %q in its output:\n%s\n%s", o.ends, tail(logs, 2000), tail(printed, 2000))
	}
	s.resultsOf(o.name, 24)
	if o.name == "torch-finetune" {
		s.sameModel(found[0], "1500")
	}
	if t.Failed() {
		keep := filepath.Join(os.TempDir(), "storm-"+o.name+".journal")
		t.Logf("its journal: %s, %v", keep, os.WriteFile(keep, s.read(o.name+"-1", rundir.JournalFile), 0o644))
	}
}

// own gives an example its own workdir, and changes files in it.
func (s *site) own(name string, changes map[string]string) {
	s.t.Helper()
	dir := s.path("programs", name)
	original, err := filepath.EvalSymlinks(dir)
	if err == nil {
		err = os.Remove(dir)
	}
	if err == nil {
		err = os.CopyFS(dir, os.DirFS(original))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	for file, pairs := range changes {
		text := string(must(os.ReadFile(filepath.Join(dir, file)))(s.t))
		all := strings.Split(pairs, "|")
		for i := 0; i < len(all); i += 2 {
			if !strings.Contains(text, all[i]) {
				s.t.Fatalf("%s has no %q", file, all[i])
			}
		}
		s.write(filepath.Join("programs", name, file), strings.NewReplacer(all...).Replace(text))
	}
}

// check examines the attempts' results: how much work was lost at each loss.
func (o *storm) check(t *testing.T, entries []journal.Entry, times int) {
	t.Helper()
	const (
		every = 2 * time.Second // 2m at 60 times the clock's speed; 5m for the sweep
		save  = 3 * time.Second // a state in transfer, on a busy machine
	)
	within := every + save + o.step
	if o.name == "sweep" {
		within += 3 * time.Second
	}
	noticed := map[string]bool{}
	ended := map[string]journal.Entry{}
	count := map[string]int{}
	var most, again int64
	for _, e := range entries {
		switch e.Kind {
		case journal.Notice:
			noticed[e.Instance] = true
		case journal.ProgramEnd:
			count[e.Outcome]++
			ended[e.Program] = e
		case journal.ProgramStart:
			was, before := ended[e.Program]
			if !before {
				continue
			}
			back := was.Clock - e.Clock
			switch {
			case was.Outcome == journal.Stopped && o.keeps:
				again += max(back, 0)
			case was.Outcome == journal.Lost:
				most = max(most, back)
			}
			if was.Outcome == journal.Lost && noticed[was.Instance] {
				count["lost after a notice"]++
			}
		}
	}
	t.Logf("%d machines were taken besides those of the job file and the market; attempts: %v; at most %d steps were done again after a loss, %d after notices",
		times, count, most, again)
	if time.Duration(most)*o.step > within {
		t.Errorf("after a loss %d steps of %s each were done again, more than %s", most, o.step, within)
	}
	if again > 0 {
		t.Errorf("%d steps were done again after notices", again)
	}
	if count[journal.Stopped] == 0 || count[journal.Lost] == 0 || count[journal.Failure] > 0 {
		t.Errorf("its attempts have come to %v", count)
	}
}

// resultsOf checks that each task of an array has left its result.
func (s *site) resultsOf(name string, trials int) {
	s.t.Helper()
	pattern := map[string]string{"sweep": "result.json", "inference": "*.txt"}[name]
	if pattern == "" {
		return
	}
	s.start("state", name+"-1", "--into", "results").wait(cli.ExitDone)
	files, err := filepath.Glob(s.path("results", "task-*", pattern))
	if want := map[string]int{"sweep": trials, "inference": 200}[name]; err != nil || len(files) != want {
		s.t.Errorf("%d of %d results: %v", len(files), want, err)
	}
}

// sameModel checks that the fine-tuned model is the same as without any eviction.
func (s *site) sameModel(model, steps string) {
	s.t.Helper()
	whole := exec.Command(pythontest.Interpreter(s.t, "torch"), "finetune.py")
	whole.Dir = "../../examples/programs/torch-finetune"
	whole.Env = append(os.Environ(), "PYTHONPATH=../../../python", "OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1", "PAUSE=0", "STEPS="+steps)
	out, err := whole.CombinedOutput()
	if err != nil || !strings.Contains(string(out), model) {
		s.t.Errorf("undisturbed %s, %v; on spot machines %s", out, err, model)
	}
}
