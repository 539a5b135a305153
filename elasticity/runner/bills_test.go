package runner_test

import (
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// checkBills compares three bills of each machine, to the billionth: the cloud's, the journal's charge lines, and the total of the
// journal's launches, ends and prices, from which reports are made.
func (s *stage) checkBills(at int) {
	theirs, err := s.fake.Bill()
	if err != nil {
		s.t.Fatal(err)
	}
	rules, _ := market.Rules(s.p.rules)
	prices, usage, charged := map[string][]market.PricePoint{}, map[string]*market.Usage{}, map[string]market.USD{}
	for _, e := range s.entries {
		amount := func(text string) market.USD {
			usd, err := market.ParseUSD(text)
			if err != nil {
				s.t.Fatal(err)
			}
			return usd
		}
		switch e.Kind {
		case journal.Price:
			prices[e.Pool] = append(prices[e.Pool], market.PricePoint{At: *e.At, Price: amount(e.USD)})
		case journal.Launch:
			pool, err := market.ParsePool(e.Pool)
			if err != nil {
				s.t.Fatal(err)
			}
			usage[e.Instance] = &market.Usage{Pool: pool, Start: *e.Launched}
			if e.Bid != "" {
				usage[e.Instance].Bid = amount(e.Bid)
			}
		case journal.Evicted, journal.Failed, journal.Terminated:
			if u := usage[e.Instance]; u != nil && e.Ended != nil {
				u.End, u.EndedBy = *e.Ended, market.EndedBy(e.EndedBy)
			}
		case journal.Charge:
			charged[e.Instance] += amount(e.USD)
		}
	}
	for _, line := range theirs.Lines {
		u := usage[line.ID]
		if u == nil {
			continue // check reports it
		}
		history := market.NewHistory(prices[u.Pool.String()])
		if u.Pool.Class == market.OnDemand {
			history = market.Constant(market.Dollar / 10)
		}
		charges, err := rules.Charges(*u, history, theirs.AsOf)
		if err != nil {
			s.t.Errorf("point %d: %s: %v", at, line.ID, err)
		}
		if reported := market.Total(charges); reported != line.Total || charged[line.ID] != line.Total {
			s.t.Errorf("point %d: %s costs %s by the cloud, %s by the charge lines, %s by the report", at, line.ID, line.Total, charged[line.ID], reported)
		}
	}
}
