// Package node is the agent on each machine of a job. At the controller's commands it serves partitions, backs others up and works on
// splits; it reports progress, heartbeats and the provider's warnings. tiers/agent decides what follows from a command and from the end of
// a round, and this package carries it out. It knows nothing about the reasons for its commands or the cost of a machine, and about other
// machines only their addresses.
//
// A role is the lifetime of one function: the machine is a worker while worker.run runs and a server while Server.Serve does. Training does
// not need the controller: while the stream to it is broken, the node continues and keeps its reports, and ends only after Welcome's
// OrphanAfter.
package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/trust"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/agent"
	"github.com/tierml/tierml/tiers/node/child"
	"github.com/tierml/tierml/tiers/node/outbox"
)

// Wall-clock lengths.
const (
	firstOrphanAfter = 30 * time.Second // until a Welcome sets another
	metadataWithin   = 2 * time.Minute  // for the metadata service to identify this machine
	putOffEvery      = time.Minute
	stopGrace        = 10 * time.Second // for the round in progress at a Stop
	lastWordsGrace   = 2 * time.Second  // for the last reports to reach the controller
)

// Reasons to end gracefully.
var (
	errStopped = errors.New("asked to stop")
	errOrphan  = errors.New("no controller for too long")
	errAgain   = errors.New("told to begin anew")
)

// Run runs a node. It returns nil after a Stop, after too long without a controller, or when ctx is done; otherwise an error, such as
// ErrFenced. When told to start over it restarts without its earlier state.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.check(); err != nil {
		return err
	}
	var own *trust.Credential // of the machine: its token could be used once
	for {
		err := live(ctx, cfg, &own)
		if !errors.Is(err, errAgain) {
			return err
		}
	}
}

