package gce

import (
	"context"
	"slices"
	"testing"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/doctor/doctortest"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// project is Compute Engine as a test needs it.
type project struct {
	granted []string
	quotas  []provisioner.Quota
	status  string
	private bool
	refused map[string]error
}

func (p project) Zones(context.Context) ([]string, error) {
	return []string{"us-central1-a", "us-central1-b"}, p.refused["zones"]
}
func (p project) Types(context.Context, string) ([]market.InstanceType, error) {
	return []market.InstanceType{{Name: "n2-standard-4", VCPU: 4}, {Name: "a2-ultragpu-2g", VCPU: 24, GPU: market.GPU{Name: "nvidia-a100-80gb", Count: 2}}}, nil
}
func (p project) PriceList(context.Context, func([]byte) (bool, error)) error {
	return p.refused["skus"]
}
func (p project) Granted(context.Context, []string) ([]string, error) {
	return p.granted, p.refused["granted"]
}
func (p project) Quotas(context.Context) ([]provisioner.Quota, error) {
	return p.quotas, p.refused["quotas"]
}
func (p project) ImageStatus(context.Context) (string, string, error) {
	return "debian-12-x", p.status, p.refused["image"]
}
func (p project) SubnetworkRange(context.Context) (string, bool, error) {
	return "10.8.0.0/20", p.private, p.refused["subnetwork"]
}
func (p project) MayActAs(context.Context) (bool, error) {
	return p.refused["actAs"] == nil, map[bool]error{true: p.refused["account"]}[p.refused["account"] != nil]
}
func (p project) MayUseSubnetwork(context.Context) ([]string, error) {
	if p.refused["use"] != nil {
		return []string{"compute.subnetworks.use"}, nil
	}
	return nil, nil
}
func (p project) Services(_ context.Context, names []string) (map[string]string, error) {
	states := map[string]string{}
	for _, name := range names {
		states[name] = "ENABLED"
	}
	if p.refused["storage"] != nil {
		states["storage.googleapis.com"], states["sts.googleapis.com"] = "DISABLED", "DISABLED"
	}
	return states, p.refused["services"]
}
func (p project) Holdings(context.Context) ([]provisioner.Holding, error) { return nil, nil }

// wantGPUs turns a job into programs on GPUs.
func wantGPUs(j *config.Job, model string) {
	j.Run, j.Reliable = "nvidia-smi", config.Reliable{}
	j.Resources.AnyOf = []config.Machine{{GPU: config.GPU{Model: model, Count: 2}}}
}

func TestChecks(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*project, *config.Job)
		want   []doctortest.Expectation
	}{
		"all well": {func(*project, *config.Job) {}, []doctortest.Expectation{doctortest.Want("credentials", doctor.OK, "2 zones"), doctortest.Want("permissions", doctor.OK, "all 16"), doctortest.Want("APIs", doctor.OK, "are on"), doctortest.Want("service account", doctor.OK, "machines@"), doctortest.Want("machine types", doctor.OK, "2 in"),
			doctortest.Want("image", doctor.OK, "ready"), doctortest.Want("network", doctor.OK, "10.8.0.0/20"), doctortest.Want("quotas", doctor.OK, "PREEMPTIBLE_CPUS: 100 of 100 are free, 32 wanted"), doctortest.Want("machines", doctor.OK, "0 of")}},
		"nobody":      {func(p *project, _ *config.Job) { p.refused["zones"] = provisioner.ErrDenied }, []doctortest.Expectation{doctortest.Want("credentials", doctor.Failed, "gcloud auth"), doctortest.Want("image", doctor.Skipped, "")}},
		"not granted": {func(p *project, _ *config.Job) { p.granted = p.granted[1:] }, []doctortest.Expectation{doctortest.Want("permissions", doctor.Failed, "compute.instances.get")}},
		"by names":    {func(p *project, _ *config.Job) { p.granted = looks }, []doctortest.Expectation{doctortest.Want("permissions", doctor.Warning, "compute.disks.create")}},
		"off":         {func(p *project, _ *config.Job) { p.refused["storage"] = provisioner.ErrDenied }, []doctortest.Expectation{doctortest.Want("APIs", doctor.Failed, "gcloud services enable storage.googleapis.com")}},
		"no tokens": {func(p *project, j *config.Job) {
			p.refused["storage"], blockOf(j).StoreTokens = provisioner.ErrDenied, true
		}, []doctortest.Expectation{doctortest.Want("APIs", doctor.Failed, "gcloud services enable storage.googleapis.com sts.googleapis.com")}},
		"unseen":       {func(p *project, _ *config.Job) { p.refused["services"] = provisioner.ErrDenied }, []doctortest.Expectation{doctortest.Want("APIs", doctor.Warning, "serviceusage.services.get")}},
		"not as":       {func(p *project, _ *config.Job) { p.refused["actAs"] = provisioner.ErrDenied }, []doctortest.Expectation{doctortest.Want("service account", doctor.Failed, "serviceAccountUser")}},
		"no account":   {func(p *project, _ *config.Job) { p.refused["account"] = provisioner.ErrNotFound }, []doctortest.Expectation{doctortest.Want("service account", doctor.Failed, "gcloud iam service-accounts list")}},
		"nobody's":     {func(_ *project, j *config.Job) { blockOf(j).ServiceAccount = "" }, []doctortest.Expectation{doctortest.Want("service account", doctor.Warning, "act as nobody")}},
		"not in it":    {func(p *project, _ *config.Job) { p.refused["use"] = provisioner.ErrDenied }, []doctortest.Expectation{doctortest.Want("network", doctor.Failed, "networkUser")}},
		"API is off":   {func(p *project, _ *config.Job) { p.refused["granted"] = provisioner.ErrDenied }, []doctortest.Expectation{doctortest.Want("permissions", doctor.Warning, "cloudresourcemanager")}},
		"other zone":   {func(_ *project, j *config.Job) { j.Resources.Zones = []string{"us-east1-b"} }, []doctortest.Expectation{doctortest.Want("machine types", doctor.Failed, "us-east1-b is not one")}},
		"no such type": {func(_ *project, j *config.Job) { j.Resources.AnyOf[0].Type = "n9-huge" }, []doctortest.Expectation{doctortest.Want("machine types", doctor.Failed, "no n9-huge")}},
		"image":        {func(p *project, _ *config.Job) { p.status = "DEPRECATED" }, []doctortest.Expectation{doctortest.Want("image", doctor.Failed, "DEPRECATED")}},
		"closed in":    {func(p *project, _ *config.Job) { p.private = false }, []doctortest.Expectation{doctortest.Want("network", doctor.Failed, "Private Google Access")}},
		"small quota":  {func(p *project, _ *config.Job) { p.quotas[1].Used = 90 }, []doctortest.Expectation{doctortest.Want("quotas", doctor.Failed, "PREEMPTIBLE_CPUS: 10 of 100")}},
		"GPUs": {func(p *project, j *config.Job) { wantGPUs(j, "A100"); p.quotas[2].Limit = 16 }, []doctortest.Expectation{doctortest.Want("machine types", doctor.OK, "2 in"),
			doctortest.Want("quotas", doctor.OK, "PREEMPTIBLE_NVIDIA_A100_80GB_GPUS: 16 of 16 are free, 16 wanted")}},
		"containers":   {func(_ *project, j *config.Job) { j.Image, blockOf(j).Image = "python:3.12", "projects/p/own" }, []doctortest.Expectation{doctortest.Want("containers", doctor.Warning, "projects/p/own has Docker or Podman cannot be seen")}},
		"few GPUs":     {func(_ *project, j *config.Job) { wantGPUs(j, "A100") }, []doctortest.Expectation{doctortest.Want("quotas", doctor.Failed, "GPUS_ALL_REGIONS")}},
		"no GPU quota": {func(p *project, j *config.Job) { wantGPUs(j, "A100"); p.quotas = p.quotas[:2] }, []doctortest.Expectation{doctortest.Want("quotas", doctor.Warning, "quota PREEMPTIBLE_NVIDIA_A100_80GB_GPUS is not listed")}},
		"no such GPUs": {func(_ *project, j *config.Job) { wantGPUs(j, "H200") }, []doctortest.Expectation{doctortest.Want("machine types", doctor.Failed, "gpu: H200:2")}},
		"shared quota": {func(p *project, _ *config.Job) { p.quotas = p.quotas[:1] }, []doctortest.Expectation{doctortest.Want("quotas", doctor.Failed, "CPUS: 24 of 24 are free; the job may want 36")}},
	} {
		p := project{granted: append(slices.Clone(looks), changes...), status: "READY", private: true, refused: map[string]error{},
			quotas: []provisioner.Quota{{Name: "CPUS", Limit: 24}, {Name: "PREEMPTIBLE_CPUS", Limit: 100}, {Name: "PREEMPTIBLE_NVIDIA_A100_80GB_GPUS", Limit: 1}}}
		job := &config.Job{Cloud: Name, Resources: config.Resources{Count: config.Exactly(8), AnyOf: []config.Machine{{Type: "n2-standard-4"}}},
			Reliable: config.Reliable{Count: 1}, Block: &Block{Project: "my-project", Installation: config.Installation{Region: "us-central1", Cluster: "blue"}, Subnetwork: "tierml", ServiceAccount: "machines@my-project.iam.gserviceaccount.com"}}
		c.change(&p, job)
		doctortest.Examine(t, name, checks(job, func(context.Context) (doctorAPI, error) { return p, nil }), c.want...)
	}
}
