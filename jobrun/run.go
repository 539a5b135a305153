// Package jobrun starts a job's run and ends it cleanly: run directory, provider's account or fake cloud, controller, the machines'
// address, journal. It decides nothing about the run (elasticity does) and shows nothing (watch does).
package jobrun

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/runner"
	"github.com/tierml/tierml/elasticity/scaling"
	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/checkpoint"
	"github.com/tierml/tierml/tiers/node/link"
)

// Config has the parts of a run.
type Config struct {
	Job       *config.Job
	Choice    planner.Resolved
	Plan      *planner.Plan
	Program   apps.Program
	Dataset   apps.Dataset
	Directory string // which contains the splits
	Offers    []planner.Offer
	Clock     clock.Mapping
	Agent     []string // the command that an instance runs
	Version   string
	Journal   *journal.Writer
	Log       *slog.Logger
	// ResumeFrom is a checkpoint at clock ResumeAt; empty = from the beginning.
	ResumeFrom string
	ResumeAt   ps.Clock
	// ResumeOlder are earlier checkpoints, newest first, in case it is damaged.
	ResumeOlder []elasticity.Kept
	// Past makes this a takeover from a controller that did not end cleanly; nil = the run begins, or continues from an
	// orderly end.
	Past *elasticity.Past
	// Before is the training until an orderly end; nil = nothing.
	Before *elasticity.Log
	// SaveTime and RestartTime are the declared times of a checkpoint and a restart, in market time, for policies with restarts.
	SaveTime, RestartTime time.Duration
	// StateBytes is the size of a checkpoint, for policies with restarts.
	StateBytes int64
	// Part is how often the run was begun before: it makes the tokens of launches unique.
	Part int
	// Spending are decisions of jobrun/budget, except an end, which is a request to stop; nil = there are none.
	Spending <-chan elasticity.BudgetChanged
	// Programs makes this a run of users' programs: there is no Program, Dataset or checkpoint then.
	Programs *Programs
	// Hosts makes this a run of shared hosts: there is no Plan, Program, Dataset or checkpoint then.
	Hosts *Hosts
	// Bounds are the job server's; nil = none.
	Bounds *elasticity.Bounds
	// Endpoint is a fake cloud in another process, which launches Agent by itself, or shared hosts (OnHosts); empty = a cloud of the
	// run's own.
	Endpoint string
}

// session is a running run.
type session struct {
	cfg       Config
	name      string // of the run: its directory's
	provider  providers.Provider
	schema    ps.Schema
	state     State
	splitsURL string // where machines read splits
	spec      []byte // of programs, instead of splits
	admission admission
	door      *machineListener
	keys      providers.RunKeys // nil = the provider provides none
	runner    *runner.Runner
	manifests map[string]bool // names of this run's; the place may hold those of others
}

func (r *session) splits() string { return filepath.Join(r.cfg.Directory, rundir.SplitsDir) }

// Run is a run that can be stopped.
type Run struct{ session *session }

// New checks the pieces and assembles a run; Drive starts it.
func New(cfg Config) *Run {
	s := &session{
		cfg: cfg, name: filepath.Base(cfg.Directory),
		manifests: map[string]bool{checkpoint.Name(cfg.ResumeFrom): true},
	}
	if cfg.Program != nil {
		s.schema = SchemaOf(cfg.Job, cfg.Program)
	}
	for _, older := range cfg.ResumeOlder {
		s.manifests[checkpoint.Name(older.Name)] = true
	}
	return &Run{s}
}

// Drive runs the job to its end and returns the outcome: "finished", "interrupted" or "failed". Stop receives requests to stop: the first
// ends the run cleanly, the second at once. When it returns, no machine is left.
func (r *Run) Drive(ctx context.Context, stop <-chan string) (outcome string, err error) {
	s := r.session
	if s.provider, err = providers.Of(s.cfg.Job); err != nil {
		return "", err
	}
	if s.cfg.Program != nil {
		if err := s.schema.Check(); err != nil {
			return "", fmt.Errorf("the tables of %s: %w", s.cfg.Job.Train.App, err)
		}
	}
	if s.state, err = openState(s.cfg.Directory, s.cfg.Job); err != nil {
		return "", err
	}
	s.admission = admission{secret: s.state.Secret}
	gone, err := s.gone() // before another cloud continues with the records
	if err != nil {
		return "", err
	}
	if err := s.writeStart(); err != nil {
		return "", err
	}
	if s.outlived() {
		return s.drive(ctx, s.cfg.Endpoint, gone, stop)
	}
	cloud, err := s.startCloud()
	if err != nil {
		return "", err
	}
	s.cfg.Log.Info("the cloud answers", "endpoint", cloud.Endpoint()) // for drills: see /_control/ in fakecloud
	cloudCtx, endCloud := context.WithCancel(context.WithoutCancel(ctx))
	var served sync.WaitGroup
	var cloudErr error
	ctx, lost := context.WithCancelCause(ctx)
	served.Go(func() {
		cloudErr = cloud.Run(cloudCtx)
		lost(cloudErr) // early, as on a full disk: its machines are gone, and it will not answer again
	})
	outcome, err = s.drive(ctx, cloud.Endpoint(), gone, stop)
	endCloud()
	served.Wait()
	if errors.Is(err, cloudErr) { // one cause, or none
		return outcome, err
	}
	return outcome, errors.Join(err, cloudErr)
}

