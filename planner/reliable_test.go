package planner

import (
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
)

// Prices of us-east-1 on demand.
var onSale = market.NewCatalog("us-east-1", []market.InstanceType{
	{Name: "t3.micro", OnDemand: 10_400_000}, {Name: "t3.medium", OnDemand: 41_600_000}, {Name: "m5.large", OnDemand: 96_000_000},
	{Name: "m5.xlarge", OnDemand: 192_000_000}, {Name: "r5.large", OnDemand: 126_000_000}, {Name: "r5.2xlarge", OnDemand: 504_000_000},
	{Name: "t4g.nano", OnDemand: 4_200_000}, {Name: "c4.large", OnDemand: 100_000_000}, {Name: "x9.tiny", OnDemand: 1_000_000, VCPU: 1, MemoryMiB: 1 << 20},
})

// open returns a job on EC2 that leaves its reliable tier open, and 63 transient machines at $0.08 an hour.
func open() (*config.Job, Resolved) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	job := &config.Job{Policy: "tierml", Reliable: config.Reliable{Count: 1}, Stages: config.Stages{TwoAbove: 1, ThreeAbove: 15},
		Local: config.Local{Start: now, Speed: 1, Notice: 2 * time.Minute, Boot: 4 * time.Minute}}
	pool := market.Pool{Provider: "ec2", Region: "us-east-1", Zone: "us-east-1a", Type: "c5.xlarge", Class: market.Spot}
	kind := market.InstanceType{Name: "c5.xlarge", VCPU: 4, OnDemand: 170_000_000}
	history := market.NewHistory([]market.PricePoint{{At: now.Add(-24 * time.Hour), Price: 80_000_000}})
	own := pool
	own.Class = market.OnDemand
	return job, Resolved{Want: bidding.Want{Machines: 63}, Pools: []bidding.Candidate{{Pool: pool, Type: kind, History: history}},
		Reliable: Fleet{Pool: own, Type: kind, Count: 1}}
}

// model returns a schema with this many bytes of state.
func model(bytes int) *ps.Schema {
	return &ps.Schema{Tables: []ps.Table{{Name: "w", Rows: uint64(bytes / 1000), Cols: 244}}, Partitions: 32, Splits: 64}
}

// A job that declares nothing gets the paper's own ratio, one reliable machine to 63 (TierML, CMU-PDL-16-102, Figure 1); the model
// determines its size.
func TestPaperOneReliablePer63(t *testing.T) {
	for _, c := range []struct {
		what      string
		bytes     int
		staleness ps.Clock
		data      int64
		want      string
		count     int
	}{
		{"a small model: memory and network of the smallest will do", 1 << 20, 0, 0, "t3.micro", 1},
		{"20 MB every 1.5 s, in half of that time", 20 << 20, 0, 0, "t3.medium", 1},
		{"sums of 100 open clocks of 10 MB: 1 GB of memory, cheapest on three", 10 << 20, 100, 0, "t3.micro", 3},
		{"100 MB every 1.5 s: one rather than two for the same money", 100 << 20, 0, 0, "m5.xlarge", 1},
		{"data that the smallest would load for an hour, while 63 machines wait", 1 << 20, 0, 30 << 30, "m5.large", 1},
	} {
		schema := model(c.bytes)
		schema.Staleness = c.staleness
		job, choice := open()
		s, err := SizeReliable(job, &choice, onSale, ReliableNeed{Schema: schema, Data: c.data, Work: 63 * 4 * 8})
		if err != nil || choice.Reliable.Type.Name != c.want || choice.Reliable.Count != c.count {
			t.Errorf("%s: %d of %s, %v; want %d of %s", c.what, choice.Reliable.Count, choice.Reliable.Type.Name, err, c.count, c.want)
			for _, o := range s.Options {
				t.Logf("%+v", o)
			}
			continue
		}
		if o := s.Options[0]; o.Memory > o.HasMemory || o.Network > o.HasNetwork {
			t.Errorf("%s: %+v", c.what, o)
		}
	}
}

