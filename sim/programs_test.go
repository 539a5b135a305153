package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sched/trials"
)

// programRun returns a run of programs of six hours each on machines of one type, in a market that never changes.
func programRun(t *testing.T, p Programs, change func(*Config)) (Result, []journal.Entry) {
	t.Helper()
	var entries []journal.Entry
	cfg := scenario(t, a())
	cfg.Horizon = 100 * time.Hour
	cfg.Policy, cfg.Programs, cfg.Reliable = bidding.Checkpoint{}, &p, elasticity.Reliable{}
	cfg.Want = bidding.Want{Machines: p.Count}
	cfg.Job = Workload{Clocks: 1, Splits: 1, Partitions: 1}
	cfg.Job.Work = 6 * time.Hour.Seconds() * cfg.Pools[0].Type.WorkRate() * cfg.FLOPSPerVCPU / cfg.Timing.Speed * float64(p.number())
	cfg.Record = func(e journal.Entry) { entries = append(entries, e) }
	if change != nil {
		change(&cfg)
	}
	r, err := Run(cfg)
	if err != nil || r.Outcome != "finished" {
		t.Fatalf("%+v, %v", r, err)
	}
	return r, entries
}

// Undisturbed, a program takes its time, and an array that time for each round. A machine evicted with a notice costs its replacement, one
// without also the work since the last save; a task that loses its machine does not stop the others.
func TestProgramsTakeTheirTime(t *testing.T) {
	state := Programs{Count: 1, State: true, Every: time.Hour, Setup: 10 * time.Minute, Restore: 5 * time.Minute}
	calm, _ := programRun(t, state, nil)
	if least := 6*time.Hour + 10*time.Minute; calm.Runtime < least || calm.Runtime > least+20*time.Minute {
		t.Errorf("undisturbed it takes %s", calm.Runtime)
	}
	fault := func(do Verb) func(*Config) {
		return func(c *Config) { c.Faults = []Fault{{At: 4*time.Hour + 50*time.Minute, Do: do, Target: "all"}} }
	}
	warned, _ := programRun(t, state, fault(Evict))
	killed, entries := programRun(t, state, fault(Kill))
	if more := warned.Runtime - calm.Runtime; more < 15*time.Minute || more > 30*time.Minute {
		t.Errorf("after a notice it takes %s more", more)
	}
	if more := killed.Runtime - warned.Runtime; more < 20*time.Minute || more > time.Hour {
		t.Errorf("without a notice it takes %s more", more)
	}
	lost := 0
	for _, e := range entries {
		if e.Kind == journal.ProgramEnd && e.Outcome == journal.Lost {
			lost++
		}
	}
	if lost != 1 {
		t.Errorf("%d attempts are lost", lost)
	}

	array := Programs{Count: 2, Tasks: 5, State: true, Every: time.Hour}
	tasks, _ := programRun(t, array, nil)
	if tasks.Runtime < 18*time.Hour || tasks.Runtime > 18*time.Hour+30*time.Minute || tasks.Clocks != 5 {
		t.Errorf("five tasks on two machines: %+v", tasks)
	}
	disturbed, _ := programRun(t, array, func(c *Config) { c.Faults = []Fault{{At: 3 * time.Hour, Do: Kill, Count: 1}} })
	if more := disturbed.Runtime - tasks.Runtime; more > 90*time.Minute {
		t.Errorf("one machine lost costs the array %s", more)
	}
	gang, _ := programRun(t, Programs{Count: 3, State: true, Every: time.Hour}, func(c *Config) { c.Faults = []Fault{{At: 3*time.Hour + 30*time.Minute, Do: Evict, Count: 1}} })
	if gang.Runtime < 6*time.Hour || gang.Runtime > 6*time.Hour+45*time.Minute || gang.Machines != 4 {
		t.Errorf("a gang that loses a machine: %+v", gang)
	}
}

