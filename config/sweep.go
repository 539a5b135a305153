package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sched/trials"
)

// Sweep is trials of one program or application, each with its own settings. Trials of a program are tasks of one job, those of an
// application are jobs.
type Sweep struct {
	// Envs are a program's settings, each from a list (`[16, 32]`), a range (`0.1..0.9`, `2..8`), or a logarithmic range (`log
	// 1e-4..1`). Required with `run`.
	Envs map[string]Choices `yaml:"envs"`
	// Params are an application's settings, in the same forms. Required with `train`.
	Params map[string]Choices `yaml:"params"`
	// Search is how settings are chosen: `random`, every combination of lists (`grid`), or from earlier trials' losses (`tpe`). Default random, or
	// grid for lists with up to 16 combinations in all, if `samples` is omitted.
	Search string `yaml:"search"`
	// Samples is the number of trials with `random` and `tpe`. Default 16.
	Samples int `yaml:"samples"`
	// Seed of the draws. Default 1.
	Seed uint64 `yaml:"seed"`
	// Feedback are steps after which only the best trials continue. Default none: all trials run to their end.
	Feedback []Feedback `yaml:"feedback"`
	// Budget is the most that all trials of an application may cost together. Default no limit.
	Budget market.USD `yaml:"budget"`
	// MaxDuration is the time after the first trial's start at which all trials of an application stop. Default no limit.
	MaxDuration time.Duration `yaml:"max_duration"`
}

// Choices are the possible values of a setting: a list, or one string with a range.
type Choices []string

// Feedback is a comparison of all trials so far. A trial pauses there, with its state saved, until it is certain whether it continues.
type Feedback struct {
	// At is the step or, for an application, a clock at which the test loss is measured. Required.
	At int `yaml:"at" job:"required"`
	// Keep is how many trials continue: those with the lowest loss. Required.
	Keep int `yaml:"keep" job:"required"`
}

// Ways to choose the settings of trials.
const (
	SearchRandom = "random"
	SearchGrid   = "grid"
	SearchTPE    = "tpe"
)

const mostTrials = 10_000

// Trials returns the job's sweep; nil = none.
func (j *Job) Trials() *trials.Sweep {
	if len(j.Sweep.Envs) == 0 {
		return nil
	}
	return j.Sweep.over(j.Sweep.Envs)
}

// over returns the sweep over these settings.
func (s *Sweep) over(settings map[string]Choices) *trials.Sweep {
	sweep := &trials.Sweep{Grid: s.Search == SearchGrid, TPE: s.Search == SearchTPE, Samples: s.Samples, Seed: s.Seed}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		choices := settings[name]
		r := trials.Range{Name: name, Values: choices}
		if len(choices) == 1 {
			if parsed, err := trials.ParseRange(name, choices[0]); err == nil {
				r = parsed
			}
		}
		sweep.Ranges = append(sweep.Ranges, r)
	}
	for _, f := range s.Feedback {
		sweep.Rungs = append(sweep.Rungs, trials.Rung{At: int64(f.At), Keep: f.Keep})
	}
	return sweep
}

// TrialsOfParams returns an application's sweep; nil = none.
func (j *Job) TrialsOfParams() *trials.Sweep {
	if len(j.Sweep.Params) == 0 {
		return nil
	}
	return j.Sweep.over(j.Sweep.Params)
}

// TrialJobs returns the jobs of an application's sweep, one for each trial. None: it has no such sweep. With `search: tpe` the settings of those
// after the first ones are only examples.
func (j *Job) TrialJobs() (jobs []*Job) {
	sweep := j.TrialsOfParams()
	if sweep == nil {
		return nil
	}
	for _, settings := range sweep.Trials() {
		jobs = append(jobs, j.Trial(settings))
	}
	return jobs
}

// Trial returns the job of one trial: this one with the trial's settings, and the sweep's feedback.
func (j *Job) Trial(settings map[string]string) *Job {
	trial := *j
	trial.Sweep, trial.Feedback = Sweep{}, j.Sweep.Feedback
	trial.Train.Params = maps.Clone(j.Train.Params)
	if trial.Train.Params == nil {
		trial.Train.Params = map[string]any{}
	}
	for name, value := range settings {
		var v any
		_ = yaml.Unmarshal([]byte(value), &v) // a scalar: it was one in the file, or a drawn number
		trial.Train.Params[name] = v
	}
	return &trial
}

// sweep checks a program's sweep, and makes its trials the job's tasks.
func (c *checker) sweep() {
	j, s := c.job, &c.job.Sweep
	if !c.written("sweep") {
		return
	}
	if len(s.Params) > 0 {
		c.fault("sweep.params", "has no meaning with run", "write envs: the program reads them from its environment")
		return
	}
	if len(s.Envs) == 0 {
		c.fault("sweep", "has no settings", "write sweep: {envs: {RATE: log 1e-4..1}}")
		return
	}
	for _, field := range []string{"budget", "max_duration"} {
		if c.written("sweep." + field) {
			c.fault("sweep."+field, "has no meaning with run: all trials are one job", "write "+field+" at the top of the file")
		}
	}
	if c.drawn("envs", s.Envs); c.broken("sweep") {
		return
	}
	n := j.Trials().Number()
	c.upTo("sweep.envs", n, mostTrials)
	if c.written("tasks") && j.Tasks != n {
		c.fault("tasks", fmt.Sprintf("is %d, and the sweep has %d trials", j.Tasks, n), "remove it: each trial is a task")
	}
	j.Tasks = n
	if first, most := j.Trials().First(), j.Resources.Count.Most; s.Search == SearchTPE && most > first {
		c.fault("resources.count", fmt.Sprintf("is %d, and search: tpe runs a quarter of the trials at a time, which is %d", most, first),
			fmt.Sprintf("write count: %d, or at least samples: %d", first, 4*most-3))
	}
	c.feedback(n)
}

