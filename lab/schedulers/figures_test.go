package schedulers

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tierml/tierml/sched"
	"github.com/tierml/tierml/sim/jobs"
)

// seeds returns how many seeds the papers' figures average: `make jobs` prints them for ten, and papers/schedulers.md has them. TIERML_SEEDS is
// another number.
func seeds(t *testing.T, otherwise int) int {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("TIERML_SEEDS")); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// ahead is by how many percent EPS's figure 14 has the H-scheduler ahead of others.
type ahead struct{ fifo, kill, priority float64 }

var paperAhead = map[string]ahead{
	"svm": {113, 39, 105}, "logistic": {150, 37, 65}, "linear": {74, 50, 57}, "dnn": {93, 38, 39}, "lasso": {84, 36, 61}, "ridge": {85, 39, 45},
	"mlr": {98, 40, 47}, "robust": {120, 37, 78},
}

// figuresSweep has jobs come 95 s apart and 400 iterations take 41 minutes: figure 15 has the first one end in the 41st minute, and eleven past
// their 100th iteration in the 28th.
func figuresSweep(p profile) jobs.Sweep { return p.sweep(95, 41*60./400) }

// fastest returns the least time until all trials of a sweep can be compared: the last to reach its early feedback, alone on the cluster.
func fastest(cfg *jobs.Config) (end float64) {
	var total sched.Resources
	for _, h := range cfg.Hosts {
		if total == nil {
			total = make(sched.Resources, len(h.Capacity))
		}
		for k, v := range h.Capacity {
			total[k] += v
		}
	}
	for i := range cfg.Jobs {
		j := &cfg.Jobs[i]
		end = max(end, j.Arrives+jobs.LeastTimes(total, []*jobs.Script{j}, func(j *jobs.Script) float64 { return j.Feedback }))
	}
	return end
}

