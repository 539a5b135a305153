package planner

import (
	"fmt"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
)

// ForLocal builds the input of a plan for the local cloud. Work is the whole job's, in floating-point operations.
func ForLocal(job *config.Job, choice Resolved, work float64) (Input, error) {
	policy, err := job.Decider()
	if err != nil {
		return Input{}, fmt.Errorf("planning %s: %w", job.Name, err)
	}
	if bidding.NeedsDeadline(policy) && job.Deadline.IsZero() {
		return Input{}, job.Fault("policy", "policy "+job.Policy+" keeps a deadline, and the job has none",
			"add deadline: and a market time, such as "+job.Local.Start.Add(24*time.Hour).Format(time.RFC3339))
	}
	rules, err := job.Rules()
	if err != nil {
		return Input{}, fmt.Errorf("planning %s: %w", job.Name, err)
	}
	in := Input{
		Name: job.Name, Now: job.Local.Start, Policy: policy,
		Want: choice.Want, Pools: choice.Pools, Capacity: choice.Capacity, Chooses: job.Resources.ProviderChooses() != "",
		Reliable: choice.Reliable, Rules: rules,
		Work: work, RatePerVCPU: float64(job.Local.FlopsPerVCPU) / job.Local.Speed,
		Tempo: job.Tempo(), Budget: job.SpendingCeiling(), PerHour: job.HourlyCeiling(), ValueOfTime: job.ValueOfTime, MaxDuration: job.MaxDuration, Deadline: job.Deadline,
	}
	if !job.IsProgram() {
		in.Splits = job.Train.Splits
	}
	if in.restarts() {
		in.SaveEvery = in.Tempo.Market(job.Checkpoint.Every)
	}
	return in, nil
}