// sweepOfApp checks an application's sweep. The existing settings are checked with the data.
func (c *checker) sweepOfApp() {
	s := &c.job.Sweep
	if !c.written("sweep") {
		return
	}
	switch {
	case len(s.Envs) > 0:
		c.fault("sweep.envs", "has no meaning with train", "write params: an application has its settings in train.params")
		return
	case len(s.Params) == 0:
		c.fault("sweep", "has no settings", "write sweep: {params: {step: log 0.01..10}}")
		return
	case c.written("feedback"):
		c.fault("feedback", "is below sweep, too, or belongs there", "write it below sweep")
		return
	}
	if c.drawn("params", s.Params); c.broken("sweep") {
		return
	}
	c.positive("sweep.budget", s.Budget)
	if s.MaxDuration <= 0 && c.written("sweep.max_duration") {
		c.fault("sweep.max_duration", "must be above zero", "write max_duration: 3h")
	}
	n := s.over(s.Params).Number()
	c.upTo("sweep.params", n, mostJobs)
	if len(s.Feedback) > 0 {
		comparisons(c, "sweep.feedback", s.Feedback, n)
	}
}

// mostJobs bounds the trials that are jobs of their own.
const mostJobs = 1000

// drawn checks how settings are chosen.
func (c *checker) drawn(field string, settings map[string]Choices) {
	s, home := &c.job.Sweep, map[string]string{"envs": "envs", "params": "train.params"}[field]
	setDefault(&s.Search, SearchRandom, c.written("sweep.search"))
	if open := (assumer{c}).open; open("sweep.search") && open("sweep.samples") && fewCombinations(settings) {
		s.Search = SearchGrid
		c.job.Assume("sweep.search", fmt.Sprintf("sweep.search: grid, as the lists have only %d combinations", s.over(settings).Number()))
	}
	setDefault(&s.Seed, 1, c.written("sweep.seed"))
	c.oneOf("sweep.search", s.Search, SearchRandom, SearchGrid, SearchTPE)
	if s.Search == SearchGrid {
		if c.written("sweep.samples") {
			c.fault("sweep.samples", "has no meaning with a grid, which has all combinations", "remove it, or write search: random")
		}
	} else {
		setDefault(&s.Samples, usualSamples, c.written("sweep.samples"))
		c.atLeast("sweep.samples", s.Samples, 1)
		c.upTo("sweep.samples", s.Samples, mostTrials)
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		below := "sweep." + field + "." + name
		if field == "envs" {
			c.variable(below, name)
		}
		_, inEnvs := c.job.Envs[name]
		_, inParams := c.job.Train.Params[name]
		if inEnvs || inParams {
			c.fault(below, name+" is below "+home+", too", "keep one")
		}
		c.setting(below, settings[name], home)
	}
}

// usualSamples is the default number of trials.
const usualSamples = 16

// fewCombinations reports whether all settings are lists and random draws would repeat their combinations.
func fewCombinations(settings map[string]Choices) bool {
	n := 1
	for _, choices := range settings {
		if n *= len(choices); len(choices) < 2 || n > usualSamples {
			return false
		}
	}
	return true
}

// setting checks the possible values of a setting; one with a single value belongs to its home.
func (c *checker) setting(field string, choices Choices, home string) {
	if len(choices) == 0 {
		c.fault(field, "has no values", "write a list such as [16, 32], or a range such as log 1e-4..1")
		return
	}
	if len(choices) > 1 {
		return
	}
	if _, err := trials.ParseRange(field, choices[0]); err != nil {
		c.fault(field, err.Error(), "write a list such as [16, 32], a range such as 0.1..0.9 or log 1e-4..1, or move it to "+home)
	} else if c.job.Sweep.Search == SearchGrid {
		c.fault(field, "is a range, and a grid is made of lists", "write a list such as [16, 32], or search: random")
	}
}

// comparisons checks the clocks at which trials of an application are compared.
func comparisons(c *checker, field string, all []Feedback, trials int) {
	t := &c.job.Train
	before := Feedback{Keep: trials}
	for i, f := range all {
		at := fmt.Sprintf("%s[%d]", field, i)
		switch {
		case f.At <= before.At:
			c.fault(at+".at", fmt.Sprintf("%d is not above %d", f.At, before.At), "write clocks that grow, such as 10 and 30")
		case f.At >= t.Clocks:
			c.fault(at+".at", fmt.Sprintf("%d is not before the end, after %d clocks", f.At, t.Clocks), "write a smaller clock")
		case t.EvaluateEvery > 0 && f.At%t.EvaluateEvery != 0:
			c.fault(at+".at", fmt.Sprintf("at clock %d no test loss is measured: train.evaluate_every is %d", f.At, t.EvaluateEvery),
				fmt.Sprintf("write a multiple of %d, or another train.evaluate_every", t.EvaluateEvery))
		case f.Keep < 1 || f.Keep >= before.Keep:
			c.fault(at+".keep", fmt.Sprintf("%d of %d trials", f.Keep, before.Keep), fmt.Sprintf("write 1 to %d", max(before.Keep-1, 1)))
		}
		before = f
	}
}

// feedback checks the steps at which trials are compared.
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
