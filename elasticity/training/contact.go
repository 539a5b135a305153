package training

import (
	"fmt"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// checkpointOf returns the checkpoint that a command makes a machine read; empty = none.
func checkpointOf(do tiers.Do) string {
	switch do := do.(type) {
	case tiers.Own:
		return do.Checkpoint
	case tiers.BackUp:
		return do.Checkpoint
	case tiers.Recover:
		return do.Checkpoint
	}
	return ""
}

// TakeReport handles a node's report. It reports whether a decision may be due.
func (t *Training) TakeReport(id ps.ServerID, r tiers.Report) (due bool) {
	m := t.Nodes.ByID[id]
	if m == nil {
		if hello, calls := r.(tiers.Hello); calls {
			t.Nodes.callers[id] = hello
			t.machines.Called(id)
		}
		return true
	}
	if m.Ended {
		if _, calls := r.(tiers.Hello); calls { // the provider says that it has ended, but it is running
			t.Nodes.lastID++
			t.Do(Send{ID: id, Command: tiers.Command{ID: t.Nodes.lastID, Do: tiers.Stop{Why: "this machine has ended"}}})
		}
		return false
	}
	m.Heard, m.BrokenAt = t.Awake.Now(), time.Time{} // after a break, the next report comes over a new stream
	switch r := r.(type) {
	case tiers.Hello:
		return t.takeHello(m, r)
	case tiers.Answer:
		return t.takeAnswer(m, r)
	case tiers.Heartbeat:
		t.profile.record(m.Stats, r)
		return t.Cuts.TakeHeartbeat(m, r)
	case tiers.Progress:
		relayout, cut := t.Layout.Due, t.Cuts.Cut
		if !m.Lost {
			t.takeProgress(m, r)
		}
		return t.Clocks.Over() || t.Cuts.Cut != cut || t.Layout.Due && !relayout
	case tiers.CutHeld:
		return t.changes(func() { t.Cuts.takeCutHeld(m, r) })
	case tiers.Failed:
		if !m.Lost {
			t.Fail(step.Printable(fmt.Sprintf("machine %s: %s", id, r.Error))) // it would fail on every machine
		}
	case tiers.Crashed:
		t.machines.Crashed(m.Machine, "its agent ended by itself: "+r.Error, r.Log)
	case tiers.Warned:
		return t.machines.Warned(id, r.Deadline, r.Rebalance)
	}
	return true
}

// takeHello welcomes a new node. A machine that was given up must not return with outdated state: it stops.
func (t *Training) takeHello(m *Node, h tiers.Hello) (due bool) {
	switch {
	case m.Lost:
		t.Nodes.send(m.ID, tiers.Stop{Why: "this machine was given up"})
		t.machines.Terminate(m.Machine, "it returned after it had been given up")
		return true
	case h.Incarnation != 0 && m.Address == "" && !m.Terminating:
		t.meet(m, h)
		return true
	case m.Terminating || h.Incarnation != 0:
		return true // a stream that broke and was restored; the link delivers messages in flight
	case m.Joined > 0:
		t.machines.GiveUp(m.Machine, "its process restarted and lost its state")
		return true
	}
	// It is new, its stream broke before it was welcomed, or its process restarted and lost earlier messages: send them again.
	t.Nodes.forget(m)
	m.Ready, m.Loading = false, false
	m.Loaded = nil
	m.loads++
	t.Layout.idle.lacking = true
	m.Address = h.Address
	t.Silence.Stale = true
	t.Silence.lookAgain(t.Now.Add(t.cfg.DeadAfter)) // until it called, BootWithin applied
	params := t.cfg.Job.Params
	if t.cfg.standsBy(m) {
		params = t.cfg.Job.Standby
	}
	t.Nodes.send(m.ID, tiers.Welcome{
		Schema:      t.cfg.Job.Schema,
		Generation:  t.Layout.Generation,
		Incarnation: m.Incarnation,
		App:         t.cfg.Job.App,
		Params:      params,
		Dataset:     t.cfg.Job.Dataset,
		Secrets:     t.cfg.Job.Secrets,
		SplitsURL:   t.cfg.Job.SplitsURL,
		EvalEvery:   t.cfg.Job.EvalEvery,
		Until:       t.cfg.Job.Clocks,
		Heartbeat:   t.cfg.Job.Heartbeat,
		OrphanAfter: t.cfg.Job.OrphanAfter,
	})
	if m.Tier == tiers.Reliable {
		// The reliable tier keeps every split in memory: it is the previous owner of every split.
		all := make([]ps.Split, len(t.Layout.Splits))
		for i := range all {
			all[i] = ps.Split(i)
		}
		m.Loading = true
		t.Nodes.send(m.ID, tiers.Load{Splits: all})
	}
	return false // it cannot do anything before it is ready
}

func (t *Training) takeAnswer(m *Node, a tiers.Answer) (due bool) {
	s := t.Nodes.Commands.find(a.ID)
	if s == nil || s.To != m {
		return false
	}
	asked := s.Do
	t.Nodes.Commands.drop(s)
	switch do := asked.(type) {
	case tiers.Welcome:
		if a.Code != tiers.CodeOK {
			t.machines.Crashed(m.Machine, "it could not start: "+a.Error, "")
			return true
		}
		m.Ready = true
		t.machines.Ready(m.Machine)
		t.coming--
		return t.coming <= 0 || t.ReadySince.IsZero() // otherwise it waits for the others
	case tiers.Load:
		m.Loading = false
		if a.Code != tiers.CodeOK {
			t.machines.Crashed(m.Machine, "it could not load its data: "+a.Error, "")
			return true
		}
		if len(m.Loaded) == 0 && t.cfg.Job.Standby != nil {
			t.Layout.Due = true // it may be given splits now (leaveWork)
		}
		m.Loaded = m.Loaded.With(do.Splits)
		m.loads++
	case tiers.TakeStock:
		t.takeStock(m, a)
	case tiers.Release:
		return t.takeReleased(m, a)
	case tiers.SaveCut:
		return t.changes(func() { t.Saves.takeSaved(m, do, a) })
	case tiers.MoveOut:
		t.Layout.takeMoved(do, a)
	case tiers.NameCut:
		return t.changes(func() { t.Cuts.takeNamed(m, do, a) })
	case tiers.Park:
		t.Halt.takeParked(m, a)
		return t.Halt == nil || len(t.Halt.parking) == 0 // otherwise wait for the others
	case tiers.FenceWorker:
		t.Settle.takeStandings(t, m, a)
	case tiers.FenceGeneration:
		t.takeHoldings(m, do, a)
	case tiers.Promote, tiers.Recover, tiers.SettleWorker:
		t.checkObeyed(m, do, a)
	case tiers.Own, tiers.Assign:
		return !t.checkObeyed(m, do, a) // nothing waits for this answer
	case tiers.BackUp, tiers.CommitCut:
		return !t.checkObeyed(m, do, a) || t.Cuts.cutWaited()
	case tiers.UnnameCut:
		return t.Cuts.cutWaited()
	case tiers.SetRoute, tiers.Unpark, tiers.HurryMoves:
		return false
	}
	return true
}

// checkObeyed gives up a machine that failed to execute a command.
func (t *Training) checkObeyed(m *Node, do tiers.Do, a tiers.Answer) bool {
	if a.Code == tiers.CodeDamaged {
		t.Saves.doubt(checkpointOf(do)) // not the machine's fault
	}
	if a.Code == tiers.CodeOK {
		return true
	}
	why := fmt.Sprintf("it failed to %T: %s", do, a.Error)
	switch a.Code {
	case tiers.CodeFailed:
		t.machines.Crashed(m.Machine, why, "")
	default:
		t.machines.GiveUp(m.Machine, why)
	}
	return false
}

// Lose takes a machine out of training. Losing an owner of partitions starts a recovery; a machine that is only a worker is fenced and its
// splits are reassigned.
func (t *Training) Lose(lost *step.Machine) {
	m := t.Nodes.ByID[lost.ID]
	m.Lost, t.Nodes.lost, t.Nodes.rate = true, true, 0
	t.Cuts.Pace.Dirty -= m.Stats.CutBytes
	m.Stats.CutBytes = 0
	t.Nodes.forget(m)
	t.Saves.dropFromSave(m.ID)
	t.machines.Lost(m.Machine, m.Ready)
	if m.Joined > 0 {
		t.Nodes.dead = append(t.Nodes.dead, m)
	}
	if m.Joined == 0 || t.Ending {
		return
	}
	t.Layout.Due = true
	bare := t.Layout.loseBackups(m.ID)
	switch {
	case t.Recovery != nil:
		t.Recovery.again = true
	case bare:
		t.startRecovery("machine " + string(m.ID) + ", which backed partitions up, is gone")
	case t.Layout.OwnsAny(m.ID):
		t.startRecovery("owner " + string(m.ID) + " is gone")
	}
	t.Cuts.dropFromCut(m.ID)
	if t.Halt != nil {
		delete(t.Halt.parking, m.ID)
	}
}

// takeProgress handles a worker's report after a commit.
func (t *Training) takeProgress(m *Node, r tiers.Progress) {
	if t.Recovery == nil && t.Clocks.take(m, r) {
		t.Cuts.checkClock()
	}
}
