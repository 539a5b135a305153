package fleet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// launch is a purchase that was asked for, until all its machines have joined or gone.
type launch struct {
	token    string
	tier     step.Tier
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

// early is what was heard of a machine before its launch was answered: answers are slow at times.
type early struct {
	called     bool
	warned     *Warned
	ended      *provisioner.Instance
	terminated bool // it belongs to no launch, and was sent away
}

const noLaunch = "no launch accounts for this machine"

// purchases are the launches.
type purchases struct {
	*step.Step
	cfg        *Config
	counter    uint64               // of tokens
	open       map[string]*launch   // by token, until every machine of it has joined or gone
	refused    map[string]*launch   // by token, launches that failed: machines may turn up all the same
	unsure     time.Time            // when a launch was last given up of which machines may turn up all the same
	considered []bidding.Considered // by the plan that is being carried out
}

// unanswered calls each with the launches of a tier that are not answered.
func (b *purchases) unanswered(tier step.Tier, each func(*launch)) {
	for _, token := range slices.Sorted(maps.Keys(b.open)) {
		if l := b.open[token]; l.tier == tier && !l.answered {
			each(l)
		}
	}
}

// Awaited reports whether a launch is unanswered, so that machines may exist that are not known yet.
func (b *purchases) Awaited() bool {
	for _, l := range b.open {
		if !l.answered {
			return true
		}
	}
	return false
}

// launch writes the intent down and buys. The token makes the purchase safe to repeat.
func (b *purchases) launch(tier step.Tier, a bidding.Acquire) string {
	b.counter++
	l := &launch{
		token: fmt.Sprintf("%s-%d", b.cfg.Run, b.counter),
		tier:  tier, pool: a.Pool, bid: a.Bid, or: a.Or, count: a.Count, asked: a.Count, why: a.Why, at: b.Now,
	}
	b.open[l.token] = l
	b.Record(func() journal.Entry {
		return journal.Entry{
			Kind: journal.Intent, Why: a.Why, Token: l.token, Tier: string(tier), Pool: a.Pool.String(), Bid: bidText(a.Pool, a.Bid),
			Or: choicesText(a.Or), Count: a.Count,
			Details: Considered(b.considered, b.cfg.Pools),
		}
	})
	b.ask(l)
	return l.token
}

// ask asks for a launch. Everything in the request is written down: it is the same when it is asked for again.
func (b *purchases) ask(l *launch) {
	r := provisioner.Request{
		Token: l.token, Pool: l.pool, Bid: l.bid, Count: l.asked, Tags: map[string]string{"tier": string(l.tier)}, Intended: l.at,
	}
	for _, choice := range l.or {
		r.Or = append(r.Or, provisioner.Choice(choice))
	}
	b.Do(Launch{Request: r})
}

// closeLaunch forgets a launch when none of its machines is still on its way.
func (f *Fleet) closeLaunch(token string) {
	l := f.buys.open[token]
	if l == nil || !l.answered {
		return
	}
	for _, m := range f.roster.list {
		if m.Token == token && m.Joined == 0 && !m.Lost && !m.Ended {
			return
		}
	}
	delete(f.buys.open, token)
	if f.Switching != nil && f.Switching.token == token {
		f.Switching.settle(f)
	}
}

// TakeLaunchFailed hears that a launch gave no machine.
func (f *Fleet) TakeLaunchFailed(e LaunchFailed) {
	l := f.buys.open[e.Token]
	if l == nil || l.answered {
		return
	}
	delete(f.buys.open, e.Token)
	f.buys.refused[e.Token] = l
	if l.again || e.Unsure || !provisioner.Definite(e.Err) {
		f.buys.unsure = f.Now
	}
	if l.tier == step.Reliable && l.pool == f.cfg.Reliable.Pool {
		f.Reliable.none = errors.Is(e.Err, provisioner.ErrNoCapacity) || errors.Is(e.Err, provisioner.ErrLimit) // a quota is a capacity
	}
	f.refuse(l, l.count, e.Err.Error(), e.Refused)
	if f.Switching != nil && f.Switching.token == e.Token {
		f.Switching = nil
	}
	if l.tier == step.Reliable {
		f.Reliable.err = e.Err
		if errors.Is(e.Err, provisioner.ErrInvalid) && !l.again {
			f.Fail("no reliable machine could be had: " + e.Err.Error())
		}
	}
	f.checkStrangers()
}

// refuse notes that fewer machines were given than were asked for, and leaves the pools that had too few alone for a while.
func (f *Fleet) refuse(l *launch, missing int, why string, refused []provisioner.Refusal) {
	pools := l.short(refused)
	f.Record(func() journal.Entry {
		e := journal.Entry{
			Kind: journal.LaunchFailed, Token: l.token, Tier: string(l.tier), Pool: pools[0].String(), Count: missing, Why: why,
		}
		for _, pool := range pools[1:] {
			e.Or = append(e.Or, journal.Choice{Pool: pool.String()})
		}
		return e
	})
	f.Reliable.lost = f.Reliable.lost || l.tier == step.Reliable
	if l.tier == step.Reliable && l.pool == f.cfg.Reliable.Pool {
		if !f.Reliable.none || !f.cfg.Substitutes {
			f.putOffReliable()
		}
		return
	}
	for _, pool := range pools {
		f.markets.deferred[pool] = f.Now.Add(f.cfg.RetryCapacity)
	}
	f.WantPlan = true
}

// TakeLaunched hears what a launch gave.
func (f *Fleet) TakeLaunched(e Launched) {
	l := f.buys.open[e.Token]
	switch {
	case l == nil && f.buys.refused[e.Token] == nil, l != nil && l.answered:
		return
	case l == nil: // it was said to have failed
		for _, i := range e.Instances {
			f.adopt(f.buys.refused[e.Token], i)
		}
		return
	}
	l.answered = true
	missing := l.count
	for _, i := range e.Instances {
		if f.roster.byID[step.ID(i.ID)] == nil && !f.settled(i.ID) { // else the controller before has written it down, or it was listed
			missing--
		}
		f.enter(l, i)
	}
	if missing > 0 {
		why := fmt.Sprintf("the provider gave %d of %d", len(e.Instances), l.asked)
		if len(e.Refused) > 0 {
			why += ": " + provisioner.SayRefusals(e.Refused)
		}
		f.refuse(l, missing, why, e.Refused)
	}
	f.closeLaunch(e.Token)
	f.checkStrangers()
}

// enter takes a bought machine up, with what was heard of it before.
func (f *Fleet) enter(l *launch, i provisioner.Instance) *Machine {
	id := step.ID(i.ID)
	if m := f.roster.byID[id]; m != nil || f.settled(i.ID) {
		return m
	}
	f.bought++ // the journal tells, too
	kind := f.markets.typeOf(i.Pool)
	m := &Machine{
		Machine: step.Machine{ID: id, Tier: l.tier, VCPU: kind.VCPU, Number: f.bought, Entered: f.Now},
		Pool:    i.Pool, bid: l.bidFor(i.Pool), Token: l.token, Launched: i.Launched,
	}
	f.roster.seat(m)
	f.work.Enter(&m.Machine, f.markets.kind(i.Pool))
	f.Totals.Machines++
	f.Record(func() journal.Entry {
		return journal.Entry{
			Kind: journal.Launch, Why: l.why, Token: l.token, Instance: string(id), Tier: string(l.tier),
			Pool: i.Pool.String(), Bid: bidText(i.Pool, m.bid), Launched: &i.Launched,
		}
	})
	heard := f.early[id]
	delete(f.early, id)
	switch {
	case heard != nil && heard.terminated:
		m.Terminating, m.Why = true, noLaunch
	case f.Ending:
		f.Terminate(&m.Machine, "the run is over")
	}
	if i.State == provisioner.Terminated {
		f.TakeEnded(i)
	}
	if heard != nil && heard.warned != nil {
		f.TakeWarned(*heard.warned)
	}
	if heard != nil && heard.ended != nil {
		f.TakeEnded(*heard.ended)
	}
	if heard != nil && heard.called {
		f.work.Entered(&m.Machine)
	}
	return m
}

// adopt takes up a machine of a launch that was said to have failed. It is on the bill, but nobody counts on it any
// more.
func (f *Fleet) adopt(l *launch, i provisioner.Instance) {
	if m := f.enter(l, i); m != nil && m.Joined == 0 {
		f.Terminate(&m.Machine, "its launch was said to have failed, and it was not expected any more")
	}
}

// awaiting reports whether a launch is unanswered, so that machines may exist that are not known yet.
func (f *Fleet) awaiting() bool {
	if !f.Surveyed() {
		return true
	}
	return f.buys.Awaited()
}

// hear keeps what is heard of a machine that is not known.
func (f *Fleet) hear(id step.ID) *early {
	if f.early[id] == nil {
		f.early[id] = &early{}
	}
	return f.early[id]
}

// strangerEnded hears that a machine is gone that is not known. As long as a launch is unanswered it may be its.
func (f *Fleet) strangerEnded(i provisioner.Instance) {
	if l := f.buys.refused[i.Token]; l != nil && !f.settled(i.ID) {
		f.enter(l, i)
		f.TakeEnded(i)
	} else if f.awaiting() {
		f.hear(step.ID(i.ID)).ended = &i
	}
}

// Called: a machine has called that is not known. As long as a launch is unanswered it may be its; one that calls when none is
// was bought by a launch that was said to have failed, and costs money for nothing.
func (f *Fleet) Called(id step.ID) {
	f.hear(id).called = true
	f.checkStrangers()
}

// checkStrangers sends machines away that belong to no launch.
func (f *Fleet) checkStrangers() {
	if f.awaiting() {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(f.early)) {
		switch h := f.early[id]; {
		case !h.called:
			delete(f.early, id)
		case !h.terminated:
			h.terminated = true
			f.Do(Terminate{IDs: []provisioner.InstanceID{provisioner.InstanceID(id)},
				Why: noLaunch})
		}
	}
}
