package wrap_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/provisionertest"
	"github.com/tierml/tierml/provisioner/wrap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	start = time.Date(2014, 3, 1, 12, 0, 0, 0, time.UTC)
	pool  = market.Pool{Provider: "memory", Region: "r", Zone: "r-a", Type: "small", Class: market.Spot}
)

func request() provisioner.Request {
	return provisioner.Request{Token: "t", Pool: pool, Bid: market.Dollar, Count: 2}
}

// fakeClock moves when somebody sleeps.
type fakeClock struct {
	mu    sync.Mutex
	now   time.Time
	slept []time.Duration
}

func newFakeClock() *fakeClock { return &fakeClock{now: start} }

func (c *fakeClock) clock() wrap.Clock {
	return wrap.Clock{
		Now: func() time.Time {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.now
		},
		Sleep: func(ctx context.Context, d time.Duration) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.slept = append(c.slept, d)
			c.now = c.now.Add(d)
			return ctx.Err()
		},
	}
}

func mustPlan(t testing.TB, text string) wrap.Plan {
	t.Helper()
	p, err := wrap.ParsePlan(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func memory() provisioner.Cloud { return provisionertest.NewMemory(start).Cloud("c") }

// Wrappers keep every promise of the cloud below, also when it throttles them, loses answers and fails.
func TestWrappedCloudPasses(t *testing.T) {
	provisionertest.Run(t, func(t testing.TB) provisionertest.Subject {
		m := provisionertest.NewMemory(start)
		m.SetPrice(pool, market.Dollar/10)
		stack := func(cluster string) provisioner.Cloud {
			clock := newFakeClock().clock()
			cloud := wrap.Faulty(m.Cloud(cluster), mustPlan(t, "launch#1=throttled; launch#2-3=after; list#2=temporary; terminate#1=after; notify#1-2=temporary"))
			cloud = wrap.Limit(wrap.Observe(cloud, clock, func(wrap.Call) {}), 5, 2, clock)
			return wrap.Retry(cloud, wrap.RetryConfig{}, rand.New(rand.NewPCG(1, 2)), clock)
		}
		return provisionertest.Subject{
			Cloud: stack("ours"), Other: stack("theirs"), Spot: pool, Bid: market.Dollar / 5, LowBid: market.Dollar / 20,
			Unknown: "i-unknown",
			SetFree: func(n int) { m.SetFree(pool, n) },
			Evict:   m.Warn,
			Expire:  func(provisioner.InstanceID) { m.Advance(provisionertest.MemoryNotice) },
			Kill:    m.Kill,
		}
	})
}

func TestDryRunPasses(t *testing.T) {
	provisionertest.Run(t, func(t testing.TB) provisionertest.Subject {
		return provisionertest.Subject{
			Cloud: wrap.DryRun(memory(), func() time.Time { return start }, slog.New(slog.DiscardHandler)),
			Spot:  pool, Bid: market.Dollar, Unknown: "i-unknown",
			Lacks: map[string]string{"NotifyTellsOfOwnTermination": "a dry run has no notices of pretended machines"},
		}
	})
}

func TestDryRunChangesNothing(t *testing.T) {
	below := memory()
	there, err := below.Launch(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	dry := wrap.DryRun(below, func() time.Time { return start }, slog.New(slog.NewTextHandler(&log, nil)))
	r := request()
	r.Token = "other"
	pretended, err := dry.Launch(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := dry.Terminate(t.Context(), there[0].ID); err != nil {
		t.Fatal(err)
	}
	after, err := below.List(t.Context())
	if err != nil || len(after) != 2 || after[0].State != provisioner.Running {
		t.Errorf("below are %+v, %v", after, err)
	}
	if both, err := dry.List(t.Context()); err != nil || len(both) != 4 {
		t.Errorf("listed %v, %v: want the real and the pretended machines", both, err)
	}
	for _, want := range []string{"would launch", pool.String(), "count=2", "would terminate", string(there[0].ID)} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log does not say %q:\n%s", want, log.String())
		}
	}
	if len(pretended) != 2 || !strings.HasPrefix(string(pretended[0].ID), "i-dry") {
		t.Errorf("pretended %+v", pretended)
	}
}

func TestRetryOnlyWhatPasses(t *testing.T) {
	for fault, want := range map[string]int{ // calls made
		"throttled": 3, "temporary": 3, "no-capacity": 1, "price-too-low": 1, "limit": 1, "not-found": 1, "invalid": 1, "denied": 1,
	} {
		clock, calls := newFakeClock(), 0
		below := wrap.Observe(wrap.Faulty(memory(), mustPlan(t, "launch#1-2="+fault)), clock.clock(), func(wrap.Call) { calls++ })
		cloud := wrap.Retry(below, wrap.RetryConfig{}, rand.New(rand.NewPCG(1, 2)), clock.clock())
		_, err := cloud.Launch(t.Context(), request())
		if calls != want || (err == nil) != (want == 3) {
			t.Errorf("%s: %d calls, want %d; error %v", fault, calls, want, err)
		}
	}
}

func TestRetryBacksOff(t *testing.T) {
	clock := newFakeClock()
	config := wrap.RetryConfig{Attempts: 8, Base: time.Second, Max: 10 * time.Second}
	cloud := wrap.Retry(wrap.Faulty(memory(), mustPlan(t, "list#1-100=throttled")), config, rand.New(rand.NewPCG(1, 2)), clock.clock())
	if _, err := cloud.List(t.Context()); !errors.Is(err, provisioner.ErrThrottled) {
		t.Fatalf("got %v, want ErrThrottled", err)
	}
	bounds := []time.Duration{1, 2, 4, 8, 10, 10, 10} // seconds
	if len(clock.slept) != len(bounds) {
		t.Fatalf("waited %v, want %d times", clock.slept, len(bounds))
	}
	for n, d := range clock.slept {
		if d < 0 || d > bounds[n]*time.Second {
			t.Errorf("wait %d is %s, want at most %s", n, d, bounds[n]*time.Second)
		}
	}
	if sorted := slices.Compact(slices.Clone(clock.slept)); len(sorted) < 5 {
		t.Errorf("no jitter in %v", clock.slept)
	}
}

func TestRetryEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	clock := wrap.Clock{Now: time.Now, Sleep: func(context.Context, time.Duration) error {
		cancel()
		return ctx.Err()
	}}
	cloud := wrap.Retry(wrap.Faulty(memory(), mustPlan(t, "list#1-100=throttled")), wrap.RetryConfig{}, rand.New(rand.NewPCG(1, 2)), clock)
	_, err := cloud.List(ctx)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, provisioner.ErrThrottled) {
		t.Errorf("got %v, want both what ended it and what it was about", err)
	}
}

