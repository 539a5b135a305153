// Package schedulers measures the schedulers of many jobs in simulation: the figures of EPS and Dorm, and ours next to
// theirs.
package schedulers

import (
	"github.com/tierml/tierml/sched"
	"github.com/tierml/tierml/sim/jobs"
)

// profile is what a model's clock takes compared with that of others: processor time by `tierml train --deterministic --threads 1` on a9a
// (clocks 41 to 240, by 200), and how many parameters workers and servers exchange.
type profile struct {
	Name         string
	Milliseconds float64
	Parameters   float64
}

// profiles are those of our own eight models, in the order of EPS's figure 14.
var profiles = []profile{
	{"svm", 1.05, 124}, {"logistic", 1.75, 124}, {"linear", .95, 124}, {"dnn", 8, 16250}, {"lasso", .9, 124}, {"ridge", .85, 124}, {"mlr", .8, 248}, {"robust", .9, 124},
}

// sweep is EPS's with a model's clock, in seconds, with 8 workers and 4 servers. Of logistic regression a thirtieth of it is the
// exchange with servers, as in eps.py; of the others as much more or less as they have parameters for their work.
func (p profile) sweep(apart, clock float64) jobs.Sweep {
	s := jobs.EPS(apart)
	exchange := p.Parameters / 124 / (p.Milliseconds / 1.75) / 29 // for each second of work
	s.Clock = sched.Fit{8 * clock / (1 + exchange), 0, clock * exchange / (1 + exchange) / 2}
	return s
}
