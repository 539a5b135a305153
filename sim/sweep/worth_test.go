package sweep

import (
	"testing"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
)

// At the eviction rate at which a plan says that the reliable tier begins to pay, it costs as much as none; at four times the rate it is
// cheaper.
func TestTierPaysFromTheRateThatPlansName(t *testing.T) {
	for _, rules := range []string{"ec2-2017", "gce-spot"} {
		m := demoMaker(t, rules, 0)
		made, err := m.By("tierml")
		if err != nil {
			t.Fatal(err)
		}
		w := m.Worth(&made, made.Sim.Start, false)
		if w == nil || w.Tier == nil || w.Starts != worthStarts {
			t.Fatalf("%s: %+v", rules, w)
		}
		tier := w.Tier
		t.Logf("%s: %s", rules, tier)
		if tier.Always != (tier.Without > tier.With) || !tier.Always && tier.From < 8 {
			t.Errorf("%s: %+v", rules, tier)
		}
		if tier.Always {
			continue
		}
		without, err := m.By("checkpoint")
		if err != nil {
			t.Fatal(err)
		}
		c := comparison{now: made.Sim.Start, starts: worthOf(&made.Sim, made.Sim.Start)}
		a, _, ends := c.means(losing(bundledPast(made.Sim), 4/tier.From))
		b, _, end := c.means(losing(bundledPast(without.Sim), 4/tier.From))
		if !ends || end && a >= b {
			t.Errorf("%s: at one eviction in %g hours it costs $%.2f with the tier and $%.2f without", rules, tier.From/4, a, b)
		}
	}
}

// The plan of a job that prefers cost reports the price of time; that of one that prefers time does not.
func TestPriceOfWaiting(t *testing.T) {
	m := demoMaker(t, "ec2-2017", market.Dollar)
	made, err := m.By("cost-per-work")
	if err != nil {
		t.Fatal(err)
	}
	w := m.Worth(&made, made.Sim.Start, false).Waiting
	t.Log(w)
	if w == nil || w.Policy != "cost-per-work" || w.More <= 0 || w.Sooner < time.Hour {
		t.Errorf("%+v", w)
	}
	m.Job.Prefer = config.PreferTime
	if made, err = m.By("cost-per-work"); err != nil {
		t.Fatal(err)
	}
	if w := m.Worth(&made, made.Sim.Start, false).Waiting; w != nil {
		t.Errorf("a job that prefers time already: %s", w)
	}
}
