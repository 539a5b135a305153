package kube_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/watch/shared"
)

// what matches what a job does, in the example's file.
var what = regexp.MustCompile(`(?s)\ntrain:\n.*?\n\n`)

// sharing is a folder with a file of shared hosts, which are pods, and jobs that have slots in them.
type sharing struct {
	*world
	dir   string
	alone map[string]string // folders in which each job is by itself
}

// share writes shared.yaml: at most this many spot pods of four vCPUs, and one that stays.
func (w *world) share(hosts int) *sharing {
	w.Helper()
	s := &sharing{w, w.TempDir(), map[string]string{}}
	s.write("shared", "hosts: {keep: 5s}", "count: 3", fmt.Sprintf("count: %d", hosts), "cpu: 1", "cpu: 4", "memory: 512MB", "memory: 4GB", "disk: 1GB", "disk: 4GB")
	return s
}

// write writes the example, which does something else, as a file of the folder.
func (s *sharing) write(name, does string, more ...string) {
	s.Helper()
	s.alone[name] = s.job(name, more...)
	path := filepath.Join(s.alone[name], "job.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	if does != "" {
		text = what.ReplaceAll(text, []byte("\n"+does+"\n\n"))
	}
	for _, file := range []string{path, filepath.Join(s.dir, name+".yaml")} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			s.Fatal(err)
		}
	}
}

// start starts the program in the folder. Its end is an error unless it is as expected.
func (s *sharing) start(arguments ...string) (cmd *exec.Cmd, ended <-chan error) {
	s.Helper()
	out, err := os.Create(filepath.Join(s.dir, arguments[0]+"-"+filepath.Base(arguments[len(arguments)-1])+".log"))
	if err != nil {
		s.Fatal(err)
	}
	defer out.Close() // the process has its own
	cmd = exec.CommandContext(s.Context(), s.binary, arguments...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, append(os.Environ(), "HOME="+s.dir, "TMPDIR="+s.dir), out, out
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		if text, _ := os.ReadFile(out.Name()); err != nil { // say why
			err = fmt.Errorf("tierml %s: %w\n%s", strings.Join(arguments, " "), err, text)
		}
		done <- err
	}()
	s.Cleanup(func() { _ = cmd.Process.Kill() }) // where the test has failed
	return cmd, done
}

// keep starts the shared hosts, or takes them over.
func (s *sharing) keep(of ...string) (cmd *exec.Cmd, ended <-chan error) {
	s.Helper()
	starts := s.lines(s.dir, "shared-1", journal.Start)
	cmd, ended = s.start(append([]string{"hosts", "-y", "--plain"}, of...)...)
	s.until("the shared hosts serve", func() bool {
		_, err := os.Stat(filepath.Join(s.dir, rundir.Root, "shared-1", desk.DoorFile))
		return err == nil && s.lines(s.dir, "shared-1", journal.Start) > starts
	})
	return cmd, ended
}

func (s *sharing) run(name string) <-chan error {
	s.Helper()
	_, ended := s.start("run", "-y", "--plain", "--on", "shared-1", name+".yaml")
	return ended
}

// view reads what hosts ps says.
func (s *sharing) view() (v shared.View) {
	s.Helper()
	s.ask(&v, "hosts", "ps", "shared-1")
	return v
}

func (s *sharing) ask(answer any, arguments ...string) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), s.binary, append(arguments, "-o", "json")...)
	cmd.Dir = s.dir
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, answer)
	}
	if err != nil {
		s.Fatalf("%v: %v\n%s", arguments, err, out)
	}
}

// addUp checks that the jobs' shares and the idle one are what the hosts cost, and what each job's report says.
func (s *sharing) addUp(jobs ...string) {
	s.Helper()
	var report struct {
		Totals struct {
			Total market.USD `json:"total"`
		} `json:"totals"`
	}
	v, sum, of := s.view(), market.USD(0), map[string]market.USD{}
	for _, row := range v.Bill {
		usd, err := market.ParseUSD(row.USD)
		if err != nil {
			s.Fatal(err)
		}
		name, _, _ := strings.Cut(row.Job, "-")
		sum, of[name] = sum+usd, usd
	}
	s.ask(&report, "report", "shared-1")
	if sum == 0 || sum.String() != v.Total || report.Totals.Total != sum {
		s.Errorf("shares are $%s of $%s, and the hosts' report says $%s: %v", sum, v.Total, report.Totals.Total, of)
	}
	for _, job := range jobs {
		if s.ask(&report, "report", job+"-1"); report.Totals.Total != of[job] || of[job] == 0 {
			s.Errorf("%s: its report says $%s, the hosts $%s", job, report.Totals.Total, of[job])
		}
	}
	s.Logf("$%s: %v", v.Total, of)
}

// nothingTwice checks that no clock of a job was repeated or lost.
func (s *sharing) nothingTwice(job string) {
	s.Helper()
	var report struct {
		Training struct {
			Redone int   `json:"redone_clocks"`
			Lost   int64 `json:"lost_clocks"`
		} `json:"training"`
	}
	if s.ask(&report, "report", job+"-1"); report.Training.Redone != 0 || report.Training.Lost != 0 {
		s.Errorf("%s: %+v", job, report.Training)
	}
}

// classes writes examples of two classes, and returns where.
func (s *sharing) classes() string {
	s.Helper()
	var text strings.Builder
	text.WriteString("x,y,class\n")
	for i := range 400 {
		fmt.Fprintf(&text, "%d.%d,%d,%d\n", i%2, i%7, i%11, i%2)
	}
	path := filepath.Join(s.dir, "classes.csv")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}

