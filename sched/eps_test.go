package sched

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
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

// running returns a job in a state of EPS: with w workers and s servers, after its feedback if loss is not 0.
func running(id string, w, s int, loss float64) Job {
	j := Job{ID: id, Phase: Feedback, Demand: Resources{1}, WantWorkers: 8, WantServers: 4, Workers: w, Servers: s, Loss: loss}
	if loss != 0 {
		j.Phase = Training
	}
	return j
}

// onHosts places jobs on hosts with this many slots, one after another.
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
		if err := Check(c.state, p); err != nil {
			t.Errorf("lines %s: %v", c.lines, err)
		}
		if got := counts(p); got != c.want {
			t.Errorf("lines %s, %s: %s, want %s", c.lines, c.name, got, c.want)
		}
	}
}

// Section 4.1 takes submitted jobs in their order: a small one does not pass a large one that waits.
func TestPaperIncomingJobsInOrder(t *testing.T) {
	large, small := submitted(8, 4), submitted(1, 1)
	large.ID, small.ID, small.Arrived = "large", "small", 2
	p := H{Most: 11}.Plan(onHosts(12, running("a", 5, 4, 0), large, small))
	if got := counts(p); got != "a 5+4, large 0+0, small 0+0" {
		t.Error(got)
	}
}

// What remains must hold the data and the parameters: a job with a minimum is not shrunk below it.
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
		{"31", "3 free at a ratio of 2:1: two workers and a server", onHosts(9, running("a", 2, 1, .5), running("b", 2, 1, .4)), "a 3+2, b 3+1"},
		{"38-39", "what is free is over before the list is: those with most workers get nothing", onHosts(14, running("a", 4, 1, .5), running("b", 2, 1, .4), running("c", 3, 1, .3)), "a 4+1, b 3+1, c 4+1"},
		{"28-29", "nothing is added while a job waits", onHosts(14, running("a", 6, 6, 0), submitted(3, 3)), "a 6+6, new 0+0"},
		{"35", "fewest workers first", onHosts(16, running("a", 6, 3, .5), running("b", 4, 2, .4)), "a 6+3, b 5+2"},
		{"33", "jobs before their feedback get nothing", onHosts(16, running("a", 6, 3, 0), running("b", 3, 2, .4)), "a 6+3, b 4+3"},
	} {
		p := H{Most: 11}.Plan(c.state)
		if err := Check(c.state, p); err != nil {
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

// Section 6: with 144 slots and 13 a job 11 jobs may be in training; the one with the worst feedback is stopped. A trial that diverged is
// the worst.
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
