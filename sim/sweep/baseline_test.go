package sweep

import (
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim"
)

// A plan compares with the work of policy on-demand: with few machines, where computation dominates, and with many, where clocks take
// longer than their share of it. The policy's run has a start and an end in addition.
func TestBaselineIsThePolicysWork(t *testing.T) {
	for _, machines := range []int{16, 200, 1000} {
		cfg := demo(t)
		var err error
		if cfg.Rules, err = market.Rules("ec2-now"); err != nil { // per second
			t.Fatal(err)
		}
		cfg.Job.Splits, cfg.Equivalent.Count, cfg.Want = 2001, machines, bidding.Want{Machines: machines}
		cfg.MaxDuration, cfg.Budget = 0, 0 // which would end the run
		cfg = WithPolicy(cfg, bidding.OnDemand{})
		r, err := sim.Run(cfg)
		if err != nil || !r.Finished() {
			t.Fatal(r, err)
		}
		base := Baseline(&cfg)
		computing := time.Duration(cfg.Job.Work / fleetRate(&cfg) * float64(time.Second))
		if base.Time < computing || machines == 1000 && base.Time < 10*computing {
			t.Errorf("%d machines: %s, of which %s are computing", machines, base.Time, computing)
		}
		const around = 15 * time.Minute
		edges := cfg.Timing.Boot + around
		most := base.Cost + base.Cost/200 + base.Fleet.Type.OnDemand.For(edges)*market.USD(machines)
		if r.Runtime < base.Time || r.Runtime > base.Time+base.Time/200+edges || r.Cost < base.Cost || r.Cost > most {
			t.Errorf("%d machines: the policy takes %s and $%s, undisturbed they are %s and $%s", machines, r.Runtime, r.Cost, base.Time, base.Cost)
		}
	}
}

// Splits that cannot be shared evenly make machines wait, and machines beyond the number of splits have no work.
func TestBaselineWaitsForTheLongest(t *testing.T) {
	cfg := demo(t)
	cfg.Timing.Clock = 0
	time := func(machines, splits int) float64 {
		cfg.Job.Splits = splits
		length, _ := cfg.Undisturbed(machines, 4)
		return length.Hours()
	}
	even := time(16, 64)
	if got := time(20, 64) / even; got < 0.999 || got > 1.001 {
		t.Errorf("20 machines with 64 splits take %.3f of the time of 16", got)
	}
	if got := time(128, 64) / time(64, 64); got != 1 {
		t.Errorf("128 machines with 64 splits take %.3f of the time of 64", got)
	}
	if got := time(32, 64) / even; got < 0.499 || got > 0.501 {
		t.Errorf("32 machines take %.3f of the time of 16", got)
	}
}
