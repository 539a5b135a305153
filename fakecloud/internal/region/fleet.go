package region

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// Override is one kind of machine that a fleet may take.
type Override struct {
	Template Template
	Type     string // "" = the template's
	Zone     string
	Image    string            // "" = the template's
	MaxPrice market.USD        // per unit; 0 = the template's, per machine
	Weight   float64           // units per machine; 0 = 1
	Priority float64           // lower is better
	Needs    map[string]string // the requirements that chose the type, as given; nil = the caller did
}

// FleetRequest describes a fleet.
type FleetRequest struct {
	Overrides        []Override
	Spot, OnDemand   float64    // units
	Min              float64    // buy none if fewer spot units are available
	SpotStrategy     string     // "price-capacity-optimized", "lowest-price", "capacity-optimized", "diversified", ...
	OnDemandStrategy string     // "lowest-price", "prioritized"
	MostSpot         market.USD // per hour of all its spot machines; 0 = any
	MostOnDemand     market.USD
	Rebalance        bool              // replace machines with a rebalance recommendation at once
	Tags             map[string]string // of the instances
	FleetTags        map[string]string
	Kind             FleetKind         // "" = Instant
	KeepExcess       bool              // machines beyond a lowered target stay
	Until            time.Time         // when it is deleted; zero = never
	EndAtUntil       bool              // with its machines
	Given            map[string]string // the configuration of a Spot Fleet, as given; nil = it is none
	Token            string
	Fingerprint      string
}

// SpotFleet reports whether RequestSpotFleet made it: such a fleet has ids, states and tags of its own.
func (q FleetRequest) SpotFleet() bool { return q.Given != nil }

// FleetResult is the result for an override.
type FleetResult struct {
	ID      string
	Bought  []FleetInstances
	Refused []FleetRefusal
}

// FleetInstances are the machines of one override.
type FleetInstances struct {
	Override Override
	Class    market.Class
	Pool     market.Pool
	IDs      []string
}

// FleetRefusal says why an override yielded fewer machines than wanted.
type FleetRefusal struct {
	Override Override
	Class    market.Class
	Err      *Error
}

// LaunchFleet buys what the overrides can supply, in the order of the strategy.
func (r *Region) LaunchFleet(now time.Time, q FleetRequest) (FleetResult, error) {
	r.Advance(now)
	if used, ok, err := r.tokenUsed(fleetToken(q.Token), q.Fingerprint); err != nil || ok {
		return used.fleet, err
	}
	result := r.newFleet(q)
	if q.Token != "" {
		r.tokens[fleetToken(q.Token)] = tokenUse{fingerprint: q.Fingerprint, fleet: result}
	}
	return result, nil
}

// fleetToken gives fleets their own namespace of tokens.
func fleetToken(token string) string {
	if token == "" {
		return ""
	}
	return "fleet " + token
}

// purchase is what one override can supply.
type purchase struct {
	override Override
	request  LaunchRequest
	offer    offer
	room     int    // machines available
	count    int    // machines to buy
	short    *Error // why no more are available
}

func (p purchase) weight() float64 { return cmp.Or(p.override.Weight, 1) }

func (r *Region) buy(q FleetRequest, class market.Class, units, least float64, result *FleetResult) {
	if units <= 0 {
		return
	}
	plan, refused := r.survey(q, class)
	strategy := q.OnDemandStrategy
	if class == market.Spot {
		strategy = q.SpotStrategy
	}
	order(plan, strategy)
	most := q.MostOnDemand
	if class == market.Spot {
		most = q.MostSpot
	}
	if most > 0 {
		most = max(1, most-r.costs(r.order, result.ID, class, seconds(r.now))) // 0 means any, so 1 = nothing more
	}
	got := r.fill(plan, units, most, strategy == "diversified")
	result.Refused = append(result.Refused, refused...)
	for _, p := range plan {
		if p.short != nil && got < units {
			result.Refused = append(result.Refused, FleetRefusal{Override: p.override, Class: class, Err: p.short})
		}
	}
	if got < least {
		return
	}
	for _, p := range plan {
		if p.count == 0 {
			continue
		}
		p.request.Tags = maps.Clone(p.request.Tags)
		if p.request.Tags == nil {
			p.request.Tags = make(map[string]string)
		}
		maps.Copy(p.request.Tags, q.Tags)
		tag := "aws:ec2:fleet-id"
		if q.SpotFleet() {
			tag = "aws:ec2spot:fleet-request-id"
		}
		p.request.Tags[tag] = result.ID
		p.request.fleet, p.request.weight = result.ID, p.weight()
		made := r.create(p.offer, p.request, p.count)
		result.Bought = append(result.Bought, FleetInstances{Override: p.override, Class: class, Pool: p.offer.pool, IDs: ids(made.Instances)})
	}
}

