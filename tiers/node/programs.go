package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tierml/tierml/program"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// shutdown is how long a program has to end and to be saved when its machine shuts down. Shared hosts kill remaining processes after 9 s,
// and lastWords takes 2 s of that.
const shutdown = 6 * time.Second

// orphanSpare is reserved from tiers.OrphanEnds: a busy machine wakes up late.
const orphanSpare = time.Second

// Programs runs users' programs on this machine, one at a time (package program).
type Programs interface {
	// Start starts an attempt, which replaces any earlier one.
	Start(program.Start) error
	// Notice announces that the machine will be reclaimed at a wall-clock time, or (rebalance) that the risk has grown.
	Notice(deadline time.Time, rebalance bool)
	// SetPeers names the other running ranks of an elastic gang.
	SetPeers(peers []string)
	Save(round uint64)
	Stop(grace time.Duration, save bool)
	// Finish ends the running program with its state saved, within a time, and closes.
	Finish(within time.Duration)
	// Close ends the running program, and waits for it.
	Close()
}

// programs is a node's state once it was given a program.
type programs struct {
	machine Programs
	first   tiers.RunProgram
	attempt uint64 // the newest; owned by converse

	// The newest attempt's result, for a controller that takes over: its predecessor may not have journaled it.
	mu                               sync.Mutex
	started, advanced, saved, exited tiers.Report // nil = not yet
}

// note stores a report.
func (p *programs) note(r tiers.Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch of := r.(type) {
	case tiers.ProgramStarted:
		p.started, p.advanced, p.saved, p.exited = r, nil, nil, nil
	case tiers.ProgramAdvanced:
		p.advanced = r
	case tiers.ProgramSaved:
		p.saved = r
	case tiers.ProgramSaveFailed:
		if of.Final {
			p.saved = r
		}
	case tiers.ProgramExited:
		p.exited = r
	}
}

// againPrograms reports the newest attempt's result again.
func (n *node) againPrograms() {
	p := n.programs.Load()
	if p == nil {
		return
	}
	p.mu.Lock()
	all := []tiers.Report{p.started, p.advanced, p.saved, p.exited}
	p.mu.Unlock()
	for _, r := range all {
		if r != nil {
			n.report(r)
		}
	}
}

// obeyProgram executes a command that is about programs. It reports whether it was one.
func (n *node) obeyProgram(ctx context.Context, c tiers.Command) bool {
	switch do := c.Do.(type) {
	case tiers.RunProgram:
		n.agent.Answer(c.ID, nil, n.runProgram(ctx, do))
	case tiers.SaveProgram:
		if p := n.programs.Load(); p != nil && p.attempt == do.Attempt {
			p.machine.Save(do.Round)
		}
		n.agent.Answer(c.ID, nil, nil)
	case tiers.SetPeers:
		if p := n.programs.Load(); p != nil && p.attempt == do.Attempt {
			p.machine.SetPeers(do.Peers)
		}
		n.agent.Answer(c.ID, nil, nil)
	case tiers.StopProgram:
		if p := n.programs.Load(); p != nil && p.attempt == do.Attempt {
			p.machine.Stop(do.Grace, do.Save)
		}
		n.agent.Answer(c.ID, nil, nil)
	default:
		return false
	}
	return true
}

func (n *node) runProgram(ctx context.Context, do tiers.RunProgram) error {
	p := n.programs.Load()
	if p == nil {
		var err error
		if p, err = n.takeUpPrograms(ctx, do); err != nil {
			return err
		}
	}
	p.attempt = do.Attempt
	return p.machine.Start(program.Start{
		Attempt: do.Attempt, Rank: do.Rank, Ranks: do.Ranks, Task: do.Task, Tasks: do.Tasks, Master: do.Master, Resume: do.Resume, ResumeDigest: do.ResumeDigest, Key: do.Key,
		Settings: do.Settings, Secrets: do.Secrets, Run: n.user.Job, Elastic: do.Elastic, Peers: do.Peers,
	})
}

