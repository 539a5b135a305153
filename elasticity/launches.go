package elasticity

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// maxReliableTries is how often in a row the reliable tier is asked for in vain before a run that has not begun is given up. In
// vain means that no pool had a machine, or that those of a launch were lost before they were ready. One that was ready and is
// lost could be had: that says nothing against the next one.
const maxReliableTries = 5

// securing is the quest for the reliable tier, until it stands.
type securing struct {
	tries int       // in vain, in a row
	after time.Time // not to be tried again before
	until time.Time // after, when it was last counted as a try
	token string    // of the launch whose machines were last counted as a try
	err   error     // of the last try
	lost  bool      // one may be missing after the tier had stood: it was lost, will go, or more were asked for
	none  bool      // its pool sells none: the most reliable machine that can be had serves
}

// secure asks for reliable machines that are missing, until the tier stands: after failures, but also when one is
// lost on its way. Once it has stood, those that are left go on meanwhile, and it asks for as long as it takes.
func (c *Controller) secure() {
	if c.standing() && !c.reliable.lost || c.done() || c.adopting != nil || c.ending || c.stopWhy != "" || c.hush != nil || c.now.Before(c.reliable.after) {
		return
	}
	missing := c.wantReliable()
	for _, l := range c.launches {
		if l.tier == tiers.Reliable && !l.answered {
			missing -= l.count
		}
	}
	for _, m := range c.roster {
		if m.tier == tiers.Reliable && m.staying() {
			missing--
		}
	}
	if c.reliable.after.After(c.reliable.until) {
		c.reliable.until = c.reliable.after
		c.reliable.tries++
	}
	switch {
	case missing <= 0:
		c.reliable.lost = false
	case c.reliable.tries >= maxReliableTries && !c.stood:
		why := fmt.Sprintf("no reliable machine could be had in %d tries", maxReliableTries)
		if c.reliable.err != nil {
			why += ": " + c.reliable.err.Error()
		}
		if c.reliable.none && !c.substitutes() {
			why += "; with checkpoints (checkpoint.every) the most reliable spot machine would serve"
		}
		c.fail(why)
	default:
		c.buyReliable(missing)
	}
	if left := len(c.reliableMembers()); !c.standing() && c.stood && c.recovery == nil && left > 0 && c.admit(left) == nil {
		c.stand()
		c.layOut()
	}
}

func (c *Controller) takeLaunchFailed(e LaunchFailed) {
	l := c.launches[e.Token]
	if l == nil || l.answered {
		return
	}
	delete(c.launches, e.Token)
	c.refused[e.Token] = l
	if l.again || e.Unsure || !provisioner.Definite(e.Err) {
		c.unsure = c.now
	}
	if l.tier == tiers.Reliable && l.pool == c.cfg.Reliable.Pool {
		c.reliable.none = errors.Is(e.Err, provisioner.ErrNoCapacity) || errors.Is(e.Err, provisioner.ErrLimit) // a quota is a capacity
	}
	c.refuse(l, l.count, e.Err.Error(), e.Refused)
	if c.switching != nil && c.switching.token == e.Token {
		c.switching = nil
	}
	if l.tier == tiers.Reliable {
		c.reliable.err = e.Err
		if errors.Is(e.Err, provisioner.ErrInvalid) && !l.again {
			c.fail("no reliable machine could be had: " + e.Err.Error())
		}
	}
	c.checkStrangers()
}

// refuse notes that fewer machines were given than were asked for, and leaves the pools that had too few alone for a while.
func (c *Controller) refuse(l *launch, missing int, why string, refused []provisioner.Refusal) {
	pools := l.short(refused)
	c.record(func() journal.Entry {
		e := journal.Entry{
			Kind: journal.LaunchFailed, Token: l.token, Tier: string(l.tier), Pool: pools[0].String(), Count: missing, Why: why,
		}
		for _, pool := range pools[1:] {
			e.Or = append(e.Or, journal.Choice{Pool: pool.String()})
		}
		return e
	})
	c.reliable.lost = c.reliable.lost || l.tier == tiers.Reliable
	if l.tier == tiers.Reliable && l.pool == c.cfg.Reliable.Pool {
		if !c.reliable.none || !c.substitutes() {
			c.putOffReliable()
		}
		return
	}
	for _, pool := range pools {
		c.deferred[pool] = c.now.Add(c.cfg.RetryCapacity)
	}
	c.wantPlan = true
}

