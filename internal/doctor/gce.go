package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// GCE is a project to look at.
type GCE interface {
	Zones(context.Context) ([]string, error)
	Types(ctx context.Context, zone string) ([]market.InstanceType, error)
	Granted(ctx context.Context, endpoint string, permissions []string) ([]string, error)
	Quotas(context.Context) ([]provisioner.Quota, error)
	ImageStatus(context.Context) (name, status string, err error)
	SubnetworkRange(context.Context) (addresses string, private bool, err error)
	PriceList(ctx context.Context, page func(skus []byte) (more bool, err error)) error
	Holdings(context.Context) ([]provisioner.Holding, error)
	MayActAs(ctx context.Context, endpoint string) (bool, error)
	MayUseSubnetwork(context.Context) (missing []string, err error)
	Services(ctx context.Context, endpoint string, names []string) (map[string]string, error)
}

// Permissions that a controller needs; terraform/gcp gives them: those that look on the project, those that change something
// under a condition on names, of which the project itself knows nothing.
var (
	gceLooks = []string{
		"compute.instances.get", "compute.instances.list", "compute.machineTypes.get", "compute.machineTypes.list", "compute.zoneOperations.get",
		"compute.zoneOperations.list", "compute.zones.get", "compute.zones.list",
	}
	gceChanges = []string{
		"compute.disks.create", "compute.disks.setLabels", "compute.instances.create", "compute.instances.delete", "compute.instances.setLabels",
		"compute.instances.setMetadata", "compute.instances.setServiceAccount", "compute.instances.setTags",
	}
)

// gceServices are those of Google's that a run asks.
var gceServices = []string{"compute.googleapis.com", "iam.googleapis.com", "storage.googleapis.com"}

const (
	gceRole        = "give the service account the roles of terraform/gcp"
	gceCredentials = "run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS; gcloud auth list shows whose they are"
)

// GCEChecks are those of a job with cloud: gce.
func GCEChecks(job *config.Job, connect func(context.Context) (GCE, error)) []Check {
	var project GCE
	g := job.GCE
	with := func(name string, look func(context.Context) (string, error)) Check {
		return Check{Name: name, Needs: "credentials", Look: look}
	}
	known := map[string]market.InstanceType{}
	var zones []string
	return []Check{
		{Name: "credentials", Look: func(ctx context.Context) (found string, err error) {
			if project, err = connect(ctx); err != nil {
				return "", denied(err, gceCredentials)
			}
			if zones, err = project.Zones(ctx); err != nil {
				return "", denied(err, gceCredentials+"; is the project "+g.Project+" right, and its Compute Engine API on? gcloud services enable compute.googleapis.com")
			}
			if len(zones) == 0 {
				return "", problem("write a region such as us-central1", "%s has no zones: is it a region?", g.Region)
			}
			return fmt.Sprintf("taken by Compute Engine; %s has %d zones", g.Region, len(zones)), nil
		}},
		with("APIs", func(ctx context.Context) (string, error) { return gceAPIs(ctx, project) }),
		with("permissions", func(ctx context.Context) (string, error) { return granted(ctx, project) }),
		with("service account", func(ctx context.Context) (string, error) { return gceServiceAccount(ctx, project, g) }),
		with("machine types", func(ctx context.Context) (string, error) { return gceTypes(ctx, project, job, zones, known) }),
		with("image", func(ctx context.Context) (string, error) {
			name, status, err := project.ImageStatus(ctx)
			if err != nil {
				return "", denied(err, "write gce.image: projects/debian-cloud/global/images/family/debian-12")
			}
			if status != "READY" {
				return "", problem("choose another image, or wait", "%s is %s", name, status)
			}
			return name + " is ready", nil
		}),
		with("network", func(ctx context.Context) (string, error) { return gceNetwork(ctx, project, g) }),
		with("price list", func(ctx context.Context) (string, error) { return gceList(ctx, project, g) }),
		with("quotas", func(ctx context.Context) (string, error) { return gceQuotas(ctx, project, job, known) }),
		with("machines", func(ctx context.Context) (string, error) {
			live, err := project.Holdings(ctx)
			if err != nil {
				return "", denied(err, gceRole)
			}
			return fmt.Sprintf("%d of the cluster %s are there: see tierml leaks", len(live), g.Cluster), nil
		}),
	}
}

func granted(ctx context.Context, project GCE) (string, error) {
	has, err := project.Granted(ctx, "", append(slices.Clone(gceLooks), gceChanges...))
	if err != nil {
		return "", doubt("turn the Resource Manager's API on, or look by hand: gcloud services enable cloudresourcemanager.googleapis.com", "%v", err)
	}
	lacks := func(wanted []string) (missing []string) {
		for _, p := range wanted {
			if !slices.Contains(has, p) {
				missing = append(missing, p)
			}
		}
		return missing
	}
	if missing := lacks(gceLooks); len(missing) > 0 {
		return "", problem(gceRole, "not granted on the project: %s", strings.Join(missing, ", "))
	}
	if missing := lacks(gceChanges); len(missing) > 0 {
		return "", doubt("nothing, when they are granted for the cluster's names only, as terraform/gcp does; else "+gceRole,
			"the project does not tell whether these are granted: %s", strings.Join(missing, ", "))
	}
	return fmt.Sprintf("all %d are granted on the project", len(gceLooks)+len(gceChanges)), nil
}

// gceAPIs looks whether the services are on. Compute Engine's is, as it has answered.
func gceAPIs(ctx context.Context, project GCE) (string, error) {
	states, err := project.Services(ctx, "", gceServices)
	if err != nil {
		return "", doubt("let the service account do serviceusage.services.get, or look by hand: gcloud services list --enabled", "%v", err)
	}
	var off []string
	for _, name := range gceServices {
		if states[name] != "ENABLED" {
			off = append(off, name)
		}
	}
	if len(off) > 0 {
		return "", problem("gcloud services enable "+strings.Join(off, " "), "not on in the project: %s", strings.Join(off, ", "))
	}
	return strings.Join(gceServices, ", ") + " are on", nil
}

