package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/program"
	"github.com/tierml/tierml/sched/trials"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/sim/sweep"
)

// prepareProgram finds on the market what a job of programs asks for, makes sure that everything the programs need is here, and plans.
func prepareProgram(ctx context.Context, job *config.Job) (*preparedJob, error) {
	values, err := jobmanager.Secrets(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	secrets, err := job.ReadSecrets(values)
	if err != nil {
		return nil, err
	}
	bar := progress.Start(ctx, "Reading prices", 0, progress.Things)
	prices, err := loadMarket(ctx, job)
	bar.Done()
	if err != nil {
		return nil, err
	}
	if err := prices.Admit(job); err != nil {
		return nil, err
	}
	p := &preparedJob{job: job}
	p.offers, _ = prices.Offers()
	if p.choice, err = planner.Resolve(job, p.offers, prices.Catalog); err != nil {
		return nil, err
	}
	known, err := measureProgram(ctx, job, p.choice)
	if err != nil {
		return nil, err
	}
	if known.workdir, err = measureWorkdir(ctx, job); err != nil {
		return nil, err
	}
	m := &sweep.Maker{Job: job, Offers: p.offers, Catalog: prices.Catalog, Adjust: p.calibrated, Content: known.content(job)}
	made, decision, err := p.decide(ctx, m)
	if err != nil {
		return nil, err
	}
	p.programs = &jobrun.Programs{Work: known.work, Length: time.Duration(known.hours * float64(time.Hour)), Undone: p.sim.Undone(), Secrets: secrets}
	input, err := planner.ForLocal(job, p.choice, known.work)
	if err != nil {
		return nil, err
	}
	input.Sources, input.ZoneIDs, input.Warnings = prices.Sources, prices.ZoneIDs, slices.Concat(made.Warnings, prices.Doubts(p.choice.Pools), prices.Warnings)
	if warning := thisHost().warn(localMachines(job, p.choice)); warning != "" {
		input.Warnings = append(slices.Clone(input.Warnings), warning)
	}
	input.Program, input.OnDemand = known.describe(job), sweep.Baseline(&p.sim)
	if overflow := input.Program.Overflow(); overflow != "" {
		field, instead := "state.dir", "make room where machines of this host have their folders, in "+os.TempDir()+", or keep less in the state"
		if at := job.Installation(); at != nil {
			field, instead = at.Block+".disk", "write a larger disk, such as disk: 200GB, or keep less in the state"
		}
		return nil, job.Fault(field, overflow, instead)
	}
	if job.WantsGPUs() {
		input.Program.GPUs, input.Program.Pretended = p.choice.GPUs(), job.Installation() == nil
	}
	input.RestartTime, input.SaveEvery, input.Undone, input.Together = p.sim.Again(), p.sim.Programs.Every, p.sim.Undone(), p.sim.Programs.Together()
	bar = progress.Start(ctx, "Simulating past starts", 0, progress.Things)
	defer bar.Done()
	if p.plan, err = planner.Make(input, p.estimator(bar.Set)); err != nil {
		return nil, err
	}
	p.plan.Choice, p.plan.Assumed = decision, job.Assumed()
	return p, nil
}

// containersHere checks that programs can run in containers where this host's processes are the machines.
func containersHere(ctx context.Context, job *config.Job) error {
	if job.Image == "" || job.Installation() != nil {
		return nil
	}
	if _, err := program.Runtime(ctx); err != nil {
		return job.Fault("image", err.Error(), "install Podman or Docker here")
	}
	return nil
}

// programFacts are what is known of a program before it runs.
type programFacts struct {
	hours   float64 // of one program on a machine of a type, in market time
	on      market.InstanceType
	basis   string
	assumed bool           // nothing was measured, and the job says nothing
	work    float64        // of all, in floating-point operations
	share   float64        // of a sweep's work that is done, as some trials are dropped
	former  *cost.Programs // of the run that was measured; nil = there was none
	workdir planner.Workdir
}

// measureProgram takes how long a program runs from the job, or from the last run of the same name that finished.
func measureProgram(ctx context.Context, job *config.Job, choice planner.Resolved) (f programFacts, err error) {
	f.on = referenceType(job, choice)
	rate := f.on.WorkRate() * float64(job.Local.FlopsPerVCPU) // floating-point operations per second of the wall clock
	run, former, err := formerRun(ctx, job)
	if err != nil {
		return f, err
	}
	f.former = former
	perHour := rate * time.Hour.Seconds() / job.Local.Speed
	switch {
	case job.Hours > 0:
		f.hours, f.basis = job.Hours, "as the job's `hours` has it"
	case former != nil:
		f.hours, f.basis = former.WorkEach/perHour, "as measured by "+run
	default:
		f.hours, f.basis, f.assumed = config.AssumedHours, "which is assumed", true
		job.Assume("hours", fmt.Sprintf("hours: %d, until a run has measured it", config.AssumedHours))
	}
	f.work = f.hours * perHour * float64(max(job.Tasks, 1))
	if job.Tasks == 0 {
		f.work *= float64(job.Resources.Count.Most)
	}
	if s := job.Trials(); s != nil {
		f.share = trials.Share(s.Rungs, job.Tasks, int64(job.Progress.Of))
		f.work *= f.share
	}
	return f, nil
}

// referenceType is the machine that `hours` counts on: the first of resources.any_of that is on sale.
func referenceType(job *config.Job, choice planner.Resolved) market.InstanceType {
	for _, want := range job.Resources.AnyOf {
		for _, p := range choice.Pools {
			if planner.Admits(want, p.Type) {
				return p.Type
			}
		}
	}
	return choice.Pools[0].Type
}

// formerRun is the newest run of the same name below ./runs that has finished, and ran as many programs.
func formerRun(ctx context.Context, job *config.Job) (name string, found *cost.Programs, err error) {
	dirs, err := filepath.Glob(filepath.Join(rundir.Root, job.Name+"-*"))
	if err != nil {
		return "", nil, err
	}
	number := func(dir string) int { // 0: it is of another job
		n, _ := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), job.Name+"-"))
		return n
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(number(b), number(a)) })
	for _, dir := range dirs {
		if number(dir) == 0 {
			continue
		}
		base := filepath.Base(dir)
		report, err := makeReport(ctx, dir)
		if err != nil || report.Run.Outcome != "finished" || report.Programs == nil || report.Programs.WorkEach <= 0 {
			continue // damaged, or of another job
		}
		return base, report.Programs, nil
	}
	return "", nil, nil
}

