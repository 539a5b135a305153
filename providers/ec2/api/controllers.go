package api

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tierml/tierml/provisioner"
)

// This file is for the machines on which controllers run. They carry different tags from tagCluster: so no run and no `tierml down` treats
// one as its own, and the role of a job server, which may end machines with tagCluster, cannot end it.
const (
	tagControllerOf = provisioner.OwnTagPrefix + "controller-of" // the cluster's name
	tagRole         = provisioner.OwnTagPrefix + "role"
	roleController  = "controller"
)

// Controllers returns the machines of the cluster's controllers that have not ended, including stopped ones.
func (c *Cloud) Controllers(ctx context.Context) ([]provisioner.Controller, error) {
	pages := ec2.NewDescribeInstancesPaginator(c.api, &ec2.DescribeInstancesInput{
		Filters: []types.Filter{tagFilter(tagControllerOf, c.config.Cluster), {Name: aws.String("instance-state-name"),
			Values: []string{"pending", "running", "stopping", "stopped"}}},
		MaxResults: aws.Int32(pageSize),
	})
	var all []provisioner.Controller
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, failure(ctx, "looking for the job server", err)
		}
		for _, r := range page.Reservations {
			for i := range r.Instances {
				all = append(all, controllerOf(&r.Instances[i]))
			}
		}
	}
	provisioner.SortControllers(all)
	return all, nil
}

func controllerOf(i *types.Instance) provisioner.Controller {
	found := provisioner.Controller{ID: aws.ToString(i.InstanceId), Zone: zoneOf(i), Type: string(i.InstanceType), Launched: wholeSeconds(aws.ToTime(i.LaunchTime))}
	if i.State != nil {
		found.State = string(i.State.Name)
	}
	for _, t := range i.Tags {
		if aws.ToString(t.Key) == tagOwner {
			found.Owner = aws.ToString(t.Value)
		}
	}
	return found
}

// StartController launches an on-demand machine for a job server. The same token returns the same machine.
func (c *Cloud) StartController(ctx context.Context, r provisioner.ControllerRequest) (provisioner.Controller, error) {
	doing := "launching the machine of a job server"
	if c.config.ImageID == "" {
		return provisioner.Controller{}, fmt.Errorf("%s: %w: no machine image (AMI) is configured", doing, provisioner.ErrInvalid)
	}
	out, err := c.api.RunInstances(ctx, c.controllerInput(r))
	if err != nil {
		return provisioner.Controller{}, failure(ctx, doing, err)
	}
	if len(out.Instances) != 1 {
		return provisioner.Controller{}, fmt.Errorf("%s: %w: EC2 gave %d machines", doing, provisioner.ErrNoCapacity, len(out.Instances))
	}
	return controllerOf(&out.Instances[0]), nil
}

func (c *Cloud) controllerInput(r provisioner.ControllerRequest) *ec2.RunInstancesInput {
	tags := []types.Tag{tag(tagControllerOf, c.config.Cluster), tag(tagRole, roleController), tag(tagName, c.config.Cluster+"-controller")}
	if c.config.Owner != "" {
		tags = append(tags, tag(tagOwner, c.config.Owner))
	}
	in := &ec2.RunInstancesInput{
		ClientToken:      &r.Token,
		ImageId:          &c.config.ImageID,
		InstanceType:     types.InstanceType(r.Type),
		MinCount:         aws.Int32(1),
		MaxCount:         aws.Int32(1),
		SecurityGroupIds: r.Network,
		UserData:         aws.String(base64.StdEncoding.EncodeToString([]byte(r.UserData))),
		MetadataOptions: &types.InstanceMetadataOptionsRequest{
			HttpEndpoint: types.InstanceMetadataEndpointStateEnabled,
			HttpTokens:   types.HttpTokensStateRequired, // IMDSv2 only

			HttpPutResponseHopLimit: aws.Int32(1),
		},
		// A controller that is shut down keeps its disk: the journals and models are on it.
		InstanceInitiatedShutdownBehavior: types.ShutdownBehaviorStop,
		TagSpecifications: []types.TagSpecification{
			{ResourceType: types.ResourceTypeInstance, Tags: tags}, {ResourceType: types.ResourceTypeVolume, Tags: tags},
		},
	}
	if v := c.config.RootVolume; v != nil {
		in.BlockDeviceMappings = []types.BlockDeviceMapping{{DeviceName: &v.Device, Ebs: &types.EbsBlockDevice{
			VolumeSize: aws.Int32(int32(r.DiskGiB)), VolumeType: types.VolumeTypeGp3, Encrypted: aws.Bool(true), DeleteOnTermination: aws.Bool(true),
		}}}
	}
	if r.Zone != "" {
		in.Placement = &types.Placement{AvailabilityZone: &r.Zone}
	}
	if subnet, ok := c.config.Subnets[r.Zone]; ok {
		in.SubnetId = &subnet
	}
	if r.Role != "" {
		in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Name: &r.Role}
	}
	return in
}

// EndController terminates a job server's machine, with its disk.
func (c *Cloud) EndController(ctx context.Context, found provisioner.Controller) error {
	if _, err := c.api.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{found.ID}}); err != nil {
		return failure(ctx, "ending the job server "+found.ID, err)
	}
	return nil
}
