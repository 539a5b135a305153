package region

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierml/tierml/market"
)

var t0 = time.Date(2014, 4, 1, 0, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return t0.Add(d) }

func usd(t *testing.T, s string) market.USD {
	t.Helper()
	v, err := market.ParseUSD(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func spotPool(zone, name string) market.Pool {
	return market.Pool{Provider: "ec2", Region: "us-west-1", Zone: zone, Type: name, Class: market.Spot}
}

// steps makes a history of prices that hold from minutes after t0.
func steps(t *testing.T, pairs ...any) *market.History {
	var points []market.PricePoint
	for i := 0; i < len(pairs); i += 2 {
		points = append(points, market.PricePoint{At: after(time.Duration(pairs[i].(int)) * time.Minute), Price: usd(t, pairs[i+1].(string))})
	}
	return market.NewHistory(points)
}

// newRegion sells big and small machines in two zones; zone a's small machines get dear at minute 30 and
// cheap again at minute 60.
func newRegion(t *testing.T, change func(*Config)) *Region {
	t.Helper()
	c := Config{
		Name: "us-west-1",
		Types: []Type{
			{InstanceType: market.InstanceType{Name: "small", VCPU: 1, OnDemand: usd(t, "0.10")}},
			{InstanceType: market.InstanceType{Name: "big", VCPU: 4, OnDemand: usd(t, "0.40")}},
		},
		Spot: map[market.Pool]*market.History{
			spotPool("us-west-1a", "small"): steps(t, -60, "0.03", 30, "0.20", 60, "0.03"),
			spotPool("us-west-1b", "small"): steps(t, -60, "0.05"),
			spotPool("us-west-1a", "big"):   steps(t, 10, "0.15"),
		},
		Notice: 2 * time.Minute, Boot: time.Minute, Seed: 1,
	}
	if change != nil {
		change(&c)
	}
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func launch(t *testing.T, r *Region, now time.Time, q LaunchRequest) []Instance {
	t.Helper()
	q.Min, q.Max = max(q.Min, 1), max(q.Max, 1)
	made, err := r.Launch(now, q)
	if err != nil {
		t.Fatal(err)
	}
	return made.Instances
}

func code(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// say describes effects in words.
func say(effects []Effect) string {
	var words []string
	for _, e := range effects {
		switch e := e.(type) {
		case Launched:
			words = append(words, "launched")
		case Boot:
			words = append(words, "boot")
		case Ended:
			words = append(words, "ended "+string(e.Instance.Cause.By)+" "+e.Instance.Ended.Format("15:04:05"))
		case Halt:
			if e.Force {
				words = append(words, "kill")
			} else {
				words = append(words, "term")
			}
		}
	}
	return strings.Join(words, ", ")
}

func TestLaunchRefusals(t *testing.T) {
	for _, tt := range []struct {
		name string
		q    LaunchRequest
		want string
	}{
		{"bid below the price", LaunchRequest{Type: "small", Zone: "us-west-1a", Spot: true, MaxPrice: 1}, "SpotMaxPriceTooLow"},
		{"bid below the price everywhere", LaunchRequest{Type: "small", Spot: true, MaxPrice: 1}, "SpotMaxPriceTooLow"},
		{"no price yet", LaunchRequest{Type: "big", Zone: "us-west-1a", Spot: true}, "InsufficientInstanceCapacity"},
		{"not sold as spot there", LaunchRequest{Type: "big", Zone: "us-west-1b", Spot: true}, "Unsupported"},
		{"unknown type", LaunchRequest{Type: "huge", Zone: "us-west-1a"}, "InvalidParameterValue"},
		{"unknown zone", LaunchRequest{Type: "small", Zone: "us-west-1z"}, "InvalidParameterValue"},
		{"too many", LaunchRequest{Type: "small", Zone: "us-west-1b", Spot: true, Min: 4, Max: 4}, "InsufficientInstanceCapacity"},
		{"above the spot limit", LaunchRequest{Type: "small", Zone: "us-west-1a", Spot: true, Min: 6, Max: 6}, "MaxSpotInstanceCountExceeded"},
		{"above the on-demand limit", LaunchRequest{Type: "small", Min: 3, Max: 3}, "InstanceLimitExceeded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRegion(t, func(c *Config) {
				c.Capacity = map[market.Pool]int{spotPool("us-west-1b", "small"): 3}
				c.Limits = Limits{SpotInstances: 5, OnDemandInstances: 2}
			})
			tt.q.Min, tt.q.Max = max(1, tt.q.Min), max(1, tt.q.Max)
			if _, err := r.Launch(t0, tt.q); code(err) != tt.want {
				t.Errorf("Launch: %v, want %s", err, tt.want)
			}
			if effects := r.Effects(); len(effects) > 0 {
				t.Errorf("a refused launch had effects: %s", say(effects))
			}
		})
	}
}

func TestLaunchTakesTheCheapestZoneAndThenTheNext(t *testing.T) {
	r := newRegion(t, func(c *Config) { c.Capacity = map[market.Pool]int{spotPool("us-west-1a", "small"): 1} })
	q := LaunchRequest{Type: "small", Spot: true}
	var zones []string
	for range 2 {
		zones = append(zones, launch(t, r, t0, q)[0].Pool.Zone)
	}
	if want := []string{"us-west-1a", "us-west-1b"}; !slices.Equal(zones, want) {
		t.Errorf("zones %v, want %v", zones, want)
	}
}

func TestLaunchGivesWhatThereIs(t *testing.T) {
	r := newRegion(t, func(c *Config) { c.Capacity = map[market.Pool]int{spotPool("us-west-1b", "small"): 3} })
	q := LaunchRequest{Type: "small", Zone: "us-west-1b", Spot: true, Min: 2, Max: 5}
	got := launch(t, r, t0, q)
	if len(got) != 3 {
		t.Fatalf("%d machines, want 3", len(got))
	}
	if _, err := r.Terminate(t0, []string{got[0].ID}); err != nil {
		t.Fatal(err)
	}
	q.Min = 1
	if again := launch(t, r, t0, q); len(again) != 1 {
		t.Errorf("%d machines after one was ended, want 1", len(again))
	}
}

func TestClientToken(t *testing.T) {
	r := newRegion(t, nil)
	q := LaunchRequest{Type: "small", Spot: true, Min: 1, Max: 2, Token: "once", Fingerprint: "a"}
	first := launch(t, r, t0, q)
	again := launch(t, r, after(20*time.Minute), q)
	if diff := cmp.Diff(ids(first), ids(again)); diff != "" {
		t.Errorf("the same token bought other machines:\n%s", diff)
	}
	if again[0].State != Running {
		t.Errorf("the second answer tells state %s, want that of now", again[0].State)
	}
	q.Fingerprint = "b"
	if _, err := r.Launch(t0, q); code(err) != "IdempotentParameterMismatch" {
		t.Errorf("same token, other parameters: %v", err)
	}
	refused := LaunchRequest{Type: "small", Zone: "us-west-1a", Spot: true, MaxPrice: 1, Min: 1, Max: 1, Token: "later", Fingerprint: "a"}
	if _, err := r.Launch(t0, refused); code(err) != "SpotMaxPriceTooLow" {
		t.Fatalf("launch: %v", err)
	}
	refused.MaxPrice, refused.Fingerprint = market.Dollar, "c"
	launch(t, r, t0, refused) // a refused launch does not use the token up
}

func TestPriceAboveTheBidEvicts(t *testing.T) {
	r := newRegion(t, nil)
	i := launch(t, r, t0.Add(300*time.Millisecond), LaunchRequest{Type: "small", Zone: "us-west-1a", Spot: true, MaxPrice: usd(t, "0.19")})[0]
	equal := launch(t, r, t0, LaunchRequest{Type: "small", Zone: "us-west-1a", Spot: true, MaxPrice: usd(t, "0.20")})[0]
	if !i.Launched.Equal(t0) {
		t.Errorf("launched %v, want whole seconds", i.Launched)
	}
	r.Advance(after(29 * time.Minute))
	r.Effects()
	if at, ok := r.NextWake(); !ok || !at.Equal(after(30*time.Minute)) {
		t.Errorf("next wake %v %v, want the crossing at minute 30", at, ok)
	}
	got, _ := r.Instance(after(30*time.Minute), i.ID)
	if got.State != Running || !got.Deadline.Equal(after(32*time.Minute)) || got.Request.Code != "marked-for-termination" {
		t.Errorf("at the crossing: %s, deadline %v, request %s", got.State, got.Deadline, got.Request.Code)
	}
	if e := say(r.Effects()); e != "" {
		t.Errorf("the notice had effects: %s", e)
	}
	got, _ = r.Instance(after(45*time.Minute), i.ID)
	if e := say(r.Effects()); e != "ended provider 00:32:00, kill" {
		t.Errorf("effects %q: the end must bear the deadline, however late somebody looks", e)
	}
	if got.State != ShuttingDown || got.Request.Code != "instance-terminated-by-price" || got.Request.State != "closed" ||
		got.TransitionReason() != "Service initiated (2014-04-01 00:32:00 GMT)" || !got.Request.UpdatedAt.Equal(after(32*time.Minute)) {
		t.Errorf("after the deadline: %+v", got)
	}
	r.Gone(after(46*time.Minute), i.ID)
	if got, _ = r.Instance(after(46*time.Minute), i.ID); got.State != Terminated || !got.Ended.Equal(after(32*time.Minute)) {
		t.Errorf("when its process is gone: %s, ended %v", got.State, got.Ended)
	}
	if other, _ := r.Instance(after(46*time.Minute), equal.ID); other.State != Running || !other.Deadline.IsZero() {
		t.Errorf("a price equal to the bid evicted: %+v", other)
	}
}

func TestEnds(t *testing.T) {
	for _, tt := range []struct {
		name    string
		end     func(r *Region, now time.Time, id string) error
		by      market.EndedBy
		effects string
		request string
		reason  string
	}{
		{"terminated", func(r *Region, now time.Time, id string) error { _, err := r.Terminate(now, []string{id}); return err },
			market.ByUser, "ended user 00:05:00, term", "instance-terminated-by-user", "Client.UserInitiatedShutdown"},
		{"shut down by itself", func(r *Region, now time.Time, id string) error { r.Gone(now, id); return nil },
			market.ByUser, "ended user 00:05:00", "instance-terminated-by-user", "Client.InstanceInitiatedShutdown"},
		{"killed", func(r *Region, now time.Time, id string) error { return r.Kill(now, []string{id}) },
			market.ByProvider, "ended provider 00:05:00, kill", "instance-terminated-by-service", "Server.InternalError"},
		{"evicted without notice", func(r *Region, now time.Time, id string) error { return r.EvictNow(now, []string{id}) },
			market.ByProvider, "ended provider 00:05:00, kill", "instance-terminated-no-capacity", "Server.SpotInstanceTermination"},
		{"evicted", func(r *Region, now time.Time, id string) error {
			err := r.Evict(now.Add(-2*time.Minute), []string{id})
			r.Advance(now)
			return err
		}, market.ByProvider, "ended provider 00:05:00, kill", "instance-terminated-no-capacity", "Server.SpotInstanceTermination"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRegion(t, nil)
			i := launch(t, r, t0, LaunchRequest{Type: "small", Zone: "us-west-1b", Spot: true})[0]
			r.Advance(after(2 * time.Minute))
			r.Effects()
			now := after(5*time.Minute + 700*time.Millisecond)
			if tt.name == "evicted" {
				now = after(5 * time.Minute)
			}
			if err := tt.end(r, now, i.ID); err != nil {
				t.Fatal(err)
			}
			if e := say(r.Effects()); e != tt.effects {
				t.Errorf("effects %q, want %q", e, tt.effects)
			}
			got, _ := r.Instance(now, i.ID)
			if got.Cause.By != tt.by || got.Cause.Code != tt.reason || got.Request.Code != tt.request {
				t.Errorf("by %s, reason %s, request %s", got.Cause.By, got.Cause.Code, got.Request.Code)
			}
			if !strings.HasSuffix(got.TransitionReason(), "initiated (2014-04-01 00:05:00 GMT)") ||
				!got.Request.UpdatedAt.Equal(after(5*time.Minute)) {
				t.Errorf("the end is reported as %q and %v", got.TransitionReason(), got.Request.UpdatedAt)
			}
			if changes, err := r.Terminate(now, []string{i.ID}); err != nil || say(r.Effects()) != "" {
				t.Errorf("ending it again: %v, %v", changes, err)
			}
		})
	}
}

