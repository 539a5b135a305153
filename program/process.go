package program

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// identity is the environment variable that marks everything that an attempt started, whatever its session.
const identity = "TIERML_ID"

// process is a script in a session of its own, with everything that it starts.
type process struct {
	cmd     *exec.Cmd
	id      string
	guard   *guard
	within  *container    // nil = the machine itself; otherwise cmd is the container runtime's
	output  *os.File      // their output
	ended   chan struct{} // closed when the script's shell has ended
	drained chan struct{} // closed when no writer is left
}

// prelude runs a script so that, on SIGTERM, bash waits for the current command, which gets the signal as well, and then ends. Without the
// trap it would end at once, and leave the command running; if bash ignored the signal, so would the command.
const prelude = `trap 'exit 143' TERM; . "$0"`

// launch starts a script, on the machine or in a container. Its output goes to a writer until drained is closed.
func launch(within *container, script, dir, id string, env []string, out io.Writer) (*process, error) {
	reads, writes, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	var cmd *exec.Cmd
	if within != nil {
		cmd = within.command(script, dir, id, env)
	} else {
		cmd = exec.Command("bash", "-euo", "pipefail", "-c", prelude, script)
		cmd.Dir, cmd.Env = dir, append(env, identity+"="+id)
	}
	cmd.Stdout, cmd.Stderr = writes, writes
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	guard := newGuard(id) // first: the agent may die at any moment
	err = cmd.Start()
	_ = writes.Close() // the program has its own copy
	if err != nil {
		guard.dismiss()
		_ = reads.Close()
		return nil, err
	}
	guard.watch(cmd.Process.Pid)
	p := &process{cmd: cmd, id: id, guard: guard, within: within, output: reads, ended: make(chan struct{}), drained: make(chan struct{})}
	go func() {
		defer close(p.drained)
		_, _ = io.Copy(out, reads) // until all ends are closed, or finish sets a deadline
	}()
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // ProcessState has the result
	}()
	return p, nil
}

// noSession matches no process: 0 is the session of the kernel's own processes.
const noSession = -1

// members returns the script's processes and their descendants.
func (p *process) members() []int {
	if p.within != nil {
		return members(noSession, p.id) // those of the runtime's command end with them
	}
	return members(p.cmd.Process.Pid, p.id)
}

// signal sends a signal to the script's group or, in a container, whose groups have other numbers, to all processes.
func (p *process) signal(s syscall.Signal) {
	if p.within == nil {
		_ = syscall.Kill(-p.cmd.Process.Pid, s)
		return
	}
	for _, pid := range p.members() {
		_ = syscall.Kill(pid, s)
	}
}

