package region

import (
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// This file has what the region keeps trying to fill: spot requests that wait for a price or for capacity, and fleets.

// retryEvery is the interval (market time) between retries of missing capacity. A fleet's machine that ends is replaced at once.
const retryEvery = 30 * time.Second

// retryBy schedules the next try no later than at.
func (r *Region) retryBy(at time.Time) {
	if r.retryAt.IsZero() || at.Before(r.retryAt) {
		r.retryAt = at
	}
}

// retry retries everything that is waiting, when due.
func (r *Region) retry() {
	if r.retryAt.After(r.now) {
		r.now = r.retryAt
	}
	at := r.now
	r.retryAt = time.Time{}
	short := false
	for _, f := range r.fleets {
		f.expire(r)
		short = r.replenish(f) || short
	}
	for _, w := range slices.Clone(r.waiting) {
		short = r.try(w) || short
	}
	if short {
		r.retryBy(at.Add(retryEvery))
	}
}

// Waiting is a spot request without a machine.
type Waiting struct {
	Launch     LaunchRequest // of one machine
	Request    SpotRequest
	ValidUntil time.Time // zero = forever
}

// RequestSpot requests machines one by one, like RequestSpotInstances: unavailable ones wait. It returns the requests, each in an Instance,
// which has no ID while the request waits.
func (r *Region) RequestSpot(now time.Time, q LaunchRequest, count int, validUntil time.Time) ([]Instance, error) {
	r.Advance(now)
	if used, ok, err := r.tokenUsed(requestToken(q.Token), q.Fingerprint); err != nil || ok {
		return slices.DeleteFunc(r.Requests(now), func(i Instance) bool { return !slices.Contains(used.instances, i.Request.ID) }), err
	}
	q.Spot, q.Min, q.Max = true, 1, 1
	if _, err := r.choose(q); err != nil && !isCode(err, "SpotMaxPriceTooLow") && !isCode(err, "InsufficientInstanceCapacity") {
		return nil, err
	}
	if left, refusal := r.inAccount(market.Spot, count); left < count {
		return nil, refusal
	}
	var requested []string
	for range count {
		w := &Waiting{Launch: q, ValidUntil: validUntil, Request: SpotRequest{
			ID: r.names.request(), Created: seconds(r.now), Tags: maps.Clone(q.RequestTags),
		}}
		w.Request.set(r.now, "open", "pending-evaluation", "Your Spot request has been submitted for review, and is pending evaluation.")
		r.waiting = append(r.waiting, w)
		requested = append(requested, w.Request.ID)
		if r.try(w) {
			r.retryBy(r.now.Add(retryEvery))
		}
	}
	if q.Token != "" {
		r.tokens[requestToken(q.Token)] = tokenUse{fingerprint: q.Fingerprint, instances: requested}
	}
	return slices.DeleteFunc(r.Requests(now), func(i Instance) bool { return !slices.Contains(requested, i.Request.ID) }), nil
}

// requestToken separates its tokens from those of launches.
func requestToken(token string) string {
	if token == "" {
		return ""
	}
	return "request " + token
}

// try buys the machine of an open request, and reports whether it still waits.
func (r *Region) try(w *Waiting) (waits bool) {
	if w.Request.State != "open" {
		return false
	}
	if !w.ValidUntil.IsZero() && !w.ValidUntil.After(r.now) {
		w.Request.set(w.ValidUntil, "cancelled", "schedule-expired", "Your Spot request expired before it was fulfilled.")
		return false
	}
	offer, err := r.choose(w.Launch)
	if err == nil {
		if count, short := r.available(offer.pool, 1); count < 1 {
			err = short
		}
	}
	switch {
	case err == nil:
		q := w.Launch
		q.filled, q.RequestTags = &w.Request, w.Request.Tags
		r.create(offer, q, 1)
		r.waiting = slices.DeleteFunc(r.waiting, func(other *Waiting) bool { return other == w })
		return false
	case isCode(err, "SpotMaxPriceTooLow"):
		w.Request.set(r.now, "open", "price-too-low", "Your Spot request price is lower than the minimum required Spot request fulfillment price.")
	default:
		w.Request.set(r.now, "open", "capacity-not-available", "There is no capacity available that matches your request.")
	}
	return true
}

// Requests returns an instance for every spot request: the one that it bought, or one without an ID that describes what is wanted. Those
// that bought one come first, in order of launch.
func (r *Region) Requests(now time.Time) []Instance {
	list := slices.DeleteFunc(r.Instances(now), func(i Instance) bool { return i.Pool.Class != market.Spot })
	for _, w := range r.waiting {
		q := w.Launch
		bid := q.MaxPrice
		if bid == 0 {
			bid = r.types[q.Type].OnDemand
		}
		request := w.Request
		request.Tags = maps.Clone(request.Tags)
		list = append(list, Instance{
			Image: q.Image, KeyName: q.KeyName, Groups: q.Groups, Pool: r.pool(q.Zone, q.Type, market.Spot), Bid: bid, Request: request,
		})
	}
	return list
}

// FleetKind is EC2's type of a fleet.
type FleetKind string

// The kinds.
const (
	Instant  FleetKind = "instant"  // bought once, now
	Once     FleetKind = "request"  // bought when available, and not replaced
	Maintain FleetKind = "maintain" // ended machines are replaced
)

// Fleet is a requested fleet.
type Fleet struct {
	FleetRequest
	ID      string
	Created time.Time
	State   string // "active", "deleted_running", "deleted_terminating"
	Tags    map[string]string
	Refused []FleetRefusal // of the last try
	Tried   time.Time
	Deleted time.Time // zero if it is not

	Filled map[market.Class]float64 // units, as of the answer
	done   bool                     // of kind Once: it has received everything
}

// newFleet creates a fleet and buys what is available.
func (r *Region) newFleet(q FleetRequest) FleetResult {
	if q.Kind == "" {
		q.Kind = Instant
	}
	prefix := "fleet"
	if q.SpotFleet() {
		prefix = "sfr"
	}
	f := &Fleet{FleetRequest: q, ID: r.names.fleet(prefix), Created: seconds(r.now), State: "active", Tags: maps.Clone(q.FleetTags)}
	r.fleets = append(r.fleets, f)
	f.expire(r)
	if q.Kind != Instant {
		if r.replenish(f) {
			r.retryBy(r.now.Add(retryEvery))
		}
		return FleetResult{ID: f.ID}
	}
	result := FleetResult{ID: f.ID}
	r.buy(q, market.OnDemand, q.OnDemand, 0, &result)
	r.buy(q, market.Spot, q.Spot, q.Min, &result)
	f.Refused, f.Tried = result.Refused, r.now
	return result
}

// expire deletes a fleet at its time, and schedules a try for then.
func (f *Fleet) expire(r *Region) {
	switch {
	case f.State != "active" || f.Until.IsZero():
	case f.Until.After(r.now):
		r.retryBy(f.Until)
	default:
		f.delete(r, f.EndAtUntil)
	}
}

// replenish buys what a fleet lacks, and reports whether some is still missing.
func (r *Region) replenish(f *Fleet) (short bool) {
	if f.State != "active" || f.Kind == Instant || f.done {
		return false
	}
	result := FleetResult{ID: f.ID}
	for class, want := range f.targets() {
		r.buy(f.FleetRequest, class, want-f.staying(r.order, class), 0, &result)
	}
	f.Refused, f.Tried = result.Refused, r.now
	for class, want := range f.targets() {
		short = short || f.staying(r.order, class) < want
	}
	f.done = f.Kind == Once && !short
	return short
}

// targets yields the units wanted, on demand first.
func (f *Fleet) targets() func(yield func(market.Class, float64) bool) {
	return func(yield func(market.Class, float64) bool) {
		_ = yield(market.OnDemand, f.OnDemand) && yield(market.Spot, f.Spot)
	}
}

// staying returns the units of a fleet's machines that need no successor.
func (f *Fleet) staying(list []*Instance, class market.Class) float64 {
	if f.Rebalance {
		list = slices.DeleteFunc(slices.Clone(list), func(i *Instance) bool { return !i.RebalanceAt.IsZero() })
	}
	return filled(list, f.ID, class)
}

// filled returns the units of a fleet's machines that are alive.
func filled(list []*Instance, fleet string, class market.Class) (units float64) {
	for _, i := range list {
		if i.Fleet == fleet && i.Pool.Class == class && i.State.Alive() {
			units += i.Weight
		}
	}
	return units
}

// Fleets returns every fleet, oldest first.
func (r *Region) Fleets(now time.Time) []Fleet {
	r.Advance(now)
	var list []Fleet
	for _, f := range r.fleets {
		v := *f
		v.Tags = maps.Clone(f.Tags)
		v.Filled = map[market.Class]float64{}
		for class := range f.targets() {
			v.Filled[class] = filled(r.order, f.ID, class)
		}
		if v.State != "active" && !slices.ContainsFunc(r.order, func(i *Instance) bool { return i.Fleet == f.ID && i.State != Terminated }) {
			v.State = "deleted"
		}
		list = append(list, v)
	}
	return list
}

// DeleteFleet ends a fleet's purchases and, with terminate, its machines. It returns the previous state; false if there is no such fleet.
func (r *Region) DeleteFleet(now time.Time, id string, terminate bool) (before, after string, ok bool) {
	r.Advance(now)
	n := slices.IndexFunc(r.fleets, func(f *Fleet) bool { return f.ID == id })
	if n < 0 {
		return "", "", false
	}
	f := r.fleets[n]
	before = f.State
	f.delete(r, terminate)
	return before, f.State, true
}

func (f *Fleet) delete(r *Region, terminate bool) {
	f.State, f.Deleted = "deleted_running", r.now
	if !terminate {
		return
	}
	f.State = "deleted_terminating"
	for _, i := range r.order {
		if i.Fleet == f.ID && i.State.Alive() {
			r.end(r.now, i, UserRequest, false)
		}
	}
}

// Resize changes the target of a fleet of kind Maintain. With trim, machines beyond the target are ended, the newest first.
func (r *Region) Resize(now time.Time, id string, spot, onDemand float64, trim bool) error {
	r.Advance(now)
	n := slices.IndexFunc(r.fleets, func(f *Fleet) bool { return f.ID == id })
	if n < 0 {
		return Errorf("InvalidFleetId.NotFound", "The fleet ID '%s' does not exist", id)
	}
	f := r.fleets[n]
	if f.Kind != Maintain || f.State != "active" {
		return Errorf("UnsupportedOperation", "The fleet '%s' is not an active fleet of type maintain.", id)
	}
	f.Spot, f.OnDemand = spot, onDemand
	for class, want := range f.targets() {
		for _, i := range slices.Backward(r.order) {
			if trim && i.Fleet == id && i.Pool.Class == class && i.State.Alive() && filled(r.order, id, class)-i.Weight >= want {
				r.end(r.now, i, UserRequest, false)
			}
		}
	}
	r.retryBy(r.now)
	return nil
}
