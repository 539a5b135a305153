package api

import (
	"context"
	"time"

	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/adapter"
)

// Notify polls the states of machines and of their spot requests, and reports each change once, ordered by id. EC2's warning appears in the
// spot request's status some seconds after it appears in the machine's own metadata (see notice), so this is the second source: for
// machines whose agent does not answer, and the only source that reports ends. This API does not report raised risk (rebalance) at all.
func (c *Cloud) Notify(ctx context.Context, f func(provisioner.Notice)) error {
	return adapter.Watch(ctx, c.config.Log, c.config.PollInterval, func(ctx context.Context) ([]adapter.Shown, error) {
		machines, err := c.describe(ctx)
		if err != nil {
			return nil, err
		}
		shown := make([]adapter.Shown, len(machines))
		for n, m := range machines {
			shown[n].Instance = m.Instance
			if !m.warned.IsZero() {
				shown[n].Deadline = c.deadline(m.warned)
			}
		}
		return shown, nil
	}, f)
}

// deadline returns the market time at which a marked machine ends: the warning period is wall-clock.
func (c *Cloud) deadline(marked time.Time) time.Time {
	return marked.Add(c.config.Clock.ToMarket(c.config.NoticeLength))
}