// live is one life.
func live(ctx context.Context, cfg Config, own **trust.Credential) error {
	identity, user, err := identify(ctx, cfg.Machine)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", user.Listen)
	if err != nil {
		return fmt.Errorf("listening for the data plane: %w", err)
	}
	defer func() { _ = listener.Close() }() // already closed if there was a server

	tasks, ctx := errgroup.WithContext(ctx)
	n := newNode(cfg, identity, user, listener, tasks)
	n.own = *own
	n.log.Info("node starts", "type", identity.Type, "data_plane", listener.Addr().String(), "controller", user.Controller)
	n.task(ctx, func() error { return n.watchNotices(ctx) })
	if cfg.Use != nil {
		n.task(ctx, func() error {
			cfg.Use(ctx, user.ownMachine(), n.reportUse)
			return nil
		})
	}
	if cfg.PutOff != nil {
		n.task(ctx, func() error { return n.putOff(ctx) })
	}
	tasks.Go(func() error { // no controller to report its end to
		if err := n.secure(ctx); err != nil {
			return err
		}
		return n.converse(ctx)
	})
	err = tasks.Wait()
	*own = n.own

	n.log.Info("node ends", "why", err)
	if errors.Is(err, errStopped) || errors.Is(err, errOrphan) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func identify(ctx context.Context, m Machine) (Identity, UserData, error) {
	patience, cancel := clock.WithPatience(ctx, metadataWithin, context.DeadlineExceeded)
	defer cancel()
	identity, err := insist(patience, m.Identity)
	if err != nil {
		return Identity{}, UserData{}, fmt.Errorf("asking the metadata service who this machine is: %w", err)
	}
	text, err := insist(patience, m.UserData)
	if err != nil {
		return Identity{}, UserData{}, fmt.Errorf("asking the metadata service for the user data: %w", err)
	}
	user, err := DecodeUserData(text)
	return identity, user, err
}

// insist retries when an answer did not arrive in time: on a host where many machines start at once it is late.
func insist[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	for {
		got, err := ask(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return got, err
		}
	}
}

// node is the state of a Run.
type node struct {
	cfg      Config
	log      *slog.Logger
	identity Identity
	user     UserData
	listener net.Listener
	process  string // identifies this process among all lives of the machine
	tasks    *errgroup.Group
	own      *trust.Credential // nil = plaintext
	recent   tail              // of the log
	traffic  traffic

	reports  *outbox.Queue[tiers.Report]
	attached atomic.Bool                  // connected to the controller
	warned   atomic.Pointer[tiers.Warned] // the last eviction warning, for a later controller

	// Owned by converse.
	controller string      // the current controller process
	reached    string      // where other machines reach the data plane; empty = not found yet
	agent      agent.Agent // its Worker is guarded by the worker's lock
	job        *job        // nil before the first Welcome
	obeyed     map[uint64]struct{}

	programs atomic.Pointer[programs]    // nil before the first RunProgram
	child    atomic.Pointer[child.Child] // nil = the job has none, or it was not welcomed
}

func newNode(cfg Config, id Identity, user UserData, listener net.Listener, tasks *errgroup.Group) *node {
	n := &node{
		cfg:      cfg,
		identity: id,
		user:     user,
		listener: listener,
		process:  rand.Text(),
		tasks:    tasks,
		reports:  outbox.New[tiers.Report](0),
		obeyed:   map[uint64]struct{}{},
	}
	n.agent.Report = n.report
	recent := slog.NewTextHandler(&n.recent, nil)
	n.log = slog.New(slog.NewMultiHandler(cfg.Log.Handler(), recent)).With("node", string(id.Instance))
	return n
}

func (n *node) report(r tiers.Report) {
	if a, ok := r.(tiers.Answer); ok && a.Code == tiers.CodeFailed {
		n.log.Warn("command failed", "id", a.ID, "error", a.Error)
	}
	n.reports.Put(r)
}

func (n *node) hello() tiers.Hello {
	h := tiers.Hello{
		Token:    n.token(),
		Instance: n.identity.Instance,
		Address:  n.address(),
		Type:     n.identity.Type,
		VCPU:     cmp.Or(n.user.VCPU, runtime.NumCPU()),
	}
	if n.job != nil {
		h.Incarnation, h.Generation = n.job.welcome.Incarnation, n.job.worker.generation()
	}
	if p := n.programs.Load(); p != nil {
		h.Incarnation = p.attemptNow()
	}
	return h
}

func (n *node) orphanAfter() time.Duration {
	if p := n.programs.Load(); p != nil {
		return p.first.OrphanAfter
	}
	if n.job == nil {
		return firstOrphanAfter
	}
	return n.job.welcome.OrphanAfter
}

// traffic is the data plane's bytes since the start, by the last heartbeat.
type traffic struct{ in, out atomic.Int64 }

// reportUse reports what this machine has used. On a shared machine, only the data plane's network traffic is known.
func (n *node) reportUse(u tiers.Used) {
	if !n.user.ownMachine() {
		u.BytesIn, u.BytesOut = n.traffic.in.Load(), n.traffic.out.Load()
	}
	if n.attached.Load() {
		n.report(u)
	}
}

// putOff postpones the end of a machine that would power itself off, as long as it has a controller.
func (n *node) putOff(ctx context.Context) error {
	ticker := time.NewTicker(putOffEvery)
	defer ticker.Stop()
	for {
		if n.attached.Load() {
			if err := n.cfg.PutOff(ctx); err != nil && ctx.Err() == nil {
				n.log.Error("this machine will end by itself", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// watchNotices forwards the provider's warnings at once. The node itself continues: the controller knows what fits into the remaining time.
func (n *node) watchNotices(ctx context.Context) error {
	err := n.cfg.Machine.Watch(ctx, func(w tiers.Warned) {
		n.log.Warn("the provider warns", "rebalance", w.Rebalance, "deadline", w.Deadline)
		if !w.Rebalance {
			n.warned.Store(&w)
		}
		n.noticeProgram(w)
		if !w.Rebalance {
			n.hurry(true)
		}
		n.report(w)
	})
	if ctx.Err() == nil {
		// Training is worth more than the warnings: the controller also learns of evictions from the provider.
		n.log.Error("no longer watching for the provider's warnings", "error", err)
	}
	return nil
}

// job is a node's state once it was welcomed.
type job struct {
	welcome tiers.Welcome
	server  Server
	client  Client
	worker  *worker
	store   *store
	working chan struct{} // closed when the worker has returned

	// Owned by converse.
	moves   []<-chan struct{}  // each closed when a move away from here has ended
	endSave context.CancelFunc // of the SaveCut in progress; nil = none
}

// join accepts a job.
func (n *node) join(ctx context.Context, do tiers.Welcome) (*job, error) {
	if do.Heartbeat <= 0 || do.OrphanAfter <= 0 {
		return nil, errors.New("the welcome's Heartbeat and OrphanAfter must be above 0")
	}
	app, err := n.cfg.NewApp(do.App, do.Params, do.Dataset)
	outside, _ := app.(apps.Outside)
	if outside == nil && n.cfg.Flops > 0 {
		n.log.Info(fmt.Sprintf("worker is held to %.4g Mflop/s by pacing", n.cfg.Flops/1e6))
	}
	if err != nil {
		return nil, fmt.Errorf("making application %s: %w", do.App, err)
	}
	panicking := func(value any, stack []byte) { n.explain(ctx, &panicked{value, stack}) }
	server, err := n.cfg.NewServer(ServerConfig{
		Self: n.identity.Instance, Job: n.user.Job, Schema: do.Schema, Generation: do.Generation, Listener: n.listener, TLS: n.dataTLS(),
		OnCutHeld: func(c tiers.CutHeld) { n.report(c) }, Panicked: panicking, Log: n.log,
	})
	if err != nil {
		return nil, fmt.Errorf("making the server: %w", err)
	}
	transport := ps.Whole
	if outside != nil {
		transport = ps.TransportOf(outside.Terms().Transport)
	}
	client, err := n.cfg.NewClient(ClientConfig{
		Self: n.identity.Instance, Job: n.user.Job, Schema: do.Schema, Server: server, TLS: n.dataTLS(), Incarnation: do.Incarnation,
		Transport: transport, Panicked: panicking, Log: n.log,
	})
	if err != nil {
		return nil, fmt.Errorf("making the client: %w", err)
	}
	if outside != nil {
		if err := n.beginChild(ctx, outside, do.Secrets); err != nil {
			return nil, err
		}
	}
	space := newWorkspace(&do.Schema, app, n.cfg.threads())
	j := &job{
		welcome: do,
		server:  server,
		client:  client,
		worker: &worker{client: client, evalEvery: do.EvalEvery, log: n.log, pacer: pacer{rate: n.cfg.Flops}, space: space,
			rows: newReader(client, space), wake: make(chan struct{}, 1), agent: &n.agent.Worker, outside: outside},
		store: &store{app: app, seed: do.Schema.Seed, splits: map[ps.Split]*entry{},
			open: openIn(n.cfg, do.SplitsURL), limit: n.user.SplitBytes},
		working: make(chan struct{}),
	}
	if late, ok := app.(apps.Late); ok {
		j.worker.rows.readLate(late.ReadLate())
	}
	j.store.active = func() []ps.Split { return locked(j.worker, (*agent.Worker).Splits) }
	n.agent = agent.Agent{Server: routed{server, client}, Report: n.report, Here: func(id ps.Split) any { return j.store.get(id) },
		Lock: &j.worker.mu}
	n.agent.Join(do)
	n.agent.Passes = outside != nil && !outside.Terms().Deterministic
	if outside != nil && outside.Program() == nil {
		n.agent.StandBy()
	}
	n.task(ctx, func() error { return j.serve(ctx) })
	n.task(ctx, func() error { return n.work(ctx, j) })
	n.task(ctx, func() error { return n.beat(ctx, j) })
	return j, nil
}

// serve runs the roles ParamServ, ActivePS and BackupPS: the route decides which.
func (j *job) serve(ctx context.Context) error {
	if err := j.server.Serve(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

// work is the role worker. Without splits it waits for some.
func (n *node) work(ctx context.Context, j *job) error {
	defer close(j.working)
	err := guard(func() error { return j.worker.run(ctx) })
	return errors.Join(err, j.client.Close())
}

// lastWords waits briefly for the controller to receive all reports.
func (n *node) lastWords(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, lastWordsGrace)
	defer cancel()
	if err := n.reports.Drain(within); err != nil {
		n.log.Warn("ending before the last reports have arrived", "error", err)
	}
}

func (j *job) heartbeat() tiers.Heartbeat {
	h := j.server.Stats()
	in, out := j.client.Traffic()
	h.BytesIn, h.BytesOut = h.BytesIn+in, h.BytesOut+out
	h.BytesSaved, h.Waited = j.worker.rows.saved()
	h.Generation = j.worker.generation()
	return h
}

func (n *node) beat(ctx context.Context, j *job) error {
	ticker := time.NewTicker(j.welcome.Heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		if n.attached.Load() {
			h := j.heartbeat()
			n.traffic.in.Store(h.BytesIn)
			n.traffic.out.Store(h.BytesOut)
			n.report(h)
		}
	}
}
