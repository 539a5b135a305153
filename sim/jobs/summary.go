package jobs

import (
	"math"
	"slices"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sched"
)

// Summary is a result in figures. Times are in seconds; NaN = no job got that far.
type Summary struct {
	Jobs, Finished, Killed int
	Left                   int     // neither finished nor stopped
	Mean, P95, LeastMean   float64 // from arrival to the end of finished jobs, with a lower bound of the mean
	Ended                  float64 // mean including stopped jobs
	Met                    float64 // share of deadlines met; NaN = no job has one
	Unsolved               float64 // share of plans whose problem had no solution
	Feedback, LeastBack    float64 // from arrival to the early feedback: mean, and a lower bound
	Makespan               float64
	Best                   float64 // when the job with the least loss ended, since the start
	Unfair, MostUnfair     float64 // Dorm's loss of fairness: mean over time, and maximum
	Used                   float64 // share of the hosts' resources while they existed, summed over kinds
	UnitHours              float64 // of workers and servers
	Resizes                float64 // mean per finished job
	Still                  float64 // share of jobs' running time in which they were stopped
	Bill                   Bill
	LeastDollars           market.USD // 0 = hosts are not bought
}

// Sum computes a result's figures.
func Sum(cfg *Config, r *Result) Summary {
	s := Summary{Jobs: len(r.Outcomes), Makespan: r.End, Bill: r.Bill, Best: math.NaN()}
	var times, backs, ends []float64
	due, met := 0, 0
	var done, fed []*Script
	ran, still, resizes, least := 0., 0., 0., math.Inf(1)
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		ran, still = ran+o.Ran, still+o.Still
		if o.Killed {
			s.Killed++
		}
		if math.IsNaN(o.Ended) {
			s.Left++
		} else {
			ends = append(ends, o.Ended-o.Job.Arrives)
		}
		if o.Job.Deadline > 0 {
			due++
			if o.Finished() && o.Ended <= o.Job.Deadline+instant {
				met++
			}
		}
		if !math.IsNaN(o.Feedback) {
			backs, fed = append(backs, o.Feedback-o.Job.Arrives), append(fed, o.Job)
		}
		if !o.Finished() {
			continue
		}
		resizes += float64(o.Resized)
		times, done = append(times, o.Ended-o.Job.Arrives), append(done, o.Job)
		if o.Job.Loss < least {
			least, s.Best = o.Job.Loss, o.Ended
		}
	}
	total := cfg.most()
	s.Finished, s.Ended, s.Met = len(done), mean(ends), float64(met)/float64(due)
	s.Unsolved = float64(r.Unsolved) / float64(max(r.Plans, 1))
	s.Mean, s.P95 = mean(times), percentile(times, .95)
	s.LeastMean = LeastTimes(total, done, func(j *Script) float64 { return j.Total })
	s.Feedback, s.LeastBack = mean(backs), LeastTimes(total, fed, func(j *Script) float64 { return j.Feedback })
	s.Resizes, s.Still = resizes/float64(len(done)), still/ran
	seconds := 0.
	for _, span := range r.Spans {
		d := span.To - span.From
		seconds += d
		s.Unfair, s.Used, s.UnitHours = s.Unfair+d*span.Unfair, s.Used+d*span.Used, s.UnitHours+d*float64(span.Units)/3600
		s.MostUnfair = max(s.MostUnfair, span.Unfair)
	}
	s.Unfair, s.Used = s.Unfair/seconds, s.Used/seconds
	if cfg.Market != nil {
		s.Used = s.UnitHours * unitSize(cfg.Jobs) / r.Bill.VCPUHours
		s.LeastDollars = cfg.Market.LeastDollars(r)
	}
	return s
}

// unitSize returns the amount of the first resource that a unit takes; jobs on bought machines have units of one size.
func unitSize(jobs []Script) float64 { return jobs[0].Demand[0] }

// most returns the resources that the hosts have, or may have.
func (c *Config) most() sched.Resources {
	if c.Market != nil {
		return sched.Resources{float64(c.Market.Most)}
	}
	var total sched.Resources
	for _, h := range c.Hosts {
		for k, v := range h.Capacity {
			if k == len(total) {
				total = append(total, 0)
			}
			total[k] += v
		}
	}
	return total
}

func mean(x []float64) float64 {
	sum := 0.
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// percentile uses the nearest rank.
func percentile(x []float64, p float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(x))
	return sorted[min(int(math.Ceil(p*float64(len(x))))-1, len(x)-1)]
}
