package recordings

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/sim/sweep"
	"github.com/tierml/tierml/tiers"
)

// TestSpeedOnARecording says how long a dry run of one pair of types in one zone takes, by each policy and in all. Recordings
// are not shipped: `make speed` says where they are.
func TestSpeedOnARecording(t *testing.T) {
	file := os.Getenv("TIERML_SPEED_TRACE")
	if file == "" {
		t.Skip("TIERML_SPEED_TRACE names no recording: make speed")
	}
	starts, err := sweep.ParseStarts(os.Getenv("TIERML_SPEED_STARTS"), 1)
	if err != nil {
		t.Fatal(err)
	}
	hours, err := strconv.ParseFloat(os.Getenv("TIERML_SPEED_HOURS"), 64)
	if err != nil {
		t.Fatal(err)
	}
	pools := recordedPools(t, file, os.Getenv("TIERML_SPEED_CATALOG"))
	pools = slices.DeleteFunc(pools, func(c bidding.Candidate) bool {
		return c.Pool.Zone != os.Getenv("TIERML_SPEED_ZONE") || !slices.Contains(strings.Split(os.Getenv("TIERML_SPEED_TYPES"), ","), c.Pool.Type)
	})
	if len(pools) == 0 {
		t.Fatalf("%s has no prices of %s in %s", filepath.Base(file), os.Getenv("TIERML_SPEED_TYPES"), os.Getenv("TIERML_SPEED_ZONE"))
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as the command has it
	plan := sweep.Experiment{Job: pairJob(t, pools), Hours: []time.Duration{time.Duration(hours * float64(time.Hour))}, Starts: starts}
	var all time.Duration
	for _, policy := range strings.Split(os.Getenv("TIERML_SPEED_POLICIES"), ",") {
		plan.Policies = []string{policy}
		began := time.Now()
		rows, err := sweep.Run(context.Background(), plan, func(int, int) {})
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		all += took
		s := sweep.Summarize(rows)[0]
		t.Logf("%-20s %6d starts in %7.2f s, %7.1f us each; $%.4f a run in the mean", policy, s.Starts, took.Seconds(),
			float64(took.Microseconds())/float64(s.Starts), s.CostMean)
	}
	t.Logf("%-20s %.2f s", "in all", all.Seconds())
}

// pairJob wants 64 machines of the smallest type, or as many vCPUs, plus four reliable ones of that type.
func pairJob(t *testing.T, pools []bidding.Candidate) sim.Config {
	t.Helper()
	rules, err := market.Rules("ec2-2017")
	if err != nil {
		t.Fatal(err)
	}
	small := slices.MinFunc(pools, func(a, b bidding.Candidate) int { return cmp.Compare(a.Type.VCPU, b.Type.VCPU) })
	small.Pool.Class = market.OnDemand
	return sim.Config{
		Name: "speed", Seed: 1, Policy: bidding.TierML{}, Rules: rules, Want: bidding.Want{VCPU: 64 * small.Type.VCPU}, Pools: pools,
		Job:        sim.Workload{Clocks: 60, Splits: 1 << 16, Partitions: 2, Work: 1},
		Reliable:   elasticity.Reliable{Pool: small.Pool, Type: small.Type, Count: 4},
		Equivalent: elasticity.Reliable{Pool: small.Pool, Type: small.Type, Count: 64},
		Stages:     tiers.Thresholds{TwoAbove: 1, ThreeAbove: 15}, FLOPSPerVCPU: 1000,
	}
}
