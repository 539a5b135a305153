package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/adapter"
)

// maxOverrides is the maximum number of pools that one fleet may name.
const maxOverrides = 300

const (
	codeTemplateExists = "InvalidLaunchTemplateName.AlreadyExistsException"
	templateVersion    = "1" // each template is created once and never changed
)

// launchFleet buys machines from several pools, among which EC2 chooses, with an instant fleet: it buys what it can immediately and leaves
// nothing behind that would buy more. A fleet takes its machines' parameters from a launch template, which is created for it, with a name
// derived from the token, and deleted afterwards. What a crash leaves behind costs nothing; see Leftovers.
func (c *Cloud) launchFleet(ctx context.Context, doing string, r provisioner.Request) ([]provisioner.Instance, []provisioner.Refusal, error) {
	doing = fmt.Sprintf("%s or %d other pools", doing, len(r.Or))
	template := c.templateInput(r)
	if _, err := c.api.CreateLaunchTemplate(ctx, template); err != nil && codeOf(err) != codeTemplateExists {
		return nil, nil, failure(ctx, doing+": making the launch template", err)
	}
	out, err := c.api.CreateFleet(ctx, c.fleetInput(r))
	if err != nil {
		err = failure(ctx, doing, err)
		if provisioner.Definite(err) { // else the template stays for the retry
			c.deleteTemplate(ctx, *template.LaunchTemplateName)
		}
		return nil, nil, err
	}
	c.deleteTemplate(ctx, *template.LaunchTemplateName)
	refused := c.refusals(r, out.Errors)
	var ids []string
	for _, some := range out.Instances {
		ids = append(ids, some.InstanceIds...)
	}
	if len(ids) == 0 {
		return nil, refused, fleetFailure(doing, out.Errors, refused)
	}
	instances, err := c.bought(ctx, r, ids)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", doing, err)
	}
	c.fresh.add(instances, time.Now().Add(c.config.Settle))
	return instances, refused, nil
}

// templateNamePrefix starts the names of the templates.
const templateNamePrefix = "tierml-"

// templateName returns the same for the same launch each time.
func (c *Cloud) templateName(token string) string {
	sum := sha256.Sum256([]byte(c.config.Cluster + " " + c.config.Job + " " + token))
	return templateNamePrefix + hex.EncodeToString(sum[:16])
}

// imageByName reports whether EC2 resolves the image at launch, from a parameter of Systems Manager.
func (c *Cloud) imageByName() bool { return strings.HasPrefix(c.config.ImageID, "resolve:ssm:") }

// templateInput has what all machines of a fleet have in common, like runInput.
func (c *Cloud) templateInput(r provisioner.Request) *ec2.CreateLaunchTemplateInput {
	data := &types.RequestLaunchTemplateData{
		ImageId:          &c.config.ImageID,
		SecurityGroupIds: c.config.SecurityGroups,
		MetadataOptions: &types.LaunchTemplateInstanceMetadataOptionsRequest{
			HttpEndpoint: types.LaunchTemplateInstanceMetadataEndpointStateEnabled,
			HttpTokens:   types.LaunchTemplateHttpTokensStateRequired,

			HttpPutResponseHopLimit: aws.Int32(1),
			InstanceMetadataTags:    types.LaunchTemplateInstanceMetadataTagsStateEnabled,
		},
		InstanceInitiatedShutdownBehavior: types.ShutdownBehaviorTerminate,
	}
	if c.imageByName() {
		data.ImageId = nil
	}
	for _, s := range c.tagSpecifications(r) {
		if s.ResourceType == types.ResourceTypeSpotInstancesRequest { // the fleet tags the others; it may not tag these
			data.TagSpecifications = append(data.TagSpecifications,
				types.LaunchTemplateTagSpecificationRequest{ResourceType: s.ResourceType, Tags: s.Tags})
		}
	}
	for _, b := range c.rootVolume() {
		data.BlockDeviceMappings = append(data.BlockDeviceMappings, types.LaunchTemplateBlockDeviceMappingRequest{
			DeviceName: b.DeviceName,
			Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: b.Ebs.VolumeSize, VolumeType: b.Ebs.VolumeType,
				Encrypted: b.Ebs.Encrypted, KmsKeyId: b.Ebs.KmsKeyId, DeleteOnTermination: b.Ebs.DeleteOnTermination},
		})
	}
	if c.config.InstanceProfile != "" {
		data.IamInstanceProfile = &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: &c.config.InstanceProfile}
	}
	if r.UserData != "" {
		data.UserData = aws.String(base64.StdEncoding.EncodeToString([]byte(r.UserData)))
	}
	return &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(c.templateName(r.Token)),
		LaunchTemplateData: data,
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeLaunchTemplate,
			Tags: c.tags(r)}},
	}
}

