// Package grants applies a scheduler to real jobs: Decide has a sched.Policy decide what each job gets and why, and
// Calls lists the calls to jobs that bring it about. A Decision is on disk before the first call; a successor reads the
// last one and continues.
//
// A job gets a request to add workers only once their slots are free. So no slot is granted twice, whenever the scheduling process is
// killed: the slots show which calls were made, and repeating one changes nothing.
//
// The package decides over values. It knows nothing about processes, files, networks, clocks and machines.
package grants

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/sched"
)

// Claim is a job that has not ended.
type Claim struct {
	ID      string
	Arrived float64 // seconds
	// Deadline is in seconds by the clock of Arrived; 0 = none, or not known yet.
	Deadline float64
	Asked
	Progress
	// Began: its run was started, and has or will have slots.
	Began bool
	// Held is the number of slots that it has or waits for, and Where are those on hosts.
	Held  int
	Where []sched.Place
	// Told is the number of workers that this process requested from its run; negative = none yet. Wants is the number
	// that it wants, by its journal: others may have made requests, too. 0 = none, or unknown.
	Told, Wants int
	// Ending: its run is about to end.
	Ending bool
}

// Asked is what a job's file requests.
type Asked struct {
	Group       string
	Weight      float64 // 0 = 1
	Priority    int
	Least, Most int             // workers
	Start       int             // workers, as submitted, if a scheduler starts jobs so
	Unit        sched.Resources // per worker
	Fixed       bool            // it cannot be resized while it runs
	Clocks      int64
	Budget      float64 // dollars; 0 = no limit
	Feedback
}

// Slots are what jobs share.
type Slots struct {
	Hosts []sched.Host // the first There exist; the others can be bought
	There int
	// Market is their cost; nil = unknown.
	Market *sched.Market
}

// worth returns the hosts that a policy considers worth their price: the existing ones that stay, and those it wants bought.
func (s Slots) worth(supply *sched.Supply, leave []string) (hosts []sched.Host) {
	n := s.There
	for bought := 0.; n < len(s.Hosts) && bought < float64(supply.Acquire); n++ {
		bought += s.Hosts[n].Capacity[0]
	}
	return slices.DeleteFunc(slices.Clone(s.Hosts[:n]), func(h sched.Host) bool { return slices.Contains(leave, h.ID) })
}

