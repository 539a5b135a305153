package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// restless is how often a cell's prices must exceed on-demand for policies to differ.
const restless = 10

// page is papers/paper.md.
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

// cost returns the mean cost of a policy's runs over some cells, as a share of undisturbed work on demand, and twice
// its standard error. All starts count equally.
func cost(some []result, policy string) (mean, error float64) {
	return pooled(some, policy, func(r run) float64 { return r.Cost })
}

func pooled(some []result, policy string, figure func(run) float64) (mean, error float64) {
	n, variance := 0, 0.0
	for _, r := range some {
		sum, squares, runs := 0.0, 0.0, r.Policies[policy]
		for _, one := range runs {
			sum, squares = sum+figure(one), squares+figure(one)*figure(one)
		}
		if k := float64(len(runs)); k > 1 { // cells are fixed: only starts within them vary
			variance += (squares - sum*sum/k) * k / (k - 1)
		}
		mean, n = mean+sum, n+len(runs)
	}
	return mean / float64(n), 2 * math.Sqrt(variance) / float64(n)
}

// longer returns the mean share by which a policy's runs take longer than undisturbed.
func longer(some []result, policy string) float64 {
	hours, _ := pooled(some, policy, func(r run) float64 { return r.Hours })
	return hours/some[0].Hours - 1
}

// p95 returns the 95th percentile of the costs of all runs in some cells.
func p95(some []result, policy string) float64 {
	var all []float64
	for _, r := range some {
		for _, one := range r.Policies[policy] {
			all = append(all, one.Cost)
		}
	}
	slices.Sort(all)
	return all[max(0, int(math.Ceil(0.95*float64(len(all))))-1)]
}

// saves returns the share of one policy's mean cost that another saves.
func saves(some []result, policy, than string) float64 {
	a, _ := cost(some, policy)
	b, _ := cost(some, than)
	return 1 - a/b
}

// write prints the page: results are for some cells, out of `of` in total.
func (p *page) write(results []result, of int, o *options, c control) {
	cells, starts := map[string]bool{}, map[int]bool{}
	runs := 0
	for _, r := range results {
		cells[r.name()] = true
		starts[len(r.Policies["tierml"])] = true
		for _, all := range r.Policies {
			runs += len(all)
		}
	}
	p.line("# TierML's analysis on recorded prices\n")
	p.line("For people who know CMU-PDL-16-102 and ask whether its figures hold: its figures 1 and 12 and section 4.6 beside simulations by")
	p.line("the same controller and policies that run jobs. `make paper STARTS=%s` wrote this page: %d of %d cells (a pair of types in one zone) of recorded", o.starts, len(cells), of)
	p.line("prices, %s starts of each cell and length, %d runs. A cell is *restless* when its prices exceed on-demand %d times or more.", startsText(starts), runs, restless)
	p.line("The fleet is %d machines of the larger type, or as many vCPUs of the smaller; TierML has %d of them on demand. Billing is `ec2-2017`; *aggressive* bids are", o.machines, o.reliable)
	p.line("paid as bid (`ec2-pay-bid`), as the paper does. The paper's own recording (c4.xlarge and c4.2xlarge, January to March 2016) is published nowhere that we know.")
	p.table("All cells", results, false)
	p.table("Restless cells", results, true)
	p.reading(results, o, c)
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

func percent(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

func signed(x float64) string { return fmt.Sprintf("%+.0f %%", 100*x) }

func precise(x float64) string { return fmt.Sprintf("%+.1f %%", 100*x) }

// table writes a table with a column for each length.
func (p *page) table(title string, results []result, onlyRestless bool) {
	var columns [][]result
	head, ruler := "| | the paper |", "|---|---|"
	for _, hours := range p.hours {
		if some := of(results, hours, onlyRestless); len(some) > 0 {
			columns = append(columns, some)
			head, ruler = head+fmt.Sprintf(" %g h |", hours.Hours()), ruler+"---|"
		}
	}
	if len(columns) == 0 {
		return
	}
	p.heading(fmt.Sprintf("%s: %d", title, len(columns[0])))
	p.line("%s\n%s", head, ruler)
	row := func(name, paper string, figure func(some []result) string) {
		line := "| " + name + " | " + paper + " |"
		for _, some := range columns {
			line += " " + figure(some) + " |"
		}
		p.line("%s", line)
	}
	saving := func(policy, than string) func([]result) string {
		return func(some []result) string { return percent(saves(some, policy, than)) }
	}
	below := func(policy string) func([]result) string {
		return func(some []result) string { return percent(1 - p95(some, policy)) }
	}
	time := func(policy string) func([]result) string {
		return func(some []result) string { return signed(longer(some, policy)) }
	}
	row("`tierml` saves, of undisturbed machines on demand", "74-78 %", func(some []result) string {
		mean, error := cost(some, "tierml")
		return fmt.Sprintf("%.0f ± %.0f %%", 100*(1-mean), 100*error)
	})
	row("of machines on demand that start, and pay whole hours", "", saving("tierml", "on-demand"))
	row("its P95 is below on demand by", "59 %", below("tierml"))
	row("its run time", "+11 %", time("tierml"))
	row("`checkpoint`: P95 below on demand", "", below("checkpoint"))
	row("its run time", "+38 %", time("checkpoint"))
	row("`tierml` saves, of `checkpoint` at our cost of saving", "46-50 %", saving("tierml", "checkpoint"))
	row(fmt.Sprintf("of it at %.0f s for 2 GB, as measured", measuredSave.Seconds()), "", saving("tierml", measured.String()))
	row("run time of that", "", time(measured.String()))
	for _, v := range overheads {
		row(fmt.Sprintf("of it with %.0f %% more work for saving", 100*v.cost.Overhead), "", saving("tierml", v.String()))
	}
	row("aggressive: `tierml` saves, of on demand", "66-70 %", func(some []result) string {
		mean, _ := cost(some, "tierml-aggressive")
		return percent(1 - mean)
	})
	row("its P95 is below on demand by", "32 %", below("tierml-aggressive"))
	row("it saves, of `checkpoint`", "52-55 %", saving("tierml-aggressive", "checkpoint-aggressive"))
	row("run times, of `tierml` and `checkpoint`", "+23, +62 %", func(some []result) string {
		return fmt.Sprintf("%+.0f, %+.0f %%", 100*longer(some, "tierml-aggressive"), 100*longer(some, "checkpoint-aggressive"))
	})
	row("switching alone: cost", "-34 %", func(some []result) string { return precise(-saves(some, "tierml", "tierml-noswitch")) })
	row("run time", "-8 %", func(some []result) string {
		return precise((1+longer(some, "tierml"))/(1+longer(some, "tierml-noswitch")) - 1)
	})
	row("`cost-per-work` saves, of on demand", "-", func(some []result) string {
		mean, _ := cost(some, "cost-per-work")
		return percent(1 - mean)
	})
	row("of `checkpoint`", "-", saving("cost-per-work", "checkpoint"))
	row("its P95 is below on demand by", "-", below("cost-per-work"))
	row("its run time", "-", time("cost-per-work"))
}

func (r *result) name() string { return r.Recording + " " + r.Zone + " " + r.Pair }
