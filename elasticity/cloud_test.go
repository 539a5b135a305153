package elasticity

import (
	"fmt"
	"reflect"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// cloud is the provider's side of the world. Until these times spot launches go wrong:
type cloud struct {
	none      time.Time // there is no capacity
	refusals  int       // of on-demand requests
	few       time.Time // there is half of the requested capacity
	slow      time.Time // machines exist long before the answer
	stillborn time.Time // every second machine dies before its agent has called
	mute      time.Time // agents never call
	onDemand  time.Time // there is no capacity on demand
	lost      time.Time // the answer to a launch is lost, and its machines never call

	terminated map[ps.ServerID]int // in which life of the controller, counted from 1
	bought     map[string]purchase // by token
	hidden     time.Duration       // new machines are not listed for this long
	ahead      time.Duration       // how far its clock is ahead of the controller's
}

// purchase is what a token was used for.
type purchase struct {
	request provisioner.Request
	nodes   []*node
	refused []provisioner.Refusal
}

// again answers a request whose token was used: with the same machines, as they are now, or not at all if the request differs.
func (p purchase) again(r provisioner.Request) Event {
	if !reflect.DeepEqual(p.request, r) {
		return LaunchFailed{Token: r.Token, Err: fmt.Errorf("%w: %+v was asked for by that token, and now %+v", provisioner.ErrInvalid, p.request, r)}
	}
	e := Launched{Token: r.Token, Refused: p.refused}
	for _, n := range p.nodes {
		e.Instances = append(e.Instances, n.instance)
	}
	return e
}

func (w *world) launch(r provisioner.Request, life int) {
	answer := func(e Event) {
		if w.life == life {
			w.step(e)
		}
	}
	c := &w.cloud
	if p, used := c.bought[r.Token]; used {
		answer(p.again(r))
		return
	}
	spot := r.Pool.Class == market.Spot
	if !spot && w.now.Before(c.onDemand) {
		err := provisioner.ErrNoCapacity
		if c.refusals%2 == 0 {
			err = provisioner.ErrLimit // a quota is a lack of capacity, too
		}
		c.refusals++
		answer(LaunchFailed{Token: r.Token, Err: fmt.Errorf("launching: %w", err)})
		return
	}
	if spot && w.now.Before(c.none) {
		err := provisioner.ErrNoCapacity
		if w.rng.IntN(2) == 0 {
			err = provisioner.ErrPriceTooLow
		}
		answer(LaunchFailed{Token: r.Token, Err: err})
		return
	}
	count := r.Count
	if spot && w.now.Before(c.few) {
		count = (count + 1) / 2
	}
	var got []provisioner.Instance
	for i := range count {
		n := w.newMachine(among(r, i))
		got = append(got, n.instance)
		boot := w.delay(2 * time.Second)
		switch {
		case spot && w.now.Before(c.lost):
		case spot && w.now.Before(c.mute) && len(w.order)%2 == 0:
		case spot && w.now.Before(c.stillborn) && len(w.order)%2 == 0:
			w.after(w.delay(boot), func() { w.end(n.id, market.ByProvider, "Server.InternalError") })
			fallthrough
		default:
			w.after(boot, n.boot)
		}
	}
	var refused []provisioner.Refusal
	if count < r.Count && len(r.Or) > 0 { // the last one has no more; how many the others have is unknown
		refused = []provisioner.Refusal{{Pool: r.Or[len(r.Or)-1].Pool, Err: provisioner.ErrNoCapacity}}
	}
	told := Launched{Token: r.Token, Instances: got, Refused: refused}
	p := purchase{request: r, refused: refused}
	for _, i := range got {
		p.nodes = append(p.nodes, w.nodes[ps.ServerID(i.ID)])
	}
	c.bought[r.Token] = p
	if spot && w.now.Before(c.lost) {
		answer(LaunchFailed{Token: r.Token, Err: fmt.Errorf("launching: %w", provisioner.ErrTemporary)})
		return
	}
	var late time.Duration
	if spot && w.now.Before(c.slow) {
		late = w.delay(4 * time.Second)
	}
	if late > 0 {
		w.after(time.Millisecond, func() { w.reach("launched late", w.nodes[ps.ServerID(got[0].ID)]) })
	}
	w.after(late, func() { answer(told) })
	if w.odds(4) {
		w.after(late+w.delay(3*time.Second), func() { answer(told) })
	}
}

// among returns the request for the pool from which the provider takes a machine by its number: pools in turn.
func among(r provisioner.Request, number int) provisioner.Request {
	if n := number % (len(r.Or) + 1); n > 0 {
		r.Pool, r.Bid = r.Or[n-1].Pool, r.Or[n-1].Bid
	}
	return r
}

func (w *world) newMachine(r provisioner.Request) *node {
	i := provisioner.Instance{
		ID: provisioner.InstanceID(fmt.Sprintf("i-%04d", len(w.order)+1)), Pool: r.Pool, Bid: r.Bid, Token: r.Token,
		State: provisioner.Running, Launched: w.now.Add(w.cloud.ahead).Truncate(time.Second),
	}
	n := newNode(w, i)
	n.made = w.now
	w.nodes[n.id] = n
	w.order = append(w.order, n)
	return n
}

func (w *world) terminate(id ps.ServerID) {
	switch w.cloud.terminated[id] {
	case 0:
	case w.life + 1:
		w.failf("%s is terminated twice", id)
	default:
		return // an earlier controller has done it
	}
	w.cloud.terminated[id] = w.life + 1
	w.after(w.delay(w.shape.slowEnd), func() { w.end(id, market.ByUser, "User initiated") })
}

// end kills a machine; the provider and the broken stream report it.
func (w *world) end(id ps.ServerID, by market.EndedBy, reason string) {
	n := w.nodes[id]
	if n.instance.State == provisioner.Terminated {
		return
	}
	n.instance.State, n.instance.EndedBy, n.instance.Reason = provisioner.Terminated, by, reason
	n.instance.Ended = w.now.Add(w.cloud.ahead).Truncate(time.Second)
	n.exit()
	ended := InstanceEnded{Instance: n.instance}
	w.after(w.delay(2*time.Second), func() { w.step(ended) })
	for w.odds(3) { // notices and listings repeat it
		w.after(w.delay(6*time.Second), func() { w.step(ended) })
	}
	w.after(3*time.Second+max(w.cloud.ahead, 0), func() { w.step(PricesKnown{At: w.time()}) })
}

// evict warns machines and takes them when the notice expires. The provider and the machine's own watcher report it.
func (w *world) evict(notice time.Duration, ids ...ps.ServerID) {
	for _, id := range ids {
		n := w.nodes[id]
		if n.instance.State == provisioner.Terminated || n.warned {
			continue
		}
		n.warned = true
		deadline := w.now.Add(w.cloud.ahead + notice)
		n.deadline = deadline
		told := Warned{ID: id, Deadline: deadline}
		if w.shape.rough {
			w.after(w.delay(300*time.Millisecond), func() { w.step(told) })
			w.after(w.delay(300*time.Millisecond), func() { n.report(tiers.Warned{Deadline: deadline}) })
		} else {
			w.step(told)
		}
		w.after(notice, func() { w.end(id, market.ByProvider, "Server.SpotInstanceTermination") })
	}
}

// export reads all tables from their owners, as the driver does for the controller.
func (w *world) export(a Export) {
	w.reach("export", nil)
	life := w.life
	w.after(w.delay(100*time.Millisecond), func() {
		if life != w.life || w.absent {
			return
		}
		for p, owner := range a.Route.Owner {
			n := w.nodes[owner]
			if n.dead || n.hole || n.generation != a.Generation {
				w.step(Exported{Generation: a.Generation, Err: fmt.Errorf("%s does not answer", owner)})
				return
			}
			s := n.shards[ps.Partition(p)]
			if s == nil || s.Folded() != a.Clock {
				w.failf("export at clock %d: partition %d of %s is not there", a.Clock, p, owner)
			}
			w.checkRows(fmt.Sprintf("export of partition %d", p), ps.Partition(p), s, a.Clock)
		}
		if w.unsaved != nil && w.unsaved() != nil {
			w.step(Exported{Generation: a.Generation, Err: w.unsaved()})
			return
		}
		w.exported = a.Clock
		w.step(Exported{Generation: a.Generation, Model: "model", TestLoss: 1})
	})
}