func gceServiceAccount(ctx context.Context, project GCE, g config.GCE) (string, error) {
	if g.ServiceAccount == "" {
		return "", doubt("write gce.service_account: machines read the program, splits and checkpoints as it", "none is named: machines act as nobody")
	}
	may, err := project.MayActAs(ctx, "")
	switch {
	case errors.Is(err, provisioner.ErrNotFound):
		return "", problem("write gce.service_account: NAME@"+g.Project+".iam.gserviceaccount.com; gcloud iam service-accounts list shows them", "there is no %s", g.ServiceAccount)
	case err != nil:
		return "", doubt("turn IAM's API on, or look by hand: gcloud services enable iam.googleapis.com", "%v", err)
	case !may:
		return "", problem("give the controller roles/iam.serviceAccountUser on it: gcloud iam service-accounts add-iam-policy-binding "+g.ServiceAccount,
			"machines may not be launched as %s (iam.serviceAccounts.actAs)", g.ServiceAccount)
	}
	return "machines act as " + g.ServiceAccount, nil
}

func gceTypes(ctx context.Context, project GCE, job *config.Job, zones []string, known map[string]market.InstanceType) (string, error) {
	wanted := job.Resources.Zones
	if len(wanted) == 0 {
		wanted = zones
	}
	for _, zone := range wanted {
		if !slices.Contains(zones, zone) {
			return "", problem("write zones of "+job.GCE.Region+": "+strings.Join(zones, ", "), "%s is not one of them, or is down", zone)
		}
		types, err := project.Types(ctx, zone)
		if err != nil {
			return "", denied(err, gceRole)
		}
		for _, t := range types {
			known[t.Name] = t
		}
	}
	for _, m := range append(slices.Clone(job.Resources.AnyOf), config.Machine{Type: job.Reliable.Type}) {
		if _, ok := known[m.Type]; m.Type != "" && !ok {
			return "", problem("write types that "+job.GCE.Region+" sells: gcloud compute machine-types list", "there is no %s in %s", m.Type, strings.Join(wanted, ", "))
		}
	}
	return fmt.Sprintf("%d in %s, those of the job among them", len(known), strings.Join(wanted, ", ")), nil
}

func gceNetwork(ctx context.Context, project GCE, g config.GCE) (string, error) {
	if g.Subnetwork == "" {
		return "", doubt("write gce.subnetwork when the project has no network called default", "no subnetwork is named")
	}
	addresses, private, err := project.SubnetworkRange(ctx)
	switch {
	case errors.Is(err, provisioner.ErrDenied):
		return "", doubt("let the service account do compute.subnetworks.get if doctor shall look at it; runs do without", "%v", err)
	case err != nil:
		return "", problem("write a subnetwork of "+g.Region, "%v", err)
	case !private && !g.ExternalIP:
		return "", problem("turn Private Google Access on: gcloud compute networks subnets update NAME --enable-private-ip-google-access, or write external_ip: true",
			"machines have no public address, and the subnetwork no way to Google's services")
	}
	missing, err := project.MayUseSubnetwork(ctx)
	switch {
	case err != nil:
		return "", doubt("look by hand: gcloud compute networks subnets get-iam-policy", "%v", err)
	case len(missing) > 0:
		return "", problem("give the controller roles/compute.networkUser on the subnetwork, as terraform/gcp does", "not granted on it: %s", strings.Join(missing, ", "))
	}
	return "machines get addresses of " + addresses, nil
}

// gceList looks whether Google's price list can be had, unless the job brings a catalog along.
func gceList(ctx context.Context, project GCE, g config.GCE) (string, error) {
	if g.Catalog != "" {
		return "on-demand prices are of the job's own catalog", nil
	}
	if err := project.PriceList(ctx, func([]byte) (bool, error) { return false, nil }); err != nil {
		return "", denied(err, "gcloud services enable cloudbilling.googleapis.com, or name a CSV file in gce.catalog; docs/prices.md says what it looks like")
	}
	return "the Cloud Billing Catalog answers", nil
}

// gceQuotas looks at the vCPUs of all families together; PREEMPTIBLE_CPUS is that of Spot machines, unless it is 0: then they
// count against CPUS.
func gceQuotas(ctx context.Context, project GCE, job *config.Job, types map[string]market.InstanceType) (string, error) {
	quotas, err := project.Quotas(ctx)
	if err != nil {
		return "", doubt("let the service account do compute.regions.get, or look at the console: IAM, Quotas", "%v", err)
	}
	limit := map[string]provisioner.Quota{}
	for _, q := range quotas {
		limit[q.Name] = q
	}
	spot, onDemand := needs(job, types)
	name, wanted := "PREEMPTIBLE_CPUS", spot
	if limit[name].Limit == 0 {
		onDemand += spot
		name, wanted = "CPUS", onDemand
	}
	for _, q := range []struct {
		name   string
		needed float64
	}{{name, wanted}, {"CPUS", onDemand}} {
		if have := limit[q.name]; have.Limit-have.Used < q.needed {
			return "", problem("ask for more in the console: IAM, Quotas, "+q.name+" in "+job.GCE.Region, "%s: %.0f of %.0f are free; the job may want %.0f",
				q.name, have.Limit-have.Used, have.Limit, q.needed)
		}
	}
	return fmt.Sprintf("%s: %.0f of %.0f are free, %.0f wanted", name, limit[name].Limit-limit[name].Used, limit[name].Limit, wanted), nil
}
