package jobs

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sched"
)

// Market is where the machines of all jobs are bought. The scheduler decides how many vCPUs are wanted (sched.Supply).
// If it does not, the rule is: as many as the present jobs requested, or as they can use while a vCPU costs at most
// Widen of the on-demand price. There are at least Least and at most Most. The policy chooses pools and bids. An excess
// machine is released when its paid time ends.
type Market struct {
	Start time.Time // second 0
	Pools []bidding.Candidate
	// Policy buys in them; nil = machines of OnDemand, which are never reclaimed.
	Policy   bidding.Policy
	OnDemand Offer
	Rules    market.RuleBook

	Least, Most int // vCPUs
	Widen       float64
	Boot        time.Duration // from the purchase until a machine works
	AskEvery    time.Duration
	// Reliable is the hourly price of the reliable machines, which hold the jobs' state throughout.
	Reliable market.USD
}

// Offer is an on-demand pool.
type Offer struct {
	Pool market.Pool
	Type market.InstanceType
}

// Bill is what the machines cost.
type Bill struct {
	Machines, Evictions int
	Transient, Reliable market.USD // for the machines that jobs shared, and those that held their state
	VCPUHours           float64    // bought, counted from when machines worked
}

// Total returns the sum of both.
func (b Bill) Total() market.USD { return b.Transient + b.Reliable }

// machine is a bought machine.
type machine struct {
	id      string
	kind    market.InstanceType
	history *market.History
	usage   market.Usage
	ready   float64 // when it starts working
	taken   float64 // when it is reclaimed; +Inf = never
	leaves  float64 // when it is released; +Inf = undecided
	up      bool    // it is working
}

func (m *machine) tier() sched.Tier {
	if m.usage.Bid == 0 {
		return sched.Reliable
	}
	return sched.Transient
}

type fleet struct {
	*Market
	machines []*machine // those not gone, in the order of purchase
	asked    float64    // when the policy runs again
	told     int        // vCPUs that the scheduler wants; negative = undecided
	want     int
	look     float64 // seconds within which a new plan follows
	bill     Bill
}

func newFleet(m *Market, planEvery float64) (*fleet, error) {
	if m.Most < 1 || m.Least > m.Most || m.AskEvery <= 0 || m.Rules == nil {
		return nil, errors.New("the market needs a number of vCPUs, a rule book, and a time after which its policy is asked again")
	}
	if m.Policy == nil && m.OnDemand.Type.VCPU < 1 {
		return nil, errors.New("the market has no on-demand machines")
	}
	return &fleet{Market: m, told: -1, look: m.AskEvery.Seconds() + planEvery}, nil
}

func (f *fleet) at(second float64) time.Time {
	return f.Start.Add(time.Duration(math.Floor(second)) * time.Second)
}

func (f *fleet) second(t time.Time) float64 { return t.Sub(f.Start).Seconds() }

func (f *fleet) next() float64 {
	next := f.asked
	for _, m := range f.machines {
		if !m.up {
			next = min(next, m.ready)
		}
		next = min(next, m.taken, m.leaves)
	}
	return next
}

// step brings the fleet up to date. It returns the hosts that are gone, and whether the hosts have changed.
func (f *fleet) step(now float64, demand func() (asked, most float64)) (lost map[string]bool, changed bool, err error) {
	lost = map[string]bool{}
	var stay []*machine
	for _, m := range f.machines {
		switch {
		case m.taken <= now+instant, m.leaves <= now+instant:
			by := market.ByUser
			if m.taken <= m.leaves {
				by = market.ByProvider
				f.bill.Evictions++
				f.asked = now
			}
			if m.up {
				lost[m.id], changed = true, true
			}
			if err := f.pay(m, min(m.taken, m.leaves), by); err != nil {
				return nil, false, err
			}
			continue
		case !m.up && m.ready <= now+instant:
			m.up, changed = true, true
		}
		stay = append(stay, m)
	}
	f.machines = stay
	if want := f.wanted(now, demand); want != f.want || f.asked <= now+instant {
		changed = changed || f.told >= 0 // new prices need a new plan
		f.want = want
		f.ask(now)
	}
	return lost, changed, nil
}

// follow buys and gives back as planned.
func (f *fleet) follow(now float64, s *sched.Supply) {
	if s == nil {
		f.told = -1
		return
	}
	m := f.prices(now)
	f.told = m.Want(s)
	if want := f.wanted(now, nil); want != f.want {
		f.want = want
		f.ask(now)
		m = f.prices(now)
	}
	f.giveBack(now, m.TooMany(f.want, now))
}

