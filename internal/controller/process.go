package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tierml/tierml/internal/alert"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/localrun"
	"github.com/tierml/tierml/internal/runs"
)

// life is a run's process that was started here.
type life struct {
	process *os.Process
	ended   chan error // what Wait gave
}

// start starts a job's run, or has it go on. It needs the lock.
func (k *Keeper) start(ctx context.Context, j *job) {
	began := began(j.dir)
	args := []string{"run", "--yes", "--plain", "--controller", "none"}
	if began {
		args = append(args, "--resume", j.dir)
	} else {
		args = append(args, "--into", j.dir, filepath.Join(j.dir, submittedFile))
	}
	j.Starts++
	j.Fruitless++ // until it has got further
	j.Again = false
	k.save(j) // before the start: whoever is started again counts it
	l, err := k.launch(j, args)
	if err != nil {
		k.cfg.Log.Error("a run cannot be started", "job", j.ID, "error", err)
		k.rule(ctx, j, "")
		return
	}
	k.cfg.Log.Info("a run was started", "job", j.ID, "resumed", began, "starts", j.Starts, "pid", l.process.Pid)
	j.pid = l.process.Pid
	k.tend(ctx, j, l)
}

// launch starts a process in a session of its own, so that signals to this one's group are not for it, with its output
// in a file, so that this one's end breaks nothing.
func (k *Keeper) launch(j *job, args []string) (*life, error) {
	output, err := os.OpenFile(filepath.Join(j.dir, localrun.LogsDir, outputFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("keeping the run's output: %w", err)
	}
	defer output.Close() // the process has its own
	cmd := exec.Command(k.cfg.Command[0], append(k.cfg.Command[1:len(k.cfg.Command):len(k.cfg.Command)], args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = k.cfg.Home, output, output
	cmd.Env = environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the run: %w", err)
	}
	l := &life{cmd.Process, make(chan error, 1)}
	go func() { l.ended <- cmd.Wait() }() // its owner is tend, or nobody once this process ends
	return l, nil
}

// environment is this process's without what is for clients: a run must not submit itself.
func environment() []string {
	var out []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TIERML_CONTROLLER") && !strings.HasPrefix(v, "TIERML_TOKEN") {
			out = append(out, v)
		}
	}
	return out
}

// tend waits for the end of a job's run, passes wishes on to it, and has its end judged. L is nil when the run was found. It
// needs the lock.
func (k *Keeper) tend(ctx context.Context, j *job, l *life) {
	j.tended = true
	j.State, j.Why = judge(facts{held: true, stop: j.Stop}).state, ""
	k.save(j)
	k.tending.Go(func() {
		passing, done := context.WithCancel(ctx)
		over := make(chan struct{})
		go func() { defer close(over); k.pass(passing, j, l) }()
		watched := make(chan struct{})
		go func() { defer close(watched); k.watch(passing, j) }()
		refused, err := k.wait(ctx, j, l)
		done()
		<-over
		<-watched
		if err != nil {
			return // this process ends; the run goes on
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		j.tended = false
		k.rule(ctx, j, refused)
		k.nudge()
	})
}

// watch rings for what a run's journal says while it goes on. Of its end rule tells, as it may come while nobody watches.
func (k *Keeper) watch(ctx context.Context, j *job) {
	if k.cfg.Bell == nil {
		return
	}
	for !began(j.dir) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAgain):
		}
	}
	told := alert.Start(j.ID, k.cfg.Bell)
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
		k.cfg.Log.Warn("a journal cannot be followed: there are no alerts of it", "job", j.ID, "error", err)
	}
}

// look again at a run that was found, as nothing tells of its end.
const lookAgain = 200 * time.Millisecond

// wait returns when nobody runs the job any more; its error is the context's. Refused is why a run that was started here has
// not begun and will not.
func (k *Keeper) wait(ctx context.Context, j *job, l *life) (refused string, err error) {
	if l != nil {
		select {
		case err := <-l.ended:
			refused = k.refusal(j, err)
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	for localrun.Held(j.dir) {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(lookAgain):
		}
	}
	return refused, nil
}

// usageExit is the exit code of a run that was refused (see tierml --help).
const usageExit = 2

// refusal says why a run was refused: the last lines that it printed. Empty: it was not.
func (k *Keeper) refusal(j *job, err error) string {
	coded, ok := errors.AsType[*exec.ExitError](err)
	if !ok || coded.ExitCode() != usageExit || localrun.Held(j.dir) { // held: there was another one, which goes on
		return ""
	}
	return "refused: " + lastWords(filepath.Join(j.dir, localrun.LogsDir, outputFile))
}

// lastWords are the last lines of a file, in one.
func lastWords(path string) string {
	const most = 1000
	file, err := os.Open(path)
	if err != nil {
		return "its output is gone"
	}
	defer file.Close()
	size, _ := file.Seek(0, io.SeekEnd) // 0 reads from the beginning
	text, err := io.ReadAll(io.NewSectionReader(file, max(0, size-most), most))
	if err != nil {
		return "its output is gone"
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-3):], []byte(" / ")))
}

// pass hands wishes for a job's end on to its run, for as long as there is one.
func (k *Keeper) pass(ctx context.Context, j *job, l *life) {
	told, toldNow := false, false
	for ctx.Err() == nil {
		k.mu.Lock()
		stop, now, by, wished := j.Stop, j.Now, j.By, j.wished
		k.mu.Unlock()
		if stop && (!told || now && !toldNow) {
			if k.ask(ctx, j, l, by, now) {
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

// ask tells a run to end; false: try again.
func (k *Keeper) ask(ctx context.Context, j *job, l *life, by string, now bool) (heard bool) {
	if l != nil && !began(j.dir) { // it is being prepared and has bought nothing
		_ = l.process.Signal(os.Interrupt) // it may be gone
	}
	asking, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := localrun.End(asking, j.dir, by, now, func() { heard = true; cancel() })
	if err != nil && !heard && ctx.Err() == nil {
		if !errors.Is(err, localrun.ErrEnded) && !errors.Is(err, context.DeadlineExceeded) {
			k.cfg.Log.Warn("a run cannot be asked to end; trying again", "job", j.ID, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
		}
	}
	return heard
}