// EPS, figures 14 to 18 and table 2.
func TestFiguresOfEPS(t *testing.T) {
	some, n := profiles, seeds(t, 2)
	if n == 2 {
		some = profiles[:2]
	}
	policies := []sched.Policy{sched.FIFO{}, sched.Priority{}, sched.KillWorst{}, sched.H{}, sched.EarlyFeedback{}}
	var b strings.Builder
	fmt.Fprintf(&b, "%d sweeps each; h ahead of the others by percent (the paper's in brackets), and the most that any scheduler could be of fifo\n%-9s %18s %18s %18s %18s %18s\n", n, "MODEL", "FIFO", "KILL", "PRIORITY", "FEEDBACK", "FIFO, AT MOST")
	var rest strings.Builder
	fmt.Fprintf(&rest, "%-9s %-9s %10s %14s %8s %8s %8s %8s %12s\n", "MODEL", "SCHEDULER", "MINUTES", "FEEDBACK MIN", "QUEUED", "RUNNING", "RESIZING", "STOPPED", "RESIZES/JOB H")
	for _, p := range some {
		all := map[string][]jobs.Summary{}
		var bound []float64
		queued, running := map[string]float64{}, map[string]float64{}
		resized, hours := map[string]float64{}, map[string]float64{} // of all jobs: their product with an adjustment's seconds is table 2
		for seed := range uint64(n) {
			for _, policy := range policies {
				name := policy.Name()
				cfg := jobs.Config{Policy: policy, Hosts: cluster(36, 4), Jobs: figuresSweep(p).Jobs(seed), Seed: seed, Costs: jobs.Costs{Start: 5, Resize: 46, Resume: 46, Release: 46}}
				if name == "kill" {
					cfg.Costs = jobs.Costs{Start: 5, Resize: 370, Resume: 370, Release: 185}
				}
				r, err := jobs.Run(cfg)
				if err != nil {
					t.Fatal(err)
				}
				all[name] = append(all[name], jobs.Sum(&cfg, &r))
				if name == "fifo" {
					bound = append(bound, 100*(r.End/fastest(&cfg)-1))
				}
				for _, o := range r.Outcomes {
					resized[name], hours[name] = resized[name]+float64(o.Resized), hours[name]+o.Ran/3600
				}
				for _, s := range r.Spans {
					queued[name] += (s.To - s.From) * float64(s.Waiting) / r.End / float64(n)
					running[name] += (s.To - s.From) * float64(s.Feedback+s.Train) / r.End / float64(n)
				}
			}
		}
		figure := func(name string, of func(*jobs.Summary) float64) jobs.Figure {
			var x []float64
			for i := range all[name] {
				x = append(x, of(&all[name][i]))
			}
			return jobs.FigureOf(x)
		}
		paper, ahead := paperAhead[p.Name], func(of string) jobs.Figure {
			var x []float64
			for i := range all[of] {
				x = append(x, 100*(all[of][i].Makespan/all["h"][i].Makespan-1))
			}
			return jobs.FigureOf(x)
		}
		fmt.Fprintf(&b, "%-9s", p.Name)
		for _, c := range []struct {
			name  string
			paper float64
		}{{"fifo", paper.fifo}, {"kill", paper.kill}, {"priority", paper.priority}, {"feedback", 0}} {
			f := ahead(c.name)
			text := fmt.Sprintf("%.0f±%.0f", f.Mean, f.Half)
			if c.paper > 0 {
				text += fmt.Sprintf(" (%.0f)", c.paper)
			}
			fmt.Fprintf(&b, " %18s", text)
		}
		most := jobs.FigureOf(bound)
		fmt.Fprintf(&b, " %18s\n", fmt.Sprintf("%.0f±%.0f", most.Mean, most.Half))
		if f := ahead("fifo"); f.Mean > most.Mean {
			t.Errorf("%s: h is ahead of fifo by %v, more than any scheduler can be: %v", p.Name, f, most)
		}
		for _, policy := range policies {
			name := policy.Name()
			time, back := figure(name, func(s *jobs.Summary) float64 { return s.Makespan / 60 }), figure(name, func(s *jobs.Summary) float64 { return s.Feedback / 60 })
			fmt.Fprintf(&rest, "%-9s %-9s %10s %14s %8.1f %8.1f %7.1f%% %8.0f %12.1f\n", p.Name, name, fmt.Sprintf("%.0f±%.0f", time.Mean, time.Half), fmt.Sprintf("%.1f±%.1f", back.Mean, back.Half),
				queued[name], running[name], 100*figure(name, func(s *jobs.Summary) float64 { return s.Still }).Mean, figure(name, func(s *jobs.Summary) float64 { return float64(s.Killed) }).Mean, resized[name]/hours[name])
		}
		mean := func(name string, of func(*jobs.Summary) float64) float64 { return figure(name, of).Mean }
		end, back := func(s *jobs.Summary) float64 { return s.Makespan }, func(s *jobs.Summary) float64 { return s.Feedback }
		still := func(s *jobs.Summary) float64 { return s.Still }
		for _, name := range []string{"fifo", "priority", "kill"} { // the orderings of figures 14, 16, 17 and of table 2
			if mean("h", end) > mean(name, end) || mean("h", back) > mean(name, back) || queued["h"] > queued[name] {
				t.Errorf("%s: h is behind %s", p.Name, name)
			}
		}
		if mean("kill", end) > mean("fifo", end) || mean("kill", still) < mean("h", still) || mean("feedback", back) > mean("h", back) {
			t.Errorf("%s: the order of kill, h and feedback is another", p.Name)
		}
	}
	t.Log("\n" + b.String() + "\n" + rest.String())
}

