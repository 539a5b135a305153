package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/internal/localrun"
	"github.com/tierml/tierml/internal/planner/local"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/ec2"
)

// ec2Market is what EC2 tells of its prices.
func ec2Market(ctx context.Context, job *config.Job) (*local.Market, error) {
	catalog, err := local.ReadCatalog(job.EC2.Catalog)
	if err != nil {
		return nil, job.Fault("ec2.catalog", fmt.Sprintf("%s: %v", job.EC2.Catalog, err),
			"name a CSV file with the columns region, instance_type, vcpu, memory_gib, linux_ondemand_usd_hour")
	}
	cloud, err := connectEC2(ctx, job)
	if err != nil {
		return nil, err
	}
	defer cloud.Close()
	query, err := priceQuery(ctx, cloud, job)
	if err != nil {
		return nil, ec2Advice(err)
	}
	prices, err := cloud.PriceHistory(ctx, query, func(int) {})
	if err != nil {
		return nil, ec2Advice(err)
	}
	if len(prices) == 0 {
		return nil, job.Fault("resources.any_of", "EC2 knows no spot prices of these types in "+job.EC2.Region, "write types and zones that it sells")
	}
	return &local.Market{Trace: &trace.Trace{Markets: marketsOf(prices)}, Catalog: catalog}, nil
}

// connectEC2 makes the adapter for looking and trying; nothing is bought by it.
func connectEC2(ctx context.Context, job *config.Job) (*ec2.Cloud, error) {
	cloud, err := ec2.New(ctx, localrun.EC2Config(job.EC2))
	if err != nil {
		return nil, ec2Advice(err)
	}
	return cloud, nil
}

// ec2Advice says what to do about refusals that a user can mend.
func ec2Advice(err error) error {
	if errors.Is(err, provisioner.ErrDenied) {
		return fmt.Errorf("%w\nNothing was bought. tierml takes credentials as the AWS command line does; "+
			"`aws sts get-caller-identity` shows whose they are, terraform/aws what they must be allowed", err)
	}
	return err
}

// manyTypes is from when on the prices of all types are asked for, in place of so many by name.
const manyTypes = 100

// priceQuery asks for what the job may buy, as far back as EC2 remembers.
func priceQuery(ctx context.Context, cloud *ec2.Cloud, job *config.Job) (ec2.PriceQuery, error) {
	q := ec2.PriceQuery{Zones: job.Resources.Zones, Since: job.Local.Start.Add(-90 * 24 * time.Hour)}
	if len(q.Zones) == 0 {
		for zone := range job.EC2.Subnets { // any order: it is a set
			q.Zones = append(q.Zones, zone)
		}
	}
	for _, m := range job.Resources.AnyOf {
		if m.Type != "" {
			q.Types = append(q.Types, m.Type)
			continue
		}
		names, err := cloud.TypesFor(ctx, needOf(m))
		switch {
		case errors.Is(err, provisioner.ErrDenied): // the role is of before: all types' prices are asked for
			q.Types = nil
			return q, nil
		case err != nil:
			return q, err
		case len(names) == 0:
			return q, job.Fault("resources.any_of", "EC2 has no type that meets a need of this job in "+job.EC2.Region, "ask for less, or name a type")
		}
		q.Types = append(q.Types, names...)
	}
	slices.Sort(q.Types)
	if q.Types = slices.Compact(q.Types); len(q.Types) > manyTypes {
		q.Types = nil
	}
	return q, nil
}

// needOf is a need in EC2's terms.
func needOf(m config.Machine) ec2.Need {
	n := ec2.Need{MinVCPU: m.CPUs.Count, MinMemory: m.Memory.MiB, Arch: m.Arch}
	if !m.CPUs.OrMore {
		n.MaxVCPU = m.CPUs.Count
	}
	if !m.Memory.OrMore {
		n.MaxMemory = m.Memory.MiB
	}
	return n
}

// placement tells what EC2 thinks of the chances of a spot request now, by zone; empty where it does not say.
func placement(ctx context.Context, cloud *ec2.Cloud, pools []market.Pool, machines int) string {
	var names []string
	for _, p := range pools {
		if p.Class == market.Spot {
			names = append(names, p.Type)
		}
	}
	if len(names) == 0 || machines == 0 {
		return ""
	}
	zones, all, err := cloud.PlacementScores(ctx, machines, names...)
	if err != nil { // EC2 answers some questions a day only, and roles of before may not ask
		return ""
	}
	text := fmt.Sprintf("\nPlacement scores of %d machines (10 = highly likely to be had now):", machines)
	for _, z := range zones {
		if z.Score > 0 {
			text += fmt.Sprintf(" %s (%s) %d;", z.Name, z.ID, z.Score)
		}
	}
	if text = strings.TrimSuffix(text, ";") + "."; !all {
		text += " They are low where fewer than three types are asked for."
	}
	return text
}

// tryEC2 asks EC2 whether it would launch a machine of each pool, without buying any.
func tryEC2(ctx context.Context, job *config.Job, pools []market.Pool) (string, error) {
	cloud, err := connectEC2(ctx, job)
	if err != nil {
		return "", err
	}
	defer cloud.Close()
	for _, pool := range pools {
		if err := cloud.Try(ctx, provisioner.Request{Token: "try", Pool: pool, Count: 1}); err != nil {
			return "", ec2Advice(err)
		}
	}
	return fmt.Sprintf("EC2 would launch machines of all %d pools (asked with DryRun: it looks at permissions, image and network, not\nat capacity and quotas).", len(pools)) + placement(ctx, cloud, pools, job.Resources.Count), nil
}
