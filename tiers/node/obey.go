package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/checkpoint"
)

// obey does one command. Those that change what the node is are done when it returns, so that they happen in the
// order in which they were sent. Those that take long go on beside the next ones and answer later.
func (n *node) obey(ctx context.Context, c tiers.Command) {
	n.log.Debug("command", "id", c.ID, "kind", fmt.Sprintf("%T", c.Do))
	answer := func(result tiers.Result, err error) { n.answer(c, result, err) }
	switch do := c.Do.(type) {
	case tiers.Welcome:
		answer(nil, n.welcome(ctx, do))
		return
	case tiers.Stop:
		n.stop(ctx, do, answer)
		return
	}
	if n.job == nil {
		answer(nil, errors.New("this node was not welcomed yet"))
		return
	}
	if err := tiers.CheckCommand(&n.job.welcome.Schema, c.Do); err != nil {
		answer(nil, err)
		return
	}
	n.job.obey(ctx, n, c.Do, answer)
}

func (n *node) answer(c tiers.Command, result tiers.Result, err error) {
	a := tiers.Answer{ID: c.ID, Result: result}
	switch {
	case err == nil:
	case errors.Is(err, ps.ErrPassed):
		a.Code, a.Error = tiers.CodePassed, err.Error()
	case errors.Is(err, ps.ErrBusy):
		a.Code, a.Error = tiers.CodeBusy, err.Error()
	case errors.Is(err, checkpoint.ErrDamaged):
		a.Code, a.Error = tiers.CodeDamaged, err.Error()
	default:
		a.Code, a.Error = tiers.CodeFailed, err.Error()
		n.log.Warn("command failed", "id", c.ID, "kind", fmt.Sprintf("%T", c.Do), "error", err)
	}
	n.report(a)
}

// welcome joins the job, or hears again what it knows from a controller that came back.
func (n *node) welcome(ctx context.Context, do tiers.Welcome) (err error) {
	if n.job == nil {
		n.job, err = n.join(ctx, do)
		return err
	}
	if do.Incarnation != n.job.welcome.Incarnation {
		return fmt.Errorf("this process is incarnation %d already and cannot become %d", n.job.welcome.Incarnation, do.Incarnation)
	}
	n.job.welcome.OrphanAfter = do.OrphanAfter
	return nil
}

// obey does a command of a welcomed node.
func (j *job) obey(ctx context.Context, n *node, do tiers.Do, answer func(tiers.Result, error)) {
	switch do := do.(type) {
	case tiers.SetRoute:
		j.client.SetRoute(do.Generation, do.Route, do.Peers)
		j.worker.enter(do.Generation)
		answer(nil, j.server.SetRoute(do.Generation, do.Route, do.Peers))
	case tiers.Own:
		answer(nil, j.server.Own(do))
	case tiers.BackUp:
		answer(nil, j.server.BackUp(do))
	case tiers.NameCut:
		answer(nil, j.server.NameCut(do.Cut))
	case tiers.UnnameCut:
		answer(nil, j.server.UnnameCut(do.Cut))
	case tiers.CommitCut:
		answer(nil, j.server.CommitCut(do.Cut))
	case tiers.SaveCut:
		j.save(ctx, n, do, answer)
	case tiers.TakeStock:
		j.takeStock(ctx, n, answer)
	case tiers.MoveOut:
		j.moveOut(ctx, n, do, answer)
	case tiers.Promote:
		answer(nil, j.server.Promote(do.Cut, do.Partitions))
	case tiers.FenceWorker:
		standings, err := j.server.FenceWorker(do.Incarnation)
		answer(tiers.Standings{Partitions: standings}, err)
	case tiers.SettleWorker:
		answer(nil, j.server.SettleWorker(do.Incarnation, do.Sequence, do.Commit))
	case tiers.FenceGeneration:
		j.worker.fence(do.Generation)
		holdings, err := j.server.FenceGeneration(do.Generation)
		answer(holdings, err)
	case tiers.Recover:
		j.recover(ctx, n, do, answer)
	case tiers.Load:
		n.beside(ctx, func() { answer(nil, j.load(ctx, do.Splits)) })
	case tiers.Assign:
		j.assign(ctx, n, do, answer)
	case tiers.Release:
		j.worker.release(do.Splits, do.Drop, answer)
	case tiers.Park:
		answer(tiers.Parked{Begun: j.worker.park()}, nil)
	case tiers.Unpark:
		j.worker.unpark(do.Until)
		answer(nil, nil)
	default:
		answer(nil, fmt.Errorf("this node does not know how to %T", do))
	}
}

