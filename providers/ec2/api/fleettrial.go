package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/tierml/tierml/provisioner"
)

// FleetRights holds EC2's verdicts on the actions that a fleet needs in addition to those of RunInstances.
type FleetRights struct {
	Denied []string
	// Unsure lists actions that were refused for a launch template that does not exist. A role that may use only templates with the
	// cluster's tag, like that of terraform/aws, can be refused here although it may use the real one, which has the tag.
	Unsure []string
}

// TryFleet asks EC2, with DryRun, whether a request could be launched as a fleet, without launching it. Nothing is created, not even the
// launch template: CreateFleet names one that does not exist, and the error that says so means yes.
func (c *Cloud) TryFleet(ctx context.Context, r provisioner.Request) (rights FleetRights, err error) {
	doing := fmt.Sprintf("checking whether a fleet of %s could be launched", r.Pool)
	if err := c.validateRequest(r); err != nil {
		return rights, fmt.Errorf("%s: %w", doing, err)
	}
	template, fleet, dry := c.templateInput(r), c.fleetInput(r), aws.Bool(true)
	template.DryRun, fleet.DryRun, fleet.ClientToken = dry, dry, nil // the token remains unused
	name := template.LaunchTemplateName
	var launched *ec2.CreateFleetOutput
	for _, trial := range []struct {
		action string
		buys   bool // and must be refused, if only because of DryRun
		of     *[]string
		ask    func() error
	}{
		{"CreateLaunchTemplate", true, &rights.Denied, func() error {
			_, err := c.api.CreateLaunchTemplate(ctx, template)
			if err == nil {
				c.deleteTemplate(ctx, *name)
			}
			return err
		}},
		{"DescribeLaunchTemplates", false, &rights.Denied, func() error {
			_, err := c.api.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{DryRun: dry})
			return err
		}},
		{"CreateFleet", true, &rights.Unsure, func() (err error) { launched, err = c.api.CreateFleet(ctx, fleet); return err }},
		{"DeleteLaunchTemplate", false, &rights.Unsure, func() error {
			_, err := c.api.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{DryRun: dry, LaunchTemplateName: name})
			return err
		}},
	} {
		answer := trial.ask()
		if answer == nil && trial.buys {
			if launched == nil {
				return rights, fmt.Errorf("%s: %s: %w: the endpoint ignored DryRun; the launch template %s was made and deleted", doing, trial.action, provisioner.ErrInvalid, *name)
			}
			var ids []string
			for _, some := range launched.Instances {
				ids = append(ids, some.InstanceIds...)
			}
			return rights, c.boughtByTrial(ctx, doing, ids)
		}
		if codeOf(answer) == codeTemplateNameNotFound {
			continue
		}
		switch err := tried(ctx, doing+": "+trial.action, answer); {
		case errors.Is(err, provisioner.ErrDenied):
			*trial.of = append(*trial.of, "ec2:"+trial.action)
		case err != nil:
			return rights, err
		}
	}
	return rights, nil
}
