package elasticity

import (
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// BenchmarkStepAtPrice is the controller's answer to a change of price while 128 spot machines train: with a policy
// that finds nothing to do, and with the paper's. Its figure is the p50 of single steps; reading the clock adds some tens
// of nanoseconds to each.
func BenchmarkStepAtPrice(b *testing.B) {
	for _, policy := range []bidding.Policy{nil, bidding.TierML{}} {
		name := "controller"
		if policy != nil {
			name = policy.Name()
		}
		b.Run(name, func(b *testing.B) {
			s := plain()
			s.deterministic = false
			s.transient, s.partitions, s.splits, s.clocks = 128, 64, 256, 1e6
			w := newWorld(1, s)
			joined := 0
			w.onEntry = func(e journal.Entry) {
				if e.Kind == journal.Join {
					joined++
				}
			}
			w.step(Wake{})
			for joined < 129 || !w.grown(128) {
				w.next()
			}
			c := w.ctrl
			c.cfg.DeadAfter, c.cutDue, c.stirred = 1e6*time.Hour, c.now.Add(1e6*time.Hour), true
			if policy != nil {
				c.cfg.Policy = policy
			}
			now := w.now
			var took []time.Duration
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				now = now.Add(time.Minute)
				price := market.Dollar/10 + market.USD(i%7)
				event := PriceChanged{Pool: poolA, At: now, Price: price}
				begun := time.Now()
				actions := c.Step(now, event)
				took = append(took, time.Since(begun))
				if len(actions) != 1 {
					b.Fatalf("%d actions: %+v", len(actions), actions[:2])
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
		})
	}
}
