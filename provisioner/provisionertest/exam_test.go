package provisionertest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

var (
	spot     = market.Pool{Provider: "memory", Region: "r", Zone: "r-a", Type: "small", Class: market.Spot}
	onDemand = market.Pool{Provider: "memory", Region: "r", Zone: "r-a", Type: "small", Class: market.OnDemand}
)

func memorySubject(testing.TB) Subject {
	m := NewMemory(time.Date(2014, 3, 1, 12, 0, 0, 250_000_000, time.UTC))
	m.SetPrice(spot, market.Dollar/10)
	m.SetFree(spot, 10)
	return Subject{
		Cloud: m.Cloud("ours"), Other: m.Cloud("theirs"),
		Spot: spot, Bid: market.Dollar / 5, LowBid: market.Dollar / 20, OnDemand: onDemand,
		Unknown: "i-unknown",
		SetFree: func(n int) { m.SetFree(spot, n) },
		Evict: func(id provisioner.InstanceID) {
			m.Advance(3500 * time.Millisecond)
			m.Warn(id)
		},
		Expire:   func(provisioner.InstanceID) { m.Advance(MemoryNotice) },
		Kill:     m.Kill,
		Patience: 10 * time.Second,
	}
}

func TestMemoryPasses(t *testing.T) { Run(t, memorySubject) }

// mutant is a cloud with one bug. The embedded cloud is right.
type mutant struct {
	provisioner.Cloud
	launch    func(context.Context, provisioner.Request) ([]provisioner.Instance, error)
	terminate func(context.Context, ...provisioner.InstanceID) error
	list      func(context.Context) ([]provisioner.Instance, error)
	notify    func(context.Context, func(provisioner.Notice)) error
}

func (m mutant) Launch(ctx context.Context, r provisioner.Request) ([]provisioner.Instance, error) {
	if m.launch != nil {
		return m.launch(ctx, r)
	}
	return m.Cloud.Launch(ctx, r)
}

func (m mutant) Terminate(ctx context.Context, ids ...provisioner.InstanceID) error {
	if m.terminate != nil {
		return m.terminate(ctx, ids...)
	}
	return m.Cloud.Terminate(ctx, ids...)
}

func (m mutant) List(ctx context.Context) ([]provisioner.Instance, error) {
	if m.list != nil {
		return m.list(ctx)
	}
	return m.Cloud.List(ctx)
}

func (m mutant) Notify(ctx context.Context, f func(provisioner.Notice)) error {
	if m.notify != nil {
		return m.notify(ctx, f)
	}
	return m.Cloud.Notify(ctx, f)
}

// altered lists machines changed by f.
func altered(c provisioner.Cloud, f func(*provisioner.Instance)) func(context.Context) ([]provisioner.Instance, error) {
	return func(ctx context.Context) ([]provisioner.Instance, error) {
		list, err := c.List(ctx)
		for n := range list {
			f(&list[n])
		}
		return list, err
	}
}

