package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/runner"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/raced"
	"github.com/tierml/tierml/internal/trust"
	"github.com/tierml/tierml/market"
	ec2 "github.com/tierml/tierml/providers/ec2/api"
	gce "github.com/tierml/tierml/providers/gce/api"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node"
)

// The controller is killed at every step of its launches once more (elasticity's TestCrashAtEveryStepOfALaunch does it in simulated time),
// but with real components: the runner and its goroutines, the adapters of both providers over HTTP, a fake cloud that compares requests as
// the providers do, one-time tokens in the user data. Only the nodes are puppets.
//
// A run is rehearsed and its points are counted: before and after each line of the journal, and for each call that changes something:
// before it is sent, when its answer is lost, and when the answer has arrived unread. Then the run is made for each point. A controller
// that dies there does nothing more: it writes no line and sends no call.

// provider is what differs between the clouds.
type provider struct {
	name    string
	pool    market.Pool
	bid     market.USD
	or      []bidding.Choice // the provider chooses, too
	rules   string
	changes func(*http.Request, []byte) bool // whether a call changes something
	open    func(ctx context.Context, endpoint string) (cloud, error)
}

type cloud interface {
	provisioner.Cloud
	runner.PriceSource
	Close()
}

const speed = 600 // market seconds per second

var mapping = clock.Mapping{Market: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Wall: time.Now(), Speed: speed}

// ec2Changes are the calls of the adapter that change something.
var ec2Changes = []string{"RunInstances", "TerminateInstances", "CreateTags", "CreateLaunchTemplate", "CreateFleet", "DeleteLaunchTemplate"}

func openEC2(ctx context.Context, endpoint string) (cloud, error) {
	return ec2.New(ctx, ec2.Config{Region: "us-west-1", Cluster: "crash", Job: "run-1", Endpoint: endpoint, ImageID: "ami-1",
		PollInterval: 20 * time.Millisecond, Clock: mapping, MaxAttempts: 1})
}

// fleets is EC2 where each purchase of spot machines is a fleet over two pools, of which the first has room for one machine.
func fleets() provider {
	p := providers()[0]
	p.name = "fleets"
	other := p.pool
	other.Zone = "us-west-1b"
	p.or = []bidding.Choice{{Pool: other, Bid: market.Dollar / 11}}
	return p
}

func providers() []provider {
	return []provider{{
		name: "ec2", pool: market.Pool{Provider: "ec2", Region: "us-west-1", Zone: "us-west-1a", Type: "c5.large", Class: market.Spot},
		bid: market.Dollar / 10, rules: "ec2-now",
		changes: func(_ *http.Request, body []byte) bool {
			return slices.ContainsFunc(ec2Changes, func(action string) bool { return bytes.Contains(body, []byte("Action="+action+"&")) })
		},
		open: openEC2,
	}, {
		name: "gce", pool: market.Pool{Provider: "gce", Region: "us-central1", Zone: "us-central1-a", Type: "n1-standard-2", Class: market.Spot},
		rules: "gce-spot",
		changes: func(r *http.Request, _ []byte) bool {
			return r.Method == http.MethodPost || r.Method == http.MethodDelete
		},
		open: func(ctx context.Context, endpoint string) (cloud, error) {
			return gce.New(ctx, gce.Config{Project: "my-project", Region: "us-central1", Cluster: "crash", Job: "run-1", Endpoint: endpoint,
				Image: "projects/debian-cloud/global/images/family/debian-12", PollInterval: 20 * time.Millisecond, Clock: mapping, MaxAttempts: 1})
		},
	}}
}

// stage is a cloud with a run that is controlled by several controllers in succession.
type stage struct {
	t        *testing.T
	p        provider
	fake     *fakecloud.Cloud
	began    time.Time
	observer cloud
	folder   string // of the run
	close    func()

	mu      sync.Mutex
	entries []journal.Entry
	points  int // passed so far
	at      int // the controller dies here; 0 = never
	puppets map[ps.ServerID]*puppet

	// For tests other than those of crashes; nil = nothing.
	meddle func(w http.ResponseWriter, changes bool, forward func()) // intercepts each call
	said   func(ctx context.Context, e journal.Entry, drive *runner.Runner)
	bought int // machines in all, once the run has ended
}

// errDead is the error that a dead controller gets, and that kills it.
var errDead = errors.New("the controller is dead")

// life is one controller.
type life struct {
	*stage
	number int
	ctx    context.Context
	die    context.CancelCauseFunc
}

// pass counts a point, and reports whether the controller dies there, or is dead.
func (l *life) pass() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return true
	}
	if l.points++; l.points == l.at {
		l.die(errDead)
		return true
	}
	return false
}

