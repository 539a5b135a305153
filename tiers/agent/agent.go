// Package agent decides for one node of a job: the controller's commands go in, and answers, rounds of work and errands come out. It is
// pure, and everything that simulates or runs a node uses it: tiers/node on a machine, the simulator, and the worlds in which the
// controller is tested. agenttest is the exam that every agent passes.
//
// An Agent has two parts. The Worker decides which clocks of which splits are worked on. The Server owns partitions and backs others up,
// with real rows or, in the simulator, without any.
//
// It knows nothing about rows, updates and how they travel, how long anything takes, and where splits and checkpoints are: its user carries
// that out, and calls when a round has its rows, is computed, and counts.
package agent

import (
	"errors"
	"fmt"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Server is the part that owns and backs up partitions. Changes are complete when a method returns.
type Server interface {
	SetRoute(g ps.Generation, route ps.Route, peers map[ps.ServerID]string) error
	Own(do tiers.Own) error
	BackUp(do tiers.BackUp) error
	NameCut(cut ps.Clock) error
	UnnameCut(cut ps.Clock) error
	CommitCut(cut ps.Clock) error
	HurryMoves()
	Promote(cut ps.Clock, partitions []ps.Partition) error
	SettleWorker(inc ps.Incarnation, sequence uint64, commit bool) error
	FenceGeneration(g ps.Generation) (tiers.Holdings, error)
	Recover(do tiers.Recover) error
}

// Agent is what one process of a node needs to know about its commands.
//
// Invariant: a command is answered at most once, by Take or by the user that got it as an errand, and not before it has taken effect. The
// controller relies on that: an owner that accepted a cut's name cannot fold beyond it unnoticed, and released splits begin no clock here.
//
// If a command concerns both parts, their order matters. FenceGeneration and SetRoute go to the Worker first: it drops its rounds before
// the Server refuses their generation. Recover goes to the Server first: a round may begin only where rows can be read, and if the Server
// fails, the Worker stays fenced.
type Agent struct {
	Worker
	Server Server
	// Report receives the answers, in order, and the worker's reports. It must not call the agent.
	Report func(tiers.Report)
	// Here returns a split's data if it need not be loaded first; nil: every split's data is here.
	Here func(ps.Split) any
	// Lock guards the Worker, for users with goroutines: it is not held while the Server works; nil: none.
	Lock interface {
		Lock()
		Unlock()
	}
}

// Join begins a job, at the first Welcome.
func (a *Agent) Join(do tiers.Welcome) {
	a.Worker = Worker{Incarnation: do.Incarnation, Generation: do.Generation, Last: do.Until, Until: do.Until, report: a.Report, here: a.Here}
}

// Errors that answer commands.
var (
	errUnknown       = errors.New("this node was not welcomed yet")
	errRolledBack    = errors.New("the generation is over: the splits go back to the committed cut")
	errNewController = errors.New("another controller has asked what this machine holds")
)

// Take executes a command. Anything slow, or outside the agent's concern, is returned as an errand for its user, which answers it (Answer):
// a first Welcome, which ends with Join; a Stop; a TakeStock, once no move away from here is in progress; splits to Load, which end with
// Loaded or NotLoaded each; SaveCut, MoveOut and FenceWorker. nil: there is nothing more to do.
func (a *Agent) Take(c tiers.Command) (errand tiers.Do) {
	errand, result, err := a.take(c)
	if errand == nil && !errors.Is(err, errLater) {
		a.Answer(c.ID, result, err)
	}
	return errand
}

// errLater stands for an answer that waits for a round.
var errLater = errors.New("answered later")

func (a *Agent) take(c tiers.Command) (errand tiers.Do, _ tiers.Result, _ error) {
	switch do := c.Do.(type) {
	case tiers.Stop:
		return c.Do, nil, nil
	case tiers.Welcome:
		switch a.Incarnation {
		case 0:
			return c.Do, nil, nil
		case do.Incarnation: // of a controller that came back
			return nil, nil, nil
		}
		return nil, nil, fmt.Errorf("this process is incarnation %d already and cannot become %d", a.Incarnation, do.Incarnation)
	}
	if a.Incarnation == 0 {
		return nil, nil, errUnknown
	}
	switch do := c.Do.(type) {
	case tiers.Load, tiers.SaveCut, tiers.MoveOut, tiers.FenceWorker, tiers.TakeStock:
		return c.Do, nil, nil
	case tiers.Assign, tiers.Release, tiers.Park, tiers.Unpark:
		return a.work(c)
	case tiers.SetRoute:
		_, _, _ = a.work(c)
		return nil, nil, a.Server.SetRoute(do.Generation, do.Route, do.Peers)
	case tiers.Own:
		return nil, nil, a.Server.Own(do)
	case tiers.BackUp:
		return nil, nil, a.Server.BackUp(do)
	case tiers.NameCut:
		return nil, nil, a.Server.NameCut(do.Cut)
	case tiers.UnnameCut:
		return nil, nil, a.Server.UnnameCut(do.Cut)
	case tiers.CommitCut:
		return nil, nil, a.Server.CommitCut(do.Cut)
	case tiers.HurryMoves:
		a.Server.HurryMoves()
		return nil, nil, nil
	case tiers.Promote:
		return nil, nil, a.Server.Promote(do.Cut, do.Partitions)
	case tiers.SettleWorker:
		return nil, nil, a.Server.SettleWorker(do.Incarnation, do.Sequence, do.Commit)
	case tiers.FenceGeneration:
		_, _, _ = a.work(c)
		holdings, err := a.Server.FenceGeneration(do.Generation)
		return nil, holdings, err
	case tiers.Recover:
		if err := a.Server.Recover(do); err != nil {
			return nil, nil, err
		}
		return a.work(c)
	}
	return nil, nil, fmt.Errorf("this node does not know how to %T", c.Do)
}

// work does the worker's part of a command.
func (a *Agent) work(c tiers.Command) (errand tiers.Do, result tiers.Result, err error) {
	if a.Lock != nil {
		a.Lock.Lock()
		defer a.Lock.Unlock()
	}
	var missing []ps.Split
	switch do := c.Do.(type) {
	case tiers.SetRoute:
		a.enter(do.Generation)
	case tiers.FenceGeneration:
		a.fence(do.Generation)
	case tiers.Recover:
		missing = a.recover(do.Generation, do.Cut, do.Splits)
	case tiers.Assign:
		missing, err = a.assign(do.Splits)
	case tiers.Release:
		a.release(c.ID, do.Splits, do.Drop)
		err = errLater
	case tiers.Park:
		result = tiers.Parked{Begun: a.park()}
	case tiers.Unpark:
		a.unpark(do.Until)
	}
	if missing != nil {
		errand = tiers.Load{Splits: missing}
	}
	return errand, result, err
}

// Answer ends a command.
func (a *Agent) Answer(id uint64, result tiers.Result, err error) { a.Report(answer(id, result, err)) }

func answer(id uint64, result tiers.Result, err error) tiers.Answer {
	if err == nil {
		return tiers.Answer{ID: id, Result: result}
	}
	out := tiers.Answer{ID: id, Code: tiers.CodeFailed, Error: err.Error(), Result: result}
	switch {
	case errors.Is(err, ps.ErrPassed):
		out.Code = tiers.CodePassed
	case errors.Is(err, ps.ErrBusy):
		out.Code = tiers.CodeBusy
	case errors.Is(err, tiers.ErrDamaged):
		out.Code = tiers.CodeDamaged
	}
	return out
}
