package recordings

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/shapes"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/sim/sweep"
)

// TestAutoSpeed measures a decision of `policy: auto` and the forecast that follows from it, cold and then warm as by another process: 20 pools
// of February to April 2016, the most with bids that a recording has, and 8 hours of work.
func TestAutoSpeed(t *testing.T) {
	data := os.Getenv("TIERML_AUTO_SPEED")
	if data == "" {
		t.Skip("TIERML_AUTO_SPEED names no recordings: make auto-speed")
	}
	types := strings.Fields("d2.xlarge d2.2xlarge d2.4xlarge d2.8xlarge m4.4xlarge m4.10xlarge m3.medium m3.large g2.8xlarge r3.large m1.large c1.xlarge")
	catalogFile := filepath.Join(data, "catalog", "aws-ondemand-linux-2016-02-27.csv.gz")
	pools := slices.DeleteFunc(recordedPools(t, filepath.Join(data, "spot", "aws-us-east-1-2016-02-to-04.csv.gz"), catalogFile), func(c bidding.Candidate) bool {
		return !slices.Contains(types, c.Type.Name)
	})
	rules, err := market.Rules("ec2-2017")
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := market.ReadCatalog(reader(t, catalogFile))
	if err != nil {
		t.Fatal(err)
	}
	job := cellJob(rules, pools...)
	job.Want.VCPU = 64
	small, _ := catalog.Lookup("us-east-1", "t2.micro")
	small, _ = shapes.Complete(small)
	at := pools[0].Pool
	at.Type, at.Class = small.Name, market.OnDemand
	job.Reliable = elasticity.Reliable{Pool: at, Type: small, Count: 1}
	job.Equivalent.Count = 64 / job.Equivalent.Type.VCPU
	job.Checkpoints.Every = 5 * time.Minute
	if err := (sweep.Evictions{}).Apply(&job); err != nil {
		t.Fatal(err)
	}
	job = sweep.OnEC2(job, 8*time.Hour)
	var now time.Time
	for _, p := range pools {
		if last, ok := p.History.Last(); ok && last.At.After(now) {
			now = last.At
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as the command has it
	folder := t.TempDir()
	for _, what := range []string{"cold", "warm"} {
		c := sweep.NewChooser(job, nil, planner.Wish{})
		c.Keep(folder, "test")
		began, used := time.Now(), processor()
		choice, err := c.At(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		chosen, after := time.Since(began), processor()-used
		if _, err := c.Estimate(planner.Input{Now: now}); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d pools, %s after %.1f s, of the processor %.1f; with the forecast %.1f s, %.1f", what, len(pools), choice.Policy, chosen.Seconds(),
			after.Seconds(), time.Since(began).Seconds(), (processor() - used).Seconds())
		for _, j := range choice.Candidates {
			t.Logf("  %-22s %8.2f %6.1f h %4d starts %+.1f ± %.1f %%", j.Policy, j.Cost, j.Hours, j.Starts, 100*j.Against, 100*j.StdError)
		}
	}
}

// processor returns the processor time that this process has used.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
