package sched

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The example of the DRF paper (NSDI 2011, section 4.1): 9 CPUs and 18 GB; A's tasks take 1 CPU and 4 GB, B's 3 CPUs and 1 GB. A gets 3 tasks
// and B 2, each a dominant share of two thirds.
func TestPaperDRFExample(t *testing.T) {
	s := State{Hosts: []Host{{"h", Resources{9, 18}}}, Jobs: []Job{
		{ID: "A", Phase: Queued, Demand: Resources{1, 4}}, {ID: "B", Phase: Queued, Demand: Resources{3, 1}},
	}}
	p := DRF{}.Plan(s)
	if got := counts(p); got != "A 3+0, B 2+0" {
		t.Errorf("%s, want A 3+0, B 2+0", got)
	}
	for _, g := range p.Grants {
		if !strings.Contains(g.Why, "0.667") {
			t.Errorf("%s: %s", g.Job, g.Why)
		}
	}
}

// GPUs are A's dominant resource, vCPUs B's, and both equally C's: a unit is a quarter of a host's GPUs for A, an eighth for B and C.
func TestDRFCountsGPUs(t *testing.T) {
	s := State{Hosts: []Host{{"h", Resources{32, 64, 8}}}, Jobs: []Job{
		{ID: "A", Phase: Queued, Demand: Resources{1, 1, 2}}, {ID: "B", Phase: Queued, Demand: Resources{4, 1, 0}}, {ID: "C", Phase: Queued, Demand: Resources{4, 1, 1}},
	}}
	p := DRF{}.Plan(s)
	if got := counts(p); got != "A 2+0, B 4+0, C 3+0" {
		t.Error(got)
	}
	if err := Check(s, p); err != nil {
		t.Error(err)
	}
}

// Section 4.3 of the DRF paper: shares are in the ratio of weights.
func TestPaperDRFWeights(t *testing.T) {
	s := State{Hosts: cluster(7, 4, 64)}
	for i, w := range []float64{1, 2, 4} {
		s.Jobs = append(s.Jobs, Job{ID: fmt.Sprint(i), Phase: Queued, Weight: w, Demand: Resources{1, 1}})
	}
	if got := counts(DRF{}.Plan(s)); got != "0 4+0, 1 8+0, 2 16+0" {
		t.Error(got)
	}
}

// Fairness is first among groups: a group with five jobs gets the same as a group with one.
func TestDRFGroups(t *testing.T) {
	s := State{Hosts: cluster(5, 4)}
	for i := range 5 {
		s.Jobs = append(s.Jobs, Job{ID: fmt.Sprintf("a%d", i), Group: "a", Phase: Queued, Demand: Resources{1}})
	}
	s.Jobs = append(s.Jobs, Job{ID: "b", Group: "b", Phase: Queued, Demand: Resources{1}})
	if got := counts(DRF{}.Plan(s)); got != "a0 2+0, a1 2+0, a2 2+0, a3 2+0, a4 2+0, b 10+0" {
		t.Error(got)
	}
}

// Litz's priority scheduling takes only workers, from jobs of no higher priority, and never the last one.
func TestPaperPriorityTakesWorkersOnly(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(200) {
		s := onHosts(24, running("a", 8, 4, .5), running("b", 8, 4, .4), submitted(8, 4))
		s.Seed = seed
		p := Priority{}.Plan(s)
		if err := Check(s, p); err != nil {
			t.Fatal(err)
		}
		for _, g := range p.Grants[:2] {
			if g.Servers != 4 || g.Workers < 1 {
				t.Fatalf("%+v", g)
			}
		}
		seen[counts(p)] = true
	}
	if len(seen) < 3 {
		t.Errorf("only %v", seen)
	}
	s := onHosts(24, running("a", 8, 4, .5), running("b", 8, 4, .4), submitted(8, 4))
	s.Jobs[0].Priority, s.Jobs[1].Priority = 1, 1
	if got := counts(Priority{}.Plan(s)); got != "a 8+4, b 8+4, new 0+0" {
		t.Errorf("of jobs of higher priority: %s", got)
	}
}

