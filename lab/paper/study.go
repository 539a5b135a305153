package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/sim/sweep"
)

// result has the results of all policies in a cell for a length.
type result struct {
	Recording string  `json:"recording"`
	Zone      string  `json:"zone"`
	Pair      string  `json:"pair"`
	Hours     float64 `json:"hours"`
	// Starts is as requested, with the seed: stored results are valid for the same request only.
	Starts    string           `json:"starts"`
	Crossings int              `json:"crossings"` // number of crossings of the on-demand price, by either type
	Took      float64          `json:"took_seconds"`
	Policies  map[string][]run `json:"policies"` // by variant, start by start
}

// run is the result of a start.
type run struct {
	Cost  float64 `json:"cost"` // as a share of undisturbed work on demand
	Hours float64 `json:"hours"`
}

func runOf(r sweep.Row) run {
	round := func(x float64) float64 { return math.Round(1e5*x) / 1e5 }
	return run{Cost: round(float64(r.Cost) / float64(market.Dollar) / r.OnDemand), Hours: round(r.Runtime.Hours())}
}

func (r *result) key() string {
	return fmt.Sprintf("%s/%s/%s/%g/%s", r.Recording, r.Zone, r.Pair, r.Hours, r.Starts)
}

// variant is a policy by kill and restart, with a cost of saving.
type variant struct {
	policy string
	cost   sim.Checkpoints
}

func (v variant) String() string {
	if v.cost.Save > 0 {
		return fmt.Sprintf("%s, %.0f s to save", v.policy, v.cost.Save.Seconds())
	}
	return fmt.Sprintf("%s +%.0f %%", v.policy, 100*v.cost.Overhead)
}

// measuredSave is how long one machine takes to save 2 GB to a store and, approximately, to read it back: `make
// save-cost`, on a busy computer.
const measuredSave = 64 * time.Second

// Policies of the two kinds of fleet, with TierML's reliable tier and with all machines alike. The overheads are the
// cost of saving checkpoints in the paper's section 4.7, and its upper limit. Aggressive bids are paid in full.
var (
	tiered    = []string{"tierml", "tierml-noswitch", "cost-per-work"}
	flat      = []string{"on-demand", "checkpoint"}
	measured  = variant{"checkpoint", sim.Checkpoints{Model: 2e9, Bandwidth: 2e9 / measuredSave.Seconds(), Save: measuredSave}}
	overheads = []variant{{"checkpoint", sim.Checkpoints{Overhead: 0.18}}, {"checkpoint", sim.Checkpoints{Overhead: 0.5}}}
)

// study is the set of runs.
type study struct {
	fleet  fleet
	hours  []time.Duration
	when   sweep.Starts
	starts string       // as requested
	kept   bool         // run nothing: use only stored results
	told   func(string) // progress
}

// run simulates the cells at all lengths. Stored results are reused; new ones are added to the file.
func (s study) run(ctx context.Context, cells []cell, file string) (out []result, err error) {
	kept, err := read(file)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	for n, c := range cells {
		for _, hours := range s.hours {
			want := result{Recording: c.recording, Zone: c.pools[0].Pool.Zone, Pair: c.pair(), Hours: hours.Hours(),
				Starts: fmt.Sprintf("%s, seed %d", s.starts, s.when.Seed)}
			got, ok := kept[want.key()]
			if !ok && s.kept {
				continue
			}
			if !ok {
				if got, err = s.cell(ctx, c, hours, want); err != nil {
					return nil, fmt.Errorf("%s: %w", c, err)
				}
				if err := keep(file, got); err != nil {
					return nil, err
				}
				s.told(fmt.Sprintf("cell %d of %d: %s, %.0f h, %d starts in %.1f s; %s so far", n+1, len(cells), c, hours.Hours(),
					len(got.Policies["tierml"]), got.Took, time.Since(began).Round(time.Second)))
			}
			out = append(out, got)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%q has no results of these cells, lengths and starts", file)
	}
	return out, nil
}

// cell simulates a cell at a length.
func (s study) cell(ctx context.Context, c cell, hours time.Duration, r result) (result, error) {
	began := time.Now()
	r.Policies = map[string][]run{}
	add := func(transient int, rules string, checkpoints sim.Checkpoints, policies []string, name func(policy string) string) error {
		cfg, err := c.config(s.fleet, transient, rules)
		if err != nil {
			return err
		}
		cfg.Checkpoints = checkpoints
		plan := sweep.Experiment{Job: cfg, Policies: policies, Hours: []time.Duration{hours}, Starts: s.when}
		take := func(row sweep.Row) error {
			if !row.Finished() {
				return fmt.Errorf("%s from %s: %s; the cell is no comparison of equal work", row.Policy, row.Start.Format(time.RFC3339), row.Outcome)
			}
			r.Policies[name(row.Policy)] = append(r.Policies[name(row.Policy)], runOf(row))
			return nil
		}
		return sweep.Stream(ctx, plan, take, func(int, int) {})
	}
	same := func(policy string) string { return policy }
	all, transient := s.fleet.machines, s.fleet.machines-s.fleet.reliable
	err := errors.Join(add(transient, "ec2-2017", sim.Checkpoints{}, tiered, same), add(all, "ec2-2017", sim.Checkpoints{}, flat, same),
		add(transient, "ec2-pay-bid", sim.Checkpoints{}, []string{"tierml-aggressive"}, same),
		add(all, "ec2-pay-bid", sim.Checkpoints{}, []string{"checkpoint-aggressive"}, same))
	for _, v := range append([]variant{measured}, overheads...) {
		err = errors.Join(err, add(all, "ec2-2017", v.cost, []string{v.policy}, func(string) string { return v.String() }))
	}
	for _, p := range c.pools {
		r.Crossings += crossings(p.History, p.Type.OnDemand)
	}
	r.Took = time.Since(began).Seconds()
	return r, err
}

// read returns the results stored in a file, one per line, by key.
func read(file string) (map[string]result, error) {
	kept := map[string]result{}
	if file == "" {
		return kept, nil
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return kept, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<28)
	for lines.Scan() {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		kept[r.key()] = r
	}
	return kept, lines.Err()
}

func keep(file string, r result) error {
	if file == "" {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
