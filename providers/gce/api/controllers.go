package api

import (
	"context"
	"strings"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"github.com/tierml/tierml/provisioner"
)

// This file is for the machines on which controllers run. Their names and labels differ from those of a run's machines,
// so no run and no `tierml down` mistakes one for its own, and the account of a job server, which may end machines
// whose names begin with the cluster's, cannot end it.
const (
	labelControllerOf = "tierml-controller-of" // the cluster's name
	labelRole         = "tierml-role"
	roleController    = "controller"
)

// controllerName returns the name of a cluster's controller; terraform/gcp uses the same name. A zone has one
// controller.
func controllerName(cluster string) string { return "controller-of-" + labelValue(cluster) }

// Controllers returns the machines of the cluster's controllers, including stopped ones, in any zone of the region.
func (c *Cloud) Controllers(ctx context.Context) (all []provisioner.Controller, err error) {
	filter := labelFilter(labelControllerOf, labelValue(c.config.Cluster))
	err = c.eachInstance(ctx, "looking for the job server", filter, func() { all = nil }, func(i *computepb.Instance) error {
		if zone := baseName(i.GetZone()); strings.HasPrefix(zone, c.config.Region+"-") {
			all = append(all, provisioner.Controller{ID: i.GetName(), Zone: zone, Type: baseName(i.GetMachineType()),
				State: strings.ToLower(i.GetStatus()), Owner: i.GetLabels()[labelOwner], Launched: wholeSeconds(firstTime(i.GetCreationTimestamp()))})
		}
		return nil
	})
	provisioner.SortControllers(all)
	return all, err
}

// StartController launches a standard machine for a job server and waits until it exists.
func (c *Cloud) StartController(ctx context.Context, r provisioner.ControllerRequest) (provisioner.Controller, error) {
	doing := "launching the machine of a job server"
	id := requestID(c.config.Cluster, r.Token, 0)
	var started *compute.Operation
	err := c.try(ctx, doing, c.config.AttemptTimeout, func(ctx context.Context) (err error) {
		started, err = c.instances.Insert(ctx, c.controllerRequest(r, id))
		return err
	})
	if err != nil {
		return provisioner.Controller{}, err
	}
	op := started.Proto()
	if !started.Done() {
		if op, err = c.wait(ctx, doing, r.Zone, started.Name()); err != nil {
			return provisioner.Controller{}, err
		}
	}
	if err := operationFailure(doing, op); err != nil {
		return provisioner.Controller{}, err
	}
	return provisioner.Controller{ID: controllerName(c.config.Cluster), Zone: r.Zone, Type: r.Type, State: "provisioning", Owner: c.config.Owner}, nil
}

func (c *Cloud) controllerRequest(r provisioner.ControllerRequest, id string) *computepb.InsertInstanceRequest {
	labels := map[string]string{labelControllerOf: labelValue(c.config.Cluster), labelRole: roleController}
	if c.config.Owner != "" {
		labels[labelOwner] = labelValue(c.config.Owner)
	}
	instance := &computepb.Instance{
		Name:        proto.String(controllerName(c.config.Cluster)),
		MachineType: proto.String("zones/" + r.Zone + "/machineTypes/" + r.Type),
		Labels:      labels,
		Scheduling:  &computepb.Scheduling{ProvisioningModel: proto.String("STANDARD"), OnHostMaintenance: proto.String("MIGRATE"), AutomaticRestart: proto.Bool(true)},
		Disks: []*computepb.AttachedDisk{{Boot: proto.Bool(true), AutoDelete: proto.Bool(true), InitializeParams: &computepb.AttachedDiskInitializeParams{
			SourceImage: &c.config.Image, DiskSizeGb: &r.DiskGiB, DiskType: proto.String("zones/" + r.Zone + "/diskTypes/" + c.config.Disk.Type), Labels: labels}}},
		NetworkInterfaces: []*computepb.NetworkInterface{c.network()},
		ShieldedInstanceConfig: &computepb.ShieldedInstanceConfig{EnableVtpm: proto.Bool(true),
			EnableIntegrityMonitoring: proto.Bool(true), EnableSecureBoot: proto.Bool(!c.config.NoSecureBoot)},
		Metadata: &computepb.Metadata{Items: []*computepb.Items{
			{Key: proto.String("enable-oslogin"), Value: proto.String("TRUE")}, // roles decide on logins
			{Key: proto.String("block-project-ssh-keys"), Value: proto.String("TRUE")},
			{Key: proto.String(metaStartup), Value: &r.UserData},
		}},
	}
	if len(r.Network) > 0 {
		instance.Tags = &computepb.Tags{Items: r.Network}
	}
	if r.Role != "" {
		instance.ServiceAccounts = []*computepb.ServiceAccount{{Email: &r.Role, Scopes: c.config.Scopes}}
	}
	return &computepb.InsertInstanceRequest{Project: c.config.Project, Zone: r.Zone, RequestId: &id, InstanceResource: instance}
}

// EndController deletes a job server's machine, with its disk.
func (c *Cloud) EndController(ctx context.Context, found provisioner.Controller) error {
	return c.delete(ctx, found.Zone, provisioner.InstanceID(found.ID))
}
