package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/hazard"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
)

// Verb is the effect of a Fault, in the fake cloud's words.
type Verb string

const (
	Evict      Verb = "evict"       // reclaim spot machines, with the usual notice
	EvictNow   Verb = "evict-now"   // and without notice
	Kill       Verb = "kill"        // the host fails: no notice, no eviction
	Rebalance  Verb = "rebalance"   // recommend leaving the machine
	NoCapacity Verb = "no-capacity" // sell nothing for a while
)

// Fault is an event injected in addition to the market's own.
type Fault struct {
	At     time.Duration // since the start
	Do     Verb
	Target string // which spot machines: "oldest", "newest", "random", "all"; "" = oldest
	Count  int    // how many; 0 = 1
	Of     string // limits it to a type, a zone, or "zone/type"; "" = no limit
	For    time.Duration
}

// machine is a simulated machine, as its provider sees it. node has its work.
type machine struct {
	provisioner.Instance
	number int
	place  int // in its pool: see hazard.Event
	warned bool
	gone   bool
	agent  process
	told   *recordedMachine // nil = its end is simulated
}

// cloud is the simulated provider: it sells at recorded prices, warns and reclaims.
type cloud struct {
	w        *world
	machines []*machine
	places   []seats
	byID     map[provisioner.InstanceID]*machine
	closed   []closure
	dangers  dangers
	replayed int // purchases answered from the recording
}

// closure is a period in which some pools sell nothing.
type closure struct {
	of    string
	until time.Time
}

// followPrices reports each price change of a pool in turn. All share a function.
func (c *cloud) followPrices(pool market.Pool, points []market.PricePoint) {
	var happen func()
	next := func() {
		if len(points) == 0 {
			return
		}
		tell, told := c.w.cfg.Recording.price(pool, points[0].At)
		if !told {
			tell = points[0].At.Add(c.w.cfg.Timing.PriceLag)
		}
		c.w.at(tell, prices, happen)
	}
	happen = func() {
		c.w.step(elasticity.PriceChanged{Pool: pool, At: points[0].At, Price: points[0].Price})
		c.w.decide() // one price at a time, as in a real run
		points = points[1:]
		next()
	}
	next()
}

// followAvailability reports each change of a pool's availability, and reclaims the excess: the newest machines first,
// as a complete fleet needs them least. The notice comes before the change.
func (c *cloud) followAvailability(pool market.Pool, points []market.AvailabilityPoint) {
	if len(points) == 0 {
		return
	}
	next := points[0]
	c.w.at(next.At.Add(-c.w.cfg.Timing.Notice), notices, func() { c.takeBack(pool, next.Count) })
	c.w.at(next.At.Add(c.w.cfg.Timing.PriceLag), prices, func() {
		c.takeBack(pool, next.Count) // machines bought after the notice
		c.w.step(elasticity.CapacityChanged{Pool: pool, At: next.At, Count: next.Count})
		c.followAvailability(pool, points[1:])
	})
}

// seat assigns a machine the lowest free place in its pool.
func (c *cloud) seat(m *machine) {
	if c.w.cfg.Hazard == nil {
		return
	}
	all := c.seats(m.Pool)
	m.place = slices.IndexFunc(*all, func(o *machine) bool { return o.gone || o.warned })
	if m.place < 0 {
		m.place = len(*all)
		*all = append(*all, m)
		return
	}
	(*all)[m.place] = m
}

// seats are the places of a pool's machines: the last machine in each.
type seats struct {
	pool market.Pool
	all  []*machine
}

// seats returns a pool's places. Runs have few pools, and to hash the name of one takes longer than to find it.
func (c *cloud) seats(pool market.Pool) *[]*machine {
	for i := range c.places {
		if of := &c.places[i]; of.pool == pool {
			return &of.all
		}
	}
	c.places = append(c.places, seats{pool: pool})
	return &c.places[len(c.places)-1].all
}

// dangers are the evictions for capacity that are to come.
type dangers struct {
	events *hazard.Upcoming
	next   hazard.Event
	more   bool           // there is a next one; it is in the queue
	at     *moment        // of the next one
	seen   []hazard.Event // drawn after next, in order
	happen func()         // all events share it: there are many, and most hit no machine
}

// followHazard reclaims machines according to the events, in turn.
func (c *cloud) followHazard(events *hazard.Upcoming) {
	d := &c.dangers
	d.events = events
	d.happen = func() {
		for _, m := range *c.seats(d.next.Pool) {
			if c.hits(&d.next, m) {
				c.evict(m)
			}
		}
		d.draw()
		c.nextDanger()
	}
	d.draw()
	c.nextDanger()
}

// draw proceeds to the next event.
func (d *dangers) draw() {
	if len(d.seen) > 0 {
		d.next, d.seen = d.seen[0], d.seen[1:]
	} else {
		d.next, d.more = d.events.Next()
	}
}