// tooMany returns the hosts to give back if this many slots are worth their price. Jobs that cannot be resized keep theirs.
func (s Slots) tooMany(worth int, now time.Time, jobs []Claim) []string {
	return slices.DeleteFunc(s.Market.TooMany(worth, seconds(now)), func(host string) bool {
		return slices.ContainsFunc(jobs, func(j Claim) bool {
			return j.Fixed && slices.ContainsFunc(j.Where, func(at sched.Place) bool { return at.Host == host })
		})
	})
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// Feedback makes a job a trial. Its losses at these clocks are compared with those of its sweep's other trials.
type Feedback struct {
	Sweep  string
	At     []int64
	Keep   []int // how many of the sweep continue after each
	Trials int   // total in the sweep; 0 = unknown
}

// Progress is the progress of a job's run, by its journal.
type Progress struct {
	PausedBy string    // by whom, other than the scheduler; empty = not paused
	Done     int64     // clocks
	Spent    float64   // dollars for its workers, by the prices of their time
	Rungs    []float64 // its losses at the clocks of Feedback that it has reached
	Pace     sched.Pace
}

// seen returns the part of this that a policy's decision depends on.
func (j Claim) seen(p sched.Policy) Seen {
	seen := Seen{Away: j.PausedBy != "", Ending: j.Ending, Rungs: len(j.Rungs)}
	switch p.(type) {
	case sched.DRF, sched.Dorm, sched.FIFO, sched.Priority, sched.ASHA: // no pace
	default:
		seen.Sizes = len(j.Pace)
	}
	if _, due := p.(sched.Deadline); due && j.Deadline > 0 && j.Clocks > 0 {
		seen.Due, seen.Tenths = true, int(10*j.Done/j.Clocks)
	}
	return seen
}

// Decision is what all jobs have from a time on.
type Decision struct {
	T      time.Time     `json:"t"`
	Policy string        `json:"policy"`
	Why    string        `json:"why,omitempty"`    // for the decision as a whole
	Hosts  []sched.Host  `json:"hosts,omitempty"`  // those that exist, or can be bought
	Market *sched.Market `json:"market,omitempty"` // their cost then
	Worth  int           `json:"worth,omitempty"`  // slots that are worth their price; 0 = the policy does not say
	Leave  []string      `json:"leave,omitempty"`  // hosts to return, as they are not worth it
	Grants []Grant       `json:"grants"`           // by job
}

// Grant is one job's grant.
type Grant struct {
	Job     string        `json:"job"`
	Action  sched.Action  `json:"action"`
	Was     int           `json:"was"`     // workers before
	Workers int           `json:"workers"` // 0 = it waits, or is paused
	Why     string        `json:"why"`
	Where   []sched.Place `json:"where,omitempty"`
	Until   int           `json:"until,omitempty"` // asha: the rung that it may run to
	Seen    Seen          `json:"seen,omitzero"`
}

// Seen is the part of a job's progress that a decision used: a new decision is due when it changes.
type Seen struct {
	Away   bool `json:"away,omitempty"` // a person has paused it
	Ending bool `json:"ending,omitempty"`
	Rungs  int  `json:"rungs,omitempty"` // losses known
	Sizes  int  `json:"sizes,omitempty"` // number of sizes with a known pace
	// With deadlines: one is known, and the tenths of clocks done.
	Due    bool `json:"due,omitempty"`
	Tenths int  `json:"tenths,omitempty"`
}

// Of returns a job's grant; the zero Grant if it has none.
func (d Decision) Of(job string) Grant {
	for _, g := range d.Grants {
		if g.Job == job {
			return g
		}
	}
	return Grant{}
}

// Due reports whether a new decision is due: jobs have come or ended, hosts have, a person has paused a job or resumed it, a trial has
// given feedback, a pace was measured, prices have moved, the paid time of a surplus host has ended, or the policy has changed.
func Due(p sched.Policy, now time.Time, slots Slots, jobs []Claim, last Decision) bool {
	if last.Policy != p.Name() || len(jobs) != len(last.Grants) || !sameHosts(slots.Hosts, last.Hosts) || len(jobs) > 0 && sched.Priced(p) && slots.Market.Moved(last.Market) {
		return true
	}
	if last.Worth > 0 && slots.Market != nil && slices.ContainsFunc(slots.tooMany(last.Worth, now, jobs), func(host string) bool { return !slices.Contains(last.Leave, host) }) {
		return true
	}
	return slices.ContainsFunc(jobs, func(j Claim) bool {
		g := last.Of(j.ID)
		return g.Job == "" || g.Seen != j.seen(p)
	})
}

func sameHosts(a, b []sched.Host) bool {
	return slices.EqualFunc(a, b, func(x, y sched.Host) bool { return x.ID == y.ID && slices.Equal(x.Capacity, y.Capacity) })
}

// Admit leaves out jobs that have not begun beyond the maximum number of runs, the last ones by priority and arrival. Paused jobs count, as
// their runs continue. So no slot is kept for a job that cannot be started while the paused wait for it.
func Admit(jobs []Claim, most int) (admitted []Claim, left int) {
	var waiting []*Claim
	for i := range jobs {
		if jobs[i].Began {
			most--
		} else {
			waiting = append(waiting, &jobs[i])
		}
	}
	slices.SortStableFunc(waiting, func(a, b *Claim) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Arrived, b.Arrived), cmp.Compare(a.ID, b.ID))
	})
	out := map[string]bool{}
	for _, j := range waiting[min(max(most, 0), len(waiting)):] {
		out[j.ID] = true
	}
	return slices.DeleteFunc(slices.Clone(jobs), func(j Claim) bool { return out[j.ID] }), len(out)
}

// Others are jobs that are not part of the decision.
type Others struct {
	Over    []sched.Job // finished trials
	Waiting int         // jobs that Admit has left out
}

