package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/all"
	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/elasticity/tuning"
	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node/splitdir"
)

// paces measures the effect of each setting of a job, like figure 5 of "Towards self-tuning parameter servers": one run
// of a regular application, whose tuner tries every setting regardless of what pays.
type paces struct {
	rate       string
	app, data  string
	params     string
	transient  int
	clocks     int
	splits     int
	partitions int
	compute    time.Duration
	out, log   string
}

// paceFlags defines the flags of that measurement, and returns the function that does it.
func paceFlags(f *flag.FlagSet) func(context.Context, io.Writer) error {
	var p paces
	f.StringVar(&p.rate, "rate", "100mbit", "of a link in each direction, as tc has it")
	f.StringVar(&p.app, "app", "mf", "application")
	f.StringVar(&p.data, "data", "../examples/data/jester5k.csv.gz", "to train on")
	f.StringVar(&p.params, "params", `{"rank": 64, "batches": 4}`, "of the application, as JSON")
	f.IntVar(&p.transient, "transient", 5, "machines, besides a reliable one")
	f.IntVar(&p.clocks, "clocks", 60, "to measure each setting for")
	f.IntVar(&p.splits, "splits", 60, "pieces of the data")
	f.IntVar(&p.partitions, "partitions", 30, "pieces of the model")
	f.DurationVar(&p.compute, "compute", 100*time.Millisecond, "that a clock computes when all machines work")
	f.StringVar(&p.out, "to", "", "file to append to: a line for each setting, the lengths of its clocks in milliseconds last")
	f.StringVar(&p.log, "log", "", "file for what the processes print")
	return p.measure
}

// everySetting exceeds the number of settings.
const everySetting = 1000

func (p *paces) measure(ctx context.Context, out io.Writer) error {
	net, err := layNetwork(ctx, p.transient+1, p.rate)
	if err != nil {
		return err
	}
	defer net.remove()
	folder, err := os.MkdirTemp("", "figures")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	r, err := p.begin(ctx, net, folder)
	if err != nil {
		return err
	}
	defer r.end()
	tried := func(d *diary) []journal.TuneDetails {
		end := slices.IndexFunc(d.tuned, func(t journal.TuneDetails) bool { return t.Step != "default" && t.Step != "trial" && t.Step != "again" })
		if end < 0 {
			return d.tuned
		}
		return d.tuned[:end+1] // it has the last trial's sample
	}
	for known := 0; ; {
		if err := r.wait(func(d *diary) bool { return len(d.tuned) > known }); err != nil {
			return err
		}
		r.diary.mu.Lock()
		lines, all := tried(r.diary), len(r.diary.tuned)
		r.diary.mu.Unlock()
		for _, t := range lines[min(known, len(lines)):] {
			if t.Step == "off" {
				return errors.New("there is nothing to try")
			}
			if err := p.write(out, t.Sample); err != nil {
				return err
			}
		}
		if known = all; len(lines) < all || lines[len(lines)-1].Step != "trial" && lines[len(lines)-1].Step != "default" && lines[len(lines)-1].Step != "again" {
			return nil
		}
	}
}

// write appends the result of a setting.
func (p *paces) write(out io.Writer, s *journal.TuneSample) error {
	if s == nil {
		return nil
	}
	var times []string
	for _, c := range s.Clocks {
		if !c.Disturbed && len(times) < p.clocks {
			times = append(times, strconv.Itoa(int(math.Round(1000*c.Seconds))))
		}
	}
	fmt.Fprintf(out, "%s %v: %.4f s/clock over %d clocks, change %.3f s\n", p.app, s.Setting, s.Pace, len(times), s.Change)
	if p.out == "" {
		return nil
	}
	file, err := os.OpenFile(p.out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("writing what was measured: %w", err)
	}
	setting, err := json.Marshal(s.Setting)
	if err != nil {
		return fmt.Errorf("writing what was measured: %w", err)
	}
	w := csv.NewWriter(file)
	_ = w.Write([]string{p.app, string(setting), strconv.FormatFloat(s.Change, 'f', 3, 64), strings.Join(times, " ")}) // Flush reports the error
	w.Flush()
	return errors.Join(w.Error(), file.Close())
}

