// Package prepare makes the plan of a job: it finds the market, reads the data, chooses the policy and simulates past starts. It buys
// nothing, and is unknown to runs: commands combine the two.
package prepare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/all"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/planner/record"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/sim/sweep"
)

// Job is a job with everything that its words mean.
type Job struct {
	Job     *config.Job
	Offers  []planner.Offer
	Choice  planner.Resolved
	Program apps.Program
	Dataset apps.Dataset
	// programs is set for users' programs, which have neither Program nor Dataset.
	Programs *jobrun.Programs
	Hosts    *jobrun.Hosts // for shared hosts: there is no plan either
	Plan     *planner.Plan
	Sim      sim.Config     // of its own run, calibrated
	basis    string         // of the calibration
	skipped  []string       // unsimulated steps of the script
	chooser  *sweep.Chooser // of the policy; nil = the job names it
}

// Plan makes the plan of a job from the files that it names.
func Plan(ctx context.Context, job *config.Job, on prices) (*Job, error) {
	if job.IsProgram() {
		return Program(ctx, job)
	}
	return Training(ctx, job, on, func(ps.Split) (io.WriteCloser, error) { return Discard{}, nil })
}

// Training finds on the market what a job requests, cuts its data into splits, which go to create, and plans.
func Training(ctx context.Context, job *config.Job, on prices, create apps.Create) (*Job, error) {
	var bytes atomic.Int64
	p, err := TrainingWith(ctx, job, on, bytes.Load, func(choice planner.Resolved) (apps.Program, apps.Dataset, error) {
		return DataOn(ctx, job, choice, Counted(create, &bytes))
	})
	if err == nil {
		p.Plan.Memory.Splits = bytes.Load()
	}
	return p, err
}

// TrainingWith is prepareJob with another way to get the application and its data; bytes returns the data's size once it is there.
func TrainingWith(ctx context.Context, job *config.Job, on prices, bytes func() int64, prepare func(planner.Resolved) (apps.Program, apps.Dataset, error)) (*Job, error) {
	if job.Cloud == config.CloudNone {
		return nil, job.Fault("cloud", "cloud: "+job.Cloud+" buys no machines, so there is nothing to plan",
			"write cloud: local, or train in this process with `tierml train`")
	}
	bar := progress.Start(ctx, "Reading prices", 0, progress.Things)
	market, err := on(ctx, job)
	bar.Done()
	if err != nil {
		return nil, err
	}
	if err := market.Admit(job); err != nil {
		return nil, err
	}
	p := &Job{Job: job}
	p.Offers, _ = market.Offers()
	if p.Choice, err = planner.Resolve(job, p.Offers, market.Catalog); err != nil { // before the data is read, which may take a while
		return nil, err
	}
	if p.Program, p.Dataset, err = prepare(p.Choice); err != nil {
		return nil, err
	}
	schema := jobrun.SchemaOf(job, p.Program)
	work := p.Program.WorkPerClock() * float64(job.Train.Clocks)
	if !job.OnTiers() { // programs run at their own speed
		assumeRate(job, p.Choice, work)
	}
	asked := *job // the following decisions are written into the job
	m := &sweep.Maker{Job: &asked, Offers: p.Offers, Catalog: market.Catalog, Adjust: p.calibrated,
		Content: sweep.Content{Work: work, Schema: &schema, Least: apps.LeastRows(p.Program), Data: bytes()}}
	defer LittleGarbage()()
	made, decision, err := p.decide(ctx, m)
	if err != nil {
		return nil, err
	}
	input, err := planner.ForLocal(job, p.Choice, work)
	if err != nil {
		return nil, err
	}
	if job.TunesTraining() {
		known, err := jobrun.Known(filepath.Join(rundir.Root, rundir.SettingsFile), job, &schema, p.Choice)
		if err != nil {
			input.Warnings = append(input.Warnings, "settings of former runs are not used: "+err.Error())
		}
		input.Tuning = planner.TuningText(job, p.Choice, known)
	}
	input.Sources, input.ZoneIDs, input.Warnings = slices.Concat(market.Sources, made.Counted), market.ZoneIDs, slices.Concat(made.Warnings, apps.Doubts(p.Program), market.Doubts(p.Choice.Pools), market.Warnings)
	for _, warning := range []string{idle(job, mostMachines(p.Choice)), ThisHost().warn(LocalMachines(job, p.Choice))} {
		if warning != "" {
			input.Warnings = append(slices.Clone(input.Warnings), warning)
		}
	}
	input.OnDemand = sweep.Baseline(&p.Sim)
	input.SaveTime, input.RestartTime = p.Sim.Checkpoints.Times(p.Sim.Timing)
	input.State = int64(p.Sim.Checkpoints.Model)
	bar = progress.Start(ctx, "Simulating past starts", 0, progress.Things)
	defer bar.Done()
	if p.Plan, err = planner.Make(input, p.estimator(bar.Set)); err != nil {
		return nil, err
	}
	p.Plan.Worth = m.Worth(&made, input.Now, decision != nil)
	if p.Plan.Own, err = record.Read(filepath.Join(rundir.Root, rundir.RecordFile), job.Installation() == nil); err != nil {
		p.Plan.Warnings = append(p.Plan.Warnings, err.Error())
	}
	if p.Plan.Exchange = planner.ExchangeOf(job, p.Choice); p.Plan.Exchange.Warning() != "" {
		p.Plan.Warnings = append(p.Plan.Warnings, p.Plan.Exchange.Warning())
	}
	p.Plan.Memory, p.Plan.Sizing, p.Plan.Choice, p.Plan.Assumed = made.Memory, made.Sizing, decision, job.Assumed()
	return p, nil
}

