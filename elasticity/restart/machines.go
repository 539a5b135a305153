package restart

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// launch is a purchase that is not answered yet.
type launch struct {
	pool  market.Pool
	bid   market.USD
	count int // of machines that are not accounted for
	asked int // of machines that were asked for
	why   string
	at    time.Time
	// instead is what is given up once the purchase is answered: not before, as it may come to nothing.
	instead []bidding.Release
}

// machine is a bought machine, from the provider's answer to the provider's word that it is gone.
type machine struct {
	id       ps.ServerID
	pool     market.Pool
	bid      market.USD
	vcpu     int
	launched time.Time
	entered  time.Time // when this controller heard of it
	heard    time.Time // the same, by Controller.awake

	in          *attempt // the last one that it was in the team of
	ready       bool     // its agent has called
	warned      bool
	leaving     bool // given up by the policy
	terminating bool
	terminated  time.Time // when it was asked for
	why         string    // of leaving and termination
	lost        bool      // nothing more is expected of it
	ended       bool      // the provider says so
	endedAt     time.Time
	sawEnd      time.Time // when its end was noted, by Controller.awake
	endedBy     market.EndedBy
	orphan      bool // of a controller before: it may have ended because it waited in vain for that
	billed      int  // lines of its bill that a controller before wrote
	charged     bool // its bill is in the journal
}

// staying reports whether nothing is known that would end the machine or its part in the work.
func (m *machine) staying() bool {
	return !m.warned && !m.leaving && !m.terminating && !m.lost && !m.ended
}

// tier is by the terms of sale: only on-demand machines are reliable.
func (m *machine) tier() string {
	if m.pool.Class == market.OnDemand {
		return string(tiers.Reliable)
	}
	return string(tiers.Transient)
}

// buy writes the intent down and buys. The token makes the purchase safe to repeat.
func (c *Controller) buy(a bidding.Acquire, instead []bidding.Release) {
	c.counter++
	token := fmt.Sprintf("%s-%d", c.cfg.Run, c.counter)
	l := &launch{pool: a.Pool, bid: a.Bid, count: a.Count, asked: a.Count, why: a.Why, at: c.now, instead: instead}
	c.launches[token] = l
	c.record(func() journal.Entry {
		return journal.Entry{
			Kind: journal.Intent, Why: a.Why, Token: token, Pool: a.Pool.String(), Bid: fleet.BidText(a.Pool, a.Bid), Count: a.Count,
			Details: fleet.Considered(c.considered, c.cfg.Pools),
		}
	})
	c.ask(token, l)
}

// ask asks for a launch. Everything in the request is written down: it is the same when it is asked for again.
func (c *Controller) ask(token string, l *launch) {
	c.out = append(c.out, elasticity.Launch{Request: provisioner.Request{
		Token: token, Pool: l.pool, Bid: l.bid, Count: l.asked, Intended: l.at,
	}})
}

func (c *Controller) takeLaunched(e elasticity.Launched) {
	l := c.launches[e.Token]
	if l == nil {
		return
	}
	delete(c.launches, e.Token)
	c.giveUp(l.instead)
	missing := l.count
	for _, i := range e.Instances {
		if c.machines[ps.ServerID(i.ID)] == nil && !c.settled(i.ID) { // else the controller before has written it down
			missing--
			c.enter(l, e.Token, i)
		}
	}
	if missing > 0 {
		c.refuse(e.Token, l, missing, fmt.Sprintf("the provider gave %d of %d", len(e.Instances), l.asked))
	}
}

func (c *Controller) takeLaunchFailed(e elasticity.LaunchFailed) {
	if l := c.launches[e.Token]; l != nil {
		delete(c.launches, e.Token)
		c.refuse(e.Token, l, l.count, e.Err.Error())
	}
}

// refuse notes that a pool gave fewer machines than were asked for, and leaves it alone for a while.
func (c *Controller) refuse(token string, l *launch, missing int, why string) {
	c.record(func() journal.Entry {
		return journal.Entry{Kind: journal.LaunchFailed, Token: token, Pool: l.pool.String(), Count: missing, Why: why}
	})
	c.deferred[l.pool] = c.now.Add(c.cfg.RetryCapacity)
	c.wantPlan = true
}

