package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/test/bufconn"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node/link"
)

// world is a job on simulated machines: real nodes, the real control plane over pipes, a data plane in memory, and fake time.
type world struct {
	t        *testing.T
	schema   ps.Schema
	work     float64 // of each split and clock
	parties  *dataPlane
	listener net.Listener
	pipes    *bufconn.Listener // the same listener, in a bubble
	real     bool              // TCP and the real data plane
	trains   *trained          // instead of the toy; nil = the toy
	app      apps.App          // the toy
	secured  *secured          // with TLS; nil = plaintext
	link     *link.Link
	stop     context.CancelFunc
	done     sync.WaitGroup

	mu      sync.Mutex
	heard   []link.FromNode
	changed chan struct{}
	lastID  uint64
}

const (
	testToken     = "a secret"
	testHeartbeat = time.Second
	testOrphan    = 20 * time.Second
	// Six splits take a second of the bubble's time each clock: what a test does between two clocks is in time.
	testFlops = 6 * testWork
	testWork  = 1000
)

// simulate runs a test in a bubble with its own time. Everything that the test started has ended when it returns: a leaked goroutine makes
// synctest panic.
func simulate(t *testing.T, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		schema := ps.Schema{Partitions: 5, Splits: 6, Seed: 11, Deterministic: true, Tables: (&toy{}).Tables()}
		w := &world{t: t, schema: schema, work: testWork, parties: newDataPlane(&schema), changed: make(chan struct{})}
		w.openLink()
		f(t, w)
		w.closeLink()
	})
}

// real runs a test on TCP with the real data plane and the host's clock, in plaintext or with TLS.
func real(t *testing.T, s *secured, f func(t *testing.T, w *world)) {
	schema := ps.Schema{Partitions: 5, Splits: 6, Seed: 11, Deterministic: true, Tables: (&toy{}).Tables()}
	w := &world{t: t, schema: schema, work: testWork, changed: make(chan struct{}), real: true, secured: s}
	w.openLink()
	f(t, w)
	w.closeLink()
	goleak.VerifyNone(t)
}

func (w *world) openLink() {
	if w.real {
		var err error
		if w.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			w.t.Fatal(err)
		}
	} else {
		w.mu.Lock()
		w.pipes = bufconn.Listen(1 << 20)
		w.listener = w.pipes
		w.mu.Unlock()
	}
	ctx, stop := context.WithCancel(w.t.Context())
	config := link.Config{Listener: w.listener, Log: quiet(), Accept: func(h tiers.Hello) error {
		if h.Token != testToken {
			return errors.New("wrong token")
		}
		return nil
	}}
	if w.secured != nil {
		config = w.secured.link(w.listener)
	}
	l, err := link.Listen(ctx, config)
	if err != nil {
		w.t.Fatal(err)
	}
	w.link, w.stop = l, stop
	w.done.Go(func() {
		for r := range l.Reports() {
			w.mu.Lock()
			w.heard = append(w.heard, r)
			close(w.changed)
			w.changed = make(chan struct{})
			w.mu.Unlock()
		}
	})
}

func (w *world) closeLink() {
	w.stop()
	if err := w.link.Close(); err != nil {
		w.t.Error(err)
	}
	w.done.Wait()
}

// said returns everything heard so far.
func (w *world) said() []link.FromNode {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.heard)
}

// await returns the first message from an index on that suits.
func (w *world) await(from int, suits func(link.FromNode) bool) link.FromNode {
	w.t.Helper()
	patience := 10 * time.Minute // of the bubble's time
	if w.real {
		patience = 30 * time.Second
	}
	deadline := time.After(patience)
	for {
		w.mu.Lock()
		i := slices.IndexFunc(w.heard[from:], suits)
		changed := w.changed
		if i >= 0 {
			defer w.mu.Unlock()
			return w.heard[from+i]
		}
		w.mu.Unlock()
		select {
		case <-changed:
		case <-deadline:
			w.t.Fatal("waited in vain")
		}
	}
}

func (w *world) awaitReport(id ps.ServerID, suits func(tiers.Report) bool) tiers.Report {
	w.t.Helper()
	return w.await(0, func(r link.FromNode) bool { return r.ID == id && r.Report != nil && suits(r.Report) }).Report
}

// awaitClock waits until every split has reported a clock.
func (w *world) awaitClock(c ps.Clock) {
	w.t.Helper()
	w.await(0, func(link.FromNode) bool {
		seen := map[ps.Split]bool{}
		for _, r := range w.heard {
			if p, ok := r.Report.(tiers.Progress); ok && p.Clock == c {
				for _, s := range p.Splits {
					seen[s.Split] = true
				}
			}
		}
		return len(seen) == w.schema.Splits
	})
}