// mostGarbage is the memory from which garbage is collected as often as necessary.
const mostGarbage = 800 << 20

// LittleGarbage makes garbage collection less frequent until its result is called: simulations use little memory and discard much. A lower
// GOMEMLIMIT in the environment has priority.
func LittleGarbage() (end func()) {
	limit := debug.SetMemoryLimit(-1)
	debug.SetMemoryLimit(min(limit, mostGarbage))
	percent := debug.SetGCPercent(400)
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}

// calibrated applies this computer's measurements to a simulation.
func (p *Job) calibrated(cfg *sim.Config) (err error) {
	p.basis, err = Calibrate(cfg)
	return err
}

// Data cuts the job's data into splits, which go to create, and creates the application. Errors of the application are reported as
// config.Faults.
func Data(ctx context.Context, job *config.Job, create apps.Create) (apps.Program, apps.Dataset, error) {
	if len(job.Sweep.Params) > 0 {
		return nil, apps.Dataset{}, job.Fault("sweep", "makes a job of each trial, for a job server that shares machines among jobs",
			"start tierml server --hosts HOSTS.yaml --scheduler feedback, and submit it by tierml run --server URL")
	}
	kind, err := all.Registry().Find(job.Train.App)
	if err != nil {
		return nil, apps.Dataset{}, job.Fault("train.app", err.Error(), "docs/applications.md lists the applications")
	}
	// Before the data is read, which may take a while.
	if _, err := apps.Params(job.Train.Params).Resolve(kind.Params()); err != nil {
		return nil, apps.Dataset{}, paramFaults(job, kind, err)
	}
	file, err := blob.Open(ctx, job.Train.Data)
	if err != nil {
		return nil, apps.Dataset{}, fmt.Errorf("reading the training data: %w", err)
	}
	defer file.Close()
	bar := progress.Start(ctx, "Reading "+path.Base(job.Train.Data), sizeOf(job.Train.Data), progress.Bytes)
	defer bar.Done()
	beside := func(name string) (io.ReadCloser, error) {
		return blob.Open(ctx, location.Beside(job.Train.Data, name))
	}
	files := splitFiles{create: create}
	data, err := kind.Prepare(apps.Input{Name: job.Train.Data, Data: untilDone{ctx, bar.Reader(file)}, Beside: beside, MaxBadLines: job.Train.MaxBadLines,
		Columns: job.Train.Columns, Ignore: job.Train.Ignore, Target: apps.TargetOf(job.Train.Params)},
		CutOf(job, cutSeed(job.Seed)), files.Create)
	if files.err != nil { // the data is not at fault
		return nil, apps.Dataset{}, fmt.Errorf("writing the training data's splits: %w", files.err)
	}
	if errors.Is(err, context.Canceled) {
		return nil, apps.Dataset{}, context.Cause(ctx)
	}
	if err != nil {
		return nil, apps.Dataset{}, DataFault(job, err)
	}
	job.Train.Splits = data.Splits
	for i, note := range data.Notes {
		job.Assume(fmt.Sprintf("train.data.%d", i), "train.data: "+note)
	}
	return MakeProgram(job, data)
}

