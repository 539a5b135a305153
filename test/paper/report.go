package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/sim/sweep"
)

// restless is how often prices of a cell must exceed on-demand so that policies differ.
const restless = 10

// page is docs/papers/paper.md.
type page struct {
	strings.Builder
	hours []time.Duration
}

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *page) heading(text string) { p.line("\n## %s\n", text) }

// of selects the results of a length, of restless cells or all.
func of(results []result, hours time.Duration, onlyRestless bool) (out []result) {
	for _, r := range results {
		if r.Hours == hours.Hours() && (!onlyRestless || r.Crossings >= restless) {
			out = append(out, r)
		}
	}
	return out
}

// mean is that of a figure over cells, each counting the same.
func mean(results []result, figure func(result) float64) float64 {
	sum := 0.0
	for _, r := range results {
		sum += figure(r) / float64(len(results))
	}
	return sum
}

// costShare is a policy's mean cost as a share of another's; undisturbed on demand when that is "".
func costShare(policy, than string) func(result) float64 {
	return func(r result) float64 {
		s := r.Policies[policy]
		if than == "" {
			return s.CostMean / s.OnDemandCost
		}
		return s.CostMean / r.Policies[than].CostMean
	}
}

// p95Share is a policy's 95th percentile as a share of the cost on demand.
func p95Share(policy string) func(result) float64 {
	return func(r result) float64 { return r.Policies[policy].CostP95 / r.Policies[policy].OnDemandCost }
}

func timeShare(policy, than string) func(result) float64 {
	return func(r result) float64 {
		if than == "" {
			return r.Policies[policy].RuntimeMean / r.Hours
		}
		return r.Policies[policy].RuntimeMean / r.Policies[than].RuntimeMean
	}
}

// standardError is that of the mean of costShare(policy, "") over cells: from the spread of the starts in each.
func standardError(results []result, policy string) float64 {
	sum := 0.0
	for _, r := range results {
		s := r.Policies[policy]
		e := s.CostSD / s.OnDemandCost / math.Sqrt(float64(max(s.Compared, 1)))
		sum += e * e
	}
	return math.Sqrt(sum) / float64(max(len(results), 1))
}

// groups are all cells, and those in which prices moved.
func (p *page) groups(results []result, tell func(name string, hours time.Duration, some []result)) {
	for _, onlyRestless := range []bool{false, true} {
		name := "all"
		if onlyRestless {
			name = "restless"
		}
		for _, hours := range p.hours {
			if some := of(results, hours, onlyRestless); len(some) > 0 {
				tell(name, hours, some)
			}
		}
	}
}

// prices prints what the price recordings come to.
func (p *page) prices(results []result, o *options) {
	starts, runs, took := map[int]bool{}, 0, 0.0
	cells := map[string]bool{}
	for _, r := range results {
		n := r.Policies["tierml"].Starts
		starts[n] = true
		runs += n * len(r.Policies)
		took += r.Took
		cells[r.Recording+r.Zone+r.Pair] = true
	}
	p.line("# TierML's analysis on recorded prices\n")
	p.line("Written by `make paper STARTS=%s` (see test/paper; [below](#run-it-yourself)): the simulator, controller and policies of `tierml", o.starts)
	p.line("dry-run` on %d cells (a pair of types in one zone) of recorded prices, beside the figures of TierML (CMU-PDL-16-102). The fleet", len(cells))
	p.line("has %d machines of the larger type, or as many vCPUs of the smaller; TierML has %d of them on demand. Billing is `ec2-2017`.", o.machines, o.reliable)
	p.line("Each start has 7 days of prices before it. A cell is *restless* when its prices exceed on-demand %d times or more. %s starts of", restless, startsText(starts))
	p.line("each cell and length; %d simulated runs took %s.", runs, (time.Duration(took * float64(time.Second))).Round(time.Second))
	p.figure1(results, o)
	p.figure12(results)
	p.overheads(results)
	p.switching(results)
	p.costPerWork(results)
}

