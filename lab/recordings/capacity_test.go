package recordings

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/sim/sweep"
	"github.com/tierml/tierml/tiers"
)

// capacityJob is 8 hours' work for 64 vCPUs of spot machines plus one reliable machine of the type that is cheapest.
func capacityJob(t *testing.T, pools []bidding.Candidate) sim.Config {
	t.Helper()
	rules, err := market.Rules("ec2-now")
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(pools, func(a, b bidding.Candidate) int { return a.Pool.Compare(b.Pool) })
	cheap := slices.MinFunc(pools, func(a, b bidding.Candidate) int {
		return cmp.Or(cmp.Compare(float64(a.Type.OnDemand)/a.Type.WorkRate(), float64(b.Type.OnDemand)/b.Type.WorkRate()),
			cmp.Compare(a.Type.VCPU, b.Type.VCPU))
	})
	cheap.Pool.Class = market.OnDemand
	const vcpu = 64
	return sweep.OnEC2(sim.Config{
		Name: "capacity", Seed: 1, Policy: bidding.Capacity{}, Rules: rules, Want: bidding.Want{VCPU: vcpu}, Pools: pools,
		Job:        sim.Workload{Clocks: 60, Splits: 64, Partitions: 2, Work: 1},
		Reliable:   elasticity.Reliable{Pool: cheap.Pool, Type: cheap.Type, Count: 1},
		Equivalent: elasticity.Reliable{Pool: cheap.Pool, Type: cheap.Type, Count: (vcpu + cheap.Type.VCPU - 1) / cheap.Type.VCPU},
		Stages:     tiers.Thresholds{TwoAbove: 1, ThreeAbove: 15}, FLOPSPerVCPU: 1000,
	}, 8*time.Hour)
}

// TestCapacityOnRecordings compares capacity with single pools and single zones on recorded prices. Recordings are not
// shipped: `make capacity` says where they are.
func TestCapacityOnRecordings(t *testing.T) {
	file, availability := os.Getenv("TIERML_CAPACITY_TRACE"), strings.Fields(os.Getenv("TIERML_CAPACITY_AVAILABILITY"))
	if file == "" || len(availability) == 0 {
		t.Skip("TIERML_CAPACITY_TRACE names no recording: make capacity")
	}
	types := strings.Split(os.Getenv("TIERML_CAPACITY_TYPES"), ",")
	pools := slices.DeleteFunc(recordedPools(t, file, os.Getenv("TIERML_CAPACITY_CATALOG")), func(c bidding.Candidate) bool {
		return !slices.Contains(types, c.Pool.Type)
	})
	if len(pools) == 0 {
		t.Fatalf("%s has no prices of %s with vCPUs in the catalog", filepath.Base(file), types)
	}
	study := Capacity{Job: capacityJob(t, pools), Layouts: number(t, "LAYOUTS"), Starts: number(t, "STARTS"), Seed: uint64(number(t, "SEED"))}
	for _, name := range availability {
		probes, err := trace.ReadAvailability(reader(t, name), time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		study.Recordings = append(study.Recordings, probes.Availability)
	}
	choices, err := study.Run(t.Context(), func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	report(t, choices, len(study.Recordings), study.Layouts)
}

func number(t *testing.T, name string) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("TIERML_CAPACITY_" + name))
	if err != nil || n < 1 {
		t.Fatalf("%s: %q is no number above 0", name, os.Getenv("TIERML_CAPACITY_"+name))
	}
	return n
}

// report prints the table and the verdict, and fails when the cheapest zone or pool costs no more than all pools.
func report(t *testing.T, choices []Option, recordings, layouts int) {
	t.Helper()
	t.Logf("%d recordings of availability, %d layouts, %d starts; %% of the on-demand price; differences from all pools with "+
		"their 90 %% interval", recordings, layouts, choices[0].Starts)
	t.Logf("%-28s %-9s %5s %9s %13s %9s %6s %6s  %s", "pools", "policy", "pools", "finished", "per finished", "per work", "hours",
		"evict", "per finished - all pools'")
	for _, c := range choices {
		t.Logf("%-28s %-9s %5d %4d/%4d %13.2f %9.2f %6.2f %6.1f  %+.2f [%+.2f, %s]", c.Name, c.Policy, c.Pools, c.Finished, c.Starts,
			100*c.PerFinished, 100*c.PerWork, c.RuntimeMean.Hours(), c.Evictions, 100*(c.PerFinished-choices[0].PerFinished), 100*c.Low, upper(c.High))
	}
	for _, kind := range []struct {
		name string
		is   func(Option) bool
	}{
		{"zone", func(c Option) bool { return !strings.Contains(c.Name, " ") }},
		{"pool", func(c Option) bool { return strings.Contains(c.Name, " in ") && c.Policy == "capacity" }},
		{"pool by tierml", func(c Option) bool { return strings.Contains(c.Name, " in ") && c.Policy == "tierml" }},
	} {
		some := slices.DeleteFunc(slices.Clone(choices), func(c Option) bool { return !kind.is(c) })
		best := slices.MinFunc(some, func(a, b Option) int { return cmp.Compare(a.PerFinished, b.PerFinished) })
		word := "beats"
		switch {
		case best.PerFinished <= choices[0].PerFinished:
			word = "does not beat"
			t.Fail()
		case best.Low <= 0:
			word = "is below, but not clearly,"
		}
		t.Logf("capacity over all pools %s the cheapest single %s (%s): %.2f and %.2f %%, difference %+.2f [%+.2f, %s]", word,
			kind.name, best.Name, 100*choices[0].PerFinished, 100*best.PerFinished, 100*(best.PerFinished-choices[0].PerFinished),
			100*best.Low, upper(best.High))
		cheap := slices.MinFunc(some, func(a, b Option) int { return cmp.Compare(a.PerWork, b.PerWork) })
		t.Logf("  per work done, the cheapest single %s is %s: %.2f %%, %d of %d finish; all pools %.2f %%", kind.name, cheap.Name,
			100*cheap.PerWork, cheap.Finished, cheap.Starts, 100*choices[0].PerWork)
	}
}