// waited logs how long machines of a run took from their request to their first call.
func (s *sharing) waited(run string) {
	s.Helper()
	entries, _, err := journal.ReadFile(filepath.Join(s.dir, rundir.Root, run, rundir.JournalFile))
	if err != nil {
		s.Fatal(err)
	}
	intended, asked := map[string]journal.Entry{}, map[string]journal.Entry{}
	for _, e := range entries {
		switch e.Kind {
		case journal.Intent:
			intended[e.Token] = e
		case journal.Launch:
			asked[e.Instance] = intended[e.Token]
		case journal.Join:
			if from, known := asked[e.Instance]; known && !from.T.IsZero() {
				s.Logf("%s: %s %s joined %.2f s after its request", run, e.Instance, from.Pool, e.T.Sub(from.T).Seconds())
			}
		}
	}
}

// counts is a program that counts, warned or not, and continues where it was.
const counts = `stop=
trap 'stop=1' TERM
at=$(cat "$TIERML_STATE/at" 2>/dev/null || echo 0)
while [ -z "$stop" ] && [ ! -e "$ENOUGH" ]; do
  at=$((at + 1))
  echo "$at" >"$TIERML_STATE/at.tmp"
  while [ -e "$TIERML_STATE/at.tmp" ]; do mv "$TIERML_STATE/at.tmp" "$TIERML_STATE/at"; done # SIGTERM ends mv, too
  echo "step $at"
  sleep 0.1
done
[ -z "$stop" ] || { echo stopped; exit 143; }
`

// Two training jobs and a program share hosts that are pods: one that stays, and others on a spot node. The pod with the program is deleted,
// and the process that keeps the hosts is killed. Models are those of single processes, nothing is done twice after the notice, shares add up
// to what the pods cost, and nothing is left.
func TestRealHosts(t *testing.T) {
	w := newWorld(t)
	s := w.share(2)
	quiet := []string{"max_duration: 2h", "max_duration: 2h\ncheckpoint: {every: 10m}", "count: 3", "count: 2"}
	s.write("mf", "", append(quiet, "clocks: 60", "clocks: 6000")...)
	s.write("mlr", "train: {app: mlr, clocks: 4000, data: "+s.classes()+", splits: 8, partitions: 4, deterministic: true, params: {target: class}}", quiet...)
	enough := filepath.Join(s.dir, "enough")
	s.write("own", "workdir: work\nrun: bash count.sh\nstate: {dir: ckpt, every: 1s}\nprogress: {line: 'step (\\d+)', of: 1000}\nhours: 0.1\nenvs: {ENOUGH: "+enough+"}",
		"reliable: {type: n2-standard-4, count: 1}", "", "count: 3", "count: 1")
	if err := os.Mkdir(filepath.Join(s.dir, "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "work", "count.sh"), []byte(counts), 0o600); err != nil {
		t.Fatal(err)
	}
	keeper, ended := s.keep("shared.yaml")
	own := s.run("own")
	w.until("the program has its slot", func() bool { return w.lines(s.dir, "own-1", journal.ProgramStart) == 1 })
	victim := s.view().Hosts[0].Host
	mf, mlr := s.run("mf"), s.run("mlr")
	w.until("both train", func() bool {
		return w.lines(s.dir, "mf-1", journal.ClockDone) > 100 && w.lines(s.dir, "mlr-1", journal.ClockDone) > 100
	})
	if v := s.view(); len(v.Hosts) > 3 || len(v.Jobs) != 3 {
		t.Errorf("%+v", v)
	}
	w.kubectl("--namespace", w.namespace, "delete", "pod", victim, "--wait=false")
	w.until("the program continues elsewhere", func() bool { return w.lines(s.dir, "own-1", journal.ProgramStart) == 2 })
	if err := keeper.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-ended // killed
	_, ended = s.keep("--resume", filepath.Join(rundir.Root, "shared-1"))
	if err := os.WriteFile(enough, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, run := range []<-chan error{own, mf, mlr} {
		if err := <-run; err != nil {
			t.Error(err)
		}
	}
	if out, err := w.tierml(s.dir, "stop", "shared-1"); err != nil {
		t.Error(out, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	s.addUp("own", "mf", "mlr")
	for _, name := range []string{"mf", "mlr"} {
		s.nothingTwice(name)
		w.checkModel(s.alone[name], filepath.Join(s.dir, rundir.Root, name+"-1"))
		s.waited(name + "-1")
	}
	s.waited("shared-1")
	s.countedOn()
	if out, err := w.tierml(s.dir, "leaks", "shared.yaml"); err != nil || !strings.Contains(out, "No machine of cluster tierml") {
		t.Errorf("%v\n%s", err, out)
	}
	w.checkEmpty()
}

// countedOn checks that the warned program continued with the step after its last.
func (s *sharing) countedOn() {
	s.Helper()
	steps := func(start int) (all []string) {
		text, err := os.ReadFile(filepath.Join(s.dir, rundir.Root, "own-1", rundir.LogsDir, fmt.Sprintf("rank-0.%d.log", start)))
		if err != nil {
			s.Fatal(err)
		}
		return regexp.MustCompile(`step (\d+)`).FindAllString(string(text), -1)
	}
	first, second := steps(1), steps(2)
	if last := len(first); last == 0 || len(second) == 0 || second[0] != fmt.Sprintf("step %d", last+1) || first[last-1] != fmt.Sprintf("step %d", last) {
		s.Errorf("after %d steps it continued with %q", len(first), second[:min(len(second), 1)])
	}
}
