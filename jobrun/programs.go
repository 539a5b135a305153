package jobrun

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity/programs"
	"github.com/tierml/tierml/elasticity/restart"
	"github.com/tierml/tierml/elasticity/runner"
	"github.com/tierml/tierml/elasticity/tuning"
	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/program"
	"github.com/tierml/tierml/program/pack"
	"github.com/tierml/tierml/tiers"
)

// Programs is the input of a run of user programs, apart from the job.
type Programs struct {
	Work    float64           // total, in floating-point operations, as in plans
	Length  time.Duration     // of one program, in market time
	Undone  time.Duration     // share of a machine's work lost in an eviction; see bidding.Job
	Secrets map[string]string // not stored in any file
	Past    *programs.Past    // nil = a new run
}

const (
	// programGrace is the wall-clock time from SIGTERM to SIGKILL, if nothing else limits it: torchrun takes 30 s to end its processes.
	programGrace = 30 * time.Second
	// localGrace is programGrace on the fake cloud, where machines last minutes.
	localGrace = 3 * time.Second
	// saveWithin bounds the final save of a state to the store, in wall-clock time.
	saveWithin = 2 * time.Minute
	// stepLine is the shortest wall-clock time between two journal lines about one program's steps.
	stepLine = time.Second
)

// Store returns the store of a run's programs, a folder next to its checkpoints.
func (s State) Store() string { return location.Join(s.Checkpoints, "program") }

// placeWorkdir packs the workdir, stores it for all machines, and returns the description of the programs.
func (r *session) placeWorkdir(ctx context.Context) ([]byte, error) {
	job, store := r.cfg.Job, r.state.Store()
	spec := program.Spec{
		Run: job.Run, Setup: job.Setup, OnNotice: job.OnNotice, Envs: job.Envs, State: job.State.Dir, Marker: job.State.Marker, Line: job.Progress.Line, File: job.Progress.File,
		Store: store, Image: job.Image, CloudAccess: job.CloudAccess,
	}
	if s := job.Trials(); s != nil {
		for _, rung := range s.Rungs {
			spec.Rungs = append(spec.Rungs, rung.At)
		}
	}
	if job.Tasks > 0 || job.Elastic() || job.Resources.Count.Most == 1 { // gangs are saved in rounds
		spec.Every = r.cfg.Clock.ToWall(job.State.Every)
	}
	if job.Workdir != "" {
		name := location.Join(store, fmt.Sprintf("workdir-%d.tar.zst", r.cfg.Part+1))
		var packed pack.Packed
		err := blob.Write(ctx, name, func(w io.Writer) (err error) {
			packed, err = PackWorkdir(ctx, job, filepath.Dir(r.cfg.Directory), w)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("putting the workdir into the run's store: %w", err)
		}
		spec.Workdir, spec.WorkdirDigest = name, packed.Digest
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("describing the program: %w", err)
	}
	return text, nil
}

// PackWorkdir packs a job's workdir without its state and without directories of runs in it.
func PackWorkdir(ctx context.Context, job *config.Job, runs string, to io.Writer) (pack.Packed, error) {
	if info, err := os.Stat(job.Workdir); err == nil && info.Mode().IsRegular() {
		return pack.Copy(ctx, job.Workdir, to) // already packed
	}
	var skip []string
	if runs, err := filepath.Abs(runs); err == nil {
		if below, err := filepath.Rel(job.Workdir, runs); err == nil && filepath.IsLocal(below) {
			skip = append(skip, filepath.ToSlash(below))
		}
	}
	if job.State.Dir != "" {
		skip = append(skip, job.State.Dir)
	}
	return pack.Pack(ctx, job.Workdir, to, pack.Options{Skip: skip})
}

// programController returns the controller of a run of programs.
func (r *session) programController(history map[market.Pool]*market.History) (runner.Controller, error) {
	job := r.cfg.Job
	policy, err := job.Decider()
	if err != nil {
		return nil, err
	}
	rules, err := job.Rules()
	if err != nil {
		return nil, err
	}
	settings, p := job.Tempo(), r.cfg.Programs
	grace := programGrace
	if r.real() == nil {
		grace = localGrace
	}
	past := p.Past
	work := programs.Config{
		Settings: settings, Count: job.Resources.Count.Most, Least: job.Resources.Count.Least, Tasks: job.Tasks, Sweep: job.Trials(), Knobs: job.Knobs(), Share: tuning.UsualShare, Elastic: job.Elastic(), Master: r.state.Coordinator, Retries: job.Retries, Of: int64(job.Progress.Of), Length: p.Length,
		State: job.State.Dir != "", Spec: r.spec, Secrets: p.Secrets, Heartbeat: job.Heartbeat, OrphanAfter: job.OrphanAfter,
		Orphaned: settings.Market(job.OrphanAfter + tiers.OrphanEnds), Grace: grace, SaveWithin: settings.Market(grace + saveWithin), SaveEvery: job.State.Every, StepEvery: settings.Market(stepLine),
		FirstID: uint64(r.cfg.Part) << 32, Past: past, TakesOver: r.cfg.Past != nil,
	}
	c := restart.Config{
		Settings: settings, Run: fmt.Sprintf("%s-%d", r.unique(), r.cfg.Part), Want: r.cfg.Choice.Want, Pools: r.pools(history), Policy: policy,
		Job: bidding.Job{Deadline: job.Deadline, Work: r.vcpuHours(), Budget: job.SpendingCeiling(), PerHour: job.HourlyCeiling(), ValueOfTime: job.ValueOfTime,
			Undone: p.Undone, Together: job.Tasks == 0 && !job.Elastic() && job.Resources.Count.Most > 1},
		Restart: r.cfg.RestartTime, SaveEvery: job.State.Every, Past: r.cfg.Past, MaxDuration: job.MaxDuration, Rules: rules, Billed: r.billed(),
		Chooses: job.Resources.ProviderChooses() != "", Adopts: true,
	}
	if r.outlived() {
		c.AskAgain = settings.Market(askAgain)
	}
	return programs.New(c, work), nil
}

// fetchOutputs copies the programs' output to the run's directory until stop is called, which waits for the rest.
func (r *session) fetchOutputs(ctx context.Context) (stop func(hurry bool)) {
	last, cut := context.WithCancel(context.WithoutCancel(ctx))
	ctx, end := context.WithCancel(ctx)
	every := fetchOutput
	if r.real() != nil {
		every = fetchRemoteOutput
	}
	o := &outputs{store: r.state.Store(), dir: r.cfg.Directory, over: map[program.LogName]bool{}}
	var following sync.WaitGroup
	following.Go(func() {
		o.follow(ctx, last, every, func(err error) { r.cfg.Log.Warn("the output of programs cannot be fetched; trying again", "err", err) })
	})
	return func(hurry bool) {
		if hurry {
			time.AfterFunc(lastFetch, cut)
		}
		end()
		following.Wait()
		cut()
	}
}

// describeProgram adds the program to the journal's first line.
func (r *session) describeProgram(d *journal.StartDetails) {
	job := r.cfg.Job
	d.App = "program"
	d.Clocks = cmp.Or(int64(job.Tasks), int64(job.Progress.Of))
	d.Program = &journal.ProgramDetails{Tasks: job.Tasks, Of: int64(job.Progress.Of), Sweep: job.Trials() != nil}
	if job.State.Dir != "" {
		d.Program.SaveEvery = job.State.Every.Seconds()
	}
}