// untilDone is a stream that ends with its context: gigabytes of data take a while.
type untilDone struct {
	ctx context.Context //nolint:containedctx // the interface of streams has no place for it
	io.Reader
}

// Read implements io.Reader.
func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Reader.Read(p)
}

// DataFault gives an error about the data its place in the job file.
func DataFault(job *config.Job, err error) error {
	if errors.Is(err, apps.ErrTooSmall) {
		return job.Fault("train.splits", err.Error(), "")
	}
	if errors.Is(err, blob.ErrChanged) {
		return job.Fault("train.data", err.Error(), "")
	}
	return job.Fault("train.data", err.Error(), "docs/applications.md has the forms that "+job.Train.App+" reads")
}

// CutOf returns how a job's data is cut. If the job does not name a number of splits, small data is cut into fewer.
func CutOf(job *config.Job, seed uint64) apps.Cut {
	return apps.Cut{Splits: job.Train.Splits, Fewer: !job.Written("train.splits"), Holdout: job.Train.Holdout, Seed: seed}
}

// MakeProgram creates the application for data that was cut before.
func MakeProgram(job *config.Job, data apps.Dataset) (apps.Program, apps.Dataset, error) {
	kind, err := all.Find(job.Train.App)
	if err != nil {
		return nil, apps.Dataset{}, job.Fault("train.app", err.Error(), "docs/applications.md lists the applications")
	}
	job.Train.Params = paramsOf(kind, job)
	program, err := kind.New(apps.Params(job.Train.Params), data)
	if err != nil {
		return nil, apps.Dataset{}, job.Fault("train.params", err.Error(), "docs/applications.md has the application's settings")
	}
	return program, data, nil
}

// paramsOf returns the application's settings: the given ones, and what suits stale reads if there are any.
func paramsOf(kind apps.Kind, job *config.Job) map[string]any {
	stale, can := kind.(apps.Stale)
	if !can || job.Cloud == config.CloudNone || job.Train.Consistency == config.BSP {
		return job.Train.Params
	}
	params := map[string]any(stale.StaleDefaults())
	maps.Copy(params, job.Train.Params)
	return params
}

// FormerDefaults completes the settings of a run that an earlier version began with the defaults of that time.
func FormerDefaults(job *config.Job, defaults int) {
	kind, err := all.Registry().Find(job.Train.App)
	if former, changed := kind.(apps.Former); err == nil && changed {
		job.Train.Params = former.Former(defaults, paramsOf(kind, job))
	}
}

// paramFaults gives each refused parameter its place in the job file.
func paramFaults(job *config.Job, kind apps.Kind, err error) error {
	var faults config.Faults
	for name, value := range job.Train.Params {
		alone := apps.Params{name: value}
		if _, err := alone.Resolve(kind.Params()); err != nil {
			problem, instead, _ := strings.Cut(err.Error(), ": write ")
			if instead != "" {
				instead = "write " + instead
			}
			faults = append(faults, job.Fault("train.params."+name, problem, instead)...)
		}
	}
	if len(faults) == 0 {
		return job.Fault("train.params", err.Error(), "")
	}
	faults.Sort()
	return faults
}

// sizeOf returns the length of a file of this host; 0 = unknown.
func sizeOf(path string) int64 {
	if info, err := os.Stat(path); err == nil {
		return info.Size()
	}
	return 0
}
