package sweep

import (
	"compress/gzip"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/tiers"
)

// cell is a market for comparing policies: two types of one family in one zone, with one trace.
type cell struct {
	name      string
	crossings int // of the on-demand price, upwards, by both
	job       sim.Config
}

// cellJob requests the vCPUs of 16 machines of the first type, from any of the spot pools or on demand.
func cellJob(rules market.RuleBook, spot ...bidding.Candidate) sim.Config {
	onDemand := func(c bidding.Candidate) bidding.Candidate {
		c.Pool.Class, c.History, c.Availability = market.OnDemand, market.Constant(c.Type.OnDemand), nil
		return c
	}
	pools, cheap, vcpu := slices.Clone(spot), spot[0], 16*spot[0].Type.VCPU
	for _, p := range spot {
		pools = append(pools, onDemand(p))
		if float64(p.Type.OnDemand)*cheap.Type.WorkRate() < float64(cheap.Type.OnDemand)*p.Type.WorkRate() {
			cheap = p
		}
	}
	slices.SortFunc(pools, func(a, b bidding.Candidate) int { return a.Pool.Compare(b.Pool) })
	return sim.Config{
		Name: "cell", Seed: 1, Policy: bidding.TierML{}, Rules: rules, Want: bidding.Want{VCPU: vcpu}, Pools: pools,
		Job:      sim.Workload{Clocks: 60, Splits: 64, Partitions: 2, Work: 1},
		Reliable: elasticity.Reliable{Pool: onDemand(spot[0]).Pool, Type: spot[0].Type, Count: 1},
		Equivalent: elasticity.Reliable{
			Pool: onDemand(cheap).Pool, Type: cheap.Type, Count: (vcpu + cheap.Type.VCPU - 1) / cheap.Type.VCPU,
		},
		Stages: tiers.Thresholds{TwoAbove: 1, ThreeAbove: 15}, FLOPSPerVCPU: 1000,
	}
}

func crossings(c bidding.Candidate) (n int) {
	above := false
	last, _ := c.History.Last()
	for _, p := range c.History.Points(time.Time{}, last.At) {
		if p.Price > c.Type.OnDemand && !above {
			n++
		}
		above = p.Price > c.Type.OnDemand
	}
	return n
}

// reader reads a file, decompressed.
func reader(t *testing.T, name string) io.Reader {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	if !strings.HasSuffix(name, ".gz") {
		return file
	}
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	return unpacked
}

// recordedPools returns the spot pools of a recording whose types are in a catalog, by pool.
func recordedPools(t *testing.T, traceFile, catalogFile string) (pools []bidding.Candidate) {
	t.Helper()
	recorded, err := trace.Read(reader(t, traceFile), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := market.ReadCatalog(reader(t, catalogFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range recorded.Markets {
		if kind, ok := catalog.Lookup(m.Pool.Region, m.Pool.Type); ok && kind.VCPU > 0 {
			pools = append(pools, bidding.Candidate{Pool: m.Pool, Type: kind, History: m.History})
		}
	}
	slices.SortFunc(pools, func(a, b bidding.Candidate) int { return a.Pool.Compare(b.Pool) })
	return pools
}

// recordings are prices of many years with the catalog nearest in time. They are not shipped: without them, the test below is skipped.
var recordings = [][2]string{
	{"aws-regions-us-2009-2011", "2015-04-02"},
	{"aws-us-west-1a-c3-2014", "2015-04-02"},
	{"aws-us-east-1-2015-03-to-07", "2015-04-02"},
	{"aws-us-east-1-2016-02-to-04", "2016-02-27"},
	{"aws-us-east-1-2016-06-to-08-5min", "2016-02-27"},
	{"aws-gpu-2019-2020", "2022-06-22"},
	{"aws-us-east-1-2021-03-to-04", "2022-06-22"},
}

// spread returns at most `most` items of a list, evenly from its first to its last.
func spread(all []cell, most int) (some []cell) {
	if len(all) <= most {
		return all
	}
	for i := range most {
		some = append(some, all[i*(len(all)-1)/max(most-1, 1)])
	}
	return some
}
