package grants

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/sched"
)

// world is shared hosts with runs, and successive processes that schedule them.
type world struct {
	t       *testing.T
	hosts   []sched.Host
	disk    []byte         // the last decision
	runs    map[string]int // last requested number of workers of each run
	held    map[string]int // slots
	began   map[string]int // how often each was started
	over    map[string]bool
	away    map[string]bool // paused by a person
	back    map[string]bool // resumed by a person, and without a request for another number since: its slots are reserved in the book
	asked   map[string]Asked
	rungs   map[string][]float64
	passed  float64            // seconds since the start
	due     map[string]float64 // deadlines, in such seconds
	done    map[string]float64 // clocks
	pace    map[string]sched.Pace
	came    []string
	stopped []string // by the scheduler
	most    int      // runs at a time; 0 = no limit
	steps   int      // effects so far
	crash   int      // the effect before which the process is killed; 0 = none
}

// began is the time at which worlds begin.
const began = 1000

func newWorld(t *testing.T, crash int) *world {
	w := &world{t: t, runs: map[string]int{}, held: map[string]int{}, began: map[string]int{}, over: map[string]bool{}, away: map[string]bool{}, back: map[string]bool{}, asked: map[string]Asked{}, rungs: map[string][]float64{}, due: map[string]float64{}, done: map[string]float64{}, pace: map[string]sched.Pace{}, crash: crash}
	for i := range 2 {
		w.hosts = append(w.hosts, sched.Host{ID: fmt.Sprint("host-", i), Capacity: sched.Resources{8, 16}})
	}
	return w
}

// crashes reports whether the process is killed before its next effect.
func (w *world) crashes() bool {
	w.steps++
	return w.steps == w.crash
}

func (w *world) jobs(told map[string]int) (all []Claim, others Others) {
	for i, id := range w.came {
		if w.over[id] {
			others.Over = append(others.Over, Over(id, float64(i), w.asked[id].Feedback, w.rungs[id]))
			continue
		}
		n, known := told[id]
		if !known {
			n = -1
		}
		j := Claim{ID: id, Arrived: float64(i), Asked: w.asked[id], Began: w.began[id] > 0, Held: w.held[id], Where: w.where(id), Told: n}
		if due, has := w.due[id]; has {
			j.Deadline, j.Done, j.Pace = began+due, int64(w.done[id]), w.pace[id]
		}
		if j.Rungs = w.rungs[id]; w.away[id] {
			j.PausedBy = "ann"
		}
		all = append(all, j)
	}
	all, others.Waiting = Admit(all, cmp.Or(w.most, len(all)))
	return all, others
}

// where returns a job's slots: jobs fill the hosts one after the other.
func (w *world) where(job string) (where []sched.Place) {
	before := 0
	for _, id := range w.came[:slices.Index(w.came, job)] {
		before += w.held[id]
	}
	for _, h := range w.hosts {
		room := Units(h.Capacity, w.asked[job].Unit)
		if n := min(before+w.held[job], room) - min(before, room); n > 0 {
			where = append(where, sched.Place{Host: h.ID, Workers: n})
		}
		before, room = max(before-room, 0), 0
	}
	return where
}

func (w *world) now() time.Time { return time.Unix(began+int64(w.passed), 0) }

// process schedules until there is nothing to do, or until it is killed.
func (w *world) process(p sched.Policy) (done bool) {
	told := map[string]int{}
	for range 100 {
		var last Decision
		if len(w.disk) > 0 {
			if err := json.Unmarshal(w.disk, &last); err != nil {
				w.t.Fatal(err)
			}
		}
		quiet := true
		if jobs, others := w.jobs(told); Due(p, w.now(), Slots{Hosts: w.hosts}, jobs, last) {
			quiet = false
			last = Decide(p, w.now(), Slots{Hosts: w.hosts}, jobs, others, last)
			if w.crashes() {
				return false
			}
			text, err := json.Marshal(last)
			if err != nil {
				w.t.Fatal(err)
			}
			w.disk = text
		}
		jobs, _ := w.jobs(told)
		for _, c := range Calls(last, jobs) {
			quiet = false
			if w.crashes() { // before the run receives it
				return false
			}
			switch {
			case c.Stop:
				w.end(c.Job)
				w.stopped = append(w.stopped, c.Job)
				continue
			case c.Start:
				w.began[c.Job]++
			default:
				told[c.Job] = c.Workers
			}
			if w.away[c.Job] {
				w.t.Errorf("crash %d: %+v of a job that a person has paused", w.crash, c)
			}
			w.runs[c.Job] = c.Workers
			delete(w.back, c.Job)
			w.check()
			if w.crashes() { // after it
				return false
			}
		}
		if w.settle() && quiet {
			return true
		}
	}
	w.t.Fatal("it never comes to rest")
	return false
}

