package restart

import (
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// ended returns a run whose machines have ended, while their cost is still unknown.
func ended(t *testing.T, speed float64) *driver {
	t.Helper()
	zone := "ra"
	d, ids := trains(t, &zone, func(c *Config) { c.Speed = speed })
	d.step(time.Minute, elasticity.StopWanted{Why: "enough", Now: true})
	for _, id := range ids {
		d.end(id, market.ByUser)
	}
	return d
}

// waits steps whenever the controller wants to be woken, and returns after how much market time it finished.
func (d *driver) waits(most time.Duration) time.Duration {
	d.t.Helper()
	for began := d.now; d.now.Sub(began) < most; {
		d.step(d.c.NextWake().Sub(d.now), elasticity.Wake{})
		if d.c.step.Finished {
			return d.now.Sub(began)
		}
	}
	return most
}

// The end of a run waits for the last prices as long as it does with a reliable tier, however fast the market is replayed: two hours would
// be ten seconds of a demo, in which a cloud may well refuse to answer.
func TestBillsAreWaitedForBySpeed(t *testing.T) {
	for _, speed := range []float64{1, 720} {
		d := ended(t, speed)
		want := fleet.ChargeWait(d.c.cfg.Settings)
		if got := d.waits(2 * want); got < want || got > want+5*time.Minute {
			t.Errorf("at speed %g it waited for %s, want %s", speed, got, want)
		}
	}
}

// A controller that was stopped at its end requests the last prices when it continues, before it gives up on the bills.
func TestBillsAreWaitedForAfterAPause(t *testing.T) {
	d := ended(t, 1)
	d.step(5*time.Hour, elasticity.Wake{})
	if d.c.step.Finished {
		t.Fatal("it gave the bills up without having asked")
	}
	d.step(time.Second, elasticity.PricesKnown{At: d.now})
	charged := 0
	for _, e := range d.entries {
		if e.Kind == journal.Charge && e.USD != "0" {
			charged++
		}
	}
	if !d.c.step.Finished || charged != 2 {
		t.Errorf("finished: %v, with bills of %d machines", d.c.step.Finished, charged)
	}
}
