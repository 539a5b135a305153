package jobrun

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/elasticity/hosts/hostagent"
	"github.com/tierml/tierml/elasticity/runner"
	"github.com/tierml/tierml/elasticity/scaling"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/sameuser"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Shared hosts are a run of their own: with a directory, a journal, a fleet, and a report. Instead of training it has the desk where jobs
// get slots. A job's run gets its machines from there, instead of from a cloud.

// Hosts is the input of a run of shared hosts apart from its file.
type Hosts struct {
	Types []market.InstanceType      // of slots
	Lines []hosts.Line               // of the book, as stored
	Bills map[step.ID]hosts.PastHost // of earlier hosts
}

// onHosts is the prefix of the endpoint of a run whose machines are slots; the directory of the shared hosts' run follows.
const onHosts = "hosts:"

// OnHosts returns the endpoint of a run whose machines are slots of shared hosts, by the directory of their run.
func OnHosts(directory string) string { return onHosts + directory }

// hostsDirectory returns the directory of the shared hosts' run of an endpoint.
func hostsDirectory(endpoint string) (directory string, shared bool) {
	return strings.CutPrefix(endpoint, onHosts)
}

// slots are the machines of a job on shared hosts, as an account. On a real cloud the job has an account of its own, which buys nothing.
type slots struct {
	*desk.Cloud
	own providers.Account
}

func (r *session) slots(ctx context.Context, directory string, s providers.Session) (found slots, err error) {
	if r.real() != nil {
		if found.own, err = r.provider.Open(ctx, r.cfg.Job, s); err != nil {
			return found, fmt.Errorf("connecting to the cloud: %w", err)
		}
	}
	found.Cloud = desk.Connect(directory, r.unique(), r.cfg.Choice.Pools[0].Pool.Provider, hosts.SizeOf(r.cfg.Job.MachineSize()), pollNotices, r.cfg.Log)
	return found, nil
}

// RunKeys returns credentials of the job's own account: hosts have none for it.
func (s slots) RunKeys(ctx context.Context, run string, folder location.Place) (blob.Keys, bool, error) {
	if keys, ok := s.own.(providers.RunKeys); ok {
		return keys.RunKeys(ctx, run, folder)
	}
	return blob.Keys{}, false, nil
}

// Close closes both.
func (s slots) Close() {
	s.Cloud.Close()
	if s.own != nil {
		s.own.Close()
	}
}

// SlotPrices returns the hourly prices of a job's slots, from since until until, for an endpoint that is shared hosts; otherwise nil. Pools
// whose types fit no host are skipped.
func SlotPrices(ctx context.Context, job *config.Job, endpoint string, pools []market.Pool, since, until time.Time) (map[market.Pool][]market.PricePoint, error) {
	directory, shared := hostsDirectory(endpoint)
	if !shared || len(pools) == 0 {
		return nil, nil
	}
	cloud := desk.Connect(directory, "plan", pools[0].Provider, hosts.SizeOf(job.MachineSize()), pollNotices, slog.New(slog.DiscardHandler))
	defer cloud.Close()
	prices, err := cloud.SpotPrices(ctx, pools, since, until)
	maps.DeleteFunc(prices, func(_ market.Pool, points []market.PricePoint) bool { return len(points) == 0 })
	return prices, err
}

var errNoController = fmt.Errorf("%w: shared hosts have no machine for a job server", provisioner.ErrInvalid)

// Controllers returns none.
func (slots) Controllers(context.Context) ([]provisioner.Controller, error) { return nil, nil }

// StartController refuses.
func (slots) StartController(context.Context, provisioner.ControllerRequest) (provisioner.Controller, error) {
	return provisioner.Controller{}, errNoController
}

// EndController refuses.
func (slots) EndController(context.Context, provisioner.Controller) error { return errNoController }

// profiled returns how to report a job's serving load to its shared hosts; nil = it has machines of its own.
func profiled(cloud providers.Account) func(context.Context, tiers.Served) (tiers.Preference, error) {
	if w, wrapped := cloud.(withoutBids); wrapped { // slots take none
		cloud = w.Account
	}
	if s, shared := cloud.(slots); shared {
		return s.Profile
	}
	return nil
}

// billed reports whether the run's machines come with their bills.
func (r *session) billed() bool {
	_, shared := hostsDirectory(r.cfg.Endpoint)
	return shared
}

