package desk

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/runner"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/provisionertest"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is shared hosts of a provider in memory, with everything except processes: driver, desk, HTTP, and hosts' agents that only
// acknowledge.
type site struct {
	t      testing.TB
	memory *provisionertest.Memory
	cloud  provisioner.Cloud
	desk   *Desk
	dir    string
	spot   market.Pool
	stay   market.Pool
}

type quiet struct{}

func (quiet) Send(ps.ServerID, tiers.Command) error { return nil }
func (quiet) Receive(ctx context.Context, _ func(ps.ServerID, tiers.Report, error)) error {
	<-ctx.Done()
	return nil
}

type lines struct {
	mu  sync.Mutex
	all []journal.Entry
}

func (l *lines) Write(e journal.Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
	return nil
}

func (l *lines) SpotPrices(context.Context, []market.Pool, time.Time, time.Time) (map[market.Pool][]market.PricePoint, error) {
	return nil, nil
}

const each = 2000 // MiB and two vCPUs: a slot

// open makes a site whose hosts have room for this many slots.
func open(t testing.TB, slots int) *site {
	s := &site{t: t, memory: provisionertest.NewMemory(time.Now()), dir: t.TempDir()}
	s.cloud = s.memory.Cloud("shared")
	s.spot = market.Pool{Provider: "memory", Region: "r", Zone: "r-a", Type: "host", Class: market.Spot}
	s.stay = s.spot
	s.stay.Class = market.OnDemand
	host := market.InstanceType{Name: "host", VCPU: 2 * slots, MemoryMiB: each * int64(slots), OnDemand: market.Dollar}
	rules, err := market.Rules("ec2-now")
	if err != nil {
		t.Fatal(err)
	}
	brain, err := hosts.New(hosts.Config{
		Settings: tempo.Of(tempo.Place{Speed: 1, Boot: time.Second, Notice: provisionertest.MemoryNotice, DeadAfter: 3 * time.Second}),
		Run:      "shared", Policy: bidding.TierML{NeverSwitch: true}, Reliable: fleet.Reliable{Pool: s.stay, Type: host, Count: 5},
		Most: bidding.Want{Machines: 10}, Pools: []fleet.Pool{{Pool: s.spot, Type: host, History: market.Constant(market.Dollar / 4)}},
		Types: []market.InstanceType{{Name: "slot", VCPU: 2, MemoryMiB: each}}, Rules: rules, Patience: 10 * time.Second, KeepEmpty: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	s.desk, err = Open(Config{Brain: brain, Directory: s.dir, Clock: clock.Real(), Secret: "secret", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	written := &lines{}
	driver := runner.New(runner.Config{Controller: s.desk, Clock: clock.Real(), Cloud: s.cloud, Prices: written, Pools: []market.Pool{s.spot}, Nodes: quiet{},
		Journal: written, Log: log, Complete: func(r provisioner.Request) provisioner.Request { return r },
		PollPrices: 50 * time.Millisecond, PollCloud: 50 * time.Millisecond, Calls: time.Second})
	ctx, cancel := context.WithCancel(context.Background())
	s.desk.Nudge(driver.Nudge)
	server := &http.Server{Handler: s.desk.Handler()}
	if err := s.desk.Announce(listener.Addr().String(), ""); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(listener) })
	running.Go(func() { _, _ = driver.Run(ctx) })
	running.Go(func() { s.agents(ctx, listener.Addr().String(), &running) })
	t.Cleanup(func() {
		cancel()
		_ = server.Close()
		running.Wait()
		if err := s.desk.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// agents call for each host until it is gone, and pretend to end the processes of returned slots.
func (s *site) agents(ctx context.Context, address string, running *sync.WaitGroup) {
	known := map[provisioner.InstanceID]bool{}
	for ctx.Err() == nil {
		list, err := s.cloud.List(ctx)
		if err != nil {
			return
		}
		for _, i := range list {
			if i.State != provisioner.Terminated && !known[i.ID] {
				known[i.ID] = true
				running.Go(func() { s.agent(ctx, address, i) })
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *site) agent(ctx context.Context, address string, i provisioner.Instance) {
	h := NewHost(address, HostKey("secret", i.Token), i.Token, string(i.ID), nil)
	defer h.Close()
	seen, gone := "", map[provisioner.InstanceID]string{}
	for ctx.Err() == nil {
		orders, err := h.Call(ctx, Said{Gone: gone}, seen)
		if errors.Is(err, ErrGone) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		seen, gone = orders.Seen, map[provisioner.InstanceID]string{}
		for _, o := range orders.Slots {
			if o.Leaving {
				gone[o.Slot] = "ended"
			}
		}
	}
}

func (s *site) job(name string) *Cloud {
	c := Connect(s.dir, name, "memory", hosts.Size{}, 20*time.Millisecond, slog.New(slog.DiscardHandler))
	s.t.Cleanup(c.Close)
	return c
}

// hostOf waits until a slot is on a host.
func (s *site) hostOf(id provisioner.InstanceID) (host provisioner.InstanceID) {
	for deadline := time.Now().Add(time.Minute); host == ""; time.Sleep(time.Millisecond) {
		s.desk.look(func() {
			for _, slot := range s.desk.brain.Book.Slots() {
				if slot.ID == id {
					host = provisioner.InstanceID(slot.Host)
				}
			}
		})
		if time.Now().After(deadline) {
			s.t.Fatalf("slot %s has no host", id)
		}
	}
	return host
}

func (s *site) subject() provisionertest.Subject {
	pool, stay := s.spot, s.stay
	pool.Type, stay.Type = "slot", "slot"
	return provisionertest.Subject{Cloud: s.job("blue"), Other: s.job("red"), Spot: pool, OnDemand: stay, Unknown: "slot-999999", Patience: 10 * time.Second}
}

// Slots pass the exam for all clouds, over HTTP: alone on their hosts, where hosts can be evicted, killed and used up, and several per
// host.
func TestExam(t *testing.T) {
	t.Run("Alone", func(t *testing.T) {
		provisionertest.Run(t, func(t testing.TB) provisionertest.Subject {
			s := open(t, 1)
			exam := s.subject()
			exam.SetFree = func(n int) {
				s.desk.look(func() { s.desk.brain.Book.Limit(tiers.Transient, n) })
			}
			exam.Evict = func(id provisioner.InstanceID) { s.memory.Warn(s.hostOf(id)) }
			exam.Expire = func(provisioner.InstanceID) { s.memory.Advance(provisionertest.MemoryNotice) }
			exam.Kill = func(id provisioner.InstanceID) { s.memory.Kill(s.hostOf(id)) }
			return exam
		})
	})
	t.Run("Shared", func(t *testing.T) {
		provisionertest.Run(t, func(t testing.TB) provisionertest.Subject { return open(t, 4).subject() })
	})
}

// The size that a job says travels with its requests.
func TestSizeOfSlots(t *testing.T) {
	s := open(t, 4)
	size := hosts.Size{VCPU: 1, MemoryMiB: each / 2}
	c := Connect(s.dir, "sized", "memory", size, time.Second, slog.New(slog.DiscardHandler))
	t.Cleanup(c.Close)
	pool := s.subject().OnDemand
	if _, err := c.Launch(t.Context(), provisioner.Request{Token: "1", Pool: pool, Count: 1}); err != nil {
		t.Fatal(err)
	}
	s.desk.look(func() {
		if got := s.desk.brain.Book.Slots()[0].Size; got != size {
			t.Errorf("the slot has %s, not %s", got, size)
		}
	})
	prices, err := c.SpotPrices(t.Context(), []market.Pool{pool}, time.Now(), time.Now())
	if points := prices[pool]; err != nil || len(points) != 1 || points[0].Price != market.Dollar/8 {
		t.Errorf("an eighth of a host costs %v: %v", prices, err)
	}
}

// A host's warning reaches the slots of all its jobs, with its deadline, and no others.
func TestWarningReachesAllJobs(t *testing.T) {
	s := open(t, 2)
	pool := s.subject().Spot
	var slots []provisioner.Instance
	for _, job := range []string{"a", "b", "c"} {
		got, err := s.job(job).Launch(t.Context(), provisioner.Request{Token: job, Pool: pool, Count: 1})
		if err != nil {
			t.Fatal(err)
		}
		slots = append(slots, got...)
		s.hostOf(got[0].ID)
	}
	host := s.hostOf(slots[0].ID)
	if s.hostOf(slots[1].ID) != host || s.hostOf(slots[2].ID) == host {
		t.Fatal("a and b should share a host, and c has another")
	}
	s.memory.Warn(host)
	var deadlines []time.Time
	for _, job := range []string{"a", "b"} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err := s.job(job).Notify(ctx, func(n provisioner.Notice) {
			deadlines = append(deadlines, n.Deadline)
			cancel()
		})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(deadlines) != 2 || !deadlines[0].Equal(deadlines[1]) || deadlines[0].IsZero() {
		t.Errorf("warned of %v", deadlines)
	}
	if got, err := s.job("c").look(t.Context()); err != nil || len(got.Deadlines) > 0 {
		t.Errorf("c was warned: %+v, %v", got, err)
	}
}

// Keys open only what they are for.
func TestKeys(t *testing.T) {
	s := open(t, 1)
	door, err := readDoor(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	c := newClient()
	defer c.Close()
	for _, call := range []struct{ path, key string }{
		{"/jobs/a/launch", "wrong"}, {"/jobs/a/launch", HostKey("secret", "x")}, {"/hosts/i-1", door.Key}, {"/hosts/i-1", ""},
	} {
		_, err := c.send(t.Context(), http.MethodPost, "http://"+door.Address+call.path, call.key, report{Launch: "y"}, nil)
		if !errors.Is(err, provisioner.ErrDenied) {
			t.Errorf("%s with key %q: %v", call.path, call.key, err)
		}
	}
}

// A certificate of another machine is refused as a host's; a host's own is accepted, without a key.
func TestCertificates(t *testing.T) {
	s := open(t, 1)
	for name, want := range map[string]int{"i-other": http.StatusConflict, "i-1": http.StatusGone} { // it was never bought
		r := httptest.NewRequest(http.MethodPost, "/hosts/i-1", strings.NewReader(`{}`))
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Subject: pkix.Name{CommonName: name}}}}
		w := httptest.NewRecorder()
		s.desk.HostsHandler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s as i-1: %d %s", name, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	s.desk.HostsHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/jobs/a", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("jobs are answered where hosts call: %d", w.Code)
	}
}

// The book on disk is the one that was answered from, and a truncated line is ignored.
func TestBookIsOnDisk(t *testing.T) {
	s := open(t, 2)
	got, err := s.job("a").Launch(t.Context(), provisioner.Request{Token: "one", Pool: s.subject().Spot, Count: 3})
	if err != nil {
		t.Fatal(err)
	}
	s.desk.look(func() { _, err = fmt.Fprint(s.desk.file, `{"t":"2026-01-01T00:`) })
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		read, err := ReadBook(s.dir)
		if err != nil || len(read) == 0 || read[0].Kind != hosts.Asked || len(read[0].Slots) != len(got) {
			t.Fatalf("answered %d slots, on disk %+v: %v", len(got), read, err)
		}
	}
}

// The serving load is on disk once it was reported, and a bad report is rejected with the reason.
func TestProfilesAreOnDisk(t *testing.T) {
	s := open(t, 2)
	job := s.job("a")
	if _, err := job.Launch(t.Context(), provisioner.Request{Token: "one", Pool: s.subject().Spot, Count: 1}); err != nil {
		t.Fatal(err)
	}
	of := tiers.Profile{Clock: time.Second, Serving: []time.Duration{3 * time.Millisecond, 4 * time.Millisecond}}
	for range 2 {
		if preferred, err := job.Profile(t.Context(), tiers.Served{Profile: of}); err != nil || preferred.Owners != nil {
			t.Fatalf("%+v: %v", preferred, err)
		}
	}
	if _, err := job.Profile(t.Context(), tiers.Served{}); !errors.Is(err, provisioner.ErrInvalid) {
		t.Errorf("an empty profile: %v", err)
	}
	book, err := NewReader(s.dir).Book()
	if err != nil || !book.ProfileOf("a").Equal(of) {
		t.Errorf("on disk is %+v: %v", book, err)
	}
	lines, err := ReadBook(s.dir)
	if n := len(slices.DeleteFunc(lines, func(l hosts.Line) bool { return l.Kind != hosts.Profiled })); n != 1 || err != nil {
		t.Errorf("%d lines of one profile: %v", n, err)
	}
}

// Another user of the computer needs no key, and sees and ends only their own slots; nor can they act as a host.
func TestSlotsOfOthers(t *testing.T) {
	s := open(t, 2)
	pool := s.stay
	pool.Type = "slot"
	text, err := json.Marshal(provisioner.Request{Token: "a", Pool: pool, Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	launch := string(text)
	ask := func(uid int, method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer another key")
		if uid != 0 {
			r = r.WithContext(WithUser(r.Context(), uid))
		}
		w := httptest.NewRecorder()
		s.desk.Handler().ServeHTTP(w, r)
		return w
	}
	if w := ask(20001, "POST", "/jobs/mine/launch", launch); w.Code != http.StatusOK {
		t.Fatalf("asking for a slot of one's own: %d %s", w.Code, w.Body)
	}
	for _, c := range []struct {
		uid                int
		method, path, body string
		want               string
	}{
		{20001, "GET", "/jobs/mine", "", "slot-000001"},
		{20002, "GET", "/jobs/mine", "", "denied"},
		{20002, "POST", "/jobs/mine/launch", launch, "denied"},
		{20002, "POST", "/jobs/mine/terminate", `["slot-000001"]`, "denied"},
		{20002, "GET", "/jobs/theirs", "", `"slots":null`},
		{20002, "POST", "/hosts/i-1", `{}`, "denied"},
		{0, "GET", "/jobs/mine", "", "denied"}, // with another key
	} {
		if w := ask(c.uid, c.method, c.path, c.body); !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("user %d: %s %s: %d %s, want %s", c.uid, c.method, c.path, w.Code, w.Body, c.want)
		}
	}
}