// nextDanger schedules the next event, if there is one.
func (c *cloud) nextDanger() {
	if d := &c.dangers; d.more {
		d.at = c.w.queue.put(c.w.elapsed+max(d.next.At.Sub(c.w.now()), 0), notices, event{do: d.happen})
	}
}

// passOver drops the events before a time before which nothing else happens, and of which none hits a machine (calmUntil).
func (c *cloud) passOver(until time.Duration) {
	d, before := &c.dangers, c.w.cfg.Start.Add(until)
	if !d.more || d.at != c.w.queue.heap[0] || !d.next.At.Before(before) {
		return
	}
	c.w.queue.dropFirst()
	for d.more && d.next.At.Before(before) {
		d.draw()
	}
	c.nextDanger()
}

// hits reports whether an event takes a machine.
func (c *cloud) hits(e *hazard.Event, m *machine) bool {
	return !m.gone && !m.warned && e.Takes(m.place, e.At.Sub(m.Launched))
}

// hitsAny reports whether an event takes a present machine.
func (c *cloud) hitsAny(e *hazard.Event) bool {
	return slices.ContainsFunc(*c.seats(e.Pool), func(m *machine) bool { return c.hits(e, m) })
}

// calmUntil returns when the next event of the queue happens, leaving out evictions that hit none of the present
// machines. The queue must not be empty.
func (c *cloud) calmUntil() time.Duration {
	d := &c.dangers
	if !d.more || d.at != c.w.queue.heap[0] {
		return c.w.queue.due()
	}
	due, there := c.w.queue.dueBesides(d.at)
	if !there {
		return c.w.queue.due()
	}
	until := c.w.cfg.Start.Add(due)
	e, drawn := &d.next, 0
	for e.At.Before(until) {
		if c.hitsAny(e) {
			return e.At.Sub(c.w.cfg.Start)
		}
		if drawn == len(d.seen) {
			after, more := d.events.Next()
			if !more {
				break
			}
			d.seen = append(d.seen, after)
		}
		e = &d.seen[drawn]
		drawn++
	}
	return due
}

// takeBack evicts a pool's machines above the number left.
func (c *cloud) takeBack(pool market.Pool, left int) {
	for _, m := range c.machines {
		if m.Pool != pool || m.gone || m.warned {
			continue
		}
		if left--; left < 0 {
			c.evict(m)
		}
	}
}

func (c *cloud) launch(r provisioner.Request) {
	lots, refused, err := c.sell(r)
	if err != nil {
		c.w.step(elasticity.LaunchFailed{Token: r.Token, Err: err, Refused: refused})
		return
	}
	launched := c.w.now().Truncate(time.Second)
	var sold []provisioner.Instance
	for _, l := range lots {
		sold = c.make(l, launched, sold)
	}
	c.w.step(elasticity.Launched{Token: r.Token, Instances: sold, Refused: refused})
}

// make returns a pool's new machines.
func (c *cloud) make(l stock, launched time.Time, sold []provisioner.Instance) []provisioner.Instance {
	r := l.request
	back, taken := c.takenBack(r, launched)
	for range l.count {
		m := &machine{number: len(c.machines) + 1, Instance: provisioner.Instance{
			Pool: r.Pool, Bid: r.Bid, Token: r.Token, State: provisioner.Running, Launched: launched,
		}}
		m.ID = provisioner.InstanceID(fmt.Sprintf("i-%017x", m.number))
		c.seat(m)
		c.machines, c.byID[m.ID] = append(c.machines, m), m
		m.agent = c.w.staff.hire(ps.ServerID(m.ID), c.w.rate(r.Pool))
		sold = append(sold, m.Instance)
		c.w.after(c.w.cfg.Timing.Boot, arrivals, m.agent.boot)
		if taken {
			c.w.at(back, notices, func() { c.evict(m) })
		}
	}
	return sold
}

// kinds lists the types that were sold, and their classes.
func (c *cloud) kinds() string {
	var pools []market.Pool
	for _, m := range c.machines {
		if !slices.Contains(pools, m.Pool) {
			pools = append(pools, m.Pool)
		}
	}
	return market.Kinds(pools)
}

// takenBack returns when the provider warns that it will reclaim a machine: when the price exceeds its bid, or at the
// longest life that the rules allow.
func (c *cloud) takenBack(r provisioner.Request, launched time.Time) (at time.Time, taken bool) {
	if r.Pool.Class != market.Spot {
		return at, false
	}
	at, taken = c.w.history[r.Pool].FirstAbove(launched, r.Bid)
	if life := c.w.cfg.Rules.Terms().MaxLife; life > 0 {
		if end := launched.Add(life - c.w.cfg.Timing.Notice); !taken || end.Before(at) {
			at, taken = end, true
		}
	}
	return at, taken
}

