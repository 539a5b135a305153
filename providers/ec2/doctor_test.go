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

// expectation is how a check should end.
type expectation struct {
	Check  string
	Status doctor.Status
	Words  string // in what it found or advises
}

func examine(t *testing.T, name string, checks []doctor.Check, want ...expectation) {
	t.Helper()
	all := make([]doctortest.Expectation, len(want))
	for i, w := range want {
		all[i] = doctortest.Expectation(w)
	}
	doctortest.Examine(t, name, checks, all...)
}

// The ends of a check.
const (
	OK      = doctor.OK
	Warning = doctor.Warning
	Failed  = doctor.Failed
	Skipped = doctor.Skipped
)

// patient is EC2 as a test wants it.
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
	return []market.InstanceType{{Name: "c5.xlarge", VCPU: 4, Arch: market.ArchX86}}, nil
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
		Cloud: Name, Resources: config.Resources{Count: 8, AnyOf: []config.Machine{{Type: "c5.xlarge"}}, Zones: []string{"us-west-2a"}},
		Reliable: config.Reliable{Count: 1},
		Block: &Block{Installation: config.Installation{Region: "us-west-2", Cluster: "blue"}, Image: "ami-1", Device: "/dev/xvda", Subnets: map[string]string{"us-west-2a": "subnet-a"},
			SecurityGroups: []string{"sg-1"}},
	}
}

