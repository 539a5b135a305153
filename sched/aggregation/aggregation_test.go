package aggregation

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const s = time.Second

func arrive(t *testing.T, p *Pool, id string, iteration time.Duration, execs ...time.Duration) Change {
	t.Helper()
	of := Tenant{ID: id, Iteration: iteration}
	for _, e := range execs {
		of.Tasks = append(of.Tasks, Task{Exec: e})
	}
	c, err := p.Arrive(of)
	if err != nil {
		t.Fatal(err)
	}
	p.holds(t)
	return c
}

// holds checks appendix C's constraints, and that the pool's books agree.
func (p *Pool) holds(t *testing.T) {
	t.Helper()
	tasks := map[*aggregator]int{}
	for _, j := range p.jobs {
		for i, a := range j.at {
			if a == nil || !slices.Contains(p.aggregators, a) {
				t.Fatalf("task %d of job %s is nowhere", i, j.ID)
			}
			tasks[a]++
		}
		if l := p.Loss(j.ID); l > p.limits.Loss+1e-12 {
			t.Fatalf("job %s loses %.3f of its speed", j.ID, l)
		}
	}
	for _, a := range p.aggregators {
		count := 0
		for _, l := range a.loads {
			count += l.tasks
		}
		if u := a.usage(a.cycle); count != tasks[a] || !a.holds(u, a.cycle, p.limits) {
			t.Fatalf("aggregator %d: %d tasks of %d, %s of work in a cycle of %s", a.id, count, tasks[a], u.work, a.cycle)
		}
	}
}

// Figure 5: two jobs of 6 and 12 s share a cycle of 12 s of which 5 s are free. A third of 5 s, executed for 1 s, would take 6 s an
// iteration there: 17 % of its speed.
func TestPaperFigure5(t *testing.T) {
	for _, c := range []struct {
		limit float64
		size  int
	}{{0.1, 2}, {0.2, 1}} {
		p := NewPool(Limits{Loss: c.limit})
		arrive(t, p, "J1", 6*s, 2*s)
		arrive(t, p, "J2", 12*s, 3*s)
		if a := p.aggregators[0]; p.Size() != 1 || a.cycle != 12*s || a.usage(a.cycle).work != 7*s {
			t.Fatalf("%d aggregators, cycle %s, work %s", p.Size(), a.cycle, a.usage(a.cycle).work)
		}
		if arrive(t, p, "J3", 5*s, s); p.Size() != c.size {
			t.Errorf("limit %.1f: %d aggregators, not %d", c.limit, p.Size(), c.size)
		}
		if lost := p.Loss("J3"); c.size == 1 && math.Abs(lost-1.0/6) > 1e-12 {
			t.Errorf("it loses %.3f of its speed", lost)
		}
	}
}

// Pseudocode 1, line 17, as printed compares one execution with what is free: a job of two turns in a cycle needs twice as much.
func TestPaperPseudocode1CountsEveryTurn(t *testing.T) {
	p := NewPool(Limits{Loss: 0.1})
	arrive(t, p, "slow", 12*s, 3*s) // 9 s are free
	arrive(t, p, "fast", 6*s, 5*s)  // of which it would take 10
	if p.Size() != 2 {
		t.Errorf("%d aggregators", p.Size())
	}
}

// Lines 16 to 21: of those that have room, the one with the least.
func TestPaperPseudocode1TakesTheBestFit(t *testing.T) {
	p := NewPool(Limits{Loss: 0.1})
	arrive(t, p, "a", 10*s, 8*s)
	arrive(t, p, "b", 10*s, 5*s)
	if c := arrive(t, p, "c", 10*s, 2*s); len(c.Moves) != 1 || c.Moves[0].To != 1 {
		t.Errorf("%+v", c)
	}
	if c := arrive(t, p, "d", 10*s, 4*s); len(c.Moves) != 1 || c.Moves[0].To != 2 || len(c.Allocated) != 0 {
		t.Errorf("%+v", c)
	}
}

// Section 3.3.1: a job is profiled on aggregators that it shares with nobody; once it was, everybody may use them.
func TestPaperProfilesApart(t *testing.T) {
	p := NewPool(Limits{Loss: 0.1})
	arrive(t, p, "old", 10*s, 2*s)
	if c := p.Profile("new", 2); len(c.Allocated) != 2 || p.Size() != 3 {
		t.Fatalf("%+v", c)
	}
	if c := arrive(t, p, "other", 10*s, 3*s); c.Moves[0].To != 1 {
		t.Errorf("another job came where a job is profiled: %+v", c)
	}
	if c := arrive(t, p, "new", 10*s, 4*s); c.Moves[0].To != 1 || len(c.Recycled) != 2 || p.Size() != 1 {
		t.Errorf("%+v", c)
	}
}

