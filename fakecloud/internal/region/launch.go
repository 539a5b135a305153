package region

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// LaunchRequest requests Min to Max machines of one type.
type LaunchRequest struct {
	Type        string
	Zone        string // "" = any: the cheapest for spot, else the first with capacity
	Image       string
	Spot        bool
	MaxPrice    market.USD // per hour, spot only; 0 = the on-demand price
	Min, Max    int
	UserData    []byte
	Tags        map[string]string
	RequestTags map[string]string // of the spot requests
	KeyName     string
	Groups      []string // ids of security groups
	Shown
	Token       string // "" = none
	Fingerprint string // of all parameters: a repeated token must have the same

	// On Compute Engine callers choose the names, one for each of Max, and spot machines have no bid.
	Names []string
	Terms Terms

	fleet  string       // that buys
	weight float64      // each machine's units in the fleet
	filled *SpotRequest // that waited; nil = a new one
}

// Reservation is what a launch bought.
type Reservation struct {
	ID        string
	Instances []Instance
}

// Launch buys as many machines as available, up to Max, or none if there are fewer than Min.
func (r *Region) Launch(now time.Time, q LaunchRequest) (Reservation, error) {
	r.Advance(now)
	if used, ok, err := r.tokenUsed(q.Token, q.Fingerprint); err != nil || ok {
		return r.reservation(used.reservation, used.instances), err
	}
	offer, err := r.choose(q)
	if err != nil {
		return Reservation{}, err
	}
	count, short := r.available(offer.pool, q.Max)
	if count < q.Min {
		return Reservation{}, short
	}
	made := r.create(offer, q, min(count, q.Max))
	if q.Token != "" {
		r.tokens[q.Token] = tokenUse{fingerprint: q.Fingerprint, reservation: made.ID, instances: ids(made.Instances)}
	}
	return made, nil
}

func (r *Region) tokenUsed(token, fingerprint string) (tokenUse, bool, error) {
	used, ok := r.tokens[token]
	if !ok || token == "" {
		return tokenUse{}, false, nil
	}
	if used.fingerprint != fingerprint {
		return tokenUse{}, false, Errorf("IdempotentParameterMismatch",
			"Arguments on this idempotent request are inconsistent with arguments used in previous request(s).")
	}
	return used, true, nil
}

func (r *Region) reservation(id string, instances []string) Reservation {
	v := Reservation{ID: id}
	for _, id := range instances {
		v.Instances = append(v.Instances, r.instances[id].clone())
	}
	return v
}

func ids(instances []Instance) []string {
	var list []string
	for _, i := range instances {
		list = append(list, i.ID)
	}
	return list
}

// offer is a pool with its present and maximum price.
type offer struct {
	pool  market.Pool
	price market.USD
	bid   market.USD // 0 for on-demand
}

// choose picks the pool of a request.
func (r *Region) choose(q LaunchRequest) (offer, error) {
	if q.Zone != "" {
		return r.offer(q, q.Zone)
	}
	var best offer
	var refusal error
	for _, zone := range r.zones {
		o, err := r.offer(q, zone)
		if err == nil {
			if count, short := r.available(o.pool, q.Max); count < q.Min {
				err = short
			}
		}
		switch {
		case err != nil:
			refusal = firstReal(refusal, err)
		case best.pool == (market.Pool{}) || o.price < best.price:
			best = o
		}
	}
	if best.pool == (market.Pool{}) {
		return offer{}, refusal
	}
	return best, nil
}

// firstReal keeps the first refusal that says more than "not sold here".
func firstReal(old, err error) error {
	if old == nil || isCode(old, "Unsupported") {
		return err
	}
	return old
}

