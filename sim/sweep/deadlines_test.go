package sweep

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierml/tierml/market"
)

// invented returns a recording of ten days: spells whose lengths differ by a factor of a thousand, as in reality.
func invented(t *testing.T, seed uint64, machines int) Recording {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	begin, end := time.Date(2023, 2, 15, 0, 0, 0, 0, time.UTC), time.Date(2023, 2, 25, 0, 0, 0, 0, time.UTC)
	var points []market.AvailabilityPoint
	for at, up := begin, 0; at.Before(end); up = machines - up {
		points = append(points, market.AvailabilityPoint{At: at, Count: up})
		spell := 5 * time.Minute
		for random.IntN(4) > 0 && spell < 24*time.Hour {
			spell *= 2
		}
		at = at.Add(spell)
	}
	a, err := market.NewAvailability(points, end)
	if err != nil {
		t.Fatal(err)
	}
	return Recording{
		Name:  "invented",
		Pool:  market.Pool{Provider: "ec2", Region: "us-west-2", Zone: "us-west-2a", Type: "m", Class: market.Spot},
		Type:  market.InstanceType{Name: "m", VCPU: 8, OnDemand: market.Dollar},
		Every: 5 * time.Minute, Availability: a, Machines: machines,
		Prices: market.NewHistory([]market.PricePoint{{At: begin, Price: 3 * market.Dollar / 10}}),
	}
}

// TestDeadlines: on four invented markets no deadline is missed, and the policy deadline costs less than Uniform Progress.
func TestDeadlines(t *testing.T) {
	for _, book := range []string{"gce-spot", "ec2-now"} {
		rules, err := market.Rules(book)
		if err != nil {
			t.Fatal(err)
		}
		d := Deadlines{Policies: []string{"uniform-progress", "deadline"}, Work: 10 * time.Hour, Slacks: []float64{1.1, 1.5},
			Changeovers: []time.Duration{6 * time.Minute, 12 * time.Minute}, Rules: rules, Starts: 10, Seed: 1}
		for seed := range uint64(4) {
			d.Recordings = append(d.Recordings, invented(t, seed, 1+3*int(seed%2)))
		}
		cells, err := d.Run(t.Context(), func(int, int) {})
		if err != nil {
			t.Fatal(err)
		}
		if len(cells) != 4*2*2*2 {
			t.Fatalf("%d cells", len(cells))
		}
		var uniform, ours float64
		for _, c := range cells {
			if c.Missed > 0 || c.Starts != 10 || c.CostMean <= 0.3*10-3 || c.CostMean > 10*c.Slack {
				t.Errorf("%+v", c)
			}
			if c.Policy == "deadline" {
				ours += c.CostMean
			} else {
				uniform += c.CostMean
			}
		}
		if ours >= uniform {
			t.Errorf("by %s it costs %g, Uniform Progress %g", book, ours/16, uniform/16)
		}
		again, err := d.Run(t.Context(), func(int, int) {})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(cells, again); diff != "" {
			t.Errorf("the same again: %s", diff)
		}
	}
}

func TestDeadlinesRefuses(t *testing.T) {
	rules, err := market.Rules("gce-spot")
	if err != nil {
		t.Fatal(err)
	}
	d := Deadlines{Recordings: []Recording{invented(t, 1, 1)}, Policies: []string{"deadline"}, Work: 240 * time.Hour,
		Slacks: []float64{1.5}, Changeovers: []time.Duration{time.Minute}, Rules: rules}
	if _, err := d.Run(t.Context(), func(int, int) {}); err == nil || !strings.Contains(err.Error(), "as long as a deadline") {
		t.Errorf("too short a recording: %v", err)
	}
	d.Work, d.Recordings[0].Machines = time.Hour, 0
	if _, err := d.Run(t.Context(), func(int, int) {}); err == nil || !strings.Contains(err.Error(), "no machine") {
		t.Errorf("no machines: %v", err)
	}
}

