// Package jobs simulates many jobs on shared machines: the policies of sched on arrivals, on a fixed cluster or on
// machines that a policy of bidding buys at recorded prices, and lower bounds for any scheduler. Weeks take seconds.
//
// A job is a rate model: the seconds of a clock by its workers and servers. The package knows nothing about what a
// clock computes, how a job is resized, and how results are printed.
package jobs

import (
	"math"

	"github.com/tierml/tierml/sched"
)

// Script describes one job's course and speed. Policies know only part of it.
type Script struct {
	ID, Group string
	Sweep     string          // jobs whose losses are compared
	Arrives   float64         // seconds
	Demand    sched.Resources // per worker, server or other unit

	Workers, Servers int // as submitted
	Overhead         int // additional units, such as an application master
	LeastWorkers     int // 0 = 1
	MostWorkers      int // 0 = no limit
	Weight           float64
	Priority         int
	Deadline         float64 // seconds; 0 = none
	Budget           float64 // dollars; 0 = no limit

	Clock    sched.Fit // seconds per clock
	Feedback float64   // clocks until its early feedback; 0 = none
	Total    float64   // clocks
	Loss     float64   // in its early feedback
	Leaves   bool      // its user ends it after the feedback
}

// Costs are the seconds for which jobs are stopped.
type Costs struct {
	Start  float64 // when a job starts
	Resize float64 // when its workers or servers change
	Resume float64 // when it resumes after having had nothing
	// Release is how long after a decision released units can be used: a job that starts on them waits that long.
	Release float64
}

// Config is one simulation. Equal values give equal results.
type Config struct {
	Jobs   []Script
	Policy sched.Policy
	Costs  Costs
	Seed   uint64

	Hosts  []sched.Host // fixed ones; or
	Market *Market      // where hosts are bought

	// PlanEvery is the least time between two plans, in seconds: events in between are planned for together.
	PlanEvery float64
	// Gang: a job that loses a machine gives up the others, too, and waits for its whole request.
	Gang bool
	// Known: a job's speed at a few sizes is known on arrival, as Optimus measures it on samples. Otherwise it is known
	// for sizes that the job has had for a clock.
	Known bool
	// Horizon is when the simulation stops, in seconds; 0 = never.
	Horizon float64
	// Saw is called for each grant that changes something; nil = not called.
	Saw func(now float64, g sched.Grant)
}

// Outcome is the result of a job. Times are in seconds; NaN = it did not happen.
type Outcome struct {
	Job      *Script
	Began    float64 // when it got its first units
	Feedback float64
	Ended    float64
	Killed   bool    // ended by the policy
	Ran      float64 // seconds with units
	Still    float64 // part of Ran, stopped to start, resume or be resized
	Resized  int     // how often its workers or servers changed while it ran
	Evicted  int     // how often it lost machines
}

// Finished reports whether all its clocks were done.
func (o *Outcome) Finished() bool { return !math.IsNaN(o.Ended) && !o.Killed && !o.Job.Leaves }

// Span is a period without changes.
type Span struct {
	From, To        float64
	Used            float64 // shares of all hosts' resources in use, summed over the kinds (Dorm, equation 1)
	Unfair          float64 // Dorm's loss of fairness; see sched.Unfairness
	Units           int     // workers and servers
	Feedback, Train int     // running jobs
	Waiting         int     // jobs that have no units
}

// Result is the result of a simulation.
type Result struct {
	Outcomes []Outcome // in the order of Config.Jobs
	Spans    []Span
	End      float64 // when the last job ended
	GivenUp  bool    // stopped at the horizon
	Plans    int
	Changed  int // running jobs that plans resized or moved, in total
	Most     int // and the most by one plan
	Unsolved int // plans whose problem had no solution; see sched.Plan
	Bill     Bill
}

// least returns the minimum numbers of workers and servers.
func (j *Script) least() (workers, servers int) {
	if j.Servers > 0 {
		servers = 1
	}
	return max(j.LeastWorkers, 1), servers
}
