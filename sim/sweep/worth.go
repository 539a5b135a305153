package sweep

import (
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/hazard"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/sim"
)

const (
	// worthStarts is the number of past starts for comparing choices, and worthReach how far back they lie.
	worthStarts = 6
	worthReach  = 28 * 24 * time.Hour
	// sooner is the share by which a run must be shorter to be worth a line.
	sooner = 0.05
)

// lossRates are the rates at which a reliable tier is tried, in evictions per machine hour.
var lossRates = [...]float64{0, 1. / 128, 1. / 32, 1. / 8}

// Worth compares a job with the same job without its reliable tier, and with one that prefers time, from the same past
// starts. Auto: the policy was chosen, so the comparison may choose another. Nil = the history is too short.
func (m *Maker) Worth(made *Made, now time.Time, auto bool) *planner.Worth {
	own, _ := bundled(pastOf(made.Sim))
	starts := worthOf(&own, now)
	if len(starts) < worthStarts/2 {
		return nil
	}
	c := comparison{now: now, starts: starts}
	w := &planner.Worth{Starts: len(starts)}
	if made.Sim.Reliable.Count > 0 && made.Sim.Programs == nil && (made.Sim.Policy != bidding.OnDemand{}) {
		if other, err := m.By(bidding.Checkpoint{}.Name()); err == nil {
			w.Tier = c.tier(own, bundledPast(other.Sim))
		}
	}
	w.Waiting = m.waiting(&c, own, auto)
	return w
}

// waiting compares with the runs that end earlier if time has the value that `prefer: time` gives it.
func (m *Maker) waiting(c *comparison, own sim.Config, auto bool) *planner.Waiting {
	if m.Job.Prefer == config.PreferTime || m.Job.ValueOfTime > 0 {
		return nil
	}
	names := []string{own.Policy.Name()}
	if auto {
		names = append(names, slices.DeleteFunc(candidatesOf(&own), func(name string) bool {
			policy, _ := bidding.ByName(name)
			return name == names[0] || !weighsTime(policy) && policy != bidding.OnDemand{}
		})...)
	} else if !weighsTime(own.Policy) {
		return nil
	}
	hurried := *m
	job := *m.Job
	job.Prefer = config.PreferTime
	hurried.Job = &job
	cost, length, ok := c.means(own)
	if !ok {
		return nil
	}
	value := dollars(job.ValueOfHour(PerHour(&own)))
	best, out := cost+value*length.Hours(), (*planner.Waiting)(nil)
	for _, name := range names {
		made, err := hurried.By(name)
		if err != nil || bidding.NeedsDeadline(made.Sim.Policy) {
			continue
		}
		dearer, shorter, ok := c.means(bundledPast(made.Sim))
		if sum := dearer + value*shorter.Hours(); ok && sum < best && dearer > cost {
			best = sum
			out = &planner.Waiting{Policy: name, Sooner: length - shorter, More: market.USD((dearer - cost) * float64(market.Dollar))}
		}
	}
	if out == nil || float64(out.Sooner) < sooner*float64(length) {
		return nil
	}
	return out
}

// weighsTime reports whether a policy decides differently if time has a value.
func weighsTime(p bidding.Policy) bool {
	switch p.(type) {
	case bidding.CostPerWork, bidding.Capacity, bidding.RolledBack:
		return true
	}
	return false
}

// pastOf returns a job to simulate from past starts, without what belongs to its own start.
func pastOf(cfg sim.Config) sim.Config {
	cfg.Faults, cfg.MaxDuration, cfg.Observers = nil, 0, sim.Observers{}
	return cfg
}

func bundledPast(cfg sim.Config) sim.Config {
	cfg, _ = bundled(pastOf(cfg))
	return cfg
}

// worthOf returns starts spread over the preceding weeks, latest first, from which the work is likely to end by now.
func worthOf(cfg *sim.Config, now time.Time) (starts []time.Time) {
	last := now.Add(-undisturbed(cfg) * 23 / 20)
	reach := min(worthReach, last.Sub(firstPrice(cfg.Pools)))
	if reach <= 0 {
		return nil
	}
	for i := range worthStarts {
		start := last.Add(-reach * time.Duration(i) / worthStarts).Truncate(time.Minute)
		if anyPriceAt(cfg.Pools, start) && !meetsHole(cfg, start) {
			starts = append(starts, start)
		}
	}
	return starts
}

// comparison compares jobs from the same past starts.
type comparison struct {
	now    time.Time
	starts []time.Time // latest first
}

// means returns the mean cost, in dollars, and the mean time. They are unknown if the run from some start does not end.
func (c *comparison) means(cfg sim.Config) (cost float64, length time.Duration, ok bool) {
	cfg.Pools = slices.Clone(cfg.Pools)
	for i := range cfg.Pools {
		cfg.Pools[i].History = cfg.Pools[i].History.Until(c.now)
		cfg.Pools[i].Availability = cfg.Pools[i].Availability.Until(c.now)
	}
	ids := make([]trialID, len(c.starts))
	for i, start := range c.starts {
		ids[i].start = start
	}
	runs, err := simulate(cfg, ids, c.now, nil)
	if err != nil {
		return 0, 0, false
	}
	for _, r := range runs {
		if !r.Finished {
			return 0, 0, false
		}
		cost += dollars(r.Cost) / float64(len(runs))
		length += r.Time / time.Duration(len(runs))
	}
	return cost, length, true
}

// tier compares a job that has a reliable tier with one that has none, and finds the rate of capacity evictions at
// which they cost the same. The difference grows about linearly with the rate: few evictions tell little, so it is
// interpolated between distant points. Nil = a run does not end.
func (c *comparison) tier(with, without sim.Config) (out *planner.TierWorth) {
	rate, dearer := 0.0, 0.0 // rate at which the tier does not pay, and the loss there
	for _, next := range lossRates {
		a, _, ends := c.means(losing(with, next))
		b, _, end := c.means(losing(without, next))
		pays := b - a
		switch {
		case next == 0 && ends && end:
			out = &planner.TierWorth{With: market.USD(a * float64(market.Dollar)), Without: market.USD(b * float64(market.Dollar)), Always: pays > 0}
		case !ends:
			return out
		case !end: // the job does not end without the tier
			pays = max(a, dearer)
		}
		if out == nil || out.Always {
			return out
		}
		if pays > 0 {
			hours := 1 / (rate + (next-rate)*dearer/(dearer+pays))
			digit := math.Pow(10, math.Floor(math.Log10(hours))-1)
			out.From = math.Round(hours/digit) * digit
			return out
		}
		rate, dearer = next, -pays
	}
	return out
}

// losing returns a job whose spot machines are evicted at a constant hourly rate, in addition to evictions by prices
// and recorded availability.
func losing(cfg sim.Config, rate float64) sim.Config {
	if rate == 0 {
		cfg.Hazard = nil
		return cfg
	}
	h := &hazard.Hazard{Seed: cfg.Seed}
	cfg.Pools = slices.Clone(cfg.Pools)
	for i := range cfg.Pools {
		c := &cfg.Pools[i]
		if c.OnDemand() {
			continue
		}
		if cfg.Rules.Terms().MaxBid == 0 { // otherwise policies go by prices
			c.Hints.Interruptions = bidding.Hint{Value: min(-math.Expm1(-730*rate), 0.999999), At: cfg.Start}
		}
		h.Pools = append(h.Pools, hazard.Pool{Pool: c.Pool, Places: 2 * placesOf(&cfg, c), Life: hazard.Constant(rate)})
	}
	cfg.Hazard = h
	return cfg
}