func startsText(starts map[int]bool) string {
	least, most := math.MaxInt, 0
	for n := range starts {
		least, most = min(least, n), max(most, n)
	}
	if least == most {
		return fmt.Sprint(most)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

func (p *page) figure1(results []result, o *options) {
	hours := p.hours[0]
	if slices.Contains(p.hours, 4*time.Hour) {
		hours = 4 * time.Hour
	}
	h, quarter := hours.Hours(), max(o.machines/4, 1)
	p.heading(fmt.Sprintf("Figure 1: %g hours on %d machines", h, o.machines))
	p.line("Cost is a share of %d machines on demand, undisturbed; time in hours. The simulator's work is evenly divisible, so that %d", o.machines, quarter)
	p.line("machines take %.3g times as long and cost the same; real ones lose less to communication.\n", float64(o.machines)/float64(quarter))
	p.line("| | cost, all cells | cost, restless | hours, all | hours, restless |")
	p.line("|---|---|---|---|---|")
	all, wild := of(results, hours, false), of(results, hours, true)
	row := func(name, policy string) {
		p.line("| %s | %.2f | %.2f | %.2f | %.2f |", name, mean(all, costShare(policy, "")), mean(wild, costShare(policy, "")),
			h*mean(all, timeShare(policy, "")), h*mean(wild, timeShare(policy, "")))
	}
	row(fmt.Sprintf("%d on demand, with start-up and whole hours", o.machines), "on-demand")
	long := h * float64(o.machines) / float64(quarter)
	p.line("| %d on demand, undisturbed | 1.00 | 1.00 | %.2f | %.2f |", quarter, long, long)
	row("checkpoint, at our costs of saving", "checkpoint")
	for _, v := range overheads {
		if v.policy == "checkpoint" {
			row(fmt.Sprintf("checkpoint, work %.0f %% longer by it", 100*v.overhead), v.String())
		}
	}
	row("tierml", "tierml")
}

// bidRules are the two of figure 12, with what the paper says of them.
var bidRules = []struct{ name, tierml, checkpoint, paper string }{
	{"bid the on-demand price", "tierml", "checkpoint",
		"74-78 % saved against on demand, 46-50 % against checkpointing; run time +11 % (TierML), +38 % (checkpointing); 95th percentile 59 % and 32 % below on demand"},
	{"aggressive bids", "tierml-aggressive", "checkpoint-aggressive", "66-70 %, 52-55 %; +23 %, +62 %"},
}

func (p *page) figure12(results []result) {
	p.heading("Figure 12: savings and run times")
	p.line("Savings of the mean cost (with the standard error that few starts leave), run times against the undisturbed ones; each cell")
	p.line("counts the same. Checkpointing is at our costs of saving and restarting: 2 GB at 100 MB/s, 20 s to save and 50 s to restart.\n")
	for _, rule := range bidRules {
		p.line("**%s** (the paper: %s)\n", rule.name, rule.paper)
		p.line("| cells | hours | cells | saves against on demand | against checkpointing | run time, TierML | run time, checkpointing | P95 below on demand, TierML | P95 below, checkpointing |")
		p.line("|---|---|---|---|---|---|---|---|---|")
		p.groups(results, func(name string, hours time.Duration, some []result) {
			p.line("| %s | %g | %d | %.0f ± %.1f %% | %.0f %% | %+.0f %% | %+.0f %% | %.0f %% | %.0f %% |", name, hours.Hours(), len(some),
				100*(1-mean(some, costShare(rule.tierml, ""))), 100*standardError(some, rule.tierml), 100*(1-mean(some, costShare(rule.tierml, rule.checkpoint))),
				100*(mean(some, timeShare(rule.tierml, ""))-1), 100*(mean(some, timeShare(rule.checkpoint, ""))-1),
				100*(1-mean(some, p95Share(rule.tierml))), 100*(1-mean(some, p95Share(rule.checkpoint))))
		})
		p.line("")
	}
}

// overheads says what the comparison with checkpointing rests on.
func (p *page) overheads(results []result) {
	p.heading("What the comparison with checkpointing rests on")
	p.line("The paper's runs by checkpoint take 38 %% longer than undisturbed ones (62 %% with aggressive bids). What share of that is taking")
	p.line("checkpoints is not ours to know; 17 %% and all of it are tried below, as `--checkpoint overhead=0.17` does: work on spot machines")
	p.line("takes longer by that share all the while. *Cost* and run time are those of checkpointing, as shares of undisturbed work on")
	p.line("demand; *TierML saves* is against it.\n")
	p.line("| cells | hours | policy | cost | run time | TierML saves |")
	p.line("|---|---|---|---|---|---|")
	p.groups(results, func(name string, hours time.Duration, some []result) {
		for _, v := range append([]variant{{"checkpoint", 0}, {"checkpoint-aggressive", 0}}, overheads...) {
			tierml := "tierml"
			if v.policy != "checkpoint" {
				tierml = "tierml-aggressive"
			}
			p.line("| %s | %g | %s | %.2f | %+.0f %% | %.0f %% |", name, hours.Hours(), v, mean(some, costShare(v.String(), "")),
				100*(mean(some, timeShare(v.String(), ""))-1), 100*(1-mean(some, costShare(tierml, v.String()))))
		}
	})
}

func (p *page) switching(results []result) {
	p.heading("Section 4.6: what switching alone is worth")
	p.line("`tierml` against `tierml-noswitch`. The paper: -34 %% cost, -8 %% run time.\n")
	p.line("| cells | hours | cost | run time | the cell that gains most | its cost |")
	p.line("|---|---|---|---|---|---|")
	p.groups(results, func(name string, hours time.Duration, some []result) {
		gain := costShare("tierml", "tierml-noswitch")
		best := slices.MinFunc(some, func(a, b result) int { return compare(gain(a), gain(b)) })
		p.line("| %s | %g | %+.1f %% | %+.1f %% | %s | %+.1f %% |", name, hours.Hours(), 100*(mean(some, gain)-1),
			100*(mean(some, timeShare("tierml", "tierml-noswitch"))-1), best.name(), 100*(gain(best)-1))
	})
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (r *result) name() string { return r.Recording + " " + r.Zone + " " + r.Pair }

func (p *page) costPerWork(results []result) {
	p.heading("Cost per work against tierml and the oracle")
	p.line("Means over cells, as shares of on demand; *dearer* is in how many cells it costs more than `tierml`, and by how much in the worst.")
	p.line("[The oracle](../oracle.md) is asked twice: *one fleet* bids the on-demand price, as `tierml` does, and replaces machines only when their")
	p.line("paid hour ends; *any bid* knows besides which hours will be interrupted below that price, and free. Only the latter bounds")
	p.line("`cost-per-work`, which bids lower, too. *Kept* is the share of their savings on on-demand that `cost-per-work` has: of the")
	p.line("mean cell, and of the dollars of all cells together.\n")
	p.line("| cells | hours | tierml | cost-per-work | against tierml | dearer | worst | one fleet | kept | any bid | kept |")
	p.line("|---|---|---|---|---|---|---|---|---|---|---|")
	p.groups(results, func(name string, hours time.Duration, some []result) {
		dearer, worst := 0, math.Inf(-1)
		for _, r := range some {
			excess := costShare("cost-per-work", "tierml")(r) - 1
			if worst = max(worst, excess); excess > 0 {
				dearer++
			}
		}
		ours, theirs := mean(some, costShare("cost-per-work", "")), mean(some, costShare("tierml", ""))
		p.line("| %s | %g | %.3f | %.3f ± %.3f | %+.1f %% | %d of %d | %+.1f %% | %s | %s |", name, hours.Hours(), theirs, ours,
			standardError(some, "cost-per-work"), 100*(ours/theirs-1),
			dearer, len(some), 100*worst, kept(some, sweep.OracleOneFleet), kept(some, sweep.Oracle))
	})
}

// kept is what an oracle pays and how much of its saving cost-per-work has: of the mean cell, and of all dollars.
func kept(some []result, oracle string) string {
	if _, known := some[0].Policies[oracle]; !known {
		return " | "
	}
	var onDemand, ours, best float64
	for _, r := range some {
		s := r.Policies["cost-per-work"]
		onDemand, ours, best = onDemand+s.OnDemandCost, ours+s.CostMean, best+r.Policies[oracle].CostMean
	}
	mine, its := mean(some, costShare("cost-per-work", "")), mean(some, costShare(oracle, ""))
	return fmt.Sprintf("%.3f | %.1f %%, %.1f %%", its, 100*(1-mine)/(1-its), 100*(onDemand-ours)/(onDemand-best))
}

// cells prints every cell by itself.
func (p *page) cells(results []result) {
	p.heading("Every cell")
	p.line("Shares of the undisturbed cost on demand; run times against the undisturbed ones. TierML and checkpointing by the bid of the")
	p.line("on-demand price and, behind a stroke, by aggressive bids; the oracle with one fleet and, behind it, at any bid.\n")
	p.line("| cell | crossings | hours | starts | tierml | checkpoint | +38 %% | cost-per-work | oracle | switching | run time, tierml | run time, checkpoint | P95, tierml | evictions |")
	p.line("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	sorted := slices.Clone(results)
	slices.SortStableFunc(sorted, func(a, b result) int { return b.Crossings - a.Crossings })
	for _, r := range sorted {
		share := func(policy string) float64 { return costShare(policy, "")(r) }
		longer := func(policy string) float64 { return 100 * (timeShare(policy, "")(r) - 1) }
		oracle := ""
		if _, known := r.Policies[sweep.Oracle]; known {
			oracle = fmt.Sprintf("%.3f / %.3f", share(sweep.OracleOneFleet), share(sweep.Oracle))
		}
		p.line("| %s | %d | %g | %d | %.3f / %.3f | %.3f / %.3f | %.3f | %.3f | %s | %+.1f %% | %+.0f / %+.0f %% | %+.0f / %+.0f %% | %.2f / %.2f | %.0f / %.0f |",
			r.name(), r.Crossings, r.Hours, r.Policies["tierml"].Starts, share("tierml"), share("tierml-aggressive"), share("checkpoint"),
			share("checkpoint-aggressive"), share(overheads[1].String()), share("cost-per-work"), oracle,
			100*(costShare("tierml", "tierml-noswitch")(r)-1), longer("tierml"), longer("tierml-aggressive"), longer("checkpoint"),
			longer("checkpoint-aggressive"), p95Share("tierml")(r), p95Share("tierml-aggressive")(r),
			r.Policies["tierml"].EvictionsMean, r.Policies["tierml-aggressive"].EvictionsMean)
	}
}
