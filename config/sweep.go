package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tierml/tierml/sched/trials"
)

// Sweep is an array of trials of one program, each with its own settings in its environment.
type Sweep struct {
	// Envs are the settings: variables of which each trial has its own value, from a list such as `[16, 32]`, between two numbers
	// (`0.1..0.9`; whole numbers from `2..8`), or between two numbers with an even logarithm (`log 1e-4..1`). Required with `sweep`.
	Envs map[string]Choices `yaml:"envs"`
	// Search is how settings are chosen: `random` draws them, `grid` makes one trial of each combination of lists. Default random.
	Search string `yaml:"search"`
	// Samples is the number of trials with `random`. Default 16.
	Samples int `yaml:"samples"`
	// Seed of the draws. Default 1.
	Seed uint64 `yaml:"seed"`
	// Feedback are steps at which trials are compared by their loss, so that only the best go on; see below. Default none: all
	// trials run to their end.
	Feedback []Feedback `yaml:"feedback"`
}

// Choices are what a setting may be: a list, or one text with a range.
type Choices []string

// Feedback is a comparison of all trials that have come so far. A trial rests there, with its state saved, until it is certain whether
// it goes on.
type Feedback struct {
	// At is the step, as the program reports it with its loss. Required.
	At int `yaml:"at" job:"required"`
	// Keep is how many trials go on: those with the lowest loss. Required.
	Keep int `yaml:"keep" job:"required"`
}

// Ways to choose the settings of trials.
const (
	SearchRandom = "random"
	SearchGrid   = "grid"
)

const mostTrials = 10_000

// Trials is the job's sweep; nil = it has none.
func (j *Job) Trials() *trials.Sweep {
	if len(j.Sweep.Envs) == 0 {
		return nil
	}
	s := &trials.Sweep{Grid: j.Sweep.Search == SearchGrid, Samples: j.Sweep.Samples, Seed: j.Sweep.Seed}
	for _, name := range slices.Sorted(maps.Keys(j.Sweep.Envs)) {
		choices := j.Sweep.Envs[name]
		r := trials.Range{Name: name, Values: choices}
		if len(choices) == 1 {
			if parsed, err := trials.ParseRange(name, choices[0]); err == nil {
				r = parsed
			}
		}
		s.Ranges = append(s.Ranges, r)
	}
	for _, f := range j.Sweep.Feedback {
		s.Rungs = append(s.Rungs, trials.Rung{At: int64(f.At), Keep: f.Keep})
	}
	return s
}

// sweep checks the sweep, and makes its trials the job's tasks.
func (c *checker) sweep() {
	j, s := c.job, &c.job.Sweep
	if !c.written("sweep") {
		return
	}
	if len(s.Envs) == 0 {
		c.fault("sweep", "has no settings", "write sweep: {envs: {RATE: log 1e-4..1}}")
		return
	}
	setDefault(&s.Search, SearchRandom, c.written("sweep.search"))
	setDefault(&s.Seed, 1, c.written("sweep.seed"))
	c.oneOf("sweep.search", s.Search, SearchRandom, SearchGrid)
	if s.Search == SearchGrid {
		if c.written("sweep.samples") {
			c.fault("sweep.samples", "has no meaning with a grid, which has all combinations", "remove it, or write search: random")
		}
	} else {
		setDefault(&s.Samples, 16, c.written("sweep.samples"))
		c.atLeast("sweep.samples", s.Samples, 1)
		c.upTo("sweep.samples", s.Samples, mostTrials)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Envs)) {
		c.setting(name, s.Envs[name])
	}
	if c.broken("sweep") {
		return
	}
	n := j.Trials().Number()
	c.upTo("sweep.envs", n, mostTrials)
	if c.written("tasks") && j.Tasks != n {
		c.fault("tasks", fmt.Sprintf("is %d, and the sweep has %d trials", j.Tasks, n), "remove it: each trial is a task")
	}
	j.Tasks = n
	c.feedback(n)
}

func (c *checker) setting(name string, choices Choices) {
	field := "sweep.envs." + name
	c.variable(field, name)
	if _, twice := c.job.Envs[name]; twice {
		c.fault(field, name+" is below envs, too", "keep one")
	}
	if len(choices) == 0 {
		c.fault(field, "has no values", "write a list such as [16, 32], or a range such as log 1e-4..1")
		return
	}
	if len(choices) > 1 {
		return
	}
	if _, err := trials.ParseRange(name, choices[0]); err != nil {
		c.fault(field, err.Error(), "write a list such as [16, 32], a range such as 0.1..0.9 or log 1e-4..1, or move it to envs")
	} else if c.job.Sweep.Search == SearchGrid {
		c.fault(field, "is a range, and a grid is made of lists", "write a list such as [16, 32], or search: random")
	}
}

// feedback checks the steps at which trials of so many are compared.
func (c *checker) feedback(trials int) {
	j := c.job
	if len(j.Sweep.Feedback) == 0 {
		return
	}
	if j.State.Dir == "" {
		c.fault("sweep.feedback", "lets trials rest, which needs state to go on from", "write state: {dir: ckpt}")
	}
	before := Feedback{At: 0, Keep: trials}
	for i, f := range j.Sweep.Feedback {
		field := fmt.Sprintf("sweep.feedback[%d]", i)
		switch {
		case f.At <= before.At:
			c.fault(field+".at", fmt.Sprintf("%d is not above %d", f.At, before.At), "write steps that grow, such as 10 and 30")
		case j.Progress.Of > 0 && f.At >= j.Progress.Of:
			c.fault(field+".at", fmt.Sprintf("%d is not before the end, which progress.of has at %d", f.At, j.Progress.Of), "write a smaller step")
		case f.Keep < 1 || f.Keep >= before.Keep:
			c.fault(field+".keep", fmt.Sprintf("%d of %d trials", f.Keep, before.Keep), fmt.Sprintf("write 1 to %d", max(before.Keep-1, 1)))
		}
		before = f
	}
}