// The sweep of `make sweep` in simulation, on the slots that it has while no host is taken: 12 trials that come together, six slots, the best three
// of which continue after clock 10 of 40; a clock takes 3.4 slot seconds, as measured there. It prints how often numbers change.
func TestResizesOfTheRealSweep(t *testing.T) {
	for _, policy := range []sched.Policy{sched.EarlyFeedback{Most: 3}, sched.KillWorst{Most: 3}, sched.FIFO{}} {
		cfg := jobs.Config{Policy: policy, Hosts: cluster(3, 2)}
		for i := range 12 {
			cfg.Jobs = append(cfg.Jobs, jobs.Script{ID: fmt.Sprintf("rates-%02d", i+1), Sweep: "rates", Arrives: float64(i) / 100, Demand: sched.Resources{1}, Workers: 2, MostWorkers: 6,
				Clock: sched.Fit{3.2, .1}, Feedback: 10, Total: 40, Loss: float64(i * 5 % 12)})
		}
		r, err := jobs.Run(cfg)
		if err != nil || r.GivenUp {
			t.Fatal(err, r.GivenUp)
		}
		changes, ran, finished := 0, 0., 0
		for _, o := range r.Outcomes {
			changes, ran = changes+o.Resized, ran+o.Ran/3600
			if o.Finished() {
				finished++
			}
		}
		t.Logf("%s: all over after %.0f s; %d trials finished, %d changes of numbers, %.0f per hour of training", policy.Name(), r.End, finished, changes, float64(changes)/ran)
		if want := map[string]int{"fifo": 12}[policy.Name()]; finished < 3 || want > 0 && (finished != want || changes > 0) {
			t.Errorf("%s: %d trials finished", policy.Name(), finished)
		}
	}
}

// dormType is a row of Dorm's table II, with the containers that Swarm gives it.
type dormType struct {
	demand            sched.Resources // CPUs, GPUs, GB
	weight            float64
	most, num, static int
}

var dormTypes = []dormType{
	{sched.Resources{2, 0, 8}, 1, 32, 20, 8}, {sched.Resources{2, 0, 6}, 2, 32, 20, 8}, {sched.Resources{4, 0, 6}, 4, 8, 6, 4}, {sched.Resources{4, 1, 32}, 1, 5, 1, 2},
	{sched.Resources{6, 1, 16}, 1, 5, 1, 2}, {sched.Resources{6, 1, 16}, 2, 5, 1, 2}, {sched.Resources{4, 1, 32}, 4, 5, 1, 3},
}

// dormJobs returns the 50 applications in random order, 20 minutes apart in the mean. The paper does not give run times: here 6 to 14 hours at
// Swarm's size, so that the first ones hold Swarm's servers for the first five hours.
func dormJobs(seed uint64) []jobs.Script {
	r := rand.New(rand.NewPCG(seed, 50))
	var order []dormType
	for _, ty := range dormTypes {
		for range ty.num {
			order = append(order, ty)
		}
	}
	r.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
	at := 0.
	var all []jobs.Script
	for i, ty := range order {
		at += 20 * 60 * r.ExpFloat64()
		hours := 6 + 8*r.Float64()
		all = append(all, jobs.Script{ID: fmt.Sprintf("app%02d", i), Arrives: at, Demand: ty.demand, Weight: ty.weight, Workers: ty.static, MostWorkers: ty.most,
			Clock: sched.Fit{hours * 3600 * float64(ty.static) / 1000}, Total: 1000})
	}
	return all
}

func dormHosts() (hosts []sched.Host) {
	for i := range 20 {
		h := sched.Host{ID: fmt.Sprintf("s%02d", i), Capacity: sched.Resources{12, 0, 128}}
		if i < 5 {
			h.Capacity[1] = 1
		}
		hosts = append(hosts, h)
	}
	return hosts
}

// dormRun is what figures 6 to 9 show of one run.
type dormRun struct {
	used, unfair, worst float64 // in the first 5 h; over all; at worst
	changed, most       float64 // apps adjusted in 24 h, and at once
	ends                []float64
}