// A gang of two to four machines begins on two if no more are available, and takes twice as long; when more become available it continues
// with four, and each new rank begins with what the others have done.
func TestProgramsOfARange(t *testing.T) {
	gang := Programs{Count: 4, Least: 2, State: true, Every: 30 * time.Minute}
	two, _ := programRun(t, gang, func(c *Config) { c.Capacity = map[market.Pool]int{c.Pools[0].Pool: 2} })
	if two.Runtime < 12*time.Hour || two.Runtime > 12*time.Hour+45*time.Minute || two.Machines != 2 {
		t.Errorf("with two machines of four: %+v", two)
	}
	// Two of four are reclaimed after an hour, and for two more hours no others are available: 4 + 2*2 of 24 machine hours are done by then.
	grown, entries := programRun(t, gang, func(c *Config) {
		c.Faults = []Fault{{At: time.Hour, Do: Evict, Count: 2}, {At: time.Hour, Do: NoCapacity, For: 2 * time.Hour}}
	})
	if grown.Runtime < 7*time.Hour || grown.Runtime > 8*time.Hour+30*time.Minute || grown.Machines != 6 {
		t.Errorf("with two machines of four for two hours: %+v", grown)
	}
	var ranks []int
	for _, e := range entries {
		if e.Kind == journal.ProgramStart && e.Program == "rank-0" {
			ranks = append(ranks, 0)
		}
		if e.Kind == journal.ProgramStart {
			ranks[len(ranks)-1]++
		}
	}
	if !slices.Equal(ranks, []int{4, 2, 4}) {
		t.Errorf("its attempts had %v ranks", ranks)
	}
}

// Every policy that serves programs finishes them despite a price that exceeds all bids, evictions that prices do not show and a machine
// lost without notice; and an unattractive pool changes nothing.
func TestProgramsByEveryPolicy(t *testing.T) {
	for what, p := range map[string]Programs{
		"one":       {Count: 1, State: true, Every: 30 * time.Minute, Setup: 5 * time.Minute, Restore: time.Minute, Save: time.Second},
		"a gang":    {Count: 3, State: true, Every: 30 * time.Minute, Setup: 5 * time.Minute, Restore: time.Minute, Save: time.Second},
		"an array":  {Count: 3, Tasks: 7, State: true, Every: 30 * time.Minute, Setup: 5 * time.Minute},
		"stateless": {Count: 1, Setup: 5 * time.Minute},
	} {
		for _, name := range bidding.NamesForPrograms() {
			for _, rules := range []string{"ec2-2017", "ec2-now"} {
				policy, err := bidding.ForPrograms(name)
				if err != nil {
					t.Fatal(err)
				}
				by := func(pools ...bidding.Candidate) func(*Config) {
					return func(c *Config) {
						if c.Rules, err = market.Rules(rules); err != nil {
							t.Fatal(err)
						}
						onDemand := a()
						onDemand.Pool.Class, onDemand.History = market.OnDemand, market.Constant(onDemand.Type.OnDemand)
						c.Pools = append(pools, onDemand, crossing(), b())
						slices.SortFunc(c.Pools, func(a, b bidding.Candidate) int { return a.Pool.Compare(b.Pool) })
						c.Policy, c.Deadline, c.Horizon = policy, c.Start.Add(60*time.Hour), 100*time.Hour
						c.Faults = []Fault{{At: 40 * time.Minute, Do: Kill, Count: 1}, {At: 5 * time.Hour, Do: Evict, Count: 1}}
					}
				}
				r, _ := programRun(t, p, by())
				absurd, _ := programRun(t, p, by(never()))
				if absurd != r {
					t.Errorf("%s by %s under %s: %+v with a pool that is of no use, %+v without", what, name, rules, absurd, r)
				}
				most := 40 * time.Hour
				if name == (bidding.SkyNomad{}).Name() {
					most = 60 * time.Hour // it waits for cheap hours until the deadline presses
				}
				if r.Saved != 1 || r.Cost <= 0 || r.Runtime > most {
					t.Errorf("%s by %s under %s: %+v", what, name, rules, r)
				}
				t.Logf("%-9s %-22s %-8s %s in %s, %d machines", what, name, rules, r.Cost.Cents(), r.Runtime, r.Machines)
			}
		}
	}
}

