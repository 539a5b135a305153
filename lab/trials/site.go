package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/template"
	"time"
)

// site is a directory with everything that a run needs, and the program.
type site struct{ dir, binary string }

// build builds the program with the applications for drills.
func build(ctx context.Context, dir string) (binary string, err error) {
	binary = filepath.Join(dir, "tierml")
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/tierml/tierml").Output()
	if err != nil {
		return "", fmt.Errorf("finding the product's folder: %w", err)
	}
	args := []string{"-C", strings.TrimSpace(string(root)), "build", "-buildvcs=false", "-trimpath", "-tags", "drill,disable_grpc_modules", "-o", binary, "./cmd/tierml"}
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return binary, nil
}

// catalog and prices are a calm market. Reliable machines have a type of their own if their link is declared.
const (
	catalog = "region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\n" +
		"us-west-1,c3.large,2,3.75,0.120\nus-west-1,c3.xlarge,2,7.5,0.240\nus-west-1,c3.2xlarge,2,15,0.480\n"
	prices = "timestamp,zone,instance_type,product,price\n" +
		"2014-03-01T00:00:00Z,us-west-1a,c3.large,Linux/UNIX,0.02\n" +
		"2014-03-01T00:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,0.03\n" +
		"2015-03-01T00:00:00Z,us-west-1a,c3.large,Linux/UNIX,0.02\n" + // a run starts between the first and the last
		"2015-03-01T00:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,0.03\n"
)

// newSite makes a site in a directory, which may exist.
func newSite(dir, binary string) (s site, err error) {
	if err := os.MkdirAll(filepath.Join(dir, machineLogs), 0o755); err != nil {
		return s, fmt.Errorf("making a site: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil { // as in /proc
		return s, fmt.Errorf("making a site: %w", err)
	}
	s = site{dir, binary}
	for name, text := range map[string]string{"catalog.csv": catalog, "prices.csv": prices, "nothing": "\n"} {
		if err := s.write(name, text); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s site) path(elements ...string) string {
	return filepath.Join(append([]string{s.dir}, elements...)...)
}

func (s site) write(name, text string) error {
	if err := os.WriteFile(s.path(name), []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing to the site: %w", err)
	}
	return nil
}

// job is the content of a job file.
type job struct {
	Name, Policy, App, Data, Params       string // Params in YAML, as "{rank: 4}"
	Machines                              int
	Reliable, MaxPrice, Consistency       string // YAML; Consistency has lines below train:
	Clocks, Splits, Partitions, Evaluate  int
	TwoAbove, ThreeAbove                  float64
	FewServers                            bool // suited to a small model; otherwise half of the transient machines, so that more can go wrong
	Heartbeat, Dead, Orphan, Notice, Boot time.Duration
	FlopsPerVCPU, Speed, Holdout          float64
	Seed                                  uint64
	Extra                                 string // more top-level lines
}

// usual returns a job with the usual settings of trials.
func usual(name, app string) job {
	return job{
		Name: name, Policy: "tierml", App: app, Data: "nothing", Params: "{}", Reliable: "{type: c3.large}", MaxPrice: "0.10",
		Consistency: "deterministic: true", TwoAbove: 1, ThreeAbove: 3, Heartbeat: 500 * time.Millisecond, Dead: 3 * time.Second,
		Orphan: 10 * time.Second, Notice: 3 * time.Second, Boot: 100 * time.Millisecond, Speed: speed, Evaluate: 10, Seed: 1,
		Holdout: 0.1,
	}
}

// speed is the number of market seconds per second.
const speed = 600

// paced returns the compute rate at which a clock of this work takes this long on this many machines, of two vCPUs
// each.
func paced(work float64, clock time.Duration, machines int) float64 {
	return work / clock.Seconds() / 2 / float64(machines)
}

var jobFile = template.Must(template.New("job").Parse(`name: {{.Name}}
cloud: local
resources:
  count: {{.Machines}}
  any_of:
    - {type: c3.large{{if ne .Policy "on-demand"}}, max_price: {{.MaxPrice}}{{end}}}
    - {type: c3.xlarge{{if ne .Policy "on-demand"}}, max_price: {{.MaxPrice}}{{end}}}
reliable: {{.Reliable}}
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
  holdout: {{.Holdout}}
  clocks: {{.Clocks}}
  splits: {{.Splits}}
  partitions: {{.Partitions}}
  evaluate_every: {{.Evaluate}}
  params: {{.Params}}
  {{.Consistency}}
stages: {two_above: {{.TwoAbove}}, three_above: {{.ThreeAbove}}{{if not .FewServers}}, server_bytes: 0{{end}}}
local:
  prices: prices.csv
  catalog: catalog.csv
  start: 2014-04-01T00:00:00Z
  speed: {{.Speed}}
  notice: {{.Notice}}
  boot: {{.Boot}}
  flops_per_vcpu: {{printf "%.0f" .FlopsPerVCPU}}
`))

func (j job) file() string { return j.Name + ".yaml" }

func (s site) writeJob(j job) error {
	var b strings.Builder
	if err := jobFile.Execute(&b, j); err != nil {
		return fmt.Errorf("writing the job: %w", err)
	}
	return s.write(j.file(), b.String())
}

// process is a running program.
type process struct {
	cmd   *exec.Cmd
	out   *os.File
	ended chan struct{}
	err   error // once it has ended
}

// start starts the program in the site. Its output goes to a file.
func (s site) start(printed string, args ...string) (*process, error) {
	out, err := os.OpenFile(s.path(printed), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", args[0], err)
	}
	cmd := exec.Command(s.binary, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, out, out
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", args[0], err)
	}
	p := &process{cmd: cmd, out: out, ended: make(chan struct{})}
	go func() { // ends with the process
		p.err = cmd.Wait()
		_ = out.Close()
		close(p.ended)
	}()
	return p, nil
}

// ask runs the program in the site to its end and returns its output.
func (s site) ask(args ...string) (printed string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Dir = s.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("tierml %s: %w", strings.Join(args, " "), err)
	}
	return string(out), err
}

func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (p *process) printed() string {
	text, _ := os.ReadFile(p.out.Name())
	return string(text)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // it may have ended

// end requests the process's end, kills it after a while, and waits for it.
func (p *process) end() {
	p.signal(syscall.SIGINT)
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		p.signal(syscall.SIGKILL)
		<-p.ended
	}
}

// processes returns the program's processes in this site, except one.
func (s site) processes(except *process) (pids []int) {
	found, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range found {
		program, unread := os.Readlink(filepath.Join(dir, "exe"))
		where, _ := os.Readlink(filepath.Join(dir, "cwd"))
		pid, err := strconv.Atoi(filepath.Base(dir))
		// A site that could not be made has no binary, and another user's process none that can be read: these must not
		// match.
		if err == nil && unread == nil && program == s.binary && where == s.dir && (except == nil || except.pid() != pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killAll kills every process of the site except one.
func (s site) killAll(except *process) {
	for _, pid := range s.processes(except) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
}

// median returns the median of some durations.
func median(of []time.Duration) time.Duration {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}
