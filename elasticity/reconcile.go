package elasticity

import (
	"cmp"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
)

// What is believed and what the provider has are compared whenever the provider was asked for all machines of the run, in
// both directions: a machine that it has and nobody knows is adopted or ended, one that is believed in and that it has not
// any more is gone. So no machine is forgotten, whatever was lost of the answer to a launch, and nothing waits for the end of
// one that the provider has forgotten. What has ended stays so, whatever is listed later.

// settleTime is how long, on the wall clock, a provider may not list a machine that it has, and a request that was sent may
// still be carried out.
const settleTime = time.Minute

const listedAgain = "it had ended, and the provider lists it again"

const notListed = "the provider does not know it any more"

func (c *Controller) takeListed(e Listed) (stirs bool) {
	acts := c.acts
	c.listed = e.Asked
	if a := c.adopting; a != nil && !a.listed {
		a.listed = true
		c.takeStockOf(e)
		return true
	}
	there := map[ps.ServerID]bool{}
	for _, i := range e.Instances {
		there[ps.ServerID(i.ID)] = true
		c.compare(i)
	}
	for _, m := range c.ordered(func(m *machine) bool { return !m.ended }) {
		c.miss(m, there[m.id], e.Asked)
	}
	return c.acts != acts || c.ending
}

// compare looks whether a machine that the provider has is known.
func (c *Controller) compare(i provisioner.Instance) {
	id := ps.ServerID(i.ID)
	m := c.machines[id]
	switch {
	case i.State == provisioner.Terminated || i.State == provisioner.Stopping: // of ends, InstanceEnded tells
	case m != nil && m.ended, c.settled(i):
		c.act(Terminate{IDs: []provisioner.InstanceID{i.ID}, Why: listedAgain})
	case m != nil:
	case c.launches[i.Token] != nil && !c.launches[i.Token].answered: // the answer is on its way
	case c.launches[i.Token] != nil:
		c.adopt(c.launches[i.Token], i)
	case c.refused[i.Token] != nil:
		c.adopt(c.refused[i.Token], i)
	case !c.hear(id).terminated:
		c.early[id].terminated = true
		c.act(Terminate{IDs: []provisioner.InstanceID{i.ID}, Why: noLaunch})
	}
}

// miss notes whether the provider lists a machine, and takes it for gone when it has not done so for long and the machine
// says nothing either.
func (c *Controller) miss(m *machine, there bool, asked time.Time) {
	talks := !m.lost && m.address != "" && !c.awake.Over(m.heard, c.cfg.DeadAfter)
	switch {
	case there || talks || !m.entered.Before(asked):
		m.missing = time.Time{}
	case m.missing.IsZero():
		m.missing = c.now
	case c.now.Sub(m.missing) >= c.cfg.Market(settleTime):
		c.gone(m)
	}
}

// gone ends a machine that the provider does not list.
func (c *Controller) gone(m *machine) {
	c.terminate(m, "the provider does not list it") // it may list it later
	c.takeEnded(provisioner.Instance{ID: provisioner.InstanceID(m.id), State: provisioner.Terminated,
		Ended: c.now.Truncate(time.Second), EndedBy: market.ByUser, Reason: notListed})
}

// takeStockOf compares what is written down with the machines that the provider has of the run that is taken over.
func (c *Controller) takeStockOf(e Listed) {
	there := map[ps.ServerID]bool{}
	for _, i := range e.Instances {
		there[ps.ServerID(i.ID)] = true
		c.account(i)
	}
	for _, m := range c.ordered(func(m *machine) bool { return !m.ended && !there[m.id] }) {
		if c.now.Sub(m.launched) < c.cfg.Market(settleTime) { // it may not be listed yet: miss looks again
			m.missing = c.now
			continue
		}
		c.gone(m)
	}
	for _, token := range sortedTokens(c.launches) {
		l := c.launches[token]
		switch {
		case l.answered:
		case l.count > 0 && c.now.Sub(l.at) < c.cfg.AskAgain:
			// Whether it was carried out, or still will be, nobody can know; but who asks again gets the same machines.
			l.again = true
			c.ask(l)
		default:
			c.close(l)
		}
	}
	c.checkStrangers()
}

// close ends a launch of the controller before as it stands.
func (c *Controller) close(l *launch) {
	l.answered = true
	if l.count > 0 {
		c.refuse(l, l.count, "the controller was lost before the answer, and the provider has no such machine", nil)
		c.unsure = c.now
	}
	c.refused[l.token] = l // one may turn up all the same
	c.closeLaunch(l.token)
}

// account enters a machine that was bought and not written down; one that nobody bought is sent away.
func (c *Controller) account(i provisioner.Instance) {
	id := ps.ServerID(i.ID)
	if m := c.machines[id]; m != nil {
		switch i.State {
		case provisioner.Terminated:
			c.takeEnded(i)
		case provisioner.Stopping:
			m.terminating, m.why = true, cmp.Or(m.why, "the controller before had ended it")
		default:
			if m.ended {
				c.act(Terminate{IDs: []provisioner.InstanceID{i.ID}, Why: listedAgain})
			}
		}
		return
	}
	l, refused := c.launches[i.Token], c.refused[i.Token]
	switch {
	case c.settled(i): // it has its end and its bill
		if i.State == provisioner.Pending || i.State == provisioner.Running {
			c.act(Terminate{IDs: []provisioner.InstanceID{i.ID}, Why: listedAgain})
		}
	case l != nil && l.count > 0:
		l.count--
		c.enter(l, i)
	case refused != nil:
		c.adopt(refused, i)
	case i.State != provisioner.Terminated:
		c.act(Terminate{IDs: []provisioner.InstanceID{i.ID}, Why: noLaunch})
	}
}

// settled reports whether the controllers before have seen a machine to its end.
func (c *Controller) settled(i provisioner.Instance) bool {
	return c.machines[ps.ServerID(i.ID)] == nil && c.cfg.Past != nil && c.cfg.Past.Known[string(i.ID)]
}

// mayTurnUp reports whether machines may turn up that nobody knows: a launch was given up without certainty, and the provider
// has not been asked since it must know of them.
func (c *Controller) mayTurnUp() bool {
	return !c.unsure.IsZero() && !c.listed.IsZero() && c.listed.Before(c.unsure.Add(c.cfg.Market(settleTime)))
}