// Optimus's greedy algorithm (EuroSys 2018, section 4.1) finds the optimum of exhaustive search, on paces that its model fits exactly.
func TestPaperMarginalGain(t *testing.T) {
	fits := []Fit{{160, 1, .35, 0, 0}, {40, .5, 2, .01, .02}}
	s := State{Hosts: cluster(4, 4)}
	for i, f := range fits {
		j := Job{ID: fmt.Sprint(i), Phase: Training, Demand: Resources{1}, WantWorkers: 4, WantServers: 2, Total: 1000}
		for _, at := range [][2]int{{1, 1}, {2, 1}, {4, 2}, {3, 3}, {8, 2}, {6, 5}, {12, 1}} {
			j.Pace = append(j.Pace, Measured{at[0], at[1], 1 / f.Seconds(at[0], at[1])})
		}
		got, ok := j.Pace.Fit()
		for _, at := range [][2]int{{5, 2}, {9, 4}} {
			if want := f.Seconds(at[0], at[1]); !ok || math.Abs(got.Seconds(at[0], at[1])-want) > .02*want {
				t.Errorf("job %d at %v: %v s a clock, want %v", i, at, got.Seconds(at[0], at[1]), want)
			}
		}
		s.Jobs = append(s.Jobs, j)
	}
	sum := func(w0, s0, w1, s1 int) float64 { return 1000 * (fits[0].Seconds(w0, s0) + fits[1].Seconds(w1, s1)) }
	least := math.Inf(1)
	for w0 := 1; w0 < 16; w0++ {
		for s0 := 1; w0+s0 < 15; s0++ {
			for w1 := 1; w0+s0+w1 < 16; w1++ {
				for s1 := 1; w0+s0+w1+s1 <= 16; s1++ {
					least = min(least, sum(w0, s0, w1, s1))
				}
			}
		}
	}
	p := Marginal{}.Plan(s)
	g0, g1 := p.Grants[0], p.Grants[1]
	if got := sum(g0.Workers, g0.Servers, g1.Workers, g1.Servers); got > 1.01*least {
		t.Errorf("%s takes %v s in all, and %v are possible", counts(p), got, least)
	}
}

// Each deadline is met with the fewest units; an impossible one takes nothing from possible ones; the rest is used.
func TestDeadline(t *testing.T) {
	fit := Fit{100, 0, 0, 0, 0} // a clock takes 100 s by the number of workers
	job := func(id string, due float64) Job {
		j := Job{ID: id, Phase: Queued, Demand: Resources{1}, WantWorkers: 1, Total: 10, Deadline: due}
		for _, w := range []int{1, 2, 5} {
			j.Pace = append(j.Pace, Measured{w, 0, 1 / fit.Seconds(w, 0)})
		}
		return j
	}
	s := State{Hosts: cluster(8, 1), Jobs: []Job{job("a", 500), job("b", 250), job("hopeless", 10)}}
	p := Deadline{}.Plan(s)
	if got := counts(p); got != "a 2+0, b 4+0, hopeless 2+0" {
		t.Errorf("%s: %+v", got, p)
	}
	s.Now = 100 // 400 and 150 s are left: 3 and 7 workers do not fit, and the earlier deadline goes first
	if got := counts(Deadline{}.Plan(s)); !strings.HasPrefix(got, "a 1+0, b 7+0") {
		t.Error(got)
	}
	early, late := job("early", 1100), job("late", 900) // measured with one worker, with which they take 1000 s
	early.Pace, late.Pace = early.Pace[:1], late.Pace[:1]
	p = Deadline{}.Plan(State{Hosts: cluster(8, 1), Jobs: []Job{early, late}})
	if got := counts(p); got != "early 1+0, late 2+0" || !strings.Contains(p.Grants[1].Why, "is late by its pace") {
		t.Errorf("%s: %+v", got, p)
	}
}

// Algorithm 2 of ASHA with pauses: nine trials on two places, factor 3. At each rung the best third of those that reached it continues.
func TestPaperASHA(t *testing.T) {
	losses := []float64{.5, .9, .3, .8, .7, .2, math.NaN(), .6, .4}
	s := State{Hosts: cluster(2, 2)}
	for i := range losses {
		s.Jobs = append(s.Jobs, Job{ID: fmt.Sprint(i), Phase: Queued, Arrived: float64(i), Demand: Resources{1}, WantWorkers: 1, WantServers: 1})
	}
	promoted := map[string]int{}
	for range 60 {
		p := ASHA{}.Plan(s)
		if err := Check(s, p); err != nil {
			t.Fatal(err)
		}
		busy := 0
		for i := range s.Jobs {
			j := &s.Jobs[i]
			g, _ := p.Grant(j.ID)
			switch g.Action {
			case Start, Keep, Resume:
				j.Phase = Training
				busy++
			case Pause:
				j.Phase = Paused
			}
			j.Workers, j.Servers, j.Where, j.Until = g.Workers, g.Servers, g.Where, g.Until
			promoted[j.ID] = max(promoted[j.ID], g.Until)
			if j.runs() { // it reaches its next rung before the next plan
				j.Rungs = append(j.Rungs, losses[i])
			}
		}
		if busy == 0 {
			break
		}
	}
	// Of the nine, the best three are 5, 2 and 8; when three had arrived, 2 was the best of 0, 1 and 2.
	for id, want := range map[string]int{"1": 0, "3": 0, "4": 0, "6": 0, "7": 0, "5": 1} {
		if promoted[id] < want || want == 0 && promoted[id] > 0 {
			t.Errorf("trial %s was promoted to rung %d, want %d", id, promoted[id], want)
		}
	}
	if promoted["2"] < 1 || promoted["8"] < 1 {
		t.Errorf("promoted: %v", promoted)
	}
}

