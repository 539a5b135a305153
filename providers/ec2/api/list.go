package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// pageSize is EC2's largest page.
const pageSize = 1000

// List returns the cluster's machines; EC2 shows ended ones for about an hour.
func (c *Cloud) List(ctx context.Context) ([]provisioner.Instance, error) {
	machines, err := c.describe(ctx)
	if err != nil {
		return nil, err
	}
	instances := make([]provisioner.Instance, len(machines))
	for i, m := range machines {
		instances[i] = m.Instance
	}
	instances = append(instances, c.fresh.missing(instances, time.Now())...)
	provisioner.SortInstances(instances)
	return instances, nil
}

// machine combines an instance with the facts of its spot request.
type machine struct {
	provisioner.Instance
	warned time.Time // when it was marked for termination; zero = it is not marked

	job, owner, expires string // from its tags
}

// describe returns the cluster's machines that EC2 knows and that match the filters, sorted by id.
func (c *Cloud) describe(ctx context.Context, filters ...types.Filter) ([]machine, error) {
	found, err := c.describeInstances(ctx, filters)
	if err != nil {
		return nil, err
	}
	requests := map[string]*types.SpotInstanceRequest{}
	if slices.ContainsFunc(found, isSpot) {
		if requests, err = c.describeSpotRequests(ctx, filters); err != nil {
			return nil, err
		}
	}
	machines := make([]machine, 0, len(found))
	for i := range found {
		m, err := c.machineOf(&found[i], requests[aws.ToString(found[i].SpotInstanceRequestId)])
		if err != nil {
			return nil, fmt.Errorf("listing instances: %w", err)
		}
		machines = append(machines, m)
	}
	slices.SortFunc(machines, func(a, b machine) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return machines, nil
}

func isSpot(i types.Instance) bool { return i.InstanceLifecycle == types.InstanceLifecycleTypeSpot }

func (c *Cloud) describeInstances(ctx context.Context, filters []types.Filter) ([]types.Instance, error) {
	pages := ec2.NewDescribeInstancesPaginator(c.api, &ec2.DescribeInstancesInput{
		Filters:    c.ours(filters),
		MaxResults: aws.Int32(pageSize),
	})
	var found []types.Instance
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, failure(ctx, "listing instances", err)
		}
		for _, reservation := range page.Reservations {
			found = append(found, reservation.Instances...)
		}
	}
	return found, nil
}

func (c *Cloud) describeSpotRequests(ctx context.Context, filters []types.Filter) (map[string]*types.SpotInstanceRequest, error) {
	pages := ec2.NewDescribeSpotInstanceRequestsPaginator(c.api, &ec2.DescribeSpotInstanceRequestsInput{
		Filters:    c.ours(filters),
		MaxResults: aws.Int32(pageSize),
	})
	requests := map[string]*types.SpotInstanceRequest{}
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, failure(ctx, "listing spot requests", err)
		}
		for i := range page.SpotInstanceRequests {
			request := &page.SpotInstanceRequests[i]
			requests[aws.ToString(request.SpotInstanceRequestId)] = request
		}
	}
	return requests, nil
}

// machineOf translates. The spot request may be nil: EC2 may not show it yet, or no longer.
func (c *Cloud) machineOf(i *types.Instance, request *types.SpotInstanceRequest) (machine, error) {
	if i.InstanceId == nil || i.LaunchTime == nil {
		return machine{}, fmt.Errorf("EC2 gave a machine without id or launch time: %q", aws.ToString(i.InstanceId))
	}
	m := machine{Instance: provisioner.Instance{
		ID: provisioner.InstanceID(*i.InstanceId),
		Pool: market.Pool{
			Provider: Provider,
			Region:   c.config.Region,
			Zone:     zoneOf(i),
			Type:     string(i.InstanceType),
			Class:    market.OnDemand,
		},
		State:    stateOf(i),
		Launched: wholeSeconds(*i.LaunchTime),
		Tags:     map[string]string{},
	}}
	if isSpot(*i) {
		m.Pool.Class = market.Spot
	}
	for _, t := range i.Tags {
		m.takeTag(aws.ToString(t.Key), aws.ToString(t.Value))
		if aws.ToString(t.Key) == tagBid && aws.ToString(t.Value) == bidOfRequest && request != nil {
			m.takeTag(tagBid, aws.ToString(request.SpotPrice))
		}
	}
	switch {
	case m.State == provisioner.Terminated:
		c.setEnd(&m, i, request)
	case statusCode(request) == statusMarked:
		m.warned = statusTime(request)
	}
	return m, nil
}

// takeTag keeps the caller's tags and parses our own.
func (m *machine) takeTag(name, value string) {
	switch name {
	case tagToken:
		m.Token = value
	case tagBid:
		if bid, err := market.ParseUSD(value); err == nil { // else the tag was changed by hand
			m.Bid = bid
		}
	case tagJob:
		m.job = value
	case tagOwner:
		m.owner = value
	case tagExpires:
		m.expires = value
	case tagCluster, tagGeneration:
	default:
		m.Tags[name] = value
	}
}

func zoneOf(i *types.Instance) string {
	if i.Placement == nil {
		return ""
	}
	return aws.ToString(i.Placement.AvailabilityZone)
}

// stateOf: a stopped machine was stopped by hand; it never works for us again.
func stateOf(i *types.Instance) provisioner.State {
	if i.State == nil {
		return provisioner.Pending
	}
	switch i.State.Name {
	case types.InstanceStateNamePending:
		return provisioner.Pending
	case types.InstanceStateNameRunning:
		return provisioner.Running
	case types.InstanceStateNameTerminated:
		return provisioner.Terminated
	default:
		return provisioner.Stopping
	}
}

func wholeSeconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
