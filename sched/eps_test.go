package sched

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

func readJSON(t testing.TB, name string, into any) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// EPS, section 2.3: three slave nodes with room for a worker and a server each. Job 1 asks for 3 and 3 at second 0, job 2 for 1 and 1 at
// second 600. Job 1's feedback comes at 276 s, and it ends at 1735 s when nothing happens to it; job 2's comes 399 s after its start
// (1735 to 2134), and its user stops it then. An adjustment takes 370 s by kill and 46 s by the calls. Job 2's feedback is there
// after 1534, 769 and 445 s.
func TestPaperCaseStudy(t *testing.T) {
	for _, c := range []struct {
		policy    Policy
		adjust    float64
		feedback  float64
		decisions []string
	}{
		{FIFO{}, 0, 1534, []string{"0 job1 start 3+3", "1735 job2 start 1+1"}},
		{KillWorst{}, 370, 769, []string{"0 job1 start 3+3", "600 job1 shrink 2+2", "600 job2 start 1+1", "1369 job1 grow 3+3"}},
		{H{}, 46, 445, []string{"0 job1 start 3+3", "600 job1 shrink 2+2", "600 job2 start 1+1", "1045 job1 grow 3+3"}},
	} {
		t.Run(c.policy.Name(), func(t *testing.T) {
			one := &trial{job: Job{ID: "job1", Phase: Queued, Demand: Resources{1}, WantWorkers: 3, WantServers: 3}, feedback: 100, total: 100 * 1735. / 276,
				speed: func(w, _ int) float64 { return 100. / 276 * float64(w) / 3 }}
			two := &trial{job: Job{ID: "job2", Phase: Queued, Demand: Resources{1}, WantWorkers: 1, WantServers: 1, Arrived: 600}, arrives: 600, feedback: 100, total: 1000,
				loss: 1, stop: true, speed: func(w, _ int) float64 { return 100. / 399 * float64(w) }}
			var decisions []string
			w := &world{policy: c.policy, hosts: cluster(3, 2), trials: []*trial{one, two}, adjust: c.adjust, wait: true}
			w.see = func(x *trial, g Grant) {
				decisions = append(decisions, fmt.Sprintf("%.0f %s %s %d+%d", w.now, g.Job, g.Action, g.Workers, g.Servers))
			}
			w.run(t)
			if got := two.fedBack - two.arrives; math.Abs(got-c.feedback) > .5 {
				t.Errorf("job 2's feedback after %.0f s, want %v", got, c.feedback)
			}
			if !slices.Equal(decisions, c.decisions) {
				t.Errorf("decisions %q, want %q", decisions, c.decisions)
			}
		})
	}
}

// job is one of a state of EPS: it runs with w and s, after its feedback when loss is not 0.
func running(id string, w, s int, loss float64) Job {
	j := Job{ID: id, Phase: Feedback, Demand: Resources{1}, WantWorkers: 8, WantServers: 4, Workers: w, Servers: s, Loss: loss}
	if loss != 0 {
		j.Phase = Training
	}
	return j
}

// onHosts places jobs on hosts of so many slots, one after another.
func onHosts(slots int, jobs ...Job) State {
	s := State{Hosts: cluster((slots+3)/4, 4)}
	s.Hosts[len(s.Hosts)-1].Capacity = Resources{float64(slots - 4*(len(s.Hosts)-1))}
	at, left := 0, int(s.Hosts[0].Capacity[0])
	for _, j := range jobs {
		w, sv := j.Workers, j.Servers
		over := j.Overhead * boolean(w+sv > 0)
		for w+sv+over > 0 {
			if left == 0 {
				at++
				left = int(s.Hosts[at].Capacity[0])
			}
			p := Place{Host: s.Hosts[at].ID, Workers: min(w, left)}
			p.Servers = min(sv, left-p.Workers)
			w, sv, left = w-p.Workers, sv-p.Servers, left-p.Workers-p.Servers
			p.Overhead = min(over, left)
			over, left = over-p.Overhead, left-p.Overhead
			if p.Workers+p.Servers+p.Overhead > 0 {
				j.Where = append(j.Where, p)
			}
		}
		s.Jobs = append(s.Jobs, j)
	}
	return s
}

func submitted(w, s int) Job {
	return Job{ID: "new", Phase: Queued, Demand: Resources{1}, WantWorkers: w, WantServers: s, Arrived: 1}
}

func counts(p Plan) string {
	var words []string
	for _, g := range p.Grants {
		words = append(words, fmt.Sprintf("%s %d+%d", g.Job, g.Workers, g.Servers))
	}
	return strings.Join(words, ", ")
}