// Over returns a finished trial, with which later ones of its sweep are compared.
func Over(id string, arrived float64, f Feedback, rungs []float64) sched.Job {
	return sched.Job{ID: id, Sweep: f.Sweep + ofTrials, Arrived: arrived, Rungs: rungs}
}

// ofTrials ends the name of a sweep of trials: no job's name ends like this.
const ofTrials = "/"

// Decide has a policy decide what each job gets of these slots, after the last decision. If it wants only some of the
// purchasable hosts, it runs again with those.
func Decide(p sched.Policy, now time.Time, slots Slots, jobs []Claim, others Others, last Decision) Decision {
	plan, settled := planOn(p, now, slots.Hosts, slots.Market, jobs, others, last)
	d := Decision{T: now, Policy: p.Name(), Hosts: slots.Hosts, Market: slots.Market}
	if supply := plan.Supply; supply != nil {
		d.Worth = slots.Market.Want(supply)
		d.Leave = slots.tooMany(d.Worth, now, jobs)
		plan, settled = planOn(p, now, slots.worth(supply, d.Leave), slots.Market, jobs, others, last)
		plan.Why = cmp.Or(plan.Why, supply.Why)
	}
	d.Why, d.Grants = plan.Why, settled
	for _, g := range plan.Grants {
		d.Grants = append(d.Grants, Grant{Job: g.Job, Action: g.Action, Workers: g.Workers, Why: g.Why, Where: g.Where, Until: g.Until})
	}
	slices.SortFunc(d.Grants, func(a, b Grant) int { return cmp.Compare(a.Job, b.Job) })
	for i := range d.Grants {
		g := &d.Grants[i]
		g.Was = last.Of(g.Job).Workers
		g.Seen = jobs[slices.IndexFunc(jobs, func(j Claim) bool { return j.ID == g.Job })].seen(p)
	}
	return d
}

func planOn(p sched.Policy, now time.Time, hosts []sched.Host, prices *sched.Market, jobs []Claim, others Others, last Decision) (sched.Plan, []Grant) {
	s, settled := stateOf(p, now, hosts, jobs, last)
	s.Past, s.Waiting, s.Market = others.Over, others.Waiting, prices
	return p.Plan(s), settled
}

// stateOf returns the policy's input, and the grants that it does not decide: jobs paused by a person have nothing,
// killed ones end, and running fixed ones, and those about to end, keep what they have, which is subtracted from the
// hosts.
func stateOf(p sched.Policy, now time.Time, hosts []sched.Host, jobs []Claim, last Decision) (s sched.State, settled []Grant) {
	s = sched.State{Now: float64(now.Unix()), Seed: uint64(now.UnixNano())}
	for _, h := range hosts {
		s.Hosts = append(s.Hosts, sched.Host{ID: h.ID, Capacity: slices.Clone(h.Capacity)})
	}
	where := locate(hosts, jobs, last)
	for _, j := range jobs {
		g := last.Of(j.ID)
		switch {
		case g.Action == sched.Kill:
			g.Workers, g.Where = 0, nil
			settled = append(settled, g)
		case j.PausedBy != "" && (!j.Fixed || g.Workers == 0):
			settled = append(settled, Grant{Job: j.ID, Action: sched.Pause, Why: fmt.Sprintf("paused by %s: others have its slots until it is resumed", j.PausedBy)})
		case j.Ending && j.Began, j.Fixed && j.Began && g.Workers > 0:
			keeps := Grant{Job: j.ID, Action: sched.Keep, Workers: g.Workers, Where: where[j.ID], Why: "keeps what it began with: such a job cannot be resized"}
			if j.Ending {
				keeps.Workers, keeps.Why = min(g.Workers, j.slots()), "is about to end, and gives back what it has"
			}
			settled = append(settled, keeps)
			for _, at := range where[j.ID] {
				i := slices.IndexFunc(s.Hosts, func(h sched.Host) bool { return h.ID == at.Host })
				add(s.Hosts[i].Capacity, j.Unit, -at.Workers)
			}
		default:
			s.Jobs = append(s.Jobs, j.state(p, last, where[j.ID]))
		}
	}
	return s, settled
}