// randomState has jobs in all phases on hosts of several types, as far as they fit.
func randomState(r *rand.Rand) State {
	s := State{Seed: r.Uint64()}
	for i := range 1 + r.IntN(6) {
		s.Hosts = append(s.Hosts, Host{fmt.Sprintf("h%d", i), [...]Resources{{12, 0, 128}, {12, 1, 128}, {32, 8, 256}}[r.IntN(3)]})
	}
	free := begin(s)
	for i := range r.IntN(8) {
		j := Job{
			ID: fmt.Sprintf("j%02d", i), Group: [...]string{"", "a", "b"}[r.IntN(3)], Phase: Queued, Arrived: float64(r.IntN(50)), Weight: float64(r.IntN(4)),
			Demand:      [...]Resources{{2, 0, 8}, {4, 0, 6}, {4, 1, 32}, {1, 0, 1}}[r.IntN(4)],
			WantWorkers: 1 + r.IntN(6), WantServers: r.IntN(4), Overhead: r.IntN(2), Total: 1000, Loss: r.Float64(), Done: float64(r.IntN(900)),
		}
		j.MostWorkers = j.WantWorkers + r.IntN(10)
		j.Deadline = float64(r.IntN(3) * r.IntN(5000))
		d := &draft{Job: j, host: make([]place, len(s.Hosts))}
		w, sv := j.WantWorkers, j.WantServers
		switch r.IntN(4) {
		case 0:
			j.Phase = Paused
		case 1:
			if free.resize(d, w, sv) {
				j.Phase = Feedback
			}
		case 2:
			if free.resize(d, w, sv) {
				j.Phase = Training
			}
		}
		if j.runs() {
			j.Workers, j.Servers, j.Where = w, sv, free.where(d)
			for range r.IntN(6) {
				j.Pace = append(j.Pace, Measured{1 + r.IntN(8), min(j.WantServers, 1+r.IntN(4)), .01 + r.Float64()})
			}
		}
		for range r.IntN(3) {
			j.Rungs = append(j.Rungs, r.Float64())
		}
		s.Jobs = append(s.Jobs, j)
	}
	return s
}

// What holds for every plan (check), with every policy; and equal states give equal plans, whatever the order of the jobs.
func TestEveryPlan(t *testing.T) {
	for _, p := range policies {
		t.Run(p.Name(), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 8))
			states := 1500
			if _, searches := p.(Dorm); searches {
				states = 300
			}
			for i := range states {
				s := randomState(r)
				plan := p.Plan(s)
				if err := Check(s, plan); err != nil {
					t.Fatalf("state %d: %v\n%+v", i, err, s)
				}
				slices.Reverse(s.Jobs)
				if again := p.Plan(s); !reflect.DeepEqual(plan, again) {
					t.Fatalf("state %d: %+v\nand with the jobs in another order %+v", i, plan, again)
				}
			}
		})
	}
}

// Without any host, as between two evictions, every job waits or is paused.
func TestNoHosts(t *testing.T) {
	for _, p := range policies {
		s := onHosts(24, running("a", 8, 4, .5), running("b", 4, 2, 0), submitted(8, 4))
		s.Hosts = nil
		for i := range s.Jobs {
			s.Jobs[i].Workers, s.Jobs[i].Servers, s.Jobs[i].Where = 0, 0, nil
		}
		if err := Check(s, p.Plan(s)); err != nil {
			t.Errorf("%s: %v", p.Name(), err)
		}
	}
}

