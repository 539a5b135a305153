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
// hour is worth. It returns how that was decided; nil = the job names its policy.
func (p *preparedJob) decide(ctx context.Context, job sim.Config) (*planner.Choice, error) {
	fleet := sweep.PerHour(&job)
	if p.job.Policy != config.Auto {
		p.job.Settle("", fleet)
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
	if choice.Policy == (bidding.OnDemand{}).Name() && !p.job.IsProgram() { // its reliable machines are the whole fleet
		p.job.Reliable = config.Reliable{Type: job.Equivalent.Type.Name, Count: job.Equivalent.Count, Zone: job.Equivalent.Pool.Zone}
	}
	return &choice, nil
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