func TestEndBeforeBootNeedsNoProcess(t *testing.T) {
	r := newRegion(t, nil)
	i := launch(t, r, t0.Add(900*time.Millisecond), LaunchRequest{Type: "small"})[0]
	r.Effects()
	changes, err := r.Terminate(t0.Add(950*time.Millisecond), []string{i.ID})
	if err != nil || len(changes) != 1 || changes[0].Current != Terminated {
		t.Fatalf("changes %v, %v", changes, err)
	}
	r.Advance(after(time.Hour))
	if e := say(r.Effects()); e != "ended user 00:00:00" {
		t.Errorf("effects %q", e)
	}
}

func TestTerminateAllOrNone(t *testing.T) {
	r := newRegion(t, nil)
	i := launch(t, r, t0, LaunchRequest{Type: "small"})[0]
	if _, err := r.Terminate(t0, []string{i.ID, "i-0"}); code(err) != "InvalidInstanceID.NotFound" {
		t.Errorf("unknown id: %v", err)
	}
	if got, _ := r.Instance(t0, i.ID); !got.State.Alive() {
		t.Error("the other was ended all the same")
	}
}

func TestTimeDoesNotGoBack(t *testing.T) {
	r := newRegion(t, nil)
	i := launch(t, r, after(5*time.Minute), LaunchRequest{Type: "small"})[0]
	if _, err := r.Terminate(t0, []string{i.ID}); err != nil {
		t.Fatal(err)
	}
	if got, _ := r.Instance(t0, i.ID); got.Ended.Before(got.Launched) {
		t.Errorf("ended %v before it was launched %v", got.Ended, got.Launched)
	}
}

