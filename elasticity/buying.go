package elasticity

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers"
)

// launch is a purchase that was asked for, until all its machines have joined or gone.
type launch struct {
	token    string
	tier     tiers.Tier
	pool     market.Pool
	bid      market.USD
	or       []bidding.Choice // where the provider chooses
	count    int              // of machines that are not accounted for
	asked    int              // of machines that were asked for
	why      string
	at       time.Time
	answered bool
	again    bool // the controller before asked for it, and so did this one
}

// switchover is a proactive switch: machines of the new pool are starting, those of the old one work on.
type switchover struct {
	from, to market.Pool
	token    string
}

// launch writes the intent down and buys. The token makes the purchase safe to repeat.
func (c *Controller) launch(tier tiers.Tier, a bidding.Acquire) string {
	c.counter++
	l := &launch{
		token: fmt.Sprintf("%s-%d", c.cfg.Run, c.counter),
		tier:  tier, pool: a.Pool, bid: a.Bid, or: a.Or, count: a.Count, asked: a.Count, why: a.Why, at: c.now,
	}
	c.launches[l.token] = l
	c.record(func() journal.Entry {
		return journal.Entry{
			Kind: journal.Intent, Why: a.Why, Token: l.token, Tier: string(tier), Pool: a.Pool.String(), Bid: bidText(a.Pool, a.Bid),
			Or: choicesText(a.Or), Count: a.Count,
			Details: Considered(c.considered, c.cfg.Pools),
		}
	})
	c.ask(l)
	return l.token
}

// ask asks for a launch. Everything in the request is written down: it is the same when it is asked for again.
func (c *Controller) ask(l *launch) {
	r := provisioner.Request{
		Token: l.token, Pool: l.pool, Bid: l.bid, Count: l.asked, Tags: map[string]string{"tier": string(l.tier)}, Intended: l.at,
	}
	for _, choice := range l.or {
		r.Or = append(r.Or, provisioner.Choice(choice))
	}
	c.act(Launch{Request: r})
}

// bidFor is what is bid for a machine of the launch in a pool: the provider may have chosen another than the first.
func (l *launch) bidFor(pool market.Pool) market.USD {
	for _, choice := range l.or {
		if choice.Pool == pool {
			return choice.Bid
		}
	}
	return l.bid
}

// short are the pools that had too few machines: those that refused, or all of them when the provider does not say which.
func (l *launch) short(refused []provisioner.Refusal) (pools []market.Pool) {
	named := append([]bidding.Choice{{Pool: l.pool}}, l.or...)
	for _, choice := range named {
		if slices.ContainsFunc(refused, func(r provisioner.Refusal) bool { return r.Pool == choice.Pool }) {
			pools = append(pools, choice.Pool)
		}
	}
	if len(pools) > 0 {
		return pools
	}
	for _, choice := range named {
		pools = append(pools, choice.Pool)
	}
	return pools
}

// closeLaunch forgets a launch when none of its machines is still on its way.
func (c *Controller) closeLaunch(token string) {
	l := c.launches[token]
	if l == nil || !l.answered {
		return
	}
	for _, m := range c.roster {
		if m.token == token && m.joined == 0 && !m.lost && !m.ended {
			return
		}
	}
	delete(c.launches, token)
	if c.switching != nil && c.switching.token == token {
		c.switching.settle(c)
	}
}

// settle ends a switch-over: if machines of the new pool take part, those of the old one drain.
func (s *switchover) settle(c *Controller) {
	if c.launches[s.token] != nil {
		return
	}
	c.switching = nil
	arrived := c.ordered(func(m *machine) bool { return m.member() && m.token == s.token && !m.warned })
	if len(arrived) == 0 {
		return
	}
	// When the new pool gave fewer machines than it was asked for, as many of the old ones stay as the job wants.
	lacking := max(c.want().VCPU, c.want().Machines)
	for _, m := range arrived {
		lacking -= c.capacity(m)
	}
	for _, m := range c.ordered(func(m *machine) bool { return m.pool == s.from && m.tier == tiers.Transient && m.staying() }) {
		if lacking > 0 {
			lacking -= c.capacity(m)
			continue
		}
		why := "a pool with a longer MTTF took its place, and its paid time is over"
		if m.pool.Class == market.OnDemand {
			why = "spot machines took its place, and its paid time is over"
		}
		c.release(m, why)
	}
	c.relayout = true
}

