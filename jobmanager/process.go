package jobmanager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/internal/confine"
	"github.com/tierml/tierml/internal/hostfault"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/runs"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/watch/alert"
)

// runProcess is a run's process that was started here.
type runProcess struct {
	process *os.Process
	ended   chan error // result of Wait
	from    int64      // where its output begins in the file
}

// start starts or resumes a job's run. The lock must be held.
func (m *Manager) start(ctx context.Context, j *job) {
	began := began(j.dir)
	grant := m.scheduler.grantFor(j)
	if grant == 0 && !began { // its slots belong to others by now
		m.scheduler.forget(j)
		_ = m.save(j) // otherwise it is written later
		return
	}
	j.Starts++
	j.Fruitless++ // until it has made progress
	if j.Again {
		j.Again, j.Journal = false, journalSize(j.dir)
	}
	if !began {
		j.Granted = max(grant, 0)
		j.Own = j.Granted
	}
	err := m.save(j) // before the start: a restarted job server counts it
	var file string
	var l *runProcess
	if err == nil && !began {
		file, err = m.scheduler.grantedFile(j)
	}
	if err == nil {
		m.scheduler.tells(j, grant)
		l, err = m.launcher(j, m.command(j, file, began), grant)
	}
	if err != nil {
		m.cfg.Log.Error("a run cannot be started", "job", j.ID, "error", err)
		m.rule(ctx, j, ending{counted: true, host: hostfault.Of(err)})
		return
	}
	m.cfg.Log.Info("a run was started", "job", j.ID, "resumed", began, "starts", j.Starts, "pid", l.process.Pid)
	j.pid, j.unrated, j.started = l.process.Pid, true, time.Now()
	m.supervise(ctx, j, l)
}

// command returns how a job's run is started or resumed. The lock must be held.
func (m *Manager) command(j *job, file string, began bool) []string {
	args := []string{"run", "--yes", "--plain", "--server", "none"}
	switch {
	case j.Hosts:
		args = []string{"hosts", "--yes", "--plain"}
	case j.Slots && m.hosts != nil:
		args = append(args, "--on", m.hosts.dir)
	}
	if began {
		return append(args, "--resume", j.dir)
	}
	return append(args, "--into", j.dir, file)
}

// launcher starts a job's run with these arguments of the program; grant is as in GrantVariable.
type launcher func(j *job, args []string, grant int) (*runProcess, error)

// launch starts a process in its own session, so that it does not receive signals to this process's group, with its output in a file, so
// that it survives this process.
func (m *Manager) launch(j *job, args []string, grant int) (*runProcess, error) {
	output, err := os.OpenFile(filepath.Join(j.dir, rundir.LogsDir, outputFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("keeping the run's output: %w", err)
	}
	defer output.Close()                  // the process has its own copy
	from, _ := output.Seek(0, io.SeekEnd) // 0 reads from the beginning
	cmd := exec.Command(m.cfg.Command[0], append(m.cfg.Command[1:len(m.cfg.Command):len(m.cfg.Command)], args...)...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Env = []string{InputsVariable + "=" + m.inputs.dir}
	if !j.Hosts { // which are the operator's own
		cmd.Env = append(cmd.Env, AllowVariable+"="+strings.Join(m.cfg.Allow, "\n"), jobrun.SecretsVariable+"="+j.dir, fmt.Sprintf("%s=%d", GrantVariable, grant))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := m.spawn(cmd); err != nil {
		return nil, fmt.Errorf("starting the run: %w", err)
	}
	l := &runProcess{cmd.Process, make(chan error, 1), from}
	go func() { l.ended <- cmd.Wait() }() // its owner is supervise, until this process ends
	return l, nil
}

// AllowVariable marks a run as a submitted job's, and lists what it may name.
const AllowVariable = "TIERML_FOREIGN_ALLOW"

// GrantVariable bounds a run to the transient machines that the scheduler grants it to begin or resume with; below 0 = none.
const GrantVariable = "TIERML_GRANT"

// Bounds returns the job server's limits for this process's run; nil = it was started manually.
func Bounds() *elasticity.Bounds {
	n, err := strconv.Atoi(os.Getenv(GrantVariable))
	if err != nil {
		return nil
	}
	return &elasticity.Bounds{Granted: n}
}

// spawn starts a process in the job server's directory, with its environment plus that of the command. The memory of the
// process, and of those that it starts, is limited.
func (m *Manager) spawn(cmd *exec.Cmd) error {
	cmd.Dir, cmd.Env = m.cfg.Home, append(environment(m.cfg), cmd.Env...)
	if err := cmd.Start(); err != nil || m.cfg.JobMemory == 0 {
		return err
	}
	if err := confine.Memory(cmd.Process.Pid, m.cfg.JobMemory); err != nil {
		m.cfg.Log.Warn("the memory of a process is not limited", "pid", cmd.Process.Pid, "error", err)
	}
	return nil
}

// environment returns this process's environment without variables for clients: a run must not submit itself.
func environment(cfg Config) []string {
	var out []string
	if cfg.JobMemory > 0 {
		out = append(out, fmt.Sprintf("GOMEMLIMIT=%d", cfg.JobMemory/10*9)) // collect garbage rather than end
	}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TIERML_SERVER") && !strings.HasPrefix(v, "TIERML_CONTROLLER") && !strings.HasPrefix(v, "TIERML_TOKEN") && !strings.HasPrefix(v, jobrun.SecretsVariable) && !strings.HasPrefix(v, GrantVariable) {
			out = append(out, v)
		}
	}
	return out
}

// supervise waits for the end of a job's run, forwards requests to it, and has its end judged. L is nil for a run that was found. The lock
// must be held.
func (m *Manager) supervise(ctx context.Context, j *job, l *runProcess) {
	j.tended = true
	j.State, j.Why = judge(facts{held: true, stop: j.Stop}).state, ""
	_ = m.save(j) // otherwise it is written later
	m.tending.Go(func() {
		passing, done := context.WithCancel(ctx)
		over := make(chan struct{})
		go func() { defer close(over); m.pass(passing, j, l) }()
		watched := make(chan struct{})
		go func() { defer close(watched); m.watch(passing, j) }()
		e, err := m.wait(ctx, j, l)
		done()
		<-over
		<-watched
		if err != nil {
			return // this process ends; the run continues
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		j.tended = false
		m.rule(ctx, j, e)
		m.nudge()
	})
}

// watch sends alerts about an active run's journal. Rule reports its end, which may come while nothing watches.
func (m *Manager) watch(ctx context.Context, j *job) {
	if m.cfg.Notifier == nil {
		return
	}
	for !began(j.dir) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAgain):
		}
	}
	told := alert.Start(j.ID, m.cfg.Notifier)
	defer told.Close()
	past := true
	err := runs.FollowWhile(ctx, j.dir, func() bool { return ctx.Err() == nil }, func(e journal.Entry) {
		if past || e.Kind == journal.Done {
			told.Recall(e)
			return
		}
		told.Feed(e)
	}, func() { past = false })
	if err != nil && ctx.Err() == nil {
		m.cfg.Log.Warn("a journal cannot be followed, so it raises no alerts", "job", j.ID, "error", err)
	}
}