// state returns the policy's view of a job. A job that gives no feedback is a sweep by itself, of which nothing is better.
func (j Claim) state(p sched.Policy, last Decision, where []sched.Place) sched.Job {
	g := last.Of(j.ID)
	of := sched.Job{ID: j.ID, Group: j.Group, Phase: sched.Training, Arrived: j.Arrived, Deadline: j.Deadline, Weight: j.Weight, Priority: j.Priority, Demand: j.Unit,
		WantWorkers: cmp.Or(j.Start, j.Most), LeastWorkers: j.Least, MostWorkers: j.Most, Where: where, Workers: unitsOf(where),
		Done: float64(j.Done), Total: float64(j.Clocks), Sweep: j.ID, Loss: math.Inf(-1), Rungs: j.Rungs, Until: g.Until, Pace: j.Pace,
		Spent: j.Spent, Budget: j.Budget}
	if len(j.At) > 0 {
		of.Sweep, of.Keeps, of.Trials, of.Phase = j.Sweep+ofTrials, j.Keep, j.Trials, sched.Feedback
	}
	if len(j.Rungs) > 0 {
		of.Phase, of.Loss = sched.Training, j.Rungs[0]
	}
	lost := of.Workers < g.Workers
	switch {
	case g.Action == sched.Pause && !g.Seen.Away && last.Policy == p.Name():
		of.Phase = sched.Paused
	case g.Workers == 0 || of.Workers < max(j.Least, 1) || lost && (of.Phase == sched.Feedback && asSubmitted(p) || static(p)):
		of.Phase, of.Workers, of.Where = sched.Queued, 0, nil // its state is kept, and it waits its turn
	}
	return of
}

// static reports whether a policy resizes no job that runs.
func static(p sched.Policy) bool {
	switch p.(type) {
	case sched.FIFO, sched.ASHA:
		return true
	}
	return false
}

// asSubmitted reports whether a policy runs jobs at their submitted size until they give feedback.
func asSubmitted(p sched.Policy) bool {
	return static(p) || sched.StopsTrials(p)
}

func unitsOf(where []sched.Place) (n int) {
	for _, at := range where {
		n += at.Workers
	}
	return n
}

// locate determines the location of jobs' last grants: on hosts where they have slots, and the rest, still on its way, where there is room.
// Slots without room were lost with their host.
func locate(hosts []sched.Host, jobs []Claim, last Decision) map[string][]sched.Place {
	free := map[string]sched.Resources{}
	for _, h := range hosts {
		free[h.ID] = slices.Clone(h.Capacity)
	}
	where, missing := map[string][]sched.Place{}, map[string]int{}
	put := func(j Claim, host string, most int) {
		room, there := free[host]
		n := min(most, missing[j.ID], Units(room, j.Unit))
		if !there || n < 1 {
			return
		}
		add(room, j.Unit, -n)
		missing[j.ID] -= n
		if i := slices.IndexFunc(where[j.ID], func(at sched.Place) bool { return at.Host == host }); i >= 0 {
			where[j.ID][i].Workers += n
			return
		}
		where[j.ID] = append(where[j.ID], sched.Place{Host: host, Workers: n})
	}
	for _, j := range jobs {
		if g := last.Of(j.ID); g.Action != sched.Kill && j.PausedBy == "" {
			if missing[j.ID] = g.Workers; j.Ending {
				missing[j.ID] = min(g.Workers, j.slots())
			}
		}
		for _, at := range j.Where {
			put(j, at.Host, at.Workers)
		}
	}
	for _, j := range jobs {
		for _, h := range hosts {
			put(j, h.ID, missing[j.ID])
		}
	}
	return where
}

// Else returns how many workers each of other policies would grant a job now, from scratch: the alternatives.
func Else(policies []sched.Policy, now time.Time, slots Slots, jobs []Claim, job string) map[string]int {
	all := map[string]int{}
	for _, p := range policies {
		all[p.Name()] = Decide(p, now, slots, jobs, Others{}, Decision{}).Of(job).Workers
	}
	return all
}