func isCode(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// offer returns the price of a request in a zone, or why it is not available there.
func (r *Region) offer(q LaunchRequest, zone string) (offer, error) {
	t, ok := r.types[q.Type]
	if !ok {
		return offer{}, Errorf("InvalidParameterValue", "Invalid value '%s' for InstanceType.", q.Type)
	}
	if !slices.Contains(r.zones, zone) {
		return offer{}, Errorf("InvalidParameterValue", "Invalid availability zone: [%s]", zone)
	}
	if !q.Spot {
		return offer{pool: r.pool(zone, q.Type, market.OnDemand), price: t.OnDemand}, nil
	}
	pool := r.pool(zone, q.Type, market.Spot)
	history := r.config.Spot[pool]
	if history == nil {
		return offer{}, Errorf("Unsupported",
			"Your requested instance type (%s) is not supported in your requested Availability Zone (%s).", q.Type, zone)
	}
	price, known := history.At(seconds(r.now))
	if !known {
		return offer{}, noCapacity(pool)
	}
	if r.config.Provider == GCE {
		return offer{pool: pool, price: price}, nil
	}
	bid := q.MaxPrice
	if bid == 0 {
		bid = t.OnDemand
	}
	if price > bid {
		return offer{}, Errorf("SpotMaxPriceTooLow",
			"Your Spot request price of %s is lower than the minimum required Spot request fulfillment price of %s.", bid, price)
	}
	return offer{pool: pool, price: price, bid: bid}, nil
}

func noCapacity(pool market.Pool) *Error {
	return Errorf("InsufficientInstanceCapacity",
		"We currently do not have sufficient %s capacity in the Availability Zone you requested (%s).", pool.Type, pool.Zone)
}

// available returns how many machines of up to want are available in a pool, and the error if there are too few.
func (r *Region) available(pool market.Pool, want int) (int, *Error) {
	count, short := r.inPool(pool, want)
	if left, refusal := r.inAccount(pool.Class, want); left < count {
		return left, refusal
	}
	return count, short
}

// Room returns how many machines of up to want are available in a pool now, regardless of price.
func (r *Region) Room(pool market.Pool, want int) int {
	if r.config.Spot[pool] == nil && pool.Class == market.Spot {
		return 0
	}
	count, _ := r.available(pool, want)
	return count
}

// inPool is available, considering only the pool's capacity.
func (r *Region) inPool(pool market.Pool, want int) (int, *Error) {
	capacity, limited := r.config.Capacity[pool]
	if r.faults.outOf(pool, r.now) {
		capacity, limited = 0, true
	}
	if !limited {
		return want, nil
	}
	used := count(r.order, func(p market.Pool) bool { return p == pool })
	return min(want, max(0, capacity-used)), noCapacity(pool)
}

// inAccount is available, considering only the account's limits.
func (r *Region) inAccount(class market.Class, want int) (int, *Error) {
	limit, short := r.config.Limits.SpotInstances, Errorf("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
	if class == market.OnDemand {
		limit = r.config.Limits.OnDemandInstances
		short = Errorf("InstanceLimitExceeded",
			"You have requested more instances than your current instance limit of %d allows.", limit)
	}
	if limit == 0 {
		return want, nil
	}
	used := count(r.order, func(p market.Pool) bool { return p.Class == class })
	return min(want, max(0, limit-used)), short
}

// count returns how many of the machines are in the pools that match.
func count(list []*Instance, match func(market.Pool) bool) int {
	n := 0
	for _, i := range list {
		if i.State != Terminated && i.State != Stopped && match(i.Pool) {
			n++
		}
	}
	return n
}

// create sells machines.
func (r *Region) create(o offer, q LaunchRequest, count int) Reservation {
	v := Reservation{ID: r.names.next("r")}
	boot := r.faults.bootTime(o.pool, r.config.Boot, r.now)
	for n := range count {
		i := &Instance{
			ID: r.names.next("i"), Reservation: v.ID, Index: n, Number: len(r.order) + 1, Token: q.Token, Image: q.Image,
			Pool: o.pool, Bid: o.bid, UserData: q.UserData, Tags: maps.Clone(q.Tags),
			State: Pending, Launched: seconds(r.now), BootAt: r.now.Add(boot), visibleAt: r.now.Add(r.config.Visible),
			Terms: q.Terms, KeyName: q.KeyName, Shown: q.Shown, Groups: slices.Clone(q.Groups), Fleet: q.fleet, Weight: q.weight,
		}
		if len(q.Names) > 0 {
			i.ID = q.Names[n]
		}
		if q.Terms.MaxLife > 0 {
			i.lifeOver = i.Launched.Add(q.Terms.MaxLife - r.config.Notice)
		}
		if o.pool.Class == market.Spot {
			i.Request = SpotRequest{
				ID: r.names.request(), Created: i.Launched, State: "active", Code: "fulfilled",
				Message: "Your Spot request is fulfilled.", UpdatedAt: i.Launched, Tags: maps.Clone(q.RequestTags),
			}
			if q.filled != nil {
				i.Request.ID, i.Request.Created = q.filled.ID, q.filled.Created
			}
			if at, ok := r.config.Spot[o.pool].FirstAbove(i.Launched, o.bid); ok && r.config.Provider == EC2 {
				i.crossing = at
			}
		}
		r.instances[i.ID] = i
		r.order = append(r.order, i)
		r.emit(Launched{Instance: i.clone()})
		v.Instances = append(v.Instances, i.clone())
	}
	return v
}