// end ends a job, and returns its slots.
func (w *world) end(id string) {
	w.over[id] = true
	delete(w.runs, id)
	delete(w.held, id)
}

// lose removes the last host with everything on it.
func (w *world) lose() (lost sched.Host) {
	lost = w.hosts[len(w.hosts)-1]
	for _, id := range w.came {
		for _, at := range w.where(id) {
			if at.Host == lost.ID {
				defer func() { w.held[id] -= at.Workers }()
			}
		}
	}
	w.hosts = w.hosts[:len(w.hosts)-1]
	return lost
}

// settle plays the runs: those with too many slots return one, those with too few take one. It reports whether none did.
func (w *world) settle() (still bool) {
	still = true
	for _, id := range slices.Sorted(maps.Keys(w.runs)) {
		switch want := w.runs[id]; {
		case w.held[id] > want:
			w.held[id]--
			still = false
		case w.held[id] < want && w.room(id):
			w.held[id]++
			still = false
		}
	}
	w.check()
	return still
}

// room reports whether a slot for a job is free: others wait for a host.
func (w *world) room(job string) bool {
	used := 0.
	for id, n := range w.held {
		used += float64(n) * w.asked[id].Unit[0]
	}
	all := 0.
	for _, h := range w.hosts {
		all += h.Capacity[0]
	}
	return used+w.asked[job].Unit[0] <= all
}

// check: the slots that runs have, or may take at any moment, fit on the hosts; and no run is started twice.
func (w *world) check() {
	w.t.Helper()
	sum := 0
	for id, n := range w.runs {
		if w.back[id] {
			n = 0
		}
		sum += max(n, w.held[id]) * int(w.asked[id].Unit[0])
	}
	if sum > 16 {
		w.t.Fatalf("crash %d: slots are granted twice: runs were asked to have %v, and hold %v", w.crash, w.runs, w.held)
	}
	for id, n := range w.began {
		if n > 1 {
			w.t.Fatalf("crash %d: %s was started %d times", w.crash, id, n)
		}
	}
}

// story has three jobs arrive and one end; the scheduling process is killed once, before effect crash. It returns the number of effects.
func story(t *testing.T, p sched.Policy, crash int) int {
	w := newWorld(t, crash)
	for i, id := range []string{"a", "b", "c"} {
		w.came = append(w.came, id)
		w.asked[id] = Asked{Weight: float64(int(1) << i), Least: 1, Most: 7, Unit: sched.Resources{2, 4}}
		for !w.process(p) {
		}
	}
	if p.Name() == "drf" {
		want := map[string]int{"a": 1, "b": 2, "c": 4} // 8 slots by weights 1, 2, 4 are 1.14, 2.29 and 4.57
		for id, n := range want {
			if got := w.held[id]; got < n || got > n+1 {
				t.Errorf("crash %d: %s has %d slots, and its fair share is %d or one more", crash, id, got, n)
			}
		}
	}
	rest := func() {
		for !w.process(p) {
		}
	}
	total := func() (n int) {
		for _, held := range w.held {
			n += held
		}
		return n
	}
	host := w.lose()
	rest()
	asked := 0
	for _, n := range w.runs {
		asked += n
	}
	if n := total(); n != 4 || asked != 4 {
		t.Errorf("crash %d: on one host of two are %d slots of 4, and runs were asked to have %v", crash, n, w.runs)
	}
	w.hosts = append(w.hosts, host)
	w.away["c"], w.runs["c"] = true, 0
	rest()
	if n := total(); n != 8 || w.held["c"] > 0 {
		t.Errorf("crash %d: while c is paused, %v", crash, w.held)
	}
	delete(w.away, "c")
	w.runs["c"], w.back["c"] = 5, true
	rest()
	if n := total(); n != 8 || w.held["c"] == 0 && p.Name() == "drf" {
		t.Errorf("crash %d: when c was resumed, %v", crash, w.held)
	}
	for _, id := range []string{"b", "a", "c"} { // each waiting job gets its turn
		if w.held[id] == 0 {
			t.Errorf("crash %d: %s has no slots before it ends: %+v", crash, id, w.held)
		}
		w.end(id)
		rest()
		for id, n := range w.held {
			if w.over[id] {
				t.Errorf("crash %d: %s is over and has %d slots", crash, id, n)
			}
		}
		if len(w.held) > 0 && total() == 0 {
			t.Errorf("crash %d: nobody has anything after %s", crash, id)
		}
	}
	return w.steps
}

