package sched_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/tierml/tierml/sched"
	"github.com/tierml/tierml/sim/jobs"
)

func cluster(count int, capacity ...float64) []sched.Host {
	var hosts []sched.Host
	for i := range count {
		hosts = append(hosts, sched.Host{ID: fmt.Sprintf("h%03d", i), Capacity: capacity})
	}
	return hosts
}

func run(t *testing.T, cfg jobs.Config) (jobs.Result, jobs.Summary) {
	t.Helper()
	r, err := jobs.Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r, jobs.Sum(&cfg, &r)
}

// EPS, section 2.3: three slave nodes with room for a worker and a server each. Job 1 requests 3 and 3 at second 0, job 2 1 and 1 at second
// 600. Job 1's feedback comes at 276 s, and it ends at 1735 s if undisturbed; job 2's comes 399 s after its start (1735 to 2134), and its
// user stops it then. An adjustment takes 370 s by kill and 46 s by the calls. Job 2's feedback is there after 1534, 769 and 445 s.
func TestPaperCaseStudy(t *testing.T) {
	for _, c := range []struct {
		policy    sched.Policy
		adjust    float64
		feedback  float64
		decisions []string
	}{
		{sched.FIFO{}, 0, 1534, []string{"0 job1 start 3+3", "1735 job2 start 1+1"}},
		{sched.KillWorst{}, 370, 769, []string{"0 job1 start 3+3", "600 job1 shrink 2+2", "600 job2 start 1+1", "1369 job1 grow 3+3"}},
		{sched.H{}, 46, 445, []string{"0 job1 start 3+3", "600 job1 shrink 2+2", "600 job2 start 1+1", "1045 job1 grow 3+3"}},
	} {
		t.Run(c.policy.Name(), func(t *testing.T) {
			var decisions []string
			cfg := jobs.Config{Policy: c.policy, Hosts: cluster(3, 2), Costs: jobs.Costs{Resize: c.adjust, Release: c.adjust}, Jobs: []jobs.Script{
				{ID: "job1", Demand: sched.Resources{1}, Workers: 3, Servers: 3, Feedback: 100, Total: 100 * 1735. / 276, Clock: sched.Fit{276 * 3 / 100.}},
				{ID: "job2", Demand: sched.Resources{1}, Workers: 1, Servers: 1, Arrives: 600, Feedback: 100, Total: 1000, Loss: 1, Leaves: true, Clock: sched.Fit{399 / 100.}},
			}}
			cfg.Saw = func(now float64, g sched.Grant) {
				decisions = append(decisions, fmt.Sprintf("%.0f %s %s %d+%d", now, g.Job, g.Action, g.Workers, g.Servers))
			}
			r, _ := run(t, cfg)
			if got := r.Outcomes[1].Feedback - 600; math.Abs(got-c.feedback) > .5 {
				t.Errorf("job 2's feedback after %.0f s, want %v", got, c.feedback)
			}
			if !slices.Equal(decisions, c.decisions) {
				t.Errorf("decisions %q, want %q", decisions, c.decisions)
			}
		})
	}
}

// epsCosts returns the model's costs: a start takes 5 s, resizing 46 s by the calls and 370 s by kill (2.3), half of which a new job waits.
func epsCosts(policy string) jobs.Costs {
	c := jobs.Costs{Start: 5, Resize: 46, Resume: 30}
	if policy == "kill" {
		c.Resize, c.Release = 370, 180
	}
	return c
}

type epsCase struct {
	Gap               float64
	Arrivals, Quality []float64
	Results           map[string]map[string]float64
}

// The H-scheduler, first come first served and kill compared with an independent model of section 6 (testdata/eps.py), given its
// profile. Means over 5 seeds; at most 10 % apart.
func TestAgreesWithModelOfEPS(t *testing.T) {
	var cases []epsCase
	text, err := os.ReadFile("testdata/eps.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, policy := range []sched.Policy{sched.FIFO{}, sched.H{}, sched.KillWorst{}} {
		for _, gap := range []float64{60, 180} {
			ours, theirs := map[string]float64{}, map[string]float64{}
			for _, c := range cases {
				if c.Gap != gap {
					continue
				}
				cfg := jobs.Config{Policy: policy, Hosts: cluster(36, 4), Costs: epsCosts(policy.Name())}
				for i, at := range c.Arrivals {
					cfg.Jobs = append(cfg.Jobs, jobs.EPS(gap).Trial(i, at, 1-c.Quality[i]))
				}
				_, s := run(t, cfg)
				for k, v := range map[string]float64{"makespan": s.Makespan, "feedback": s.Feedback, "slot_hours": s.UnitHours, "killed": float64(s.Killed)} {
					ours[k] += v / 5
					theirs[k] += c.Results[policy.Name()][k] / 5
				}
			}
			for _, k := range []string{"makespan", "feedback", "slot_hours", "killed"} {
				a, b := ours[k], theirs[k]
				t.Logf("%s, arrivals %v s apart: %s %.0f, the model %.0f (%+.1f %%)", policy.Name(), gap, k, a, b, 100*(a/b-1))
				if math.Abs(a-b) > .1*b {
					t.Errorf("%s, arrivals %v s apart: %s %.0f, the model %.0f", policy.Name(), gap, k, a, b)
				}
			}
		}
	}
}
