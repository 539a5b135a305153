package prepare

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/sim/sweep"
)

// decide creates the job's policy, and settles what it leaves to its plan: with `policy: auto` the policy, by simulations of past weeks;
// the value of an hour; and its reliable machines. The choice says how the policy was decided; nil = the job names it.
func (p *Job) decide(ctx context.Context, m *sweep.Maker) (made sweep.Made, choice *planner.Choice, err error) {
	policy := p.Job.Policy
	if policy == config.Auto {
		if choice, err = p.choose(ctx, m); err != nil {
			return made, nil, err
		}
		policy = choice.Policy
	}
	if made, err = m.By(policy); err != nil {
		return made, nil, err
	}
	if choice != nil {
		if said := given(p.Job, made.Job); said != "" {
			made.Warnings = append(made.Warnings, said)
		}
		if keeps := made.Sim.Policy; bidding.NeedsDeadline(keeps) && made.Job.Deadline.IsZero() {
			made.Job.Deadline = made.Job.Local.Start.Add(sweep.Within(&made.Sim)).Truncate(time.Minute)
			made.Sim.Deadline = made.Job.Deadline
		}
	}
	p.Choice, p.Sim, p.skipped = made.Choice, made.Sim, made.Skipped
	*p.Job = *made.Job
	return made, choice, nil
}

// choose decides `policy: auto`.
func (p *Job) choose(ctx context.Context, m *sweep.Maker) (*planner.Choice, error) {
	base, err := m.Base()
	if err != nil {
		return nil, err
	}
	by := func(policy string) (sim.Config, error) {
		made, err := m.By(policy)
		return made.Sim, err
	}
	chooser := sweep.NewChooser(base, by, sweep.WishOf(&base, p.Job.MaxDuration))
	if folder, err := os.UserCacheDir(); err == nil {
		chooser.Keep(filepath.Join(folder, "tierml", "simulations"), programVersion())
	}
	bar := progress.Start(ctx, "Simulating policies", 0, progress.Things)
	defer bar.Done()
	chooser.Progress = bar.Set
	choice, err := chooser.At(ctx, p.Job.Local.Start)
	if err != nil {
		return nil, fmt.Errorf("choosing the policy: %w", err)
	}
	p.chooser = chooser
	return &choice, nil
}

// given returns a note that the chosen policy does not use reliable machines that the job file declares; empty = it uses them.
func given(job, by *config.Job) string {
	if job.IsProgram() || job.Reliable.Auto() && !job.Written("reliable.count") || job.Reliable.Count == 0 {
		return ""
	}
	declared := fmt.Sprintf("the reliable machines that the job declares (%s) are not bought: ", words.Number(job.Reliable.Count, cmp.Or(job.Reliable.Type, "machine")))
	switch {
	case by.Restarts():
		return declared + "policy " + by.Policy + ", which auto has chosen, does without; write policy: tierml to have them"
	case by.Policy == bidding.OnDemand{}.Name():
		return declared + "by policy on-demand, which auto has chosen, the whole fleet is reliable; write policy: tierml to have them"
	}
	return ""
}

// estimator estimates the job's cost and duration: from the runs that chose its policy, if any.
func (p *Job) estimator(progress func(done, total int)) planner.Estimator {
	if p.chooser != nil {
		p.chooser.Progress = progress
		return p.chooser
	}
	return sweep.Past{Job: p.Sim, Progress: progress}
}

// programVersion changes with the program's file: simulations of another build do not count.
func programVersion() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.Size(), info.ModTime().UnixNano())
}