func (c *Controller) takeLaunched(e Launched) {
	l := c.launches[e.Token]
	switch {
	case l == nil && c.refused[e.Token] == nil, l != nil && l.answered:
		return
	case l == nil: // it was said to have failed
		for _, i := range e.Instances {
			c.adopt(c.refused[e.Token], i)
		}
		return
	}
	l.answered = true
	missing := l.count
	for _, i := range e.Instances {
		if c.machines[ps.ServerID(i.ID)] == nil && !c.settled(i) { // else the controller before has written it down, or it was listed
			missing--
		}
		c.enter(l, i)
	}
	if missing > 0 {
		why := fmt.Sprintf("the provider gave %d of %d", len(e.Instances), l.asked)
		if len(e.Refused) > 0 {
			why += ": " + provisioner.SayRefusals(e.Refused)
		}
		c.refuse(l, missing, why, e.Refused)
	}
	c.closeLaunch(e.Token)
	c.checkStrangers()
}

// enter takes a bought machine up, with what was heard of it before.
func (c *Controller) enter(l *launch, i provisioner.Instance) *machine {
	id := ps.ServerID(i.ID)
	if m := c.machines[id]; m != nil || c.settled(i) {
		return m
	}
	m := &machine{
		id: id, tier: l.tier, pool: i.Pool, bid: l.bidFor(i.Pool), token: l.token, launched: i.Launched,
		vcpu: c.typeOf(i.Pool).VCPU, entered: c.now, heard: c.awake.Now(), loaded: make([]bool, len(c.splits)),
	}
	c.lastInc++ // by the order of launches, which the journal tells, too
	m.incarnation = c.lastInc
	c.machines[id] = m
	c.seat(m)
	c.totals.Machines++
	c.record(func() journal.Entry {
		return journal.Entry{
			Kind: journal.Launch, Why: l.why, Token: l.token, Instance: string(id), Tier: string(l.tier),
			Pool: i.Pool.String(), Bid: bidText(i.Pool, m.bid), Launched: &i.Launched,
		}
	})
	heard := c.early[id]
	delete(c.early, id)
	switch {
	case heard != nil && heard.terminated:
		m.terminating, m.why = true, noLaunch
	case c.ending:
		c.terminate(m, "the run is over")
	}
	if i.State == provisioner.Terminated {
		c.takeEnded(i)
	}
	if heard != nil {
		heard.tell(c, m)
	}
	return m
}

// adopt takes up a machine of a launch that was said to have failed. It is on the bill, but nobody counts on it any
// more.
func (c *Controller) adopt(l *launch, i provisioner.Instance) {
	if m := c.enter(l, i); m != nil && m.joined == 0 {
		c.terminate(m, "its launch was said to have failed, and it was not expected any more")
	}
}

// early is what was heard of a machine before its launch was answered: answers are slow at times.
type early struct {
	hello      *tiers.Hello
	warned     *Warned
	ended      *provisioner.Instance
	terminated bool // it belongs to no launch, and was sent away
}

// awaiting reports whether a launch is unanswered, so that machines may exist that are not known yet.
func (c *Controller) awaiting() bool {
	if c.adopting != nil && !c.adopting.listed {
		return true
	}
	for _, l := range c.launches {
		if !l.answered {
			return true
		}
	}
	return false
}

// hear keeps what is heard of a machine that is not known.
func (c *Controller) hear(id ps.ServerID) *early {
	if c.early[id] == nil {
		c.early[id] = &early{}
	}
	return c.early[id]
}

func (h *early) tell(c *Controller, m *machine) {
	if h.warned != nil {
		c.takeWarned(*h.warned)
	}
	if h.ended != nil {
		c.takeEnded(*h.ended)
	}
	if h.hello != nil && !m.ended {
		c.takeHello(m, *h.hello)
	}
}

// takeStranger is told of machines that are not known. As long as a launch is unanswered they may be its; one that
// calls when none is was bought by a launch that was said to have failed, and costs money for nothing.
func (c *Controller) takeStranger(e Event) {
	switch e := e.(type) {
	case InstanceEnded:
		if l := c.refused[e.Instance.Token]; l != nil && !c.settled(e.Instance) {
			c.enter(l, e.Instance)
			c.takeEnded(e.Instance)
		} else if c.awaiting() {
			c.hear(ps.ServerID(e.Instance.ID)).ended = &e.Instance
		}
	case Warned:
		if c.awaiting() {
			c.hear(e.ID).warned = &e
		}
	case Reported:
		hello, ok := e.Report.(tiers.Hello)
		if !ok {
			return
		}
		c.hear(e.ID).hello = &hello
		c.checkStrangers()
	}
}

const noLaunch = "no launch accounts for this machine"

// checkStrangers sends machines away that belong to no launch.
func (c *Controller) checkStrangers() {
	if c.awaiting() {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(c.early)) {
		switch h := c.early[id]; {
		case h.hello == nil:
			delete(c.early, id)
		case !h.terminated:
			h.terminated = true
			c.act(Terminate{IDs: []provisioner.InstanceID{provisioner.InstanceID(id)},
				Why: noLaunch})
		}
	}
}
