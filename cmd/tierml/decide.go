package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/sim/sweep"
)

// decide settles what the job leaves to its plan: with `policy: auto` the policy, by simulations of the weeks before, and what an
// hour is worth; and by policy on-demand the fleet. It returns how the policy was decided; nil = the job names it.
func (p *preparedJob) decide(ctx context.Context, job sim.Config) (*planner.Choice, error) {
	fleet := sweep.PerHour(&job)
	if p.job.Policy != config.Auto {
		p.job.Settle("", fleet)
		p.onDemand(job)
		return nil, nil
	}
	chooser := sweep.NewChooser(job, sweep.WishOf(&job, p.job.Budget, p.job.MaxDuration))
	if folder, err := os.UserCacheDir(); err == nil {
		chooser.Keep(filepath.Join(folder, "tierml", "simulations"), programVersion())
	}
	bar := progress.Start(ctx, "Simulating policies", 0, progress.Things)
	defer bar.Done()
	chooser.Progress = bar.Set
	choice, err := chooser.At(ctx, p.job.Local.Start)
	if err != nil {
		return nil, fmt.Errorf("choosing the policy: %w", err)
	}
	p.job.Settle(choice.Policy, fleet)
	p.chooser = chooser
	p.onDemand(job)
	return &choice, nil
}

// onDemand makes a job's reliable machines the whole fleet by policy on-demand: as many as it wants, of the type on which the work
// costs least. It is what a dry run and every comparison mean by the policy. Programs have no reliable machines.
func (p *preparedJob) onDemand(job sim.Config) {
	if e := job.Equivalent; p.job.Policy == (bidding.OnDemand{}).Name() && !p.job.IsProgram() {
		p.job.Reliable = config.Reliable{Type: e.Type.Name, Count: e.Count, Zone: e.Pool.Zone}
	}
}

// estimator of what the job will cost and how long it will take: by the runs that chose its policy, where they did.
func (p *preparedJob) estimator(progress func(done, total int)) planner.Estimator {
	if p.chooser != nil {
		p.chooser.Progress = progress
		return p.chooser
	}
	return sweep.Past{Job: p.sim, Progress: progress}
}

// programVersion changes with the program's file: what another build has simulated does not count.
func programVersion() string {
	path, err := os.Executable()
	if err != nil {
		return buildVersion
	}
	info, err := os.Stat(path)
	if err != nil {
		return buildVersion
	}
	return fmt.Sprint(buildVersion, info.Size(), info.ModTime().UnixNano())
}
