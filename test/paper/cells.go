package main

import (
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/sim/sweep"
	"github.com/tierml/tierml/tiers"
)

// The paper's fleet: 64 machines of the larger type, of which TierML has 4 on demand, or as many vCPUs of the smaller.
const (
	machines = 64
	reliable = 4
)

// lengths are those of the paper's figure 12.
var lengths = []time.Duration{2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 20 * time.Hour}

// recording is a file of prices with the catalog nearest in time, and the pairs of types that are looked at: a smaller
// and a larger one of a family, as the paper's c4.xlarge and c4.2xlarge, whose prices of that time are not recorded.
type recording struct {
	prices, catalog string
	pairs           [][2]string
}

var recordings = []recording{
	{"aws-us-east-1-2016-02-to-04.csv.gz", "aws-ondemand-linux-2016-02-27.csv.gz", [][2]string{
		{"d2.xlarge", "d2.2xlarge"}, {"d2.2xlarge", "d2.4xlarge"}, {"m4.4xlarge", "m4.10xlarge"}, {"m3.medium", "m3.large"},
		{"c1.medium", "c1.xlarge"}, {"m1.small", "m1.large"},
	}},
	{"aws-us-west-1a-c3-2014.csv.gz", "aws-ondemand-linux-2015-04-02.csv.gz", [][2]string{
		{"c3.xlarge", "c3.2xlarge"}, {"c3.2xlarge", "c3.4xlarge"},
	}},
}

// cell is a pair of types in one zone.
type cell struct {
	zone  string
	pools []bidding.Candidate // of the smaller and the larger type
}

func (c cell) String() string {
	return fmt.Sprintf("%s %s, %s", c.pools[0].Pool.Zone, c.pools[0].Type.Name, c.pools[1].Type.Name)
}

// cells are all pairs in all zones that have prices of both types.
func (r recording) cells(data string) ([]cell, error) {
	prices, err := os.Open(filepath.Join(data, "spot", r.prices))
	if err != nil {
		return nil, err
	}
	defer prices.Close()
	recorded, err := trace.Read(prices, trace.Options{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.prices, err)
	}
	catalog, err := readCatalog(filepath.Join(data, "catalog", r.catalog))
	if err != nil {
		return nil, err
	}
	var zones []string
	for _, m := range recorded.Markets {
		zones = append(zones, m.Pool.Zone)
	}
	slices.Sort(zones)
	var out []cell
	for _, pair := range r.pairs {
		for _, zone := range slices.Compact(slices.Clone(zones)) {
			c := cell{zone: zone}
			for _, name := range pair {
				for _, m := range recorded.Markets {
					if t, ok := catalog.Lookup(m.Pool.Region, name); ok && m.Pool.Zone == zone && m.Pool.Type == name {
						c.pools = append(c.pools, bidding.Candidate{Pool: m.Pool, Type: t, History: m.History})
					}
				}
			}
			if len(c.pools) == len(pair) {
				out = append(out, c)
			}
		}
	}
	return out, nil
}

func readCatalog(path string) (*market.Catalog, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return market.ReadCatalog(plain)
}

// config is the run of a fleet that has as many vCPUs as so many machines of the larger type, beside the reliable ones.
func (c cell) config(transient int) (sim.Config, error) {
	rules, err := market.Rules("ec2-2017")
	if err != nil {
		return sim.Config{}, err
	}
	large := c.pools[1]
	onDemand := large.Pool
	onDemand.Class = market.OnDemand
	cfg := sim.Config{
		Name: "paper", Rules: rules, Want: bidding.Want{VCPU: transient * large.Type.VCPU},
		Reliable:     elasticity.Reliable{Pool: onDemand, Type: large.Type, Count: reliable},
		Equivalent:   elasticity.Reliable{Pool: onDemand, Type: large.Type, Count: machines},
		Stages:       tiers.Thresholds{TwoAbove: 1, ThreeAbove: 15},
		FLOPSPerVCPU: 1, Timing: sim.EC2(), Job: sim.Job{Clocks: 1, Splits: 1 << 16, Partitions: 2, Work: 1},
	}
	for _, p := range c.pools {
		cfg.Pools = append(cfg.Pools, p)
		p.Pool.Class, p.History = market.OnDemand, market.Constant(p.Type.OnDemand)
		cfg.Pools = append(cfg.Pools, p)
	}
	slices.SortFunc(cfg.Pools, func(a, b bidding.Candidate) int { return a.Pool.Compare(b.Pool) })
	return cfg, nil
}

// result is what all policies came to in a cell at a length.
type result struct {
	cell      cell
	hours     time.Duration
	starts    int
	crossings int // of the on-demand price, of either type
	policies  map[string]sweep.Summary
}

// policies of the two kinds of fleet: with TierML's reliable tier, and all machines alike.
var (
	tiered = []string{"tierml", "tierml-aggressive", "tierml-noswitch", "cost-per-work", sweep.Oracle}
	flat   = []string{"on-demand", "checkpoint", "checkpoint-aggressive"}
)

func (c cell) run(ctx context.Context, hours time.Duration, starts sweep.Starts) (result, error) {
	r := result{cell: c, hours: hours, policies: map[string]sweep.Summary{}}
	for _, fleet := range []struct {
		transient int
		policies  []string
	}{{machines - reliable, tiered}, {machines, flat}} {
		cfg, err := c.config(fleet.transient)
		if err != nil {
			return r, err
		}
		rows, err := sweep.Run(ctx, sweep.Plan{Job: cfg, Policies: fleet.policies, Hours: []time.Duration{hours}, Starts: starts},
			func(int, int) {})
		if err != nil {
			return r, err
		}
		for _, s := range sweep.Summarize(rows) {
			r.policies[s.Policy], r.starts = s, s.Starts
		}
	}
	for _, p := range c.pools {
		r.crossings += crossings(p.History, p.Type.OnDemand)
	}
	return r, nil
}

// crossings counts how often the price came to exceed a limit.
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
