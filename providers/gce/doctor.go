package gce

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/provisioner"
)

// doctorAPI is what the doctor needs from a project.
type doctorAPI interface {
	Zones(context.Context) ([]string, error)
	Types(ctx context.Context, zone string) ([]market.InstanceType, error)
	Granted(ctx context.Context, permissions []string) ([]string, error)
	Quotas(context.Context) ([]provisioner.Quota, error)
	ImageStatus(context.Context) (name, status string, err error)
	SubnetworkRange(context.Context) (addresses string, private bool, err error)
	PriceList(ctx context.Context, page func(skus []byte) (more bool, err error)) error
	Holdings(context.Context) ([]provisioner.Holding, error)
	MayActAs(context.Context) (bool, error)
	MayUseSubnetwork(context.Context) (missing []string, err error)
	Services(ctx context.Context, names []string) (map[string]string, error)
}

// Permissions that a job server needs; terraform/gcp grants them: read permissions on the project, write permissions
// under a condition on names, which the project's own answer does not include.
var (
	looks = []string{
		"compute.instances.get", "compute.instances.list", "compute.machineTypes.get", "compute.machineTypes.list", "compute.zoneOperations.get",
		"compute.zoneOperations.list", "compute.zones.get", "compute.zones.list",
	}
	changes = []string{
		"compute.disks.create", "compute.disks.setLabels", "compute.instances.create", "compute.instances.delete", "compute.instances.setLabels",
		"compute.instances.setMetadata", "compute.instances.setServiceAccount", "compute.instances.setTags",
	}
)

// services returns those of Google's services that a run calls.
func services(g *Block) []string {
	names := []string{"compute.googleapis.com", "iam.googleapis.com", "storage.googleapis.com"}
	if g.StoreTokens {
		names = append(names, "sts.googleapis.com") // it narrows the job server's token
	}
	return names
}

const (
	roleAdvice        = "give the service account the roles of terraform/gcp"
	credentialsAdvice = "run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS; gcloud auth list shows whose they are"
)

// checks returns the checks of a job with cloud: gce.
func checks(job *config.Job, connect func(context.Context) (doctorAPI, error)) []doctor.Check {
	var project doctorAPI
	g := blockOf(job)
	with := func(name string, look func(context.Context) (string, error)) doctor.Check {
		return doctor.Check{Name: name, Needs: "credentials", Look: look}
	}
	known := map[string]market.InstanceType{}
	var zones []string
	checks := []doctor.Check{
		{Name: "credentials", Look: func(ctx context.Context) (found string, err error) {
			if project, err = connect(ctx); err != nil {
				return "", doctor.Denied(err, credentialsAdvice)
			}
			if zones, err = project.Zones(ctx); err != nil {
				return "", doctor.Denied(err, credentialsAdvice+"; is the project "+g.Project+" right, and its Compute Engine API on? gcloud services enable compute.googleapis.com")
			}
			if len(zones) == 0 {
				return "", doctor.Wrong("write a region such as us-central1", "%s has no zones: is it a region?", g.Region)
			}
			return fmt.Sprintf("taken by Compute Engine; %s has %d zones", g.Region, len(zones)), nil
		}},
		with("APIs", func(ctx context.Context) (string, error) { return checkAPIs(ctx, project, services(g)) }),
		with("permissions", func(ctx context.Context) (string, error) { return granted(ctx, project) }),
		with("service account", func(ctx context.Context) (string, error) { return checkServiceAccount(ctx, project, g) }),
		with("machine types", func(ctx context.Context) (string, error) { return checkTypes(ctx, project, job, zones, known) }),
		with("image", func(ctx context.Context) (string, error) {
			name, status, err := project.ImageStatus(ctx)
			if err != nil {
				return "", doctor.Denied(err, "write gce.image: projects/debian-cloud/global/images/family/debian-12")
			}
			if status != "READY" {
				return "", doctor.Wrong("choose another image, or wait", "%s is %s", name, status)
			}
			return name + " is ready", nil
		}),
		with("network", func(ctx context.Context) (string, error) { return checkNetwork(ctx, project, g) }),
		with("price list", func(ctx context.Context) (string, error) { return checkList(ctx, project, g) }),
		with("quotas", func(ctx context.Context) (string, error) { return checkQuotas(ctx, project, job, known) }),
		with("machines", func(ctx context.Context) (string, error) {
			live, err := project.Holdings(ctx)
			if err != nil {
				return "", doctor.Denied(err, roleAdvice)
			}
			return fmt.Sprintf("%d of the cluster %s are there: see tierml leaks", len(live), g.Cluster), nil
		}),
	}
	if job.Image != "" {
		checks = append(checks, doctor.ContainersOn(image(job), image(job) == deepLearning))
	}
	return checks
}

