package ec2

import (
	"context"
	"errors"
	"testing"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/doctor/doctortest"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
)

// patient is EC2 as a test needs it.
type patient struct {
	unpriced string
	refused  map[string]error // by call or action
	image    api.Image
	subnets  []api.Subnet
	groups   []api.SecurityGroup
	quota    float64
	live     []provisioner.Holding
	prices   map[market.Pool][]market.PricePoint
}

func (a patient) May(_ context.Context, action string) error { return a.refused[action] }
func (a patient) MayTerminate(context.Context, provisioner.InstanceID) error {
	return a.refused["TerminateInstances"]
}
func (a patient) Try(context.Context, provisioner.Request) error { return a.refused["RunInstances"] }
func (a patient) TryFleet(context.Context, provisioner.Request) (rights api.FleetRights, err error) {
	if a.refused["CreateLaunchTemplate"] != nil {
		rights.Denied = append(rights.Denied, "ec2:CreateLaunchTemplate")
	}
	if a.refused["CreateFleet"] != nil {
		rights.Unsure = append(rights.Unsure, "ec2:CreateFleet")
	}
	return rights, a.refused["fleets"]
}
func (a patient) Image(context.Context) (api.Image, error) {
	return a.image, a.refused["DescribeImages"]
}
func (a patient) Subnets(context.Context) ([]api.Subnet, error) {
	return a.subnets, a.refused["DescribeSubnets"]
}
func (a patient) SecurityGroups(context.Context) ([]api.SecurityGroup, error) { return a.groups, nil }
func (a patient) Quota(context.Context, string, string) (float64, error) {
	return a.quota, a.refused["GetServiceQuota"]
}
func (a patient) PriceHistory(context.Context, api.PriceQuery, func(int)) (map[market.Pool][]market.PricePoint, error) {
	return a.prices, nil
}
func (a patient) Types(context.Context, ...string) ([]market.InstanceType, error) {
	return []market.InstanceType{{Name: "c5.xlarge", VCPU: 4, Arch: market.ArchX86},
		{Name: "g6e.xlarge", VCPU: 4, Arch: market.ArchX86, GPU: market.GPU{Name: "L40S", Count: 1, MemoryMiB: 45776}}}, nil
}
func (a patient) OnDemand(_ context.Context, names ...string) (found []market.InstanceType, missing []string, err error) {
	for _, name := range names {
		if name == a.unpriced {
			missing = append(missing, name)
		} else {
			found = append(found, market.InstanceType{Name: name})
		}
	}
	return found, missing, a.refused["GetProducts"]
}
func (a patient) Holdings(context.Context) ([]provisioner.Holding, error) { return a.live, nil }

func healthy() patient {
	return patient{
		image: api.Image{State: "available", Architecture: "x86_64", RootDevice: "/dev/xvda"}, quota: 256,
		subnets: []api.Subnet{{ID: "subnet-a", Zone: "us-west-2a", VPC: "vpc-1", Free: 200}},
		groups:  []api.SecurityGroup{{ID: "sg-1", VPC: "vpc-1", Within: true}},
		prices:  map[market.Pool][]market.PricePoint{{Zone: "us-west-2a"}: nil}, refused: map[string]error{},
	}
}

func examinedJob() *config.Job {
	return &config.Job{
		Cloud: Name, Resources: config.Resources{Count: config.Exactly(8), AnyOf: []config.Machine{{Type: "c5.xlarge"}}, Zones: []string{"us-west-2a"}},
		Reliable: config.Reliable{Count: 1},
		Block: &Block{Installation: config.Installation{Region: "us-west-2", Cluster: "blue"}, Image: "ami-1", Device: "/dev/xvda", Subnets: map[string]string{"us-west-2a": "subnet-a"},
			SecurityGroups: []string{"sg-1"}},
	}
}

// wantGPUs turns a job into programs on GPUs.
func wantGPUs(j *config.Job, model string) {
	j.Run, j.Reliable, blockOf(j).GPUImage = "nvidia-smi", config.Reliable{}, bySSM+"/aws/service/x"
	j.Resources.AnyOf = []config.Machine{{GPU: config.GPU{Model: model, Count: 1}}}
}