// Section 3.3.2: when a job has left, the least loaded aggregators are emptied as long as the others have room.
func TestPaperRecyclesTheLeastLoaded(t *testing.T) {
	p := NewPool(Limits{Loss: 0.1})
	arrive(t, p, "a", 10*s, 9*s)
	arrive(t, p, "b", 10*s, 6*s)
	arrive(t, p, "c", 10*s, 5*s)
	p.Leave("a")
	p.holds(t)
	arrive(t, p, "d", 10*s, 3*s) // next to b
	c := p.Recycle()
	p.holds(t)
	if p.Size() != 2 || !slices.Equal(c.Recycled, []int{1}) || len(c.Moves) != 0 {
		t.Fatalf("%d aggregators, %+v", p.Size(), c)
	}
	p.Leave("d")
	p.Leave("b")
	arrive(t, p, "e", 10*s, 4*s)
	if c := p.Recycle(); p.Size() != 1 || len(c.Recycled) != 1 {
		t.Errorf("%d aggregators, %+v", p.Size(), c)
	}
	p.holds(t)
}

// Section 3.3.3: a job goes to the cluster with the least free processor time that suffices. Where none has enough, ours is the one with
// the most.
func TestPaperForwardsToTheBestFitCluster(t *testing.T) {
	c := NewClusters(3, Limits{Loss: 0.1})
	for i, busy := range []time.Duration{7 * s, 5 * s, 8 * s} { // of 10 s
		arrive(t, c.pools[i], "first", 10*s, busy)
	}
	for _, step := range []struct {
		id      string
		exec    time.Duration // of 10 s
		cluster int
		size    int // of all clusters
	}{{"a", 3 * s, 0, 3}, {"b", 4 * s, 1, 3}, {"c", 2 * s, 2, 3}, {"d", 6 * s, 1, 4}} {
		cluster, _, err := c.Arrive(Tenant{ID: step.id, Iteration: 10 * s, Tasks: []Task{{Exec: step.exec}}})
		if err != nil || cluster != step.cluster || c.Size() != step.size {
			t.Errorf("%s: cluster %d, %d aggregators in all, %v; want %d and %d", step.id, cluster, c.Size(), err, step.cluster, step.size)
		}
		for _, p := range c.pools {
			p.holds(t)
		}
	}
	for _, id := range []string{"a", "b", "c", "d", "unknown"} {
		c.Leave(id)
	}
	if c.Recycle(); c.Size() != 3 || math.Abs(c.Busy()-2) > 1e-9 {
		t.Errorf("%d aggregators, %.2f busy", c.Size(), c.Busy())
	}
}

// Section 5.2.2: after a hundred iterations a job that lost more than the limit is placed again, with an aggregator more, until it
// does not. Figure 10 has the same course.
func TestPaperRevertsWhatProvesSlow(t *testing.T) {
	p := NewPool(Limits{Loss: 0.1})
	arrive(t, p, "vgg", 10*s, 2*s, 2*s)
	arrive(t, p, "alexnet", 10*s, 3*s, s)
	slow := slices.Repeat([]time.Duration{13 * s}, Watched)
	if c := p.Measured("alexnet", slow[:Watched-1]...); len(c.Moves) != 0 {
		t.Fatalf("it was judged too early: %+v", c)
	}
	c := p.Measured("alexnet", 13*s)
	p.holds(t)
	if p.Size() != 2 || len(c.Moves) == 0 || len(c.Allocated) != 1 {
		t.Fatalf("%d aggregators, %+v", p.Size(), c)
	}
	for range 5 { // in the end it shares nothing, and then nobody is to blame
		c = p.Measured("alexnet", slow...)
		p.holds(t)
	}
	if len(c.Moves) != 0 || p.Size() > 3 {
		t.Errorf("%d aggregators, %+v", p.Size(), c)
	}
	if c := p.Measured("vgg", slices.Repeat([]time.Duration{10500 * time.Millisecond}, Watched)...); len(c.Moves) != 0 {
		t.Errorf("a loss within the limit: %+v", c)
	}
}

