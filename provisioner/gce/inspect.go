package gce

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/tierml/tierml/provisioner"
)

// This file only looks at a project: nothing is bought or changed by it.

// managerAddress is where the Resource Manager's API is.
const managerAddress = "https://cloudresourcemanager.googleapis.com"

// Granted asks which of some permissions these credentials have on the project (projects.testIamPermissions). Endpoint
// replaces the Resource Manager's own; empty = Google's. The call is made by hand: its client would be one more for one call.
func (c *Cloud) Granted(ctx context.Context, endpoint string, permissions []string) ([]string, error) {
	doing := "asking what is permitted in " + c.config.Project
	if endpoint == "" {
		endpoint = managerAddress
	}
	body, err := json.Marshal(map[string][]string{"permissions": permissions})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.config.AttemptTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+"/v1/projects/"+c.config.Project+":testIamPermissions", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", doing, provisioner.ErrInvalid, err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", doing, provisioner.ErrTemporary, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", doing, provisioner.ErrTemporary, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %w: %s: %.300s", doing, provisioner.ErrDenied, response.Status, text)
	}
	var answer struct {
		Permissions []string `json:"permissions"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", doing, provisioner.ErrInvalid, err)
	}
	return answer.Permissions, nil
}

// Quotas gives the region's limits by Compute Engine's names, such as CPUS, PREEMPTIBLE_CPUS and SSD_TOTAL_GB, sorted.
func (c *Cloud) Quotas(ctx context.Context) ([]provisioner.Quota, error) {
	var found []provisioner.Quota
	err := c.try(ctx, "asking for the quotas of "+c.config.Region, c.config.AttemptTimeout, func(ctx context.Context) error {
		found = nil
		client, err := compute.NewRegionsRESTClient(ctx, c.within(ctx)...)
		if err != nil {
			return err
		}
		region, err := client.Get(ctx, &computepb.GetRegionRequest{Project: c.config.Project, Region: c.config.Region})
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

// ImageStatus looks the configured image, or the newest of its family, up: READY is what it should be.
func (c *Cloud) ImageStatus(ctx context.Context) (name, status string, err error) {
	parts := strings.Split(strings.TrimPrefix(c.config.Image, "https://www.googleapis.com/compute/v1/"), "/")
	at := slices.Index(parts, "projects")
	if at < 0 || len(parts) < at+5 {
		return "", "", fmt.Errorf("looking at the image: %w: %q is not projects/PROJECT/global/images/NAME or .../images/family/NAME", provisioner.ErrInvalid, c.config.Image)
	}
	project, last := parts[at+1], parts[len(parts)-1]
	err = c.try(ctx, "looking at the image "+c.config.Image, c.config.AttemptTimeout, func(ctx context.Context) error {
		client, err := compute.NewImagesRESTClient(ctx, c.within(ctx)...)
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

// SubnetworkRange looks the configured subnetwork up: its range of addresses, and whether machines without a public address
// reach Google's services from it (Private Google Access). It is empty when none is configured.
func (c *Cloud) SubnetworkRange(ctx context.Context) (addresses string, private bool, err error) {
	if c.config.Subnetwork == "" {
		return "", false, nil
	}
	parts := strings.Split(c.config.Subnetwork, "/")
	project := c.config.Project
	if at := slices.Index(parts, "projects"); at >= 0 && at+1 < len(parts) {
		project = parts[at+1]
	}
	err = c.try(ctx, "looking at the subnetwork "+c.config.Subnetwork, c.config.AttemptTimeout, func(ctx context.Context) error {
		client, err := compute.NewSubnetworksRESTClient(ctx, c.within(ctx)...)
		if err != nil {
			return err
		}
		s, err := client.Get(ctx, &computepb.GetSubnetworkRequest{Project: project, Region: c.config.Region, Subnetwork: parts[len(parts)-1]})
		if err == nil {
			addresses, private = s.GetIpCidrRange(), s.GetPrivateIpGoogleAccess()
		}
		return err
	})
	return addresses, private, err
}