// upper prints the end of an interval, beyond which there may be draws in which nothing finished.
func upper(x float64) string {
	if x > 1e6 {
		return "no end"
	}
	return fmt.Sprintf("%+.2f", 100*x)
}

// invented returns ten days in which there are four machines or none, for spells of minutes to a day.
func invented(t *testing.T, seed uint64) *market.Availability {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	begin, end := time.Date(2023, 2, 15, 0, 0, 0, 0, time.UTC), time.Date(2023, 2, 25, 0, 0, 0, 0, time.UTC)
	var points []market.AvailabilityPoint
	for at, up := begin, 0; at.Before(end); up = 4 - up {
		points = append(points, market.AvailabilityPoint{At: at, Count: up})
		at = at.Add(5 * time.Minute << random.IntN(9))
	}
	a, err := market.NewAvailability(points, end)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// inventedPools are four in two zones, by prices that are close to each other.
func inventedPools(t *testing.T) (pools []bidding.Candidate) {
	t.Helper()
	begin := time.Date(2021, 3, 1, 0, 0, 0, 0, time.UTC)
	for i, zone := range []string{"za", "zb"} {
		for k, kind := range []string{"m5.xlarge", "m5.2xlarge"} {
			cents := market.USD((6 + i + k) * (k + 1))
			pools = append(pools, bidding.Candidate{
				Pool: market.Pool{Provider: "ec2", Region: "r", Zone: zone, Type: kind, Class: market.Spot},
				Type: market.InstanceType{Name: kind, VCPU: market.VCPUOf(kind), OnDemand: market.USD(k+1) * market.Dollar / 5},
				History: market.NewHistory([]market.PricePoint{
					{At: begin, Price: cents * market.Dollar / 100}, {At: begin.Add(12 * 24 * time.Hour), Price: cents * market.Dollar / 100},
				}),
			})
		}
	}
	return pools
}

// TestCapacity: the sums add up, all choices are there, and the same seed gives the same.
func TestCapacity(t *testing.T) {
	study := Capacity{Job: capacityJob(t, inventedPools(t)), Layouts: 3, Starts: 2, Seed: 1}
	for seed := range uint64(3) {
		study.Recordings = append(study.Recordings, invented(t, seed))
	}
	choices, err := study.Run(t.Context(), func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	if len(choices) != 1+2+4+4 || choices[0].Pools != 4 || choices[1].Pools != 2 || choices[3].Pools != 1 {
		t.Fatalf("%d choices: %+v", len(choices), choices)
	}
	for _, c := range choices {
		spent, finished := 0.0, 0
		for _, r := range c.runs {
			spent += dollars(r.Cost)
			if r.Finished() {
				finished++
			}
		}
		want := spent / dollars(sweep.OnDemandCost(&study.Job)) / float64(finished)
		if c.Finished != finished || c.Starts != 6 || finished > 0 && math.Abs(c.PerFinished-want) > 1e-9 {
			t.Errorf("%s by %s: %+v", c.Name, c.Policy, c)
		}
		if c.Low > c.High || c.PerWork > c.PerFinished+1e-9 {
			t.Errorf("%s by %s: %g to %g, per work %g, per finished %g", c.Name, c.Policy, c.Low, c.High, c.PerWork, c.PerFinished)
		}
	}
	again, err := study.Run(t.Context(), func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(choices, again, gocmp.AllowUnexported(Option{})); diff != "" {
		t.Errorf("the same again: %s", diff)
	}
}
