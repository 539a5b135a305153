package sched

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Market is the cost of slots. A slot is one unit of a host's first resource, such as a vCPU.
type Market struct {
	Offers []Offer `json:"offers"`         // what can be bought, each with a number of slots
	Held   []Held  `json:"held,omitempty"` // machines held or launching, at their present cost, in order of purchase
	Wait   float64 `json:"wait,omitempty"` // seconds until a bought slot works
	Look   float64 `json:"look,omitempty"` // seconds until hosts are checked again
}

// Held is a host.
type Held struct {
	Offer
	Host string  `json:"host"`
	Paid float64 `json:"paid"` // when its paid time ends, in seconds like State.Now; if billed by the second that is now
}

// Tier is whether a slot's machine can be reclaimed.
type Tier string

// Reliable slots stay; transient ones may be reclaimed.
const (
	Reliable  Tier = "reliable"
	Transient Tier = "transient"
)

// Offer is a number of slots at a price.
type Offer struct {
	Tier  Tier    `json:"tier"`
	Slots int     `json:"slots"`
	Price float64 `json:"price"` // dollars per slot and hour
}

// PaidUntil returns when the paid time of a machine ends, for whole increments (0 = by the second), less spare, the margin for giving it
// back. All in seconds.
func PaidUntil(start, now, increment, spare float64) float64 {
	if increment == 0 {
		return now
	}
	age := now - start
	return max(now, now-age+(math.Floor((age+spare)/increment)+1)*increment-spare)
}

// TooMany returns the hosts to give back if want slots are wanted: the youngest first, of those whose paid time ends before the next check
// of hosts.
func (m *Market) TooMany(want int, now float64) (hosts []string) {
	surplus := m.held() - want
	for _, h := range slices.Backward(m.Held) {
		if h.Slots <= surplus && h.Paid < now+m.Look {
			hosts = append(hosts, h.Host)
			surplus -= h.Slots
		}
	}
	return hosts
}

// Supply is the number of slots that a policy wants bought and released.
type Supply struct {
	Acquire, Release int
	Why              string
}

// Want returns the number of slots after a supply.
func (m *Market) Want(s *Supply) int { return m.held() + s.Acquire - s.Release }

// held returns the number of slots held.
func (m *Market) held() (slots int) {
	for _, o := range m.Held {
		slots += o.Slots
	}
	return slots
}

// most returns the maximum number of slots; 0 = no market.
func (m *Market) most() (slots int) {
	if m == nil {
		return 0
	}
	for _, o := range m.Offers {
		slots = max(slots, o.Slots)
	}
	return slots
}

// Cheapest returns the lowest price of a tier, or of any if the tier is empty; false = it is not for sale.
func (m *Market) Cheapest(tier Tier) (price float64, ok bool) {
	if m == nil {
		return 0, false
	}
	price = math.Inf(1)
	for _, o := range m.Offers {
		if o.Slots > 0 && o.Price > 0 && (tier == "" || o.Tier == tier) {
			price, ok = min(price, o.Price), true
		}
	}
	return price, ok
}

// Moved reports whether prices have moved by a tenth or more: then another plan may be due.
func (m *Market) Moved(since *Market) bool {
	if m == nil || since == nil {
		return m != since
	}
	for _, tier := range []Tier{"", Reliable} {
		now, sold := m.Cheapest(tier)
		before, was := since.Cheapest(tier)
		if sold != was || sold && math.Abs(now-before) > before/10 {
			return true
		}
	}
	return false
}

// discount returns the ratio of the reliable slots' price to the best price: at least 1, and 1 if one of these is not for sale.
func (m *Market) discount() float64 {
	best, sold := m.Cheapest("")
	reliable, known := m.Cheapest(Reliable)
	if !sold || !known {
		return 1
	}
	return reliable / best
}

// pricing weighs jobs' expected results against their cost. It is nil without a market: then only early feedback
// decides between trials.
type pricing struct {
	*Market
	discount float64
}

func pricesOf(m *Market) *pricing {
	if m == nil {
		return nil
	}
	return &pricing{m, m.discount()}
}

// promise returns a job's rank among the trials of its sweep that have given feedback: 1 for the best, and for one without comparison.
func (c *draft) promise() float64 { return c.place + 1/float64(max(c.compared, 1)) }

// toEnd returns a job's remaining cost, from the cost of its clocks so far; false = it has cost nothing yet.
func (c *draft) toEnd() (dollars float64, known bool) {
	if !(c.Spent > 0 && c.Done > 0) {
		return 0, false
	}
	return c.Spent / c.Done * max(c.Total-c.Done, 1e-9), true
}

// perDollar returns a job's expected improvement per dollar of remaining cost, in arbitrary units. It assumes that the
// better half of trials has the better half of chances, and so on. A job that has cost nothing yet is first, and one
// whose budget is spent is last.
func (p *pricing) perDollar(c *draft) float64 {
	cost, known := c.toEnd()
	switch {
	case p == nil || !known:
		return math.Inf(1)
	case c.Budget > 0 && c.Spent >= c.Budget:
		return 0
	}
	return c.promise() / cost
}

// costs describes what a job has cost and still will, if dollars count; empty = they do not.
func (p *pricing) costs(c *draft) string {
	cost, known := c.toEnd()
	if p == nil || !known {
		return ""
	}
	return fmt.Sprintf("; it has cost $%.4g, and about $%.4g more to its end", c.Spent, cost)
}

// worse orders jobs by expected improvement per dollar, the least first, and then by early feedback.
func (p *pricing) worse(a, b *draft) int {
	return cmp.Or(cmp.Compare(p.perDollar(a), p.perDollar(b)), worse(a, b))
}

