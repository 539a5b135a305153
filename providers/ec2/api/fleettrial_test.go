package api_test

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"testing"

	ec2 "github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
)

// The trial of a fleet creates nothing: each of its calls is a DryRun of the real launch, and reports which rights are missing.
func TestTryFleet(t *testing.T) {
	refused := map[string]string{"CreateFleet": "InvalidLaunchTemplateName.NotFoundException", "DeleteLaunchTemplate": "InvalidLaunchTemplateName.NotFoundException"}
	s := newServer(t, func(form url.Values) (int, string) {
		if form.Get("DryRun") != "true" {
			t.Errorf("%s is no trial", form.Get("Action"))
		}
		if code := refused[form.Get("Action")]; code != "" {
			return http.StatusForbidden, apiError(code, "words")
		}
		return http.StatusPreconditionFailed, apiError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
	})
	cloud := s.cloud(func(c *ec2.Config) { c.Job, c.Strategy = "real-1-0a", provisioner.PriceCapacityOptimized })
	r := fleetRequest(1)
	rights, err := cloud.TryFleet(t.Context(), r)
	if err != nil || len(rights.Denied)+len(rights.Unsure) > 0 {
		t.Errorf("a role that may all: %+v, %v", rights, err)
	}
	if calls := s.actions(); !slices.Equal(calls, []string{"CreateLaunchTemplate", "DescribeLaunchTemplates", "CreateFleet", "DeleteLaunchTemplate"}) {
		t.Errorf("the trial makes the calls %v", calls)
	}
	template, fleet := s.recorded()[0], s.recorded()[2]
	if template.Get("LaunchTemplateData.ImageId") != "ami-1" || template.Get("TagSpecification.1.Tag.1.Key") != "tierml:cluster" {
		t.Errorf("the template tried: %v", template)
	}
	if fleet.Get("Type") != "instant" || fleet.Get("ClientToken") == r.Token || fleet.Get("SpotOptions.AllocationStrategy") != "price-capacity-optimized" ||
		fleet.Get("LaunchTemplateConfigs.1.Overrides.3.InstanceType") != "m3.large" || fleet.Get("TagSpecification.1.Tag.1.Key") != "tierml:cluster" {
		t.Errorf("the fleet tried: %v", fleet)
	}
	for _, action := range []string{"CreateLaunchTemplate", "DescribeLaunchTemplates", "CreateFleet", "DeleteLaunchTemplate"} {
		refused[action] = "UnauthorizedOperation"
	}
	rights, err = cloud.TryFleet(t.Context(), r)
	if err != nil || !slices.Equal(rights.Denied, []string{"ec2:CreateLaunchTemplate", "ec2:DescribeLaunchTemplates"}) ||
		!slices.Equal(rights.Unsure, []string{"ec2:CreateFleet", "ec2:DeleteLaunchTemplate"}) {
		t.Errorf("a role that may nothing: %+v, %v", rights, err)
	}
	refused["CreateFleet"] = "InvalidSubnetID.NotFound"
	if _, err := cloud.TryFleet(t.Context(), r); !errors.Is(err, provisioner.ErrNotFound) {
		t.Errorf("a subnet that is not there: %v", err)
	}
}

// If an endpoint ignores DryRun and creates the template, it is deleted, and this is reported.
func TestTryFleetWhereNobodyKnowsTrials(t *testing.T) {
	s := newServer(t, byAction(map[string]string{
		"CreateLaunchTemplate": templateAnswer,
		"DeleteLaunchTemplate": `<DeleteLaunchTemplateResponse></DeleteLaunchTemplateResponse>`,
	}))
	if _, err := s.cloud().TryFleet(t.Context(), spotRequest()); !errors.Is(err, provisioner.ErrInvalid) {
		t.Errorf("%v; want ErrInvalid", err)
	}
	if calls := s.actions(); !slices.Equal(calls, []string{"CreateLaunchTemplate", "DeleteLaunchTemplate"}) {
		t.Errorf("calls %v", calls)
	}
}