// Algorithm 1, incoming mode, lines 1 to 27.
func TestPaperAlgorithm1Incoming(t *testing.T) {
	for _, c := range []struct {
		lines, name string
		state       State
		want        string
	}{
		{"5-6", "enough is free: nobody gives anything", onHosts(24, running("a", 8, 4, .5), submitted(8, 4)), "a 8+4, new 8+4"},
		{"2-4, 7", "what is free is divided by the job's own ratio, 2:1: of 6 free 4 and 2", onHosts(18, running("a", 8, 4, .5), submitted(8, 4)), "a 4+2, new 8+4"},
		{"10-12", "jobs without feedback give nothing", onHosts(24, running("a", 8, 4, 0), running("b", 8, 4, .5), submitted(2, 2)), "a 8+4, b 6+2, new 2+2"},
		{"13-16", "jobs with one worker or one server do not give it", onHosts(10, running("a", 1, 4, .5), running("b", 4, 1, .4), submitted(3, 3)), "a 1+1, b 1+1, new 3+3"},
		{"18-26", "workers one at a time, those with most first, round-robin", onHosts(14, running("a", 3, 1, .5), running("b", 5, 1, .4), running("c", 3, 1, .3), submitted(4, 0)),
			"a 2+1, b 3+1, c 2+1, new 4+0"},
		{"22-23", "a job leaves the list at one worker", onHosts(12, running("a", 2, 1, .5), running("b", 8, 1, .4), submitted(6, 0)), "a 1+1, b 3+1, new 6+0"},
		{"24-26", "N_s_r = 0: the printed loop raises count first and would strip every job", onHosts(12, running("a", 4, 4, .5), submitted(4, 1)), "a 3+4, new 4+1"},
		{"19", "the list runs empty before count is reached: the job waits and nobody gives anything", onHosts(8, running("a", 4, 4, .5), submitted(4, 3)), "a 4+4, new 0+0"},
		{"19", "one list runs empty: the other gives what it lacks", onHosts(8, running("a", 6, 2, .5), submitted(2, 2)), "a 3+1, new 2+2"},
		{"27", "servers likewise", onHosts(15, running("a", 2, 6, .5), running("b", 2, 5, .4), submitted(1, 4)), "a 1+4, b 2+3, new 1+4"},
	} {
		p := H{Most: 11}.Plan(c.state)
		if err := check(c.state, p); err != nil {
			t.Errorf("lines %s: %v", c.lines, err)
		}
		if got := counts(p); got != c.want {
			t.Errorf("lines %s, %s: %s, want %s", c.lines, c.name, got, c.want)
		}
	}
}

// What stays must hold the data and the parameters: a job with a least is not shrunk below it.
func TestMemoryRoomIsKept(t *testing.T) {
	a := running("a", 8, 4, .5)
	a.LeastWorkers, a.LeastServers = 6, 3
	s := onHosts(12, a, submitted(2, 1))
	if got := counts(H{}.Plan(s)); got != "a 6+3, new 2+1" {
		t.Error(got)
	}
	s = onHosts(12, a, submitted(3, 1))
	p := H{}.Plan(s)
	if g, _ := p.Grant("new"); counts(p) != "a 8+4, new 0+0" || !strings.Contains(g.Why, "4 units are missing") {
		t.Error(counts(p), g.Why)
	}
}

// Algorithm 1, running mode, lines 29 to 40.
func TestPaperAlgorithm1Running(t *testing.T) {
	for _, c := range []struct {
		lines, name string
		state       State
		want        string
	}{
		{"30-31, 36-40", "4 free at a ratio of 1:1: two workers and two servers, a worker and a server each", onHosts(12, running("a", 2, 2, .5), running("b", 2, 2, .4)), "a 3+3, b 3+3"},
		{"35", "fewest workers first", onHosts(16, running("a", 6, 3, .5), running("b", 4, 2, .4)), "a 6+3, b 5+2"},
		{"33", "jobs before their feedback get nothing", onHosts(16, running("a", 6, 3, 0), running("b", 3, 2, .4)), "a 6+3, b 4+3"},
	} {
		p := H{Most: 11}.Plan(c.state)
		if err := check(c.state, p); err != nil {
			t.Errorf("lines %s: %v", c.lines, err)
		}
		if got := counts(p); got != c.want {
			t.Errorf("lines %s, %s: %s, want %s", c.lines, c.name, got, c.want)
		}
	}
}

// Section 4.2: "If the speed drops due to the additional communication overhead, it removes the added worker and server"; and they are
// not added again.
func TestPaperSpeedCheck(t *testing.T) {
	a := running("a", 5, 3, .5)
	a.Pace = Pace{{4, 2, 1}, {5, 3, .9}}
	p := H{}.Plan(onHosts(8, a))
	if g, _ := p.Grant("a"); g.Workers != 4 || g.Servers != 2 || !strings.Contains(g.Why, "gives 1 workers and 1 servers back") {
		t.Errorf("%+v", g)
	}
	a.Workers, a.Servers = 4, 2
	p = H{}.Plan(onHosts(8, a))
	if g, _ := p.Grant("a"); g.Workers != 4 || g.Servers != 2 {
		t.Errorf("tried again: %+v", g)
	}
}