func (l *life) Write(e journal.Entry) error {
	pass := l.pass
	if e.Kind == journal.Price { // there are many, and a crash after one is no different from a crash before the next
		pass = func() bool { return l.ctx.Err() != nil }
	}
	if pass() {
		return errDead
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	var read journal.Entry
	if err := json.Unmarshal(line, &read); err != nil {
		return err
	}
	l.mu.Lock()
	l.entries = append(l.entries, read)
	l.mu.Unlock()
	if pass() {
		return errDead
	}
	return nil
}

// ServeHTTP forwards calls to the cloud, and loses some calls and answers.
func (l *life) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	changes := l.p.changes(r, body)
	if l.meddle != nil && err == nil {
		l.meddle(w, changes, func() { l.carry(w, r, body, changes, nil) })
		return
	}
	l.carry(w, r, body, changes, err)
}

func (l *life) carry(w http.ResponseWriter, r *http.Request, body []byte, changes bool, err error) {
	if err != nil || l.ctx.Err() != nil || changes && l.pass() {
		panic(http.ErrAbortHandler)
	}
	q, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, l.fake.Endpoint()+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	q.Header = r.Header.Clone()
	answer, err := http.DefaultTransport.RoundTrip(q)
	if err != nil || changes && l.pass() { // the answer is lost
		panic(http.ErrAbortHandler)
	}
	defer answer.Body.Close()
	if changes {
		l.pass() // it has arrived unread
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
}

// two wants two machines of its pool.
type two struct {
	pool market.Pool
	bid  market.USD
	or   []bidding.Choice
}

func (two) Name() string { return "two" }

func (p two) Plan(s bidding.State) bidding.Plan {
	held := 0
	for _, a := range s.Held {
		held += a.Count
	}
	if held >= 2 {
		return bidding.Plan{}
	}
	return bidding.Plan{Acquire: []bidding.Acquire{{Pool: p.pool, Bid: p.bid, Or: p.or, Count: 2 - held, Why: "two are wanted"}}}
}

// newStage opens a cloud in which machines are listed some time after their launch.
func newStage(t *testing.T, p provider, visible time.Duration) *stage {
	rules, err := market.Rules(p.rules)
	if err != nil {
		t.Fatal(err)
	}
	began := mapping.Now().Truncate(time.Second)
	price := func(p market.USD) *market.History { // it always changes, so that a price missing from the journal shows in the bill
		points := []market.PricePoint{{At: began.Add(-time.Hour), Price: p}}
		for i := range 2000 {
			points = append(points, market.PricePoint{At: began.Add(time.Duration(20*i) * time.Second), Price: p - market.USD(i%97)*market.Dollar/10000})
		}
		return market.NewHistory(points)
	}
	prices, capacity := map[market.Pool]*market.History{p.pool: price(market.Dollar / 20)}, map[market.Pool]int{}
	for _, c := range p.or {
		prices[c.Pool], capacity[p.pool] = price(market.Dollar/19), 1
	}
	fake, err := fakecloud.New(fakecloud.Config{
		Clock: mapping, Provider: p.pool.Provider, Region: p.pool.Region, Rules: rules, Notice: time.Hour, Boot: time.Hour, Visible: visible,
		Types:  []fakecloud.InstanceType{{InstanceType: market.InstanceType{Name: p.pool.Type, VCPU: 2, MemoryMiB: 4096, OnDemand: market.Dollar / 10}}},
		Prices: prices, Capacity: capacity,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- fake.Run(ctx) }()
	s := &stage{t: t, p: p, fake: fake, began: began, folder: t.TempDir(), puppets: map[ps.ServerID]*puppet{}}
	if s.observer, err = p.open(t.Context(), fake.Endpoint()); err != nil {
		t.Fatal(err)
	}
	s.close = func() {
		s.observer.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	return s
}

// live runs one controller until it is dead or the run has ended.
func (s *stage) live(number int) (outcome string) {
	ctx, die := context.WithCancelCause(s.t.Context())
	defer die(nil)
	l := &life{stage: s, number: number, ctx: ctx, die: die}
	server := httptest.NewUnstartedServer(l)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	defer server.Close()
	cloud, err := s.p.open(ctx, server.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	defer cloud.Close()
	tokens, err := trust.OpenTokens(s.folder, "the run's secret", time.Now)
	if err != nil {
		s.t.Fatal(err)
	}
	defer tokens.Close()
	var past *elasticity.Past
	if number > 0 {
		if past, err = elasticity.ReadPast(s.entries); err != nil {
			s.t.Fatal(err)
		}
	}
	if past != nil {
		for _, m := range past.Machines {
			cloud.Recall(m.Instance)
		}
	}
	pools := []market.Pool{s.p.pool}
	for _, c := range s.p.or {
		pools = append(pools, c.Pool)
	}
	if len(s.p.or) > 0 { // as every run does
		remove := func() {
			for provisioner.Retryable(cloud.RemoveLeftovers(ctx)) && ctx.Err() == nil {
			}
		}
		remove()
		defer remove()
	}
	machines := &nodes{life: l, reports: make(chan told)}
	from := mapping.Now()
	history, err := cloud.SpotPrices(ctx, pools, s.began.Add(-time.Hour), from)
	for provisioner.Retryable(err) && ctx.Err() == nil {
		history, err = cloud.SpotPrices(ctx, pools, s.began.Add(-time.Hour), from)
	}
	if err != nil && ctx.Err() == nil {
		s.t.Fatal(err)
	}
	var drive *runner.Runner
	drive = runner.New(runner.Config{
		Controller: s.controller(number, past, history), Clock: mapping, Cloud: cloud, Prices: cloud, Pools: pools,
		PricesFrom: from, Nodes: machines, Log: slog.New(slog.DiscardHandler),
		Journal: watched{l, func(e journal.Entry) {
			if s.said != nil {
				s.said(ctx, e, drive)
				return
			}
			s.stopWhenBoth(ctx, e, &drive)
		}},
		Complete: func(q provisioner.Request) provisioner.Request {
			q.UserData = node.UserData{Controller: "127.0.0.1:7077", Job: "crash", Listen: "127.0.0.1:0",
				Token: tokens.Issue(q.Token, mapping.WallAt(q.Intended), q.Count)}.Encode()
			return q
		},
		Renew: renewer(cloud, number), RenewEvery: 30 * time.Millisecond,
		PollPrices: 50 * time.Millisecond, PollCloud: 20 * time.Millisecond, Calls: time.Minute,
	})
	outcome, err = drive.Run(ctx)
	if err != nil && !errors.Is(err, errDead) {
		s.t.Fatal(err)
	}
	if ctx.Err() != nil { // it died before it could report it
		return ""
	}
	return outcome
}

// renewer renews leases in clouds that have leases.
func renewer(c cloud, number int) func(context.Context, ...provisioner.InstanceID) error {
	if !c.Traits().Leases {
		return nil
	}
	return func(ctx context.Context, ids ...provisioner.InstanceID) error {
		return c.Renew(ctx, fmt.Sprint(number), time.Now().Add(time.Hour), ids...)
	}
}

// watched reports each line that is written.
type watched struct {
	*life
	f func(journal.Entry)
}

func (w watched) Write(e journal.Entry) error {
	err := w.life.Write(e)
	if err == nil {
		w.f(e)
	}
	return err
}

// stopWhenBoth ends the run when both machines have joined.
func (s *stage) stopWhenBoth(ctx context.Context, e journal.Entry, drive **runner.Runner) {
	if e.Kind != journal.Join && e.Kind != journal.TakeOver {
		return
	}
	if s.joined() >= 2 {
		go (*drive).Stop(ctx, "both have joined", true)
	}
}

// joined returns how many transient machines have joined.
func (s *stage) joined() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		switch {
		case e.Tier != string(tiers.Transient):
		case e.Kind == journal.Join:
			n++
		case e.Kind == journal.Leave:
			n--
		}
	}
	return n
}

func (s *stage) controller(number int, past *elasticity.Past, history map[market.Pool][]market.PricePoint) *elasticity.Controller {
	rules, _ := market.Rules(s.p.rules)
	reliable := s.p.pool
	reliable.Class = market.OnDemand
	kind := market.InstanceType{Name: s.p.pool.Type, VCPU: 2, MemoryMiB: 4096, OnDemand: market.Dollar / 10}
	wall := mapping.ToMarket
	pools := []elasticity.Pool{{Pool: s.p.pool, Type: kind, History: market.NewHistory(history[s.p.pool])}}
	for _, c := range s.p.or {
		pools = append(pools, elasticity.Pool{Pool: c.Pool, Type: kind, History: market.NewHistory(history[c.Pool])})
	}
	return elasticity.New(elasticity.Config{
		Run: fmt.Sprintf("crash-1-0a-%d", number), Policy: two{s.p.pool, s.p.bid, s.p.or}, Chooses: len(s.p.or) > 0, Stages: tiers.DefaultThresholds(),
		Job: elasticity.Job{Schema: ps.Schema{Tables: []ps.Table{{Name: "w", Rows: 4, Cols: 1}}, Partitions: 1, Splits: 1, Deterministic: true},
			App: "none", Clocks: 1 << 30, Heartbeat: time.Second, OrphanAfter: time.Minute},
		Reliable: elasticity.Reliable{Pool: reliable, Type: kind, Count: 1}, Want: bidding.Want{Machines: 2},
		Pools: pools,
		Past:  past, FirstID: uint64(number) << 32, AskAgain: wall(time.Minute), Rules: rules,
		Settings: tempo.Settings{
			Speed: speed, CutEvery: time.Hour, DeadAfter: wall(20 * time.Second), BrokenAfter: wall(10 * time.Second), JoinWait: wall(50 * time.Millisecond),
			BootWithin: wall(10 * time.Minute), RetryCapacity: wall(50 * time.Millisecond), PlanEvery: wall(20 * time.Millisecond),
		},
	})
}

// run runs controllers in succession until the run has ended; the first dies at a point.
func (s *stage) run(at int) {
	defer s.close()
	s.at = at
	for number := 0; ; number++ {
		if outcome := s.live(number); outcome != "" {
			break
		}
		if number > 2 {
			s.t.Fatalf("point %d: the run does not end", at)
		}
	}
	s.check(at)
}

// check: never a second machine for one intent, never a forgotten one, and all are on the bill.
func (s *stage) check(at int) {
	machines := s.machines()
	s.bought = len(machines)
	intents, bought, known := map[string]int{}, map[string]int{}, map[string]journal.Entry{}
	for _, e := range s.entries {
		switch e.Kind {
		case journal.Intent:
			intents[e.Token] = e.Count
		case journal.Launch:
			known[e.Instance] = e
		}
	}
	for _, m := range machines {
		bought[m.Token]++
		if m.State != provisioner.Terminated && m.State != provisioner.Stopping {
			s.t.Errorf("point %d: %s of %s is forgotten: %s", at, m.ID, m.Token, m.State)
		}
		if e, ok := known[string(m.ID)]; !ok {
			s.t.Errorf("point %d: %s of %s is not in the journal", at, m.ID, m.Token)
		} else if bid := m.Bid.String(); e.Pool != m.Pool.String() || e.Bid != "" && e.Bid != bid {
			s.t.Errorf("point %d: %s of %s at %s is written down as one of %s at %s", at, m.ID, m.Pool, bid, e.Pool, e.Bid)
		}
	}
	if tidy, ok := s.observer.(*ec2.Cloud); ok { // no launch template is left either
		left, err := tidy.Holdings(s.t.Context())
		for provisioner.Retryable(err) {
			left, err = tidy.Holdings(s.t.Context())
		}
		if err != nil || slices.ContainsFunc(left, func(h provisioner.Holding) bool { return h.State != provisioner.Stopping }) {
			s.t.Errorf("point %d: left behind: %+v, %v", at, left, err)
		}
	}
	s.checkBills(at)
	for token, n := range bought {
		if n > intents[token] {
			s.t.Errorf("point %d: %d machines for %d that were intended by %s", at, n, intents[token], token)
		}
	}
	if s.t.Failed() {
		for _, e := range s.entries {
			s.t.Logf("%s %s %s %d %s", e.Kind, e.Token, e.Instance, e.Count, e.Why)
		}
		s.t.FailNow()
	}
}

// machines queries the cloud.
func (s *stage) machines() []provisioner.Instance {
	for {
		machines, err := s.observer.List(s.t.Context())
		switch {
		case err == nil:
			return machines
		case !provisioner.Retryable(err):
			s.t.Fatal(err)
		}
	}
}

// With TIERML_SEEDS every point is tried with every provider and delay, which takes a minute or two; otherwise every point of purchases
// from one pool on EC2 where machines are listed late, every third of fleets, and some of the others.
func TestCrashOverHTTP(t *testing.T) {
	for _, p := range append(providers(), fleets()) {
		for _, visible := range []time.Duration{0, 30 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s listed after %v", p.name, visible), func(t *testing.T) {
				t.Parallel()
				rehearsal := newStage(t, p, visible)
				rehearsal.run(0)
				points := rehearsal.points
				if points < 30 {
					t.Fatalf("the run has only %d points", points)
				}
				t.Logf("%d points", points)
				step := 1
				switch {
				case os.Getenv("TIERML_SEEDS") != "":
				case raced.Detector: // a crash at another point runs the same goroutines
					step = 27
				case p.name == "gce" || visible == 0:
					step = 9
				case p.name == "fleets":
					step = 3
				}
				for at := 1; at <= points; at += step {
					newStage(t, p, visible).run(at)
				}
			})
		}
	}
}