// takeUpPrograms prepares the machine for programs, all of one job.
func (n *node) takeUpPrograms(ctx context.Context, do tiers.RunProgram) (*programs, error) {
	if do.Heartbeat <= 0 || do.OrphanAfter <= 0 {
		return nil, errors.New("the command's Heartbeat and OrphanAfter must be above 0")
	}
	var spec program.Spec
	if err := json.Unmarshal(do.Spec, &spec); err != nil {
		return nil, fmt.Errorf("reading what to run: %w", err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = os.TempDir()
	}
	// Its port is a gang's meeting point: no data plane is served here.
	if err := n.listener.Close(); err != nil {
		return nil, fmt.Errorf("giving up the data plane: %w", err)
	}
	config := program.Config{Spec: spec, Dir: filepath.Join(home, ".tierml", n.user.Job), Report: n.reportProgram, Log: n.log}
	if n.own != nil && n.own.Granted() != nil {
		config.Keys = n.keys
	}
	machine, err := n.cfg.NewPrograms(config)
	if err != nil {
		return nil, err
	}
	p := &programs{machine: machine, first: do}
	n.programs.Store(p)
	n.tasks.Go(func() error {
		<-ctx.Done()
		within := shutdown
		if errors.Is(context.Cause(ctx), errOrphan) {
			within = tiers.OrphanEnds - orphanSpare
		}
		machine.Finish(within)
		return nil
	})
	n.task(ctx, func() error { return n.beatProgram(ctx, do.Heartbeat) })
	return p, nil
}

// NewPrograms returns the Programs of a machine.
func NewPrograms(c program.Config) (Programs, error) { return program.New(c) }

func (n *node) beatProgram(ctx context.Context, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if n.attached.Load() {
			n.report(tiers.Heartbeat{})
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// reportProgram reports a program's events.
func (n *node) reportProgram(e program.Event) {
	r := reportOf(e)
	if p := n.programs.Load(); p != nil {
		p.note(r)
	}
	n.report(r)
}

func reportOf(e program.Event) tiers.Report {
	switch e := e.(type) {
	case program.Started:
		return tiers.ProgramStarted{Attempt: e.Attempt, Fetch: e.Fetch.Seconds(), Setup: e.Setup.Seconds(), Restore: e.Restore.Seconds(), Bytes: e.Bytes,
			Step: max(e.Step, 0), Note: e.Note}
	case program.Advanced:
		return tiers.ProgramAdvanced{Attempt: e.Attempt, Step: max(e.Step, 0), HasLoss: e.HasLoss, Loss: e.Loss}
	case program.Saved:
		return tiers.ProgramSaved{Attempt: e.Attempt, Manifest: e.Manifest, Digest: e.Digest, Bytes: e.Bytes, Sent: e.Sent, Step: max(e.Step, 0),
			Seconds: e.Took.Seconds(), Final: e.Final, Round: e.Round}
	case program.SaveFailed:
		return tiers.ProgramSaveFailed{Attempt: e.Attempt, Error: e.Reason, Final: e.Final}
	case program.Exited:
		return tiers.ProgramExited{Attempt: e.Attempt, Code: max(e.Code, 0), Signal: e.Signal, Phase: string(e.Phase), Tail: e.Tail, Note: e.Note, Asked: e.Asked,
			CPU: e.CPU, Wait: e.Wait, Memory: e.Memory}
	}
	panic(fmt.Sprintf("a program's event %T has no report", e))
}

// noticeProgram passes the provider's warning to the program on this machine at once; the controller knows what follows.
func (n *node) noticeProgram(w tiers.Warned) {
	if p := n.programs.Load(); p != nil {
		deadline := w.Deadline
		if n.cfg.Wall != nil && !deadline.IsZero() {
			deadline = n.cfg.Wall(deadline)
		}
		p.machine.Notice(deadline, w.Rebalance)
	}
}

// attemptNow returns the program's attempt, sent in a Hello where others send an incarnation.
func (p *programs) attemptNow() ps.Incarnation { return ps.Incarnation(p.attempt) }