// Leaving returns the hosts to give back now. They wait until no job has more slots than it was granted: then the slots
// still in use fit elsewhere.
func Leaving(d Decision, jobs []Claim) []string {
	if slices.ContainsFunc(jobs, func(j Claim) bool { return j.Held > d.Of(j.ID).Workers }) {
		return nil
	}
	return d.Leave
}

// Call is a request to a job's run.
type Call struct {
	Job     string
	Start   bool // its run is started, with this many workers
	Stop    bool // its run ends
	Workers int  // from now on; 0 = it is paused
	Why     string
}

// Calls returns the requests to send now, so that jobs get what was decided: first to those that get less. Those that
// get more get their request as slots become free, and another for the rest later. Nothing is requested from a job that
// a person has paused, or that is about to end. Workers that a run wants but nobody granted are removed.
//
// Invariant: the slots that jobs hold or were requested to have fit together on the hosts, as long as no host goes. Free slots are the
// hosts' minus each job's reservation: the maximum of what it holds and what it was requested to have. So the slots of a shrinking job are
// reserved until they are seen to be gone, and nothing is requested in their expectation.
//
// A process that begins has sent no request (Told below 0). The previous one may have requested everything in the stored decision: that is
// reserved, and requesting it again changes nothing.
func Calls(d Decision, jobs []Claim) (calls []Call) {
	var free sched.Resources
	for _, h := range d.Hosts {
		for len(free) < len(h.Capacity) {
			free = append(free, 0)
		}
		add(free, h.Capacity, 1)
	}
	for _, j := range jobs {
		add(free, j.Unit, -j.reserved(d.Of(j.ID)))
	}
	call := func(j Claim, g Grant, workers int) {
		if workers != j.Told || !j.Began || j.Wants > workers { // another client requested more for it
			calls = append(calls, Call{Job: j.ID, Start: !j.Began, Workers: workers, Why: why(d, g)})
		}
	}
	for _, j := range jobs {
		switch g := d.Of(j.ID); {
		case g.Action == sched.Kill:
			calls = append(calls, Call{Job: j.ID, Stop: true, Why: why(d, g)})
		case j.Began && g.Job != "" && g.Workers <= j.slots() && !g.Seen.Away && !j.Ending:
			call(j, g, g.Workers)
		}
	}
	for _, j := range jobs {
		g, has := d.Of(j.ID), j.slots()
		if g.Workers <= has || j.Ending {
			continue
		}
		own := j.reserved(g)
		add(free, j.Unit, own)
		workers := min(g.Workers, max(Units(free, j.Unit), has))
		if workers < max(j.Least, 1) { // it waits for more
			add(free, j.Unit, -own)
			continue
		}
		add(free, j.Unit, -workers)
		call(j, g, workers)
	}
	return calls
}

func why(d Decision, g Grant) string { return fmt.Sprintf("scheduler %s: %s", d.Policy, g.Why) }

// slots returns how many slots a job is known to have, or to be requesting.
func (j Claim) slots() int {
	if j.PausedBy != "" { // it will request them again when it is resumed
		return j.Held
	}
	return max(j.Held, j.Told, j.Wants)
}

// reserved returns the number of slots that no other job may use. A run to which this process has sent no request may
// be carrying out the decision.
func (j Claim) reserved(g Grant) int {
	if j.Began && j.Told < 0 {
		return max(j.Held, j.Wants, g.Workers)
	}
	return max(j.slots(), 0)
}

func add(to, unit sched.Resources, times int) {
	for k, v := range unit {
		if k < len(to) {
			to[k] += v * float64(times)
		}
	}
}

// Units returns how many units fit into the free part.
func Units(free, unit sched.Resources) int {
	fits := math.Inf(1)
	for k, v := range unit {
		if v > 0 && k < len(free) {
			fits = min(fits, math.Floor(free[k]/v+1e-9))
		}
	}
	return int(max(min(fits, 1e9), 0))
}
