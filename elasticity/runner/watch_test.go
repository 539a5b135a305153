package runner_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/runner"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers"
)

// moody is a cloud with one machine that refuses everything for a time.
type moody struct {
	provisioner.Basic
	refuses     error
	from, until time.Time
	skew        time.Duration // how far its clock is ahead of the controller's
	ends        bool          // its machine ends on request

	mu         sync.Mutex
	lease      time.Time
	terminated []time.Time
	launches   []string // tokens that got through
	lostFirst  bool     // the first launch is carried out, and its answer lost
	tries      int
	changes    []market.PricePoint
}

func (m *moody) now() error {
	if now := time.Now(); !now.Before(m.from) && now.Before(m.until) {
		return m.refuses
	}
	return nil
}

func (m *moody) Launch(_ context.Context, r provisioner.Request) ([]provisioner.Instance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tries++
	if m.lostFirst && m.tries == 1 {
		m.launches = append(m.launches, r.Token)
		return nil, provisioner.ErrTemporary
	}
	if err := m.now(); err != nil {
		return nil, err
	}
	m.launches = append(m.launches, r.Token)
	return []provisioner.Instance{{ID: "i-2", Token: r.Token, State: provisioner.Running}}, nil
}

func (m *moody) Terminate(context.Context, ...provisioner.InstanceID) error {
	if err := m.now(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.terminated = append(m.terminated, time.Now())
	return nil
}

func (m *moody) List(context.Context) ([]provisioner.Instance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ends && len(m.terminated) > 0 {
		return []provisioner.Instance{{ID: "i-1", State: provisioner.Terminated, Ended: m.terminated[0]}}, nil
	}
	return []provisioner.Instance{{ID: "i-1", State: provisioner.Running}}, m.now()
}

func (m *moody) renew(_ context.Context, ids ...provisioner.InstanceID) error {
	if err := m.now(); err != nil {
		return err
	}
	if !slices.Equal(ids, []provisioner.InstanceID{"i-1"}) {
		return fmt.Errorf("%w: %v", provisioner.ErrInvalid, ids)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lease = time.Now().Add(lease)
	return nil
}

// Notify fails while calls are refused, as the adapters' do when they are denied; afterwards it announces an eviction.
func (m *moody) Notify(ctx context.Context, f func(provisioner.Notice)) error {
	for {
		if err := m.now(); err != nil {
			return err
		}
		if !time.Now().Before(m.until) {
			f(provisioner.Notice{Kind: provisioner.Eviction, ID: "i-1", Deadline: time.Now().Add(2 * time.Minute)})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(5 * time.Second):
		}
	}
}

func (*moody) Traits() provisioner.Traits { return provisioner.Traits{} }

// SpotPrices returns the prices in between, and the price in force at the beginning, by the cloud's clock.
func (m *moody) SpotPrices(_ context.Context, pools []market.Pool, since, until time.Time) (map[market.Pool][]market.PricePoint, error) {
	if err := m.now(); err != nil {
		return nil, err
	}
	var points []market.PricePoint
	for _, p := range m.changes {
		switch {
		case p.At.After(time.Now().Add(-m.skew)) || p.At.After(until): // not yet
		case p.At.After(since):
			points = append(points, p)
		default:
			points = []market.PricePoint{p}
		}
	}
	return map[market.Pool][]market.PricePoint{pools[0]: points}, nil
}

const lease = 16 * time.Minute

// script is a controller that does what a test says and records what it hears.
type script struct {
	ends  time.Time
	do    map[time.Duration]elasticity.Action // since the beginning
	save  func(context.Context, elasticity.Export) elasticity.Exported
	pass  func(context.Context, tiers.Served) (tiers.Preference, error)
	begun time.Time
	heard []elasticity.Event
	at    []time.Time
}

func (s *script) NextWake() time.Time { return time.Now().Add(time.Second) }

func (s *script) Step(now time.Time, events ...elasticity.Event) (do []elasticity.Action) {
	if s.begun.IsZero() {
		s.begun = now
	}
	for _, e := range events {
		s.heard, s.at = append(s.heard, e), append(s.at, now)
	}
	for after, a := range s.do {
		if now.Sub(s.begun) >= after {
			delete(s.do, after)
			do = append(do, a)
		}
	}
	if !now.Before(s.ends) {
		do = append(do, elasticity.Finish{Outcome: "finished"})
	}
	return do
}

var spot = market.Pool{Provider: "ec2", Region: "us-west-1", Zone: "us-west-1a", Type: "c5.large", Class: market.Spot}

// play runs a script on a cloud, in fake time.
func play(t *testing.T, m *moody, s *script) {
	t.Helper()
	m.lease = time.Now().Add(lease)
	r := runner.New(runner.Config{
		Controller: s, Clock: clock.Mapping{Market: time.Now(), Wall: time.Now(), Speed: 1}, Cloud: m, Prices: m, Nodes: nobody{},
		Pools: []market.Pool{spot}, PricesFrom: time.Now(), Journal: disk{}, Log: slog.New(slog.DiscardHandler),
		Complete: func(r provisioner.Request) provisioner.Request { return r }, Export: s.save, Profiled: s.pass,
		Renew: m.renew, RenewEvery: lease / 3, PollPrices: time.Minute, PollCloud: 5 * time.Second, Calls: 2 * time.Minute,
	})
	if outcome, err := r.Run(t.Context()); outcome != "finished" || err != nil {
		t.Fatalf("%q, %v", outcome, err)
	}
}

// first returns when an event of a kind was first heard.
func first[E elasticity.Event](s *script) (e E, at time.Time) {
	for i := range s.heard {
		if e, ok := s.heard[i].(E); ok {
			return e, s.at[i]
		}
	}
	return e, time.Time{}
}

// The provider refuses every call for ten minutes, from just before leases are due to be renewed: calls are throttled, or credentials have
// expired. The run continues; leases do not expire, a machine that is to end ends once, a refused purchase is reported, and notices are
// followed again, within half a minute of the end of it.
func TestEveryCallIsRefusedForTenMinutes(t *testing.T) {
	for _, refuses := range []error{provisioner.ErrThrottled, provisioner.ErrDenied} {
		t.Run(refuses.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := time.Now().Add(lease/3 - time.Second)
				m := &moody{refuses: refuses, from: from, until: from.Add(10 * time.Minute)}
				s := &script{ends: m.until.Add(40 * time.Second), do: map[time.Duration]elasticity.Action{
					7 * time.Minute: elasticity.Terminate{IDs: []provisioner.InstanceID{"i-0"}},
					8 * time.Minute: elasticity.Launch{Request: provisioner.Request{Token: "x-1", Pool: spot, Count: 1}},
				}}
				ran := make(chan struct{})
				go func() { // leases are checked all the time
					for {
						select {
						case <-ran:
							return
						case <-time.After(time.Second):
						}
						m.mu.Lock()
						if m.lease.Before(time.Now()) {
							t.Errorf("the lease ran out after %v", time.Since(from))
						}
						m.mu.Unlock()
					}
				}()
				play(t, m, s)
				close(ran)
				if len(m.terminated) != 1 || m.terminated[0].Sub(m.until) > 30*time.Second {
					t.Errorf("terminated at %v, want once within 30 s of %v", m.terminated, m.until)
				}
				if m.lease.Sub(m.until) < lease {
					t.Errorf("the lease ends %v after the calls go through again, want %v and more", m.lease.Sub(m.until), lease)
				}
				if _, at := first[elasticity.Warned](s); at.Before(m.until) || at.Sub(m.until) > 30*time.Second {
					t.Errorf("an eviction at %v was told at %v", m.until, at)
				}
				if failed, _ := first[elasticity.LaunchFailed](s); failed.Token != "x-1" || len(m.launches) > 0 {
					t.Errorf("the purchase: %+v, %q came through", failed, m.launches)
				}
			})
		})
	}
}

