package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim/sweep"
	"github.com/tierml/tierml/tiers"
)

// foretold is the cost of an hour of work in a pool, as shares of the on-demand price, given some knowledge of the
// future.
type foretold struct {
	pool     string
	least    float64   // on the chain, computed: knowing only its odds
	drawn    []float64 // on a path drawn from the chain, by lookahead
	recorded []float64 // on the recording itself
	ours     float64   // cost-per-work, simulated on the drawn path; jobs of chainWork
	error    float64   // its standard error
}

// lookaheads are the numbers of known steps at each moment.
var lookaheads = []int{0, 3, 12, 48, everything}

const (
	everything = 1 << 30
	chainDays  = 40
	chainWork  = 20 * time.Hour
)

// foretell returns the value of knowing some of a pool's future.
func foretell(ctx context.Context, pool bidding.Candidate, f fleet, starts int, seed uint64) (foretold, error) {
	c := fitChain(pool.History, pool.Type.OnDemand)
	price := dollars(pool.Type.OnDemand)
	r := &reach{chain: c, upkeep: price * float64(f.reliable) / float64(f.machines-f.reliable)}
	path := c.draw(c.recorded[0], chainDays*24*hourSteps, rand.New(rand.NewPCG(seed, 3)))
	least := r.least()
	out := foretold{pool: pool.Pool.Zone + " " + pool.Type.Name, least: least / price}
	for _, ahead := range lookaheads {
		out.drawn = append(out.drawn, r.known(path, ahead, least)/price)
		out.recorded = append(out.recorded, r.known(c.recorded, ahead, least)/price)
	}
	pool.History = c.history(path, time.Date(2016, 1, 1, 0, 0, 0, 0, time.UTC))
	sum, err := alone(ctx, pool, f, starts, seed)
	out.ours, out.error = sum.CostMean/sum.OnDemandCost, sum.CostSD/sum.OnDemandCost/math.Sqrt(float64(max(sum.Compared, 1)))
	return out, err
}

// alone simulates cost-per-work in one pool and on demand, with reliable machines that do not work.
func alone(ctx context.Context, pool bidding.Candidate, f fleet, starts int, seed uint64) (sweep.Summary, error) {
	cfg, err := cell{pools: []bidding.Candidate{pool, pool}}.config(f, f.machines-f.reliable, "ec2-2017")
	if err != nil {
		return sweep.Summary{}, err
	}
	onDemand := pool
	onDemand.Pool.Class, onDemand.History = market.OnDemand, market.Constant(pool.Type.OnDemand)
	cfg.Pools = []bidding.Candidate{onDemand, pool}
	slices.SortFunc(cfg.Pools, func(a, b bidding.Candidate) int { return a.Pool.Compare(b.Pool) })
	cfg.Stages = tiers.Thresholds{TwoAbove: 0.5, ThreeAbove: 1}
	rows, err := sweep.Run(ctx, sweep.Experiment{Job: cfg, Policies: []string{"cost-per-work"}, Hours: []time.Duration{chainWork},
		Starts: sweep.Starts{Count: starts, Seed: seed}}, func(int, int) {})
	if err != nil {
		return sweep.Summary{}, err
	}
	return sweep.Summarize(rows)[0], nil
}

// lookahead studies the value of foresight, in the pools whose prices exceed on-demand most often.
func (p *page) lookahead(ctx context.Context, cells []cell, o *options) error {
	p.line("| pool | prices | odds alone, computed | odds alone | the next 15 min | 1 h | 4 h | everything | `cost-per-work` |")
	p.line("|---|---|---|---|---|---|---|---|---|")
	for _, pool := range wildest(cells, o.lookahead) {
		f, err := foretell(ctx, pool.Candidate, fleet{o.machines, o.reliable}, lookaheadStarts, o.seed)
		if err != nil {
			return fmt.Errorf("%s: %w", pool.Pool, err)
		}
		best := f.drawn[len(f.drawn)-1]
		p.line("| %s %s, %d crossings | drawn | %.3f | %s | %.3f ± %.3f: %.1f %% |", pool.recording, f.pool, pool.crossings, f.least,
			keptOf(f.drawn), f.ours, f.error, 100*(1-f.ours)/(1-best))
		p.line("| | recorded | | %s | |", keptOf(f.recorded))
		fmt.Fprintf(os.Stderr, "%s %s: %+v\n", pool.recording, f.pool, f)
	}
	return nil
}

const lookaheadStarts = 20

// restlessPool is a pool of a recording.
type restlessPool struct {
	bidding.Candidate
	recording string
	crossings int
}

// wildest returns up to most pools whose prices exceed on-demand most often.
func wildest(cells []cell, most int) (out []restlessPool) {
	for _, c := range cells {
		for _, pool := range c.pools {
			known := slices.ContainsFunc(out, func(p restlessPool) bool { return p.recording == c.recording && p.Pool == pool.Pool })
			if !known {
				out = append(out, restlessPool{pool, c.recording, crossings(pool.History, pool.Type.OnDemand)})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b restlessPool) int { return b.crossings - a.crossings })
	return out[:min(most, len(out))]
}

// keptOf formats costs, and the share of the last one's saving that each keeps.
func keptOf(costs []float64) string {
	var words []string
	all := costs[len(costs)-1]
	for _, c := range costs {
		words = append(words, fmt.Sprintf("%.3f: %.1f %%", c, 100*(1-c)/(1-all)))
	}
	return strings.Join(words, " | ")
}