func TestChecks(t *testing.T) {
	denied := errors.Join(provisioner.ErrDenied, errors.New("UnauthorizedOperation"))
	for name, c := range map[string]struct {
		change func(*patient, *config.Job)
		want   []doctortest.Expectation
	}{
		"all well": {func(*patient, *config.Job) {}, []doctortest.Expectation{doctortest.Want("credentials", doctor.OK, "us-west-2"), doctortest.Want("permissions", doctor.OK, "all 4"), doctortest.Want("image", doctor.OK, "x86_64"),
			doctortest.Want("subnets", doctor.OK, "1"), doctortest.Want("security groups", doctor.OK, "reach each other"), doctortest.Want("a launch", doctor.OK, "c5.xlarge in us-west-2a"),
			doctortest.Want("terminations", doctor.OK, "none to try"), doctortest.Want("prices", doctor.OK, "1 pools"), doctortest.Want("quotas", doctor.OK, "256 spot vCPUs (32 wanted)")}},
		"nobody": {func(a *patient, _ *config.Job) { a.refused["DescribeInstances"] = denied }, []doctortest.Expectation{doctortest.Want("credentials", doctor.Failed, "AWS_PROFILE"),
			doctortest.Want("permissions", doctor.Skipped, "needs credentials"), doctortest.Want("quotas", doctor.Skipped, "")}},
		"no prices permitted": {func(a *patient, _ *config.Job) { a.refused["DescribeSpotPriceHistory"] = denied },
			[]doctortest.Expectation{doctortest.Want("permissions", doctor.Failed, "ec2:DescribeSpotPriceHistory")}},
		"no launch": {func(a *patient, _ *config.Job) { a.refused["RunInstances"] = denied }, []doctortest.Expectation{doctortest.Want("a launch", doctor.Failed, "iam:PassRole")}},
		"no end": {func(a *patient, _ *config.Job) {
			a.refused["TerminateInstances"] = denied
			a.live = []provisioner.Holding{{Instance: provisioner.Instance{ID: "i-1"}}}
		}, []doctortest.Expectation{doctortest.Want("terminations", doctor.Failed, "terraform/aws")}},
		"image is gone":    {func(a *patient, _ *config.Job) { a.refused["DescribeImages"] = provisioner.ErrInvalid }, []doctortest.Expectation{doctortest.Want("image", doctor.Failed, "ec2.image")}},
		"image unseen":     {func(a *patient, _ *config.Job) { a.refused["DescribeImages"] = denied }, []doctortest.Expectation{doctortest.Want("image", doctor.Warning, "ec2:DescribeImages")}},
		"no such call":     {func(a *patient, _ *config.Job) { a.refused["DescribeImages"] = errors.New("InvalidAction") }, []doctortest.Expectation{doctortest.Want("image", doctor.Warning, "runs do without")}},
		"image for others": {func(a *patient, _ *config.Job) { a.image.Architecture = "arm64" }, []doctortest.Expectation{doctortest.Want("image", doctor.Failed, "c5.xlarge is x86_64")}},
		"other device":     {func(a *patient, _ *config.Job) { a.image.RootDevice = "/dev/sda1" }, []doctortest.Expectation{doctortest.Want("image", doctor.Failed, "ec2.device: /dev/sda1")}},
		"image pending":    {func(a *patient, _ *config.Job) { a.image.State = "pending" }, []doctortest.Expectation{doctortest.Want("image", doctor.Failed, "pending")}},
		"other zone":       {func(a *patient, _ *config.Job) { a.subnets[0].Zone = "us-west-2b" }, []doctortest.Expectation{doctortest.Want("subnets", doctor.Failed, "is in us-west-2b")}},
		"small subnet":     {func(a *patient, _ *config.Job) { a.subnets[0].Free = 3 }, []doctortest.Expectation{doctortest.Want("subnets", doctor.Warning, "3 free addresses")}},
		"no subnets":       {func(_ *patient, j *config.Job) { blockOf(j).Subnets = nil }, []doctortest.Expectation{doctortest.Want("subnets", doctor.Warning, "default subnet")}},
		"closed group":     {func(a *patient, _ *config.Job) { a.groups[0].Within = false }, []doctortest.Expectation{doctortest.Want("security groups", doctor.Failed, "1024-65535")}},
		"two networks": {func(a *patient, _ *config.Job) {
			a.groups = append(a.groups, api.SecurityGroup{ID: "sg-2", VPC: "vpc-2"})
		}, []doctortest.Expectation{doctortest.Want("security groups", doctor.Failed, "different networks")}},
		"small quota":        {func(a *patient, _ *config.Job) { a.quota = 16 }, []doctortest.Expectation{doctortest.Want("quotas", doctor.Failed, "request-service-quota-increase")}},
		"unseen quota":       {func(a *patient, _ *config.Job) { a.refused["GetServiceQuota"] = denied }, []doctortest.Expectation{doctortest.Want("quotas", doctor.Warning, "servicequotas:GetServiceQuota")}},
		"no price list":      {func(a *patient, _ *config.Job) { a.refused["GetProducts"] = denied }, []doctortest.Expectation{doctortest.Want("on-demand prices", doctor.Failed, "pricing:GetProducts")}},
		"not on the list":    {func(a *patient, _ *config.Job) { a.unpriced = "c5.xlarge" }, []doctortest.Expectation{doctortest.Want("on-demand prices", doctor.Failed, "no price of c5.xlarge")}},
		"catalog of its own": {func(a *patient, j *config.Job) { a.refused["GetProducts"], blockOf(j).Catalog = denied, "c.csv" }, []doctortest.Expectation{doctortest.Want("on-demand prices", doctor.OK, "own catalog")}},
		"fleets":             {func(_ *patient, j *config.Job) { j.Resources.Allocation = config.AllocationPriceCapacity }, []doctortest.Expectation{doctortest.Want("fleets", doctor.OK, "c5.xlarge in us-west-2a")}},
		"no fleets": {func(a *patient, j *config.Job) {
			j.Resources.Allocation = config.AllocationPriceCapacity
			a.refused["CreateLaunchTemplate"], a.refused["CreateFleet"] = denied, denied
		}, []doctortest.Expectation{doctortest.Want("fleets", doctor.Failed, "not allowed: ec2:CreateLaunchTemplate, ec2:CreateFleet"), doctortest.Want("a launch", doctor.OK, "")}},
		"fleets of a tag": {func(a *patient, j *config.Job) {
			j.Resources.Allocation, a.refused["CreateFleet"] = config.AllocationCapacityOptimized, denied
		}, []doctortest.Expectation{doctortest.Want("fleets", doctor.Warning, "does not exist: ec2:CreateFleet")}},
		"no such fleets": {func(a *patient, j *config.Job) {
			j.Resources.Allocation, a.refused["fleets"] = config.AllocationPriceCapacity, errors.New("InvalidAction")
		}, []doctortest.Expectation{doctortest.Want("fleets", doctor.Warning, "allocation: one-pool")}},
		"GPUs": {func(_ *patient, j *config.Job) { wantGPUs(j, "L40S") }, []doctortest.Expectation{doctortest.Want("machine types", doctor.OK, "with the job's GPUs, in us-west-2: g6e.xlarge (L40S:1)"),
			doctortest.Want("image", doctor.OK, "parameter /aws/service/x"), doctortest.Want("a launch", doctor.OK, "g6e.xlarge in us-west-2a"), doctortest.Want("quotas", doctor.OK, "L-3819A6DF: 256 spot vCPUs (32 wanted)")}},
		"containers": {func(_ *patient, j *config.Job) { j.Image = "python:3.12" }, []doctortest.Expectation{doctortest.Want("containers", doctor.Warning, "whether ami-1 has Docker or Podman cannot be seen")}},
		"on GPUs": {func(_ *patient, j *config.Job) {
			wantGPUs(j, "L40S")
			j.Image, blockOf(j).GPUImage = "python:3.12", deepLearning(j)
		},
			[]doctortest.Expectation{doctortest.Want("containers", doctor.OK, "has Docker")}},
		"few G":        {func(a *patient, j *config.Job) { wantGPUs(j, "L40S"); a.quota = 0 }, []doctortest.Expectation{doctortest.Want("quotas", doctor.Failed, "--quota-code L-3819A6DF --desired-value 32")}},
		"no such GPUs": {func(_ *patient, j *config.Job) { wantGPUs(j, "H200") }, []doctortest.Expectation{doctortest.Want("machine types", doctor.Failed, "EC2 has no type in us-west-2 with gpu: H200:1")}},
		"nothing sold": {func(a *patient, _ *config.Job) { a.prices = nil }, []doctortest.Expectation{doctortest.Want("prices", doctor.Failed, "no spot prices")}},
	} {
		a, job := healthy(), examinedJob()
		c.change(&a, job)
		doctortest.Examine(t, name, checks(job, func(context.Context) (doctorAPI, error) { return a, nil }), c.want...)
	}
	refused := func(context.Context) (doctorAPI, error) { return nil, provisioner.ErrDenied }
	doctortest.Examine(t, "no credentials", checks(examinedJob(), refused), doctortest.Want("credentials", doctor.Failed, "aws configure"), doctortest.Want("image", doctor.Skipped, ""))
}

// Buying from one pool at a time needs no right to fleets.
func TestNoFleetsAreTried(t *testing.T) {
	job := examinedJob()
	job.Resources.Allocation = config.AllocationOnePool
	for _, c := range checks(job, nil) {
		if c.Name == "fleets" {
			t.Error("fleets are tried")
		}
	}
}