// survey determines what every override can supply.
func (r *Region) survey(q FleetRequest, class market.Class) (plan []purchase, refused []FleetRefusal) {
	for _, o := range q.Overrides {
		data := o.Template.Data
		request := LaunchRequest{
			Type: cmp.Or(o.Type, data.Type), Zone: cmp.Or(o.Zone, data.Zone), Image: cmp.Or(o.Image, data.Image), Spot: class == market.Spot,
			MaxPrice: cmp.Or(market.USD(math.Round(float64(o.MaxPrice)*cmp.Or(o.Weight, 1))), data.MaxPrice), Min: 1, Max: 1,
			UserData: data.UserData, Tags: data.Tags, RequestTags: data.RequestTags, KeyName: data.KeyName, Groups: data.Groups, Shown: data.Shown,
		}
		chosen, err := r.choose(request)
		var short *Error
		if errors.As(err, &short) {
			refused = append(refused, FleetRefusal{Override: o, Class: class, Err: short})
			continue
		}
		room, _ := r.available(chosen.pool, math.MaxInt)
		plan = append(plan, purchase{override: o, request: request, offer: chosen, room: room})
	}
	return plan, refused
}

// order sorts overrides by strategy; the sort is stable.
func order(plan []purchase, strategy string) {
	unitPrice := func(p purchase) float64 { return float64(p.offer.price) / p.weight() }
	slices.SortStableFunc(plan, func(a, b purchase) int {
		switch strategy {
		case "prioritized", "capacity-optimized-prioritized":
			return cmp.Compare(a.override.Priority, b.override.Priority)
		case "capacity-optimized":
			return cmp.Compare(b.room, a.room)
		case "diversified":
			return 0
		default: // lowest-price and price-capacity-optimized: here every pool with room is equally deep
			return cmp.Compare(unitPrice(a), unitPrice(b))
		}
	})
}

// costs returns the hourly cost of a fleet's machines of a class.
func (c *Catalog) costs(list []*Instance, fleet string, class market.Class, now time.Time) (sum market.USD) {
	for _, i := range list {
		if i.Fleet != fleet || i.Pool.Class != class || !i.State.Alive() {
			continue
		}
		price := c.types[i.Pool.Type].OnDemand
		if class == market.Spot {
			price, _ = c.config.Spot[i.Pool].At(now) // its pool had a price when it was bought
		}
		sum += price
	}
	return sum
}

// fill spreads the units over the plan, as long as they cost at most most an hour (0 = any), and returns how many it placed. Overrides
// share pools and account limits: what one takes, others cannot have.
func (r *Region) fill(plan []purchase, units float64, most market.USD, spread bool) (got float64) {
	taken := make(map[market.Pool]int)
	total := 0
	var cost market.USD
	take := func(p *purchase) bool {
		if got >= units || p.short != nil || most > 0 && cost+p.offer.price > most {
			return false
		}
		if p.short = r.shortFor(p.offer.pool, taken[p.offer.pool]+1, total+1); p.short != nil {
			return false
		}
		p.count++
		taken[p.offer.pool]++
		total++
		cost += p.offer.price
		got += p.weight()
		return true
	}
	if spread {
		for progress := true; progress; {
			progress = false
			for i := range plan {
				progress = take(&plan[i]) || progress
			}
		}
		return got
	}
	for i := range plan {
		for take(&plan[i]) {
		}
	}
	return got
}

// shortFor returns why this number of machines of a pool, or of its class, is not available; nil if it is.
func (r *Region) shortFor(pool market.Pool, inPool, inClass int) *Error {
	if left, short := r.inPool(pool, inPool); left < inPool {
		return short
	}
	if left, short := r.inAccount(pool.Class, inClass); left < inClass {
		return short
	}
	return nil
}
