package main

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/rundir"
)

// slotsOf returns the number of transient slots each job has on hosts, according to the shared hosts' records.
func (c *sharing) slotsOf() map[string]int {
	c.t.Helper()
	lines, err := desk.ReadBook(c.path("work", rundir.Root, "shared-1"))
	if err != nil {
		c.t.Fatal(err)
	}
	book, held := hosts.NewBook(hosts.Rules{}), map[string]int{}
	for _, l := range lines {
		if err := book.Apply(l); err != nil {
			c.t.Fatal(err)
		}
	}
	for _, s := range book.Slots() {
		if s.Ended.IsZero() && s.Tier == step.Transient && s.Host != "" {
			name, _, _ := strings.Cut(s.Job, "-")
			held[name]++
		}
	}
	return held
}

// Three jobs with weights 1, 2 and 4 come one after the other to eight slots: 5 s after each arrival the shares are within one slot of the
// fair ones. make -C lab shares runs it: it measures a time, which needs a quiet computer.
func TestSharesByWeight(t *testing.T) {
	if os.Getenv("TIERML_TEST_SHARES") == "" {
		t.Skip("make -C lab shares runs it")
	}
	s := newSite(t)
	s.write("catalog.csv", "region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\nus-west-1,c3.large,2,3.75,0.120\nus-west-1,c3.xlarge,4,7.5,0.240\nus-west-1,c3.8xlarge,32,60,1.92\n")
	var prices strings.Builder
	prices.WriteString("timestamp,zone,instance_type,product,price\n")
	for _, at := range []string{"2014-03-01T00:00:00Z", "2014-03-31T00:00:00Z", "2014-06-01T00:00:00Z"} {
		fmt.Fprintf(&prices, "%s,us-west-1a,c3.large,Linux/UNIX,0.025\n%[1]s,us-west-1a,c3.xlarge,Linux/UNIX,0.05\n", at)
	}
	s.write("prices.csv", prices.String())
	quiet, _, _ := strings.Cut(sixSlots, "  script:")
	s.write("shared.yaml", strings.Replace(quiet, "count: 3", "count: 4", 1))
	c := s.serverOf("drf")
	const slots, most, within = 8, 7, 5 * time.Second
	weights := map[string]float64{}
	for _, weight := range []float64{1, 2, 4} {
		name := fmt.Sprintf("w%g", weight)
		s.write(name+".yaml", strings.Replace(fmt.Sprintf(sharingJob, name, "  app: mf\n  clocks: 100000\n  data: ratings.csv\n  params: {rank: 4, batches: 4}"),
			"count: 2,", fmt.Sprintf("count: 1..%d,", most), 1)+fmt.Sprintf("weight: %g\n", weight))
		c.ask("run", "-y", "--detach", name+".yaml").wait(0)
		weights[name] = weight
		came, sum := time.Now(), 0.
		for _, w := range weights {
			sum += w
		}
		off := func() (worst float64) {
			held := c.slotsOf()
			for name, w := range weights {
				worst = max(worst, math.Abs(float64(held[name])-min(most, slots*w/sum)))
			}
			return worst
		}
		c.poll("fair shares", func() bool { return off() <= 1 })
		took := time.Since(came)
		t.Logf("%s came: within one slot of fair shares after %.1f s: %v", name, took.Seconds(), c.slotsOf())
		if took > within {
			t.Errorf("that is more than %s", within)
		}
		for until := time.Now().Add(3 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
			if worst := off(); worst > 1 {
				t.Errorf("then they are %.2f slots off: %v", worst, c.slotsOf())
				break
			}
		}
	}
	for name := range weights {
		c.ask("stop", name).wait(0)
	}
	c.awaitAll(5 * time.Minute)
	c.finish()
}
