package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/raced"
	"github.com/tierml/tierml/internal/rundir"
)

// patience is how long a test waits for what must happen. No test proves speed: it is long.
const patience = 4 * time.Minute

// binary is the program as a user has it: machines are processes of it, so a test's own binary will not do.
var binary struct {
	once sync.Once
	dir  string
	err  error
}

func builtBinary(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short is given, and this runs whole jobs: leave -short out")
	}
	binary.once.Do(func() {
		if binary.dir, binary.err = os.MkdirTemp("", "tierml-e2e-"); binary.err != nil {
			return
		}
		args := []string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(binary.dir, "tierml")}
		if raced.Detector {
			args = append(args, "-race")
		}
		if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
			binary.err = fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	})
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	return filepath.Join(binary.dir, "tierml")
}

// withBinary removes builtBinary's files.
type withBinary struct{ *testing.M }

func (w withBinary) Run() int {
	defer func() { _ = os.RemoveAll(binary.dir) }()
	// Most tests wait for processes that wait for their clocks; three tests per processor keep the processors busy, two with the race
	// detector.
	each := 3
	if raced.Detector {
		each = 2
	}
	if err := flag.Set("test.parallel", strconv.Itoa(each*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	return w.M.Run() // parses the command line's -parallel
}

// site is a working directory with all that the jobs of a test need.
type site struct {
	t      *testing.T
	dir    string
	panics bool // machines panic on purpose
	env    []string
}

// steadyPrices are those of a market without evictions of its own.
const steadyPrices = "timestamp,zone,instance_type,product,price\n2014-03-01T00:00:00Z,us-west-1a,c3.large,Linux/UNIX,0.02\n2014-06-03T00:00:00Z,us-west-1a,c3.large,Linux/UNIX,0.02\n"

func newSite(t *testing.T) *site {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, dir: dir}
	for _, name := range []string{"catalog.csv", "prices.csv"} {
		text, err := os.ReadFile(filepath.Join("testdata", "e2e", name))
		if err != nil {
			t.Fatal(err)
		}
		s.write(name, string(text))
	}
	s.write("ratings.csv", ratings())
	t.Cleanup(func() {
		s.checkLogs()
		for _, pid := range s.processes() {
			t.Errorf("process %d is left over; killing it", pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return s
}

// checkLogs looks for messages of machines that crashed because of a bug.
func (s *site) checkLogs() {
	logs, _ := filepath.Glob(s.path(rundir.Root, "*", rundir.LogsDir, "*.log"))
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			s.t.Error(err)
		}
		for _, words := range []string{"panic: ", "fatal error: ", "DATA RACE"} {
			if s.panics && words == "panic: " {
				continue
			}
			if bytes.Contains(text, []byte(words)) {
				s.t.Errorf("%s says:\n%s", filepath.Base(log), text)
			}
		}
	}
}

// ratings returns ratings by people with few tastes, so that there is something to learn.
func ratings() string {
	random := rand.New(rand.NewPCG(3, 3))
	var b strings.Builder
	b.WriteString("user,item,rating\n")
	for user := range 120 {
		for item := range 40 {
			if random.Float64() < 0.5 {
				fmt.Fprintf(&b, "%d,%d,%.2f\n", user, item, float64(user%7-3)*float64(item%5-2)/2+random.NormFloat64())
			}
		}
	}
	return b.String()
}

func (s *site) path(elements ...string) string {
	return filepath.Join(append([]string{s.dir}, elements...)...)
}

func (s *site) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// choices fill in testdata/e2e/job.yaml.
type choices struct {
	Name, Policy, Limits, Notice, Script, Orphan string
	Clocks, Speed, Flops                         int
}

// job writes a job file. Zero choices get defaults.
func (s *site) job(c choices) string {
	s.t.Helper()
	usual := func(p *string, v string) {
		if *p == "" {
			*p = v
		}
	}
	usual(&c.Name, "small")
	usual(&c.Policy, "tierml")
	usual(&c.Notice, "4s")
	usual(&c.Orphan, "1500ms")
	usual(&c.Script, "[]")
	if c.Speed == 0 {
		c.Speed = 60 // the price that the trace raises after an hour is a minute away
	}
	if c.Flops == 0 {
		c.Flops = 50_000
	}
	text, err := template.ParseFiles(filepath.Join("testdata", "e2e", "job.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	var b bytes.Buffer
	if err := text.Execute(&b, c); err != nil {
		s.t.Fatal(err)
	}
	file := c.Name + "-" + c.Policy + ".yaml"
	s.write(file, b.String())
	return file
}

// process is a running tierml.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   bytes.Buffer // to be read after wait
	ended chan error
}

func (s *site) start(args ...string) *process {
	s.t.Helper()
	cmd := exec.Command(builtBinary(s.t), args...)
	cmd.Env = append(os.Environ(), "NO_PROGRESS=1") // on a slow computer it prints some
	cmd.Env = append(cmd.Env, s.env...)
	return s.startCommand(cmd)
}

func (s *site) startCommand(cmd *exec.Cmd) *process {
	s.t.Helper()
	p := &process{t: s.t, cmd: cmd, ended: make(chan error, 1)}
	cmd.Dir, cmd.Stderr = s.dir, &p.out
	if cmd.Stdout == nil {
		cmd.Stdout = &p.out
	}
	cmd.WaitDelay = 20 * time.Second // a process that keeps the output open after the program ends is a leak
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { p.ended <- cmd.Wait() }()
	return p
}

// wait waits for the end and checks the exit code; -1 is death by a signal.
func (p *process) wait(code int) string {
	p.t.Helper()
	var err error
	select {
	case err = <-p.ended:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
		p.t.Fatalf("%v does not end; it has printed:\n%s", p.cmd.Args, p.out.String())
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Fatalf("%v: exit code %d (%v), want %d; it has printed:\n%s", p.cmd.Args, got, err, code, p.out.String())
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		p.t.Errorf("%v has ended, but something still holds its output", p.cmd.Args)
	}
	return p.out.String()
}

// abandon ends a run that is no longer of use; its machines follow.
func (p *process) abandon() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %v: %v", s, err)
	}
}

// journal reads a run's journal so far.
func (s *site) journal(run string) []journal.Entry {
	s.t.Helper()
	entries, _, err := journal.ReadFile(s.path(rundir.Root, run, rundir.JournalFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	return entries
}

// until waits for something to appear in the journal of a running run.
func (s *site) until(p *process, run, what string, there func([]journal.Entry) bool) {
	s.t.Helper()
	s.poll(what, func() bool {
		select {
		case err := <-p.ended:
			s.t.Fatalf("the run ends (%v) before %s:\n%s", err, what, p.out.String())
		default:
		}
		return there(s.journal(run))
	})
}

func (s *site) poll(what string, there func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !there(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// processes returns the binary's processes that work in this directory: runs and their machines. (Without /proc it finds none.)
func (s *site) processes() []int {
	return s.processesOf(func(where string) bool { return where == s.dir })
}

// processesBelow returns those in or below this directory, of any session: a controller's machines have their own.
func (s *site) processesBelow() []int {
	return s.processesOf(func(where string) bool { return where == s.dir || strings.HasPrefix(where, s.dir+"/") })
}

func (s *site) processesOf(here func(where string) bool) (pids []int) {
	found, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range found {
		program, _ := os.Readlink(filepath.Join(dir, "exe"))
		where, _ := os.Readlink(filepath.Join(dir, "cwd"))
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && program == filepath.Join(binary.dir, "tierml") && here(where) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// machine returns the process of an instance of a run's cloud.
func (s *site) machine(run, instance string) int {
	s.t.Helper()
	return s.logging(rundir.Root, run, rundir.LogsDir, instance+".log")
}

// logging returns the process that writes a log.
func (s *site) logging(path ...string) int {
	s.t.Helper()
	for _, pid := range s.processes() {
		if log, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/2", pid)); log == s.path(path...) {
			return pid
		}
	}
	s.t.Fatalf("no process writes %s", filepath.Join(path...))
	return 0
}

func (s *site) read(run, file string) []byte {
	s.t.Helper()
	text, err := os.ReadFile(s.path(rundir.Root, run, file))
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// report makes a run's report by the command line, and checks its total against the bill that another command makes from the cloud's own
// records.
func (s *site) report(run string) cost.Report {
	s.t.Helper()
	var report cost.Report
	s.command(&report, "report", filepath.Join(rundir.Root, run), "-o", "json")
	var bill fakecloud.Bill
	s.command(&bill, "fakecloud", "bill", filepath.Join(rundir.Root, run, rundir.CloudFile),
		"--prices", "prices.csv", "--catalog", "catalog.csv", "-o", "json")
	if report.Totals.Total != bill.Total || bill.Total == 0 {
		s.t.Errorf("%s: the report's total is $%s, the cloud's own bill $%s", run, report.Totals.Total, bill.Total)
	}
	if r := report.Reconciliation; r == nil || !r.Equal {
		s.t.Errorf("%s: the report's own comparison with the bill says %+v", run, r)
	}
	return report
}

func (s *site) command(into any, args ...string) {
	s.t.Helper()
	text := s.start(args...).wait(0)
	if err := json.Unmarshal([]byte(text), into); err != nil {
		s.t.Fatalf("%v: %v\n%s", args, err, text)
	}
}

// order makes something happen in the cloud of a running run: a step in the form that scripts have.
func (s *site) order(run, step string) {
	s.t.Helper()
	log := s.read(run, filepath.Join(rundir.LogsDir, "controller.log"))
	found := regexp.MustCompile(`endpoint=(http://\S+)`).FindAllSubmatch(log, -1)
	if found == nil {
		s.t.Fatalf("the cloud's address is not in the log:\n%s", log)
	}
	s.tell(string(found[len(found)-1][1]), step) // of a resumed run, the last
}

// tell is order for a cloud with a known address.
func (s *site) tell(endpoint, step string) {
	s.t.Helper()
	if err := tellCloud(endpoint, step); err != nil {
		s.t.Fatal(err)
	}
}

func tellCloud(endpoint, step string) error {
	body, err := json.Marshal(map[string]string{"step": step})
	if err != nil {
		return err
	}
	response, err := http.Post(endpoint+"/_control/do", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, _ := io.ReadAll(response.Body)
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", step, response.Status, answer)
	}
	return nil
}
