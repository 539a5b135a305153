package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/sched/trials"
)

// Tuning selects the settings to tune while a job runs: nil = none; empty = those of training; else a program's knobs, each with a list of
// whole numbers, or a range.
type Tuning map[string]Choices

// TunesTraining reports whether settings of training are sought.
func (j *Job) TunesTraining() bool { return j.Tune != nil && len(j.Tune) == 0 }

// Knobs returns a program's knobs, sorted by name.
func (j *Job) Knobs() (knobs []trials.Range) {
	for _, name := range slices.Sorted(maps.Keys(j.Tune)) {
		k, _ := knobOf(name, j.Tune[name]) // checked with the file
		knobs = append(knobs, k)
	}
	return knobs
}

func knobOf(name string, choices Choices) (trials.Range, error) {
	if len(choices) == 1 {
		k, err := trials.ParseRange(name, choices[0])
		if err == nil && !k.Whole {
			err = fmt.Errorf("%q has ends that are no whole numbers", choices[0])
		}
		return k, err
	}
	for i, v := range choices {
		n, err := strconv.Atoi(v)
		if err != nil || strconv.Itoa(n) != v || slices.Contains(choices[:i], v) {
			return trials.Range{}, fmt.Errorf("%q is no whole number, or is there twice", v)
		}
	}
	if len(choices) == 0 {
		return trials.Range{}, fmt.Errorf("there is no value")
	}
	return trials.Range{Name: name, Values: choices}, nil
}

// mostKnobs bounds the knobs tuned at a time: each needs trials.
const mostKnobs = 8

func (c *checker) tuned() {
	j := c.job
	if problem, instead := j.untunable(); problem != "" {
		c.fault("tune", problem, instead)
		return
	}
	if len(j.Tune) == 0 {
		return
	}
	switch {
	case !j.IsProgram():
		c.fault("tune", "has knobs, which programs have", "write tune: true")
		return
	case j.Tasks > 0:
		c.fault("tune", "has knobs, which are of one program", "remove it, or tasks and sweep")
	case j.Elastic():
		c.fault("tune", "has knobs, for each change of which a gang restarts as a whole", "remove it, or on_loss")
	case j.Progress.Of == 0 && !c.broken("progress"):
		c.fault("tune", "needs the program's last step, by which it judges whether a trial pays", "write progress: {of: 10000}")
	case j.State.Dir == "" && !c.broken("state"):
		c.fault("tune", "needs a state, from which the program restarts for each change", "write state: {dir: state}")
	}
	c.upTo("tune", len(j.Tune), mostKnobs)
	upper := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(j.Tune)) {
		field := "tune." + name
		if u := strings.ToUpper(name); !envName().MatchString(name) || upper[u] {
			c.fault(field, fmt.Sprintf("%q cannot end the name of a variable of its own", name), "use letters, digits and _, and no two that differ in case alone")
		} else {
			upper[u] = true
		}
		if _, err := knobOf(name, j.Tune[name]); err != nil {
			c.fault(field, err.Error(), "write a range of whole numbers, such as 1..8, or a list, such as [0, 2, 4]")
		}
	}
}

// untunable returns why a job's policy leaves nothing to tune, and the remedy; empty = there is something, or it is not requested.
func (j *Job) untunable() (problem, instead string) {
	switch {
	case !j.TunesTraining():
		return "", ""
	case j.IsProgram():
		return "names no knobs of the program", "write tune: {threads: 1..8}; the program finds the value in TIERML_TUNE_THREADS"
	case !j.Restarts():
		return "", ""
	}
	return "has no use with policy " + j.Policy + ", which trains on one fleet after the other", "remove it, or write policy: tierml"
}
