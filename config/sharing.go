package config

import "fmt"

// Sharing is input for a scheduler of many jobs: docs/scheduler.md. Elsewhere it changes nothing.
type Sharing struct {
	// Weight of the job's fair share of shared hosts. Default 1.
	Weight float64 `yaml:"weight"`
	// Priority of the job in a queue: higher goes first. Default 0.
	Priority int `yaml:"priority"`
	// Group of the job. Shares are fair among groups first. Default none: jobs without a group form one.
	Group string `yaml:"group"`
	// StartWith is the number of workers that a job with a range begins with ([schedulers](scheduler.md#jobs-that-run)). Default
	// the largest.
	StartWith int `yaml:"start_with"`
	// Feedback makes the job a trial, compared at these clocks with the jobs of the same name. Default none, or the sweep's.
	Feedback []Feedback `yaml:"feedback"`
}

// sharing checks a scheduler's input.
func (c *checker) sharing() {
	if j := c.job; j.Weight < 0 || j.Weight == 0 && c.written("weight") {
		c.fault("weight", "must be above zero", "write 1, or 2 for twice the share")
	}
	if n, count := c.job.StartWith, c.job.Resources.Count; c.written("start_with") && (n < count.Least || n > count.Most) {
		c.fault("start_with", fmt.Sprintf("%d has no meaning with resources.count %d to %d", n, count.Least, count.Most), "write a number of workers of that range")
	}
	if !c.written("feedback") {
		return
	}
	if c.job.IsProgram() {
		c.fault("feedback", "is for applications: trials of programs are tasks of one job", "write it below sweep")
		return
	}
	comparisons(c, "feedback", c.job.Feedback, mostTrials)
}
