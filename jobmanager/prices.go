package jobmanager

import (
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sched"
)

// slotPrices are the prices of the shared hosts' vCPUs, from the hosts' journal: input for a scheduler.
type slotPrices struct {
	pools  []bidding.Candidate   // where transient hosts are bought
	now    map[string]market.USD // of a host, by pool
	hosts  map[string]boughtHost // transient ones, by instance
	most   int                   // vCPUs at a time
	wait   float64               // seconds until a bought host works
	look   float64               // seconds between checks of hosts
	bought time.Duration         // the time that is paid for at once, in market time; 0 = by the second
	spare  time.Duration         // how long before its end a host begins to leave, in market time
}

type boughtHost struct {
	pool string
	at   time.Time // market time
	n    int       // in order of purchase
}

func newSlotPrices(pools []bidding.Candidate, most int) slotPrices {
	return slotPrices{pools: pools, now: map[string]market.USD{}, hosts: map[string]boughtHost{}, most: most, spare: handOver}
}

// Hosts are returned within lookAhead of the end of their paid time, and at least handOver before it: market time.
const (
	lookAhead = 6 * time.Minute
	handOver  = 30 * time.Second
)

// take processes a line of the journal.
func (p *slotPrices) take(e journal.Entry) {
	switch e.Kind {
	case journal.Price:
		if usd, err := market.ParseUSD(e.USD); err == nil {
			p.now[e.Pool] = usd
		}
	case journal.Launch:
		p.hosts[e.Instance] = boughtHost{e.Pool, e.T, len(p.hosts)}
	}
}

// market returns the cost of slots while these hosts exist. A slot is a vCPU, as in dry runs. Passes is the mapping of market time.
func (p *slotPrices) market(there map[string]sched.Resources, now time.Time, passes clock.Mapping) *sched.Market {
	m := &sched.Market{Wait: p.wait, Look: p.look}
	of := map[string]bidding.Candidate{}
	for _, c := range p.pools {
		of[c.Pool.String()] = c
		m.Offers = append(m.Offers, sched.Offer{Tier: sched.Reliable, Slots: p.most, Price: perSlot(c.Type.OnDemand, c.Type)})
		if usd, known := p.now[c.Pool.String()]; known {
			m.Offers = append(m.Offers, sched.Offer{Tier: sched.Transient, Slots: p.most, Price: perSlot(usd, c.Type)})
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(there), func(a, b string) int { return p.hosts[a].n - p.hosts[b].n }) {
		host := p.hosts[id]
		if c, known := of[host.pool]; known {
			paid := sched.PaidUntil(unix(host.at), unix(passes.At(now)), p.bought.Seconds(), p.spare.Seconds())
			m.Held = append(m.Held, sched.Held{Offer: sched.Offer{Tier: sched.Transient, Slots: c.Type.VCPU, Price: perSlot(p.now[host.pool], c.Type)},
				Host: id, Paid: unix(passes.WallAt(time.Unix(0, int64(paid*1e9))))})
		}
	}
	return m
}

func unix(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

func perSlot(usd market.USD, t market.InstanceType) float64 {
	return float64(usd) / float64(market.Dollar) / float64(max(t.VCPU, 1))
}

// spending adds up the cost of a job's workers, by the prices in its journal: for the elapsed time, whole hours or not, as in dry runs.
type spending struct {
	at    time.Time
	price map[string]float64 // dollars an hour, by pool
	spent float64
}

// pass adds the cost of machines of these pools since the previous line.
func (s *spending) pass(now time.Time, machines map[string]string) {
	if now.Before(s.at) {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(machines)) { // the sum is the same for the next manager
		s.spent += s.price[machines[id]] * now.Sub(s.at).Hours()
	}
	s.at = now
}

func (s *spending) take(e journal.Entry) {
	if usd, err := market.ParseUSD(e.USD); err == nil {
		s.price[e.Pool] = float64(usd) / float64(market.Dollar)
	}
}
