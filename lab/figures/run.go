package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/runner"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node"
	"github.com/tierml/tierml/tiers/node/link"
)

// measured is the duration of clocks.
type measured struct {
	clock             time.Duration // the mean of a run: with staleness, short and long clocks alternate
	shortest, longest time.Duration
	cpu               float64 // busy share of the host's cores
	own               float64 // the machines' part of it
}

// allAtOnce exceeds the number of partitions.
const allAtOnce = 1000

// print prints a line of the table.
func (m measured) print(out io.Writer, words string, usual time.Duration) {
	share := "-"
	if usual > 0 {
		share = fmt.Sprintf("%.2f x", m.clock.Seconds()/usual.Seconds())
	}
	fmt.Fprintf(out, "%-32s  %10v  %5.2f to %4.2f   %14s   %6.0f %%   %10.0f %%\n", words, m.clock.Round(time.Millisecond),
		m.shortest.Seconds(), m.longest.Seconds(), share, 100*m.cpu, 100*m.own)
}

// once runs a layout until enough clocks were done with all machines.
func once(ctx context.Context, n *network, s settings, l layout) (measured, error) {
	r, err := begin(ctx, n, s, l)
	if err != nil {
		return measured{}, err
	}
	defer r.end()
	all := func(d *diary) bool { return d.joined >= l.transient+l.reliable && d.settled() }
	if err := r.wait(all); err != nil {
		return measured{}, err
	}
	if err := r.takeTime(2 + l.warm); err != nil {
		return measured{}, err
	}
	before, own := busy(), r.cloud.ticks()
	if err := r.wait(func(d *diary) bool { return d.since() > s.clocks }); err != nil {
		return measured{}, err
	}
	now := busy()
	m := measured{cpu: now.since(before), own: (r.cloud.ticks() - own) / (now.all - before.all)}
	times := r.diary.lengths()
	for _, t := range times {
		m.clock += t / time.Duration(len(times))
	}
	m.shortest, m.longest = slices.Min(times), slices.Max(times)
	return m, nil
}

// takeTime makes clocks take their full time from now on, and waits for this many: the first two may be shorter.
func (r *run) takeTime(clocks int) error {
	if err := os.WriteFile(r.cloud.begun, nil, 0o644); err != nil {
		return fmt.Errorf("telling the machines to begin: %w", err)
	}
	r.diary.mark(0)
	err := r.wait(func(d *diary) bool { return len(d.clocks)-d.from > clocks })
	r.diary.mark(0)
	return err
}

// run is a running job.
type run struct {
	folder string
	cloud  *cloud
	policy *fleet
	diary  *diary
	cancel context.CancelFunc
	stream *link.Link
	drive  *runner.Runner
	done   chan struct{}
	err    error
}

var (
	spotPool     = market.Pool{Provider: "ec2", Region: "here", Zone: "a", Type: "host", Class: market.Spot}
	reliablePool = market.Pool{Provider: "ec2", Region: "here", Zone: "a", Type: "host", Class: market.OnDemand}
)

func begin(ctx context.Context, n *network, s settings, l layout) (r *run, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		if err != nil {
			cancel()
		}
	}()
	log := io.Discard
	var file *os.File
	if s.log != "" {
		if file, err = os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
			return nil, fmt.Errorf("opening the log: %w", err)
		}
		log = file
	}
	folder, err := os.MkdirTemp("", "figures")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	perWorker := float64((s.splits + 62) / 63) // 63 and 64 machines have equal shares; fewer take longer
	r = &run{
		cloud: newCloud(n, perWorker*splitWork/s.compute.Seconds(), filepath.Join(folder, "begun"), file), policy: &fleet{}, diary: &diary{log: log}, cancel: cancel, folder: folder,
		done: make(chan struct{}),
	}
	if l.unpaced {
		r.cloud.pulls = allAtOnce
	}
	r.policy.count.Store(int64(l.transient))
	c, err := s.controller(l, r.policy)
	if err != nil {
		return nil, err
	}
	return r, r.launch(ctx, c, log)
}

// launch starts the controller and waits for machines. The run ends with the context.
func (r *run) launch(ctx context.Context, c *elasticity.Controller, log io.Writer) error {
	listener, err := net.Listen("tcp", controller+":0")
	if err != nil {
		return fmt.Errorf("listening for machines: %w", err)
	}
	logger := slog.New(slog.NewTextHandler(log, nil))
	r.stream, err = link.Listen(ctx, link.Config{Listener: listener, Plaintext: true, Accept: func(tiers.Hello) error { return nil }, Log: logger})
	if err != nil {
		return fmt.Errorf("listening for machines: %w", err)
	}
	user := node.UserData{Controller: listener.Addr().String(), Token: "figures", Job: "figures", Listen: "127.0.0.1:0", VCPU: 1}
	r.drive = runner.New(runner.Config{
		Controller: c, Clock: clock.Real(), Cloud: r.cloud, Prices: r.cloud, PricesFrom: time.Now(), Nodes: r.stream,
		Journal: r.diary, Log: logger, Complete: func(q provisioner.Request) provisioner.Request {
			q.UserData = user.Encode()
			return q
		},
		Export: func(context.Context, elasticity.Export) elasticity.Exported {
			return elasticity.Exported{Model: "none"}
		},
		PollPrices: time.Minute, PollCloud: 10 * time.Second, Calls: time.Minute,
	})
	go func() { // it ends with the context; end waits for it
		defer close(r.done)
		_, r.err = r.drive.Run(ctx)
	}()
	return nil
}