func runDorm(t *testing.T, p sched.Policy, seed uint64) (d dormRun) {
	t.Helper()
	cfg := jobs.Config{Policy: p, Hosts: dormHosts(), Jobs: dormJobs(seed)}
	const hour = 3600.
	cfg.Saw = func(now float64, g sched.Grant) {
		if now <= 24*hour && slices.Contains([]sched.Action{sched.Grow, sched.Shrink, sched.Move, sched.Pause}, g.Action) {
			d.changed++
		}
	}
	r, err := jobs.Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	first := cfg.Jobs[0].Arrives
	for _, s := range r.Spans {
		d.used += s.Used * max(min(s.To, first+5*hour)-max(s.From, first), 0) / (5 * hour)
		d.unfair += s.Unfair * (s.To - s.From) / r.End
		d.worst = max(d.worst, s.Unfair)
	}
	d.most = float64(r.Most)
	for _, o := range r.Outcomes {
		d.ends = append(d.ends, o.Ended-o.Job.Arrives)
	}
	return d
}

// Dorm, figures 6 to 9.
func TestFiguresOfDorm(t *testing.T) {
	n := seeds(t, 2)
	var b strings.Builder
	fmt.Fprintf(&b, "%d workloads each; beside Swarm's static containers, in order of arrival (x)\n%-28s %11s %11s %12s %11s %9s %11s %11s\n", n, "THETA1, THETA2", "USED x", "BACKFILL x", "UNFAIR MEAN", "AT WORST", "AT ONCE", "IN 24 H", "SPEEDUP x")
	for _, c := range []struct {
		name string
		d    sched.Dorm
		used float64
	}{
		{"Dorm-1: .2, .1", sched.Dorm{Theta1: .2, Theta2: .1, Patience: -1}, 2.55}, {"Dorm-2: .1, .2", sched.Dorm{Theta1: .1, Theta2: .2, Patience: -1}, 2.46}, {"Dorm-3: .1, .1", sched.Dorm{Theta1: .1, Theta2: .1, Patience: -1}, 2.32},
		{"Dorm-1, (15) rounded up", sched.Dorm{Theta1: .2, Theta2: .1, Ceil: true, Patience: -1}, 0}, {"Dorm-3, (15) rounded up", sched.Dorm{Theta1: .1, Theta2: .1, Ceil: true, Patience: -1}, 0},
		{".1, .5", sched.Dorm{Theta1: .1, Theta2: .5, Patience: -1}, 0}, {".1, 1: ours resizes live", sched.Dorm{Theta1: .1, Theta2: 1, Patience: -1}, 0},
	} {
		if n == 2 && c.used == 0 {
			continue
		}
		var used, loose, unfair, worst, most, changed, speedup, fairer []float64
		for seed := range uint64(n) {
			swarm, filled, dorm := runDorm(t, sched.FIFO{}, seed), runDorm(t, sched.FIFO{Backfill: true}, seed), runDorm(t, c.d, seed)
			used, loose = append(used, dorm.used/swarm.used), append(loose, dorm.used/filled.used)
			unfair, worst = append(unfair, dorm.unfair), append(worst, dorm.worst)
			fairer = append(fairer, swarm.unfair/dorm.unfair)
			most, changed = append(most, dorm.most), append(changed, dorm.changed)
			faster := 0.
			for i := range dorm.ends {
				faster += swarm.ends[i] / dorm.ends[i] / float64(len(dorm.ends))
			}
			speedup = append(speedup, faster)
		}
		f := func(x []float64) string { v := jobs.FigureOf(x); return fmt.Sprintf("%.2f±%.2f", v.Mean, v.Half) }
		fmt.Fprintf(&b, "%-28s %11s %11s %12s %11s %9s %11s %11s  Swarm's loss x %s\n", c.name, f(used), f(loose), f(unfair), f(worst), f(most), f(changed), f(speedup), f(fairer))
		if u := jobs.FigureOf(used); c.used > 0 && (u.Mean < 1.5 || c.d.Theta1 < .2 && mean(fairer) < 1.5) {
			t.Errorf("%s: used x%v of Swarm's, Swarm's loss of fairness x%v", c.name, u.Mean, mean(fairer))
		}
		if least := cmp.Compare(slices.Min(speedup), 1); least < 0 {
			t.Errorf("%s: slower than Swarm", c.name)
		}
	}
	t.Log("\n" + b.String())
}
