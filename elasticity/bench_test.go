package elasticity

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// BenchmarkStepAtPrice measures the controller's answer to a price change while 128 spot machines train: with a policy that finds nothing
// to do, and with the paper's, which compares the MTTFs of two pools over two weeks of prices, one a minute. It reports the p50 and p99 of
// single steps; reading the clock adds some tens of nanoseconds to each.
func BenchmarkStepAtPrice(b *testing.B) {
	for _, policy := range []bidding.Policy{nil, bidding.TierML{}} {
		name := "controller"
		if policy != nil {
			name = policy.Name()
		}
		b.Run(name, func(b *testing.B) {
			w := grownWorld(128)
			c, now, rng := w.ctrl, w.now, rand.New(rand.NewPCG(1, 2))
			c.configure(func(cfg *Config) {
				cfg.DeadAfter = 1e6 * time.Hour
				for i := range cfg.Pools {
					p := &cfg.Pools[i]
					p.Type.OnDemand = market.Dollar
					*p.History = *weeksOfPrices(now, rng, spikes[i])
				}
				if policy != nil {
					cfg.Policy, cfg.Want = policy, bidding.Want{Machines: 128}
				}
			})
			c.training.Cuts.Due, c.step.Pending = c.step.Now.Add(1e6*time.Hour), true
			var took []time.Duration
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				now = now.Add(30 * time.Second)
				event := PriceChanged{Pool: c.cfg.Pools[i%2].Pool, At: now, Price: somePrice(rng, i/2, spikes[i%2])}
				begun := time.Now()
				actions := c.Step(now, event)
				took = append(took, time.Since(begun))
				if len(actions) != 1 {
					b.Fatalf("%d actions: %+v", len(actions), actions[:2])
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
		})
	}
}

// grownWorld returns a world in which this many transient machines train.
func grownWorld(machines int) *world {
	s := plain()
	s.deterministic = false
	s.transient, s.partitions, s.splits, s.clocks = machines, 64, max(256, machines+24), 300
	w := newWorld(1, s)
	if machines > 128 { // few clocks while they grow, and no twin
		w.unchecked, w.computing = true, func(*node) time.Duration { return 500 * time.Millisecond }
	}
	joined := 0
	w.onEntry = func(e journal.Entry) {
		if e.Kind == journal.Join {
			joined++
		}
	}
	w.step(Wake{})
	for joined < machines+1 || !w.grown(machines) {
		w.next()
	}
	return w
}

// spikes gives how often each pool's price exceeds the on-demand price: once in this many prices. The fleet is in the first pool.
var spikes = [2]int{4000, 100}

// weeksOfPrices returns a history of two weeks, one price a minute.
func weeksOfPrices(until time.Time, rng *rand.Rand, spike int) *market.History {
	var points []market.PricePoint
	for at := until.Add(-14 * 24 * time.Hour); !at.After(until); at = at.Add(time.Minute) {
		points = append(points, market.PricePoint{At: at, Price: somePrice(rng, len(points), spike)})
	}
	return market.NewHistory(points)
}

// somePrice is between 10 and 90 % of the on-demand price, except for spikes.
func somePrice(rng *rand.Rand, i, spike int) market.USD {
	if i%spike == spike-1 {
		return market.Dollar * 6 / 5
	}
	return market.Dollar/10 + market.USD(rng.Int64N(int64(market.Dollar*8/10)))
}
