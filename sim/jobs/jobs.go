// Package jobs runs many jobs on shared machines in simulated time: the policies of sched on arrivals, on a fixed cluster or on machines
// that a policy of bidding buys at recorded prices, and the least that any scheduler could have needed. Weeks take seconds.
//
// A job is a rate model: the seconds of a clock by its workers and servers. The package knows nothing about what a clock computes, how
// a job is resized, and how results are printed.
package jobs

import (
	"math"

	"github.com/tierml/tierml/sched"
)

// Script is what happens to one job, and how fast it is. Policies do not know all of it.
type Script struct {
	ID, Group string
	Sweep     string          // whose losses its own is compared with
	Arrives   float64         // seconds
	Demand    sched.Resources // of one worker, server or other unit

	Workers, Servers int // as submitted
	Overhead         int // further units, such as an application master
	LeastWorkers     int // 0 = 1
	MostWorkers      int // 0 = no limit
	Weight           float64
	Priority         int
	Deadline         float64 // seconds; 0 = none
	Budget           float64 // dollars; 0 = no limit

	Clock    sched.Fit // seconds of a clock
	Feedback float64   // clocks until its early feedback; 0 = it gives none
	Total    float64   // clocks
	Loss     float64   // of its early feedback
	Leaves   bool      // its user ends it when the feedback is there
}

// Costs are the seconds that jobs stand still.
type Costs struct {
	Start  float64 // when a job starts
	Resize float64 // when its workers or servers change
	Resume float64 // when it comes back after it had nothing
	// Release is how long after a decision the units that others give up can be used: a job that starts on them waits so long.
	Release float64
}

// Config is one simulation. Equal values give equal results.
type Config struct {
	Jobs   []Script
	Policy sched.Policy
	Costs  Costs
	Seed   uint64

	Hosts  []sched.Host // fixed ones; or
	Market *Market      // from where they are bought

	// PlanEvery is the least time between two plans, in seconds: what happens meanwhile is planned for together.
	PlanEvery float64
	// Gang: a job that loses a machine gives up the others, too, and waits for all that it requested.
	Gang bool
	// Known: the speed of a job is known at a few sizes when it arrives, as Optimus measures it on samples. Otherwise it is known at the
	// sizes that it has had for a clock.
	Known bool
	// Horizon is when the simulation is given up, in seconds; 0 = never.
	Horizon float64
	// Saw is called for each grant that changes something; nil = not called.
	Saw func(now float64, g sched.Grant)
}

// Outcome is what became of a job. Times are in seconds; NaN = it did not happen.
type Outcome struct {
	Job      *Script
	Began    float64 // first units
	Feedback float64
	Ended    float64
	Killed   bool    // ended by the policy
	Ran      float64 // seconds with units
	Still    float64 // of Ran, standing still to start, to resume or to be resized
	Resized  int     // times that workers or servers changed while it ran
	Evicted  int     // times that it lost machines
}

// Finished reports whether all its clocks were done.
func (o *Outcome) Finished() bool { return !math.IsNaN(o.Ended) && !o.Killed && !o.Job.Leaves }

// Span is a time in which nothing changed.
type Span struct {
	From, To        float64
	Used            float64 // parts of all hosts' resources in use, summed over the kinds (Dorm, equation 1)
	Unfair          float64 // Dorm's loss of fairness; see sched.Unfairness
	Units           int     // workers and servers
	Feedback, Train int     // jobs that run
	Waiting         int     // jobs that have nothing
}

// Result is a simulation's.
type Result struct {
	Outcomes []Outcome // in the order of Config.Jobs
	Spans    []Span
	End      float64 // when the last job was gone
	GivenUp  bool    // at the horizon
	Plans    int
	Changed  int // running jobs that plans resized or moved, in all
	Most     int // and by one plan
	Unsolved int // plans whose problem had no answer; see sched.Plan
	Bill     Bill
}

// least returns the fewest workers and servers.
func (j *Script) least() (workers, servers int) {
	if j.Servers > 0 {
		servers = 1
	}
	return max(j.LeastWorkers, 1), servers
}