// fleetInput must give equal inputs for equal requests, like runInput.
func (c *Cloud) fleetInput(r provisioner.Request) *ec2.CreateFleetInput {
	config := types.FleetLaunchTemplateConfigRequest{
		LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{
			LaunchTemplateName: aws.String(c.templateName(r.Token)), Version: aws.String(templateVersion)},
	}
	for _, choice := range append([]provisioner.Choice{{Pool: r.Pool, Bid: r.Bid}}, r.Or...) {
		o := types.FleetLaunchTemplateOverridesRequest{InstanceType: types.InstanceType(choice.Pool.Type)}
		if subnet, ok := c.config.Subnets[choice.Pool.Zone]; ok {
			o.SubnetId = &subnet
		} else {
			o.AvailabilityZone = &choice.Pool.Zone
		}
		if choice.Bid > 0 {
			o.MaxPrice = aws.String(choice.Bid.String())
		}
		if c.imageByName() {
			o.ImageId = &c.config.ImageID // instant fleets resolve images that are named here; not all resolve those in templates
		}
		config.Overrides = append(config.Overrides, o)
	}
	in := &ec2.CreateFleetInput{
		Type:                  types.FleetTypeInstant,
		TagSpecifications:     c.fleetTags(r),
		ClientToken:           &r.Token,
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{config},
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: aws.Int32(int32(r.Count)), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand},
	}
	if r.Pool.Class == market.Spot {
		in.TargetCapacitySpecification.DefaultTargetCapacityType = types.DefaultTargetCapacityTypeSpot
		in.SpotOptions = &types.SpotOptionsRequest{AllocationStrategy: types.SpotAllocationStrategy(c.config.Strategy),
			InstanceInterruptionBehavior: types.SpotInstanceInterruptionBehaviorTerminate}
	} else {
		in.OnDemandOptions = &types.OnDemandOptionsRequest{AllocationStrategy: types.FleetOnDemandAllocationStrategyLowestPrice}
	}
	return in
}

// deleteTemplate removes a template that is no longer needed. A template left behind costs nothing; the token in its user data is used or
// expires.
func (c *Cloud) deleteTemplate(ctx context.Context, name string) {
	_, err := c.api.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: &name})
	if err != nil && ctx.Err() == nil && codeOf(err) != codeTemplateNameNotFound {
		c.config.Log.Warn("a launch template was not deleted", "name", name, "err", failure(ctx, "deleting it", err))
	}
}

// boughtTries is how often EC2 is queried for what it has just sold, first after boughtPause, which doubles up to settlePause: for about
// five seconds in total.
const (
	boughtTries = 14
	boughtPause = 30 * time.Millisecond
)

// bought queries the machines of a fleet, as the fleet's response has only their ids. Not all of EC2 may know them yet.
func (c *Cloud) bought(ctx context.Context, r provisioner.Request, ids []string) ([]provisioner.Instance, error) {
	wait := boughtPause
	for try := 1; ; try++ {
		machines, err := c.describe(ctx, tagFilter(tagToken, r.Token))
		if err != nil && !provisioner.Retryable(err) {
			return nil, err
		}
		var instances []provisioner.Instance
		for _, m := range machines {
			if slices.Contains(ids, string(m.ID)) {
				m.Token, m.Bid = r.Token, r.BidFor(m.Pool)
				instances = append(instances, m.Instance)
			}
		}
		switch {
		case len(instances) == len(ids):
			return instances, nil
		case try == boughtTries:
			return nil, fmt.Errorf("%w: %d machines were bought, and %d of them are listed yet", provisioner.ErrTemporary, len(ids), len(instances))
		}
		if err := adapter.Pause(ctx, wait); err != nil {
			return nil, err
		}
		wait = min(2*wait, settlePause)
	}
}

