package node

import (
	"context"
	"fmt"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// compute does a round: read, compute, wait for the declared rate, contribute. It gives what was measured and how long
// that took from when the rows were there, in wall-clock seconds: before, it may have waited for others.
func (w *worker) compute(ctx context.Context, r *round) ([]tiers.SplitStats, float64, error) {
	w.space.begin(r.data, r.clock, r.evaluate)
	if err := w.client.Read(ctx, r.generation, r.clock, w.space.keys, w.space.given); err != nil {
		return nil, 0, fmt.Errorf("reading %d rows: %w", len(w.space.keys), err)
	}
	if !w.begin(r) {
		return nil, 0, errBrokenOff
	}
	began := time.Now()
	stats, err := w.runSplits(ctx, r)
	if err != nil {
		return nil, 0, err
	}
	if err := w.contribute(ctx, r, w.space.updates()); err != nil {
		return nil, 0, err
	}
	return stats, time.Since(began).Seconds(), nil
}

// runSplits computes the round's splits one after the other and holds them to the declared rate.
func (w *worker) runSplits(ctx context.Context, r *round) ([]tiers.SplitStats, error) {
	started := time.Now()
	stats := make([]tiers.SplitStats, len(r.splits))
	var work float64
	for i, id := range r.splits {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s, err := w.space.compute(i, r.data[i], r.clock, r.evaluate)
		if err != nil {
			return nil, fmt.Errorf("split %d: %w: %w", id, errUncomputable, err)
		}
		stats[i] = splitStats(id, s)
		work += s.Work
	}
	return stats, w.pacer.wait(ctx, started, work)
}

func (w *worker) contribute(ctx context.Context, r *round, updates []ps.Sums) error {
	w.sequence++
	if err := w.client.Contribute(ctx, r.generation, w.inc, w.sequence, r.clock, r.splits, updates); err != nil {
		return fmt.Errorf("contributing: %w", err)
	}
	return nil
}
