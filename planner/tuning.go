package planner

import (
	"fmt"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity/tuning"
)

// Tuning returns how a job's settings are searched during training; nil if they are not, with the reason if the job requests it. Known are
// settings that served such jobs.
func Tuning(job *config.Job, reliable int, known []tuning.Known) (o *tuning.Options, off string) {
	switch {
	case !job.TunesTraining():
		return nil, ""
	case reliable == 0:
		return nil, "not tuned: without reliable machines the layout is the market's"
	}
	o = &tuning.Options{
		Clocks: job.Train.Clocks, Evaluate: job.Train.EvaluateEvery, Partitions: job.Train.Partitions, Known: known, Share: tuning.UsualShare, Seed: job.Seed,
	}
	if job.Train.Holdout == 0 {
		o.Evaluate = 0
	}
	return o, ""
}

// TuningText describes a job's settings before it starts; empty if the job does not request tuning.
func TuningText(job *config.Job, choice Resolved, known []tuning.Known) string {
	o, off := Tuning(job, choice.Reliable.Count, known)
	if o == nil {
		return off
	}
	machines := choice.Want.Machines
	if choice.Want.VCPU > 0 && len(choice.Pools) > 0 {
		machines = (choice.Want.VCPU + choice.Pools[0].Type.VCPU - 1) / max(choice.Pools[0].Type.VCPU, 1)
	}
	trials, clocks, off := tuning.Outlook(*o, machines)
	if off != "" {
		return off
	}
	return fmt.Sprintf("the division of serving and working is tuned during training: at first %d settings for %d clocks each", trials, clocks)
}
