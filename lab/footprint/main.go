// Footprint measures the cost of a model to its servers: the peak memory of an owner and of a backup in bytes per
// parameter, and the speed of cuts between them. Owner, backup and workers are processes of their own on this host,
// with the real ps/server and ps/client; `make growth` runs it for this build and for a former one,
// lab/bench/results.md has the figures.
//
// Every worker changes every row in every clock, the highest load that a model can cause. It knows nothing about
// storage: it reads what the kernel reports for each process (VmHWM).
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/tierml/tierml/ps"
)

func main() {
	var err error
	switch {
	case len(os.Args) > 2 && os.Args[1] == "child":
		err = child(os.Args[2], os.Args[3:])
	default:
		err = measureAll(os.Args[1:])
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "footprint:", err)
		os.Exit(1)
	}
}

// shape is a model and its machines.
type shape struct {
	floats        int
	cols          int
	partitions    int
	workers       int
	owners        int
	deterministic bool
	clocks        int
}

func (s *shape) flags(set *flag.FlagSet) {
	set.IntVar(&s.floats, "floats", 7_000_000, "parameters of the model")
	set.IntVar(&s.cols, "cols", 1024, "columns of a row")
	set.IntVar(&s.partitions, "partitions", 32, "partitions")
	set.IntVar(&s.owners, "owners", 1, "servers that own partitions, each backed up by one other")
	set.IntVar(&s.workers, "workers", 1, "workers")
	set.BoolVar(&s.deterministic, "deterministic", false, "sums in fixed point")
	set.IntVar(&s.clocks, "clocks", 4, "clocks, with a cut after every other one")
}

func (s *shape) args() []string {
	return []string{
		fmt.Sprint("-floats=", s.floats), fmt.Sprint("-cols=", s.cols), fmt.Sprint("-partitions=", s.partitions),
		fmt.Sprint("-owners=", s.owners), fmt.Sprint("-workers=", s.workers), fmt.Sprint("-deterministic=", s.deterministic), fmt.Sprint("-clocks=", s.clocks),
	}
}

func (s *shape) schema() ps.Schema {
	return ps.Schema{
		Tables:     []ps.Table{{Name: "w", Rows: uint64(max(s.floats/s.cols, 1)), Cols: s.cols, Ranged: true}},
		Partitions: s.partitions, Splits: s.workers, Deterministic: s.deterministic,
	}
}

// measureAll prints a table with one row.
func measureAll(args []string) error {
	set := flag.NewFlagSet("footprint", flag.ContinueOnError)
	var s shape
	s.flags(set)
	if err := set.Parse(args); err != nil {
		return err
	}
	r, err := measure(s)
	if err != nil {
		return err
	}
	share := float64(s.floats) / float64(s.owners)
	fmt.Println("| owner, B/parameter | backup, B/parameter | worker, B/parameter | first cut, GB/s | later cuts, GB/s | processor time of a cut, s/GB | s/clock |")
	fmt.Println("|---|---|---|---|---|---|---|")
	fmt.Printf("| %.1f | %.1f | %.1f | %.2f | %.2f | %.2f | %.2f |\n", r.owner/share, r.backup/share, r.worker/float64(s.floats), r.first, r.later, r.busy, r.clock)
	return nil
}

// process is a child that answers each line with a line.
type process struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

func start(role string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{command: exec.Command(self, append([]string{"child", role}, args...)...)}
	p.command.Stderr = os.Stderr
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, p.command.Start()
}

// line returns the child's next answer.
func (p *process) line() (string, error) {
	text, err := p.out.ReadString('\n')
	return strings.TrimSpace(text), err
}

func (p *process) ask(format string, args ...any) (string, error) {
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		return "", err
	}
	return p.line()
}

// end ends the child, and waits for it.
func (p *process) end() {
	_ = p.in.Close()
	_ = p.command.Wait()
}

// busy returns the processor time that processes have used, in seconds.
func busy(list []*process) (seconds float64, err error) {
	for _, p := range list {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.command.Process.Pid))
		if err != nil {
			return 0, err
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 13 {
			return 0, fmt.Errorf("/proc has %q", text)
		}
		for _, ticks := range fields[11:13] { // utime and stime, of 10 ms
			n, err := strconv.Atoi(ticks)
			if err != nil {
				return 0, err
			}
			seconds += float64(n) / 100
		}
	}
	return seconds, nil
}

// peak returns a process's peak memory, in bytes.
func peak(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kB float64
		if _, err := fmt.Sscanf(line, "VmHWM: %f kB", &kB); err == nil {
			return 1024 * kB, nil
		}
	}
	return 0, errors.New("the kernel tells no VmHWM")
}