func (c *Controller) enter(l *launch, token string, i provisioner.Instance) {
	id := ps.ServerID(i.ID)
	if c.machines[id] != nil {
		return
	}
	m := &machine{
		id: id, pool: i.Pool, bid: l.bid, vcpu: c.typeOf(i.Pool).VCPU,
		launched: i.Launched, entered: c.now, heard: c.awake.Now(), orphan: l.why == forgotten,
	}
	c.totals.Machines++
	c.machines[id] = m
	c.roster = append(c.roster, m)
	c.record(func() journal.Entry {
		return journal.Entry{
			Kind: journal.Launch, Why: l.why, Token: token, Instance: string(id), Tier: m.tier(), Pool: m.pool.String(),
			Bid: fleet.BidText(i.Pool, l.bid), Launched: &m.launched,
		}
	})
	if c.ending {
		c.terminate(m, "the run is over")
	}
	if i.State == provisioner.Terminated {
		c.takeEnded(i)
	}
}

// giveUp lets machines go.
func (c *Controller) giveUp(releases []bidding.Release) {
	c.seenWell = false
	for _, r := range releases {
		for _, m := range c.roster {
			if r.Of(m.pool, m.launched) && m.staying() {
				m.leaving, m.why = true, r.Why
			}
		}
	}
}

func (c *Controller) takeWarned(e elasticity.Warned) {
	m := c.machines[e.ID]
	if m == nil || m.ended || m.warned || m.terminating || e.Rebalance {
		return
	}
	m.warned, c.wantPlan = true, true
	c.record(func() journal.Entry {
		return journal.Entry{Kind: journal.Notice, Instance: string(m.id), Pool: m.pool.String(), Deadline: &e.Deadline,
			Why: "eviction notice"}
	})
}

func (c *Controller) takeEnded(i provisioner.Instance) {
	m := c.machines[ps.ServerID(i.ID)]
	if m == nil || m.ended {
		return
	}
	if i.EndedBy == market.ByProvider {
		c.totals.Evictions++
	}
	c.record(func() journal.Entry {
		entry := journal.Entry{Kind: journal.Failed, Instance: string(m.id), Pool: m.pool.String(), Tier: m.tier(),
			Ended: &i.Ended, EndedBy: string(i.EndedBy), Why: i.Reason}
		switch {
		case i.EndedBy == market.ByProvider && m.warned:
			entry.Kind = journal.Evicted
		case m.terminating && i.EndedBy == market.ByUser:
			entry.Kind, entry.Why = journal.Terminated, m.why
		}
		return entry
	})
	switch {
	case i.EndedBy == market.ByProvider:
		c.crashes.Excuse(m.id)
	case !m.orphan && !m.warned && fleet.EndedByItself(i.Ended, m.terminating, m.terminated):
		c.crashes.Add(fleet.Crash{ID: m.id, Entered: m.entered, At: c.now, Why: "it ended by itself: " + cmp.Or(m.why, i.Reason)})
	}
	m.endedAt, m.endedBy, m.sawEnd = i.Ended, i.EndedBy, c.awake.Now()
	c.lose(m)
	m.ended = true
}

// lose takes a machine out of the fleet; a fleet that trained stops.
func (c *Controller) lose(m *machine) {
	if m.lost {
		return
	}
	m.lost, c.wantPlan = true, true
	if c.attempt != nil && slices.Contains(c.attempt.team, m) {
		c.stop("machine " + string(m.id) + " is gone")
	}
}

// abandon gives a machine up that has failed: it is not paid for any longer.
func (c *Controller) abandon(id ps.ServerID, why string) {
	m := c.machines[id]
	if m == nil || m.lost || m.ended {
		return
	}
	c.record(func() journal.Entry {
		return journal.Entry{Kind: journal.Failed, Instance: string(m.id), Pool: m.pool.String(), Why: why}
	})
	c.lose(m)
	c.terminate(m, why)
}

// crashed takes in that an agent ends by itself.
func (c *Controller) crashed(id ps.ServerID, r tiers.Crashed) {
	m := c.machines[id]
	if m == nil || m.lost || m.ended || m.terminating {
		return
	}
	crash := fleet.NewCrash(id, m.entered, c.now, r.Error, r.Log)
	if !m.warned {
		c.crashes.Add(crash)
	}
	c.record(func() journal.Entry { return crash.Entry(m.pool.String()) })
	c.lose(m)
	c.terminate(m, crash.Why)
}

// checkCrashes ends the run when agents keep ending by themselves. What was saved before stays.
func (c *Controller) checkCrashes() {
	if why, crash, loop := c.crashes.Loop(); loop && !c.ending {
		c.crashLog = crash.Log
		c.fail(why)
	}
}