// release lets a machine go when what is paid for it is over.
func (c *Controller) release(m *machine, why string) {
	if !m.draining || m.why != why {
		c.record(func() journal.Entry {
			return journal.Entry{Kind: journal.Release, Instance: string(m.id), Pool: m.pool.String(), Tier: string(m.tier), Why: why}
		})
	}
	m.draining, m.why = true, why
	c.relayout = true
}

// capacity is how much a machine counts for in what the job wants: its vCPUs, or one machine.
func (c *Controller) capacity(m *machine) int {
	if c.cfg.Want.VCPU > 0 { // a wish keeps to what the job counts
		return m.vcpu
	}
	return 1
}

func (c *Controller) takePrice(e PriceChanged) {
	h := c.prices[e.Pool]
	if h == nil {
		return
	}
	if last, ok := h.Last(); ok && !e.At.After(last.At) {
		return // told before
	}
	point := market.PricePoint{At: e.At, Price: e.Price}
	if err := h.Append(point); err != nil {
		return // it cannot be: it is later than the last
	}
	c.recordPrice(e.Pool, point)
	c.wantPlan = true
}

// takeCapacity is told how many machines a pool gives, where somebody watches that. What it had refused is out of date.
func (c *Controller) takeCapacity(e CapacityChanged) {
	for i := range c.cfg.Pools {
		p := &c.cfg.Pools[i]
		if p.Pool != e.Pool || p.Availability == nil {
			continue
		}
		if p.Availability.Tell(market.AvailabilityPoint{At: e.At, Count: e.Count}) == nil {
			delete(c.deferred, e.Pool)
			c.wantPlan = true
		}
	}
}

func (c *Controller) recordPrice(pool market.Pool, p market.PricePoint) {
	c.record(func() journal.Entry {
		return journal.Entry{Kind: journal.Price, Pool: pool.String(), USD: p.Price.String(), At: &p.At}
	})
}

// planDue reports whether the policy should be asked.
func (c *Controller) planDue() bool { return c.wantPlan || !c.now.Before(c.nextPlan) }

// buy asks the policy what to hold and does as it says. Spot machines are bought once the reliable tier
// stands: before that they would have nothing to do.
func (c *Controller) buy() {
	if !c.planDue() || !c.mayBuy() {
		return
	}
	c.wantPlan, c.nextPlan = false, c.now.Add(c.cfg.PlanEvery)
	plan := bidding.Ask(c.cfg.Policy, c.brief())
	if again := plan.AskAgain; again.After(c.now) && again.Before(c.nextPlan) {
		c.nextPlan = again
	}
	if plan.Switch != nil && c.switching != nil {
		return // one after the other: the pool that is left must drain
	}
	c.considered = plan.Considered
	defer func() { c.considered = nil }()
	for _, a := range plan.Acquire {
		s := plan.Switch
		if s == nil || s.To != a.Pool {
			c.launch(tiers.Transient, a)
			continue
		}
		c.totals.Switches++
		c.record(func() journal.Entry {
			return journal.Entry{
				Kind: journal.Switch, Why: s.Why, From: s.From.String(), To: s.To.String(),
				FromMTTF: s.FromMTTF.Seconds(), ToMTTF: s.ToMTTF.Seconds(),
			}
		})
		c.switching = &switchover{from: s.From, to: s.To, token: c.launch(tiers.Transient, a)}
	}
	if plan.Switch == nil {
		for _, r := range plan.Release {
			some := c.ordered(func(m *machine) bool {
				return r.Of(m.pool, m.launched) && m.tier == tiers.Transient && !m.lost && !m.ended && (r.Count == 0 || m.staying())
			})
			if r.Count > 0 && r.Count < len(some) {
				some = some[len(some)-r.Count:] // those that joined first hold most
			}
			for _, m := range some {
				c.release(m, r.Why)
			}
		}
	}
}

// mayBuy reports whether the policy is asked at all, as things are.
func (c *Controller) mayBuy() bool {
	return c.hush == nil && !c.now.Before(c.gathering) && c.standing() && c.stopWhy == "" && !c.ending && !c.done() && !c.crashes.Hold()
}

// State is what the policy sees now. Its slices are good until the next Step, and not to be changed.
func (c *Controller) State() bidding.State {
	if !c.seenWell {
		c.seen.Pools, c.seen.Held = c.seePools(c.seen.Pools[:0]), c.seeHeld(c.seen.Held[:0])
		c.seenWell = true
	}
	c.seen.Now, c.seen.Want, c.seen.Job, c.seen.Chooses = c.now, c.want(), c.jobState(), c.cfg.Chooses
	return c.seen
}

