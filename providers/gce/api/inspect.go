package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/adapter"
)

// at returns the address of another of Google's APIs: a server on this host that speaks Compute Engine's protocol
// serves the others, too.
func (p *Project) at(address string) string {
	if local, _ := adapter.IsLocal(p.config.Endpoint); local {
		return p.config.Endpoint
	}
	return address
}

// Granted returns which of the permissions these credentials have on the project (projects.testIamPermissions).
func (p *Project) Granted(ctx context.Context, permissions []string) ([]string, error) {
	return p.permitted(ctx, "asking what is permitted in "+p.config.Project, p.at("https://cloudresourcemanager.googleapis.com")+"/v1/projects/"+p.config.Project, permissions)
}

// permitted returns which permissions these credentials have on a resource (its testIamPermissions).
func (p *Project) permitted(ctx context.Context, doing, resource string, permissions []string) ([]string, error) {
	body, err := json.Marshal(map[string][]string{"permissions": permissions})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	var answer struct {
		Permissions []string `json:"permissions"`
	}
	err = p.byHand(ctx, doing, http.MethodPost, resource+":testIamPermissions", body, &answer)
	return answer.Permissions, err
}

// byHand calls an API other than Compute Engine's, which avoids another client library for one call.
func (p *Project) byHand(ctx context.Context, doing, method, address string, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, p.config.AttemptTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w: %w", doing, provisioner.ErrInvalid, err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := p.http.Do(request)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", doing, provisioner.ErrTemporary, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w: %w", doing, provisioner.ErrTemporary, err)
	case response.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s: %w: %s: %.300s", doing, provisioner.ErrNotFound, response.Status, text)
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %w: %s: %.300s", doing, provisioner.ErrDenied, response.Status, text)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s: %w: %w", doing, provisioner.ErrInvalid, err)
	}
	return nil
}

// MayActAs reports whether these credentials may launch machines that act as the configured service account; without an
// account it asks nothing.
func (p *Project) MayActAs(ctx context.Context) (bool, error) {
	account := p.config.ServiceAccount
	if account == "" {
		return true, nil
	}
	const actAs = "iam.serviceAccounts.actAs"
	granted, err := p.permitted(ctx, "asking who may act as "+account, p.at("https://iam.googleapis.com")+"/v1/projects/-/serviceAccounts/"+account, []string{actAs})
	return slices.Contains(granted, actAs), err
}

// Services returns the state of some of Google's services in the project by name, such as compute.googleapis.com:
// ENABLED or DISABLED.
func (p *Project) Services(ctx context.Context, names []string) (map[string]string, error) {
	doing := "asking which services are on in " + p.config.Project
	query := url.Values{}
	for _, name := range names {
		query.Add("names", "projects/"+p.config.Project+"/services/"+name)
	}
	var answer struct {
		Services []struct {
			Name  string `json:"name"`
			State string `json:"state"`
		} `json:"services"`
	}
	err := p.byHand(ctx, doing, http.MethodGet, p.at("https://serviceusage.googleapis.com")+"/v1/projects/"+p.config.Project+"/services:batchGet?"+query.Encode(), nil, &answer)
	if err != nil {
		return nil, err
	}
	states := map[string]string{}
	for _, s := range answer.Services {
		states[s.Name[strings.LastIndex(s.Name, "/")+1:]] = s.State
	}
	return states, nil
}

// MayUseSubnetwork returns the permissions that these credentials lack to put machines into the configured subnetwork,
// and to give them public addresses if configured; without a subnetwork it asks nothing.
func (p *Project) MayUseSubnetwork(ctx context.Context) (missing []string, err error) {
	if p.config.Subnetwork == "" {
		return nil, nil
	}
	wanted := []string{"compute.subnetworks.use"}
	if p.config.ExternalIP {
		wanted = append(wanted, "compute.subnetworks.useExternalIp")
	}
	project, name := p.subnetwork()
	err = p.try(ctx, "asking who may use the subnetwork "+p.config.Subnetwork, p.config.AttemptTimeout, func(ctx context.Context) error {
		client, err := compute.NewSubnetworksRESTClient(ctx, p.within(ctx)...)
		if err != nil {
			return err
		}
		answer, err := client.TestIamPermissions(ctx, &computepb.TestIamPermissionsSubnetworkRequest{Project: project, Region: p.config.Region, Resource: name,
			TestPermissionsRequestResource: &computepb.TestPermissionsRequest{Permissions: wanted}})
		if err != nil {
			return err
		}
		missing = slices.DeleteFunc(slices.Clone(wanted), func(p string) bool { return slices.Contains(answer.GetPermissions(), p) })
		return nil
	})
	return missing, err
}