// fleetTags returns the tags of the machines, their volumes and the fleet itself: permissions to buy depend on them (see terraform/aws).
func (c *Cloud) fleetTags(r provisioner.Request) (tags []types.TagSpecification) {
	for _, s := range c.tagSpecifications(r) {
		if s.ResourceType != types.ResourceTypeSpotInstancesRequest {
			tags = append(tags, s)
		}
	}
	return append(tags, types.TagSpecification{ResourceType: types.ResourceTypeFleet, Tags: c.tags(r)})
}

// refusals sorts a fleet's errors by pool, in the order of the request. Errors that name no pool apply to all.
func (c *Cloud) refusals(r provisioner.Request, refused []types.CreateFleetError) (sorted []provisioner.Refusal) {
	for _, choice := range append([]provisioner.Choice{{Pool: r.Pool}}, r.Or...) {
		for i := range refused {
			if e := &refused[i]; c.names(e.LaunchTemplateAndOverrides, choice.Pool) {
				sorted = append(sorted, provisioner.Refusal{Pool: choice.Pool, Err: refusal(e)})
				break
			}
		}
	}
	return sorted
}

// names reports whether a fleet's error is about a pool: by its type, and by its zone or the subnet that stands for the zone.
func (c *Cloud) names(of *types.LaunchTemplateAndOverridesResponse, pool market.Pool) bool {
	if of == nil || of.Overrides == nil {
		return true
	}
	o := of.Overrides
	subnet := c.config.Subnets[pool.Zone]
	return (o.InstanceType == "" || string(o.InstanceType) == pool.Type) &&
		(o.AvailabilityZone == nil || *o.AvailabilityZone == pool.Zone) &&
		(o.SubnetId == nil || *o.SubnetId == subnet)
}

// refusal returns one pool's error in the contract's terms.
func refusal(e *types.CreateFleetError) error {
	code := aws.ToString(e.ErrorCode)
	text := code + ": " + aws.ToString(e.ErrorMessage)
	if hint := hints[code]; hint != "" {
		text += " (" + hint + ")"
	}
	if kind := kindOf(code); kind != nil {
		return fmt.Errorf("%w: %s", kind, text)
	}
	return errors.New(text)
}

// fleetFailure returns the error of a fleet that bought nothing: what its pools lack. Missing capacity comes first, as it may return soon;
// a bid that is too low comes before errors that need a person.
func fleetFailure(doing string, errs []types.CreateFleetError, refused []provisioner.Refusal) error {
	if len(errs) == 0 {
		return fmt.Errorf("%s: %w: EC2 gave no machine", doing, provisioner.ErrNoCapacity)
	}
	text := provisioner.RefusalText(refused)
	kind, rank := error(nil), len(fleetRanks)
	for i := range errs {
		code := aws.ToString(errs[i].ErrorCode)
		if n := slices.Index(fleetRanks, kindOf(code)); n >= 0 && n < rank {
			kind, rank = fleetRanks[n], n
		}
		if len(refused) == 0 { // errors of pools that were not in the request
			text += code + ": " + aws.ToString(errs[i].ErrorMessage) + "; "
		}
	}
	if kind == nil {
		return fmt.Errorf("%s: %s", doing, text)
	}
	return fmt.Errorf("%s: %w: %s", doing, kind, text)
}

var fleetRanks = []error{provisioner.ErrNoCapacity, provisioner.ErrPriceTooLow, provisioner.ErrLimit, provisioner.ErrThrottled,
	provisioner.ErrTemporary, provisioner.ErrNotFound, provisioner.ErrDenied, provisioner.ErrInvalid}
