// Package sched decides which job gets how many workers and servers of a shared set of hosts, and where: a Policy maps a State to a Plan
// with a reason for every grant and refusal. It has the schedulers of EPS and Dorm, and those that they were compared with.
//
// It decides over plain values and keeps no state between calls: what a policy must remember is in the State. It knows
// nothing about how machines are bought, what a clock does, how a job is resized or paused, and about clouds, networks
// and files.
package sched

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tierml/tierml/internal/spelling"
)

// Policy shares hosts among jobs.
type Policy interface {
	Name() string
	// Plan returns what each job has from now on. Equal states give equal plans.
	Plan(State) Plan
}

// Resources are amounts of each kind, in the order of the hosts' capacities, such as CPUs, GPUs, GB of memory.
type Resources []float64

// Host is a machine whose resources are shared.
type Host struct {
	ID       string
	Capacity Resources
}

// Phase of a job.
type Phase string

const (
	Queued   Phase = "queued"
	Feedback Phase = "feedback" // runs and has not given its early feedback
	Training Phase = "training" // runs and has given it
	Paused   Phase = "paused"   // holds no workers and no servers; its state is kept
)

// Job is a job that is not done. Workers and servers are units: both take Demand, as in EPS (section 6) and Dorm (III-C4). A job of Dorm
// has workers only.
type Job struct {
	ID       string
	Group    string // owner; fairness is among groups first
	Phase    Phase
	Arrived  float64 // seconds
	Deadline float64 // seconds; 0 = none
	Weight   float64 // of its fair share; 0 = 1
	Priority int     // higher goes first
	Demand   Resources
	Overhead int // units other than workers and servers, such as EPS's application master

	WantWorkers, WantServers   int // as submitted
	LeastWorkers, LeastServers int // fewer cannot hold its data or parameters; 0 = 1 worker, and 1 server if it wants any
	MostWorkers                int // limit (n_max); 0 = none

	Workers, Servers int     // at present
	Where            []Place // by host
	Done, Total      float64 // clocks
	// Loss is its early feedback: of held-out examples at a clock that is the same for its whole sweep. Lower is better; NaN, a diverged
	// trial, is the worst. It counts in phases Training and Paused.
	Loss float64
	// Sweep names the jobs whose losses its own is compared with. Jobs of different sweeps compare by their places in them.
	Sweep string
	// Keeps is how many of its sweep continue after each rung; none = the policy decides.
	Keeps  []int
	Trials int       // total in its sweep, including future ones; 0 = unknown
	Rungs  []float64 // its loss at each rung reached
	Until  int       // asha: the rung that it may run to, by the last plan
	Pace   Pace
	Spent  float64 // dollars so far; 0 = unknown
	Budget float64 // limit of its total dollars; 0 = none
}

// Place is the number of a job's units on a host.
type Place struct {
	Host                       string
	Workers, Servers, Overhead int
}

// State is everything that a policy may use.
type State struct {
	Now   float64 // seconds
	Seed  uint64  // for randomised policies
	Hosts []Host
	Jobs  []Job
	// Past are finished trials: their ID, Sweep, Arrived and Rungs.
	Past []Job
	// Waiting is the number of further jobs, which cannot begin before one of Jobs ends.
	Waiting int
	// Market is where slots can be bought; nil = only the hosts are available.
	Market *Market
}

// Action is the effect of a plan on a job.
type Action string

const (
	Start  Action = "start"
	Keep   Action = "keep"
	Grow   Action = "grow"
	Shrink Action = "shrink"
	Move   Action = "move" // the same number of units, elsewhere
	Wait   Action = "wait"
	Pause  Action = "pause"
	Resume Action = "resume"
	Kill   Action = "kill"
)

// Grant is what a job has from now on, and why.
type Grant struct {
	Job              string
	Action           Action
	Workers, Servers int
	Where            []Place
	Until            int // asha: the rung at which a new decision is needed
	Why              string
}

