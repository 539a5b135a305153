package api

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// Names of the tags on every machine.
const (
	tagCluster    = provisioner.OwnTagPrefix + "cluster"
	tagJob        = provisioner.OwnTagPrefix + "job"
	tagToken      = provisioner.OwnTagPrefix + "token"
	tagBid        = provisioner.OwnTagPrefix + "bid"
	tagOwner      = provisioner.OwnTagPrefix + "owner"
	tagGeneration = provisioner.OwnTagPrefix + "generation"
	tagExpires    = provisioner.OwnTagPrefix + "expires"
	tagName       = "Name" // the console's own column

	bidOfRequest = "as-requested" // in tagBid: the spot request has it
)

// Launch buys machines of one pool with RunInstances and of several with CreateFleet; both may return fewer than requested.
//
// The token is EC2's ClientToken: EC2 returns the same machines for the same request for at least as long as one lives, and refuses
// the token for about an hour afterwards; then they are looked up by their tag.
func (c *Cloud) Launch(ctx context.Context, r provisioner.Request) ([]provisioner.Instance, error) {
	instances, _, err := c.Choose(ctx, r)
	return instances, err
}

// Choose does what Launch does, and also returns which pools of a fleet had too few machines.
func (c *Cloud) Choose(ctx context.Context, r provisioner.Request) ([]provisioner.Instance, []provisioner.Refusal, error) {
	doing := fmt.Sprintf("launching %d of %s", r.Count, r.Pool)
	if err := c.validateRequest(r); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", doing, err)
	}
	if len(r.Or) > 0 {
		return c.launchFleet(ctx, doing, r)
	}
	instances, err := c.runInstances(ctx, doing, r)
	return instances, nil, err
}

func (c *Cloud) runInstances(ctx context.Context, doing string, r provisioner.Request) ([]provisioner.Instance, error) {
	out, err := c.api.RunInstances(ctx, c.runInput(r))
	if codeOf(err) == codeTokenOfTheDeparted {
		return c.departed(ctx, doing, r, err)
	}
	if err != nil {
		return nil, failure(ctx, doing, err)
	}
	if len(out.Instances) == 0 {
		return nil, fmt.Errorf("%s: %w: EC2 gave no machine", doing, provisioner.ErrNoCapacity)
	}
	instances := make([]provisioner.Instance, 0, len(out.Instances))
	for i := range out.Instances {
		m, err := c.machineOf(&out.Instances[i], nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		m.Token, m.Bid = r.Token, r.Bid // the response may lack the tags
		instances = append(instances, m.Instance)
	}
	provisioner.SortInstances(instances)
	c.fresh.add(instances, time.Now().Add(c.config.Settle))
	return instances, nil
}

// departed handles a Launch whose machines are gone.
func (c *Cloud) departed(ctx context.Context, doing string, r provisioner.Request, cause error) ([]provisioner.Instance, error) {
	machines, err := c.describe(ctx, tagFilter(tagToken, r.Token))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	var instances []provisioner.Instance
	for _, m := range machines {
		if m.Token == r.Token && m.Pool == r.Pool {
			instances = append(instances, m.Instance)
		}
	}
	if len(instances) == 0 {
		return nil, failure(ctx, doing, cause)
	}
	return instances, nil
}

func (c *Cloud) validateRequest(r provisioner.Request) error {
	if err := r.Validate(c.Traits()); err != nil {
		return err
	}
	if r.Pool.Region != c.config.Region {
		return fmt.Errorf("%w: this cloud is region %s", provisioner.ErrInvalid, c.config.Region)
	}
	if len(r.Or) >= maxOverrides {
		return fmt.Errorf("%w: %d pools: a fleet takes at most %d", provisioner.ErrInvalid, len(r.Or)+1, maxOverrides)
	}
	if c.config.ImageID == "" {
		return fmt.Errorf("%w: no machine image (AMI) is configured", provisioner.ErrInvalid)
	}
	for _, name := range r.TagNames() {
		if !metadataTag().MatchString(name) {
			return fmt.Errorf("%w: tag name %q: machines read their tags from metadata, where names may hold only "+
				"letters, digits and +-=.,_:@", provisioner.ErrInvalid, name)
		}
	}
	return nil
}

// metadataTag matches what EC2 allows when tags are in the machine's metadata.
var metadataTag = pattern.Of(`^[A-Za-z0-9+\-=.,_:@]{1,128}$`)

// runInput must give equal inputs for equal requests: EC2 compares them when a token is repeated.
func (c *Cloud) runInput(r provisioner.Request) *ec2.RunInstancesInput {
	in := &ec2.RunInstancesInput{
		ClientToken:      &r.Token,
		ImageId:          &c.config.ImageID,
		InstanceType:     types.InstanceType(r.Pool.Type),
		MinCount:         aws.Int32(1),
		MaxCount:         aws.Int32(int32(r.Count)),
		Placement:        &types.Placement{AvailabilityZone: &r.Pool.Zone},
		SecurityGroupIds: c.config.SecurityGroups,
		MetadataOptions: &types.InstanceMetadataOptionsRequest{
			HttpEndpoint:         types.InstanceMetadataEndpointStateEnabled,
			HttpTokens:           types.HttpTokensStateRequired, // IMDSv2 only
			InstanceMetadataTags: types.InstanceMetadataTagsStateEnabled,

			HttpPutResponseHopLimit: aws.Int32(1), // not for containers on the machine
		},
		// A machine that shuts itself down must not stay as a stopped one, whose volumes cost money.
		InstanceInitiatedShutdownBehavior: types.ShutdownBehaviorTerminate,
		TagSpecifications:                 c.tagSpecifications(r),
		BlockDeviceMappings:               c.rootVolume(),
	}
	if subnet, ok := c.config.Subnets[r.Pool.Zone]; ok {
		in.SubnetId = &subnet
	}
	if c.config.InstanceProfile != "" {
		in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Name: &c.config.InstanceProfile}
	}
	if r.UserData != "" {
		in.UserData = aws.String(base64.StdEncoding.EncodeToString([]byte(r.UserData)))
	}
	if r.Pool.Class == market.Spot {
		in.InstanceMarketOptions = spotOptions(r.Bid)
	}
	return in
}

