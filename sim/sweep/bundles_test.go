package sweep

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/hazard"
	"github.com/tierml/tierml/sim"
)

// tenfold returns a job with ten times the machines and supply.
func tenfold(cfg sim.Config) sim.Config {
	cfg.Want.VCPU *= 10
	cfg.Job.Splits *= 10
	cfg.Equivalent.Count *= 10
	for i, p := range cfg.Pools {
		cfg.Pools[i].Availability = p.Availability.Map(func(n int) int { return n * 10 })
	}
	return cfg
}

// meanOf returns the mean cost and time of some starts by a policy, the latest 60 hours before prices end.
func meanOf(t *testing.T, cfg sim.Config, policy string, starts int) (cost, hours float64) {
	t.Helper()
	var end time.Time
	for _, p := range cfg.Pools {
		if last, _ := p.History.Last(); last.At.After(end) {
			end = last.At
		}
	}
	by, err := bidding.ByName(policy)
	if err != nil {
		t.Fatal(err)
	}
	b := block{cfg: WithPolicy(cfg, by), within: Within(&cfg)}
	for i := range starts {
		r, err := b.simulate(end.Add(-60*time.Hour - time.Duration(i)*17*time.Hour))
		if err != nil || r.Cost == 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		cost, hours = cost+dollars(r.Cost)/float64(starts), hours+r.Runtime.Hours()/float64(starts)
	}
	return cost, hours
}

// TestBundlesCostAsMachinesDo: the same job by machines and in bundles, in markets of all characters. One on-demand start more or less
// changes the mean of four by some hundredths.
func TestBundlesCostAsMachinesDo(t *testing.T) {
	var off, of float64
	for seed, c := range characters {
		cfg := OnEC2(tenfold(c.drawn(t, rand.New(rand.NewPCG(uint64(seed), 5))).job), 8*time.Hour)
		thin, size := bundled(cfg)
		if n := fleet(&thin); size < 3 || n < 32 || n > 48 {
			t.Errorf("%d machines became %d of %g", fleet(&cfg), n, size)
		}
		for _, policy := range []string{"tierml", "checkpoint", "capacity", "on-demand"} {
			cost, hours := meanOf(t, cfg, policy, 4)
			inBundles, inHours := meanOf(t, thin, policy, 4)
			off, of = off+math.Abs(inBundles/cost-1)+math.Abs(inHours/hours-1), of+2
			if math.Abs(inBundles/cost-1) > 0.06 || math.Abs(inHours/hours-1) > 0.06 {
				t.Errorf("%s under %s by %s: $%.2f in %.2f h, in bundles $%.2f in %.2f h", c.name, cfg.Rules.Name(), policy, cost, hours, inBundles, inHours)
			}
		}
	}
	if t.Logf("off by %.2f %% in the mean", 100*off/of); off > 0.01*of {
		t.Error("that is more than 1 %")
	}
}

// TestBundlesKeepTheJobsSettings: what a job declares reaches its bundles, scaled.
func TestBundlesKeepTheJobsSettings(t *testing.T) {
	cfg, _ := pastJob(t, always)
	pool := cfg.Pools[0].Pool
	cfg.Want = bidding.Want{Machines: 1000}
	cfg.Job.Splits, cfg.Reliable.Count, cfg.Stages.ThreeAbove = 2000, 32, 15
	cfg.Capacity = map[market.Pool]int{pool: 500}
	cfg.Timing.Clock = time.Millisecond
	cfg.Equivalent.Count = 1000
	var err error
	if cfg.Rules, err = market.Rules("ec2-now+address=0.004"); err != nil {
		t.Fatal(err)
	}
	cfg.Programs = &sim.Programs{Count: 1000, Tasks: 5000}
	cfg.Hazard = &hazard.Hazard{Pools: []hazard.Pool{{Pool: pool, Life: hazard.Constant(0.1), Places: 2000}}}
	thin, size := bundled(cfg)
	if size != 25 || thin.Want != (bidding.Want{Machines: 40}) || thin.Job.Splits != 80 || thin.Capacity[pool] != 20 || thin.Timing.Clock != 25*time.Millisecond {
		t.Errorf("bundles of %g: %+v", size, thin)
	}
	if p := thin.Programs; p.Count != 40 || p.Tasks != 200 || cfg.Programs.Tasks != 5000 {
		t.Errorf("%+v", p)
	}
	if is, was := thin.Hazard.Pools[0].Places, cfg.Hazard.Pools[0].Places; is != 80 || was != 2000 {
		t.Errorf("evictions of %d places, of %d before", is, was)
	}
	if thin.Stages.ThreeAbove != 15*2/25.0 || thin.Reliable.Count != 16 || thin.Equivalent.Count != 40 {
		t.Errorf("stage 3 above %g, reliable %+v, on demand %+v", thin.Stages.ThreeAbove, thin.Reliable, thin.Equivalent)
	}
	if PerHour(&thin) != PerHour(&cfg) || fleetRate(&thin) != fleetRate(&cfg) || hourly(thin.Reliable) != hourly(cfg.Reliable) {
		t.Errorf("on demand costs %s an hour for %g, %s for %g; reliable machines %s, %s", PerHour(&cfg), fleetRate(&cfg), PerHour(&thin), fleetRate(&thin),
			hourly(cfg.Reliable), hourly(thin.Reliable))
	}
	before, _ := cfg.Pools[0].History.At(cfg.Start)
	after, _ := thin.Pools[0].History.At(cfg.Start)
	if after != 25*before || thin.Rules.Terms().Fees.PerHour() != 25*cfg.Rules.Terms().Fees.PerHour() {
		t.Errorf("a machine costs %s, a bundle %s; fees %s", before, after, thin.Rules.Terms().Fees.PerHour())
	}
}

func hourly(r elasticity.Reliable) market.USD { return r.Type.OnDemand * market.USD(r.Count) }
