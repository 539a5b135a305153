package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/sim/sweep"
)

// restless is the number of on-demand crossings from which on a cell counts as restless.
const restless = 10

// report writes a page of Markdown.
func report(w io.Writer, results []result, starts string) error {
	p := &page{}
	p.line("# TierML's analysis on recorded prices")
	p.line("")
	p.line("Written by `make paper STARTS=%s` (see test/paper): the simulator, controller and policies of `tierml dry-run` on cells", starts)
	p.line("(a pair of types in one zone) of recorded prices, beside the figures of TierML (CMU-PDL-16-102). The fleet has 64 machines of the")
	p.line("larger type, or as many vCPUs of the smaller; TierML has 4 of them on demand. Billing is `ec2-2017`. Each start has 7 days")
	p.line("of prices before it. A cell is *restless* when its prices exceed on-demand %d times or more.", restless)
	p.figure1(results)
	p.figure12(results)
	p.switching(results)
	p.costPerWork(results)
	p.reading()
	_, err := io.WriteString(w, p.String())
	return err
}

type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// of selects the results of a length, of restless cells or all.
func of(results []result, hours time.Duration, onlyRestless bool) (out []result) {
	for _, r := range results {
		if r.hours == hours && (!onlyRestless || r.crossings >= restless) {
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
		s := r.policies[policy]
		if than == "" {
			return s.CostMean / s.OnDemandCost
		}
		return s.CostMean / r.policies[than].CostMean
	}
}

// p95Share is a policy's 95th percentile as a share of the mean cost on demand or of another policy.
func p95Share(policy, than string) func(result) float64 {
	return func(r result) float64 {
		s := r.policies[policy]
		if than == "" {
			return s.CostP95 / s.OnDemandCost
		}
		return s.CostP95 / r.policies[than].CostMean
	}
}

func timeShare(policy, than string) func(result) float64 {
	return func(r result) float64 {
		if than == "" {
			return r.policies[policy].RuntimeMean / r.hours.Hours()
		}
		return r.policies[policy].RuntimeMean / r.policies[than].RuntimeMean
	}
}

func (p *page) heading(text string) { p.line("\n## %s\n", text) }

func (p *page) figure1(results []result) {
	p.heading("Figure 1: four hours on 64 machines")
	p.line("Cost is a share of 64 machines on demand, undisturbed; time in hours. The simulator's work is evenly divisible, so that 16")
	p.line("machines take four times as long and cost the same; real ones lose less to communication.\n")
	p.line("| | cost, all cells | cost, restless | hours, all | hours, restless |")
	p.line("|---|---|---|---|---|")
	all, wild := of(results, 4*time.Hour, false), of(results, 4*time.Hour, true)
	p.line("| 64 on demand, with start-up and whole hours | %.2f | %.2f | %.2f | %.2f |", mean(all, costShare("on-demand", "")),
		mean(wild, costShare("on-demand", "")), 4*mean(all, timeShare("on-demand", "")), 4*mean(wild, timeShare("on-demand", "")))
	p.line("| 16 on demand, undisturbed | 1.00 | 1.00 | 16.00 | 16.00 |")
	for _, policy := range []string{"checkpoint", "tierml"} {
		p.line("| %s | %.2f | %.2f | %.2f | %.2f |", policy, mean(all, costShare(policy, "")), mean(wild, costShare(policy, "")),
			4*mean(all, timeShare(policy, "")), 4*mean(wild, timeShare(policy, "")))
	}
}

func (p *page) figure12(results []result) {
	p.heading("Figure 12: savings and run times")
	p.line("Savings of the mean cost, run times against the undisturbed ones; each cell counts the same.\n")
	rules := []struct{ name, tierml, checkpoint, paper string }{
		{"bid the on-demand price", "tierml", "checkpoint",
			"74-78 % saved against on demand, 46-50 % against checkpointing; run time +11 % (TierML), +38 % (checkpointing); 95th percentile 59 % and 32 % below on demand"},
		{"aggressive bids", "tierml-aggressive", "checkpoint-aggressive", "66-70 %, 52-55 %; +23 %, +62 %"},
	}
	for _, rule := range rules {
		p.line("**%s** (the paper: %s)\n", rule.name, rule.paper)
		p.line("| cells | hours | cells | saves against on demand | against checkpointing | run time, TierML | run time, checkpointing | P95 below on demand, TierML | P95 below, checkpointing |")
		p.line("|---|---|---|---|---|---|---|---|---|")
		for _, onlyRestless := range []bool{false, true} {
			for _, hours := range lengths {
				some := of(results, hours, onlyRestless)
				if len(some) == 0 {
					continue
				}
				p.line("| %s | %.0f | %d | %.0f %% | %.0f %% | %+.0f %% | %+.0f %% | %.0f %% | %.0f %% |", kind(onlyRestless), hours.Hours(), len(some),
					100*(1-mean(some, costShare(rule.tierml, ""))), 100*(1-mean(some, costShare(rule.tierml, rule.checkpoint))),
					100*(mean(some, timeShare(rule.tierml, ""))-1), 100*(mean(some, timeShare(rule.checkpoint, ""))-1),
					100*(1-mean(some, p95Share(rule.tierml, ""))), 100*(1-mean(some, p95Share(rule.checkpoint, ""))))
			}
		}
		p.line("")
	}
}

func kind(onlyRestless bool) string {
	if onlyRestless {
		return "restless"
	}
	return "all"
}

func (p *page) switching(results []result) {
	p.heading("Section 4.6: what switching alone is worth")
	p.line("`tierml` against `tierml-noswitch`. The paper: -34 %% cost, -8 %% run time.\n")
	p.line("| cells | hours | cost | run time |")
	p.line("|---|---|---|---|")
	for _, onlyRestless := range []bool{false, true} {
		for _, hours := range lengths {
			if some := of(results, hours, onlyRestless); len(some) > 0 {
				p.line("| %s | %.0f | %+.1f %% | %+.1f %% |", kind(onlyRestless), hours.Hours(),
					100*(mean(some, costShare("tierml", "tierml-noswitch"))-1), 100*(mean(some, timeShare("tierml", "tierml-noswitch"))-1))
			}
		}
	}
}

func (p *page) costPerWork(results []result) {
	p.heading("Cost per work against tierml and the oracle")
	p.line("Mean costs in dollars. *Kept* is the share of the oracle's saving on on-demand ([the oracle](oracle.md) bids the on-demand price).\n")
	p.line("| cell | crossings | hours | on demand | checkpoint | tierml | cost-per-work | against tierml | oracle | kept |")
	p.line("|---|---|---|---|---|---|---|---|---|---|")
	sorted := slices.Clone(results)
	slices.SortStableFunc(sorted, func(a, b result) int { return b.crossings - a.crossings })
	dearer, sum, base := 0, 0.0, 0.0
	for _, r := range sorted {
		t, c, o := r.policies["tierml"], r.policies["cost-per-work"], r.policies[sweep.Oracle]
		p.line("| %s | %d | %.0f | %.2f | %.2f | %.2f | %.2f | %+.1f %% | %.2f | %.0f %% |", r.cell, r.crossings, r.hours.Hours(), t.OnDemandCost,
			r.policies["checkpoint"].CostMean, t.CostMean, c.CostMean, 100*(c.CostMean/t.CostMean-1), o.CostMean,
			100*(t.OnDemandCost-c.CostMean)/(t.OnDemandCost-o.CostMean))
		if r.crossings >= restless {
			sum, base = sum+c.CostMean/t.OnDemandCost, base+t.CostMean/t.OnDemandCost
			if c.CostMean > t.CostMean {
				dearer++
			}
		}
	}
	if base > 0 {
		p.line("\nOver the restless cells, each length counting the same: %+.1f %%; dearer in %d.", 100*(sum/base-1), dearer)
	}
}

// reading is what we make of the differences.
func (p *page) reading() {
	p.heading("Where ours differ, and why")
	p.line(`- **Against on demand** TierML saves about what the paper says over all cells, and less where prices cross on-demand often: there the
  fleet starts anew, or goes on on demand, several times in a run.
- **Against checkpointing** it saves nothing here, as the baseline is far cheaper than the paper's. Its run takes a few per cent longer
  than undisturbed (the paper: 38 %%): it saves at Young's interval for the MTTF, a save and a restart cost what the policy
  declares. And it holds no reliable machines, where TierML pays for four of 64 on
  demand: a third of its cost in calm cells. What a save costs decides this comparison; measure it for your model.
- **Run times** of TierML are a start-up of ten minutes (reliable machines first) and little else.
- **Switching** alone changes little: the types of a pair mostly stay calm or cross together, and to switch is to pay a begun
  hour twice. The paper's pair presumably crossed at different times.
- **The paper's types**, c4.xlarge and c4.2xlarge from January to March 2016, are not recorded anywhere that we found. Prices are those of
  aws-us-east-1-2016-02-to-04 (hshazly/Amazon-Spot-Price-Estimator) and aws-us-west-1a-c3-2014 (AWS-Spot-Analysis/spot-analysis), with
  on-demand prices of February 2016 and April 2015.
- **Few starts** per cell (see the command above) make single cells uncertain, above all restless ones.`)
}
