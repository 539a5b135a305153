package grants

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/sched"
)

// Outlook is when a job that has not been submitted would start, with how many workers, and why.
type Outlook struct {
	Policy  string   `json:"policy"`
	Starts  bool     `json:"starts"`         // false = no start can be foreseen
	Workers int      `json:"workers"`        // at the start; 0 = as in its file
	Wait    float64  `json:"wait_seconds"`   // until then
	Ends    []string `json:"ends,omitempty"` // the jobs that end earlier, in order
	Why     string   `json:"why"`
}

// Sooner compares outlooks: the better one has an earlier start, and of equal starts more workers.
func (o Outlook) Sooner(other Outlook) int {
	switch {
	case o.Starts != other.Starts && o.Starts:
		return -1
	case o.Starts != other.Starts:
		return 1
	}
	return cmp.Or(cmp.Compare(o.Wait, other.Wait), cmp.Compare(other.Workers, o.Workers), cmp.Compare(o.Policy, other.Policy))
}

// Foresee decides about a job as if it came now, among the jobs of which at most most may run at a time. If it would
// wait, the others continue with their grants, each at its measured pace, and Foresee decides again at each end.
//
// It uses Decide, as the real decision will. Unknown events are ignored: future jobs, prices and lost hosts.
func Foresee(p sched.Policy, now time.Time, slots Slots, jobs []Claim, most int, others Others, last Decision, of Claim) Outlook {
	out := Outlook{Policy: p.Name()}
	jobs, begun := append(slices.Clone(jobs), of), now
	for {
		admitted, left := Admit(jobs, most)
		o := others
		o.Waiting += left
		d := Decide(p, now, slots, admitted, o, last)
		g := d.Of(of.ID)
		out.Wait, out.Why = now.Sub(begun).Seconds(), g.Why
		if g.Job == "" {
			out.Why = fmt.Sprintf("as many jobs have a run as may have one at a time, %d", most)
		}
		if out.Workers, out.Starts = g.Workers, g.Workers > 0; out.Starts {
			return out
		}
		next, after := nextEnd(jobs, d)
		if next == "" {
			return out
		}
		out.Ends, last = append(out.Ends, next), d
		now = now.Add(time.Duration(math.Ceil(after * float64(time.Second))))
		jobs = runOn(jobs, d, next, after)
	}
}

// nextEnd returns the job that ends first by its pace, and in how many seconds; empty = no end is known.
func nextEnd(jobs []Claim, d Decision) (next string, after float64) {
	for _, j := range jobs {
		left := math.Inf(1)
		if speed := j.speed(d); j.Ending && j.Began {
			left = 0
		} else if speed > 0 && j.Clocks > 0 {
			left = float64(max(j.Clocks-j.Done, 0)) / speed
		}
		if !math.IsInf(left, 1) && (next == "" || left < after) {
			next, after = j.ID, left
		}
	}
	return next, min(after, 10*365*24*3600)
}

// speed returns a job's clocks per second with its grant; 0 = none, or unknown.
func (j Claim) speed(d Decision) float64 {
	workers := d.Of(j.ID).Workers
	if workers == 0 || j.PausedBy != "" {
		return 0
	}
	speed, _ := j.Pace.Speed(workers, 0)
	return speed
}

// runOn returns the jobs after some seconds of a decision, without the one that has ended.
func runOn(jobs []Claim, d Decision, ended string, seconds float64) (on []Claim) {
	for _, j := range jobs {
		if j.ID == ended {
			continue
		}
		j.Done = min(j.Done+int64(seconds*j.speed(d)), max(j.Clocks, j.Done))
		if g := d.Of(j.ID); g.Workers > 0 {
			j.Began, j.Held, j.Told, j.Wants, j.Where = true, g.Workers, g.Workers, g.Workers, g.Where
		}
		on = append(on, j)
	}
	return on
}
