// Package runner drives the elasticity controller in real time: it turns reports of the cloud and the nodes into events,
// carries out the actions, and writes the journal. It decides nothing.
package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Controller decides: an elasticity.Controller, or a restart.Controller.
type Controller interface {
	Step(now time.Time, events ...elasticity.Event) []elasticity.Action
	NextWake() time.Time
}

// Config is what a run needs apart from its controller.
type Config struct {
	Controller Controller
	Clock      clock.Mapping
	Cloud      provisioner.Cloud
	Prices     PriceSource
	Pools      []market.Pool // whose prices are tracked
	PricesFrom time.Time     // prices are already known up to this time
	Nodes      Nodes
	Journal    Journal
	Log        *slog.Logger

	// Complete adds a launch's user data and tags. It must return the same for the same launch each time, even if another process did it
	// before.
	Complete func(provisioner.Request) provisioner.Request
	// Export saves all tables and returns the model's path and its loss on the held-out data.
	Export func(context.Context, elasticity.Export) elasticity.Exported

	// Gone are machines of the previous controller's cloud, which no longer exists.
	Gone []provisioner.Instance
	// WriteManifest completes a checkpoint and removes old ones. Trouble is a failure that did not harm the checkpoint.
	WriteManifest func(context.Context, elasticity.WriteManifest) (manifest, trouble string, err error)

	// Profiled reports the load of serving the model, and returns the answer; nil = not wanted.
	Profiled func(context.Context, tiers.Served) (tiers.Preference, error)

	// Renew renews machines' leases, every RenewEvery of wall clock; nil = leases need no renewal.
	Renew      func(context.Context, ...provisioner.InstanceID) error
	RenewEvery time.Duration

	// EndCommand returns the provider's own command that ends machines, to show to users; nil = there is none.
	EndCommand func([]provisioner.Instance) string

	PollPrices time.Duration // wall clock
	PollCloud  time.Duration // wall clock, between full listings; notices arrive faster
	Calls      time.Duration // wall clock, limit of one call to the cloud
}

// PriceSource returns price changes.
type PriceSource interface {
	// SpotPrices returns, per pool, the changes after since up to until, oldest first.
	SpotPrices(ctx context.Context, pools []market.Pool, since, until time.Time) (map[market.Pool][]market.PricePoint, error)
}

// Nodes is the controller's end of the streams to the machines.
type Nodes interface {
	// Send hands over a command without waiting; commands to one node stay in order.
	Send(id ps.ServerID, c tiers.Command) error
	// Receive calls f for every report and every broken stream, in order per node, until ctx is done.
	Receive(ctx context.Context, f func(id ps.ServerID, r tiers.Report, broken error)) error
}

// Journal accepts entries.
type Journal interface {
	Write(journal.Entry) error
}

// Runner is one run in progress.
//
// Invariant: one goroutine steps the controller and executes its actions in order. A Record of a durable kind (Kind.Durable) is on disk
// before the next action is executed. Only sending, recording and answering are synchronous; anything slower has a goroutine, and ends in
// an event.
//
// What fails outside:
//   - A launch whose answer is lost is repeated with its token, which buys nothing twice; in the end the event says that it is unsure.
//   - Terminating is repeated until it succeeds, and listing with the next interval. Each ends in what the provider lists, not in the request.
//   - A command that cannot be sent is dropped: the link repeats those of a broken stream, and the controller gives up silent machines.
//   - The journal cannot be written: nothing more is launched, since it would be unknown, and all machines are ended. The next controller
//     takes over as after a crash.
type Runner struct {
	cfg    Config
	events chan elasticity.Event
	jobs   sync.WaitGroup
	batch  []elasticity.Event // kept to reuse its memory
	failed error
	listed atomic.Bool // the first listing was reported
	over   atomic.Bool // no machine of the last listing runs, or there was no listing

	// ended requests prices at once when the last machine has ended: a run's bill, and so its end, waits for them.
	ended chan struct{}

	endExport func()          // cancels the newest export; nil = there was none
	exported  <-chan struct{} // closed when it has ended
	profiled  func()          // cancels forwarding the newest profile; nil = there was none

	requests requests
	answers  answers
	uses     uses
}