// beside does something that takes long without holding up the next command.
func (n *node) beside(ctx context.Context, f func()) {
	n.task(ctx, func() error {
		f()
		return nil
	})
}

func (j *job) moveOut(ctx context.Context, n *node, do tiers.MoveOut, answer func(tiers.Result, error)) {
	ended := make(chan struct{})
	j.moves = append(slices.DeleteFunc(j.moves, over), ended)
	n.beside(ctx, func() {
		defer close(ended)
		answer(nil, j.server.MoveOut(ctx, do.Partition, do.To, do.Address))
	})
}

func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// save writes the cut as it is now, while the next ones come. One that is still being written has taken too long.
func (j *job) save(ctx context.Context, n *node, do tiers.SaveCut, answer func(tiers.Result, error)) {
	if j.endSave != nil {
		j.endSave()
	}
	ctx, j.endSave = context.WithCancel(ctx)
	end := j.endSave
	held := make(chan struct{})
	n.beside(ctx, func() {
		defer end()
		parts, err := j.server.SaveCut(ctx, do, func() { close(held) })
		answer(tiers.Saved{Parts: parts}, err)
	})
	<-held // before the next command, which may be the commit of another cut
}

// takeStock answers when the moves that were begun have ended: until then it is not known who owns what.
func (j *job) takeStock(ctx context.Context, n *node, answer func(tiers.Result, error)) {
	moves := slices.Clone(j.moves)
	n.beside(ctx, func() {
		for _, ended := range moves {
			<-ended // a move ends with its context
		}
		stock := j.server.TakeStock()
		stock.Splits, stock.Loaded = j.worker.stock(), j.store.loaded()
		answer(stock, nil)
	})
}

func (j *job) recover(ctx context.Context, n *node, do tiers.Recover, answer func(tiers.Result, error)) {
	if err := j.server.Recover(do); err != nil {
		answer(nil, err)
		return
	}
	j.client.SetRoute(do.Generation, do.Route, do.Peers)
	j.worker.recover(do.Generation, do.Cut, do.Splits, j.store.get)
	n.log.Info("back at the cut", "generation", do.Generation, "cut", do.Cut, "splits", len(do.Splits))
	j.fetch(ctx, n, do.Splits, answer)
}

func (j *job) assign(ctx context.Context, n *node, do tiers.Assign, answer func(tiers.Result, error)) {
	if err := j.worker.assign(do.Splits, j.store.get); err != nil {
		answer(nil, err)
		return
	}
	ids := make([]ps.Split, len(do.Splits))
	for i, s := range do.Splits {
		ids[i] = s.Split
	}
	j.fetch(ctx, n, ids, answer)
}

// fetch loads those of the worker's splits that are not in memory, beside the next commands, and answers then. Splits
// whose turn comes first are worked on meanwhile.
func (j *job) fetch(ctx context.Context, n *node, ids []ps.Split, answer func(tiers.Result, error)) {
	var missing []ps.Split
	for _, id := range ids {
		if data := j.store.get(id); data != nil {
			j.worker.loaded(id, data) // in case it came between the assignment and now
		} else {
			missing = append(missing, id)
		}
	}
	if missing == nil {
		answer(nil, nil)
		return
	}
	n.beside(ctx, func() {
		var failures []error
		for _, id := range missing {
			data, err := j.store.load(ctx, id)
			if err != nil {
				j.worker.failed(id)
				failures = append(failures, err)
				continue
			}
			j.worker.loaded(id, data)
		}
		answer(nil, errors.Join(failures...))
	})
}

func (j *job) load(ctx context.Context, ids []ps.Split) error {
	for _, id := range ids {
		if _, err := j.store.load(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func openIn(cfg Config, url string) func(ps.Split) (io.ReadCloser, error) {
	return func(id ps.Split) (io.ReadCloser, error) { return cfg.OpenSplit(url, id) }
}

// stop ends the node in order: what has begun is committed, the answer is said, and only then everything ends.
func (n *node) stop(ctx context.Context, do tiers.Stop, answer func(tiers.Result, error)) {
	n.log.Info("told to stop", "why", do.Why, "again", do.Again)
	j := n.job
	if do.Again { // nobody waits for what it has begun
		n.tasks.Go(func() error { return errAgain })
		return
	}
	n.tasks.Go(func() error {
		if j != nil {
			j.worker.stop()
			within, cancel := context.WithTimeout(ctx, stopGrace)
			defer cancel()
			select {
			case <-j.working:
			case <-within.Done():
				n.log.Warn("stopping although a round is under way", "waited", stopGrace)
			}
		}
		answer(nil, nil)
		n.lastWords(ctx)
		return errStopped
	})
}
