package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/tiers"
)

// recording is a file of prices with the catalog closest in time, and the pairs of types to study.
type recording struct {
	name            string // in tables
	prices, catalog string // files
	pairs           []pair // nil: neighbours in size of each family
	zones           []string
	from, to        time.Time // the part to study; zero = from its beginning, to its end
}

// pair is a smaller and a larger type, by vCPUs.
type pair struct{ small, large string }

// parsePairs reads "d2.xlarge/d2.2xlarge,r3.large/c3.xlarge".
func parsePairs(text string) (out []pair, err error) {
	for _, word := range split(text) {
		small, large, ok := strings.Cut(word, "/")
		if !ok || small == "" || large == "" {
			return nil, fmt.Errorf("pair %q: write two types, such as d2.xlarge/d2.2xlarge", word)
		}
		out = append(out, pair{small, large})
	}
	return out, nil
}

func split(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// shipped returns the recordings of the bid market that this project uses (none is part of the repository). They do not
// include the paper's types, c4.xlarge and c4.2xlarge at the beginning of 2016. Pairs are of one family, as in the
// paper, or across families with about twice the vCPUs. If a file lacks some days, its parts are separate recordings.
func shipped(data string) []recording {
	day := func(text string) time.Time {
		t, err := time.Parse(time.DateOnly, text)
		if err != nil {
			panic(err) // it is a constant in this function
		}
		return t
	}
	spot := func(name string) string { return filepath.Join(data, "spot", name) }
	catalog := func(date string) string { return filepath.Join(data, "catalog", "aws-ondemand-linux-"+date+".csv.gz") }
	across2015 := []pair{{"c3.xlarge", "g2.2xlarge"}, {"r3.large", "c3.xlarge"}, {"m3.medium", "r3.large"}}
	file2015, file2016 := spot("aws-us-east-1-2015-03-to-07.csv.gz"), spot("aws-us-east-1-2016-02-to-04.csv.gz")
	return []recording{
		{name: "2014", prices: spot("aws-us-west-1a-c3-2014.csv.gz"), catalog: catalog("2015-04-02"),
			pairs: []pair{{"c3.xlarge", "c3.2xlarge"}, {"c3.2xlarge", "c3.4xlarge"}}},
		{name: "2015-04", prices: file2015, catalog: catalog("2015-04-02"), pairs: across2015, from: day("2015-04-13"), to: day("2015-06-09")},
		{name: "2015-06", prices: file2015, catalog: catalog("2015-04-02"), pairs: across2015, from: day("2015-06-13"), to: day("2015-08-01")},
		{name: "2016-02", prices: file2016, catalog: catalog("2016-02-27"), pairs: []pair{
			{"d2.xlarge", "d2.2xlarge"}, {"d2.2xlarge", "d2.4xlarge"}, {"d2.4xlarge", "d2.8xlarge"}, {"m4.4xlarge", "m4.10xlarge"},
			{"m3.medium", "m3.large"}, {"c1.medium", "c1.xlarge"}, {"m1.small", "m1.large"},
			{"r3.large", "d2.xlarge"}, {"m2.xlarge", "d2.xlarge"}, {"m4.4xlarge", "d2.4xlarge"}, {"g2.8xlarge", "m4.10xlarge"},
			{"d2.8xlarge", "m4.10xlarge"}, {"hi1.4xlarge", "cr1.8xlarge"},
		}},
		{name: "2016-06", prices: spot("aws-us-east-1-2016-06-to-08-5min.csv.gz"), catalog: catalog("2016-02-27"), pairs: []pair{
			{"m3.medium", "r3.large"}, {"r3.large", "m4.xlarge"}, {"m4.xlarge", "g2.2xlarge"},
		}},
	}
}

// cell is a pair of types in one zone.
type cell struct {
	recording string
	pools     []bidding.Candidate // of the smaller and the larger type
}

func (c cell) pair() string { return c.pools[0].Type.Name + ", " + c.pools[1].Type.Name }

func (c cell) String() string {
	return fmt.Sprintf("%s %s %s", c.recording, c.pools[0].Pool.Zone, c.pair())
}

// cells returns all pairs in all zones that have prices of both types.
func (r recording) cells() ([]cell, error) {
	recorded, err := local.ReadPrices(r.prices)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.prices, err)
	}
	catalog, err := local.ReadCatalog(r.catalog)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.catalog, err)
	}
	byZone := map[string][]bidding.Candidate{}
	var zones []string
	for _, m := range recorded.Markets {
		t, ok := catalog.Lookup(m.Pool.Region, m.Pool.Type)
		if !ok || t.VCPU == 0 || t.OnDemand == 0 || len(r.zones) > 0 && !slices.Contains(r.zones, m.Pool.Zone) {
			continue
		}
		if h := between(m.History, r.from, r.to); h != nil {
			zones = append(zones, m.Pool.Zone)
			byZone[m.Pool.Zone] = append(byZone[m.Pool.Zone], bidding.Candidate{Pool: m.Pool, Type: t, History: h})
		}
	}
	slices.Sort(zones)
	zones = slices.Compact(zones)
	var out []cell
	pairs := r.pairs
	if len(pairs) == 0 {
		pairs = neighbours(byZone, zones)
	}
	for _, p := range pairs {
		for _, zone := range zones {
			small, large := find(byZone[zone], p.small), find(byZone[zone], p.large)
			if small == nil || large == nil {
				continue
			}
			if small.Type.VCPU > large.Type.VCPU {
				small, large = large, small
			}
			out = append(out, cell{recording: r.name, pools: []bidding.Candidate{*small, *large}})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: in no zone there are prices of both types of a pair (pairs %v, zones with known types %v)", r.prices, pairs, zones)
	}
	return out, nil
}