func (r *session) writeStart() error {
	details, err := r.startDetails()
	if err != nil {
		return err
	}
	now := r.cfg.Clock.Now().Truncate(time.Millisecond)
	if err := r.cfg.Journal.Write(journal.Entry{T: now, Kind: journal.Start, Details: details}); err != nil {
		return fmt.Errorf("starting the journal: %w", err)
	}
	if r.cfg.Plan == nil {
		return nil
	}
	plan, err := journal.Pack(r.cfg.Plan.Details())
	if err != nil {
		return err
	}
	if err := r.cfg.Journal.Write(journal.Entry{T: now, Kind: journal.Plan, Why: r.cfg.Plan.Why, Details: plan}); err != nil {
		return fmt.Errorf("starting the journal: %w", err)
	}
	return nil
}

func (r *session) region() string { return r.cfg.Choice.Pools[0].Pool.Region }

func (r *session) startCloud() (*fakecloud.Cloud, error) {
	job := r.cfg.Job
	rules, err := job.Rules()
	if err != nil {
		return nil, err
	}
	c := fakecloud.Config{
		Provider: job.Provider, Clock: r.cfg.Clock, Region: r.region(), Prices: map[market.Pool]*market.History{}, Rules: rules,
		Capacity: r.cfg.Choice.Capacity, Notice: job.Local.Notice, Boot: job.Local.Boot,
		Command: r.cfg.Agent, LogDir: filepath.Join(r.cfg.Directory, rundir.LogsDir),
		Records: filepath.Join(r.cfg.Directory, rundir.CloudFile), Script: script(job.Local.Script), Seed: job.Seed, Log: r.cfg.Log,
	}
	for _, o := range r.cfg.Offers {
		if o.Pool.Region == c.Region {
			c.Prices[o.Pool] = o.History
		}
	}
	known := map[string]bool{}
	add := func(t market.InstanceType) {
		if !known[t.Name] {
			known[t.Name] = true
			c.Types = append(c.Types, fakecloud.InstanceType{InstanceType: t, FLOPS: r.flops(t)})
		}
	}
	for _, t := range r.types() {
		add(t)
	}
	for _, o := range r.cfg.Offers {
		add(o.Type)
	}
	return fakecloud.New(c)
}

