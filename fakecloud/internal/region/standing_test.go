package region

import (
	"maps"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
)

func state(t *testing.T, r *Region, now time.Time, id string) State {
	t.Helper()
	i, ok := r.Instance(now, id)
	if !ok {
		t.Fatalf("no instance %s", id)
	}
	return i.State
}

func TestStopAndStart(t *testing.T) {
	r := newRegion(t, func(c *Config) { c.Limits.OnDemandInstances = 1 })
	id := launch(t, r, t0, LaunchRequest{Type: "small", Zone: "us-west-1a", Tags: map[string]string{"a": "b"}})[0].ID
	if _, err := r.Stop(after(time.Second), []string{id}, false); code(err) != "IncorrectInstanceState" {
		t.Errorf("stop before it runs: %v", err)
	}
	r.Advance(after(2 * time.Minute))
	r.Effects()
	changes, err := r.Stop(after(10*time.Minute), []string{id}, false)
	if err != nil || changes[0].Previous != Running || changes[0].Current != Stopping {
		t.Fatalf("stop: %+v %v", changes, err)
	}
	if got, want := say(r.Effects()), "ended user 00:10:00, term"; got != want {
		t.Errorf("effects of stop: %s, want %s", got, want)
	}
	if _, err := r.Start(after(10*time.Minute), []string{id}); code(err) != "IncorrectInstanceState" {
		t.Errorf("start while it stops: %v", err)
	}
	r.Gone(after(11*time.Minute), id)
	if s := state(t, r, after(11*time.Minute), id); s != Stopped {
		t.Errorf("state %s once its process is gone", s)
	}
	// A stopped machine takes no room.
	other := launch(t, r, after(12*time.Minute), LaunchRequest{Type: "small"})[0].ID
	if _, err := r.Start(after(12*time.Minute), []string{id}); code(err) != "InstanceLimitExceeded" {
		t.Errorf("start beyond the limit: %v", err)
	}
	if _, err := r.Terminate(after(13*time.Minute), []string{other}); err != nil {
		t.Fatal(err)
	}
	r.Gone(after(13*time.Minute), other)
	r.Effects()
	if _, err := r.Start(after(20*time.Minute), []string{id}); err != nil {
		t.Fatal(err)
	}
	i, _ := r.Instance(after(21*time.Minute), id)
	if i.State != Running || !i.Launched.Equal(after(20*time.Minute)) || !i.Ended.IsZero() || i.Tags["a"] != "b" {
		t.Errorf("started: %+v", i)
	}
	if got, want := say(r.Effects()), "launched, boot"; got != want {
		t.Errorf("effects of start: %s, want %s", got, want)
	}
	// Terminated while it stops, and while it is stopped.
	for _, first := range []bool{true, false} {
		if _, err := r.Stop(after(30*time.Minute), []string{id}, true); err != nil {
			t.Fatal(err)
		}
		r.Effects()
		if !first {
			r.Gone(after(30*time.Minute), id)
		}
		if _, err := r.Terminate(after(30*time.Minute), []string{id}); err != nil {
			t.Fatal(err)
		}
		r.Gone(after(30*time.Minute), id)
		if s := state(t, r, after(30*time.Minute), id); s != Terminated || len(r.Effects()) != 0 {
			t.Errorf("terminated after stop: %s, or it ended twice", s)
		}
		if _, err := r.Start(after(30*time.Minute), []string{id}); code(err) != "IncorrectInstanceState" {
			t.Errorf("start of a terminated machine: %v", err)
		}
		id = launch(t, r, after(30*time.Minute), LaunchRequest{Type: "small"})[0].ID
		r.Advance(after(30 * time.Minute))
		r.instances[id].State = Running
	}
	spot := launch(t, r, after(40*time.Minute), LaunchRequest{Type: "small", Spot: true})[0].ID
	if _, err := r.Stop(after(40*time.Minute), []string{spot}, false); code(err) != "UnsupportedOperation" {
		t.Errorf("stop of a spot machine: %v", err)
	}
}