// size returns how many workers and servers a job is worth at this price, and never fewer than submitted.
//
// An hour of a job is worth the hourly cost of its n submitted units on reliable machines, times its weight and
// promise. With u units a clock takes a/u + b seconds and costs in proportion to a + b u. So one more saves a/u²
// seconds at the price of b, and is worth it while u² is at most n times the discount times a/b. If the pace shows no a
// and b, twice as many are tried, to learn them. Neither may exceed the job's remaining budget.
func (p *pricing) size(c *draft) (workers, servers int) {
	asked := c.WantWorkers + c.WantServers
	if n := len(c.Pace); n > 0 && c.Total-c.Done < p.Wait*c.Pace[n-1].Speed {
		return c.WantWorkers, c.WantServers // it ends before they come
	}
	times := 2.
	a, b, known := c.Pace.amdahl()
	if known {
		times = math.Sqrt(p.discount * c.weight() * c.promise() * a / b / float64(asked))
	} else {
		a, b = 0, 1
	}
	times = min(times, c.affordable(a, b)/float64(asked), mostTimes)
	times = max(times, 1)
	workers, servers = int(float64(c.WantWorkers)*times+rounding), int(float64(c.WantServers)*times+rounding)
	if c.MostWorkers > 0 {
		workers = max(min(workers, c.MostWorkers), c.WantWorkers)
	}
	return workers, servers
}

// affordable returns the number of units with which a job's budget lasts to its end: a clock costs in proportion to a +
// b u, scaled by its present cost.
func (c *draft) affordable(a, b float64) float64 {
	cost, known := c.toEnd()
	if c.Budget == 0 || !known {
		return math.Inf(1)
	}
	within, has := (c.Budget-c.Spent)/cost, cmp.Or(c.Workers+c.Servers, c.WantWorkers+c.WantServers)
	if b == 0 { // they share all of a clock, at the same total cost
		return math.Inf(boolean(within >= 1)*2 - 1)
	}
	return (within*(a+b*float64(has)) - a) / b
}

// mostTimes bounds a job's value to a multiple of its requested number, if its pace shows no bound.
const mostTimes = 64

// amdahl splits a clock into a parallel and a serial part, from the paces with the fewest and the most units; false = it was measured with
// only one number of units.
func (p Pace) amdahl() (shared, rest float64, known bool) {
	var least, most Measured
	for _, m := range p {
		if !(m.Speed > 0) {
			continue
		}
		if least.Speed == 0 || m.Workers+m.Servers <= least.Workers+least.Servers {
			least = m
		}
		if m.Workers+m.Servers >= most.Workers+most.Servers {
			most = m
		}
	}
	few, many := 1/float64(least.Workers+least.Servers), 1/float64(most.Workers+most.Servers)
	if least.Speed == 0 || few == many {
		return 0, 0, false
	}
	shared = max((1/least.Speed-1/most.Speed)/(few-many), 0)
	return shared, max(1/most.Speed-shared*many, 0), true
}

// saturated reports whether most of a job's clock is serial: two thirds by its pace.
func (c *draft) saturated() bool {
	shared, rest, known := c.Pace.amdahl()
	return known && shared/float64(c.Workers+c.Servers) < rest/2
}

// slowerWith reports whether a job was measured to be slower with these numbers than with its present ones.
func (c *draft) slowerWith(workers, servers int) bool {
	now, known := c.Pace.at(c.Workers, c.Servers)
	then, tried := c.Pace.at(workers, servers)
	return known && tried && then < now
}

// price describes the best price of a slot, and the price on reliable machines.
func (p *pricing) price() string {
	best, sold := p.Cheapest("")
	if !sold {
		return ""
	}
	return fmt.Sprintf(", $%.4g an hour, $%.4g on demand", best, best*p.discount)
}

// supply compares the number of slots that all jobs are worth with those held.
func (p *pricing) supply(jobs []*draft) *Supply {
	if p == nil {
		return nil
	}
	worth, asked := 0., 0.
	for _, c := range jobs {
		if c.killed || len(c.Demand) == 0 {
			continue
		}
		workers, servers := c.WantWorkers, c.WantServers
		asked += float64(workers+servers+c.Overhead) * c.Demand[0]
		if c.Phase != Paused {
			workers, servers = p.size(c)
		}
		worth += float64(workers+servers+c.Overhead) * c.Demand[0]
	}
	held, want := p.held(), int(math.Ceil(worth-rounding))
	s := &Supply{Acquire: max(want-held, 0), Release: max(held-want, 0)}
	s.Why = fmt.Sprintf("%d slots are worth their price%s, and %.0f were requested; %d are held", want, p.price(), asked, held)
	return s
}

// widen gives running jobs what they are worth at the market's prices, those with the highest expected improvement per
// dollar first.
func (d *drafts) widen(p *pricing) {
	if p == nil {
		return
	}
	running := d.inPhase(Feedback, Training)
	slices.SortStableFunc(running, func(a, b *draft) int { return p.worse(b, a) })
	for _, c := range running {
		workers, servers := p.size(c)
		workers, servers = max(workers, c.Workers), max(servers, c.Servers)
		if c.Budget > 0 {
			c.MostWorkers = workers // also from slots that are free anyway
		}
		if c.slowerWith(workers, servers) {
			continue
		}
		free := d.slots(c.Demand)
		addServers := min(servers-c.Servers, free)
		addWorkers := min(workers-c.Workers, free-addServers)
		if addWorkers+addServers > 0 && d.resize(c, c.Workers+addWorkers, c.Servers+addServers) {
			c.why = fmt.Sprintf("gets %s that are worth their price%s%s", numbers(addWorkers, addServers), p.price(), p.costs(c))
		}
	}
}