// seePools returns the pools with what is known of them beside prices.
func (c *Controller) seePools(pools []bidding.Candidate) []bidding.Candidate {
	for _, p := range c.cfg.Pools {
		pools = append(pools, bidding.Candidate{
			Pool: p.Pool, Type: p.Type, History: p.History, MaxPrice: p.MaxPrice, Hints: p.Hints,
			Availability: p.Availability, NoCapacityUntil: c.deferred[p.Pool],
		})
		if own := c.lifetimes[p.Pool]; own != nil {
			l := &pools[len(pools)-1].Hints.Lifetimes
			*l = l.Join(*own)
		}
	}
	return pools
}

// seeHeld returns what is held, or on its way.
func (c *Controller) seeHeld(all []bidding.Allocation) []bidding.Allocation {
	for _, token := range sortedTokens(c.launches) {
		if l := c.launches[token]; l.tier == tiers.Transient && !l.answered {
			all = append(all, bidding.Allocation{Pool: l.pool, Bid: l.bid, Count: l.count, Launch: l.at})
		}
	}
	type group struct {
		token            string
		pool             market.Pool
		draining, warned bool
	}
	var groups []group // of all[wanted:]
	wanted := len(all)
	for _, m := range c.roster {
		if m.tier != tiers.Transient || m.lost || m.ended || m.terminating {
			continue
		}
		g := group{m.token, m.pool, m.draining || m.leaving, m.warned}
		i := slices.Index(groups, g)
		if i < 0 {
			i = len(groups)
			groups = append(groups, g)
			all = append(all, bidding.Allocation{
				Pool: m.pool, Bid: m.bid, Launch: m.launched, Draining: g.draining, Warned: g.warned,
			})
		}
		held := &all[wanted+i]
		held.Count++
		if m.joined > 0 {
			held.Ready++
		}
	}
	bidding.SortHeld(all)
	return all
}

// brief is the State for a plan of which only the steps are looked at.
func (c *Controller) brief() bidding.State {
	s := c.State()
	s.StepsOnly = true
	return s
}

// jobState is what the policy is told of the job.
func (c *Controller) jobState() bidding.Job {
	reliable := market.USD(c.cfg.Reliable.Count)
	j := bidding.Job{
		Started: c.started, Deadline: c.cfg.Deadline, Budget: c.cfg.Budget, PerHour: c.cfg.PerHour,
		Work:   c.cfg.Job.Work,
		Upkeep: reliable * c.cfg.Reliable.Type.OnDemand, ReliableRate: float64(c.cfg.Reliable.Count) * c.cfg.Reliable.Type.WorkRate(),
		Startup: c.cfg.Startup, Notice: c.cfg.Notice, Handover: c.cfg.JoinWait + c.cfg.NoticeWait, Leave: c.cfg.DrainMargin,
	}
	if c.cfg.Job.Clocks > 0 {
		j.Done = j.Work * float64(c.progress.done) / float64(c.cfg.Job.Clocks)
	}
	if c.cfg.Rules != nil {
		j.Terms = c.cfg.Rules.Terms()
	}
	if j.Budget > 0 {
		j.Spent = c.spent()
	}
	if j.PerHour > 0 {
		j.Reliable = c.reliableRate()
	}
	return j
}

// reliableRate is what the reliable machines cost an hour now, with those on their way.
func (c *Controller) reliableRate() (sum market.USD) {
	price := func(pool market.Pool, bid market.USD) market.USD {
		if pool.Class == market.OnDemand {
			return c.typeOf(pool).OnDemand
		}
		if h := c.prices[pool]; h != nil {
			if p, known := h.At(c.now); known {
				return min(p, bid)
			}
		}
		return bid
	}
	for _, token := range sortedTokens(c.launches) {
		if l := c.launches[token]; l.tier == tiers.Reliable && !l.answered {
			sum += market.USD(l.count) * price(l.pool, l.bid)
		}
	}
	for _, m := range c.roster {
		if m.tier == tiers.Reliable && !m.ended {
			sum += price(m.pool, m.bid)
		}
	}
	return sum
}

// spent is what is due by now for all machines, as far as their bills can be reckoned.
func (c *Controller) spent() (sum market.USD) {
	for _, machines := range [][]*machine{c.archived, c.roster} {
		for _, m := range machines {
			if charges, err := c.bill(m); err == nil {
				sum += market.Total(charges)
			}
		}
	}
	return sum
}