// order sends a command and returns its number.
func (w *world) order(id ps.ServerID, do tiers.Do) uint64 {
	w.t.Helper()
	w.lastID++
	if err := w.link.Send(id, tiers.Command{ID: w.lastID, Do: do}); err != nil {
		w.t.Fatal(err)
	}
	return w.lastID
}

func (w *world) answer(id ps.ServerID, number uint64) tiers.Answer {
	w.t.Helper()
	return w.awaitReport(id, func(r tiers.Report) bool {
		a, ok := r.(tiers.Answer)
		return ok && a.ID == number
	}).(tiers.Answer)
}

// do sends a command and expects success.
func (w *world) do(id ps.ServerID, do tiers.Do) tiers.Result {
	w.t.Helper()
	a := w.answer(id, w.order(id, do))
	if a.Code != tiers.CodeOK {
		w.t.Fatalf("%T at %s: %s %s", do, id, a.Code, a.Error)
	}
	return a.Result
}

func (w *world) welcome(incarnation ps.Incarnation, until ps.Clock) tiers.Welcome {
	welcome := tiers.Welcome{Schema: w.schema, Incarnation: incarnation, App: "toy", SplitsURL: "/splits", EvalEvery: 4,
		Until: until, Heartbeat: testHeartbeat, OrphanAfter: testOrphan}
	if w.trains != nil {
		welcome.App = w.trains.kind.Name()
	}
	return welcome
}

// join starts a machine and welcomes it.
func (w *world) join(id ps.ServerID, incarnation ps.Incarnation, until ps.Clock) *machine {
	w.t.Helper()
	m := w.start(id)
	w.awaitReport(id, func(r tiers.Report) bool { _, ok := r.(tiers.Hello); return ok })
	w.do(id, w.welcome(incarnation, until))
	return m
}

// machine is a simulated machine with a node on it.
type machine struct {
	bytesRead atomic.Int64 // of splits
	opening   func(ps.Split)
	w         *world
	id        ps.ServerID
	user      UserData
	flops     float64
	change    func(*Config)
	server    *fakeServer
	broken    bool // its network to the controller is down
	warn      chan tiers.Warned
	cancel    context.CancelFunc
	ended     chan struct{}
	outcome   error

	mu    sync.Mutex
	conns []net.Conn
}

func (w *world) start(id ps.ServerID, options ...func(*machine)) *machine {
	ctx, cancel := context.WithCancel(w.t.Context())
	m := &machine{w: w, id: id, flops: testFlops, warn: make(chan tiers.Warned), cancel: cancel, ended: make(chan struct{}),
		user: UserData{Controller: w.listener.Addr().String(), Token: testToken, Job: "toy", Listen: "127.0.0.1:0", VCPU: 2}}
	if s := w.secured; s != nil {
		m.user.Token, m.user.Authority = s.tokens.Issue(string(id), time.Now(), 1), s.authority.Hash()
	}
	for _, option := range options {
		option(m)
	}
	go func() {
		defer close(m.ended)
		m.outcome = Run(ctx, m.config())
	}()
	return m
}

func (m *machine) config() Config {
	c := m.simulated()
	if m.change != nil {
		m.change(&c)
	}
	if m.w.real {
		c.NewServer, c.NewClient, c.Dial = NewDataServer, NewDataClient, nil
	}
	if trains := m.w.trains; trains != nil {
		c.NewApp = func(string, map[string]string, []byte) (apps.App, error) {
			return trains.kind.New(trains.params, trains.dataset)
		}
		c.OpenSplit = func(_ string, id ps.Split) (io.ReadCloser, error) { return trains.open(id) }
	}
	return c
}

func (m *machine) simulated() Config {
	return Config{
		Machine: m,
		NewServer: func(c ServerConfig) (Server, error) {
			m.server = &fakeServer{config: c, plane: m.w.parties}
			return m.server, nil
		},
		NewClient: func(c ClientConfig) (Client, error) { return fakeClient{m.w.parties, c.Incarnation}, nil },
		NewApp: func(name string, _ map[string]string, _ []byte) (apps.App, error) {
			if name != "toy" {
				return nil, fmt.Errorf("no application %q", name)
			}
			if m.w.app != nil {
				return m.w.app, nil
			}
			return &toy{work: m.w.work}, nil
		},
		OpenSplit: func(url string, id ps.Split) (io.ReadCloser, error) {
			if m.opening != nil {
				m.opening(id)
			}
			file, err := openToy(id)
			return &countedFile{file, &m.bytesRead}, err
		},
		Flops: m.flops,
		Dial:  m.dial,
		Log:   m.w.secured.nodeLog(),
	}
}

// countedFile counts the bytes read from splits.
type countedFile struct {
	io.ReadCloser
	read *atomic.Int64
}

func (f *countedFile) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	f.read.Add(int64(n))
	return n, err
}

