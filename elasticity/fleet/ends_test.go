package fleet

import (
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/tempo"
)

// A task that does not fit into two minutes is not begun because a wrong clock makes them look like seven.
func TestDeadlinesByOurClock(t *testing.T) {
	f := New(&Config{Settings: tempo.Settings{Speed: 1}}, &step.Step{Now: epoch}, &Demand{})
	for _, test := range []struct{ notice, told, want time.Duration }{
		{2 * time.Minute, 90 * time.Second, 90 * time.Second},
		{2 * time.Minute, 2 * time.Minute, 2 * time.Minute},
		{2 * time.Minute, 7 * time.Minute, 2 * time.Minute},
		{150 * time.Second, 7 * time.Minute, 150 * time.Second},
		{30 * time.Second, 2 * time.Minute, 2 * time.Minute}, // measured, not assumed
		{2 * time.Minute, -3 * time.Minute, time.Minute},
		{30 * time.Second, 0, 15 * time.Second},
		{0, -time.Minute, -time.Minute}, // the length of notices is unknown
	} {
		f.cfg.Notice = test.notice
		if got := f.byOurClock(epoch.Add(test.told)).Sub(epoch); got != test.want {
			t.Errorf("notices of %v, %v are told to be left: %v, want %v", test.notice, test.told, got, test.want)
		}
	}
}

// Replicas of a model are not released when the rest of their rounds would not pay for another hour: without them it is another model, no
// sooner.
func TestFirmFleetStaysToTheEnd(t *testing.T) {
	for _, firm := range []bool{false, true} {
		f := New(&Config{Settings: tempo.Settings{Speed: 1}, Firm: firm}, &step.Step{Now: epoch}, &Demand{})
		f.Serve(halfDone{})
		if f.View.State().Firm != firm {
			t.Errorf("firm %v: the policy sees %v", firm, !firm)
		}
	}
}

type halfDone struct{ Work }

func (halfDone) Progress() step.Progress { return step.Progress{Done: 1, Whole: 2} }