// A protected machine is terminated only once its protection is removed, and until then neither are others in the same call; spot machines
// have none.
func TestProtectedMachineIsNotTerminated(t *testing.T) {
	r := newRegion(t, nil)
	kept := launch(t, r, after(0), LaunchRequest{Type: "small", Shown: Shown{Protected: true}})[0].ID
	other := launch(t, r, after(0), LaunchRequest{Type: "small"})[0].ID
	if _, err := r.Terminate(after(time.Minute), []string{other, kept}); code(err) != "OperationNotPermitted" || !state(t, r, after(time.Minute), other).Alive() {
		t.Errorf("a protected machine is terminated: %v", err)
	}
	if err := r.Modify(after(time.Minute), kept, SetProtected(false)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Terminate(after(time.Minute), []string{other, kept}); err != nil || state(t, r, after(time.Minute), kept).Alive() {
		t.Errorf("without protection: %v", err)
	}
	spot := launch(t, r, after(40*time.Minute), LaunchRequest{Type: "small", Spot: true})[0].ID
	if err := r.Modify(after(40*time.Minute), spot, SetProtected(true)); code(err) != "UnsupportedOperation" {
		t.Errorf("protection of a spot machine: %v", err)
	}
	if err := r.Modify(after(40*time.Minute), "i-0", SetProtected(true)); code(err) != "InvalidInstanceID.NotFound" {
		t.Errorf("protection of no machine: %v", err)
	}
}

func TestSpotRequestWaitsForThePrice(t *testing.T) {
	r := newRegion(t, nil)
	q := LaunchRequest{Type: "small", Zone: "us-west-1a", MaxPrice: usd(t, "0.10"), Token: "one", Fingerprint: "f"}
	ask := func(count int, until time.Time) []Instance {
		t.Helper()
		list, err := r.RequestSpot(after(40*time.Minute), q, count, until)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	made := ask(2, time.Time{})
	if len(made) != 2 || made[0].ID != "" || made[0].Request.Code != "price-too-low" {
		t.Fatalf("at a high price: %+v", made)
	}
	if again := ask(2, time.Time{}); len(again) != 2 || again[0].Request.ID != made[0].Request.ID {
		t.Errorf("the same token: %+v", again)
	}
	q.Token = ""
	expires := ask(1, after(50*time.Minute))[0].Request.ID
	cancelled, err := r.CancelRequests(after(45*time.Minute), []string{made[1].Request.ID})
	if err != nil || cancelled[0].State != "cancelled" {
		t.Fatalf("cancel: %+v %v", cancelled, err)
	}
	if err := r.ChangeTags(after(45*time.Minute), []string{made[0].Request.ID}, func(tags map[string]string) { tags["kept"] = "yes" }); err != nil {
		t.Fatal(err)
	}
	// The price falls at minute 60.
	if wake, ok := r.NextWake(); !ok || wake.After(after(46*time.Minute)) {
		t.Errorf("wakes at %v", wake)
	}
	codes := make(map[string]string)
	for _, i := range r.Requests(after(61 * time.Minute)) {
		codes[i.Request.ID] = i.Request.Code
		if i.ID != "" && (i.Request.Tags["kept"] != "yes" || i.Launched.Before(after(time.Hour))) {
			t.Errorf("filled: %+v", i)
		}
	}
	want := map[string]string{made[0].Request.ID: "fulfilled", made[1].Request.ID: "canceled-before-fulfillment", expires: "schedule-expired"}
	if !maps.Equal(codes, want) {
		t.Errorf("requests %v, want %v", codes, want)
	}
	if _, err := r.RequestSpot(after(2*time.Hour), LaunchRequest{Type: "huge"}, 1, time.Time{}); code(err) != "InvalidParameterValue" {
		t.Errorf("unknown type: %v", err)
	}
}

// fleetOf makes a fleet and returns a function for its state at a time.
func fleetOf(t *testing.T, r *Region, kind FleetKind, spot float64) func(now time.Time) Fleet {
	t.Helper()
	template, err := r.CreateTemplate(t0, Template{Name: "t-" + string(kind), TemplateVersion: TemplateVersion{Data: TemplateData{Type: "small"}}})
	if err != nil {
		t.Fatal(err)
	}
	made, err := r.LaunchFleet(t0, FleetRequest{Kind: kind, Spot: spot, Overrides: []Override{{Template: template, Zone: "us-west-1a", MaxPrice: usd(t, "0.10")}}})
	if err != nil {
		t.Fatal(err)
	}
	return func(now time.Time) Fleet {
		for _, f := range r.Fleets(now) {
			if f.ID == made.ID {
				return f
			}
		}
		t.Fatalf("no fleet %s", made.ID)
		return Fleet{}
	}
}

func TestMaintainedFleetsReplaceWhatEnds(t *testing.T) {
	r := newRegion(t, nil)
	maintained, once := fleetOf(t, r, Maintain, 3), fleetOf(t, r, Once, 3)
	filled := func(now time.Time, f func(time.Time) Fleet) float64 { return f(now).Filled[market.Spot] }
	if a, b := filled(t0, maintained), filled(t0, once); a != 3 || b != 3 {
		t.Fatalf("filled %v and %v", a, b)
	}
	var gone []string
	for _, f := range []Fleet{maintained(t0), once(t0)} {
		for _, i := range r.Instances(t0) {
			if i.Fleet == f.ID && len(gone) < 1 || i.Fleet == f.ID && f.Kind == Once && len(gone) < 2 {
				gone = append(gone, i.ID)
			}
		}
	}
	if err := r.EvictNow(after(5*time.Minute), gone); err != nil {
		t.Fatal(err)
	}
	if a, b := filled(after(5*time.Minute), maintained), filled(after(5*time.Minute), once); a != 3 || b != 2 {
		t.Errorf("after two losses: %v and %v, want 3 and 2", a, b)
	}
	// From minute 30 to 60 the price is too high; lost machines are bought again when it falls.
	if f := maintained(after(40 * time.Minute)); f.Filled[market.Spot] != 0 || len(f.Refused) == 0 || f.Refused[0].Err.Code != "SpotMaxPriceTooLow" {
		t.Errorf("while the price is high: %+v", f)
	}
	if a, b := filled(after(61*time.Minute), maintained), filled(after(61*time.Minute), once); a != 3 || b != 0 {
		t.Errorf("when it falls: %v and %v, want 3 and 0", a, b)
	}
	id := maintained(t0).ID
	if err := r.Resize(after(62*time.Minute), id, 1, 0, true); err != nil || filled(after(62*time.Minute), maintained) != 1 {
		t.Errorf("smaller: %v", err)
	}
	if err := r.Resize(after(63*time.Minute), id, 2, 1, true); err != nil || filled(after(63*time.Minute), maintained) != 2 || maintained(after(63 * time.Minute)).Filled[market.OnDemand] != 1 {
		t.Errorf("larger: %v %+v", err, maintained(after(63*time.Minute)))
	}
	if before, now, ok := r.DeleteFleet(after(64*time.Minute), id, true); before != "active" || now != "deleted_terminating" || !ok {
		t.Errorf("deleted: %s %s %v", before, now, ok)
	}
	for _, i := range r.Instances(after(65 * time.Minute)) {
		if i.Fleet == id {
			r.Gone(after(65*time.Minute), i.ID)
			if state(t, r, after(65*time.Minute), i.ID) != Terminated {
				t.Errorf("%s outlives its fleet", i.ID)
			}
		}
	}
	if f := maintained(after(66 * time.Minute)); f.State != "deleted" || f.Filled[market.Spot] != 0 {
		t.Errorf("at the end: %+v", f)
	}
	if wake, ok := r.NextWake(); ok && r.retryAt.Equal(wake) && wake.Before(after(67*time.Minute)) {
		t.Errorf("still tries at %v", wake)
	}
}

// A machine with a rebalance recommendation gets a successor at once, and stays until it is reclaimed.
func TestFleetsRebalance(t *testing.T) {
	for rebalance, want := range map[bool]float64{false: 2, true: 3} {
		r := newRegion(t, nil)
		q := FleetRequest{Kind: Maintain, Spot: 2, Rebalance: rebalance, Overrides: []Override{{Type: "small", Zone: "us-west-1b"}}}
		if _, err := r.LaunchFleet(t0, q); err != nil {
			t.Fatal(err)
		}
		if err := r.Interrupt(after(5*time.Minute), []string{r.Instances(t0)[0].ID}, 10*time.Minute); err != nil {
			t.Fatal(err)
		}
		for _, at := range []struct {
			minute int
			want   float64
		}{{5, want}, {14, want}, {16, 2}, {30, 2}} {
			if got := r.Fleets(after(time.Duration(at.minute) * time.Minute))[0].Filled[market.Spot]; got != at.want {
				t.Errorf("rebalance %v, minute %d: %v machines, want %v", rebalance, at.minute, got, at.want)
			}
		}
	}
}

func TestInterruptionByFaultInjection(t *testing.T) {
	r := newRegion(t, nil)
	id := launch(t, r, t0, LaunchRequest{Type: "small", Zone: "us-west-1b", Spot: true})[0].ID
	if err := r.Interrupt(after(5*time.Minute), []string{id}, 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		minute  int
		noticed bool
		alive   bool
	}{{6, false, true}, {12, false, true}, {13, true, true}, {14, true, true}, {15, true, false}} {
		i, _ := r.Instance(after(time.Duration(tt.minute)*time.Minute), id)
		if i.RebalanceAt.IsZero() || i.NoticedAt.IsZero() == tt.noticed || i.State.Alive() != tt.alive {
			t.Errorf("minute %d: %+v", tt.minute, i)
		}
	}
}

func TestNothingIsBoughtAfterTheEnd(t *testing.T) {
	r := newRegion(t, nil)
	fleetOf(t, r, Maintain, 2)
	if _, err := r.RequestSpot(t0, LaunchRequest{Type: "small", Zone: "us-west-1a", MaxPrice: usd(t, "0.01")}, 1, time.Time{}); err != nil {
		t.Fatal(err)
	}
	r.Effects()
	r.TerminateAll(after(5 * time.Minute))
	r.Advance(after(2 * time.Hour))
	for _, e := range r.Effects() {
		if _, bought := e.(Launched); bought {
			t.Errorf("%+v", e)
		}
	}
}