// poll a run that was found, as its end is not signalled.
const lookAgain = 200 * time.Millisecond

// wait returns when no process runs the job any more; its error is the context's.
func (m *Manager) wait(ctx context.Context, j *job, l *runProcess) (e ending, err error) {
	e.counted = true
	if l != nil {
		select {
		case err := <-l.ended:
			if coded, ok := errors.AsType[*exec.ExitError](err); ok {
				e.refused = m.inputs.outOfPlace(j.refusal(m.cfg, l, coded.ExitCode()))
				e.host = m.inputs.outOfPlace(j.hostOf(l, coded.ExitCode()))
			}
		case <-ctx.Done():
			return e, ctx.Err()
		}
	}
	for rundir.Held(j.dir) {
		select {
		case <-ctx.Done():
			return e, ctx.Err()
		case <-time.After(lookAgain):
		}
	}
	return e, nil
}

// usageExit is the exit code of a run that was refused (see tierml --help).
const usageExit = 2

// refusal returns why a run was refused: its last lines of output. Empty: it was not.
func (j *job) refusal(cfg Config, l *runProcess, code int) string {
	if code != usageExit || rundir.Held(j.dir) { // held: another one exists and continues
		return ""
	}
	said := outputFrom(filepath.Join(j.dir, rundir.LogsDir, outputFile), l.from)
	switch why := crash(said, cfg.JobMemory); {
	case why == "":
		return "refused: " + lastLines(said)
	case began(j.dir): // it is resumed, as after any other end
		cfg.Log.Warn("a run crashed", "job", j.ID, "why", why)
		return ""
	default:
		return why
	}
}

// crash describes the end of a Go program that crashed with usageExit, in one line; empty if it did not crash. JobMemory is its limit, in
// bytes.
func crash(said string, jobMemory int64) string {
	for line := range strings.Lines(said) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "fatal error: ") && strings.Contains(line, "memory"):
			return fmt.Sprintf("it takes more memory than a process of a job may have here, %d MiB: a smaller job, or a greater job-memory of the job server",
				jobMemory>>20)
		case strings.HasPrefix(line, "fatal error: "), strings.HasPrefix(line, "panic: "):
			return "it crashed: " + line
		}
	}
	return ""
}

// mostOutput bounds how much of a run's output is read, in bytes.
const mostOutput = 1 << 20

// outputFrom reads a run's output from a place on.
func outputFrom(path string, from int64) string {
	file, err := os.Open(path)
	if err != nil {
		return "its output is gone"
	}
	defer file.Close()
	text, err := io.ReadAll(io.NewSectionReader(file, from, mostOutput))
	if err != nil {
		return "its output is gone"
	}
	return string(text)
}

// lastLines returns the last lines of a text, in one.
func lastLines(text string) string {
	const most = 1000
	text = strings.TrimSpace(text)
	lines := strings.Split(text[max(0, len(text)-most):], "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " / ")
}

// pass forwards requests for a job's end to its run, as long as there is one.
func (m *Manager) pass(ctx context.Context, j *job, l *runProcess) {
	told, toldNow := false, false
	for ctx.Err() == nil {
		m.mu.Lock()
		stop, now, by, wished := j.Stop, j.Now, j.By, j.wished
		m.mu.Unlock()
		if stop && (!told || now && !toldNow) {
			if m.requestEnd(ctx, j, l, by, now) {
				told, toldNow = true, now
			}
			continue
		}
		select {
		case <-ctx.Done():
		case <-wished:
		}
	}
}

// requestEnd requests a run's end; false: try again.
func (m *Manager) requestEnd(ctx context.Context, j *job, l *runProcess, by string, now bool) (heard bool) {
	if l != nil && !began(j.dir) { // it is being prepared and has bought nothing
		_ = l.process.Signal(os.Interrupt) // it may have ended
	}
	asking, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := jobrun.End(asking, j.dir, by, now, func() { heard = true; cancel() })
	if err != nil && !heard && ctx.Err() == nil {
		if !errors.Is(err, jobrun.ErrEnded) && !errors.Is(err, context.DeadlineExceeded) {
			m.cfg.Log.Warn("a run cannot be asked to end; trying again", "job", j.ID, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
		}
	}
	return heard
}
