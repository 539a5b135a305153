package node

import (
	"context"
	"fmt"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/agent"
)

// compute does a round: read, compute, wait for the declared rate, and begin to contribute. It reports how long that took after the rows
// had arrived, in wall-clock seconds: before, it may have waited for others.
func (w *worker) compute(life, ctx context.Context, r *round) error {
	if w.outside != nil {
		w.outside.Begin(ctx, r.Clock, r.Splits)
	}
	team := w.space.team(r.data)
	w.space.begin(team, r.Clock, r.evaluate)
	if r.Taken {
		w.rows.renew()
	}
	if err := w.rows.read(ctx, r.Generation, r.Clock, w.space.keys, w.space.given); err != nil {
		return fmt.Errorf("reading %d rows: %w", len(w.space.keys), err)
	}
	if !locked(w, func(a *agent.Worker) bool { return a.Begin(r.Round) }) {
		return errBrokenOff
	}
	began := time.Now()
	w.readAhead(life, r)
	stats, err := w.runSplits(ctx, r, team)
	if err != nil {
		return err
	}
	w.computing = time.Since(began)
	return w.send(life, ctx, r, w.space.updates(team, w.rows.cache != nil), stats, began)
}

// readAhead begins to read what the next round will need, if there is time for it.
func (w *worker) readAhead(life context.Context, r *round) {
	if w.rows.cache == nil || w.rows.late {
		return
	}
	next := locked(w, func(a *agent.Worker) *round { return w.round(a.After(r.Round)) })
	if next != nil && !next.Taken {
		w.rows.begin(life, next, w.computing)
	}
}

// runSplits computes the round's splits and limits them to the declared rate.
func (w *worker) runSplits(ctx context.Context, r *round, t roundSplits) ([]tiers.SplitStats, error) {
	started := time.Now()
	measured, at, err := w.space.compute(ctx, t, r.Clock, r.evaluate)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && at >= 0:
		return nil, fmt.Errorf("split %d: %w: %w", r.Splits[at], errUncomputable, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errUncomputable, err)
	}
	stats := make([]tiers.SplitStats, len(r.Splits))
	var work float64
	for i, id := range r.Splits {
		stats[i] = splitStats(id, measured[i])
		work += measured[i].Work
	}
	if w.outside != nil { // its work is derived from its duration, and its rate is not limited
		w.weigh(stats, time.Since(started))
		return stats, nil
	}
	return stats, w.pacer.wait(ctx, started, work)
}

// weigh assigns work to a round that another process has computed, if the machine's rate is declared.
func (w *worker) weigh(stats []tiers.SplitStats, took time.Duration) {
	computed := 0
	for i := range stats {
		if stats[i].Work > 0 {
			computed++
		}
	}
	for i := range stats {
		if stats[i].Work > 0 && w.pacer.rate > 0 {
			stats[i].Work = took.Seconds() * w.pacer.rate / float64(computed)
		}
	}
}

// send begins to contribute a round, once the previous one has been contributed.
func (w *worker) send(life, ctx context.Context, r *round, updates []ps.Sums, stats []tiers.SplitStats, began time.Time) error {
	w.awaitSent()
	if !locked(w, func(a *agent.Worker) bool { return a.Computed(r.Round) }) {
		return errBrokenOff
	}
	w.sequence++
	sequence := w.sequence
	if err := w.rows.own(r, sequence, updates); err != nil {
		return fmt.Errorf("adding up own work: %w", err)
	}
	sent := make(chan struct{})
	w.sent = sent
	go func() { // awaitSent waits for it, at the latest at the end of run
		defer close(sent)
		defer r.cancel(nil)
		err := guard(func() error {
			return w.client.Contribute(ctx, r.Generation, w.agent.Incarnation, sequence, r.Clock, r.Splits, updates)
		})
		if err != nil {
			err = fmt.Errorf("contributing: %w", err)
		} else {
			w.rows.counted(sequence)
		}
		w.finish(life, r, stats, time.Since(began).Seconds(), err)
	}()
	return nil
}

// awaitSent waits until the last contribution has ended, successfully or not.
func (w *worker) awaitSent() {
	if w.sent != nil {
		<-w.sent
	}
}