// TestExamFindsBugs gives the exam to clouds that each break one promise: one of its parts must fail.
func TestExamFindsBugs(t *testing.T) {
	for _, c := range []struct {
		bug   string
		part  string // the part that must find it
		breed func(right provisioner.Cloud, s *Subject) mutant
	}{
		{"buys again for a used token", "SameTokenSameMachines", buysAgain},
		{"buys again for a lost answer", "SameTokenAfterLostAnswer", buysAgain},
		{"buys again concurrently", "SameTokenConcurrently", buysAgain},
		{"buys again after the end", "SameTokenAfterTheEnd", buysAgain},
		{"takes a used token for another request", "UsedTokenOtherRequest", buysAgain},
		{"forgets tags", "SpotLife", func(right provisioner.Cloud, _ *Subject) mutant {
			return mutant{Cloud: right, list: altered(right, func(i *provisioner.Instance) { i.Tags = nil })}
		}},
		{"sells another pool", "OnDemandLife", func(right provisioner.Cloud, _ *Subject) mutant {
			return mutant{Cloud: right, list: altered(right, func(i *provisioner.Instance) { i.Pool.Class = market.Spot })}
		}},
		{"gives fractions of seconds", "SpotLife", func(right provisioner.Cloud, _ *Subject) mutant {
			return mutant{Cloud: right, list: altered(right, func(i *provisioner.Instance) { i.Launched = i.Launched.Add(time.Millisecond) })}
		}},
		{"moves the end", "SpotLife", func(right provisioner.Cloud, _ *Subject) mutant {
			looks := time.Duration(0)
			return mutant{Cloud: right, list: altered(right, func(i *provisioner.Instance) {
				if looks++; i.State == provisioner.Terminated {
					i.Ended = i.Ended.Add(looks * time.Second)
				}
			})}
		}},
		{"gives less than there is", "WholeCount", func(right provisioner.Cloud, _ *Subject) mutant {
			return mutant{Cloud: right, launch: func(ctx context.Context, r provisioner.Request) ([]provisioner.Instance, error) {
				r.Count = 1
				return right.Launch(ctx, r)
			}}
		}},
		{"gives all or nothing", "PartialCapacity", func(right provisioner.Cloud, _ *Subject) mutant {
			return mutant{Cloud: right, launch: func(ctx context.Context, r provisioner.Request) ([]provisioner.Instance, error) {
				if r.Count == 5 {
					return nil, provisioner.ErrNoCapacity
				}
				return right.Launch(ctx, r)
			}}
		}},
		{"hides why there is none", "NoCapacity", hidesErrors},
		{"hides a low bid", "BidTooLow", hidesErrors},
		{"buys what is not allowed", "InvalidRequest", func(right provisioner.Cloud, s *Subject) mutant {
			return mutant{Cloud: right, launch: func(ctx context.Context, r provisioner.Request) ([]provisioner.Instance, error) {
				r.Count = max(r.Count, 1)
				return right.Launch(ctx, r)
			}}
		}},
		{"complains about ended machines", "TerminateTwice", complains},
		{"dates the end anew", "EndStays", func(right provisioner.Cloud, _ *Subject) mutant {
			calls := time.Duration(0)
			return mutant{
				Cloud: right,
				terminate: func(ctx context.Context, ids ...provisioner.InstanceID) error {
					calls++
					return right.Terminate(ctx, ids...)
				},
				list: altered(right, func(i *provisioner.Instance) {
					if i.State == provisioner.Terminated {
						i.Ended = i.Ended.Add(calls * time.Second)
					}
				}),
			}
		}},
		{"complains about unknown machines", "TerminateUnknown", complains},
		{"does not warn", "Eviction", dropsNotices(provisioner.Eviction)},
		{"does not tell of the end", "Kill", dropsNotices(provisioner.Ended)},
		{"does not tell of our own termination", "NotifyTellsOfOwnTermination", dropsNotices(provisioner.Ended)},
		{"blames the user", "Kill", func(right provisioner.Cloud, _ *Subject) mutant {
			return mutant{Cloud: right, list: altered(right, func(i *provisioner.Instance) {
				if i.EndedBy == market.ByProvider {
					i.EndedBy = market.ByUser
				}
			})}
		}},
		{"lists everybody's machines", "OnlyOwnCluster", func(right provisioner.Cloud, s *Subject) mutant {
			other := s.Other
			return mutant{Cloud: right, list: func(ctx context.Context) ([]provisioner.Instance, error) {
				ours, _ := right.List(ctx)
				theirs, err := other.List(ctx)
				all := append(ours, theirs...)
				provisioner.SortInstances(all)
				return all, err
			}}
		}},
		{"does not care for the context", "Cancellation", func(right provisioner.Cloud, _ *Subject) mutant {
			return mutant{Cloud: right, launch: func(_ context.Context, r provisioner.Request) ([]provisioner.Instance, error) {
				return right.Launch(context.Background(), r)
			}}
		}},
	} {
		t.Run(c.bug, func(t *testing.T) {
			s := memorySubject(t).withDefaults()
			s.Patience = 200 * time.Millisecond
			s.Cloud = c.breed(s.Cloud, &s)
			n := slices.IndexFunc(parts(), func(p part) bool { return p.name == c.part })
			if n < 0 {
				t.Fatalf("the exam has no part %s", c.part)
			}
			if failures := take(t, parts()[n], s); len(failures) == 0 {
				t.Errorf("%s did not find it", c.part)
			} else {
				t.Log(failures[0])
			}
		})
	}
}

func buysAgain(right provisioner.Cloud, _ *Subject) mutant {
	var mu sync.Mutex
	real := map[string]string{} // tokens
	return mutant{
		Cloud: right,
		launch: func(ctx context.Context, r provisioner.Request) ([]provisioner.Instance, error) {
			mu.Lock()
			wanted := r.Token
			r.Token = fmt.Sprintf("%s-%d", wanted, len(real))
			real[r.Token] = wanted
			mu.Unlock()
			got, err := right.Launch(ctx, r)
			for n := range got {
				got[n].Token = wanted
			}
			return got, err
		},
		list: altered(right, func(i *provisioner.Instance) {
			mu.Lock()
			defer mu.Unlock()
			i.Token = real[i.Token]
		}),
	}
}

func hidesErrors(right provisioner.Cloud, _ *Subject) mutant {
	return mutant{Cloud: right, launch: func(ctx context.Context, r provisioner.Request) ([]provisioner.Instance, error) {
		got, err := right.Launch(ctx, r)
		if err != nil {
			err = errors.New("did not work")
		}
		return got, err
	}}
}

func complains(right provisioner.Cloud, _ *Subject) mutant {
	return mutant{Cloud: right, terminate: func(ctx context.Context, ids ...provisioner.InstanceID) error {
		list, _ := right.List(ctx)
		for _, id := range ids {
			if !slices.ContainsFunc(list, func(i provisioner.Instance) bool {
				return i.ID == id && i.State == provisioner.Running
			}) {
				return provisioner.ErrNotFound
			}
		}
		return right.Terminate(ctx, ids...)
	}}
}

func dropsNotices(kind provisioner.NoticeKind) func(provisioner.Cloud, *Subject) mutant {
	return func(right provisioner.Cloud, _ *Subject) mutant {
		return mutant{Cloud: right, notify: func(ctx context.Context, f func(provisioner.Notice)) error {
			return right.Notify(ctx, func(n provisioner.Notice) {
				if n.Kind != kind {
					f(n)
				}
			})
		}}
	}
}

// take runs one part of the exam and returns its failures instead of failing.
func take(t *testing.T, p part, s Subject) []string {
	record := &recorder{TB: t}
	done := make(chan struct{})
	go func() { // a goroutine of its own, which Fatalf ends
		defer close(done)
		defer record.cleanUp()
		p.check(record, s)
	}()
	<-done
	return record.failures
}

// recorder is a testing.TB that keeps failures to itself.
type recorder struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (r *recorder) Helper()             {}
func (r *recorder) Log(...any)          {}
func (r *recorder) Cleanup(f func())    { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}
func (r *recorder) cleanUp() {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}
