package sweep

import (
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim"
)

// Simulating a thousand machines takes as long as eight runs of 125, and gives nearly the same result: a pool's
// machines have one price and are lost together. So for fleets above mostApart, plans simulate bundles: each is a
// machine that works as fast and costs as much as several, and a fleet has as many bundles as keep its size the same.
// Bundles are bought, evicted and replaced as a whole, which is the only loss of detail. Splits, programs, thresholds
// between tiers and fees are scaled accordingly.
const (
	mostApart = 128 // machines of any type that are simulated individually
	fewTiers  = 16  // reliable machines that are simulated individually alongside bundles
	fineVCPU  = 64  // parts of a vCPU in which bundles are counted, so that their number is as wanted
)

// bundles is the ratio by which a fleet is reduced: groups instead of machines, of the type of which the job may want
// most.
type bundles struct{ machines, groups int }

// thinned returns 32 to 48 groups, of equal size if possible: rounded splits cost up to some hundredths of the time.
func thinned(machines int) bundles {
	b := bundles{machines: machines, groups: 40}
	for groups := 32; groups <= 48; groups++ {
		if machines%groups == 0 {
			b.groups = groups
		}
	}
	return b
}

// of returns how many bundles replace that many machines, or scales a number that goes with them: splits, tasks. For 0
// it returns 0.
func (b bundles) of(number int) int { return (number*b.groups + b.machines - 1) / b.machines }

// size returns the machines per bundle.
func (b bundles) size() float64 { return float64(b.machines) / float64(b.groups) }

// bundled returns the run with bundles instead of machines, and the machines per bundle; 1 = the run is unchanged.
func bundled(cfg sim.Config) (sim.Config, float64) {
	thin, size := thinning(&cfg)
	return thin(cfg), size
}

// thinning returns a function that reduces a run, or any other of the same job, to bundles.
func thinning(cfg *sim.Config) (thin func(sim.Config) sim.Config, size float64) {
	n := fleet(cfg)
	if n <= mostApart {
		return func(cfg sim.Config) sim.Config { return cfg }, 1
	}
	b := thinned(n)
	return b.in, b.size()
}

// in returns a run with bundles instead of machines.
func (b bundles) in(cfg sim.Config) sim.Config {
	if e := &cfg.Equivalent; e.Count > 0 {
		e.Type, e.Count = bundleOf(e.Type, e.Count, b.of(e.Count)), b.of(e.Count)
	}
	if r := &cfg.Reliable; r.Count > 0 {
		n, m := r.Count, max(b.of(r.Count), min(r.Count, fewTiers))
		r.Type, r.Count = bundleOf(r.Type, n, m), m
		if slices.ContainsFunc(cfg.Pools, func(p bidding.Candidate) bool { return p.Pool == r.Pool }) { // already priced as a bundle
			r.Type.OnDemand = cfg.Rules.Terms().Fees.Due(r.Pool, r.Type.OnDemand)
			r.Type.Name += " beside bundles"
			r.Pool.Type = r.Type.Name
		}
		// Ratios between tiers count machines, not bundles.
		ratio := float64(n) / float64(m) / b.size()
		cfg.Stages.TwoAbove *= ratio
		cfg.Stages.ThreeAbove *= ratio
	}

	pools, capacity := slices.Clone(cfg.Pools), map[market.Pool]int{}
	for i := range pools {
		p := &pools[i]
		n := machines(&cfg, p.Type)
		if n < 1 {
			continue
		}
		m := b.of(n)
		if limit, limited := cfg.Capacity[p.Pool]; limited {
			capacity[p.Pool] = limit * m / n
		}
		p.Type, p.MaxPrice = bundleOf(p.Type, n, m), times(p.MaxPrice, n, m)
		p.History = p.History.Map(func(price market.USD) market.USD { return times(price, n, m) })
		p.Availability = p.Availability.Map(func(count int) int { return count * m / n })
	}
	cfg.Pools, cfg.Capacity = pools, capacity
	if cfg.Hazard.Draws() {
		h := *cfg.Hazard
		h.Pools = slices.Clone(h.Pools)
		for i := range h.Pools {
			h.Pools[i].Places = b.of(h.Pools[i].Places) // otherwise most events would hit no bundle
		}
		cfg.Hazard = &h
	}
	cfg.Want = bidding.Want{Machines: b.of(cfg.Want.Machines), VCPU: cfg.Want.VCPU * fineVCPU}
	cfg.Job.Splits = b.of(cfg.Job.Splits)
	cfg.Timing.Clock = time.Duration(float64(cfg.Timing.Clock) * b.size())
	cfg.Rules = market.WithFeesTimes(cfg.Rules, b.size())
	if cfg.Programs != nil {
		cfg.Programs = b.programs(*cfg.Programs)
	}
	return cfg
}

// programs returns the programs of a reduced fleet; its tasks, and trials, are fewer and longer.
func (b bundles) programs(p sim.Programs) *sim.Programs {
	p.Count, p.Least, p.Tasks, p.Rungs = b.of(p.Count), b.of(p.Least), b.of(p.Tasks), slices.Clone(p.Rungs)
	for i := range p.Rungs {
		p.Rungs[i].Keep = b.of(p.Rungs[i].Keep)
	}
	return &p
}

// bundleOf returns a type of which m do the work of n of another.
func bundleOf(t market.InstanceType, n, m int) market.InstanceType {
	t.Rate = t.WorkRate() * float64(n) / float64(m)
	t.VCPU = (t.VCPU*n*fineVCPU + m - 1) / m
	t.OnDemand = times(t.OnDemand, n, m)
	return t
}

func times(price market.USD, n, m int) market.USD { return price * market.USD(n) / market.USD(m) }