// driveHosts serves slots until the run is stopped.
func (r *session) driveHosts(ctx context.Context, cloud providers.Account, endpoint string, history map[market.Pool]*market.History, from time.Time,
	pools []market.Pool, gone []provisioner.Instance, stop <-chan string) (outcome string, err error) {
	brain, err := r.hostsBrain(history)
	if err != nil {
		return "", err
	}
	table, err := desk.Open(desk.Config{Brain: brain, Directory: r.cfg.Directory, Cloud: r.cfg.Job.Cloud, Clock: r.cfg.Clock, Secret: r.state.Secret, Log: r.cfg.Log})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, table.Close()) }()
	listener, address, err := r.listen(ctx)
	if err != nil {
		return "", fmt.Errorf("listening for jobs and hosts: %w", err)
	}
	r.state.Controller, r.state.Endpoint, r.state.Cloud = address, r.cfg.Endpoint, endpoint
	if err := r.state.write(r.cfg.Directory); err != nil { // before any host knows the address
		return "", errors.Join(err, listener.Close())
	}
	if r.door, err = r.openDoor(ctx, listener); err != nil {
		return "", errors.Join(err, listener.Close())
	}
	defer r.door.close()
	pace := r.pace()
	r.runner = runner.New(runner.Config{
		Controller: table, Clock: r.cfg.Clock, Cloud: cloud, Prices: cloud, Pools: pools, PricesFrom: from, Nodes: noStreams{}, Journal: r.cfg.Journal,
		Log: r.cfg.Log, Complete: r.completeHost,
		Gone: gone, Renew: r.renew(cloud), RenewEvery: r.lease() / 3, PollPrices: pace.Prices, PollCloud: r.pollInstances(), Calls: pace.Calls,
		EndCommand: r.endCommand(),
	})
	table.Nudge(r.runner.Nudge)
	if r.door.own != nil { // hosts call by TLS, from anywhere, and jobs on this computer
		defer r.serve(access.Server(table.HostsHandler(), r.cfg.Log), r.door.listener)()
		if listener, address, err = listenAs("127.0.0.1:0"); err != nil {
			return "", fmt.Errorf("listening for jobs: %w", err)
		}
	}
	jobs := access.Server(table.Handler(), r.cfg.Log)
	jobs.ConnContext = marked(jobs.ConnContext)
	defer r.serve(jobs, sameuser.ListenerFor(listener, r.cfg.Job.Hosts.Admits, r.cfg.Log))()
	if err := table.Announce(address, r.cfg.Job.Hosts.Door); err != nil {
		return "", err
	}
	calls, err := scaling.Serve(r.cfg.Directory, r.runner, r.cfg.Log)
	if err != nil {
		return "", err
	}
	defer calls.Close()
	return r.runUntilStopped(ctx, stop)
}

// serve serves until its result is called.
func (r *session) serve(server *http.Server, on net.Listener) (end func()) {
	var served sync.WaitGroup
	served.Go(func() {
		if err := server.Serve(on); !errors.Is(err, http.ErrServerClosed) {
			r.cfg.Log.Error("jobs or hosts cannot be heard any more", "err", err)
		}
	})
	return func() {
		_ = server.Close()
		served.Wait()
	}
}

// marked marks connections of other users of this computer for the desk.
func marked(next func(context.Context, net.Conn) context.Context) func(context.Context, net.Conn) context.Context {
	return func(ctx context.Context, conn net.Conn) context.Context {
		ctx = next(ctx, conn)
		if !sameuser.Supported {
			return ctx
		}
		uid, err := sameuser.User(conn)
		switch {
		case err != nil:
			return desk.WithUser(ctx, noUser)
		case uid != 0 && uid != os.Geteuid():
			return desk.WithUser(ctx, uid)
		}
		return ctx
	}
}

// noUser has no slots: the connection was closed before the kernel identified its user.
const noUser = -1

// hostsBrain returns the brain of shared hosts.
func (r *session) hostsBrain(history map[market.Pool]*market.History) (*hosts.Brain, error) {
	job, choice := r.cfg.Job, r.cfg.Choice
	policy, err := bidding.ByName(job.Policy)
	if err != nil {
		return nil, err
	}
	rules, err := job.Rules()
	if err != nil {
		return nil, err
	}
	settings := job.Tempo()
	c := hosts.Config{
		Settings: settings, Run: fmt.Sprintf("%s-%d", r.unique(), r.cfg.Part), Policy: policy, Most: choice.Want,
		Reliable: fleet.Reliable{Pool: choice.Reliable.Pool, Type: choice.Reliable.Type, Count: choice.Reliable.Count},
		Types:    r.cfg.Hosts.Types, Rules: rules, WholeHours: rules.Terms().Increment > 0, MaxDuration: job.MaxDuration, Budget: job.SpendingCeiling(),
		Patience: job.Hosts.Wait, KeepEmpty: job.Hosts.Keep, Loss: job.Hosts.LossLimit,
		Past: r.cfg.Past, Lines: r.cfg.Hosts.Lines, Bills: r.cfg.Hosts.Bills,
	}
	c.Reliable.Type.Bandwidth = r.network(choice.Reliable.Type)
	if r.outlived() {
		c.AskAgain = settings.Market(askAgain)
	}
	for _, p := range r.pools(history) {
		if p.Pool.Class == market.Spot {
			c.Pools = append(c.Pools, p)
		}
	}
	return hosts.New(c)
}

// completeHost adds the agents' user data to a launch of hosts.
func (r *session) completeHost(of provisioner.Request) provisioner.Request {
	u := hostagent.UserData{Desk: r.state.Controller, Launch: of.Token, Orphan: int(r.cfg.Job.OrphanAfter / time.Second)}
	if u.Token, u.Authority = r.door.token(r.cfg.Clock, of); u.Authority == "" {
		u.Token, u.Key = "", desk.HostKey(r.state.Secret, of.Token)
	}
	of.UserData = r.booting(u.Encode())
	of.Generation, of.Expires = generationOf(of.Token), r.leaseFrom(of.Intended)
	return of
}

// noStreams stands in for streams to machines: hosts' agents call the desk.
type noStreams struct{}

func (noStreams) Send(ps.ServerID, tiers.Command) error { return errors.New("hosts take no commands") }

func (noStreams) Receive(ctx context.Context, _ func(ps.ServerID, tiers.Report, error)) error {
	<-ctx.Done()
	return nil
}
