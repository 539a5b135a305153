package planner

import (
	"fmt"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/market"
)

// Wall-clock allowances on the local cloud, beside the configured boot time. They are guesses on the careful
// side; whoever has measured a run passes better ones.
const (
	joinTime  = time.Second            // from the process's start until it computes: join, load splits
	stallTime = 500 * time.Millisecond // from the loss of all transient machines until work goes on
	waitShare = 0.15                   // exchanging parameters, waiting for the slowest at the end of each clock
)

// LocalOverheads gives the overheads to assume on the local cloud.
func LocalOverheads(l config.Local) Overheads {
	market := func(wall time.Duration) time.Duration { return time.Duration(float64(wall) * l.Speed) }
	return Overheads{Start: market(l.Boot + joinTime), Eviction: market(stallTime), Share: waitShare}
}

// ForLocal puts together what a plan for the local cloud rests on. Work is the whole job's, in floating-point
// operations.
func ForLocal(job *config.Job, choice Choice, work float64) (Input, error) {
	policy, err := bidding.ByName(job.Policy)
	if err != nil {
		return Input{}, fmt.Errorf("planning %s: %w", job.Name, err)
	}
	if _, ok := policy.(bidding.ByRestart); ok {
		return Input{}, job.Fault("policy", "policy "+job.Policy+" kills and restarts, which only tierml dry-run does yet",
			"write tierml, or try the job with tierml dry-run")
	}
	rules, err := market.Rules(job.Local.Rules)
	if err != nil {
		return Input{}, fmt.Errorf("planning %s: %w", job.Name, err)
	}
	return Input{
		Name: job.Name, Now: job.Local.Start, Policy: policy,
		Want: choice.Want, Pools: choice.Pools, Capacity: choice.Capacity,
		Reliable: choice.Reliable, OnDemand: choice.OnDemand, Rules: rules,
		Work: work, RatePerVCPU: float64(job.Local.FlopsPerVCPU) / job.Local.Speed,
		ThreeAbove: job.Stages.ThreeAbove, Overheads: LocalOverheads(job.Local),
		Budget: job.Budget, MaxDuration: job.MaxDuration, Deadline: job.Deadline,
	}, nil
}