// Appendix D: of a job on an aggregator that is there with others as many tasks leave as is needed, the longest first, to those of its own
// that have room for them within the limit (pseudocode 1).
func TestPaperRelieves(t *testing.T) {
	for _, c := range []struct {
		name        string
		other       time.Duration // of another job's task on the second aggregator
		among, want []int
	}{
		{"one task suffices", 0, []int{1, 2}, []int{2, 1, 1}},
		{"no other place", 0, []int{1}, []int{1, 1, 1}},
		{"the longest finds no room", 8 * s, []int{1, 2}, []int{1, 2, 1}},
	} {
		p := NewPool(Limits{Loss: 0.1, Late: true})
		p.Add(1)
		p.Add(1)
		p.Put(Tenant{ID: "busy", Iteration: 10 * s, Tasks: []Task{{Exec: 7 * s}}}, []int{1})
		p.Put(Tenant{ID: "beside", Iteration: 10 * s, Tasks: []Task{{Exec: c.other}}}, []int{2})
		p.Put(Tenant{ID: "a", Iteration: 10 * s, Tasks: []Task{{Exec: 3 * s}, {Exec: s}, {Exec: s}}}, []int{1, 1, 1})
		before := p.LossAt(1)
		change := p.Relieve(1, "a", c.among)
		got := []int{1, 1, 1}
		for _, m := range change.Moves {
			got[m.Task] = m.To
		}
		if math.Abs(before-1.0/6) > 1e-9 || !slices.Equal(got, c.want) || p.LossAt(2) > 0.1 {
			t.Errorf("%s: %+v from a loss of %.3f, want %v", c.name, change, before, c.want)
		}
	}
}

// Appendix D: tasks leave an aggregator whose network is congested.
func TestPaperLeavesCongestedNetworks(t *testing.T) {
	p := NewPool(Limits{Loss: 0.1})
	arrive(t, p, "a", 10*s, 2*s, 3*s)
	c := p.Congested(1)
	p.holds(t)
	if len(c.Moves) != 2 || !slices.Equal(c.Recycled, []int{1}) || p.Size() != 1 {
		t.Errorf("%+v", c)
	}
}

// Memory, not processor time, fills reliable machines, and small ones sustain little of the bandwidth that they burst.
func TestMemoryAndBandwidth(t *testing.T) {
	p := NewPool(Limits{Loss: 0.1, Memory: 100, Bandwidth: 10})
	job := func(id string, task Task) error {
		_, err := p.Arrive(Tenant{ID: id, Iteration: 10 * s, Tasks: []Task{task}})
		return err
	}
	for _, j := range []struct {
		id   string
		task Task
		size int
	}{{"a", Task{Exec: s, Memory: 60, Bytes: 10}, 1}, {"b", Task{Exec: s, Memory: 60, Bytes: 10}, 2}, {"c", Task{Exec: s, Memory: 1, Bytes: 95}, 3}} {
		if err := job(j.id, j.task); err != nil || p.Size() != j.size {
			t.Fatalf("%s: %d aggregators, %v", j.id, p.Size(), err)
		}
		p.holds(t)
	}
	for _, task := range []Task{{Exec: s, Memory: 101}, {Exec: s, Bytes: 101}, {Exec: 11 * s}, {Exec: -s}} {
		if err := job("large", task); err == nil {
			t.Errorf("%+v was placed", task)
		}
	}
}

// Whatever comes and goes, no aggregator is overloaded, nobody loses more than the limit, nothing is forgotten.
func TestRandomPools(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		p, live, next := NewPool(Limits{Loss: []float64{0, 0.05, 0.1, 0.3}[r.IntN(4)], Longer: int(seed % 3)}), []string{}, 0
		for range 60 {
			switch k := r.IntN(10); {
			case k < 4 || len(live) == 0:
				next++
				id := string(rune('A'+next/26)) + string(rune('a'+next%26))
				d := time.Duration(1+r.IntN(20)) * s
				var execs []time.Duration
				for range 1 + r.IntN(4) {
					execs = append(execs, 1+time.Duration(r.Int64N(int64(d))))
				}
				arrive(t, p, id, d, execs...)
				live = append(live, id)
			case k < 7:
				i := r.IntN(len(live))
				p.Leave(live[i])
				live = slices.Delete(live, i, i+1)
			case k == 7 && next%2 == 0:
				p.Recycle()
			case k == 7:
				p.Repack()
			case k == 8:
				id := live[r.IntN(len(live))]
				p.Measured(id, slices.Repeat([]time.Duration{p.jobs[id].Iteration * 2}, Watched)...)
			default:
				p.Congested(1 + r.IntN(p.allocated))
			}
			p.holds(t)
		}
		for _, id := range live {
			p.Leave(id)
		}
		if p.Recycle(); p.Size() != 0 {
			t.Fatalf("seed %d: %d aggregators without a job", seed, p.Size())
		}
	}
}