func find(pools []bidding.Candidate, kind string) *bidding.Candidate {
	i := slices.IndexFunc(pools, func(c bidding.Candidate) bool { return c.Type.Name == kind })
	if i < 0 {
		return nil
	}
	return &pools[i]
}

// neighbours returns the pairs of types of one family with nothing between them in size.
func neighbours(byZone map[string][]bidding.Candidate, zones []string) (out []pair) {
	var types []market.InstanceType
	for _, zone := range zones {
		for _, c := range byZone[zone] {
			types = append(types, c.Type)
		}
	}
	family := func(t market.InstanceType) string { f, _, _ := strings.Cut(t.Name, "."); return f }
	slices.SortFunc(types, func(a, b market.InstanceType) int {
		return cmp.Or(cmp.Compare(family(a), family(b)), cmp.Compare(a.VCPU, b.VCPU), cmp.Compare(a.Name, b.Name))
	})
	types = slices.Compact(types)
	for i := 1; i < len(types); i++ {
		if a, b := types[i-1], types[i]; family(a) == family(b) && a.VCPU < b.VCPU {
			out = append(out, pair{a.Name, b.Name})
		}
	}
	return out
}

// between returns the part of a history in a period; nil if it has no prices.
func between(h *market.History, from, to time.Time) *market.History {
	if from.IsZero() && to.IsZero() {
		return h
	}
	last, ok := h.Last()
	if !ok {
		return nil
	}
	if to.IsZero() || to.After(last.At) {
		to = last.At
	}
	var points []market.PricePoint
	if price, known := h.At(from); known {
		points = append(points, market.PricePoint{At: from, Price: price})
	}
	if points = append(points, h.Points(from, to)...); len(points) == 0 {
		return nil
	}
	return market.NewHistory(points)
}

// fleet is the size of the paper's fleets: Machines of the larger type, of which TierML has Reliable on demand, or as
// many vCPUs of the smaller.
type fleet struct{ machines, reliable int }

// config returns the run of a fleet with as many vCPUs as transient machines of the larger type, in addition to the
// reliable ones.
func (c cell) config(f fleet, transient int, book string) (sim.Config, error) {
	rules, err := market.Rules(book)
	if err != nil {
		return sim.Config{}, err
	}
	large := c.pools[1]
	onDemand := large.Pool
	onDemand.Class = market.OnDemand
	cfg := sim.Config{
		Name: "paper", Rules: rules, Want: bidding.Want{VCPU: transient * large.Type.VCPU},
		Reliable:     elasticity.Reliable{Pool: onDemand, Type: large.Type, Count: f.reliable},
		Equivalent:   elasticity.Reliable{Pool: onDemand, Type: large.Type, Count: f.machines},
		Stages:       tiers.Thresholds{TwoAbove: 1, ThreeAbove: 15},
		FLOPSPerVCPU: 1, Job: sim.Workload{Clocks: 1, Splits: 1 << 16, Partitions: 2, Work: 1},
	}
	for _, p := range c.pools {
		cfg.Pools = append(cfg.Pools, p)
		p.Pool.Class, p.History = market.OnDemand, market.Constant(p.Type.OnDemand)
		cfg.Pools = append(cfg.Pools, p)
	}
	slices.SortFunc(cfg.Pools, func(a, b bidding.Candidate) int { return a.Pool.Compare(b.Pool) })
	return cfg, nil
}

// crossings counts how often the price rose above a limit.
func crossings(h *market.History, limit market.USD) (n int) {
	above := true
	last, _ := h.Last()
	for _, p := range h.Points(time.Time{}, last.At) {
		if p.Price > limit && !above {
			n++
		}
		above = p.Price > limit
	}
	return n
}

// missing returns the recordings that a folder lacks.
func missing(recordings []recording) (files []string) {
	for _, r := range recordings {
		for _, file := range []string{r.prices, r.catalog} {
			if _, err := os.Stat(file); err != nil && !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	return files
}