// The bill of a run needs prices up to its last machine's end: they are requested then, not with the next minute.
func TestPricesOfTheEndAreRequestedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moody{ends: true}
		s := &script{ends: time.Now().Add(3 * time.Minute), do: map[time.Duration]elasticity.Action{
			70 * time.Second: elasticity.Terminate{IDs: []provisioner.InstanceID{"i-1"}},
		}}
		play(t, m, s)
		for i, e := range s.heard {
			if known, ok := e.(elasticity.PricesKnown); ok && !known.At.Before(m.terminated[0]) {
				if late := s.at[i].Sub(m.terminated[0]); late > 10*time.Second {
					t.Errorf("they were known %v after the end", late)
				}
				return
			}
		}
		t.Error("they were not requested")
	})
}

// The answer to a launch is lost, and credentials have expired when it is requested again: this denial reveals nothing about what was
// bought.
func TestDenialAfterALostAnswerIsNotDefinite(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := &moody{refuses: provisioner.ErrDenied, from: time.Now(), until: time.Now().Add(time.Hour), lostFirst: lost}
			s := &script{ends: time.Now().Add(time.Minute), do: map[time.Duration]elasticity.Action{
				0: elasticity.Launch{Request: provisioner.Request{Token: "x-1", Pool: spot, Count: 1}}}}
			play(t, m, s)
			if failed, _ := first[elasticity.LaunchFailed](s); failed.Token != "x-1" || failed.Unsure != lost || !provisioner.Definite(failed.Err) {
				t.Errorf("the first answer is lost: %v; told %+v", lost, failed)
			}
		})
	}
}

// Every price change is reported, once, whichever clock is ahead, and even if the price before it comes late.
func TestPricesWithClocksThatDiffer(t *testing.T) {
	for _, skew := range []time.Duration{-5 * time.Minute, 0, 5 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			m := &moody{skew: skew}
			cloud := time.Now().Add(-skew)
			for i := range 9 {
				m.changes = append(m.changes, market.PricePoint{At: cloud.Add(time.Duration(i) * 20 * time.Second), Price: market.USD(i + 1)})
			}
			s := &script{ends: time.Now().Add(25 * time.Minute)}
			play(t, m, s)
			var told []market.PricePoint
			for _, e := range s.heard {
				if p, ok := e.(elasticity.PriceChanged); ok {
					told = append(told, market.PricePoint{At: p.At, Price: p.Price})
				}
			}
			if !slices.Equal(told, m.changes) {
				t.Errorf("the controller's clock is %v ahead: told %d of %d changes: %v", skew, len(told), len(m.changes), told)
			}
		})
	}
}