// bill is what a machine has cost until now.
func (c *Controller) bill(m *machine) ([]market.Charge, error) {
	history := c.prices[m.pool]
	if m.pool.Class == market.OnDemand {
		history = market.Constant(c.typeOf(m.pool).OnDemand)
	}
	u := market.Usage{Pool: m.pool, Bid: m.bid, Start: m.launched}
	if m.ended {
		u.End, u.EndedBy = m.endedAt, m.endedBy
	}
	return c.cfg.Rules.Charges(u, history, c.now)
}

// join takes ready machines into training, together with others that are nearly there: partitions and splits move
// once.
func (c *Controller) join() {
	if c.halt != nil || c.recovery != nil || c.adopting != nil || c.ending || c.stopWhy != "" || c.done() {
		return
	}
	ready, coming := c.candidates()
	if ready == 0 {
		c.readySince = time.Time{}
		return
	}
	if c.readySince.IsZero() {
		c.readySince = c.now
	}
	if coming > 0 && (!c.standing() || c.now.Before(c.readySince.Add(c.cfg.JoinWait))) {
		return
	}
	joining := c.ordered(c.mayJoin)
	c.readySince = time.Time{}
	for _, m := range joining {
		c.joins++
		m.joined = c.joins
	}
	c.sortRoster()
	if !c.standing() {
		c.stand()
	}
	route := c.setRoute()
	for _, m := range joining {
		c.send(m.id, route)
	}
	c.layOut()
	for _, m := range joining {
		c.recordJoin(m)
		c.closeLaunch(m.token)
	}
}

// mayJoin reports whether a machine is ready to take part and does not yet. Reliable ones need all their data.
func (c *Controller) mayJoin(m *machine) bool {
	return m.joined == 0 && m.ready && m.staying() && (m.tier == tiers.Transient && c.standing() || m.tier == tiers.Reliable && !m.loading)
}

// candidates counts the machines that may join, and those that are on their way.
func (c *Controller) candidates() (ready, coming int) {
	for _, m := range c.roster {
		switch {
		case m.joined > 0 || !m.staying() || m.tier == tiers.Transient && !c.standing():
		case c.mayJoin(m):
			ready++
		default:
			coming++
		}
	}
	return ready, coming
}

// charge writes the bill of machines that have ended, once every price that it rests on is known.
func (c *Controller) charge() {
	written := false
	for _, m := range c.roster {
		if !m.ended || m.charged || c.now.Before(m.endedAt) || m.pool.Class == market.Spot && c.pricesKnown.Before(m.endedAt) {
			continue
		}
		m.charged, written = true, true
		charges, err := c.bill(m)
		if err != nil {
			c.record(func() journal.Entry { return UnknownCharge(string(m.id), m.pool, m.launched, m.endedAt, err) })
			continue
		}
		for _, line := range charges[min(m.billed, len(charges)):] {
			c.totals.Charged += line.Amount
			c.record(func() journal.Entry { return ChargeEntry(string(m.id), m.pool, line) })
		}
	}
	if written {
		c.archive()
	}
}

// drain ends the work of released machines shortly before they would cost another hour.
func (c *Controller) drain() {
	for _, m := range c.roster {
		if m.draining && !m.leaving && !m.lost && !m.ended && !c.now.Before(c.paidUntil(m).Add(-c.cfg.DrainMargin)) {
			m.leaving, c.relayout = true, true
		}
	}
}

// paidUntil is the end of the hour that is paid already; without whole-hour billing that is now.
func (c *Controller) paidUntil(m *machine) time.Time {
	if !c.cfg.WholeHours {
		return c.now
	}
	hours := c.now.Sub(m.launched)/time.Hour + 1
	return m.launched.Add(hours * time.Hour)
}

// retire terminates machines that have handed everything over.
func (c *Controller) retire() {
	for _, m := range c.roster {
		if m.leaving && !m.lost && !m.ended && !m.terminating && (m.joined == 0 || !c.ownsAny(m.id) && m.splits == 0 && !m.keeps && !slices.Contains(c.route.Backup, m.id)) {
			c.terminate(m, m.why)
		}
	}
}

// bidText leaves out of the journal what is no bid: of what is bought on demand, or of a provider that takes none.
func bidText(pool market.Pool, bid market.USD) string {
	if bid == 0 || !pool.TakesBids() {
		return ""
	}
	return bid.String()
}

// choicesText is how choices are written down.
func choicesText(or []bidding.Choice) (text []journal.Choice) {
	for _, choice := range or {
		text = append(text, journal.Choice{Pool: choice.Pool.String(), Bid: bidText(choice.Pool, choice.Bid)})
	}
	return text
}
