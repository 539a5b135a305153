package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/sim/sweep"
	"github.com/tierml/tierml/tiers"
)

// availability are the recordings of which machines could be had: SkyPilot's, below a folder.
func availability(data string) (files []string, err error) {
	root := filepath.Join(data, "availability", "skypilot", "availability")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(d.Name(), ".json") {
			files = append(files, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return files, err
}

// deadlines compares deadline with uniform-progress: 24 hours of work, all slacks and changeovers of Can't Be Late.
func deadlines(ctx context.Context, files []string, starts int, seed uint64) ([]sweep.Cell, error) {
	rules, err := market.Rules("gce-spot")
	if err != nil {
		return nil, err
	}
	study := sweep.Deadlines{Policies: []string{"deadline", "uniform-progress"}, Work: 24 * time.Hour, Slacks: []float64{1.1, 1.25, 1.5, 2},
		Changeovers: []time.Duration{6 * time.Minute, 12 * time.Minute}, Rules: rules, Starts: starts, Seed: seed}
	for _, file := range files {
		r, err := sweep.ReadRecording(file, "", sweep.SpotShare)
		if err != nil {
			return nil, err
		}
		study.Recordings = append(study.Recordings, r)
	}
	return study.Run(ctx, func(int, int) {})
}

// setting is a slack with a changeover.
type setting struct{ slack, changeover float64 }

func (p *page) deadlines(cells []sweep.Cell, took time.Duration) {
	p.heading("Deadlines: `deadline` beside Uniform Progress")
	recordings, runs := map[string]bool{}, 0
	mean, count, worst := map[setting][2]float64{}, map[setting]int{}, map[setting]float64{}
	var missed [2]int
	var order []setting
	for i := 0; i+1 < len(cells); i += 2 {
		ours, theirs := cells[i], cells[i+1]
		s := setting{ours.Slack, ours.Changeover}
		if count[s]++; count[s] == 1 {
			order, worst[s] = append(order, s), math.Inf(-1)
		}
		m := mean[s]
		mean[s] = [2]float64{m[0] + ours.CostMean, m[1] + theirs.CostMean}
		worst[s] = max(worst[s], ours.CostMean/theirs.CostMean-1)
		missed[0], missed[1] = missed[0]+ours.Missed, missed[1]+theirs.Missed
		recordings[ours.Recording] = true
		runs += ours.Starts
	}
	p.line("Work of 24 hours on one fleet, on %d recordings of which machines could be had (skypilot-org/spot-traces; Can't Be Late,", len(recordings))
	p.line("NSDI 24). Costs are in hours of the fleet on demand; %d cells of recording, slack and changeover, %d starts by each policy (%s).", len(cells)/2, runs, took.Round(time.Second))
	p.line("Deadlines missed: `deadline` %d, `uniform-progress` %d. `tierml dry-run --availability FILE` runs the same on any recording.\n", missed[0], missed[1])
	p.line("| slack | changeover | recordings | `uniform-progress` | `deadline` | | the worst cell |")
	p.line("|---|---|---|---|---|---|---|")
	slices.SortFunc(order, func(a, b setting) int {
		return cmp.Or(cmp.Compare(a.slack, b.slack), cmp.Compare(a.changeover, b.changeover))
	})
	for _, s := range order {
		n := float64(count[s])
		p.line("| %g | %.0f min | %d | %.2f | %.2f | %+.1f %% | %+.1f %% |", s.slack, 60*s.changeover, count[s], mean[s][1]/n, mean[s][0]/n,
			100*(mean[s][0]/mean[s][1]-1), 100*worst[s])
	}
}

// capacityPools are the pools of the study of capacity: recorded prices of 2021, when the bid no longer decided.
func capacityPools(data string) ([]bidding.Candidate, error) {
	types := []string{"c5.xlarge", "c5.2xlarge", "c5d.2xlarge", "m5.xlarge"}
	recorded, err := local.ReadPrices(filepath.Join(data, "spot", "aws-us-east-1-2021-03-to-04.csv.gz"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	catalog, err := local.ReadCatalog(filepath.Join(data, "catalog", "aws-ondemand-linux-2022-06-22.csv.gz"))
	if err != nil {
		return nil, err
	}
	var pools []bidding.Candidate
	for _, m := range recorded.Markets {
		if t, ok := catalog.Lookup(m.Pool.Region, m.Pool.Type); ok && t.VCPU > 0 && slices.Contains(types, t.Name) {
			pools = append(pools, bidding.Candidate{Pool: m.Pool, Type: t, History: m.History})
		}
	}
	slices.SortFunc(pools, func(a, b bidding.Candidate) int { return a.Pool.Compare(b.Pool) })
	return pools, nil
}

// capacity compares the policy over all pools with single zones and single pools: 8 hours' work for 64 vCPUs.
func capacity(ctx context.Context, pools []bidding.Candidate, files []string, layouts, starts int, seed uint64) ([]sweep.Option, error) {
	rules, err := market.Rules("ec2-now")
	if err != nil {
		return nil, err
	}
	cheap := slices.MinFunc(pools, func(a, b bidding.Candidate) int {
		return cmp.Or(cmp.Compare(float64(a.Type.OnDemand)/a.Type.WorkRate(), float64(b.Type.OnDemand)/b.Type.WorkRate()),
			cmp.Compare(a.Type.VCPU, b.Type.VCPU))
	})
	cheap.Pool.Class = market.OnDemand
	const vcpu = 64
	study := sweep.Capacity{Layouts: layouts, Starts: starts, Seed: seed, Job: sweep.OnEC2(sim.Config{
		Name: "capacity", Seed: seed, Policy: bidding.Capacity{}, Rules: rules, Want: bidding.Want{VCPU: vcpu}, Pools: pools,
		Job:        sim.Job{Clocks: 60, Splits: vcpu, Partitions: 2, Work: 1},
		Reliable:   elasticity.Reliable{Pool: cheap.Pool, Type: cheap.Type, Count: 1},
		Equivalent: elasticity.Reliable{Pool: cheap.Pool, Type: cheap.Type, Count: (vcpu + cheap.Type.VCPU - 1) / cheap.Type.VCPU},
		Stages:     tiers.Thresholds{TwoAbove: 1, ThreeAbove: 15}, FLOPSPerVCPU: 1,
	}, 8*time.Hour)}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		probes, err := trace.ReadAvailability(f, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		study.Recordings = append(study.Recordings, probes.Availability)
	}
	return study.Run(ctx, func(int, int) {})
}

func (p *page) capacity(choices []sweep.Option, layouts int, took time.Duration) {
	p.heading("Capacity: all pools beside single ones")
	p.line("Work of 8 hours for 64 vCPUs on the prices of 2021, billed by `ec2-now`, with recordings of availability laid over the pools in")
	p.line("%d ways; %d starts (%s). Dollars in percent of the undisturbed work on demand; the last column is the difference from all pools", layouts, choices[0].Starts, took.Round(time.Second))
	p.line("with its 90 %% interval. It compares policies and predicts no bill. `make capacity` runs it on other types and recordings.\n")
	p.line("| pools | policy | finished | per finished run | per work done | hours | evictions | per finished run, less all pools' |")
	p.line("|---|---|---|---|---|---|---|---|")
	for _, c := range choices {
		high := fmt.Sprintf("%+.2f", 100*c.High)
		if c.High > 1e6 {
			high = "no end"
		}
		p.line("| %s | %s | %d of %d | %.2f | %.2f | %.2f | %.1f | %+.2f [%+.2f, %s] |", c.Name, c.Policy, c.Finished, c.Starts, 100*c.PerFinished,
			100*c.PerWork, c.RuntimeMean.Hours(), c.Evictions, 100*(c.PerFinished-choices[0].PerFinished), 100*c.Low, high)
	}
	for _, kind := range []string{"zone", "pool"} {
		some := slices.DeleteFunc(slices.Clone(choices[1:]), func(c sweep.Option) bool { return strings.Contains(c.Name, " in ") != (kind == "pool") })
		if len(some) == 0 {
			continue
		}
		best := slices.MinFunc(some, func(a, b sweep.Option) int { return cmp.Compare(a.PerFinished, b.PerFinished) })
		verdict := "costs more than all pools"
		if best.PerFinished <= choices[0].PerFinished {
			verdict = "costs less than all pools"
		}
		p.line("\nThe cheapest single %s per finished run, %s by `%s`, %s: %.2f %% and %.2f %%.", kind, best.Name, best.Policy, verdict,
			100*best.PerFinished, 100*choices[0].PerFinished)
	}
}
