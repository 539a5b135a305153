package localrun

import (
	"context"
	"strings"

	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/ec2"
	"github.com/tierml/tierml/tiers/node"
)

// EC2Config is the adapter's, as a job has it.
func EC2Config(e config.EC2) ec2.Config {
	return ec2.Config{
		Region: e.Region, Cluster: e.Cluster, Owner: e.Owner, Endpoint: e.Endpoint, ImageID: e.Image, Subnets: e.Subnets,
		SecurityGroups: e.SecurityGroups, InstanceProfile: e.InstanceProfile,
		RootVolume: &ec2.RootVolume{Device: e.Device, SizeGiB: int32((e.Disk.MiB + 1023) >> 10)},
	}
}

// connectEC2 makes the adapter for EC2 itself, by the SDK's own way to find credentials.
func (r *session) connectEC2(ctx context.Context) (*ec2.Cloud, error) {
	c := EC2Config(r.cfg.Job.EC2)
	c.Job, c.Strategy = r.unique(), provisioner.Allocation(r.cfg.Job.Resources.ProviderChooses())
	c.PollInterval, c.Clock, c.Log = realPollNotices, r.cfg.Clock, r.cfg.Log
	return ec2.New(ctx, c)
}

// bootScript is the first script of a machine on EC2, which holds its user data: there is one place for both. (EC2
// terminates a machine that powers off: see the adapter.)
func bootScript(u node.UserData, p config.Program, region string, minutes int) string {
	fetch := curl(p.URL)
	if strings.HasPrefix(p.URL, "s3://") {
		fetch = fetchFromS3(p.URL, region)
	}
	return firstScript(first{data: u.Encode(), fetch: fetch, environment: "AWS_REGION='" + region + "'"}, p.SHA256, minutes)
}