// New prepares a run; Run drives it.
func New(cfg Config) *Runner {
	r := &Runner{cfg: cfg, events: make(chan elasticity.Event, 256), answers: answers{failing: map[string]failing{}, command: cfg.EndCommand},
		requests: requests{waiting: map[uint64]chan elasticity.Scaled{}, over: make(chan struct{})}, ended: make(chan struct{}, 1)}
	r.over.Store(true)
	return r
}

// Stop requests a graceful end or, with now, an immediate end. If the provider's calls fail, Run leaves the machines after a while, and
// returns Left. It may be called from any goroutine while Run runs.
func (r *Runner) Stop(ctx context.Context, why string, now bool) {
	r.answers.stops(time.Now())
	r.handle(ctx, elasticity.StopWanted{Why: why, Now: now})
}

// Budget passes an event about a spending limit to the controller. It may be called from any goroutine while Run runs.
func (r *Runner) Budget(ctx context.Context, e elasticity.BudgetChanged) { r.handle(ctx, e) }

// Nudge makes the controller step soon. It may be called from any goroutine while Run runs, and does not block.
func (r *Runner) Nudge() {
	select {
	case r.events <- elasticity.Wake{}:
	default: // a step is already pending
	}
}

// Run steps the controller until it finishes and returns its outcome. When ctx is done it returns at once and leaves machines running: call
// Stop first.
func (r *Runner) Run(ctx context.Context) (outcome string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	for _, watch := range []func(context.Context){r.watchPrices, r.watchNotices, r.watchCloud, r.watchNodes, r.renewLeases, r.watchAnswers} {
		r.jobs.Go(func() { watch(ctx) })
	}
	defer r.jobs.Wait()
	defer cancel()
	defer close(r.requests.over)

	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var e elasticity.Event
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("driving the run: %w", context.Cause(ctx))
		case <-timer.C:
			e = elasticity.Wake{}
		case e = <-r.events:
		}
		batch := r.journalUse(ctx, r.waiting(e))
		if len(batch) == 0 {
			continue
		}
		for _, a := range r.cfg.Controller.Step(r.now(), batch...) {
			if f, ok := a.(elasticity.Finish); ok {
				return f.Outcome, r.failed
			}
			r.do(ctx, a)
		}
		if left := r.answers.gone(); left != nil && slices.ContainsFunc(batch, leaves) { // which is in the journal now
			return "", errors.Join(left, r.failed)
		}
		wait := r.cfg.Clock.Until(r.cfg.Controller.NextWake())
		timer.Reset(max(wait, time.Millisecond))
	}
}

// waiting returns an event with those that arrived meanwhile: they are decided together. The slice is valid until the next call.
func (r *Runner) waiting(first elasticity.Event) []elasticity.Event {
	r.batch = append(r.batch[:0], first)
	for {
		select {
		case e := <-r.events:
			r.batch = append(r.batch, e)
		default:
			return r.batch
		}
	}
}

// now returns the market time, in the journal's resolution.
func (r *Runner) now() time.Time { return r.cfg.Clock.Now().Truncate(time.Millisecond) }

func (r *Runner) handle(ctx context.Context, e elasticity.Event) {
	select {
	case r.events <- e:
	case <-ctx.Done():
	}
}

