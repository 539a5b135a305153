package prepare

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/elasticity/programs"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/jobrun/bill"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/planner/record"
	"github.com/tierml/tierml/sched/trials"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/sim/sweep"
)

// Program finds on the market what a job of programs requests, checks that everything the programs need is here, and plans.
func Program(ctx context.Context, job *config.Job) (*Job, error) {
	secrets, err := jobrun.ReadSecrets(job)
	if err != nil {
		return nil, err
	}
	bar := progress.Start(ctx, "Reading prices", 0, progress.Things)
	prices, err := LoadMarket(ctx, job)
	bar.Done()
	if err != nil {
		return nil, err
	}
	if err := prices.Admit(job); err != nil {
		return nil, err
	}
	p := &Job{Job: job}
	p.Offers, _ = prices.Offers()
	if err := Remember(ctx, job); err != nil {
		return nil, err
	}
	if p.Choice, err = planner.Resolve(job, p.Offers, prices.Catalog); err != nil {
		return nil, err
	}
	known, err := MeasureProgram(ctx, job, p.Choice)
	if err != nil {
		return nil, err
	}
	if known.workdir, err = MeasureWorkdir(ctx, job); err != nil {
		return nil, err
	}
	asked := *job // the following decisions are written into the job
	m := &sweep.Maker{Job: &asked, Offers: p.Offers, Catalog: prices.Catalog, Adjust: p.calibrated, Content: known.Content(job)}
	defer LittleGarbage()()
	made, decision, err := p.decide(ctx, m)
	if err != nil {
		return nil, err
	}
	p.Programs = &jobrun.Programs{Work: known.work, Length: time.Duration(known.hours * float64(time.Hour)), Undone: p.Sim.Undone(), Secrets: secrets}
	input, err := planner.ForLocal(job, p.Choice, known.work)
	if err != nil {
		return nil, err
	}
	input.Sources, input.ZoneIDs, input.Warnings = prices.Sources, prices.ZoneIDs, slices.Concat(made.Warnings, prices.Doubts(p.Choice.Pools), prices.Warnings)
	if warning := ThisHost().warn(LocalMachines(job, p.Choice)); warning != "" {
		input.Warnings = append(slices.Clone(input.Warnings), warning)
	}
	input.Program, input.OnDemand = known.describe(job), sweep.Baseline(&p.Sim)
	if overflow := input.Program.Overflow(); overflow != "" {
		field, instead := "state.dir", "make room where machines of this host have their folders, in "+os.TempDir()+", or keep less in the state"
		if at := job.Installation(); at != nil {
			field, instead = at.Block+".disk", "write a larger disk, such as disk: 200GB, or keep less in the state"
		}
		return nil, job.Fault(field, overflow, instead)
	}
	if len(job.Tune) > 0 {
		input.Tuning = programs.Outlook(job.Knobs(), int64(job.Progress.Of))
	}
	if job.WantsGPUs() {
		input.Program.GPUs, input.Program.Pretended = p.Choice.GPUs(), job.Installation() == nil
	}
	input.RestartTime, input.SaveEvery, input.Undone, input.Together = p.Sim.Again(), p.Sim.Programs.Every, p.Sim.Undone(), p.Sim.Programs.Together()
	bar = progress.Start(ctx, "Simulating past starts", 0, progress.Things)
	defer bar.Done()
	if p.Plan, err = planner.Make(input, p.estimator(bar.Set)); err != nil {
		return nil, err
	}
	p.Plan.Worth = m.Worth(&made, input.Now, decision != nil)
	if p.Plan.Own, err = record.Read(filepath.Join(rundir.Root, rundir.RecordFile), job.Installation() == nil); err != nil {
		p.Plan.Warnings = append(p.Plan.Warnings, err.Error())
	}
	p.Plan.Choice, p.Plan.Assumed = decision, job.Assumed()
	return p, nil
}

// programFacts is what is known about a program before it runs.
type programFacts struct {
	hours   float64 // of one program on a machine of a type, in market time
	on      market.InstanceType
	basis   string
	assumed bool           // nothing was measured, and the job does not say
	work    float64        // of all, in floating-point operations
	share   float64        // of a sweep's work that is done, as some trials are dropped
	former  *cost.Programs // of the run that was measured; nil = there was none
	workdir planner.Workdir
}

