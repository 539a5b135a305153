package main

import (
	"fmt"
	"math"
)

// reading is what we make of the differences, and how to do it again elsewhere. Its figures are those of the results; the
// causes are our reading of them.
func (p *page) reading(results []result, o *options) {
	span := func(figure func(some []result) float64) string {
		least, most := math.Inf(1), math.Inf(-1)
		for _, hours := range p.hours {
			if some := of(results, hours, false); len(some) > 0 {
				least, most = min(least, figure(some)), max(most, figure(some))
			}
		}
		return fmt.Sprintf("%.0f to %.0f %%", 100*least, 100*most)
	}
	share := func(policy, than string) func([]result) float64 {
		return func(some []result) float64 { return mean(some, costShare(policy, than)) }
	}
	longer := func(policy string) func([]result) float64 {
		return func(some []result) float64 { return mean(some, timeShare(policy, "")) - 1 }
	}
	p.heading("Where ours differ, and why")
	p.line("- **Against on demand** TierML costs %s of it, by length (the paper: 22 to 26 %%), and the shorter the work the more: a", span(share("tierml", "")))
	p.line("  fleet pays its hours as it begins them, and the reliable machines, %d of %d, cost %.0f %% by themselves.", o.reliable, o.machines,
		100*float64(o.reliable)/float64(o.machines))
	p.line("- **Against checkpointing** it saves nothing here; it costs %s of it. That is not for what saving costs alone: with work", span(share("tierml", "checkpoint")))
	p.line("  on spot machines 38 %% longer it is still %s.", span(share("tierml", overheads[1].String())))
	p.line("  Checkpointing on one pool costs %s of on demand here, which is hardly more than the spot price, and TierML pays", span(share("checkpoint", "")))
	p.line("  about that and the reliable machines. From the paper's two savings its baseline costs about 46 %% of on demand: of every machine's hour")
	p.line("  a third, where spot prices are mostly below a fifth. It seems to have paid on-demand prices, or high spot prices, for a large part of its time,")
	p.line("  as the rule says once spot is dearer at a restart. In these recordings spells above the on-demand price are short, or too rare, for that.")
	p.line("- **Run times** are %s longer than undisturbed by `tierml` (the paper: 11 %%), mostly its start: the reliable machines come first,", span(longer("tierml")))
	p.line("  then the others, 5 minutes each. By checkpoint they are %s longer (38 %%): Young's interval for MTTFs of days, with a stop of 20 s,", span(longer("checkpoint")))
	p.line("  loses little. How often the paper's baseline saved, and how long it stood still for it, decides this; measure it for your model and")
	p.line("  storage, and declare it (`--checkpoint`).")
	p.line("- **Switching** changes little in the mean: the types of a pair mostly stay calm or cross together, and to switch is to pay a begun hour")
	p.line("  twice. Across families MTTFs differ more than within, prices of work too, and the rule looks at MTTFs alone: in single cells it moves to a pool")
	p.line("  that keeps longer and costs more.")
	p.line("- **Aggressive bids** lose more machines, and cost about the same or a little more.")
	p.line("- **P95** is that of the starts of a cell: of few starts it is their maximum.")
	p.line("- **The paper's types**, c4.xlarge and c4.2xlarge from January to March 2016, are not recorded anywhere that we found; its pair may have")
	p.line("  been more restless, and its types crossed at different times. If you have that recording, run it as below.")
	p.heading("Run it yourself")
	p.WriteString(again)
}

const again = "" +
	"Recordings are not part of this repository. `make paper` reads those of `DATA` (default `../shared/data`):\n" + `
| file | what | from |
|---|---|---|
| spot/aws-us-west-1a-c3-2014.csv.gz | us-west-1a, February to April 2014 | AWS-Spot-Analysis/spot-analysis |
| spot/aws-us-east-1-2015-03-to-07.csv.gz | us-east-1a and b, 2015; in two parts, as three days of June and some of April are missing | prateek-s/spot-price-model |
| spot/aws-us-east-1-2016-02-to-04.csv.gz | us-east-1a and b, February to April 2016 | hshazly/Amazon-Spot-Price-Estimator |
| spot/aws-us-east-1-2016-06-to-08-5min.csv.gz | us-east-1a, c, d and e, June to August 2016, sampled every 5 minutes | xiaochenwang94/spot-instance-price |
| spot/aws-us-east-1-2021-03-to-04.csv.gz | for *capacity*: 2021, after the bid market | LucianaMarques/amazon-spot-dataset |
| catalog/aws-ondemand-linux-DATE.csv.gz | on-demand prices of that day | powdahound/ec2instances.info, aws/karpenter-provider-aws |
| availability/skypilot/availability/ | which machines could be had, 2022 and 2023 | skypilot-org/spot-traces |

Any other zone, month or pair is run the same way, from any price history that ` + "`tierml dry-run --trace`" + ` reads:

` + "```sh" + `
make paper STARTS=every            # every minute that has room
make paper STARTS=10 PAPER="-results FILE -o docs/papers/paper.md"   # keeps what is done: it may be broken off, and -kept prints what there is
make paper DATA=folder PAPER="-zones us-east-1b -only-prices -o page.md"
make paper STARTS=200 PAPER="-trace c4.csv.gz -catalog types.csv.gz -pairs c4.xlarge/c4.2xlarge -zones us-east-1a \
    -from 2016-01-01 -to 2016-03-14 -o page.md"
` + "```" + `

Without ` + "`-pairs`" + ` they are the neighbours in size of each family. ` + "`-hours`, `-machines`, `-reliable`, `-seed`" + ` and ` + "`-no-oracle`" + ` do what they say;
` + "`go run ./test/paper -h`" + ` lists all. A single cell is also a dry run:

` + "```sh" + `
tierml dry-run examples/demo.yaml --trace c4.csv.gz --catalog types.csv.gz --types c4.xlarge,c4.2xlarge --zones us-east-1a \
    --vcpu 480 --reliable c4.2xlarge:4 --rules ec2-2017 --hours 2,4,8,20 --starts every --no-oracle
` + "```" + `

There an hour of work is one of the 480 vCPUs on demand, here one of all 64 machines (512), as in the paper.
`
