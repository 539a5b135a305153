package config

import (
	"fmt"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/diloco"
	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/ps"
)

// Tiers make a program's machines replicas of one model (docs/python.md).
type Tiers struct {
	// Parameters bounds the model's size in parameters. Required with `tiers`.
	Parameters Quantity `yaml:"parameters"`
	// Every is the number of steps between exchanges. Default 50.
	Every int `yaml:"every"`
	// Rate is the learning rate of the outer SGD. Default 0.7.
	Rate float64 `yaml:"rate"`
	// Momentum of the outer SGD (Nesterov's). Default 0.9.
	Momentum float64 `yaml:"momentum" job:"zero"`
	// Transport is the format of deltas sent to the servers: 4, 2 or 1 bytes per parameter. Default `float32`.
	Transport string `yaml:"transport"`
	// Deterministic makes the model the same, bit for bit, whatever happens to the machines. Default false.
	Deterministic bool `yaml:"deterministic"`
}

// OnTiers reports whether the job's program trains on parameter servers.
func (j *Job) OnTiers() bool { return j.Run != "" && j.Tiers.Every > 0 }

// Terms returns what the job's machines and its program must agree on.
func (j *Job) Terms() apps.Terms {
	t := &j.Tiers
	return apps.Terms{Every: max(t.Every, 1), Rate: t.Rate, Momentum: t.Momentum, Transport: t.Transport, Steps: j.Progress.Of, Floats: int(t.Parameters),
		Replicas: j.Resources.Count.Most, Seed: j.Seed, Deterministic: t.Deterministic}
}

const mostParameters = 1 << 40

// tiers checks a program that trains on parameter servers, and makes it training: a replica is a split, and a clock a round.
func (c ownProgram) tiers() {
	j, t := c.job, &c.job.Tiers
	for field, instead := range map[string]string{
		"state":     "the tiers hold the model; remove it, or write progress and files to the workdir",
		"tasks":     "write resources: {count: 4} for four replicas",
		"sweep":     "remove one of the two",
		"on_notice": "remove it: a notice ends the round under way, and what was done of it is delivered",
		"ports":     "remove it",
	} {
		if c.written(field) {
			c.fault(field, "has no use with tiers", instead)
		}
	}
	if c.written("resources.vcpu") {
		c.fault("resources.vcpu", "has no meaning with run: a program runs on a number of machines", "write count: 4")
	}
	for field, value := range map[string]float64{"parameters": float64(t.Parameters), "every": float64(t.Every), "rate": t.Rate} {
		if c.written("tiers."+field) && value <= 0 {
			c.fault("tiers."+field, "must be above zero", "write "+example("tiers."+field))
		}
	}
	switch {
	case !c.written("tiers.parameters"):
		c.fault("tiers.parameters", "is missing", "write how many parameters the model has at most, such as parameters: 124M")
	case t.Parameters > mostParameters:
		c.fault("tiers.parameters", t.Parameters.String()+" is more than any machine holds", "write such as parameters: 124M")
	case t.Parameters != Quantity(int64(t.Parameters)):
		c.fault("tiers.parameters", t.Parameters.String()+" is not a whole number", "write such as parameters: 124M")
	}
	if t.Momentum >= 1 {
		c.fault("tiers.momentum", fmt.Sprintf("%v never forgets", t.Momentum), "write a number from 0 to below 1, such as 0.9")
	}
	setDefault(&t.Every, 50, c.written("tiers.every") && t.Every > 0)
	setDefault(&t.Rate, 0.7, c.written("tiers.rate"))
	setDefault(&t.Momentum, 0.9, c.written("tiers.momentum"))
	setDefault(&t.Transport, "float32", c.written("tiers.transport"))
	c.oneOf("tiers.transport", t.Transport, ps.Transports()...)
	if !c.written("progress.of") {
		c.fault("progress.of", "is missing", "with tiers, write after how many steps of a replica the program is done, such as progress: {of: 20000}")
	}
	c.machines()
	terms := j.Terms()
	j.Train = Train{
		App: diloco.Name, Clocks: max(diloco.Rounds(terms), 1), Splits: max(terms.Replicas, 1), Partitions: 32, Consistency: BSP,
		Deterministic: t.Deterministic, EvaluateEvery: 1,
	}
	if !c.written("stages.two_above") && !c.written("stages.three_above") {
		// Reliable machines serve alone until their links are full: then the loss of a machine costs nobody else a round.
		j.Stages.TwoAbove, j.Stages.ThreeAbove = onlyReliableServe, onlyReliableServe
	}
}

// machines checks the job's statements about its machines.
func (c ownProgram) machines() {
	j := c.job
	if !c.written("policy") && j.Policy == Auto {
		j.Policy = bidding.TierML{}.Name()
	}
	c.oneOf("policy", j.Policy, Policies()...)
	if policy, err := bidding.ByName(j.Policy); j.Policy == Auto || err == nil && byRestart(policy) {
		c.fault("policy", j.Policy+" may do without reliable machines, which tiers need", "write policy: tierml, or remove the line")
	}
	if j.Reliable.Count < 1 {
		c.fault("reliable.count", "tiers need a reliable machine, which holds the model when all others go", "write 1 or more, or remove the line")
	}
}

func byRestart(p bidding.Policy) bool {
	_, restarts := p.(bidding.ByRestart)
	return restarts
}

// onlyReliableServe is the number of transient machines for each reliable one up to which the reliable ones serve alone, unless measured
// load says otherwise.
const onlyReliableServe = 64
