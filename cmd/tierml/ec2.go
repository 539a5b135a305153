package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/internal/localrun"
	"github.com/tierml/tierml/internal/planner/local"
	"github.com/tierml/tierml/internal/pricelist"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/ec2"
)

// ec2Market is what EC2 tells of its prices.
func ec2Market(ctx context.Context, job *config.Job) (*local.Market, error) {
	cloud, err := connectEC2(ctx, job)
	if err != nil {
		return nil, err
	}
	defer cloud.Close()
	m, err := localrun.EC2Market(ctx, job, cloud, pricelist.DefaultFolder())
	return m, ec2Advice(err)
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
