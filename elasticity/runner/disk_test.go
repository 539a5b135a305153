package runner_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/runner"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// buyer wants one machine, and ends the run when it learns the request's outcome.
type buyer struct {
	asked   bool
	refused error
}

func (b *buyer) NextWake() time.Time { return mapping.Now().Add(time.Hour) }

func (b *buyer) Step(_ time.Time, events ...elasticity.Event) []elasticity.Action {
	for _, e := range events {
		if failed, ok := e.(elasticity.LaunchFailed); ok {
			b.refused = failed.Err
			return []elasticity.Action{elasticity.Record{Entry: journal.Entry{Kind: journal.Done, Outcome: "failed"}}, elasticity.Finish{Outcome: "failed"}}
		}
		if _, ok := e.(elasticity.Launched); ok {
			return []elasticity.Action{elasticity.Finish{Outcome: "finished"}}
		}
	}
	if b.asked {
		return nil
	}
	b.asked = true
	return []elasticity.Action{
		elasticity.Record{Entry: journal.Entry{Kind: journal.Intent, Token: "x-1"}},
		elasticity.Launch{Request: provisioner.Request{Token: "x-1", Count: 1}},
	}
}

// shop counts purchases.
type shop struct {
	provisioner.Basic
	launches *atomic.Int64
}

func (s shop) Launch(context.Context, provisioner.Request) ([]provisioner.Instance, error) {
	s.launches.Add(1)
	return nil, nil
}
func (shop) Terminate(context.Context, ...provisioner.InstanceID) error   { return nil }
func (shop) List(context.Context) ([]provisioner.Instance, error)         { return nil, nil }
func (shop) Notify(ctx context.Context, _ func(provisioner.Notice)) error { <-ctx.Done(); return nil }
func (shop) Traits() provisioner.Traits                                   { return provisioner.Traits{} }
func (shop) SpotPrices(context.Context, []market.Pool, time.Time, time.Time) (map[market.Pool][]market.PricePoint, error) {
	return nil, nil
}

type nobody struct{}

func (nobody) Send(ps.ServerID, tiers.Command) error { return nil }
func (nobody) Receive(ctx context.Context, _ func(ps.ServerID, tiers.Report, error)) error {
	<-ctx.Done()
	return nil
}

type disk struct{ err error }

func (d disk) Write(journal.Entry) error { return d.err }

// tight is a disk that is full for one line.
type tight struct {
	err  error
	kept []journal.Kind
}

func (d *tight) Write(e journal.Entry) error {
	err := d.err
	if d.err = nil; err == nil {
		d.kept = append(d.kept, e.Kind)
	}
	return err
}

// A disk is full when an intent is to be written: the launch is not requested, as its machines would be unknown after a crash. The run
// ends, and says why. Its journal ends at the missing line, so that the next controller does not assume an orderly end.
func TestNothingIsBoughtWithoutItsIntent(t *testing.T) {
	for _, full := range []error{nil, syscall.ENOSPC} {
		var launches atomic.Int64
		b, d := &buyer{}, &tight{err: full}
		r := runner.New(runner.Config{
			Controller: b, Clock: clock.Mapping{Market: mapping.Market, Wall: time.Now(), Speed: 1}, Cloud: shop{launches: &launches}, Prices: shop{launches: &launches}, Nodes: nobody{},
			Journal: d, Log: slog.New(slog.DiscardHandler), Complete: func(r provisioner.Request) provisioner.Request { return r },
			PollPrices: time.Hour, PollCloud: time.Hour, Calls: time.Minute,
		})
		_, err := r.Run(t.Context())
		if !errors.Is(err, full) || (launches.Load() == 0) != (full != nil) || (b.refused != nil) != (full != nil) || (len(d.kept) == 0) != (full != nil) {
			t.Errorf("disk %v: %d launches, refused %v, journal %v, %v", full, launches.Load(), b.refused, d.kept, err)
		}
	}
}