func granted(ctx context.Context, project doctorAPI) (string, error) {
	has, err := project.Granted(ctx, append(slices.Clone(looks), changes...))
	if err != nil {
		return "", doctor.Warn("turn the Resource Manager's API on, or look by hand: gcloud services enable cloudresourcemanager.googleapis.com", "%v", err)
	}
	lacks := func(wanted []string) (missing []string) {
		for _, p := range wanted {
			if !slices.Contains(has, p) {
				missing = append(missing, p)
			}
		}
		return missing
	}
	if missing := lacks(looks); len(missing) > 0 {
		return "", doctor.Wrong(roleAdvice, "not granted on the project: %s", strings.Join(missing, ", "))
	}
	if missing := lacks(changes); len(missing) > 0 {
		return "", doctor.Warn("nothing, when they are granted for the cluster's names only, as terraform/gcp does; else "+roleAdvice,
			"the project does not tell whether these are granted: %s", strings.Join(missing, ", "))
	}
	return fmt.Sprintf("all %d are granted on the project", len(looks)+len(changes)), nil
}

// checkAPIs checks whether the services are enabled. Compute Engine is, since it has answered.
func checkAPIs(ctx context.Context, project doctorAPI, services []string) (string, error) {
	states, err := project.Services(ctx, services)
	if err != nil {
		return "", doctor.Warn("let the service account do serviceusage.services.get, or look by hand: gcloud services list --enabled", "%v", err)
	}
	var off []string
	for _, name := range services {
		if states[name] != "ENABLED" {
			off = append(off, name)
		}
	}
	if len(off) > 0 {
		return "", doctor.Wrong("gcloud services enable "+strings.Join(off, " "), "not on in the project: %s", strings.Join(off, ", "))
	}
	return strings.Join(services, ", ") + " are on", nil
}

func checkServiceAccount(ctx context.Context, project doctorAPI, g *Block) (string, error) {
	if g.ServiceAccount == "" {
		return "", doctor.Warn("write gce.service_account: machines read the program, splits and checkpoints as it", "none is named: machines act as nobody")
	}
	may, err := project.MayActAs(ctx)
	switch {
	case errors.Is(err, provisioner.ErrNotFound):
		return "", doctor.Wrong("write gce.service_account: NAME@"+g.Project+".iam.gserviceaccount.com; gcloud iam service-accounts list shows them", "there is no %s", g.ServiceAccount)
	case err != nil:
		return "", doctor.Warn("turn IAM's API on, or look by hand: gcloud services enable iam.googleapis.com", "%v", err)
	case !may:
		return "", doctor.Wrong("give the job server roles/iam.serviceAccountUser on it: gcloud iam service-accounts add-iam-policy-binding "+g.ServiceAccount,
			"machines may not be launched as %s (iam.serviceAccounts.actAs)", g.ServiceAccount)
	}
	return "machines act as " + g.ServiceAccount, nil
}

func checkTypes(ctx context.Context, project doctorAPI, job *config.Job, zones []string, known map[string]market.InstanceType) (string, error) {
	wanted := job.Resources.Zones
	if len(wanted) == 0 {
		wanted = zones
	}
	for _, zone := range wanted {
		if !slices.Contains(zones, zone) {
			return "", doctor.Wrong("write zones of "+blockOf(job).Region+": "+strings.Join(zones, ", "), "%s is not one of them, or is down", zone)
		}
		types, err := typesIn(ctx, project, zone)
		if err != nil {
			return "", doctor.Denied(err, roleAdvice)
		}
		for _, t := range types {
			known[t.Name] = t
		}
	}
	for _, m := range append(slices.Clone(job.Resources.AnyOf), config.Machine{Type: job.Reliable.Type}) {
		if _, ok := known[m.Type]; m.Type != "" && !ok {
			return "", doctor.Wrong("write types that "+blockOf(job).Region+" sells: gcloud compute machine-types list", "there is no %s in %s", m.Type, strings.Join(wanted, ", "))
		}
		if m.GPU.Count > 0 && !slices.ContainsFunc(slices.Collect(maps.Values(known)), func(t market.InstanceType) bool { return planner.Admits(m, t) }) {
			return "", doctor.Wrong("write other zones; gcloud compute machine-types list --filter='name~^[ag]' shows types with GPUs",
				"no type in %s has gpu: %s and meets the rest of this need (%d were looked at)", strings.Join(wanted, ", "), m.GPU, len(known))
		}
	}
	return fmt.Sprintf("%d in %s, those of the job among them", len(known), strings.Join(wanted, ", ")), nil
}