// controller returns a controller for a layout, which neither load nor prices change.
func (s settings) controller(l layout, policy bidding.Policy) (*elasticity.Controller, error) {
	rules, err := market.Rules("ec2-now")
	if err != nil {
		return nil, err
	}
	host := market.InstanceType{Name: "host", VCPU: 1, OnDemand: market.Dollar}
	work := load{Splits: s.splits, Rows: s.rows}
	dataset, err := json.Marshal(work)
	if err != nil {
		return nil, fmt.Errorf("describing the work: %w", err)
	}
	return elasticity.New(elasticity.Config{
		Run: fmt.Sprintf("figures-%d", time.Now().UnixNano()), Policy: policy, Want: bidding.Want{Machines: l.transient},
		Stages:   tiers.Thresholds{TwoAbove: l.two, ThreeAbove: l.three},
		Load:     tiers.LoadRule{NetworkHigh: never, StragglerHigh: never, Raise: 1 << 30, Fall: 1 << 30},
		Reliable: elasticity.Reliable{Pool: reliablePool, Type: host, Count: l.reliable},
		Pools:    []elasticity.Pool{{Pool: spotPool, Type: host, History: market.Constant(market.Dollar / 10)}},
		Job: elasticity.Job{
			Schema: ps.Schema{Tables: work.Tables(), Partitions: 64, Splits: s.splits, Seed: 1, Staleness: 1}, App: work.Name(),
			Dataset: dataset, SplitsURL: noFiles, Clocks: 1 << 30, Heartbeat: 5 * time.Second, OrphanAfter: time.Minute,
		},
		Settings: tempo.Settings{
			Speed: 1, CutEvery: time.Second, DeadAfter: time.Minute, BrokenAfter: 5 * time.Second, JoinWait: 20 * time.Second,
			NoticeWait: 200 * time.Millisecond, DrainMargin: time.Second, BootWithin: 5 * time.Minute, Notice: s.warning,
			RetryCapacity: time.Minute, PlanEvery: 500 * time.Millisecond,
		},
		CutsUnpaced: l.unpaced, Rules: rules,
	}), nil
}

func (r *run) end() {
	r.cancel()
	<-r.done
	r.cloud.end()
	r.stream.Close()
	_ = os.RemoveAll(r.folder) // a temporary folder on the host
}

// wait waits until a condition on the diary holds.
func (r *run) wait(so func(*diary) bool) error {
	deadline := time.Now().Add(10 * time.Minute)
	for {
		r.diary.mu.Lock()
		there := so(r.diary)
		r.diary.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-r.done:
			return fmt.Errorf("the run ended: %w", r.err)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("nothing happens: %d machines take part, %d clocks are done", r.diary.joined, len(r.diary.clocks))
		}
	}
}

// diary is the journal of a run, with the times of clocks.
type diary struct {
	log io.Writer // for cuts

	mu      sync.Mutex
	joined  int
	left    int
	changed time.Time // the last join, leave, move or stage change
	clocks  []time.Time
	from    int
	tuned   []journal.TuneDetails
}

func (d *diary) Write(e journal.Entry) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch e.Kind {
	case journal.Join:
		d.joined++
		d.changed = time.Now()
	case journal.Leave:
		d.left++
		d.changed = time.Now()
	case journal.Move, journal.Stage:
		d.changed = time.Now()
	case journal.Cut:
		fmt.Fprintf(d.log, "cut at clock %d, %d clocks done: %d bytes in %.1f s %s\n", e.Clock, len(d.clocks), e.Bytes, e.Seconds, e.Why)
	case journal.Tune:
		details, err := e.TuneDetails()
		d.tuned = append(d.tuned, details)
		return err
	case journal.ClockDone:
		d.clocks = append(d.clocks, time.Now())
	}
	return nil
}

// since counts the clocks since the last change, or since mark.
func (d *diary) since() (n int) {
	for i := len(d.clocks) - 1; i >= d.from && d.clocks[i].After(d.changed); i-- {
		n++
	}
	return n
}

// settled reports whether no more changes are expected: splits and partitions are in place.
func (d *diary) settled() bool { return d.since() >= 3 && time.Since(d.changed) > 8*time.Second }

// mark starts the lengths a number of clocks ago.
func (d *diary) mark(before int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.from = max(0, len(d.clocks)-before)
}

// lengths returns the durations of the clocks since mark.
func (d *diary) lengths() (all []time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := d.from + 1; i < len(d.clocks); i++ {
		all = append(all, d.clocks[i].Sub(d.clocks[i-1]))
	}
	return all
}

// fleet is a policy that holds count transient machines.
type fleet struct{ count atomic.Int64 }

func (*fleet) Name() string { return "fleet" }

func (f *fleet) Plan(s bidding.State) bidding.Plan {
	held := 0
	for _, a := range s.Held {
		if a.Pool == spotPool && !a.Draining && !a.Warned {
			held += a.Count
		}
	}
	if missing := int(f.count.Load()) - held; missing > 0 {
		return bidding.Plan{Acquire: []bidding.Acquire{{Pool: spotPool, Bid: market.Dollar, Count: missing, Why: "the layout wants them"}}}
	}
	return bidding.Plan{}
}

// ticks is the load of the host's processors since boot, in ticks.
type ticks struct{ busy, all float64 }

func busy() (t ticks) {
	file, err := os.Open("/proc/stat")
	if err != nil {
		return t
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Scan()
	for i, field := range strings.Fields(lines.Text())[1:] {
		n, _ := strconv.ParseFloat(field, 64)
		t.all += n
		if i != 3 && i != 4 { // idle, and waiting for disks
			t.busy += n
		}
	}
	return t
}

func (t ticks) since(before ticks) float64 { return (t.busy - before.busy) / (t.all - before.all) }