// drive runs the controller against the cloud's endpoint.
func (r *session) drive(ctx context.Context, endpoint string, gone []provisioner.Instance, stop <-chan string) (outcome string, err error) {
	cloud, err := r.connect(ctx, endpoint)
	if err != nil {
		return "", err
	}
	defer cloud.Close()
	opening, opened := untilStopped(ctx, stop)
	r.removeLeftovers(opening, cloud) // of the previous controller
	defer func() {
		if !unended(err) { // otherwise it would wait for a provider that does not answer
			r.removeLeftovers(context.WithoutCancel(ctx), cloud)
		}
	}()

	pools := slices.SortedFunc(maps.Keys(spotPools(r.cfg.Choice.Pools)), market.Pool.Compare)
	from := r.cfg.Clock.Now().Truncate(time.Millisecond)
	history, err := pastPrices(opening, cloud, pools, from)
	opened()
	if err == nil {
		if why, stopped := errors.AsType[errStopped](context.Cause(opening)); stopped {
			err = why
		}
	}
	if err != nil {
		return "", err
	}
	if r.cfg.Hosts != nil {
		return r.driveHosts(ctx, cloud, endpoint, history, from, pools, gone, stop)
	}
	if r.cfg.Programs != nil {
		if r.spec, err = r.placeWorkdir(ctx); err == nil {
			err = r.placeCoordinator()
		}
	} else if r.splitsURL, err = r.placeSplits(ctx); err == nil && r.cfg.Job.OnTiers() {
		err = r.placeOutside(ctx)
	}
	if err != nil {
		return "", err
	}
	controller, err := r.controller(history)
	if err != nil {
		return "", err
	}
	pace := r.pace()

	listener, called, err := r.listen(ctx)
	if err != nil {
		return "", fmt.Errorf("listening for machines: %w", err)
	}
	r.state.Controller, r.state.Endpoint, r.state.Dataset = called, r.cfg.Endpoint, &r.cfg.Dataset
	r.state.Cloud = endpoint
	if err := r.state.write(r.cfg.Directory); err != nil { // before any machine knows the address
		return "", errors.Join(err, listener.Close())
	}
	if r.door, err = r.openDoor(ctx, listener); err != nil {
		return "", errors.Join(err, listener.Close())
	}
	defer r.door.close()
	stream, err := link.Listen(ctx, r.door.link())
	if err != nil {
		return "", fmt.Errorf("listening for machines: %w", err)
	}
	defer stream.Close()

	r.runner = runner.New(runner.Config{
		Controller: controller, Clock: r.cfg.Clock, Cloud: cloud, Prices: cloud, Pools: pools,
		PricesFrom: from, Nodes: stream, Journal: r.cfg.Journal, Log: r.cfg.Log,
		Complete: r.complete, Export: r.export, WriteManifest: r.writeManifest, Profiled: profiled(cloud),
		Gone: gone, Renew: r.renew(cloud), RenewEvery: r.lease() / 3, PollPrices: pace.Prices, PollCloud: r.pollInstances(), Calls: pace.Calls,
		EndCommand: r.endCommand(),
	})
	calls, err := scaling.Serve(r.cfg.Directory, r.runner, r.cfg.Log)
	if err != nil {
		return "", err
	}
	defer calls.Close()
	if r.cfg.Job.TunesTraining() {
		defer r.saveSetting()
	}
	coordinated, err := r.runCoordinator(ctx)
	if err != nil {
		return "", err
	}
	defer coordinated()
	if r.cfg.Job.Run != "" {
		fetched := r.fetchOutputs(ctx)
		defer func() { fetched(unended(err)) }()
	}
	return r.runUntilStopped(ctx, stop)
}

// runUntilStopped drives the controller and passes on requests to stop.
func (r *session) runUntilStopped(ctx context.Context, stop <-chan string) (string, error) {
	watch, end := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for now := false; ; {
			select {
			case <-watch.Done():
				return
			case said := <-r.cfg.Spending:
				r.runner.Budget(watch, said)
			case why := <-stop:
				r.runner.Stop(watch, why, now)
				now = true
			}
		}
	})
	outcome, err := r.runner.Run(ctx)
	end()
	watching.Wait()
	if unended(err) {
		err = fmt.Errorf("%w\nMachines without a controller end by themselves after %s", err, r.endsAlone())
	}
	return outcome, err
}

// splitBytes returns how much memory each machine of a launch has for splits: what the parameters leave at their maximum. The provider may
// choose among pools, and all get the same user data.
func (r *session) splitBytes(of provisioner.Request) (least int64) {
	if r.cfg.Programs != nil {
		return 0
	}
	taken := tiers.ReliableMemory(&r.schema, max(r.cfg.Choice.Reliable.Count, 1)).Total()
	all, pools := r.types(), []market.Pool{of.Pool}
	for _, choice := range of.Or {
		pools = append(pools, choice.Pool)
	}
	for _, p := range pools {
		if t := typeOf(all, p); t.MemoryMiB > 0 {
			if n := max(tiers.UsableMemory(t.MemoryMiB)-taken, 1); least == 0 || n < least {
				least = n
			}
		}
	}
	return least
}

// typeOf returns a pool's type; the zero value if it is none of these.
func typeOf(all []market.InstanceType, p market.Pool) (found market.InstanceType) {
	if i := slices.IndexFunc(all, func(t market.InstanceType) bool { return t.Name == p.Type }); i >= 0 {
		found = all[i]
	}
	return found
}

// spotPools returns the pools whose prices change.
func spotPools(candidates []bidding.Candidate) map[market.Pool]bool {
	set := map[market.Pool]bool{}
	for _, c := range candidates {
		if !c.OnDemand() {
			set[c.Pool] = true
		}
	}
	return set
}

// lookBack is how much price history a run requests: EC2 keeps 90 days.
const lookBack = 90 * 24 * time.Hour

// pastPrices queries past prices from the cloud: there is no other source.
func pastPrices(ctx context.Context, cloud runner.PriceSource, pools []market.Pool, now time.Time) (map[market.Pool]*market.History, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	prices, err := cloud.SpotPrices(ctx, pools, now.Add(-lookBack), now)
	if err != nil {
		return nil, fmt.Errorf("asking for past prices: %w", err)
	}
	history := map[market.Pool]*market.History{}
	for pool, points := range prices {
		history[pool] = market.NewHistory(points)
	}
	return history, nil
}