// prices returns what the scheduler may see.
func (f *fleet) prices(now float64) *sched.Market {
	m := &sched.Market{Wait: f.Boot.Seconds(), Look: f.look}
	offer := func(t market.InstanceType, price market.USD, onDemand bool) {
		tier := sched.Transient
		if onDemand {
			tier = sched.Reliable
		}
		m.Offers = append(m.Offers, sched.Offer{Tier: tier, Slots: f.Most, Price: perVCPU(price, t) / float64(market.Dollar)})
	}
	offer(f.OnDemand.Type, f.OnDemand.Type.OnDemand, true)
	for i := range f.Pools {
		c := &f.Pools[i]
		price, known := c.Type.OnDemand, true
		if !c.OnDemand() {
			price, known = c.History.At(f.at(now))
		}
		if known && f.Policy != nil {
			offer(c.Type, price, c.OnDemand())
		}
	}
	for _, x := range f.machines {
		if price, known := x.history.At(f.at(now)); known && math.IsInf(x.leaves, 1) {
			of := sched.Offer{Tier: x.tier(), Slots: x.kind.VCPU, Price: perVCPU(price, x.kind) / float64(market.Dollar)}
			m.Held = append(m.Held, sched.Held{Offer: of, Host: x.id, Paid: f.paidUntil(x, now)})
		}
	}
	return m
}

// rate returns the present cost of a working vCPU, in dollars per hour.
func (f *fleet) rate(now float64) float64 {
	cost, vcpus := 0., 0
	for _, m := range f.machines {
		if price, known := m.history.At(f.at(now)); known && m.up {
			cost, vcpus = cost+dollars(price), vcpus+m.kind.VCPU
		}
	}
	return cost / float64(max(vcpus, 1))
}

// wanted returns how many vCPUs there should be.
func (f *fleet) wanted(now float64, demand func() (asked, most float64)) int {
	if f.told >= 0 {
		return min(max(f.told, f.Least), f.Most)
	}
	asked, most := demand()
	if f.Widen > 0 && most > asked && f.cheap(now) {
		asked = most
	}
	return min(max(int(math.Ceil(asked)), f.Least), f.Most)
}

// cheap reports whether some pool's vCPUs cost at most Widen of their on-demand price.
func (f *fleet) cheap(now float64) bool {
	for i := range f.Pools {
		price, known := f.Pools[i].History.At(f.at(now))
		if known && float64(price) <= f.Widen*float64(f.Pools[i].Type.OnDemand) {
			return true
		}
	}
	return false
}

// ask buys and gives back according to the policy.
func (f *fleet) ask(now float64) {
	f.asked = now + f.AskEvery.Seconds()
	if f.Policy == nil {
		for held := f.held(); held < f.want; held += f.OnDemand.Type.VCPU {
			f.buy(now, f.OnDemand.Pool, f.OnDemand.Type, market.Constant(f.OnDemand.Type.OnDemand), 0, math.Inf(1))
		}
		f.trim(now)
		return
	}
	plan := bidding.Ask(f.Policy, f.state(now))
	if again := f.second(plan.AskAgain); !plan.AskAgain.IsZero() && again > now {
		f.asked = min(f.asked, again)
	}
	for _, a := range plan.Acquire {
		f.acquire(now, a)
	}
	ready := now
	if plan.Switch != nil {
		ready += f.Boot.Seconds()
	}
	for _, r := range plan.Release {
		n := 0
		for _, m := range slices.Backward(f.machines) {
			if r.Of(m.usage.Pool, m.usage.Start) && (r.Count == 0 || n < r.Count) {
				m.leaves = min(m.leaves, f.paidUntil(m, ready))
				n++
			}
		}
	}
	f.trim(now)
}

// held returns the vCPUs of machines that stay.
func (f *fleet) held() (vcpus int) {
	for _, m := range f.machines {
		if math.IsInf(m.leaves, 1) {
			vcpus += m.kind.VCPU
		}
	}
	return vcpus
}

// trim gives back excess machines if the scheduler does not decide the number.
func (f *fleet) trim(now float64) {
	if f.told < 0 {
		m := f.prices(now)
		m.Look = f.AskEvery.Seconds()
		f.giveBack(now, m.TooMany(f.want, now))
	}
}

// giveBack marks machines to go when their paid time ends.
func (f *fleet) giveBack(now float64, ids []string) {
	for _, m := range f.machines {
		if slices.Contains(ids, m.id) {
			m.leaves = f.paidUntil(m, now)
		}
	}
}