func spotOptions(bid market.USD) *types.InstanceMarketOptionsRequest {
	options := &types.SpotMarketOptions{
		SpotInstanceType:             types.SpotInstanceTypeOneTime,
		InstanceInterruptionBehavior: types.InstanceInterruptionBehaviorTerminate,
	}
	if bid > 0 {
		options.MaxPrice = aws.String(bid.String())
	}
	return &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeSpot, SpotOptions: options}
}

func (c *Cloud) rootVolume() []types.BlockDeviceMapping {
	v := c.config.RootVolume
	if v == nil {
		return nil
	}
	ebs := &types.EbsBlockDevice{
		VolumeSize:          &v.SizeGiB,
		VolumeType:          types.VolumeTypeGp3,
		Encrypted:           aws.Bool(true),
		DeleteOnTermination: aws.Bool(true),
	}
	return []types.BlockDeviceMapping{{DeviceName: &v.Device, Ebs: ebs}}
}

// tagSpecifications tags the machine, its volumes (which also cost money) and the spot request (whose status is found by its tag).
func (c *Cloud) tagSpecifications(r provisioner.Request) []types.TagSpecification {
	tags := c.tags(r)
	specifications := []types.TagSpecification{
		{ResourceType: types.ResourceTypeInstance, Tags: tags},
		{ResourceType: types.ResourceTypeVolume, Tags: tags},
	}
	if r.Pool.Class == market.Spot {
		specifications = append(specifications,
			types.TagSpecification{ResourceType: types.ResourceTypeSpotInstancesRequest, Tags: tags})
	}
	return specifications
}

func (c *Cloud) tags(r provisioner.Request) []types.Tag {
	tags := []types.Tag{tag(tagCluster, c.config.Cluster), tag(tagToken, r.Token)}
	for _, own := range [][2]string{{tagOwner, c.config.Owner}, {tagJob, c.config.Job},
		{tagGeneration, r.Generation}, {tagExpires, expiry(r.Expires)}} {
		if own[1] != "" {
			tags = append(tags, tag(own[0], own[1]))
		}
	}
	switch {
	case r.Pool.Class == market.Spot && len(r.Or) > 0:
		tags = append(tags, tag(tagBid, bidOfRequest)) // bids may differ, and the tags apply to all
	case r.Bid > 0:
		tags = append(tags, tag(tagBid, r.Bid.String()))
	}
	if _, given := r.Tags[tagName]; !given {
		tags = append(tags, tag(tagName, c.config.Cluster))
	}
	for _, name := range r.TagNames() {
		tags = append(tags, tag(name, r.Tags[name]))
	}
	return tags
}

// expiry formats a time for a tag; empty = none.
func expiry(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Truncate(time.Second).Format(time.RFC3339)
}

func tag(name, value string) types.Tag { return types.Tag{Key: &name, Value: &value} }

func tagFilter(name, value string) types.Filter {
	return types.Filter{Name: aws.String("tag:" + name), Values: []string{value}}
}

// ours returns filters that select this Cloud's machines, followed by more.
func (c *Cloud) ours(more []types.Filter) []types.Filter {
	filters := []types.Filter{tagFilter(tagCluster, c.config.Cluster)}
	if c.config.Job != "" {
		filters = append(filters, tagFilter(tagJob, c.config.Job))
	}
	return append(filters, more...)
}

// Try asks EC2 whether it would launch a request, without launching it (DryRun): whether the image, network, role and permissions are
// right. It says nothing about capacity and quotas, which EC2 does not check then.
func (c *Cloud) Try(ctx context.Context, r provisioner.Request) error {
	doing := fmt.Sprintf("checking whether %s could be launched", r.Pool)
	if err := c.validateRequest(r); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	in := c.runInput(r)
	in.ClientToken, in.DryRun = nil, aws.Bool(true) // the token remains unused
	out, err := c.api.RunInstances(ctx, in)
	switch {
	case codeOf(err) == codeWouldSucceed:
		return nil
	case err == nil:
		var ids []string
		for _, i := range out.Instances {
			ids = append(ids, aws.ToString(i.InstanceId))
		}
		return c.boughtByTrial(ctx, doing, ids)
	}
	return failure(ctx, doing, err)
}

// boughtByTrial ends the machines of a launch that EC2 carried out despite DryRun, and returns an error that says what may have been
// bought.
func (c *Cloud) boughtByTrial(ctx context.Context, doing string, ids []string) error {
	bought := fmt.Errorf("%s: %w: the endpoint ignored DryRun, so a machine may have been bought", doing, provisioner.ErrInvalid)
	if len(ids) == 0 {
		return fmt.Errorf("%w: look for it in the account, and end it", bought)
	}
	names := strings.Join(ids, ", ")
	var launched []provisioner.Instance
	for _, id := range ids {
		launched = append(launched, provisioner.Instance{ID: provisioner.InstanceID(id)})
	}
	c.fresh.add(launched, time.Now().Add(c.config.Settle)) // EC2 may not know them yet: terminate retries
	if err := c.terminate(context.WithoutCancel(ctx), ids); err != nil {
		return fmt.Errorf("%w: end %s yourself, as this failed: %w", bought, names, err)
	}
	return fmt.Errorf("%w: %s was ended; check the account", bought, names)
}
