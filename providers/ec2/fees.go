package ec2

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/ec2/api"
)

// What EC2 charges on top of a machine's hours.
const (
	// gp3 is the price per GiB and month in us-east-1, us-east-2 and us-west-2 (Amazon EBS pricing, since December
	// 2020); other regions are more expensive.
	gp3 = 8 * market.Dollar / 100
	// address is per hour of a public IPv4 address, in every region (AWS News Blog, "New – AWS Public IPv4 Address Charge", from February 2024
	// on).
	address = 5 * market.Dollar / 1000
)

// feesOf returns what each machine is billed on top of its hours. Default subnets give public addresses; so do the job's own, as far as the
// job file alone shows.
func (b *Block) feesOf(public bool) market.Fees {
	return config.MachineFees(b.Disk, gp3, address, public)
}

// billed sets what the rule book adds: an address if some of the job's subnets give one.
func billed(ctx context.Context, m *local.Market, job *config.Job, account interface {
	Subnets(context.Context) ([]api.Subnet, error)
}) {
	b, public, how := blockOf(job), true, "as default subnets give one"
	if len(b.Subnets) > 0 {
		subnets, err := account.Subnets(ctx)
		switch {
		case err != nil:
			how = "as it is not known whether the subnets give one (" + providers.FirstLine(err) + ")"
		default:
			public = slices.ContainsFunc(subnets, func(s api.Subnet) bool { return s.Public })
			how = "as the subnets give one"
		}
	}
	fees := b.feesOf(public)
	book, _, _ := strings.Cut(job.Local.Rules, "+")
	job.Local.Rules = book + fees.String()
	said := fmt.Sprintf("a disk of %d GiB", fees.DiskGiB)
	if public {
		said += " and a public address, " + how
	}
	m.Sources = append(m.Sources, fmt.Sprintf("Counted of each machine: %s, $%s an hour at the prices of us-east-1%s. %s", said, fees.PerHour(),
		providers.OtherRegion(b.Region, "us-east-1", "us-east-2", "us-west-2"), providers.NotCounted(m, job)))
}