// Unknown values are not guessed: neither a type's network nor the size of sparse tables. A declared bandwidth counts, and a declared type
// or count stays.
func TestSizingKeepsToWhatIsKnown(t *testing.T) {
	need := ReliableNeed{Schema: model(1 << 20)}
	job, choice := open()
	s, err := SizeReliable(job, &choice, market.NewCatalog("us-east-1", []market.InstanceType{{Name: "x9.tiny", OnDemand: 1, VCPU: 1, MemoryMiB: 4096}}), need)
	if err != nil || choice.Reliable.Type.Name != "c5.xlarge" || !strings.Contains(s.Why, "sustained network of no type is known") {
		t.Errorf("unknown: %s, %+v, %v", choice.Reliable.Type.Name, s, err)
	}
	sparse := model(1 << 20)
	sparse.Tables[0].Sparse = true
	if s, err := SizeReliable(job, &choice, onSale, ReliableNeed{Schema: sparse}); err != nil || !strings.Contains(s.Why, "sparse tables") {
		t.Errorf("sparse: %+v, %v", s, err)
	}
	job.Reliable.Bandwidth = 1e9
	if _, err := SizeReliable(job, &choice, onSale, need); err != nil || choice.Reliable.Type.Name != "x9.tiny" {
		t.Errorf("declared: %s, %v", choice.Reliable.Type.Name, err)
	}
	for _, change := range []func(){
		func() { job.Reliable.Type = "c5.xlarge" },
		func() { job.Reliable.Type, job.Policy = "", "checkpoint" },
		func() { job.Policy = "on-demand" },
	} {
		change()
		_, own := open()
		if s, err := SizeReliable(job, &own, onSale, need); err != nil || s.Options != nil || own.Reliable.Type.Name != "c5.xlarge" {
			t.Errorf("%q by %s: %+v, %v", job.Reliable.Type, job.Policy, own.Reliable, err)
		}
	}
}

// A model too large for every type is refused with the nearest type's figures.
func TestNoTypeHoldsTheModel(t *testing.T) {
	job, choice := open()
	_, err := SizeReliable(job, &choice, onSale, ReliableNeed{Schema: model(500 << 30)})
	if err == nil || !strings.Contains(err.Error(), "no type of us-east-1 on sale can be the reliable tier: of 8 machines, the nearest, r5.2xlarge, it needs") ||
		!strings.Contains(err.Error(), "of memory and has 54.4 GB") {
		t.Errorf("%v", err)
	}
}

// In stages 1 and 2 the reliable machines work, too, and their work is valued at the cheapest pool's price: a machine that costs less for
// its work than spot machines is no expense.
func TestSizingCountsTheWork(t *testing.T) {
	job, choice := open()
	choice.Want.Machines = 4
	catalog := market.NewCatalog("us-east-1", []market.InstanceType{{Name: "t3.micro", OnDemand: 10_400_000}, {Name: "m5.large", OnDemand: 45_000_000}})
	if _, err := SizeReliable(job, &choice, catalog, ReliableNeed{Schema: model(1 << 20)}); err != nil || choice.Reliable.Type.Name != "m5.large" {
		t.Errorf("%s, %v", choice.Reliable.Type.Name, err)
	}
	catalog = market.NewCatalog("us-east-1", append(catalog.Types("us-east-1"), market.InstanceType{Name: "m5.24xlarge", OnDemand: market.Dollar}))
	if _, err := SizeReliable(job, &choice, catalog, ReliableNeed{Schema: model(1 << 20)}); err != nil || choice.Reliable.Type.Name != "m5.large" || choice.Reliable.Count != 1 {
		t.Errorf("more work for less: %d of %s, %v; want one machine of a worker's size at most", choice.Reliable.Count, choice.Reliable.Type.Name, err)
	}
	choice.Want.Machines = 64
	if _, err := SizeReliable(job, &choice, catalog, ReliableNeed{Schema: model(1 << 20)}); err != nil || choice.Reliable.Type.Name != "t3.micro" {
		t.Errorf("stage 3: %s, %v", choice.Reliable.Type.Name, err)
	}
}