// The process is killed before and after each of its actions, and another one continues: no job is lost, none is started twice, and no slot
// is granted twice.
func TestEveryCrashPoint(t *testing.T) {
	for _, p := range []sched.Policy{sched.DRF{}, sched.Dorm{Theta1: -1, Theta2: 1}, sched.Marginal{}, sched.Deadline{}} {
		all := story(t, p, 0)
		if all < 10 {
			t.Fatalf("%s: only %d effects", p.Name(), all)
		}
		for crash := 1; crash <= all+5; crash++ {
			story(t, p, crash)
		}
	}
}

// sweep has six trials arrive, of which at most `most` have a run at a time; running ones reach their next feedback, one after the other,
// and those that have given all of it end. It returns the number of effects, and which trials finished.
func sweep(t *testing.T, p sched.Policy, crash, most int) (effects int, finished []string) {
	w := newWorld(t, crash)
	w.most = most
	losses := map[string][]float64{"a": {.5, .5}, "b": {.2, .1}, "c": {math.NaN(), .4}, "d": {.1, .2}, "e": {.3, .05}, "f": {.4, .4}}
	feedback := Feedback{Sweep: "s", At: []int64{10, 20}, Keep: []int{3, 1}, Trials: len(losses)}
	for _, id := range slices.Sorted(maps.Keys(losses)) {
		w.came = append(w.came, id)
		w.asked[id] = Asked{Least: 1, Most: 8, Start: 2, Unit: sched.Resources{2, 4}, Feedback: feedback}
	}
	for round := 0; len(finished)+len(w.stopped) < len(losses); round++ {
		if round > 100 {
			t.Fatalf("%s, crash %d: it does not end: %v have, %v were stopped, and %v are held", p.Name(), crash, finished, w.stopped, w.held)
		}
		for !w.process(p) {
		}
		running := slices.DeleteFunc(slices.Clone(w.came), func(id string) bool { return w.over[id] || w.held[id] == 0 })
		if len(running) == 0 {
			if len(finished)+len(w.stopped) < len(losses) {
				t.Fatalf("%s, crash %d: nobody runs, and %v are over", p.Name(), crash, w.over)
			}
			break
		}
		next := slices.MinFunc(running, func(a, b string) int { return len(w.rungs[a]) - len(w.rungs[b]) })
		if given := len(w.rungs[next]); given < len(losses[next]) {
			w.rungs[next] = losses[next][:given+1]
			continue
		}
		w.end(next)
		finished = append(finished, next)
	}
	slices.Sort(finished)
	return w.steps, finished
}

// Schedulers that use early feedback continue the best trials at each feedback and stop the others, wherever the process is killed, and
// however few may run at a time. Finished trials count.
func TestSweepAtEveryCrashPoint(t *testing.T) {
	for _, p := range []sched.Policy{sched.EarlyFeedback{}, sched.H{}, sched.KillWorst{}, sched.ASHA{}, sched.Priority{}} {
		all, want := sweep(t, p, 0, 6)
		if p.Name() == "feedback" && fmt.Sprint(want) != "[e]" {
			t.Errorf("%v came to their ends, and e is the best of b, d and e, the best three", want)
		}
		for crash := 1; crash <= all+5; crash++ {
			if _, finished := sweep(t, p, crash, 6); len(finished) == 0 || p.Name() == "feedback" && !slices.Equal(finished, want) {
				t.Errorf("%s, crash %d: %v came to their ends", p.Name(), crash, finished)
			}
		}
		for most := 1; most < 6; most++ {
			if _, finished := sweep(t, p, 0, most); len(finished) == 0 {
				t.Errorf("%s, %d at a time: none came to its end", p.Name(), most)
			}
		}
	}
	if _, finished := sweep(t, sched.FIFO{}, 0, 6); len(finished) != 6 {
		t.Errorf("fifo: %v came to their ends", finished)
	}
}

// Waiting jobs are admitted by priority and arrival; what has begun stays.
func TestAdmit(t *testing.T) {
	jobs := []Claim{{ID: "a", Arrived: 1}, {ID: "b", Arrived: 2, Began: true}, {ID: "c", Arrived: 3}, {ID: "d", Arrived: 4, Asked: Asked{Priority: 1}}}
	for most, want := range []string{"b 3", "b 3", "bd 2", "abd 1", "abcd 0", "abcd 0"} {
		admitted, left := Admit(jobs, most)
		got := ""
		for _, j := range admitted {
			got += j.ID
		}
		if got = fmt.Sprint(got, " ", left); got != want {
			t.Errorf("%d at a time: %s, not %s", most, got, want)
		}
	}
}