func (r *Runner) do(ctx context.Context, a elasticity.Action) {
	switch a := a.(type) {
	case elasticity.Record:
		r.write(ctx, a.Entry)
	case elasticity.Send:
		if err := r.cfg.Nodes.Send(a.ID, a.Command); err != nil {
			r.cfg.Log.Debug("a command was not sent", "node", a.ID, "command", fmt.Sprintf("%T", a.Command.Do), "err", err)
		}
	case elasticity.Launch:
		if r.failed != nil { // its intent is not on disk: a successor would not know it
			r.jobs.Go(func() { r.handle(ctx, elasticity.LaunchFailed{Token: a.Request.Token, Err: errUnwritten}) })
			return
		}
		r.jobs.Go(func() { r.launch(ctx, a.Request) })
	case elasticity.Terminate:
		r.jobs.Go(func() { r.terminate(ctx, a) })
	case elasticity.Scaled:
		r.requests.answer(a)
	case elasticity.Export:
		r.export(ctx, a)
	case elasticity.Profiled:
		r.passOn(ctx, a.Served)
	case elasticity.WriteManifest:
		r.jobs.Go(func() {
			manifest, trouble, err := r.cfg.WriteManifest(ctx, a)
			r.handle(ctx, elasticity.ManifestWritten{Folder: a.Folder, Manifest: manifest, Trouble: trouble, Err: err})
		})
	}
}

// passOn forwards the load of serving until that succeeds or there are newer figures.
func (r *Runner) passOn(ctx context.Context, of tiers.Served) {
	if r.cfg.Profiled == nil {
		return
	}
	if r.profiled != nil {
		r.profiled()
	}
	ctx, cancel := context.WithCancel(ctx)
	r.profiled = cancel
	r.jobs.Go(func() {
		defer cancel()
		for wait := time.Second; ; wait = min(2*wait, time.Minute) {
			call, end := context.WithTimeout(ctx, r.cfg.Calls)
			preferred, err := r.cfg.Profiled(call, of)
			end()
			if err == nil {
				r.handle(ctx, elasticity.Preferred{Preference: preferred})
				return
			}
			if errors.Is(err, provisioner.ErrInvalid) || errors.Is(err, provisioner.ErrDenied) {
				return
			}
			r.cfg.Log.Debug("what serving takes was not passed on; trying again", "err", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
	})
}

// export saves the model. An export overtaken by a recovery ends first: both write the same file.
func (r *Runner) export(ctx context.Context, a elasticity.Export) {
	before := r.exported
	if r.endExport != nil {
		r.endExport()
	}
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	r.endExport, r.exported = cancel, ended
	r.jobs.Go(func() {
		defer close(ended)
		defer cancel()
		if before != nil {
			<-before
		}
		e := r.cfg.Export(ctx, a)
		e.Generation = a.Generation
		r.handle(ctx, e)
	})
}

// write writes to the journal. A run whose journal cannot be written must not spend money unrecorded. The first lost line must be the last:
// if the journal later recorded an end of the run, the next controller would assume that missing events, such as ends of machines, never
// happened.
func (r *Runner) write(ctx context.Context, e journal.Entry) {
	if r.failed != nil {
		return
	}
	err := r.cfg.Journal.Write(e)
	if err == nil {
		return
	}
	r.failed = fmt.Errorf("writing the journal: %w", err)
	r.cfg.Log.Error("the journal cannot be written: the run ends", "err", err)
	// Called from another goroutine, because this one receives the events.
	r.jobs.Go(func() { r.Stop(ctx, "the journal cannot be written", true) })
}

var errUnwritten = fmt.Errorf("%w: nothing is bought once the journal cannot be written", provisioner.ErrInvalid)

// launchTries is how often a launch is requested whose answer is lost. The same request buys nothing twice, and waiting is better than not
// knowing its result.
const launchTries = 3

func (r *Runner) launch(ctx context.Context, req provisioner.Request) {
	req = r.cfg.Complete(req)
	for try, unsure := 1, false; ; try++ {
		began := time.Now()
		call, cancel := context.WithTimeout(ctx, r.cfg.Calls)
		instances, refused, err := provisioner.Choose(call, r.cfg.Cloud, req)
		cancel()
		if err == nil || errors.Is(err, provisioner.ErrDenied) || !provisioner.Definite(err) {
			r.answers.took(launching, began, err)
		} else { // too few machines are an answer, too
			r.answers.took(launching, began, nil)
		}
		switch lost := provisioner.Retryable(err) || errors.Is(err, context.DeadlineExceeded); {
		case err == nil:
			r.handle(ctx, elasticity.Launched{Token: req.Token, Instances: instances, Refused: refused})
			return
		case !lost || try == launchTries || ctx.Err() != nil:
			r.handle(ctx, elasticity.LaunchFailed{Token: req.Token, Err: err, Refused: refused, Unsure: unsure})
			return
		}
		unsure = true
		r.cfg.Log.Warn("the answer to a launch is lost; asking again", "token", req.Token, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(spread(time.Duration(try) * time.Second)):
		}
	}
}

// terminate retries until it succeeds: a machine that is not ended costs money unnoticed.
func (r *Runner) terminate(ctx context.Context, a elasticity.Terminate) {
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, lastPause) {
		began := time.Now()
		call, cancel := context.WithTimeout(ctx, r.cfg.Calls)
		err := r.cfg.Cloud.Terminate(call, a.IDs...)
		cancel()
		r.answers.took(terminating, began, err)
		if err == nil {
			break
		}
		r.cfg.Log.Error("terminating failed; trying again", "machines", a.IDs, "err", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(spread(wait)):
		}
	}
	_ = r.list(ctx) // which has logged it
}

// list reports the provider's list, and ended machines, to the controller.
func (r *Runner) list(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, r.cfg.Calls)
	defer cancel()
	asked := r.now()
	began := time.Now()
	r.answers.await(began)
	instances, err := r.cfg.Cloud.List(call)
	r.answers.listed(instances, began, err)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			r.cfg.Log.Warn("listing machines failed; trying again", "err", err)
		}
		return err
	}
	all := instances
	if r.listed.CompareAndSwap(false, true) {
		all = append(slices.Clone(instances), r.cfg.Gone...)
	}
	r.handle(ctx, elasticity.Listed{Instances: all, Asked: asked})
	for _, i := range instances {
		if i.State == provisioner.Terminated {
			r.handle(ctx, elasticity.InstanceEnded{Instance: i})
		}
	}
	over := !slices.ContainsFunc(instances, func(i provisioner.Instance) bool { return i.State != provisioner.Terminated })
	if before := r.over.Swap(over); over && !before {
		select {
		case r.ended <- struct{}{}:
		default: // already requested
		}
	}
	return nil
}

