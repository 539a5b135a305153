package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/agent"
	"github.com/tierml/tierml/tiers/node/child"
)

// obey executes one command. Commands that change the node's state are complete when it returns, so that they happen in the order in which
// they were sent. Slow ones run concurrently with the next ones and answer later.
func (n *node) obey(ctx context.Context, c tiers.Command) {
	n.log.Debug("command", "id", c.ID, "kind", fmt.Sprintf("%T", c.Do))
	if n.obeyProgram(ctx, c) {
		return
	}
	if n.job != nil {
		if err := tiers.CheckCommand(&n.job.welcome.Schema, c.Do); err != nil {
			n.agent.Answer(c.ID, nil, err)
			return
		}
		if do, ok := c.Do.(tiers.Welcome); ok && do.Incarnation == n.job.welcome.Incarnation { // of a controller that came back
			n.job.welcome.OrphanAfter = do.OrphanAfter
		}
	}
	if _, parks := c.Do.(tiers.Park); parks {
		n.hurry(false)
	}
	errand := n.agent.Take(c)
	if n.job != nil {
		n.job.worker.signal()
	}
	if errand != nil {
		n.run(ctx, errand, func(result tiers.Result, err error) { n.agent.Answer(c.ID, result, err) })
	}
}

// run executes what the agent leaves to it.
func (n *node) run(ctx context.Context, errand tiers.Do, answer func(tiers.Result, error)) {
	j := n.job
	switch do := errand.(type) {
	case tiers.Welcome:
		var err error
		n.job, err = n.join(ctx, do)
		answer(nil, err)
	case tiers.Stop:
		n.stop(ctx, do, answer)
	case tiers.SaveCut:
		j.save(ctx, n, do, answer)
	case tiers.TakeStock:
		j.takeStock(ctx, n, answer)
	case tiers.MoveOut:
		j.moveOut(ctx, n, do, answer)
	case tiers.FenceWorker:
		standings, err := j.server.FenceWorker(do.Incarnation)
		answer(tiers.Standings{Partitions: standings}, err)
	case tiers.Load:
		n.inBackground(ctx, func() {
			if err := j.load(ctx, do.Splits); !errors.Is(err, child.ErrFailed) { // which ends the node, with the reason
				answer(nil, err)
			}
		})
	}
}

// routed is a server with the client of the same process, which follows the same routes.
type routed struct {
	Server
	client Client
}

func (r routed) SetRoute(g ps.Generation, route ps.Route, peers map[ps.ServerID]string) error {
	r.client.SetRoute(g, route, peers)
	return r.Server.SetRoute(g, route, peers)
}

func (r routed) Recover(do tiers.Recover) error {
	err := r.Server.Recover(do)
	if err == nil {
		r.client.SetRoute(do.Generation, do.Route, do.Peers)
	}
	return err
}

// inBackground does slow work without delaying the next command.
func (n *node) inBackground(ctx context.Context, f func()) {
	n.task(ctx, func() error {
		f()
		return nil
	})
}

func (j *job) moveOut(ctx context.Context, n *node, do tiers.MoveOut, answer func(tiers.Result, error)) {
	ended := make(chan struct{})
	j.moves = append(slices.DeleteFunc(j.moves, over), ended)
	n.inBackground(ctx, func() {
		defer close(ended)
		took, err := j.server.MoveOut(ctx, do)
		if err != nil {
			answer(nil, err)
			return
		}
		answer(took, nil)
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

// save writes the present cut, while the next ones arrive. A cut that is still being written has taken too long.
func (j *job) save(ctx context.Context, n *node, do tiers.SaveCut, answer func(tiers.Result, error)) {
	if j.endSave != nil {
		j.endSave()
	}
	ctx, j.endSave = context.WithCancel(ctx)
	end := j.endSave
	held := make(chan struct{})
	n.inBackground(ctx, func() {
		defer end()
		parts, err := j.server.SaveCut(ctx, do, func() { close(held) })
		answer(tiers.Saved{Parts: parts}, err)
	})
	<-held // before the next command, which may be the commit of another cut
}

// takeStock answers when all moves begun have ended: until then ownership is unknown.
func (j *job) takeStock(ctx context.Context, n *node, answer func(tiers.Result, error)) {
	moves := slices.Clone(j.moves)
	n.inBackground(ctx, func() {
		for _, ended := range moves {
			<-ended // a move ends with its context
		}
		stock := j.server.TakeStock()
		stock.Splits, stock.Loaded = locked(j.worker, (*agent.Worker).Stock), j.store.loaded()
		answer(stock, nil)
	})
}

// load reads splits into memory. The worker gets its own splits as soon as they are loaded: it works on the first ones meanwhile.
func (j *job) load(ctx context.Context, ids []ps.Split) error {
	var failures []error
	for _, id := range ids {
		data, err := j.store.load(ctx, id)
		if err != nil {
			failures = append(failures, err)
		}
		j.worker.mu.Lock()
		if err != nil {
			j.worker.agent.NotLoaded(id)
		} else {
			j.worker.agent.Loaded(id, data)
		}
		j.worker.mu.Unlock()
		j.worker.signal()
	}
	return errors.Join(failures...)
}

func openIn(cfg Config, url string) func(ps.Split) (io.ReadCloser, error) {
	return func(id ps.Split) (io.ReadCloser, error) { return cfg.OpenSplit(url, id) }
}

// stop ends the node gracefully: what has begun is committed, the answer is sent, and only then everything ends.
func (n *node) stop(ctx context.Context, do tiers.Stop, answer func(tiers.Result, error)) {
	n.log.Info("asked to stop", "why", do.Why, "again", do.Again)
	j := n.job
	if do.Again { // what it has begun is not awaited
		n.tasks.Go(func() error { return errAgain })
		return
	}
	n.hurry(true)
	n.tasks.Go(func() error {
		if j != nil {
			j.worker.mu.Lock()
			j.worker.agent.Stop()
			j.worker.mu.Unlock()
			j.worker.signal()
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
