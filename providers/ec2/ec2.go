// Package ec2 is Amazon EC2 as a provider: its block of the job file, its market, its doctor's checks, and its machines'
// metadata. providers/ec2/api speaks to its API.
package ec2

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/boot"
	"github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/providers/ec2/notice"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node"
)

// Provider is EC2.
type Provider struct{ providers.Base }

func init() { providers.Register(Provider{}) }

const notSent = "EC2 sends true notices and recommendations by its Fault Injection Service only, which needs an experiment and a role of " +
	"its own (aws:ec2:send-spot-instance-interruptions)"

// Facts returns EC2's properties as data.
func (Provider) Facts() providers.Facts {
	return providers.Facts{
		Provider: Terms, Bills: bills, Endpoint: "https://ec2.{region}.amazonaws.com", ScriptInUserData: true, Mark: "the tag tierml:cluster=",
		Refused:  "credentials as the AWS command line does; `aws sts get-caller-identity` shows whose they are, terraform/aws what they must be allowed",
		End:      "aws ec2 terminate-instances --region {region} --instance-ids {machines}",
		Undoable: map[string]string{"evict": notSent, "rebalance": notSent},
		Reach: providers.Reach{
			Tunnel: "aws ssm start-session --region {region} --target {instance} --document-name AWS-StartPortForwardingSession " +
				"--parameters portNumber={port},localPortNumber={local}",
			Token: "aws ssm start-session --region {region} --target {instance} --document-name tierml-token-{cluster}",
			Command: "aws ssm start-session --region {region} --target {instance} --document-name AWS-StartInteractiveCommand " +
				"--parameters {\"command\":[{command-json}]}",
			Codeless: true,
			Stopped: "see whether it runs: aws ec2 describe-instances --region {region} --instance-ids {instance} --query 'Reservations[].Instances[].State.Name'; " +
				"if it is stopped: aws ec2 start-instances --region {region} --instance-ids {instance}",
			Programs: map[string]string{
				"aws": "install the AWS command line: https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html",
				"session-manager-plugin": "install Session Manager's plugin: " +
					"https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html",
			},
		},
		Past: past,
	}
}

// past requests the Linux spot prices of a region, of which EC2 keeps 90 days.
func past(ctx context.Context, q providers.PastQuery) (map[market.Pool][]market.PricePoint, error) {
	cloud, err := api.New(ctx, api.Config{Region: q.Region, Cluster: "prices", Endpoint: q.Endpoint})
	if err != nil {
		return nil, err
	}
	defer cloud.Close()
	return cloud.PriceHistory(ctx, api.PriceQuery{Types: q.Types, Zones: q.Zones, Since: q.Since}, q.Tell)
}

// configOf returns the adapter's configuration for a job.
func configOf(job *config.Job) api.Config {
	b := blockOf(job)
	return api.Config{
		Region: b.Region, Cluster: b.Cluster, Owner: b.Owner, Endpoint: b.Endpoint, ImageID: image(job), Subnets: b.Subnets,
		SecurityGroups: b.SecurityGroups, InstanceProfile: b.InstanceProfile, StoreRole: b.StoreRole,
		RootVolume: &api.RootVolume{Device: b.Device, SizeGiB: int32((b.Disk.MiB + 1023) >> 10)},
		Strategy:   provisioner.Allocation(job.Resources.ProviderChooses()),
	}
}

// anyImage is accepted as an image by clouds that play EC2: they accept any.
const anyImage = "ami-0a000000000000001"

// Open creates the adapter, finding credentials as the SDK does.
func (Provider) Open(ctx context.Context, job *config.Job, s providers.Session) (providers.Account, error) {
	c := api.Config{Region: s.Region, Cluster: s.Run, Endpoint: s.Played, ImageID: anyImage, NoticeLength: job.Local.Notice,
		Strategy: provisioner.Allocation(job.Resources.ProviderChooses())}
	if s.Played == "" {
		c = configOf(job)
		c.Job = s.Run
	} else {
		c.Credentials = &api.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}
	}
	c.PollInterval, c.Clock, c.Log = s.Poll, s.Clock, s.Log
	return account(api.New(ctx, c))
}

// account keeps a typed nil out of the interface.
func account(cloud *api.Cloud, err error) (providers.Account, error) {
	if err != nil {
		return nil, err
	}
	return cloud, nil
}

// Market returns what EC2 sells to a job.
func (Provider) Market(ctx context.Context, job *config.Job, folder string) (*local.Market, error) {
	cloud, err := api.New(ctx, configOf(job))
	if err != nil {
		return nil, err
	}
	defer cloud.Close()
	return soldTo(ctx, job, cloud, folder)
}

// Try asks with DryRun.
func (Provider) Try(ctx context.Context, job *config.Job, pools []market.Pool) (string, error) {
	cloud, err := api.New(ctx, configOf(job))
	if err != nil {
		return "", err
	}
	defer cloud.Close()
	for _, pool := range pools {
		if err := cloud.Try(ctx, provisioner.Request{Token: "try", Pool: pool, Count: 1}); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("EC2 would launch machines of all %d pools (asked with DryRun: it looks at permissions, image and network, not\nat capacity and quotas).", len(pools)), nil
}

// Checks returns the checks of a job with cloud: ec2.
func (Provider) Checks(job *config.Job) []doctor.Check {
	return checks(job, func(ctx context.Context) (doctorAPI, error) { return api.New(ctx, configOf(job)) })
}

// Boot fetches a program from S3 with the AWS command line, and ends a copy that stalls.
func (Provider) Boot(at *config.Installation) providers.Boot {
	b := providers.Boot{Fetch: boot.Curl(at.Program.URL), Environment: "TIERML_PROVIDER=ec2 AWS_REGION='" + at.Region + "'"}
	if strings.HasPrefix(at.Program.URL, "s3://") {
		b.Fetch = "timeout 600 aws s3 cp --region '" + at.Region + "' --no-progress '" + at.Program.URL + "' tierml.new"
	}
	return b
}

// Place returns that of the machines.
func (Provider) Place(job *config.Job) (network, zones []string) {
	b := blockOf(job)
	return b.SecurityGroups, slices.Sorted(maps.Keys(b.Subnets))
}

// Metadata reads EC2's metadata service, or one that speaks its protocol.
func (Provider) Metadata(_ clock.Mapping, log *slog.Logger) node.Machine { return metadata{log} }

type metadata struct{ log *slog.Logger }

func (m metadata) Identity(ctx context.Context) (node.Identity, error) {
	id, err := notice.ReadIdentity(ctx, notice.Config{})
	return node.Identity{Instance: ps.ServerID(id.ID), Type: id.Type}, err
}

func (m metadata) UserData(ctx context.Context) (string, error) {
	data, err := notice.ReadUserData(ctx, notice.Config{})
	return string(data), err
}

func (m metadata) Watch(ctx context.Context, f func(tiers.Warned)) error {
	return notice.Watch(ctx, notice.Config{Report: providers.Report(m.log)}, func(n provisioner.Notice) { f(providers.Warned(n)) })
}