func TestLimit(t *testing.T) {
	clock := newFakeClock()
	cloud := wrap.Limit(memory(), 2, 3, clock.clock())
	var at []time.Duration
	for range 6 {
		if _, err := cloud.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		at = append(at, clock.now.Sub(start))
	}
	const half = 500 * time.Millisecond
	if want := []time.Duration{0, 0, 0, half, 2 * half, 3 * half}; !slices.Equal(at, want) {
		t.Errorf("calls at %v, want %v", at, want)
	}
	clock.now = clock.now.Add(time.Hour) // idle time does not add up beyond the burst
	clock.slept = nil
	for range 4 {
		if err := cloud.Terminate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if want := []time.Duration{half}; !slices.Equal(clock.slept, want) {
		t.Errorf("waited %v, want %v", clock.slept, want)
	}
}

func TestLimitEndsWithItsContext(t *testing.T) {
	cloud := wrap.Limit(memory(), 0.001, 1, wrap.RealClock())
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := cloud.List(ctx); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Millisecond, cancel)
	if _, err := cloud.List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestObserve(t *testing.T) {
	var told []string
	clock := newFakeClock()
	slow := wrap.Limit(wrap.Faulty(memory(), mustPlan(t, "terminate#1=denied")), 1, 1, clock.clock())
	cloud := wrap.Observe(slow, clock.clock(), func(c wrap.Call) {
		told = append(told, fmt.Sprintf("%s %d %s denied=%v", c.Op, c.Machines, c.Duration, errors.Is(c.Err, provisioner.ErrDenied)))
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	launched, _ := cloud.Launch(ctx, request())
	_ = cloud.Terminate(ctx, launched[0].ID)
	_ = cloud.Terminate(ctx, launched[0].ID)
	_, _ = cloud.List(ctx)
	_ = cloud.Notify(ctx, func(provisioner.Notice) { cancel() })
	want := []string{"launch 2 0s denied=false", "terminate 1 1s denied=true", "terminate 1 1s denied=false",
		"list 2 1s denied=false", "notify 1 1s denied=false"}
	if !slices.Equal(told, want) {
		t.Errorf("told\n%q, want\n%q", told, want)
	}
}

func TestFaultyAfterDoesIt(t *testing.T) {
	below := memory()
	cloud := wrap.Faulty(below, mustPlan(t, "launch#1=after"))
	if got, err := cloud.Launch(t.Context(), request()); !errors.Is(err, provisioner.ErrTemporary) || len(got) > 0 {
		t.Errorf("got %v, %v: want no answer and ErrTemporary", got, err)
	}
	if got, _ := below.List(t.Context()); len(got) != 2 {
		t.Errorf("bought %v, want 2 machines", got)
	}
}

func TestFaultyHangsUntilTheContextEnds(t *testing.T) {
	cloud := wrap.Faulty(memory(), mustPlan(t, "list#2=hang"))
	if _, err := cloud.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := cloud.List(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want context.DeadlineExceeded", err)
	}
}
