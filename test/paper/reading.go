package main

// reading is what we make of the differences, and how to do it again elsewhere.
func (p *page) reading() {
	p.heading("Where ours differ, and why")
	p.line("TODO")
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

` + "```" + `
make paper STARTS=every            # every minute that has room; -results FILE keeps what is done, so that it can be broken off
make paper DATA=folder PAPER="-zones us-east-1b -only-prices -o page.md"
make paper STARTS=200 PAPER="-trace c4.csv.gz -catalog types.csv.gz -pairs c4.xlarge/c4.2xlarge -zones us-east-1a \
    -from 2016-01-01 -to 2016-03-14 -o page.md"
` + "```" + `

Without ` + "`-pairs`" + ` they are the neighbours in size of each family. ` + "`-hours`, `-machines`, `-reliable`, `-seed`" + ` and ` + "`-no-oracle`" + ` do what they say;
` + "`go run ./test/paper -h`" + ` lists all. A single cell is also a dry run:

` + "```" + `
tierml dry-run examples/demo.yaml --trace c4.csv.gz --catalog types.csv.gz --types c4.xlarge,c4.2xlarge --zones us-east-1a \
    --vcpu 480 --reliable c4.2xlarge:4 --rules ec2-2017 --hours 2,4,8,20 --starts every --no-oracle
` + "```" + `

There an hour of work is one of the 480 vCPUs on demand, here one of all 64 machines (512), as in the paper.
`