func (r *Runner) watchCloud(ctx context.Context) {
	every(ctx, r.cfg.PollCloud, nil, func() error { return r.list(ctx) })
}

func (r *Runner) watchNodes(ctx context.Context) {
	err := r.cfg.Nodes.Receive(ctx, func(id ps.ServerID, report tiers.Report, broken error) {
		if broken != nil {
			r.handle(ctx, elasticity.Disconnected{ID: id})
			return
		}
		r.handle(ctx, elasticity.Reported{ID: id, Report: report})
	})
	if err != nil && ctx.Err() == nil {
		r.cfg.Log.Error("nodes cannot connect", "err", err)
	}
}

// lookAgain is how often a long interval is checked: tickers stop while the host sleeps, but their deadlines do not.
const lookAgain = 5 * time.Second

// slowest is the longest pause between failing polls: recovery is noticed within half a minute.
const slowest = 15 * time.Second

// every calls f once per interval, and for each value of soon, until ctx is done. While f fails, the pauses double up to slowest.
func every(ctx context.Context, interval time.Duration, soon <-chan struct{}, f func() error) {
	step := min(interval, lookAgain)
	tick := time.NewTicker(step)
	defer tick.Stop()
	for pause := interval; ; {
		began := clock.Wall()
		if f() == nil {
			pause = interval
		} else {
			pause = min(2*pause, slowest)
		}
		wait := pause
		if wait != interval {
			wait = spread(wait)
		}
		for again := true; again; {
			select {
			case <-ctx.Done():
				return
			case <-soon:
				again = false
			case <-tick.C:
				again = wait > step && clock.Wall().Sub(began) < wait
			}
		}
	}
}