func (p *paces) begin(ctx context.Context, n *network, folder string) (r *run, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		if err != nil {
			cancel()
		}
	}()
	var file *os.File
	log := io.Discard
	if p.log != "" {
		if file, err = os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
			return nil, fmt.Errorf("opening the log: %w", err)
		}
		log = file
	}
	program, data, params, err := p.prepare(ctx, folder)
	if err != nil {
		return nil, err
	}
	flops := program.WorkPerClock() / float64(p.transient+1) / p.compute.Seconds()
	r = &run{cloud: newCloud(n, flops, "", file), policy: &fleet{}, diary: &diary{log: log}, cancel: cancel, folder: folder, done: make(chan struct{})}
	r.policy.count.Store(int64(p.transient))
	rules, err := market.Rules("ec2-now")
	if err != nil {
		return nil, err
	}
	dataset, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("describing the data: %w", err)
	}
	host := market.InstanceType{Name: "host", VCPU: 1, OnDemand: market.Dollar}
	const clocks = 1 << 30
	schema := ps.Schema{Tables: program.Tables(), Partitions: p.partitions, Splits: p.splits, Seed: 1, Deterministic: true}
	c := elasticity.New(elasticity.Config{
		Run: fmt.Sprintf("figures-%d", time.Now().UnixNano()), Policy: r.policy, Want: bidding.Want{Machines: p.transient},
		Stages:   tiers.Thresholds{TwoAbove: 1, ThreeAbove: 15, MostServers: tiers.ServersFor(&schema, tiers.ServerBytes)},
		Reliable: elasticity.Reliable{Pool: reliablePool, Type: host, Count: 1},
		Pools:    []elasticity.Pool{{Pool: spotPool, Type: host, History: market.Constant(market.Dollar / 10)}},
		Job: elasticity.Job{
			Schema: schema, App: p.app, Params: params, Dataset: dataset, SplitsURL: folder, Clocks: clocks,
			Heartbeat: 2 * time.Second, OrphanAfter: time.Minute,
		},
		Settings: tempo.Settings{
			Speed: 1, CutEvery: 10 * time.Second, DeadAfter: time.Minute, BrokenAfter: 5 * time.Second, JoinWait: 20 * time.Second,
			NoticeWait: 200 * time.Millisecond, DrainMargin: time.Second, BootWithin: 5 * time.Minute, Notice: 2 * time.Minute,
			RetryCapacity: time.Minute, PlanEvery: 500 * time.Millisecond,
		},
		Rules: rules,
		Tune:  &tuning.Options{Every: p.clocks, Trials: everySetting, Clocks: clocks, Partitions: p.partitions, Seed: 1, Thorough: true},
	})
	return r, r.launch(ctx, c, log)
}

// prepare cuts the data and returns the application.
func (p *paces) prepare(ctx context.Context, folder string) (program apps.Program, data apps.Dataset, params map[string]string, err error) {
	kind, err := all.Registry().Find(p.app)
	if err != nil {
		return nil, data, nil, err
	}
	given := apps.Params{}
	if err := json.Unmarshal([]byte(p.params), &given); err != nil {
		return nil, data, nil, fmt.Errorf("-params %s: %w", p.params, err)
	}
	path, err := filepath.Abs(p.data)
	if err != nil {
		return nil, data, nil, fmt.Errorf("opening the data: %w", err)
	}
	file, err := blob.Open(ctx, path)
	if err != nil {
		return nil, data, nil, fmt.Errorf("opening the data: %w", err)
	}
	defer file.Close()
	beside := func(name string) (io.ReadCloser, error) { return blob.Open(ctx, location.Beside(path, name)) }
	in := apps.Input{Name: filepath.Base(p.data), Data: file, Beside: beside}
	if data, err = kind.Prepare(in, apps.Cut{Splits: p.splits, Seed: 1}, splitdir.Create(folder)); err != nil {
		return nil, data, nil, fmt.Errorf("preparing the data: %w", err)
	}
	if program, err = kind.New(given, data); err != nil {
		return nil, data, nil, fmt.Errorf("making the application: %w", err)
	}
	params = map[string]string{}
	for name, value := range given {
		params[name] = fmt.Sprint(value)
	}
	return program, data, params, nil
}