func TestPrices(t *testing.T) {
	r := newRegion(t, nil)
	tell := func(q PriceQuery, now time.Time) (lines []string) {
		for _, p := range r.Prices(now, q) {
			lines = append(lines, p.At.Format("15:04 ")+p.Zone+" "+p.Type+" "+p.Price.String())
		}
		return lines
	}
	for _, tt := range []struct {
		name string
		q    PriceQuery
		now  time.Duration
		want []string
	}{
		{"the future is not told", PriceQuery{Types: []string{"small"}, Zones: []string{"us-west-1a"}, End: after(10 * time.Hour)}, 31 * time.Minute,
			[]string{"00:30 us-west-1a small 0.2", "23:00 us-west-1a small 0.03"}},
		{"with the price in force at the start", PriceQuery{Types: []string{"small"}, Start: after(40 * time.Minute)}, 70 * time.Minute,
			[]string{"01:00 us-west-1a small 0.03", "00:30 us-west-1a small 0.2", "23:00 us-west-1b small 0.05"}},
		{"an instant", PriceQuery{Types: []string{"small"}, Start: after(70 * time.Minute), End: after(70 * time.Minute)}, 70 * time.Minute,
			[]string{"01:00 us-west-1a small 0.03", "23:00 us-west-1b small 0.05"}},
		{"before there was a price", PriceQuery{Types: []string{"big"}, End: after(9 * time.Minute)}, 70 * time.Minute, nil},
	} {
		if diff := cmp.Diff(tt.want, tell(tt.q, after(tt.now))); diff != "" {
			// Time continues in one region: the cases are in the order of now.
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestPick(t *testing.T) {
	r := newRegion(t, nil)
	var all []string
	for range 4 {
		all = append(all, launch(t, r, t0, LaunchRequest{Type: "small", Zone: "us-west-1b", Spot: true})[0].ID)
	}
	launch(t, r, t0, LaunchRequest{Type: "small"}) // on demand: never picked
	if err := r.Evict(t0, all[:1]); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		target string
		count  int
		where  Scope
		want   []string
	}{
		{"oldest", 0, "", all[1:2]}, // the first has its notice already
		{"oldest", 9, "", []string{all[1], all[2], all[3], all[0]}},
		{"newest", 2, "", []string{all[3], all[2]}},
		{"all", 0, "us-west-1b/small", []string{all[1], all[2], all[3], all[0]}},
		{"all", 0, "us-west-1a", nil},
		{all[2], 0, "", all[2:3]},
	} {
		if got := r.Pick(t0, tt.target, tt.count, tt.where); !slices.Equal(got, tt.want) {
			t.Errorf("Pick %s %d %s: %v, want %v", tt.target, tt.count, tt.where, got, tt.want)
		}
	}
	if got := r.Pick(t0, "random", 3, ""); len(got) != 3 || slices.Contains(got, all[0]) {
		t.Errorf("random three: %v", got)
	}
}

func TestFaultsOnPools(t *testing.T) {
	r := newRegion(t, nil)
	r.RunOut(t0, "us-west-1b/small", time.Hour)
	q := LaunchRequest{Type: "small", Zone: "us-west-1b", Spot: true, Min: 1, Max: 1}
	if _, err := r.Launch(t0, q); code(err) != "InsufficientInstanceCapacity" {
		t.Errorf("out of capacity: %v", err)
	}
	launch(t, r, after(time.Hour), q)

	r.SlowStart(after(time.Hour), "", 0, 4, time.Hour)
	for _, want := range []struct{ at, boot time.Duration }{{time.Hour, 4 * time.Minute}, {2 * time.Hour, time.Minute}} {
		i := launch(t, r, after(want.at), q)[0]
		if got := i.BootAt.Sub(i.Launched); got != want.boot {
			t.Errorf("at %v: boots in %v, want %v", want.at, got, want.boot)
		}
	}
	r.Throttle(after(3*time.Hour), time.Minute)
	if !r.Throttled(after(3*time.Hour)) || r.Throttled(after(3*time.Hour+time.Minute)) {
		t.Error("throttled for anything but a minute")
	}
	i := launch(t, r, after(4*time.Hour), LaunchRequest{Type: "small"})[0]
	if err := r.Evict(after(4*time.Hour), []string{i.ID}); code(err) != "InvalidParameterValue" {
		t.Errorf("an on-demand machine was evicted: %v", err)
	}
}

func TestVisibleLater(t *testing.T) {
	r := newRegion(t, func(c *Config) { c.Visible = time.Minute })
	launch(t, r, t0, LaunchRequest{Type: "small"})
	if n := len(r.Instances(after(59 * time.Second))); n != 0 {
		t.Errorf("%d instances are listed at once", n)
	}
	if n := len(r.Instances(after(time.Minute))); n != 1 {
		t.Errorf("%d instances are listed after a minute", n)
	}
}

func TestFleet(t *testing.T) {
	over := func(name string, zone string, weight, priority float64) Override {
		return Override{Type: name, Zone: zone, Weight: weight, Priority: priority}
	}
	small := []Override{over("small", "us-west-1b", 0, 1), over("small", "us-west-1a", 0, 2)}
	for _, tt := range []struct {
		name string
		q    FleetRequest
		want string // zone/type x count of purchases, then codes of refusals
	}{
		{"the cheapest first", FleetRequest{Overrides: small, Spot: 3}, "us-west-1a/small x2, us-west-1b/small x1"},
		{"by priority", FleetRequest{Overrides: small, Spot: 2, SpotStrategy: "capacity-optimized-prioritized"}, "us-west-1b/small x2"},
		{"spread", FleetRequest{Overrides: small, Spot: 4, SpotStrategy: "diversified"}, "us-west-1b/small x2, us-west-1a/small x2"},
		{"by weight", FleetRequest{Overrides: []Override{over("small", "us-west-1b", 1, 0), over("big", "us-west-1a", 4, 0)}, Spot: 8}, "us-west-1a/big x2"},
		{"too few for the minimum", FleetRequest{Overrides: small[1:], Spot: 5, Min: 5}, "InsufficientInstanceCapacity"},
		{"bid too low", FleetRequest{Overrides: []Override{{Type: "small", Zone: "us-west-1a", MaxPrice: 1}}, Spot: 1}, "SpotMaxPriceTooLow"},
		{"as many as the price allows", FleetRequest{Overrides: small, Spot: 5, MostSpot: usd(t, "0.12")}, "us-west-1a/small x2, us-west-1b/small x1, InsufficientInstanceCapacity"},
		{"on demand", FleetRequest{Overrides: small, OnDemand: 1, Spot: 1}, "us-west-1b/small x1, us-west-1a/small x1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRegion(t, func(c *Config) { c.Capacity = map[market.Pool]int{spotPool("us-west-1a", "small"): 2} })
			tt.q.Token, tt.q.Fingerprint = "token", "f"
			result, err := r.LaunchFleet(after(20*time.Minute), tt.q)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, b := range result.Bought {
				got = append(got, b.Pool.Zone+"/"+b.Pool.Type+" x"+string(rune('0'+len(b.IDs))))
			}
			for _, refused := range result.Refused {
				got = append(got, refused.Err.Code)
			}
			if text := strings.Join(got, ", "); text != tt.want {
				t.Errorf("got %s, want %s", text, tt.want)
			}
			again, err := r.LaunchFleet(after(20*time.Minute), tt.q)
			if diff := cmp.Diff(result, again); err != nil || diff != "" {
				t.Errorf("the same token again: %v\n%s", err, diff)
			}
		})
	}
}

func TestFleetKeepsTheAccountLimit(t *testing.T) {
	r := newRegion(t, func(c *Config) { c.Limits.SpotInstances = 3 })
	q := FleetRequest{Overrides: []Override{{Type: "small", Zone: "us-west-1a"}, {Type: "small", Zone: "us-west-1b"}}, Spot: 10}
	if _, err := r.LaunchFleet(t0, q); err != nil {
		t.Fatal(err)
	}
	if n := len(r.Instances(t0)); n != 3 {
		t.Errorf("%d machines, want the limit of 3", n)
	}
}
