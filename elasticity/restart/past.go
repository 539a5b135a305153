package restart

import (
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
)

// A controller that is started again does not take its fleet over: what was not saved is gone with the controller that
// knew it. It ends the machines that are left, sees to their bills, and begins from the newest checkpoint. Only launches that
// nobody has the answer to are asked for again: who asks gets the machines that there are, or buys now what was never asked for.
// They know nothing yet, so that they serve as any others do.

const forgotten = "its controller was lost, and the job begins again from its last checkpoint"

// remember takes up what the controller before has written down.
func (c *Controller) remember(p *elasticity.Past) {
	c.attempts, c.reached = uint64(p.Generation), max(p.Furthest, c.saved)
	for _, was := range p.Machines {
		i := was.Instance
		m := &machine{id: ps.ServerID(i.ID), pool: i.Pool, bid: i.Bid, launched: i.Launched, lost: true, orphan: true, sawEnd: c.awake.Now()}
		c.machines[m.id] = m
		c.roster = append(c.roster, m)
		if i.State == provisioner.Terminated {
			m.ended, m.endedAt, m.endedBy, m.billed = true, i.Ended, i.EndedBy, was.Charged
			continue
		}
		c.terminate(m, forgotten)
	}
	for _, l := range p.Open {
		if c.now.Sub(l.At) < c.cfg.AskAgain {
			again := &launch{pool: l.Pool, bid: l.Bid, count: l.Count, asked: l.Asked, why: l.Why, at: l.At}
			c.launches[l.Token] = again
			c.ask(l.Token, again)
		}
	}
	if lost := p.Done - c.saved; lost > 0 {
		c.totals.Rollbacks++
		c.totals.Lost += lost
		c.record(func() journal.Entry {
			return journal.Entry{Kind: journal.Rollback, Clock: int64(c.saved), LostClocks: int64(lost), Generation: c.attempts,
				Why: "the controller was started again"}
		})
	}
}

// settled reports whether the controllers before have written a machine down.
func (c *Controller) settled(id provisioner.InstanceID) bool {
	return c.cfg.Past != nil && c.cfg.Past.Known[string(id)]
}

// over reports whether a machine has been seen to its end, by this controller or by those before, which also wrote its bill.
func (c *Controller) over(id ps.ServerID) bool {
	m := c.machines[id]
	return m != nil && m.ended || m == nil && c.settled(provisioner.InstanceID(id))
}

// takeListed compares the machines of the past with those that the provider has.
func (c *Controller) takeListed(e elasticity.Listed) {
	there := map[ps.ServerID]bool{}
	for _, i := range e.Instances {
		id := ps.ServerID(i.ID)
		there[id] = true
		if lives := i.State == provisioner.Pending || i.State == provisioner.Running; lives && c.over(id) {
			c.out = append(c.out, elasticity.Terminate{IDs: []provisioner.InstanceID{i.ID}, Why: "it had ended, and the provider lists it again"})
		}
		if c.machines[id] == nil && c.launches[i.Token] == nil && !c.settled(i.ID) {
			c.enter(&launch{pool: i.Pool, bid: i.Bid, why: forgotten}, i.Token, i) // it was not written down
			c.lose(c.machines[id])
			c.terminate(c.machines[id], forgotten)
		}
		if i.State == provisioner.Terminated {
			c.takeEnded(i)
		}
	}
	for _, m := range c.roster {
		if m.why == forgotten && !m.ended && !there[m.id] {
			c.takeEnded(provisioner.Instance{ID: provisioner.InstanceID(m.id), State: provisioner.Terminated,
				Ended: c.now.Truncate(time.Second), EndedBy: market.ByUser, Reason: "the provider does not know it any more"})
		}
	}
}