// Feedback ends most trials of a sweep early: as many continue as the rungs keep, and the work is that share of the whole.
func TestSweepTakesItsShare(t *testing.T) {
	sweep := Programs{Count: 3, Tasks: 12, State: true, Every: time.Hour, Of: 100, Rungs: []trials.Rung{{At: 10, Keep: 4}, {At: 50, Keep: 1}}}
	whole, _ := programRun(t, Programs{Count: 3, Tasks: 12, State: true, Every: time.Hour}, nil)
	for name, fault := range map[string]Verb{"calm": "", "evicted": Evict, "killed": Kill} {
		r, entries := programRun(t, sweep, func(c *Config) {
			c.Job.Work *= sweep.Share()
			if fault != "" {
				c.Faults = []Fault{{At: time.Hour, Do: fault, Count: 2}}
			}
		})
		done, dropped := 0, 0
		for _, e := range entries {
			switch {
			case e.Kind == journal.ProgramEnd && e.Outcome == journal.Finished:
				done++
			case e.Kind == journal.ProgramDropped:
				dropped++
			}
		}
		// The last trials run alone: 3 h at 10 steps, then 40 steps of 4 trials on 3 machines, then 50 of one.
		if done != 1 || dropped != 11 || r.Runtime > whole.Runtime/2 {
			t.Errorf("%s: %d done, %d dropped after %s; all take %s", name, done, dropped, r.Runtime, whole.Runtime)
		}
	}
}

// Prices and the notices that follow from them reach a run in any order, and late if a computer is busy. What is bought, and for how long,
// does not depend on it: a machine that boots as the price rises counts as lost, and is not returned.
func TestEventsInAnyOrder(t *testing.T) {
	for _, name := range bidding.NamesForPrograms() {
		policy, err := bidding.ForPrograms(name)
		if err != nil {
			t.Fatal(err)
		}
		var first Result
		for _, lag := range []time.Duration{100, 190, 210, 400, 800, 1200} { // milliseconds; prices arrive after 200
			r, _ := programRun(t, Programs{Count: 3, Tasks: 8}, func(c *Config) {
				rules, err := market.Rules("gce-spot")
				if err != nil {
					t.Fatal(err)
				}
				*c = c.At(tempo.Place{Speed: 120, Boot: 6 * time.Second, Notice: 24 * time.Second, DeadAfter: time.Second})
				c.Job.Work = 8 * 2 * time.Hour.Seconds() * c.Pools[0].Type.WorkRate() * c.FLOPSPerVCPU / c.Timing.Speed
				onDemand := a()
				onDemand.Pool.Class, onDemand.History = market.OnDemand, market.Constant(onDemand.Type.OnDemand)
				rises := candidate("a", 4, 24*cent, 0, 5, 3, 100, 3.1, 5, 3.2, 100, 3.3, 5, 3.6, 100, 4, 6, 4.1, 100, 4.3, 5)
				c.Pools, c.Policy, c.Rules = []bidding.Candidate{onDemand, rises}, policy, rules
				c.Deadline, c.Horizon, c.Timing.NoticeLag = c.Start.Add(30*time.Hour), 100*time.Hour, lag*time.Millisecond*120
			})
			if first.Cost == 0 {
				first = r
			}
			if most := first.Cost / 25; max(r.Cost-first.Cost, first.Cost-r.Cost) > most || r.Bought != first.Bought || r.Evictions != first.Evictions {
				t.Errorf("%s: with notices after %d ms %+v, after 100 ms %+v", name, lag, r, first)
			}
		}
		t.Logf("%s: %+v", name, first)
	}
}
