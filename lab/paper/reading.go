package main

// reading explains each difference by a number from the results.
func (p *page) reading(results []result, o *options, c control) {
	hours := p.hours[len(p.hours)-1]
	some := of(results, hours, false)
	if len(some) == 0 {
		return
	}
	share := func(policy string) float64 { x, _ := cost(some, policy); return x }
	p.heading("Where the differences come from")
	p.line("Figures are of all cells at %g hours.\n", hours.Hours())
	one := 1 / float64(o.machines)
	p.line("- **The baseline.** `checkpoint` costs %.3f of on demand here. The paper's two savings imply .46: as if it had bought on demand in %.0f %%", share("checkpoint"),
		100*(0.46-share("checkpoint"))/(1-share("checkpoint")))
	p.line("  of its time. Its pools seem to have been dear for longer than any here. With the same cost of saving as in section 4.7, 18 %%, `checkpoint` costs %.3f, with", share(overheads[0].String()))
	p.line("  50 %% %.3f. Ours is 20 s for 2 GB at 100 MB/s by Young's interval: runs take %.1f %% longer in all. One machine that saved into a real store took %.0f s",
		share(overheads[1].String()), 100*longer(some, "checkpoint"), measuredSave.Seconds())
	p.line("  ([measured](measured.md#what-saving-costs)): %.3f, and %.1f %% longer. Measure yours, and declare it (`--set checkpoint`).", share(measured.String()), 100*longer(some, measured.String()))
	p.line("- **The reliable tier.** A reliable machine costs %.3f of on demand, %.0f %% of what `tierml` pays, and works little in stage 3. The paper has 1 in 64 as well;", one, 100*one/share("tierml"))
	p.line("  [smaller ones](../../docs/cost.md#the-reliable-machines) do.")
	if first := of(results, p.hours[0], false); len(first) > 0 {
		x, _ := cost(first, "on-demand")
		p.line("- **Whole hours and starts** make %g hours on demand cost %.2f of their undisturbed price, %g hours %.2f. Against what can be bought, savings are higher.", p.hours[0].Hours(), x,
			hours.Hours(), share("on-demand"))
	}
	p.line("- **Switching** buys a little time and saves no money, even where pools are restless in turn. In two that are calm for 12 hours and cross the on-demand price every")
	p.line("  hour for the next 12, one after the other, it changes the cost by %s and the run time by %s (%d starts, 8 hours). A move pays a begun hour twice, and an", precise(c.cost), precise(c.time), c.starts)
	p.line("  eviction in its place makes that hour free. Of %d such markets it saves money in none (`TIERML_SWITCHING=1 go test ./paper -run Switching -v`).", len(others()))
	p.line("- **P95** is that of all starts of all cells together. Of single cells with few starts it is the dearest start.")
	p.line("- **`cost-per-work`** has the lower bill, since it waits: runs take %.1f times the undisturbed time.", 1+longer(some, "cost-per-work"))
	p.later(some)
	p.heading("Run it yourself")
	p.WriteString(again)
}

// later compares with what was published after the paper. The figures are from other markets and other work: they only
// show the order of magnitude.
func (p *page) later(some []result) {
	saved, _ := cost(some, "cost-per-work")
	p.heading("Beside later papers")
	p.line("Their figures are from their abstracts, of other markets and other work.\n\n| | published | here |\n|---|---|---|")
	p.line("| Proteus (EuroSys 2017) saves, of machines that are not transient | 85 %% | %s: `cost-per-work` |", percent(1-saved))
	p.line("| of earlier approaches | 43 %% | %s: of `checkpoint` |", percent(saves(some, "cost-per-work", "checkpoint")))
	p.line("| its run time, at best | -37 %% | %s: it waits for cheap hours |", signed(longer(some, "cost-per-work")))
	p.line("| Can't Be Late on SkyPilot (NSDI 2024) saves, of on demand | 27-84 %% | 37 %%: `uniform-progress`; 44 %%: `deadline` ([126 cells](measured.md#deadline-against-uniform-progress)) |")
	p.line("| Tributary (CMU-PDL-18-102) saves, of machines that are not preemptible | 81-86 %% | services with response times: nothing here does that |")
	p.line("| SkyNomad (arXiv 2601.06520) is cheaper, over several regions | 1.25-3.96 times | 1.0-3.1 times: `skynomad` in three regions, of `uniform-progress` in one zone ([measured](measured.md#skynomad-in-one-region-and-in-three)) |")
}

const again = "" +
	"Recordings are not part of this repository. `make paper` reads those of `DATA` (default `../../shared/data`):\n" + `
| file | what | from |
|---|---|---|
| spot/aws-us-west-1a-c3-2014.csv.gz | us-west-1a, February to April 2014 | AWS-Spot-Analysis/spot-analysis |
| spot/aws-us-east-1-2015-03-to-07.csv.gz | us-east-1a and b, 2015, in two parts | prateek-s/spot-price-model |
| spot/aws-us-east-1-2016-02-to-04.csv.gz | us-east-1a and b, February to April 2016 | hshazly/Amazon-Spot-Price-Estimator |
| spot/aws-us-east-1-2016-06-to-08-5min.csv.gz | four zones, June to August 2016, sampled every 5 minutes | xiaochenwang94/spot-instance-price |
| catalog/aws-ondemand-linux-DATE.csv.gz | on-demand prices of that day | powdahound/ec2instances.info, aws/karpenter-provider-aws |

` + "```sh" + `
make paper STARTS=every            # every minute that has room
make paper PAPER="-results FILE"   # keeps every run's cost and time, cell by cell: it may be broken off, and -kept prints what there is
make paper PAPER="-reliable 4 -o page.md"
make paper STARTS=200 PAPER="-trace c4.csv.gz -catalog types.csv.gz -pairs c4.xlarge/c4.2xlarge -zones us-east-1a \
    -from 2016-01-01 -to 2016-03-14 -o page.md"
` + "```" + `

` + "`go run ./paper -h`" + ` lists all flags. Deadlines, capacity and the oracle: [measured](measured.md).
`