// fewest returns how many aggregators the jobs need, by trying all ways to part their tasks.
func fewest(jobs []Tenant, limits Limits, most int) int {
	type task struct {
		of *job
		Task
	}
	var tasks []task
	for i := range jobs {
		j := &job{Tenant: jobs[i]}
		for _, t := range j.Tasks {
			tasks = append(tasks, task{j, t})
		}
	}
	best := most + 1
	parts, rule := make([]aggregator, 0, most), NewPool(limits)
	var try func(i int)
	try = func(i int) {
		if len(parts) >= best {
			return
		}
		if i == len(tasks) {
			for k := range parts {
				if !rule.allowed(&parts[k], parts[k].cycle) {
					return
				}
			}
			best = len(parts)
			return
		}
		for k := range parts { // later tasks may make a part allowed: a longer cycle has more whole turns of a job
			was := parts[k].clone()
			parts[k].take(tasks[i].of, tasks[i].Task)
			try(i + 1)
			parts[k] = was
		}
		parts = append(parts, aggregator{cores: 1})
		parts[len(parts)-1].take(tasks[i].of, tasks[i].Task)
		try(i + 1)
		parts = parts[:len(parts)-1]
	}
	try(0)
	return best
}

// No small pool has more aggregators than the fewest that could serve its jobs.
func TestSmallPoolsAreOptimal(t *testing.T) {
	cases := 10_000
	if testing.Short() {
		cases = 1000
	}
	ours, optimum := 0, 0
	for seed := range cases {
		r := rand.New(rand.NewPCG(uint64(seed), 2))
		jobs, tasks := 2+r.IntN(3), 2
		if seed%100 == 0 { // all ways to part twelve tasks take a while
			jobs, tasks = 4, 3
		}
		p, least := recycled(t, r, jobs, tasks)
		if p.Size() > least {
			t.Errorf("seed %d: %d aggregators where %d would do", seed, p.Size(), least)
		}
		ours, optimum = ours+p.Size(), optimum+least
	}
	t.Logf("%d cases: %d aggregators, and %d at least", cases, ours, optimum)
}

// recycled has jobs of up to `tasks` tasks arrive and recycles the excess; least is how many aggregators they need.
func recycled(t *testing.T, r *rand.Rand, jobs, tasks int) (p *Pool, least int) {
	t.Helper()
	p = NewPool(Limits{Loss: 0.1})
	var all []Tenant
	for n := range jobs {
		d := time.Duration(4+r.IntN(12)) * s
		of := Tenant{ID: string(rune('a' + n)), Iteration: d}
		for range 1 + r.IntN(tasks) {
			of.Tasks = append(of.Tasks, Task{Exec: time.Duration(1 + r.Int64N(int64(d)*6/10))})
		}
		all = append(all, of)
		if _, err := p.Arrive(of); err != nil {
			t.Fatal(err)
		}
	}
	p.Recycle()
	p.holds(t)
	return p, fewest(all, p.limits, p.Size())
}

// Pools of 13 to 18 tasks, which are too many to try everything: recycled, they have at most 1.1 times the aggregators that a search five times as
// long finds, in each of 200 cases.
func TestRecycledPoolsAreNearTheOptimum(t *testing.T) {
	ours, optimum := 0, 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		p, q := NewPool(Limits{Loss: .1}), NewPool(Limits{Loss: .1})
		q.tries *= 5
		for left := 13 + r.IntN(6); left > 0; {
			d := time.Duration(4+r.IntN(12)) * s
			of := Tenant{ID: string(rune('a' + left)), Iteration: d}
			for n := min(1+r.IntN(4), left); n > 0; n-- {
				of.Tasks = append(of.Tasks, Task{Exec: time.Duration(1 + r.Int64N(int64(d)*6/10))})
			}
			left -= len(of.Tasks)
			for _, pool := range []*Pool{p, q} {
				if _, err := pool.Arrive(of); err != nil {
					t.Fatal(err)
				}
			}
		}
		p.Recycle()
		q.Repack()
		p.holds(t)
		if float64(p.Size()) > 1.1*float64(q.Size()) {
			t.Errorf("seed %d: %d aggregators where %d would do", seed, p.Size(), q.Size())
		}
		ours, optimum = ours+p.Size(), optimum+q.Size()
	}
	t.Logf("%d aggregators where %d would do", ours, optimum)
}