// giveUpSilent lets machines go whose agent does not call.
func (c *Controller) giveUpSilent() {
	for _, m := range c.roster {
		if !m.ready && !m.lost && c.awake.Over(m.heard, c.cfg.BootWithin) {
			c.lose(m)
			c.terminate(m, "its agent did not call")
		}
	}
}

// charge writes the bill of machines that have ended, once every price that it rests on is known.
func (c *Controller) charge() {
	var billed market.Usage
	var charges []market.Charge
	var err error
	var last *machine
	for _, m := range c.roster {
		if m.charged || !m.ended || c.now.Before(m.endedAt) || m.pool.Class != market.OnDemand && c.pricesKnown.Before(m.endedAt) {
			continue
		}
		m.charged = true
		if u := c.usage(m); last == nil || u != billed { // machines that came and went together cost the same
			billed, last = u, m
			charges, err = c.bill(m)
		}
		if err != nil {
			c.record(func() journal.Entry {
				return fleet.UnknownCharge(string(m.id), m.pool, m.launched, m.endedAt, err)
			})
		}
		for _, line := range charges[min(m.billed, len(charges)):] {
			c.totals.Charged += line.Amount
			c.record(func() journal.Entry { return fleet.ChargeEntry(string(m.id), m.pool, line) })
		}
	}
}

// bill is what a machine has cost until now.
func (c *Controller) bill(m *machine) ([]market.Charge, error) {
	return c.cfg.Rules.Charges(c.usage(m), c.prices[m.pool], c.now)
}

func (c *Controller) usage(m *machine) market.Usage {
	u := market.Usage{Pool: m.pool, Bid: m.bid, Start: m.launched}
	if m.ended {
		u.End, u.EndedBy = m.endedAt, m.endedBy
	}
	return u
}

// spent is what is due by now for all machines, as far as their bills can be reckoned.
func (c *Controller) spent() (sum market.USD) {
	for _, m := range c.roster {
		if charges, err := c.bill(m); err == nil {
			sum += market.Total(charges)
		}
	}
	return sum
}

func (c *Controller) typeOf(p market.Pool) market.InstanceType {
	for i := range c.cfg.Pools {
		if c.cfg.Pools[i].Pool == p {
			return c.cfg.Pools[i].Type
		}
	}
	return market.InstanceType{Name: p.Type}
}

// State is what the policy sees now. Its slices are good until the next Step, and not to be changed.
func (c *Controller) State() bidding.State {
	if !c.seenWell {
		c.seen.Pools, c.seen.Held = c.seePools(c.seen.Pools[:0]), c.seeHeld(c.seen.Held[:0])
		c.seenWell = true
	}
	c.seen.Now, c.seen.Want, c.seen.Job, c.seen.StepsOnly = c.now, c.cfg.Want, c.job(), c.cfg.Silent
	return c.seen
}

func (c *Controller) seePools(pools []bidding.Candidate) []bidding.Candidate {
	for i := range c.cfg.Pools {
		p := &c.cfg.Pools[i]
		pools = append(pools, bidding.Candidate{
			Pool: p.Pool, Type: p.Type, History: c.prices[p.Pool], MaxPrice: p.MaxPrice, Hints: p.Hints,
			Availability: p.Availability, NoCapacityUntil: c.deferred[p.Pool],
		})
	}
	return pools
}

func (c *Controller) seeHeld(held []bidding.Allocation) []bidding.Allocation {
	for _, token := range slices.Sorted(maps.Keys(c.launches)) {
		l := c.launches[token]
		held = append(held, bidding.Allocation{Pool: l.pool, Bid: l.bid, Count: l.count, Launch: l.at})
	}
	var last *machine
	for _, m := range c.roster {
		if m.lost || m.ended || m.terminating {
			continue
		}
		if last == nil || !m.alike(last) {
			held = append(held, bidding.Allocation{Pool: m.pool, Bid: m.bid, Launch: m.launched, Draining: m.leaving, Warned: m.warned})
		}
		last = m
		group := &held[len(held)-1]
		group.Count++
		if c.attempt != nil && c.attempt.began && m.in == c.attempt {
			group.Ready++
		}
	}
	bidding.SortHeld(held)
	return held
}

// alike reports whether two machines count as one group.
func (m *machine) alike(o *machine) bool {
	return m.leaving == o.leaving && m.warned == o.warned && m.bid == o.bid && m.launched == o.launched && m.pool == o.pool
}