// Plan has a grant for every job of the state, in the order of their IDs.
type Plan struct {
	Grants []Grant
	// Value is the objective that the policy maximised, and Bound an upper bound for any plan; 0 = the policy has none.
	Value, Bound float64
	Why          string // of the plan as a whole
	Unsolved     bool   // dorm: P2 with all jobs had no solution
	// Supply lists purchases and returns; nil = the buyer decides, as with all policies except feedback.
	Supply *Supply
}

// Grant returns a job's grant; false = it is not in the plan.
func (p Plan) Grant(job string) (Grant, bool) {
	i := slices.IndexFunc(p.Grants, func(g Grant) bool { return g.Job == job })
	if i < 0 {
		return Grant{}, false
	}
	return p.Grants[i], true
}

// policies, sorted by name.
var policies = []Policy{
	ASHA{}, Deadline{}, Dorm{}, DRF{}, EarlyFeedback{}, FIFO{}, H{}, KillWorst{}, Marginal{}, Priority{},
}

// ByName returns the policy with a name, with its defaults:
//
//   - asha: successive halving without waiting: a trial is paused at each rung and continues when it is among the best third there.
//   - deadline: ours: the fewest units with which each deadline is met, and the rest as in marginal.
//   - dorm: Dorm's (P2): the most of all resources used, with bounds on unfairness and on the jobs resized at once.
//   - drf: weighted dominant resource fairness, among groups and then among their jobs.
//   - feedback: ours for sweeps: early feedback first, the worst paused for it; then the best resume, and h's running mode. It says how many
//     slots are worth their price.
//   - fifo: first come, first served, as submitted: the parameter server as it was before EPS.
//   - h: EPS's H-scheduler (algorithm 1): a new job takes a worker and a server at a time from those that have given feedback.
//   - kill: Optimus's as EPS compares with it: the worst job is checkpointed and shares what it had with the new one.
//   - marginal: Optimus's: a unit goes to the job whose time left it shortens the most.
//   - priority: Litz's: a new job takes random numbers of workers from random jobs of lower priority.
//
// Some take settings after a colon: dorm:THETA1,THETA2, and feedback:unpriced, which ignores the market.
func ByName(name string) (Policy, error) {
	plain, settings, has := strings.Cut(name, ":")
	p, err := spelling.Find("scheduler", plain, policies)
	if err != nil || !has {
		return p, err
	}
	if s, takes := p.(settable); takes {
		if p, err = s.with(settings); err == nil {
			return p, nil
		}
		return nil, fmt.Errorf("scheduler %s: %w", name, err)
	}
	return nil, fmt.Errorf("scheduler %s: %s has no settings", name, plain)
}

// settable is a policy with settings behind its name.
type settable interface {
	with(settings string) (Policy, error)
}

// Names lists the names that ByName knows, sorted.
func Names() []string { return spelling.Names(policies) }

func (j Job) weight() float64 {
	if j.Weight > 0 {
		return j.Weight
	}
	return 1
}

func (j Job) leastWorkers() int { return max(j.LeastWorkers, 1) }

func (j Job) leastServers() int {
	if j.WantServers == 0 {
		return 0
	}
	return max(j.LeastServers, 1)
}

// runs reports whether the job holds units.
func (j Job) runs() bool { return j.Phase == Feedback || j.Phase == Training }

// worse orders jobs by early feedback, the worst first: by their places in their sweeps, where NaN losses are last, and
// then the highest.
func worse(a, b *draft) int { return cmp.Or(cmp.Compare(a.place, b.place), worseLoss(a, b)) }

func worseLoss(a, b *draft) int { return worseOf(&a.Job, &b.Job, a.Loss, b.Loss) }

func worseOf(a, b *Job, lossA, lossB float64) int {
	return cmp.Or(boolean(lossB != lossB)-boolean(lossA != lossA), cmp.Compare(lossB, lossA), cmp.Compare(b.Arrived, a.Arrived), cmp.Compare(b.ID, a.ID))
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
