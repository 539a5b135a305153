package localrun

import (
	"context"
	"fmt"

	"github.com/tierml/tierml/elasticity/runner"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/ec2"
)

// adapter is a cloud that also tells its prices.
type adapter interface {
	provisioner.Cloud
	runner.PriceSource
	Close()
}

// anyAMI is what a fake cloud takes for an image: any.
const anyAMI = "ami-0a000000000000001"

// connect makes the adapter of the job's cloud.
func (r *session) connect(ctx context.Context, endpoint string) (cloud adapter, err error) {
	if r.onEC2() {
		cloud, err = r.connectEC2(ctx)
	} else {
		cloud, err = ec2.New(ctx, ec2.Config{
			Region: r.region(), Cluster: r.name, Endpoint: endpoint, ImageID: anyAMI,
			Credentials:  &ec2.Credentials{AccessKeyID: "local", SecretAccessKey: "local"},
			PollInterval: pollNotices, NoticeLength: r.cfg.Job.Local.Notice, Clock: r.cfg.Clock, Log: r.cfg.Log,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to the cloud: %w", err)
	}
	return cloud, nil
}
