package main

import (
	"context"
	"errors"
	"fmt"
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
	prices, err := cloud.PriceHistory(ctx, priceQuery(job), func(int) {})
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

// priceQuery asks for what the job may buy, as far back as EC2 remembers.
func priceQuery(job *config.Job) ec2.PriceQuery {
	q := ec2.PriceQuery{Zones: job.Resources.Zones, Since: job.Local.Start.Add(-90 * 24 * time.Hour)}
	if len(q.Zones) == 0 {
		for zone := range job.EC2.Subnets { // any order: it is a set
			q.Zones = append(q.Zones, zone)
		}
	}
	for _, m := range job.Resources.AnyOf {
		if m.Type == "" { // a need: any type may meet it
			q.Types = nil
			break
		}
		q.Types = append(q.Types, m.Type)
	}
	return q
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
	return fmt.Sprintf("EC2 would launch machines of all %d pools (asked with DryRun: it looks at permissions, image and network, not\nat capacity and quotas).", len(pools)), nil
}