// Growth waits until slots are free, though the decision is made at once.
func TestGrowthWaitsForSlots(t *testing.T) {
	hosts := []sched.Host{{ID: "h", Capacity: sched.Resources{8}}}
	of := Asked{Least: 1, Most: 8, Unit: sched.Resources{1}}
	d := Decide(sched.DRF{}, time.Unix(0, 0), Slots{Hosts: hosts}, []Claim{{ID: "a", Asked: of, Told: -1}}, Others{}, Decision{})
	if g := d.Of("a"); g.Workers != 8 || g.Action != sched.Start {
		t.Fatalf("%+v", g)
	}
	for _, c := range []struct {
		held, told int
		calls      string
	}{
		{8, 8, "[{a 4}]"}, // first the one with too many gets the request
		{7, 4, "[{b 1}]"}, // then what it has returned is free
		{4, 4, "[{b 4}]"},
		{8, -1, "[{a 4}]"},
		{4, -1, "[{a 4} {b 4}]"},
	} {
		jobs := []Claim{{ID: "a", Asked: of, Began: true, Held: c.held, Told: c.told}, {ID: "b", Arrived: 1, Asked: of, Told: -1}}
		next := Decide(sched.DRF{}, time.Unix(1, 0), Slots{Hosts: hosts}, jobs, Others{}, d)
		var got []struct {
			Job     string
			Workers int
		}
		for _, call := range Calls(next, jobs) {
			got = append(got, struct {
				Job     string
				Workers int
			}{call.Job, call.Workers})
		}
		if fmt.Sprint(got) != c.calls {
			t.Errorf("a holds %d and was told %d: %v instead of %s", c.held, c.told, got, c.calls)
		}
	}
}

// A job that cannot be resized keeps its initial number, whichever jobs arrive.
func TestFixedJobsKeepWhatTheyHave(t *testing.T) {
	hosts := []sched.Host{{ID: "h", Capacity: sched.Resources{8}}}
	fixed := Asked{Least: 6, Most: 6, Unit: sched.Resources{1}, Fixed: true}
	jobs := []Claim{{ID: "gang", Asked: fixed, Told: -1}}
	d := Decide(sched.DRF{}, time.Unix(0, 0), Slots{Hosts: hosts}, jobs, Others{}, Decision{})
	jobs[0].Began, jobs[0].Held, jobs[0].Told = true, 6, 6
	for i := range 6 {
		jobs = append(jobs, Claim{ID: fmt.Sprint("x", i), Arrived: float64(cmp.Or(i, 1)), Asked: Asked{Least: 1, Most: 4, Unit: sched.Resources{1}}, Told: -1})
	}
	d = Decide(sched.DRF{}, time.Unix(1, 0), Slots{Hosts: hosts}, jobs, Others{}, d)
	sum := 0
	for _, g := range d.Grants {
		sum += g.Workers
	}
	if d.Of("gang").Workers != 6 || sum != 8 {
		t.Errorf("%+v", d.Grants)
	}
}