// subnetwork returns the configured subnetwork and its project, which may be another one (Shared VPC).
func (p *Project) subnetwork() (project, name string) {
	parts := strings.Split(p.config.Subnetwork, "/")
	project = p.config.Project
	if at := slices.Index(parts, "projects"); at >= 0 && at+1 < len(parts) {
		project = parts[at+1]
	}
	return project, parts[len(parts)-1]
}

// Quotas returns the region's limits by Compute Engine's names, such as CPUS, PREEMPTIBLE_CPUS and SSD_TOTAL_GB, sorted.
func (p *Project) Quotas(ctx context.Context) ([]provisioner.Quota, error) {
	var found []provisioner.Quota
	err := p.try(ctx, "asking for the quotas of "+p.config.Region, p.config.AttemptTimeout, func(ctx context.Context) error {
		found = nil
		client, err := compute.NewRegionsRESTClient(ctx, p.within(ctx)...)
		if err != nil {
			return err
		}
		region, err := client.Get(ctx, &computepb.GetRegionRequest{Project: p.config.Project, Region: p.config.Region})
		if err != nil {
			return err
		}
		for _, q := range region.GetQuotas() {
			found = append(found, provisioner.Quota{Name: q.GetMetric(), Limit: q.GetLimit(), Used: q.GetUsage()})
		}
		return nil
	})
	slices.SortFunc(found, func(a, b provisioner.Quota) int { return strings.Compare(a.Name, b.Name) })
	return found, err
}

// ImageStatus returns the name and status of the configured image, or of the newest of its family: the status should be
// READY.
func (p *Project) ImageStatus(ctx context.Context) (name, status string, err error) {
	parts := strings.Split(strings.TrimPrefix(p.config.Image, "https://www.googleapis.com/compute/v1/"), "/")
	at := slices.Index(parts, "projects")
	if at < 0 || len(parts) < at+5 {
		return "", "", fmt.Errorf("looking at the image: %w: %q is not projects/PROJECT/global/images/NAME or .../images/family/NAME", provisioner.ErrInvalid, p.config.Image)
	}
	project, last := parts[at+1], parts[len(parts)-1]
	err = p.try(ctx, "looking at the image "+p.config.Image, p.config.AttemptTimeout, func(ctx context.Context) error {
		client, err := compute.NewImagesRESTClient(ctx, p.within(ctx)...)
		if err != nil {
			return err
		}
		var image *computepb.Image
		if slices.Contains(parts, "family") {
			image, err = client.GetFromFamily(ctx, &computepb.GetFromFamilyImageRequest{Project: project, Family: last})
		} else {
			image, err = client.Get(ctx, &computepb.GetImageRequest{Project: project, Image: last})
		}
		if err == nil {
			name, status = image.GetName(), image.GetStatus()
		}
		return err
	})
	return name, status, err
}

// SubnetworkRange returns the configured subnetwork's range of addresses, and whether machines without a public address
// reach Google's services from it (Private Google Access). The range is empty when no subnetwork is configured.
func (p *Project) SubnetworkRange(ctx context.Context) (addresses string, private bool, err error) {
	if p.config.Subnetwork == "" {
		return "", false, nil
	}
	project, subnetwork := p.subnetwork()
	err = p.try(ctx, "looking at the subnetwork "+p.config.Subnetwork, p.config.AttemptTimeout, func(ctx context.Context) error {
		client, err := compute.NewSubnetworksRESTClient(ctx, p.within(ctx)...)
		if err != nil {
			return err
		}
		s, err := client.Get(ctx, &computepb.GetSubnetworkRequest{Project: project, Region: p.config.Region, Subnetwork: subnetwork})
		if err == nil {
			addresses, private = s.GetIpCidrRange(), s.GetPrivateIpGoogleAccess()
		}
		return err
	})
	return addresses, private, err
}
