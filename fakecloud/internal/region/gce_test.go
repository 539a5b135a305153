package region

import (
	"testing"
	"time"

	"github.com/tierml/tierml/market"
)

// gceRegion sells one type on Compute Engine's terms.
func gceRegion(t *testing.T) (*Region, time.Time) {
	t.Helper()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pool := market.Pool{Provider: GCE, Region: "us-central1", Zone: "us-central1-a", Type: "n2", Class: market.Spot}
	r, err := New(Config{Provider: GCE, Name: "us-central1", Notice: 30 * time.Second,
		Types: []Type{{InstanceType: market.InstanceType{Name: "n2", OnDemand: market.Dollar}}},
		Spot: map[market.Pool]*market.History{pool: market.NewHistory([]market.PricePoint{
			{At: start.Add(-time.Hour), Price: market.Dollar / 5}, {At: start.Add(time.Hour), Price: 2 * market.Dollar}})}})
	if err != nil {
		t.Fatal(err)
	}
	return r, start
}

// TestTermsOfComputeEngine: a price above on-demand takes no machine; the maximum run time and the 24 hours of preemptible machines do, the
// latter with a notice before; an extra notice comes earlier than others'.
func TestTermsOfComputeEngine(t *testing.T) {
	r, start := gceRegion(t)
	launch := func(name string, terms Terms) {
		t.Helper()
		if _, err := r.Launch(start, LaunchRequest{Type: "n2", Zone: "us-central1-a", Spot: true, Min: 1, Max: 1, Names: []string{name}, Terms: terms}); err != nil {
			t.Fatal(err)
		}
	}
	launch("spot-0", Terms{})
	launch("leash-0", Terms{MaxRun: 2 * time.Hour})
	launch("old-0", Terms{Preemptible: true, MaxLife: 24 * time.Hour})
	launch("early-0", Terms{ExtraNotice: 2 * time.Minute})
	state := func(at time.Time, name string) Instance {
		t.Helper()
		i, ok := r.Instance(at, name)
		if !ok {
			t.Fatalf("no %s", name)
		}
		return i
	}
	if i := state(start.Add(2*time.Hour-time.Second), "leash-0"); !i.State.Alive() {
		t.Errorf("%+v ended before its time", i)
	}
	if i := state(start.Add(2*time.Hour), "leash-0"); i.State.Alive() || i.Cause.By != market.ByUser || !i.Ended.Equal(start.Add(2*time.Hour)) {
		t.Errorf("got %+v, want it ended after two hours, as was asked for", i)
	}
	if i := state(start.Add(24*time.Hour-30*time.Second), "old-0"); i.Deadline != start.Add(24*time.Hour) {
		t.Errorf("got %+v, want the notice half a minute before", i)
	}
	if i := state(start.Add(24*time.Hour), "old-0"); i.Cause.By != market.ByProvider || i.Cause.Code != "compute.instances.preempted" {
		t.Errorf("got %+v, want it preempted after 24 hours", i)
	}
	if i := state(start.Add(25*time.Hour), "spot-0"); !i.State.Alive() || i.Bid != 0 {
		t.Errorf("got %+v, want it alive: there are no bids", i)
	}
	now := start.Add(26 * time.Hour)
	if err := r.Evict(now, []string{"spot-0", "early-0"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]time.Duration{"spot-0": 30 * time.Second, "early-0": 150 * time.Second} {
		if got := state(now, name).Deadline.Sub(now); got != want {
			t.Errorf("%s: a notice of %s, want %s", name, got, want)
		}
	}
}