// Of the hosts on sale a policy that considers prices uses as many as are worth theirs; and it decides again when prices change.
func TestOnlyHostsWorthTheirPriceAreUsed(t *testing.T) {
	market := func(price float64) *sched.Market {
		return &sched.Market{Offers: []sched.Offer{{Tier: sched.Reliable, Slots: 64, Price: .4}, {Tier: sched.Transient, Slots: 64, Price: price}},
			Held: []sched.Held{{Offer: sched.Offer{Tier: sched.Transient, Slots: 8, Price: price}, Host: "host-0", Paid: 1e9}}}
	}
	slots := Slots{There: 1, Market: market(.4)}
	for i := range 8 {
		slots.Hosts = append(slots.Hosts, sched.Host{ID: fmt.Sprint("host-", i), Capacity: sched.Resources{8}})
	}
	job := Claim{ID: "a", Asked: Asked{Least: 1, Most: 64, Start: 4, Unit: sched.Resources{1}, Clocks: 1000}, Began: true, Told: 4,
		Progress: Progress{Done: 100, Pace: sched.Pace{{Workers: 4, Speed: .1}, {Workers: 8, Speed: 1. / 6}}}}
	last := Decision{Policy: "feedback", Grants: []Grant{{Job: "a", Workers: 4}}}
	for _, c := range []struct {
		policy sched.Policy
		price  float64
		want   int
	}{{sched.EarlyFeedback{}, .4, 8}, {sched.EarlyFeedback{}, .1, 16}, {sched.EarlyFeedback{Unpriced: true}, .4, 5}} {
		slots.Market = market(c.price)
		if d := Decide(c.policy, time.Unix(0, 0), slots, []Claim{job}, Others{}, last); d.Of("a").Workers != c.want || d.Market != slots.Market {
			t.Errorf("%s at $%g: %+v", c.policy.Name(), c.price, d.Of("a"))
		}
	}
	for p, want := range map[sched.Policy]bool{sched.EarlyFeedback{}: true, sched.DRF{}: false} {
		slots.Market = market(.1)
		d := Decide(p, time.Unix(0, 0), slots, []Claim{job}, Others{}, last)
		before := Due(p, d.T, slots, []Claim{job}, d)
		slots.Market = market(.2)
		if got := Due(p, d.T, slots, []Claim{job}, d); before || got != want {
			t.Errorf("%s: due %t before prices move, and %t after that", p.Name(), before, got)
		}
	}
}

// A host that is no longer worth its price is excluded from plans shortly before its paid time ends, and is released when no job has more
// than its grant. A host with a job that cannot be resized stays.
func TestHostsNotWorthTheirPriceLeave(t *testing.T) {
	slots := Slots{There: 2, Hosts: []sched.Host{{ID: "h0", Capacity: sched.Resources{8}}, {ID: "h1", Capacity: sched.Resources{8}}}}
	at := func(second float64) time.Time { return time.Unix(0, int64(second*1e9)) }
	market := func(price float64) *sched.Market {
		m := &sched.Market{Look: 300, Offers: []sched.Offer{{Tier: sched.Reliable, Slots: 64, Price: .4}, {Tier: sched.Transient, Slots: 64, Price: price}}}
		for i, h := range slots.Hosts {
			m.Held = append(m.Held, sched.Held{Offer: sched.Offer{Tier: sched.Transient, Slots: 8, Price: price}, Host: h.ID, Paid: 3600 + 60*float64(i)})
		}
		return m
	}
	job := Claim{ID: "a", Asked: Asked{Least: 1, Most: 64, Start: 4, Unit: sched.Resources{1}, Clocks: 1000}, Began: true, Told: 16, Held: 16,
		Where:    []sched.Place{{Host: "h0", Workers: 8}, {Host: "h1", Workers: 8}},
		Progress: Progress{Done: 100, Pace: sched.Pace{{Workers: 4, Speed: .1}, {Workers: 8, Speed: 1. / 6}}}}
	jobs := []Claim{job}
	slots.Market = market(.1)
	d := Decide(sched.EarlyFeedback{}, at(1000), slots, jobs, Others{}, Decision{Policy: "feedback", Grants: []Grant{{Job: "a", Workers: 16}}})
	if d.Worth != 16 || len(d.Leave) > 0 || d.Of("a").Workers != 16 {
		t.Fatalf("while it is worth its price: %+v", d)
	}
	slots.Market = market(.4)
	d = Decide(sched.EarlyFeedback{}, at(2000), slots, jobs, Others{}, d)
	if d.Worth != 8 || len(d.Leave) > 0 || d.Of("a").Workers != 16 || Due(sched.EarlyFeedback{}, at(3000), slots, jobs, d) {
		t.Fatalf("while it is paid for: %+v", d)
	}
	if !Due(sched.EarlyFeedback{}, at(3400), slots, jobs, d) {
		t.Error("nothing is due when its paid time is about over")
	}
	d = Decide(sched.EarlyFeedback{}, at(3400), slots, jobs, Others{}, d)
	if !slices.Equal(d.Leave, []string{"h1"}) || d.Of("a").Workers != 8 || Due(sched.EarlyFeedback{}, at(3401), slots, jobs, d) {
		t.Errorf("afterwards: %+v", d)
	}
	for held, want := range map[int]int{16: 0, 8: 1} {
		if got := Leaving(d, []Claim{{ID: "a", Held: held}}); len(got) != want {
			t.Errorf("with %d slots held %v go", held, got)
		}
	}
	jobs[0].Fixed = true
	if d = Decide(sched.EarlyFeedback{}, at(3400), slots, jobs, Others{}, d); len(d.Leave) > 0 {
		t.Errorf("a fixed job's hosts: %+v", d)
	}
}
