package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tierml/tierml/provisioner"
)

// A fleet's launch template exists only during a call. A controller that dies between the calls leaves it behind: it costs nothing, but its
// user data holds a machine's one-time token, and an account may have at most 5,000.

// Another process has removed it.
const (
	codeTemplateNameNotFound = "InvalidLaunchTemplateName.NotFoundException"
	codeTemplateIDNotFound   = "InvalidLaunchTemplateId.NotFound"
)

// templatePrefix starts the ids of launch templates.
const templatePrefix = "lt-"

// templateKind replaces the machine type in lists of leftovers.
const templateKind = "launch-template"

// leftBehind replaces the machine state.
const leftBehind provisioner.State = "left-behind"

// templates returns the launch templates created for fleets of the cluster, or of the configured Job.
func (c *Cloud) templates(ctx context.Context) (found []types.LaunchTemplate, err error) {
	pages := ec2.NewDescribeLaunchTemplatesPaginator(c.api, &ec2.DescribeLaunchTemplatesInput{
		Filters: c.ours(nil), MaxResults: aws.Int32(200),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, failure(ctx, "listing launch templates", err)
		}
		for _, t := range page.LaunchTemplates {
			if strings.HasPrefix(aws.ToString(t.LaunchTemplateName), templateNamePrefix) {
				found = append(found, t)
			}
		}
	}
	return found, nil
}

// leftTemplates returns them as holdings.
func (c *Cloud) leftTemplates(ctx context.Context) (left []provisioner.Holding, err error) {
	found, err := c.templates(ctx)
	for i := range found {
		t := &found[i]
		var m machine
		m.Tags = map[string]string{}
		for _, one := range t.Tags {
			m.takeTag(aws.ToString(one.Key), aws.ToString(one.Value))
		}
		m.ID, m.State = provisioner.InstanceID(aws.ToString(t.LaunchTemplateId)), leftBehind
		m.Pool.Provider, m.Pool.Region, m.Pool.Type = Provider, c.config.Region, templateKind
		if t.CreateTime != nil {
			m.Launched = wholeSeconds(*t.CreateTime)
		}
		left = append(left, m.holding())
	}
	return left, err
}

// holding returns a machine with the facts in its tags.
func (m *machine) holding() provisioner.Holding {
	h := provisioner.Holding{Instance: m.Instance, Job: m.job, Owner: m.owner}
	if at, err := time.Parse(time.RFC3339, m.expires); err == nil { // else the tag was changed by hand
		h.Expires = at
	}
	return h
}

// Preempt refuses: EC2 sends real notices only through its Fault Injection Service, which needs an experiment and a role of its own.
func (c *Cloud) Preempt(ctx context.Context, ids ...provisioner.InstanceID) error {
	return provisioner.Basic{}.Preempt(ctx, ids...)
}

// Recall does nothing: EC2 lists ended machines for an hour.
func (c *Cloud) Recall(provisioner.Instance) {}

// RemoveLeftovers deletes the launch templates that dead controllers of the configured Job, or of the cluster, have left behind. It must
// not be called during a fleet purchase, whose template would be deleted.
func (c *Cloud) RemoveLeftovers(ctx context.Context) error {
	found, err := c.templates(ctx)
	if err != nil {
		return err
	}
	var ids []string
	for _, t := range found {
		ids = append(ids, aws.ToString(t.LaunchTemplateId))
	}
	return c.deleteTemplates(ctx, ids)
}

// deleteTemplates deletes templates by id. Unknown ones are already gone.
func (c *Cloud) deleteTemplates(ctx context.Context, ids []string) error {
	slices.Sort(ids)
	var failures []error
	for _, id := range slices.Compact(ids) {
		_, err := c.api.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: &id})
		if err != nil && codeOf(err) != codeTemplateIDNotFound {
			failures = append(failures, failure(ctx, fmt.Sprintf("deleting launch template %s", id), err))
		}
	}
	return errors.Join(failures...)
}