func checkNetwork(ctx context.Context, project doctorAPI, g *Block) (string, error) {
	if g.Subnetwork == "" {
		return "", doctor.Warn("write gce.subnetwork when the project has no network called default", "no subnetwork is named")
	}
	addresses, private, err := project.SubnetworkRange(ctx)
	switch {
	case errors.Is(err, provisioner.ErrDenied):
		return "", doctor.Warn("let the service account do compute.subnetworks.get if doctor shall look at it; runs do without", "%v", err)
	case err != nil:
		return "", doctor.Wrong("write a subnetwork of "+g.Region, "%v", err)
	case !private && !g.ExternalIP:
		return "", doctor.Wrong("turn Private Google Access on: gcloud compute networks subnets update NAME --enable-private-ip-google-access, or write external_ip: true",
			"machines have no public address, and the subnetwork no way to Google's services")
	}
	missing, err := project.MayUseSubnetwork(ctx)
	switch {
	case err != nil:
		return "", doctor.Warn("look by hand: gcloud compute networks subnets get-iam-policy", "%v", err)
	case len(missing) > 0:
		return "", doctor.Wrong("give the job server roles/compute.networkUser on the subnetwork, as terraform/gcp does", "not granted on it: %s", strings.Join(missing, ", "))
	}
	return "machines get addresses of " + addresses, nil
}

// checkList checks whether Google's price list is available, unless the job has its own catalog.
func checkList(ctx context.Context, project doctorAPI, g *Block) (string, error) {
	if g.Catalog != "" {
		return "on-demand prices are of the job's own catalog", nil
	}
	if err := project.PriceList(ctx, func([]byte) (bool, error) { return false, nil }); err != nil {
		return "", doctor.Denied(err, "gcloud services enable cloudbilling.googleapis.com, or name a CSV file in gce.catalog; docs/prices.md says what it looks like")
	}
	return "the Cloud Billing Catalog answers", nil
}

// checkQuotas compares the quota of vCPUs of all families; PREEMPTIBLE_CPUS applies to Spot machines, unless it is 0:
// then they count against CPUS.
func checkQuotas(ctx context.Context, project doctorAPI, job *config.Job, types map[string]market.InstanceType) (string, error) {
	quotas, err := project.Quotas(ctx)
	if err != nil {
		return "", doctor.Warn("let the service account do compute.regions.get, or look at the console: IAM, Quotas", "%v", err)
	}
	limit := map[string]provisioner.Quota{}
	for _, q := range quotas {
		limit[q.Name] = q
	}
	spot, onDemand := doctor.Needs(job, types)
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
			return "", doctor.Wrong("ask for more in the console: IAM, Quotas, "+q.name+" in "+blockOf(job).Region, "%s: %.0f of %.0f are free; the job may want %.0f",
				q.name, have.Limit-have.Used, have.Limit, q.needed)
		}
	}
	said := fmt.Sprintf("%s: %.0f of %.0f are free, %.0f wanted", name, limit[name].Limit-limit[name].Used, limit[name].Limit, wanted)
	for _, q := range gpuQuotas(job, slices.Collect(maps.Values(types))) {
		have, told := limit[q.name]
		switch {
		case !told: // quotas of newer models are not listed per region
			return "", doctor.Warn("look at the console: IAM, Quotas, GPUs", "%s, and quota %s is not listed", said, q.name)
		case have.Limit-have.Used < q.wanted:
			return "", doctor.Wrong("ask for more in the console: IAM, Quotas, "+q.name+" in "+blockOf(job).Region+", and GPUS_ALL_REGIONS", "%s: %.0f of %.0f are free; the job may want %.0f",
				q.name, have.Limit-have.Used, have.Limit, q.wanted)
		}
		said += fmt.Sprintf("; %s: %.0f of %.0f are free, %.0f wanted", q.name, have.Limit-have.Used, have.Limit, q.wanted)
	}
	return said, nil
}

// gpuQuota is the most GPUs that a job uses of a quota.
type gpuQuota struct {
	name   string
	wanted float64
}

// gpuQuotas returns the quotas for the GPUs of a job's types, sorted: NVIDIA_L4_GPUS, and PREEMPTIBLE_NVIDIA_L4_GPUS
// for Spot machines.
func gpuQuotas(job *config.Job, types []market.InstanceType) (quotas []gpuQuota) {
	most := map[string]int{}
	for _, t := range types {
		if t.GPU.Count == 0 || !doctor.Buys(job, t) {
			continue
		}
		name := "NVIDIA_" + strings.ReplaceAll(t.GPU.Name, "-", "_")
		if t.GPU.Name == "A100" && t.GPU.MemoryMiB > 40<<10 {
			name += "_80GB"
		}
		if job.Policy != (bidding.OnDemand{}).Name() {
			name = "PREEMPTIBLE_" + name
		}
		most[name+"_GPUS"] = max(most[name+"_GPUS"], t.GPU.Count)
	}
	for _, name := range slices.Sorted(maps.Keys(most)) {
		quotas = append(quotas, gpuQuota{name, float64(most[name] * job.Resources.Count.Most)})
	}
	return quotas
}