// Section 6: with 144 slots and 13 a job 11 jobs may be in training; the one with the worst feedback goes. A trial that diverged is the
// worst.
func TestPaperThreshold(t *testing.T) {
	var jobs []Job
	for i := range 12 {
		j := running(fmt.Sprintf("job%02d", i), 7, 4, .1+float64(i)/100)
		j.Overhead = 1
		if i == 3 {
			j.Loss = math.NaN()
		}
		jobs = append(jobs, j)
	}
	s := onHosts(144, jobs...)
	p := H{}.Plan(s)
	for _, g := range p.Grants {
		if (g.Action == Kill) != (g.Job == "job03") {
			t.Errorf("%+v", g)
		}
	}
}

// trialsOf75 is section 6's profile: 75 jobs of 8 workers and 4 servers, 144 slots, 400 iterations of 160 worker seconds and .35 s per
// worker and server; resizing takes 46 s by the calls and 370 s by kill (2.3).
func trialsOf75(policy Policy, arrivals, quality []float64) *world {
	w := &world{policy: policy, hosts: cluster(36, 4), start: 5, adjust: 46, resume: 30}
	if policy.Name() == "kill" {
		w.adjust = 370
	}
	for i, at := range arrivals {
		w.trials = append(w.trials, &trial{
			job:     Job{ID: fmt.Sprintf("job%02d", i), Phase: Queued, Arrived: at, Demand: Resources{1}, WantWorkers: 8, WantServers: 4, Overhead: 1},
			arrives: at, feedback: 100, total: 400, loss: 1 - quality[i],
			speed: func(w, s int) float64 { return 1 / (160/float64(w) + .35*float64(w)/float64(s)) },
		})
	}
	return w
}

type epsCase struct {
	Gap               float64
	Arrivals, Quality []float64
	Results           map[string]map[string]float64
}

// outcome runs the cases of a gap and gives means.
func outcome(t *testing.T, policy Policy, cases []epsCase, gap float64) (ours, theirs map[string]float64) {
	ours, theirs = map[string]float64{}, map[string]float64{}
	n := 0.
	for _, c := range cases {
		if c.Gap != gap {
			continue
		}
		n++
		w := trialsOf75(policy, c.Arrivals, c.Quality)
		w.run(t)
		for _, x := range w.trials {
			ours["feedback"] += (x.fedBack - x.arrives) / float64(len(w.trials))
			ours["killed"] += float64(boolean(x.killed))
		}
		ours["makespan"] += w.now
		ours["slot_hours"] += w.held / 3600
		for k, v := range c.Results[policy.Name()] {
			theirs[k] += v
		}
	}
	for k := range ours {
		ours[k], theirs[k] = ours[k]/n, theirs[k]/n
	}
	return ours, theirs
}

// The H-scheduler, first come first served and kill beside an independent model of section 6 with its profile. Means over 5 seeds. Kill is
// told apart in how the worst job is halved, and only shown.
func TestAgreesWithModelOfEPS(t *testing.T) {
	var cases []epsCase
	readJSON(t, "eps.json", &cases)
	for _, policy := range []Policy{FIFO{}, H{}, KillWorst{}} {
		for _, gap := range []float64{60, 180} {
			ours, theirs := outcome(t, policy, cases, gap)
			for _, k := range []string{"makespan", "feedback", "slot_hours", "killed"} {
				a, b := ours[k], theirs[k]
				t.Logf("%s, arrivals %v s apart: %s %.0f, the model %.0f", policy.Name(), gap, k, a, b)
				if policy.Name() != "kill" && math.Abs(a-b) > .1*b {
					t.Errorf("%s, arrivals %v s apart: %s %.0f, the model %.0f", policy.Name(), gap, k, a, b)
				}
			}
		}
	}
}

// Ours beside the H-scheduler on the same trials: at least 5 % fewer slot hours, feedback 30 % sooner with arrivals 180 s apart and 20 % sooner
// with 60 s, and as many trials trained to the end. 20 sweeps each.
func TestFeedbackBesideH(t *testing.T) {
	for gap, sooner := range map[float64]float64{60: .2, 180: .3} {
		var cases []epsCase
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 75))
			c, at := epsCase{Gap: gap}, 0.
			for range 75 {
				at += gap * r.ExpFloat64()
				c.Arrivals, c.Quality = append(c.Arrivals, at), append(c.Quality, r.Float64())
			}
			cases = append(cases, c)
		}
		h, _ := outcome(t, H{}, cases, gap)
		ours, _ := outcome(t, EarlyFeedback{}, cases, gap)
		t.Logf("arrivals %v s apart: feedback %.0f s, h %.0f; slot hours %.0f, h %.0f; makespan %.0f, h %.0f; killed %.1f, h %.1f", gap,
			ours["feedback"], h["feedback"], ours["slot_hours"], h["slot_hours"], ours["makespan"], h["makespan"], ours["killed"], h["killed"])
		if ours["feedback"] > (1-sooner)*h["feedback"] || ours["slot_hours"] > .95*h["slot_hours"] || ours["killed"] > h["killed"]+.5 {
			t.Errorf("arrivals %v s apart: %v, h %v", gap, ours, h)
		}
	}
}
