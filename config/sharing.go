package config

// Sharing is what a scheduler of many jobs looks at: docs/scheduler.md. Elsewhere it changes nothing.
type Sharing struct {
	// Weight of the job's fair share of shared hosts: a job of weight 2 gets twice the share of a job of weight 1. Default 1.
	Weight float64 `yaml:"weight"`
	// Priority of the job in a queue: higher goes first. Default 0.
	Priority int `yaml:"priority"`
	// Group of the job: shares are fair among groups first, then among a group's jobs. Default none: jobs without one are a group.
	Group string `yaml:"group"`
}

// sharing checks what a scheduler looks at.
func (c *checker) sharing() {
	if j := c.job; j.Weight < 0 || j.Weight == 0 && c.written("weight") {
		c.fault("weight", "must be above zero", "write 1, or 2 for twice the share")
	}
}