func TestChecks(t *testing.T) {
	denied := errors.Join(provisioner.ErrDenied, errors.New("UnauthorizedOperation"))
	for name, c := range map[string]struct {
		change func(*patient, *config.Job)
		want   []expectation
	}{
		"all well": {func(*patient, *config.Job) {}, []expectation{{"credentials", OK, "us-west-2"}, {"permissions", OK, "all 4"}, {"image", OK, "x86_64"},
			{"subnets", OK, "1"}, {"security groups", OK, "reach each other"}, {"a launch", OK, "c5.xlarge in us-west-2a"},
			{"terminations", OK, "none to try"}, {"prices", OK, "1 pools"}, {"quotas", OK, "256 spot vCPUs (32 wanted)"}}},
		"nobody": {func(a *patient, _ *config.Job) { a.refused["DescribeInstances"] = denied }, []expectation{{"credentials", Failed, "AWS_PROFILE"},
			{"permissions", Skipped, "needs credentials"}, {"quotas", Skipped, ""}}},
		"no prices permitted": {func(a *patient, _ *config.Job) { a.refused["DescribeSpotPriceHistory"] = denied },
			[]expectation{{"permissions", Failed, "ec2:DescribeSpotPriceHistory"}}},
		"no launch": {func(a *patient, _ *config.Job) { a.refused["RunInstances"] = denied }, []expectation{{"a launch", Failed, "iam:PassRole"}}},
		"no end": {func(a *patient, _ *config.Job) {
			a.refused["TerminateInstances"] = denied
			a.live = []provisioner.Holding{{Instance: provisioner.Instance{ID: "i-1"}}}
		}, []expectation{{"terminations", Failed, "terraform/aws"}}},
		"image is gone":    {func(a *patient, _ *config.Job) { a.refused["DescribeImages"] = provisioner.ErrInvalid }, []expectation{{"image", Failed, "ec2.image"}}},
		"image unseen":     {func(a *patient, _ *config.Job) { a.refused["DescribeImages"] = denied }, []expectation{{"image", Warning, "ec2:DescribeImages"}}},
		"no such call":     {func(a *patient, _ *config.Job) { a.refused["DescribeImages"] = errors.New("InvalidAction") }, []expectation{{"image", Warning, "runs do without"}}},
		"image for others": {func(a *patient, _ *config.Job) { a.image.Architecture = "arm64" }, []expectation{{"image", Failed, "c5.xlarge is x86_64"}}},
		"other device":     {func(a *patient, _ *config.Job) { a.image.RootDevice = "/dev/sda1" }, []expectation{{"image", Failed, "ec2.device: /dev/sda1"}}},
		"image pending":    {func(a *patient, _ *config.Job) { a.image.State = "pending" }, []expectation{{"image", Failed, "pending"}}},
		"other zone":       {func(a *patient, _ *config.Job) { a.subnets[0].Zone = "us-west-2b" }, []expectation{{"subnets", Failed, "is in us-west-2b"}}},
		"small subnet":     {func(a *patient, _ *config.Job) { a.subnets[0].Free = 3 }, []expectation{{"subnets", Warning, "3 free addresses"}}},
		"no subnets":       {func(_ *patient, j *config.Job) { of(j).Subnets = nil }, []expectation{{"subnets", Warning, "default subnet"}}},
		"closed group":     {func(a *patient, _ *config.Job) { a.groups[0].Within = false }, []expectation{{"security groups", Failed, "1024-65535"}}},
		"two networks": {func(a *patient, _ *config.Job) {
			a.groups = append(a.groups, api.SecurityGroup{ID: "sg-2", VPC: "vpc-2"})
		}, []expectation{{"security groups", Failed, "different networks"}}},
		"small quota":        {func(a *patient, _ *config.Job) { a.quota = 16 }, []expectation{{"quotas", Failed, "request-service-quota-increase"}}},
		"unseen quota":       {func(a *patient, _ *config.Job) { a.refused["GetServiceQuota"] = denied }, []expectation{{"quotas", Warning, "servicequotas:GetServiceQuota"}}},
		"no price list":      {func(a *patient, _ *config.Job) { a.refused["GetProducts"] = denied }, []expectation{{"on-demand prices", Failed, "pricing:GetProducts"}}},
		"not on the list":    {func(a *patient, _ *config.Job) { a.unpriced = "c5.xlarge" }, []expectation{{"on-demand prices", Failed, "no price of c5.xlarge"}}},
		"catalog of its own": {func(a *patient, j *config.Job) { a.refused["GetProducts"], of(j).Catalog = denied, "c.csv" }, []expectation{{"on-demand prices", OK, "own catalog"}}},
		"fleets":             {func(_ *patient, j *config.Job) { j.Resources.Allocation = config.AllocationPriceCapacity }, []expectation{{"fleets", OK, "c5.xlarge in us-west-2a"}}},
		"no fleets": {func(a *patient, j *config.Job) {
			j.Resources.Allocation = config.AllocationPriceCapacity
			a.refused["CreateLaunchTemplate"], a.refused["CreateFleet"] = denied, denied
		}, []expectation{{"fleets", Failed, "not allowed: ec2:CreateLaunchTemplate, ec2:CreateFleet"}, {"a launch", OK, ""}}},
		"fleets of a tag": {func(a *patient, j *config.Job) {
			j.Resources.Allocation, a.refused["CreateFleet"] = config.AllocationCapacityOptimized, denied
		}, []expectation{{"fleets", Warning, "does not exist: ec2:CreateFleet"}}},
		"no such fleets": {func(a *patient, j *config.Job) {
			j.Resources.Allocation, a.refused["fleets"] = config.AllocationPriceCapacity, errors.New("InvalidAction")
		}, []expectation{{"fleets", Warning, "allocation: one-pool"}}},
		"nothing sold": {func(a *patient, _ *config.Job) { a.prices = nil }, []expectation{{"prices", Failed, "no spot prices"}}},
	} {
		a, job := healthy(), examinedJob()
		c.change(&a, job)
		examine(t, name, checks(job, func(context.Context) (examined, error) { return a, nil }), c.want...)
	}
	refused := func(context.Context) (examined, error) { return nil, provisioner.ErrDenied }
	examine(t, "no credentials", checks(examinedJob(), refused), expectation{"credentials", Failed, "aws configure"}, expectation{"image", Skipped, ""})
}

// Who buys from one pool at a time needs no right to fleets.
func TestNoFleetsAreTried(t *testing.T) {
	job := examinedJob()
	job.Resources.Allocation = config.AllocationOnePool
	for _, c := range checks(job, nil) {
		if c.Name == "fleets" {
			t.Error("fleets are tried")
		}
	}
}