func TestByName(t *testing.T) {
	if !slices.IsSorted(Names()) {
		t.Error(Names())
	}
	for _, name := range Names() {
		if p, err := ByName(name); err != nil || p.Name() != name {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	for name, want := range map[string]Policy{"dorm:0.2,1": Dorm{Theta1: .2, Theta2: 1}, "dorm:0,0.5": Dorm{Theta1: -1, Theta2: .5}, "feedback:unpriced": EarlyFeedback{Unpriced: true}} {
		if p, err := ByName(name); err != nil || p != want || p.Name() != name {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	for name, want := range map[string]string{"dorm:": "write THETA1,THETA2", "dorm:.1,2": "from 0 to 1", "dorm:x,.1": `"x"`, "feedback:cheap": "unpriced", "drf:1": "has no settings"} {
		if _, err := ByName(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if _, err := ByName("fifa"); err == nil || !strings.Contains(err.Error(), "did you mean fifo?") {
		t.Error(err)
	}
}

func cluster(count int, capacity ...float64) []Host {
	var hosts []Host
	for i := range count {
		hosts = append(hosts, Host{ID: fmt.Sprintf("h%03d", i), Capacity: capacity})
	}
	return hosts
}

// In a sweep with feedback at two clocks, the best at each continue, whether or not they have ended; a trial that was out at the first does
// not count later.
func TestTrialsAreComparedAtEachFeedback(t *testing.T) {
	trial := func(id string, rungs ...float64) Job {
		return Job{ID: id, Sweep: "s", Phase: Training, Demand: Resources{1}, WantWorkers: 1, Workers: 1, Where: []Place{{Host: "h000", Workers: 1}},
			Keeps: []int{3, 1}, Rungs: rungs, Loss: rungs[0], Total: 100}
	}
	s := State{Hosts: cluster(1, 8), Jobs: []Job{trial("a", .1, .4), trial("b", .2, .3), trial("c", .3), trial("d", .4, .01)}}
	killed := func(s State) (ids []string) {
		for _, p := range []Policy{H{}, KillWorst{}, EarlyFeedback{}} {
			plan := p.Plan(s)
			if err := Check(s, plan); err != nil {
				t.Fatal(err)
			}
			var these []string
			for _, g := range plan.Grants {
				if g.Action == Kill {
					these = append(these, g.Job)
				}
			}
			if ids != nil && !slices.Equal(ids, these) {
				t.Errorf("%s kills %v, and the one before %v", p.Name(), these, ids)
			}
			ids = these
		}
		return ids
	}
	if got := killed(s); fmt.Sprint(got) != "[a d]" {
		t.Errorf("%v are killed: d is the worst of four at the first feedback, a is worse than b at the second", got)
	}
	s.Past = []Job{{ID: "e", Sweep: "s", Rungs: []float64{.15, .2}}, {ID: "other", Sweep: "r", Rungs: []float64{0, 0}}}
	if got := killed(s); fmt.Sprint(got) != "[a b c d]" {
		t.Errorf("%v are killed, and e, which is over, is the best at the second feedback", got)
	}
	s.Past[0].Rungs = []float64{.9, .01} // it was out at the first
	if got := killed(s); fmt.Sprint(got) != "[a d]" {
		t.Errorf("%v are killed", got)
	}
}

// A sweep with a known number of trials ends: a paused trial that cannot be among the best is stopped, and if the best third of the present
// trials rounds down to none, the best one continues.
func TestASHAEndsSweeps(t *testing.T) {
	paused := func(id string, rungs ...float64) Job {
		return Job{ID: id, Sweep: "s", Phase: Paused, Demand: Resources{1}, WantWorkers: 1, Rungs: rungs, Until: len(rungs) - 1, Trials: 8}
	}
	s := State{Hosts: cluster(1, 8), Jobs: []Job{paused("a", .3), paused("b", .2), paused("c", .1)}}
	actions := func() (text string) {
		p := ASHA{}.Plan(s)
		if err := Check(s, p); err != nil {
			t.Fatal(err)
		}
		for _, g := range p.Grants {
			text += g.Job + " " + string(g.Action) + ", "
		}
		return text
	}
	if got := actions(); got != "a kill, b pause, c resume, " { // of eight, two continue
		t.Error(got)
	}
	s.Past = []Job{{ID: "d", Sweep: "s", Rungs: []float64{.05}}, {ID: "e", Sweep: "s", Rungs: []float64{.06}}, {ID: "f", Sweep: "s"}, {ID: "g", Sweep: "s"}, {ID: "h", Sweep: "s"}}
	if got := actions(); got != "a kill, b kill, c kill, " { // five have arrived, three never will
		t.Error(got)
	}
	s.Jobs, s.Past = []Job{paused("a", .3, .3), paused("b", .2, .2)}, append(s.Past, Job{ID: "c", Sweep: "s", Rungs: []float64{.9}})
	if got := actions(); got != "a kill, b resume, " {
		t.Error(got)
	}
}