func (m *machine) dial(ctx context.Context, _ string) (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken {
		return nil, errors.New("no route to host")
	}
	m.w.mu.Lock()
	pipes := m.w.pipes
	m.w.mu.Unlock()
	conn, err := pipes.DialContext(ctx)
	if err == nil {
		m.conns = append(m.conns, conn)
	}
	return conn, err
}

// cut breaks the network to the controller, or repairs it.
func (m *machine) cut(broken bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = broken
	for _, c := range m.conns {
		_ = c.Close()
	}
	m.conns = nil
}

func (m *machine) end() error {
	m.cancel()
	<-m.ended
	return m.outcome
}

func (m *machine) Identity(context.Context) (Identity, error) {
	return Identity{Instance: m.id, Type: "toy.large"}, nil
}

func (m *machine) UserData(context.Context) (string, error) { return m.user.Encode(), nil }

func (m *machine) Watch(ctx context.Context, f func(tiers.Warned)) error {
	for {
		select {
		case w := <-m.warn:
			f(w)
		case <-ctx.Done():
			return nil
		}
	}
}

// toy is an application of integers, so that every difference between two runs shows. What a split adds depends on what all splits did the
// clock before.
type toy struct{ work float64 }

const (
	toyRows    = 40
	toyFailing = 99 // a split that cannot be computed
)

func (*toy) Name() string { return "toy" }
func (*toy) Tables() []ps.Table {
	return []ps.Table{{Name: "counts", Rows: toyRows, Cols: 2}, {Name: "far", Rows: 3, Cols: 1}}
}

func (a *toy) LoadSplit(id ps.Split, r io.Reader, _ uint64) (apps.Split, error) {
	var written ps.Split
	if _, err := fmt.Fscan(r, &written); err != nil || written != id {
		return nil, fmt.Errorf("the file of split %d holds %d: %w", id, written, err)
	}
	return &toySplit{id: id, work: a.work}, nil
}

func openToy(id ps.Split) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(fmt.Sprint(id))), nil
}

type toySplit struct {
	id   ps.Split
	work float64
}

func (s *toySplit) Needs(c ps.Clock, keys []ps.Key) []ps.Key {
	return append(keys, ps.Key{Row: 0}, ps.Key{Row: s.own(c)}, ps.Key{Table: 1, Row: ps.RowID(c % 3)})
}

func (s *toySplit) own(c ps.Clock) ps.RowID {
	return 1 + ps.RowID(ps.Hash(uint64(s.id), uint64(c))%(toyRows-1))
}

// EvalNeeds repeats a row that Needs named.
func (*toySplit) EvalNeeds(keys []ps.Key) []ps.Key {
	return append(keys, ps.Key{Row: 0}, ps.Key{Row: toyRows - 1})
}

func (s *toySplit) Run(c ps.Clock, rows apps.Rows, evaluate bool) (apps.Stats, error) {
	if s.id == toyFailing {
		return apps.Stats{}, errors.New("no such sample")
	}
	shared, own, far := rows.Row(ps.Key{Row: 0}), rows.Row(ps.Key{Row: s.own(c)}), rows.Row(ps.Key{Table: 1, Row: ps.RowID(c % 3)})
	before := int64(shared[0])
	shared[0] += float32((before + int64(s.id) + int64(c)) % 7)
	own[0]++
	own[1] += float32(before % 5)
	if s.id == 0 && before%2 == 0 {
		far[0]++ // otherwise it requests the row and leaves it unchanged
	}
	stats := apps.Stats{Examples: 1, Loss: float64(before), Work: s.work}
	if evaluate {
		_ = rows.Row(ps.Key{Row: toyRows - 1})
		stats.TestCount = 1
	}
	return stats, nil
}

// sameAsUndisturbed checks that the servers hold exactly what one process would have computed.
func (w *world) sameAsUndisturbed(c ps.Clock) {
	w.t.Helper()
	w.compare(c, fakeClient{w.parties, 0}, w.parties.present())
}

func (w *world) compare(c ps.Clock, client Client, g ps.Generation) {
	w.t.Helper()
	trainer, err := local.New(&toy{}, w.schema, openToy)
	if err != nil {
		w.t.Fatal(err)
	}
	for range c {
		if _, err := trainer.Step(false); err != nil {
			w.t.Fatal(err)
		}
	}
	keys := []ps.Key{{Table: 1, Row: 0}, {Table: 1, Row: 1}, {Table: 1, Row: 2}}
	for row := range ps.RowID(toyRows) {
		keys = append(keys, ps.Key{Row: row})
	}
	for _, k := range keys {
		got := make([]float32, w.schema.Cols(k))
		if err := client.Read(w.t.Context(), g, c+1, []ps.Key{k}, got, nil); err != nil {
			w.t.Fatal(err)
		}
		if want := trainer.Row(k); !slices.Equal(got, want) {
			w.t.Errorf("after clock %d, %v holds %v; undisturbed it is %v", c, k, got, want)
		}
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