// measureWorkdir packs the workdir to see whether it can be sent, and how much it is.
func measureWorkdir(ctx context.Context, job *config.Job) (planner.Workdir, error) {
	if job.Workdir == "" {
		return planner.Workdir{}, nil
	}
	var sent counter
	packed, err := jobrun.PackWorkdir(ctx, job, rundir.Root, &sent)
	if err != nil {
		return planner.Workdir{}, job.Fault("workdir", err.Error(), "")
	}
	return planner.Workdir{Path: job.Workdir, Files: packed.Files, Bytes: packed.Bytes, Packed: int64(sent)}, nil
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// assumedRate is at which a state is assumed to travel between a machine and the store where nothing was measured, in bytes per
// second of the wall clock: what a gigabit carries.
const assumedRate = 100e6

// content is what a simulation knows of the programs.
func (f *programFacts) content(job *config.Job) sweep.Content {
	return sweep.Content{Work: f.work, On: f.on.Name, Programs: func(s *sim.Programs) { f.apply(s, job) }}
}

// apply sets how long preparations take in the simulation.
func (f *programFacts) apply(s *sim.Programs, job *config.Job) {
	tempo := job.Tempo()
	seconds := func(wall float64) time.Duration { return tempo.Market(time.Duration(wall * float64(time.Second))) }
	if f.former == nil {
		return
	}
	s.Fetch, s.Setup, s.Restore = seconds(f.former.Fetch), seconds(f.former.Setup), seconds(f.former.Restore)
	if s.State {
		s.Save = seconds(cmp.Or(f.former.Save, f.stateEach(job)/assumedRate))
	}
}

// stateEach is the size of one program's state on one machine, in bytes.
func (f *programFacts) stateEach(job *config.Job) float64 {
	if f.former == nil {
		return 0
	}
	return float64(f.former.State) / float64(max(job.Tasks, job.Resources.Count.Most, 1))
}

// describe is what the plan says about the program.
func (f *programFacts) describe(job *config.Job) *planner.Program {
	p := &planner.Program{
		Tasks: job.Tasks, Trials: job.Trials() != nil, Share: f.share, Count: job.Resources.Count.Most, Least: job.Resources.Count.Least, Hours: f.hours, On: f.on.Name, Basis: f.basis, Image: job.Image, Workdir: f.workdir,
		Setup: job.Setup != "", Secrets: len(job.Secrets), State: job.State.Dir, Every: job.State.Every, Rate: assumedRate,
	}
	p.Store = "the run's directory"
	if job.Checkpoint.To != "" {
		p.Store = job.Checkpoint.To
	} else if job.Block != nil && job.Block.Shared().Checkpoints != "" {
		p.Store = job.Block.Shared().Checkpoints
	}
	if f.former != nil {
		p.StateBytes = int64(f.stateEach(job))
		if f.former.Save > 0 && p.StateBytes > 0 {
			p.Rate = max(float64(p.StateBytes)/f.former.Save, assumedRate)
		}
	}
	p.Notice = job.Tempo().Wall(job.Tempo().Notice)
	p.Disk = diskOfMachine(job)
	return p
}

// diskOfMachine is what a machine has of its disk at the most, in bytes; 0 = unknown. Machines of this host have folders that go with them.
func diskOfMachine(job *config.Job) int64 {
	if at := job.Installation(); at != nil {
		return at.Disk.MiB << 20
	}
	free, err := doctor.FreeBytes(os.TempDir())
	if err != nil {
		return 0
	}
	return int64(min(free, math.MaxInt64)) / int64(max(job.Resources.Count.Most, 1))
}

// programsGoOn says from where programs resume.
func programsGoOn(from resumePoint, endpoint string) string {
	text := ""
	saved, done := 0, 0
	for _, p := range from.programs.Programs {
		switch {
		case p.Finished:
			done++
		case slices.ContainsFunc(p.Resume, func(m string) bool { return m != "" }):
			saved++
		}
	}
	switch {
	case saved+done == 0:
		text = "Starting from the beginning: no state was saved"
	case done == 0 && saved == 1 && len(from.programs.Programs) == 1:
		text = "Resuming from the newest saved state"
		if step := slices.Max(from.programs.Programs[0].Steps); step > 0 {
			text += fmt.Sprintf(", step %d", step)
		}
	default:
		text = fmt.Sprintf("Resuming: %d programs are done, %d continue from their newest saved state", done, saved)
	}
	if from.past != nil && endpoint != "" {
		text += "\nPrograms that still run are taken over"
	}
	return text + "\n"
}

// concludeProgram says where the results are.
func concludeProgram(out io.Writer, job *config.Job, directory string) error {
	state, err := jobrun.ReadState(directory)
	if err != nil {
		return err
	}
	if job.State.Dir != "" {
		fmt.Fprintf(out, "State    tierml state %s --to DIR   (or in %s)\n", relative(directory), relative(state.Store()))
	}
	fmt.Fprintf(out, "Output   tierml logs %s\n", relative(directory))
	return nil
}
