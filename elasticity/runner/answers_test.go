package runner_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/runner"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// broken has the ways in which a provider's answers fail; nil = calls hang.
var broken = map[string]error{
	"401":  fmt.Errorf("listing machines: %w: AuthFailure", provisioner.ErrDenied),
	"403":  fmt.Errorf("listing machines: %w: UnauthorizedOperation", provisioner.ErrDenied),
	"429":  fmt.Errorf("listing machines: %w: RequestLimitExceeded", provisioner.ErrThrottled),
	"500":  fmt.Errorf("listing machines: %w: InternalError", provisioner.ErrTemporary),
	"html": errors.New("listing machines: deserialization failed"), // of no known kind
	"hang": nil,
}

// failing is a cloud that fails for a time, with a machine that is to be ended.
type failing struct {
	*moody
	hang  bool
	calls int
}

func (f *failing) meet(ctx context.Context) error {
	f.mu.Lock()
	f.calls++
	f.mu.Unlock()
	err := f.now()
	if err != nil && f.hang {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", provisioner.ErrTemporary, ctx.Err())
	}
	return err
}

func (f *failing) List(ctx context.Context) ([]provisioner.Instance, error) {
	return []provisioner.Instance{{ID: "i-1", State: provisioner.Running}, {ID: "i-0", State: provisioner.Terminated}}, f.meet(ctx)
}

func (f *failing) Terminate(ctx context.Context, ids ...provisioner.InstanceID) error {
	if err := f.meet(ctx); err != nil {
		return err
	}
	return f.moody.Terminate(ctx, ids...)
}

func (f *failing) SpotPrices(ctx context.Context, pools []market.Pool, since, until time.Time) (map[market.Pool][]market.PricePoint, error) {
	if err := f.meet(ctx); err != nil {
		return nil, err
	}
	return f.moody.SpotPrices(ctx, pools, since, until)
}

func (f *failing) Notify(ctx context.Context, _ func(provisioner.Notice)) error {
	<-ctx.Done()
	return nil
}

func failingRunner(s *script, f *failing) *runner.Runner {
	return runner.New(runner.Config{
		Controller: s, Clock: clock.Mapping{Market: time.Now(), Wall: time.Now(), Speed: 1}, Cloud: f, Prices: f, Nodes: nobody{},
		Pools: []market.Pool{spot}, PricesFrom: time.Now(), Journal: disk{}, Log: slog.New(slog.DiscardHandler),
		PollPrices: time.Minute, PollCloud: 5 * time.Second, Calls: 2 * time.Minute,
		EndCommand: func(all []provisioner.Instance) string { return "end " + string(all[0].ID) },
	})
}

// From a random moment on the provider answers wrongly for a minute, or forever. Each time this is reported within half a minute, and so is
// its end; a run that is stopped meanwhile ends within ten seconds, and names the machine that still costs money, and the command to end
// it.
func TestProviderThatFailsIsReported(t *testing.T) {
	for name, err := range broken {
		for _, long := range []time.Duration{time.Minute, 24 * time.Hour} {
			for seed := range uint64(20) {
				t.Run(fmt.Sprint(name, " for ", long, " ", seed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { failAndStop(t, err, long, seed) })
				})
			}
		}
	}
}

