// Package drill runs whole jobs from outside, for the soak, the chaos and the recovery drills: the program as a user has
// it, a fake cloud in a process of its own, and real processes for machines. It makes things happen to them, and reads what
// became of them from the journal, the model file and the process table. It refuses to know what a drill is for, and
// nothing of what goes on inside the processes.
package drill

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/template"
	"time"
)

// Site is a working directory with all that its runs need.
type Site struct {
	Dir    string
	Binary string
}

// Build builds the program, with the given build tags, into a directory.
func Build(ctx context.Context, dir string, tags ...string) (binary string, err error) {
	binary = filepath.Join(dir, "tierml")
	args := []string{"build", "-buildvcs=false", "-trimpath", "-tags", strings.Join(tags, ","), "-o", binary,
		"github.com/tierml/tierml/cmd/tierml"}
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return binary, nil
}

// NewSite makes a site in a directory that is there: a calm market of two machine types.
func NewSite(dir, binary string) (*Site, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("making a site: %w", err)
	}
	s := &Site{Dir: dir, Binary: binary}
	for name, text := range map[string]string{
		"catalog.csv": "region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\n" +
			"us-west-1,c3.large,2,3.75,0.120\nus-west-1,c3.xlarge,2,7.5,0.240\n",
		"prices.csv": "timestamp,zone,instance_type,product,price\n" +
			"2014-03-01T00:00:00Z,us-west-1a,c3.large,Linux/UNIX,0.02\n" +
			"2014-03-01T00:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,0.03\n",
	} {
		if err := s.Write(name, text); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Path gives a path below the site.
func (s *Site) Path(elements ...string) string {
	return filepath.Join(append([]string{s.Dir}, elements...)...)
}

// Write writes a file of the site.
func (s *Site) Write(name, text string) error {
	if err := os.WriteFile(s.Path(name), []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing to the site: %w", err)
	}
	return nil
}

// Job is what a job file says.
type Job struct {
	Name, Policy                string
	Machines, Reliable          int
	App, Data, Params           string // Params in YAML, as "{rank: 4}"
	Clocks, Splits, Partitions  int
	Consistency                 string // lines below train:, as "staleness: 2"
	TwoAbove, ThreeAbove        float64
	Heartbeat, Dead, Orphan     time.Duration
	Notice, Boot                time.Duration
	FlopsPerVCPU, Speed         float64
	Seed                        uint64
	EvaluateEvery               int
	MaxPriceLarge, MaxPriceXLrg float64
	Extra                       string // more lines of the top level
}

const jobFile = `name: {{.Name}}
cloud: local
resources:
  count: {{.Machines}}
  any_of:
    - {type: c3.large, max_price: 0.10}
    - {type: c3.xlarge, max_price: 0.10}
reliable: {type: c3.large, count: {{.Reliable}}}
policy: {{.Policy}}
max_duration: 10000h
orphan_after: {{.Orphan}}
heartbeat: {{.Heartbeat}}
dead_after: {{.Dead}}
seed: {{.Seed}}
{{.Extra}}
train:
  app: {{.App}}
  data: {{.Data}}
  holdout: 0.1
  clocks: {{.Clocks}}
  splits: {{.Splits}}
  partitions: {{.Partitions}}
  evaluate_every: {{.EvaluateEvery}}
  params: {{.Params}}
  {{.Consistency}}
stages: {two_above: {{.TwoAbove}}, three_above: {{.ThreeAbove}}}
local:
  prices: prices.csv
  catalog: catalog.csv
  start: 2014-04-01T00:00:00Z
  speed: {{.Speed}}
  notice: {{.Notice}}
  boot: {{.Boot}}
  flops_per_vcpu: {{printf "%.0f" .FlopsPerVCPU}}
`

// WriteJob writes a job file and gives its name. What is not set has a usual value.
func (s *Site) WriteJob(j Job) (name string, err error) {
	usual(&j.Policy, "tierml")
	usual(&j.Params, "{}")
	usual(&j.Reliable, 1)
	usual(&j.TwoAbove, 1)
	usual(&j.ThreeAbove, 3)
	usual(&j.Heartbeat, 500*time.Millisecond)
	usual(&j.Dead, 3*time.Second)
	usual(&j.Orphan, 10*time.Second)
	usual(&j.Notice, 3*time.Second)
	usual(&j.Boot, 100*time.Millisecond)
	usual(&j.Speed, 600)
	usual(&j.EvaluateEvery, 10)
	var b strings.Builder
	if err := template.Must(template.New("job").Parse(jobFile)).Execute(&b, j); err != nil {
		return "", fmt.Errorf("writing the job: %w", err)
	}
	name = j.Name + ".yaml"
	return name, s.Write(name, b.String())
}

func usual[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// Process is a program under way.
type Process struct {
	cmd   *exec.Cmd
	out   *os.File
	ended chan struct{}
	err   error // once it has ended
}

// start starts the program in the site; what it prints goes to a file.
func (s *Site) start(printed string, args ...string) (*Process, error) {
	out, err := os.OpenFile(s.Path(printed), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", args[0], err)
	}
	cmd := exec.Command(s.Binary, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, out, out
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", args[0], err)
	}
	p := &Process{cmd: cmd, out: out, ended: make(chan struct{})}
	go func() { // ends with the process
		p.err = cmd.Wait()
		_ = out.Close()
		close(p.ended)
	}()
	return p, nil
}

// Ask runs the program in the site to its end and gives what it printed.
func (s *Site) Ask(args ...string) (printed string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.Binary, args...)
	cmd.Dir = s.Dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("tierml %s: %w", strings.Join(args, " "), err)
	}
	return string(out), err
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // it may have ended

// End asks the process to end, insists after a while, and waits for it.
func (p *Process) End() {
	p.Signal(syscall.SIGINT)
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		p.Signal(syscall.SIGKILL)
		<-p.ended
	}
}

// Processes are those of the binary that work in this site, beside those that are named.
func (s *Site) Processes(beside ...*Process) (pids []int) {
	found, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range found {
		program, _ := os.Readlink(filepath.Join(dir, "exe"))
		where, _ := os.Readlink(filepath.Join(dir, "cwd"))
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || program != s.Binary || where != s.Dir {
			continue
		}
		known := false
		for _, p := range beside {
			known = known || p != nil && p.PID() == pid
		}
		if !known {
			pids = append(pids, pid)
		}
	}
	return pids
}

// KillAll ends whatever is left of the site.
func (s *Site) KillAll() {
	for _, pid := range s.Processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
}