// Of aggregators with tasks of 6 and 2, 5, and 5 and 2 of 10 s none can be emptied. Packed anew, two are enough, for two moves.
func TestRepackIsBounded(t *testing.T) {
	for _, c := range []struct{ moves, size int }{{0, 2}, {1, 3}, {2, 2}} {
		p := NewPool(Limits{Loss: 0.1, Moves: c.moves})
		for _, j := range []struct {
			id   string
			exec time.Duration
		}{{"a", 6 * s}, {"b", 2 * s}, {"left 1", 2 * s}, {"c", 5 * s}, {"left 2", 5 * s}, {"d", 5 * s}, {"e", 2 * s}, {"left 3", 3 * s}} {
			arrive(t, p, j.id, 10*s, j.exec)
		}
		for _, id := range []string{"left 1", "left 2", "left 3"} {
			p.Leave(id)
		}
		change := p.Recycle()
		p.holds(t)
		if p.Size() != c.size || len(change.Moves) != 2*(3-c.size) || len(change.Recycled) != 3-c.size {
			t.Errorf("with at most %d moves: %d aggregators, %+v", c.moves, p.Size(), change)
		}
	}
}

// Jobs of 5 and 7.5 s cannot share an aggregator whose cycle is one iteration. One of two iterations has three turns of the one and two of the
// other, which lose nothing; when the slower job has gone, it is as short as the other's iteration.
func TestALongerCycleServesBoth(t *testing.T) {
	for longer, size := range []int{2, 2, 1, 1, 1, 1, 1, 1, 1, 1} {
		p := NewPool(Limits{Loss: 0.1, Longer: longer})
		arrive(t, p, "a", 7500*time.Millisecond, 3*s)
		arrive(t, p, "b", 5*s, 2*s, s/2)
		p.Repack()
		p.holds(t)
		if p.Size() != size || p.Loss("a") > 0 || p.Loss("b") > 0 {
			t.Errorf("cycles of up to %d iterations: %d aggregators, losses of %g and %g", longer, p.Size(), p.Loss("a"), p.Loss("b"))
		}
		p.Leave("a")
		p.Recycle()
		if p.holds(t); p.Size() != 1 || p.aggregators[0].cycle != 5*s {
			t.Errorf("cycles of up to %d iterations: %d aggregators for one job, the first with a cycle of %s", longer, p.Size(), p.aggregators[0].cycle)
		}
	}
}

// Two jobs whose iterations do not fit into each other lose nothing on a server that answers requests as they come and has time, some when it
// has not enough, and by turns alone as much as the cycle leaves over. More work than time slows everybody down.
func TestLateRequestsTakeFreeTime(t *testing.T) {
	second := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	for _, c := range []struct {
		late        bool
		cores       float64
		exec        float64 // of each job
		quick, slow float64 // losses of jobs of 6 and 10 s
	}{
		{late: false, cores: 1, exec: 1, quick: 0.4, slow: 0},
		{late: true, cores: 1, exec: 1, quick: 0, slow: 0},
		{late: true, cores: 1, exec: 4, quick: 0.4 - 2./(4./6*4)*0.4, slow: 0}, // 2 s are free for two thirds of a turn of 4 s
		{late: true, cores: 2, exec: 4, quick: 0, slow: 0},
		{late: true, cores: 1, exec: 10, quick: 1 - 0.6/2, slow: 0.5},
	} {
		p := NewPool(Limits{Loss: 0.1, Late: c.late})
		a := p.Add(c.cores)
		p.Put(Tenant{ID: "quick", Iteration: second(6), Tasks: []Task{{Exec: second(c.exec / 2)}, {Exec: second(c.exec / 2)}}}, []int{a, a})
		p.Put(Tenant{ID: "slow", Iteration: second(10), Tasks: []Task{{Exec: second(c.exec)}}}, []int{a})
		if quick, slow := p.Loss("quick"), p.Loss("slow"); math.Abs(quick-c.quick) > 1e-6 || math.Abs(slow-c.slow) > 1e-6 {
			t.Errorf("%+v: losses %.4f and %.4f", c, quick, slow)
		}
		if load, want := p.Load(a), c.exec/6+c.exec/10; math.Abs(load-want) > 1e-6 {
			t.Errorf("%+v: load %.4f, want %.4f", c, load, want)
		}
	}
}
