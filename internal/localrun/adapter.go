package localrun

import (
	"context"
	"fmt"

	"github.com/tierml/tierml/elasticity/runner"
	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/ec2"
)

// adapter is a cloud that also tells its prices.
type adapter interface {
	provisioner.Cloud
	runner.PriceSource
	Close()
}

// What a fake cloud takes for an image and for a project: any.
const (
	anyAMI     = "ami-0a000000000000001"
	anyImage   = "projects/tierml/global/images/agent"
	anyProject = "fake-project"
)

// connect makes the adapter of the job's cloud.
func (r *session) connect(ctx context.Context, endpoint string) (cloud adapter, err error) {
	switch {
	case r.cfg.Job.Cloud == config.CloudEC2:
		cloud, err = r.connectEC2(ctx)
	case r.cfg.Job.Cloud == config.CloudGCE:
		cloud, err = r.connectGCE(ctx)
	case r.cfg.Job.Provider == config.ProviderGCE:
		cloud, err = r.connectFakeGCE(ctx, endpoint)
	default:
		cloud, err = ec2.New(ctx, ec2.Config{
			Region: r.region(), Cluster: r.unique(), Endpoint: endpoint, ImageID: anyAMI,
			Credentials:  &ec2.Credentials{AccessKeyID: "local", SecretAccessKey: "local"},
			Strategy:     provisioner.Allocation(r.cfg.Job.Resources.ProviderChooses()),
			PollInterval: pollNotices, NoticeLength: r.cfg.Job.Local.Notice, Clock: r.cfg.Clock, Log: r.cfg.Log,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to the cloud: %w", err)
	}
	if !cloud.Traits().MaxBid {
		cloud = withoutBids{cloud}
	}
	return cloud, nil
}

// withoutBids buys from a provider that takes no bids: what a policy would bid is then its own limit only.
type withoutBids struct{ adapter }

func (c withoutBids) Launch(ctx context.Context, r provisioner.Request) ([]provisioner.Instance, error) {
	r.Bid = 0
	return c.adapter.Launch(ctx, r)
}
