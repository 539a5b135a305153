package jobmanager

import (
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sched"
)

// slotPrices are what vCPUs of the shared hosts cost, by the hosts' journal: what a scheduler may look at.
type slotPrices struct {
	pools []bidding.Candidate   // in which transient hosts are bought
	now   map[string]market.USD // of a host, by pool
	hosts map[string]string     // pools of transient hosts, by instance
	most  int                   // vCPUs at a time
	wait  float64               // seconds until a host that is bought works
}

func newSlotPrices(pools []bidding.Candidate, most int, wait float64) slotPrices {
	return slotPrices{pools, map[string]market.USD{}, map[string]string{}, most, wait}
}

// take takes in a line of the journal.
func (p *slotPrices) take(e journal.Entry) {
	switch e.Kind {
	case journal.Price:
		if usd, err := market.ParseUSD(e.USD); err == nil {
			p.now[e.Pool] = usd
		}
	case journal.Launch:
		p.hosts[e.Instance] = e.Pool
	}
}

// market is what slots cost while these hosts are there. A slot is a vCPU, as in dry runs.
func (p *slotPrices) market(there map[string]sched.Resources) *sched.Market {
	m := &sched.Market{Wait: p.wait}
	of := map[string]bidding.Candidate{}
	for _, c := range p.pools {
		of[c.Pool.String()] = c
		m.Offers = append(m.Offers, sched.Offer{Tier: sched.Reliable, Slots: p.most, Price: perSlot(c.Type.OnDemand, c.Type)})
		if usd, known := p.now[c.Pool.String()]; known {
			m.Offers = append(m.Offers, sched.Offer{Tier: sched.Transient, Slots: p.most, Price: perSlot(usd, c.Type)})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(there)) {
		pool := p.hosts[id]
		if c, known := of[pool]; known {
			m.Held = append(m.Held, sched.Offer{Tier: sched.Transient, Slots: c.Type.VCPU, Price: perSlot(p.now[pool], c.Type)})
		}
	}
	return m
}

func perSlot(usd market.USD, t market.InstanceType) float64 {
	return float64(usd) / float64(market.Dollar) / float64(max(t.VCPU, 1))
}

// spending adds up what a job's workers cost, by the prices in its journal: the money of the time that has passed, whole hours or not, as dry
// runs count it.
type spending struct {
	at    time.Time
	price map[string]float64 // dollars an hour, by pool
	spent float64
}

// pass adds what machines of these pools have cost since the line before.
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