func failAndStop(t *testing.T, err error, long time.Duration, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	from := time.Now().Add(time.Duration(random.Int64N(int64(2 * time.Minute))))
	f := &failing{moody: &moody{refuses: err, from: from, until: from.Add(long)}, hang: err == nil}
	if f.hang {
		f.refuses = errors.New("hang")
	}
	s := &script{ends: from.Add(5 * time.Minute), do: map[time.Duration]elasticity.Action{time.Until(from): elasticity.Terminate{IDs: []provisioner.InstanceID{"i-1"}}}}
	r := failingRunner(s, f)
	stops := long > time.Hour
	var stopped time.Time
	var stopping sync.WaitGroup
	if stops {
		stopping.Go(func() {
			time.Sleep(time.Until(from) + time.Duration(random.Int64N(int64(2*time.Minute))))
			stopped = time.Now()
			r.Stop(t.Context(), "SIGTERM", false)
		})
	}
	_, ended := r.Run(t.Context())
	over := time.Now()
	stopping.Wait()
	told := map[string]time.Time{}
	why := map[string]string{}
	for i, e := range s.heard {
		if e, ok := e.(elasticity.ProviderChanged); ok && told[e.To].IsZero() {
			told[e.To], why[e.To] = s.at[i], e.Why
		}
	}
	first := told[journal.Waiting]
	if first.IsZero() || !told[journal.GivenUp].IsZero() && told[journal.GivenUp].Before(first) {
		first = told[journal.GivenUp]
	}
	if after := first.Sub(from); after < 0 || after > 30*time.Second {
		t.Errorf("reported %v after the failure began", after)
	}
	left, _ := errors.AsType[*runner.Left](ended)
	switch {
	case !stops:
		within := 30 * time.Second
		if f.hang { // the call that hangs must time out first
			within += 2 * time.Minute
		}
		if after := told[journal.Heard].Sub(f.until); ended != nil || after < 0 || after > within {
			t.Errorf("the end of it is reported after %v; %v", after, ended)
		}
	case left == nil || over.Sub(stopped) > 10*time.Second:
		t.Errorf("ended %v after the stop, with %v", over.Sub(stopped), ended)
	case !strings.Contains(ended.Error(), "i-1") || strings.Contains(ended.Error(), "i-0") || !strings.Contains(ended.Error(), "end i-1") || why[journal.GivenUp] != ended.Error():
		t.Errorf("%v; event %q", ended, why[journal.GivenUp])
	}
	if minutes := over.Sub(from).Minutes(); f.calls > 60+int(20*minutes) {
		t.Errorf("%d calls in %.1f minutes", f.calls, minutes)
	}
}

// A missing right for one kind of call is reported, though all others work.
func TestOneKindOfCallIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moody{until: time.Now().Add(time.Hour)}
		s := &script{ends: time.Now().Add(5 * time.Minute), do: map[time.Duration]elasticity.Action{
			time.Minute: elasticity.Terminate{IDs: []provisioner.InstanceID{"i-1"}}}}
		play(t, m, s)
		if e, _ := first[elasticity.ProviderChanged](s); e.To != "" {
			t.Errorf("%+v of a provider that works", e)
		}
		m = &moody{}
		s = &script{ends: time.Now().Add(5 * time.Minute), do: map[time.Duration]elasticity.Action{
			time.Minute: elasticity.Launch{Request: provisioner.Request{Token: "x-1", Pool: spot, Count: 1}}}}
		cloud := &noLaunches{m}
		r := runner.New(runner.Config{Controller: s, Clock: clock.Mapping{Market: time.Now(), Wall: time.Now(), Speed: 1}, Cloud: cloud, Prices: m, Nodes: nobody{},
			Pools: []market.Pool{spot}, PricesFrom: time.Now(), Journal: disk{}, Log: slog.New(slog.DiscardHandler),
			Complete:   func(r provisioner.Request) provisioner.Request { return r },
			PollPrices: time.Minute, PollCloud: 5 * time.Second, Calls: 2 * time.Minute})
		if _, err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if e, at := first[elasticity.ProviderChanged](s); e.To != journal.Waiting || !strings.Contains(e.Why, "UnauthorizedOperation") || at.Sub(s.begun) > 90*time.Second {
			t.Errorf("%+v after %v", e, at.Sub(s.begun))
		}
	})
}

// noLaunches is a cloud without the right to buy.
type noLaunches struct{ *moody }

func (*noLaunches) Launch(context.Context, provisioner.Request) ([]provisioner.Instance, error) {
	return nil, fmt.Errorf("launching: %w: UnauthorizedOperation", provisioner.ErrDenied)
}
