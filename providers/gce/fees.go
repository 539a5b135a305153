package gce

import (
	"cmp"
	"fmt"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/providers"
)

// disks are monthly prices per GiB in us-central1, us-east1 and us-west1, by the disk's type (Compute Engine, "Disk and
// image pricing": 200 GB a month are $8 of pd-standard and $34 of pd-ssd).
var disks = map[string]market.USD{
	"pd-standard": 4 * market.Dollar / 100, "pd-balanced": 10 * market.Dollar / 100, "pd-ssd": 17 * market.Dollar / 100,
}

// address is the hourly price of an external IPv4 address in use (VPC network pricing, October 2026; Spot VMs pay half,
// but are counted in full).
const address = 5 * market.Dollar / 1000

// feesOf returns what is billed for each machine in addition to its hours. A disk of a type that is not listed
// counts as pd-balanced.
func (b *Block) feesOf() market.Fees {
	return config.MachineFees(b.Disk, cmp.Or(disks[b.DiskType], disks["pd-balanced"]), address, b.ExternalIP)
}

// billed adds the fees to the rule book.
func billed(m *local.Market, job *config.Job) {
	fees := blockOf(job).feesOf()
	said := fmt.Sprintf("a disk of %d GiB", fees.DiskGiB)
	if fees.Address > 0 {
		said += " and an external address"
	}
	m.Sources = append(m.Sources, fmt.Sprintf("Counted of each machine: %s, $%s an hour at the prices of us-central1%s. %s", said, fees.PerHour(),
		providers.OtherRegion(blockOf(job).Region, "us-central1", "us-east1", "us-west1"), providers.NotCounted(m, job)))
}