// MeasureProgram takes a program's duration from the job, or from the last finished run of the same name.
func MeasureProgram(ctx context.Context, job *config.Job, choice planner.Resolved) (f programFacts, err error) {
	f.on = referenceType(job, choice)
	rate := f.on.WorkRate() * float64(job.Local.FlopsPerVCPU) // floating-point operations per wall-clock second
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
		if ran := typeNamed(former.On, choice); job.Cores() > 0 && former.Wall > 0 && ran.WorkRate() > 0 && f.on.WorkRate() > 0 {
			f.hours = former.Wall * job.Local.Speed / time.Hour.Seconds() * ran.WorkRate() / f.on.WorkRate()
		}
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

// filledFrom is the share of a machine's cores above which programs are assumed to use all cores.
const filledFrom = .85

// overFrom is the number of cores wanted for each core had above which programs are assumed to have a fixed number of threads.
const overFrom = 1.5

// filled reports whether the programs of a run used all of their machines' cores, two or more, and may use more elsewhere; on one core,
// most use just that. Machines of the local cloud have no more cores than this computer.
func filled(job *config.Job, former *cost.Programs) bool {
	had := coresHad(job, former)
	return had > 1 && former.Wanted >= filledFrom*float64(had)
}

// single reports whether the programs of a run used the one core that their machines had: whether they would use more is unknown.
func single(job *config.Job, former *cost.Programs) bool {
	return coresHad(job, former) == 1 && former.Wanted >= filledFrom
}

// wanted returns how many cores programs would use. Many start a thread for each core that they see: those that filled their machine may use any number.
// Those whose threads waited for far more cores than there were have as many threads as they want.
func wanted(job *config.Job, former *cost.Programs) float64 {
	cores := former.Wanted
	if filled(job, former) && cores < overFrom*float64(coresHad(job, former)) {
		cores = math.Inf(1)
	}
	if job.Cloud == config.CloudLocal {
		cores = min(cores, float64(runtime.NumCPU()))
	}
	return cores
}

// coresHad returns the cores of the machines that a run's programs had; 0 = unknown.
func coresHad(job *config.Job, former *cost.Programs) int {
	switch {
	case former.Use == nil:
		return 0
	case job.Cloud == config.CloudLocal:
		return min(former.Use.VCPU, runtime.NumCPU())
	}
	return former.Use.VCPU
}

// Remember adds the last run's measurements of its programs to the job, before machines are chosen.
func Remember(ctx context.Context, job *config.Job) error {
	_, former, err := formerRun(ctx, job)
	if err == nil && former != nil {
		job.Use(wanted(job, former))
	}
	return err
}

// typeNamed returns a type that may be bought; without a rate if it may not.
func typeNamed(name string, choice planner.Resolved) market.InstanceType {
	for _, p := range choice.Pools {
		if p.Type.Name == name {
			return p.Type
		}
	}
	return market.InstanceType{}
}

// referenceType is the machine that `hours` refers to: the first of resources.any_of that is on sale.
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

// formerRun returns the newest finished run of the same name below ./runs with as many programs.
func formerRun(ctx context.Context, job *config.Job) (name string, found *cost.Programs, err error) {
	dirs, err := filepath.Glob(filepath.Join(rundir.Root, job.Name+"-*"))
	if err != nil {
		return "", nil, err
	}
	number := func(dir string) int { // 0: it belongs to another job
		n, _ := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), job.Name+"-"))
		return n
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(number(b), number(a)) })
	for _, dir := range dirs {
		if number(dir) == 0 {
			continue
		}
		base := filepath.Base(dir)
		report, err := bill.Make(ctx, dir)
		if err != nil || report.Run.Outcome != "finished" || report.Programs == nil || report.Programs.WorkEach <= 0 {
			continue // damaged, or of another job
		}
		return base, report.Programs, nil
	}
	return "", nil, nil
}

// MeasureWorkdir packs the workdir to check whether it can be sent, and its size.
func MeasureWorkdir(ctx context.Context, job *config.Job) (planner.Workdir, error) {
	if job.Workdir == "" {
		return planner.Workdir{}, nil
	}
	var sent counter
	packed, err := jobrun.PackWorkdir(ctx, job, rundir.Root, &sent)
	if err != nil {
		return planner.Workdir{}, job.Fault("workdir", err.Error(), "")
	}
	return planner.Workdir{Path: job.Workdir, Files: packed.Files, Bytes: packed.Bytes, Packed: int64(sent), Largest: packed.Largest, Ignored: packed.Ignored}, nil
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// assumedRate is the assumed rate of transfers between a machine and the store if nothing was measured, in bytes per wall-clock second:
// that of a gigabit.
const assumedRate = 100e6

// Content is what a simulation knows about the programs.
func (f *programFacts) Content(job *config.Job) sweep.Content {
	return sweep.Content{Work: f.work, On: f.on.Name, Programs: func(s *sim.Programs) { f.apply(s, job) }}
}

// apply sets the duration of preparations in the simulation.
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

// describe describes the program in the plan.
func (f *programFacts) describe(job *config.Job) *planner.Program {
	p := &planner.Program{
		Tasks: job.Tasks, Elastic: job.Elastic(), Trials: job.Trials() != nil, Share: f.share, Count: job.Resources.Count.Most, Least: job.Resources.Count.Least, Hours: f.hours, On: f.on.Name, Basis: f.basis, Image: job.Image, Workdir: f.workdir,
		Setup: job.Setup != "", Secrets: len(job.Secrets), State: job.State.Dir, Every: job.State.Every, Rate: assumedRate,
	}
	p.Store = "the run's directory"
	if job.Checkpoint.To != "" {
		p.Store = job.Checkpoint.To
	} else if job.Block != nil && job.Block.Shared().Checkpoints != "" {
		p.Store = job.Block.Shared().Checkpoints
	}
	if f.former != nil {
		p.Cores, p.Wanted, p.Memory, p.Filled, p.Single = f.former.Cores, f.former.Wanted, f.former.Memory, filled(job, f.former), single(job, f.former)
		p.StateBytes = int64(f.stateEach(job))
		if f.former.Save > 0 && p.StateBytes > 0 {
			p.Rate = max(float64(p.StateBytes)/f.former.Save, assumedRate)
		}
	}
	p.Notice = job.Tempo().Wall(job.Tempo().Notice)
	p.Disk = diskOfMachine(job)
	return p
}

// diskOfMachine returns the most that a machine uses of its disk, in bytes; 0 = unknown. Machines of this host have folders that are
// removed with them.
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