// TestDeadlinesTogether: with several pools a job costs no more than in the best one, and misses no deadline either.
func TestDeadlinesTogether(t *testing.T) {
	rules, err := market.Rules("gce-spot")
	if err != nil {
		t.Fatal(err)
	}
	d := Deadlines{Policies: []string{"uniform-progress", "deadline"}, Work: 10 * time.Hour, Slacks: []float64{1.1, 1.5},
		Changeovers: []time.Duration{12 * time.Minute}, Rules: rules, Starts: 20, Seed: 1}
	for i, zone := range []string{"us-west-2a", "us-west-2b", "us-west-2c"} {
		r := invented(t, uint64(i), 1)
		r.Pool.Zone = zone
		d.Recordings = append(d.Recordings, r)
	}
	alone, err := d.Run(t.Context(), func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	d.Together = true
	together, err := d.Run(t.Context(), func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range together {
		if c.Missed > 0 {
			t.Errorf("%+v", c)
		}
		for j := i; j < len(alone); j += len(together) {
			if c.CostMean > alone[j].CostMean {
				t.Errorf("%s with slack %g: %g together, %g in one pool", c.Policy, c.Slack, c.CostMean, alone[j].CostMean)
			}
		}
	}
	if together[1].CostMean >= together[0].CostMean || together[3].CostMean >= together[2].CostMean {
		t.Errorf("deadline does not cost less than Uniform Progress: %+v", together)
	}
	d.Recordings[1].Pool = d.Recordings[0].Pool
	if _, err := d.Run(t.Context(), func(int, int) {}); err == nil || !strings.Contains(err.Error(), "one pool") {
		t.Errorf("one pool twice: %v", err)
	}
}

// TestDeadlinesBetweenRegions: two regions give machines in turn, for three hours each. A job whose state is cheap to move follows; one
// whose state costs more than on demand stays where it began.
func TestDeadlinesBetweenRegions(t *testing.T) {
	rules, err := market.Rules("gce-spot")
	if err != nil {
		t.Fatal(err)
	}
	d := Deadlines{Policies: []string{"uniform-progress", "deadline", "skynomad"}, Work: 10 * time.Hour, Slacks: []float64{1.5},
		Changeovers: []time.Duration{12 * time.Minute}, Rules: rules, Starts: 5, Seed: 1, Together: true}
	d.Recordings = inTurn(t)
	run := func(state int64) []Cell {
		d.State = state
		cells, err := d.Run(t.Context(), func(int, int) {})
		if err != nil {
			t.Fatal(err)
		}
		return cells
	}
	free, some, much := run(0), run(1e9), run(1e12)
	for i := range free {
		if free[i].Egress != 0 || free[i].Evictions < 1 || free[i].Missed+some[i].Missed+much[i].Missed > 0 {
			t.Errorf("%+v", free[i])
		}
		// 1 GB, at two cents, moves at most with each fleet but the first; an hour on demand costs a dollar.
		if moves := some[i].Egress / 0.02; moves < 1 || moves > some[i].Machines-1+0.01 {
			t.Errorf("%g moves: %+v", moves, some[i])
		}
		if much[i].Egress != 0 || much[i].CostMean <= some[i].CostMean {
			t.Errorf("it moved a terabyte: %+v", much[i])
		}
	}
}

// inTurn returns two regions, each of which gives a machine exactly when the other has none, for three hours at a time.
func inTurn(t *testing.T) (out []Recording) {
	t.Helper()
	for i, region := range []string{"us-east-1", "us-west-2"} {
		r := invented(t, 1, 1)
		begin, end := time.Date(2023, 2, 15, 0, 0, 0, 0, time.UTC), time.Date(2023, 2, 25, 0, 0, 0, 0, time.UTC)
		var points []market.AvailabilityPoint
		for at, n := begin, i; at.Before(end); at, n = at.Add(3*time.Hour), n+1 {
			points = append(points, market.AvailabilityPoint{At: at, Count: n % 2})
		}
		var err error
		if r.Availability, err = market.NewAvailability(points, end); err != nil {
			t.Fatal(err)
		}
		r.Pool.Region, r.Pool.Zone = region, region+"a"
		out = append(out, r)
	}
	return out
}