// spare is how long before its paid time ends a machine is released.
const spare = 30.

// paidUntil returns when the paid time of a machine ends.
func (f *fleet) paidUntil(m *machine, now float64) float64 {
	return sched.PaidUntil(f.second(m.usage.Start), now, f.Rules.Terms().Increment.Seconds(), spare)
}

func (f *fleet) acquire(now float64, a bidding.Acquire) {
	i := slices.IndexFunc(f.Pools, func(c bidding.Candidate) bool { return c.Pool == a.Pool })
	if i < 0 {
		return
	}
	c := &f.Pools[i]
	bid, taken := a.Bid, math.Inf(1)
	if c.OnDemand() {
		bid = 0
	} else {
		crossing, crosses := c.History.FirstAbove(f.at(now), bid)
		if crosses && !crossing.After(f.at(now)) {
			return // the price is above the bid: nothing is for sale
		}
		if crosses {
			taken = f.second(crossing)
		}
		if life := f.Rules.Terms().MaxLife; life > 0 {
			taken = min(taken, now+life.Seconds())
		}
	}
	for range a.Count {
		f.buy(now, c.Pool, c.Type, c.History, bid, taken)
	}
}

func (f *fleet) buy(now float64, pool market.Pool, kind market.InstanceType, history *market.History, bid market.USD, taken float64) {
	f.machines = append(f.machines, &machine{
		id: fmt.Sprintf("m%05d", f.bill.Machines), kind: kind, history: history, usage: market.Usage{Pool: pool, Bid: bid, Start: f.at(now)},
		ready: now + f.Boot.Seconds(), taken: taken, leaves: math.Inf(1),
	})
	f.bill.Machines++
}

// state returns what the policy may see.
func (f *fleet) state(now float64) bidding.State {
	at := f.at(now)
	terms := f.Rules.Terms()
	s := bidding.State{Now: at, Want: bidding.Want{VCPU: f.want}, StepsOnly: true,
		Job: bidding.Job{Started: f.Start, Upkeep: f.Reliable, Startup: f.Boot, Notice: terms.Notice, Leave: time.Duration(spare) * time.Second, Terms: terms}}
	for _, c := range f.Pools {
		if !c.OnDemand() {
			c.History = c.History.Until(at)
		}
		s.Pools = append(s.Pools, c)
	}
	for _, m := range f.machines {
		a := bidding.Allocation{Pool: m.usage.Pool, Bid: m.usage.Bid, Launch: m.usage.Start, Draining: !math.IsInf(m.leaves, 1)}
		i := slices.IndexFunc(s.Held, func(h bidding.Allocation) bool {
			return h.Pool == a.Pool && h.Launch.Equal(a.Launch) && h.Bid == a.Bid && h.Draining == a.Draining
		})
		if i < 0 {
			i = len(s.Held)
			s.Held = append(s.Held, a)
		}
		s.Held[i].Count++
		if m.up {
			s.Held[i].Ready++
		}
	}
	bidding.SortHeld(s.Held)
	return s
}

// pay bills a machine that ends.
func (f *fleet) pay(m *machine, end float64, by market.EndedBy) error {
	m.usage.End, m.usage.EndedBy = f.at(end), by
	if by == market.ByProvider { // it is gone when its notice ends; meanwhile its jobs' work is handed over
		m.usage.End = m.usage.End.Add(f.Rules.Terms().Notice)
	}
	charges, err := f.Rules.Charges(m.usage, m.history, m.usage.End)
	if err != nil {
		return fmt.Errorf("the bill of a machine of %s: %w", m.usage.Pool, err)
	}
	f.bill.Transient += market.Total(charges)
	f.bill.VCPUHours += max(0, end-m.ready) / 3600 * float64(m.kind.VCPU)
	return nil
}

// close ends all machines.
func (f *fleet) close(now float64) (Bill, error) {
	for _, m := range f.machines {
		if err := f.pay(m, now, market.ByUser); err != nil {
			return Bill{}, err
		}
	}
	f.bill.Reliable = market.USD(math.Round(float64(f.Reliable) * now / 3600))
	return f.bill, nil
}

// hosts returns the working machines.
func (f *fleet) hosts() (all []sched.Host) {
	for _, m := range f.machines {
		if m.up {
			all = append(all, sched.Host{ID: m.id, Capacity: sched.Resources{float64(m.kind.VCPU)}})
		}
	}
	slices.SortFunc(all, func(a, b sched.Host) int { return cmp.Compare(a.ID, b.ID) })
	return all
}