// remind repeats signals to processes that were being created when they were sent. Bash's children have its traps until they execute their
// command, so that SIGTERM ends none before. And Linux passes a group's signals on to a child that is being created, but SIGCONT, which is
// ignored by default, does not undo SIGSTOP among them (prepare_signal). A program that catches SIGTERM gets it once: a second one often
// means to end at once. In a container, where groups cannot be distinguished, a notice's hook may be running: there none gets it again.
func (p *process) remind() {
	p.signal(syscall.SIGCONT)
	if p.within != nil {
		return
	}
	for _, pid := range p.members() {
		if group, err := syscall.Getpgid(pid); err == nil && group == p.cmd.Process.Pid && endsOn(pid, syscall.SIGTERM) {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
}

// mostHalt is how long processes may take to stop: one that waits for a disk does not.
const mostHalt = 100 * time.Millisecond

// halt stops all processes, and waits until none is in a system call: one may have truncated a file and not have it open yet.
func (p *process) halt() {
	p.signal(syscall.SIGSTOP)
	pids := p.members()
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	for until := time.Now().Add(mostHalt); time.Now().Before(until) && slices.ContainsFunc(pids, func(pid int) bool { return !halted(pid) }); {
		time.Sleep(time.Millisecond)
	}
}

// proceed undoes halt.
func (p *process) proceed() {
	p.signal(syscall.SIGCONT)
	for _, pid := range p.members() {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

// kill ends everything that the script started, including what has left the group.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	for _, pid := range p.members() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

const (
	// mostLinger is how long killed processes may take to end: one that waits for a disk cannot be killed at once.
	mostLinger = 5 * time.Second
	// drainTime is how long to wait for output after that.
	drainTime = time.Second
)

// finish kills the remaining processes and waits until they have ended.
func (p *process) finish() {
	p.kill()
	if p.within != nil { // the runtime's command ends with the script's processes, or its daemon hangs
		select {
		case <-p.ended:
		case <-time.After(mostLinger):
			_ = p.cmd.Process.Kill()
		}
	}
	<-p.ended
	for until := time.Now().Add(mostLinger); len(p.members()) > 0 && time.Now().Before(until); {
		time.Sleep(5 * time.Millisecond)
		p.kill() // a child may have been created meanwhile
	}
	_ = p.output.SetReadDeadline(time.Now().Add(drainTime))
	<-p.drained
	_ = p.output.Close()
	p.guard.dismiss()
}

// status returns how the shell ended, in shells' numbering: 128 + signal.
func (p *process) status() (code int, name string) {
	state := p.cmd.ProcessState
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok {
		return state.ExitCode(), ""
	}
	code = status.ExitStatus()
	if status.Signaled() {
		code = 128 + int(status.Signal())
	}
	if s := code - 128; s > 0 && s < 32 {
		name = syscall.Signal(s).String()
	}
	return code, name
}

// used returns the processor time of the script and all that it waited for, in seconds, and the peak memory of one process. For a container
// it is unknown: cmd is the runtime's.
func (p *process) used() (cpu float64, memory int64) {
	state := p.cmd.ProcessState
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok || p.within != nil {
		return 0, 0
	}
	memory = usage.Maxrss
	if runtime.GOOS != "darwin" {
		memory <<= 10 // KiB
	}
	return (state.UserTime() + state.SystemTime()).Seconds(), memory
}

// guard ends a program whose agent has died and can neither mirror its state nor end it. It is a shell that waits for the end of a pipe, through
// which it learns the program's group.
type guard struct {
	cmd  *exec.Cmd
	hold io.WriteCloser
}

const guardScript = `while read -r word; do
  [ "$word" != dismissed ] || exit 0
  group=$word
done
[ -z "${group-}" ] || kill -KILL -- "-$group" 2>/dev/null
for n in 1 2 3; do # one that is being born has no environment yet
  for e in $(grep -lsz "^` + identity + `=$1\$" /proc/[0-9]*/environ 2>/dev/null); do p=${e#/proc/}; kill -KILL "${p%/environ}" 2>/dev/null; done
  sleep 0.2
done`

func newGuard(id string) *guard {
	cmd := exec.Command("bash", "-c", guardScript, "tierml-guard", id)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	hold, err := cmd.StdinPipe()
	if err != nil {
		return nil
	}
	if err := cmd.Start(); err != nil {
		_ = hold.Close()
		return nil // the program runs without
	}
	return &guard{cmd: cmd, hold: hold}
}

func (g *guard) watch(group int) {
	if g != nil {
		_, _ = fmt.Fprintln(g.hold, group) // if the guard has ended, there is none
	}
}

func (g *guard) dismiss() {
	if g == nil {
		return
	}
	if _, err := fmt.Fprintln(g.hold, "dismissed"); err != nil {
		_ = g.cmd.Process.Kill()
	}
	_ = g.hold.Close()
	_ = g.cmd.Wait() // its status does not matter
}

// write creates a script's file.
func write(name, text string) error {
	if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
		return fmt.Errorf("write a script: %w", err)
	}
	return nil
}

// full reports whether an error or a program's last output is about a full disk.
func full(err error, tail string) bool {
	return errors.Is(err, syscall.ENOSPC) || bytes.Contains([]byte(tail), []byte("No space left on device"))
}