// available returns how many of the requested machines the pool can sell.
func (c *cloud) available(r provisioner.Request) (int, error) {
	if r.Pool.Class == market.OnDemand {
		return r.Count, nil
	}
	price, known := c.w.history[r.Pool].At(c.w.now())
	switch {
	case !known:
		return 0, fmt.Errorf("%w: no price of %s", provisioner.ErrNoCapacity, r.Pool)
	case price > r.Bid:
		return 0, fmt.Errorf("%w: $%s is asked, $%s bid", provisioner.ErrPriceTooLow, price, r.Bid)
	case slices.ContainsFunc(c.closed, func(x closure) bool { return c.w.now().Before(x.until) && matches(x.of, r.Pool) }):
		return 0, provisioner.ErrNoCapacity
	}
	limit, limited := c.w.cfg.Capacity[r.Pool]
	if free, known := c.w.availability[r.Pool].At(c.w.now()); known && (!limited || free < limit) {
		limit, limited = free, true
	}
	if !limited {
		return r.Count, nil
	}
	for _, m := range c.machines {
		if m.Pool == r.Pool && !m.gone {
			limit--
		}
	}
	if limit <= 0 {
		return 0, provisioner.ErrNoCapacity
	}
	return min(limit, r.Count), nil
}

// evict warns a machine and reclaims it when the notice ends.
func (c *cloud) evict(m *machine) {
	if m.gone || m.warned {
		return
	}
	m.warned = true
	deadline := c.w.now().Add(c.w.cfg.Timing.Notice)
	if hears, ok := m.agent.(interface{ warned() }); ok {
		c.w.after(min(c.w.cfg.Timing.NoticeLag, c.w.cfg.Timing.Notice), notices, hears.warned)
	}
	c.w.after(min(c.w.cfg.Timing.NoticeLag, c.w.cfg.Timing.Notice), notices, func() {
		if !m.gone {
			c.w.step(elasticity.Warned{ID: ps.ServerID(m.ID), Deadline: deadline})
		}
	})
	c.w.at(deadline, losses, func() { c.end(m, market.ByProvider, "the price rose above the bid, or capacity was taken back") })
}

// terminate ends machines on the buyer's request.
func (c *cloud) terminate(ids []provisioner.InstanceID) {
	for _, id := range ids {
		if m := c.byID[id]; m != nil {
			c.end(m, market.ByUser, "")
		}
	}
}

// end takes a machine off the bill; the broken stream reveals it at once, the provider's report a little later.
func (c *cloud) end(m *machine, by market.EndedBy, reason string) {
	if m.gone {
		return
	}
	m.gone = true
	m.State, m.EndedBy, m.Reason = provisioner.Terminated, by, reason
	m.Ended = m.endedAt(c.w.now()).Truncate(time.Second)
	if m.Ended.Before(m.Launched) {
		m.Ended = m.Launched
	}
	m.agent.die()
	if by == market.ByProvider {
		c.w.after(c.w.cfg.Timing.Reply, losses, func() { c.w.step(elasticity.Disconnected{ID: ps.ServerID(m.ID)}) })
	}
	c.w.at(m.knownAt(c.w.now(), c.w.cfg.Timing.EndLag), losses, func() {
		c.w.step(elasticity.InstanceEnded{Instance: m.Instance})
		c.w.pricesKnown()
	})
}

func (c *cloud) fault(f Fault) {
	if f.Do == NoCapacity {
		c.closed = append(c.closed, closure{of: f.Of, until: c.w.now().Add(f.For)})
		return
	}
	for _, m := range c.targets(f) {
		switch f.Do {
		case Evict:
			c.evict(m)
		case EvictNow:
			c.end(m, market.ByProvider, "taken back without notice")
		case Kill:
			c.end(m, market.ByProvider, "the host broke")
		case Rebalance:
			c.w.step(elasticity.Warned{ID: ps.ServerID(m.ID), Rebalance: true})
		}
	}
}

func (c *cloud) targets(f Fault) []*machine {
	var alive []*machine
	for _, m := range c.machines {
		if m.Pool.Class == market.Spot && !m.gone && !m.warned && matches(f.Of, m.Pool) {
			alive = append(alive, m)
		}
	}
	count := min(max(f.Count, 1), len(alive))
	switch f.Target {
	case "all":
		return alive
	case "newest":
		return alive[len(alive)-count:]
	case "random":
		c.w.random.Shuffle(len(alive), func(i, j int) { alive[i], alive[j] = alive[j], alive[i] })
	}
	return alive[:count]
}

// matches reports whether a pool matches a type, a zone, or "zone/type".
func matches(of string, p market.Pool) bool {
	zone, kind, both := strings.Cut(of, "/")
	if both {
		return p.Zone == zone && p.Type == kind
	}
	return of == "" || of == p.Zone || of == p.Type
}
