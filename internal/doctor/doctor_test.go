package doctor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/ec2"
)

// expectation is how a check should end.
type expectation struct {
	check  string
	status Status
	words  string // in what it found or advises
}

func examine(t *testing.T, name string, checks []Check, want ...expectation) {
	t.Helper()
	results := Run(t.Context(), checks, func(Result) {})
	for _, w := range want {
		seen := false
		for _, r := range results {
			if r.Check != w.check {
				continue
			}
			seen = true
			if r.Status != w.status || !strings.Contains(r.Found+" "+r.Advice, w.words) {
				t.Errorf("%s: %s is %s: %q, advice %q; want %s with %q", name, r.Check, r.Status, r.Found, r.Advice, w.status, w.words)
			}
			if r.Status == Failed && r.Advice == "" {
				t.Errorf("%s: %s fails without saying what to do", name, r.Check)
			}
		}
		if !seen {
			t.Errorf("%s: there is no check %s", name, w.check)
		}
	}
}

func TestHost(t *testing.T) {
	dir := t.TempDir()
	room := func(n uint64, err error) func(string) (uint64, error) {
		return func(string) (uint64, error) { return n, err }
	}
	files := func(n uint64) func() (uint64, error) { return func() (uint64, error) { return n, nil } }
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	examine(t, "room", []Check{Disk(dir, room(100<<30, nil))}, expectation{"disk", OK, "100.0 GB free"})
	examine(t, "little room", []Check{Disk(dir, room(2<<30, nil))}, expectation{"disk", Warning, "checkpoint.to"})
	examine(t, "no room", []Check{Disk(dir, room(5<<20, nil))}, expectation{"disk", Failed, "only 5 MB"})
	examine(t, "unknown room", []Check{Disk(dir, room(0, errors.New("broken")))}, expectation{"disk", Warning, "broken"})
	examine(t, "a file", []Check{Disk(filepath.Join(file, "runs"), room(1, nil))}, expectation{"disk", Failed, "may write to"})
	examine(t, "files", []Check{OpenFiles(16, files(1024))}, expectation{"open files", OK, "1024"})
	examine(t, "few files", []Check{OpenFiles(64, files(1024))}, expectation{"open files", Failed, "ulimit -n 1792"})
	examine(t, "port", []Check{Listening("ports", "127.0.0.1:0", "")}, expectation{"ports", OK, "127.0.0.1:"})
	examine(t, "foreign address", []Check{Listening("ports", "192.0.2.1:0", "write an address of this host")}, expectation{"ports", Failed, "of this host"})
	examine(t, "clock", []Check{Year(func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) })}, expectation{"clock", OK, "2026"})
	examine(t, "no clock", []Check{Year(func() time.Time { return time.Unix(0, 0) })}, expectation{"clock", Failed, "NTP"})
	open := func(_ context.Context, name string) (io.ReadCloser, error) { return os.Open(name) }
	examine(t, "data", []Check{Readable("data", file, open)}, expectation{"data", OK, "file can be read"})
	examine(t, "no data", []Check{Readable("data", file+"s", open)}, expectation{"data", Failed, "cannot be read"})
	if _, err := FreeBytes(dir); err != nil {
		t.Error(err)
	}
	if n, err := FileLimit(); err != nil || n == 0 {
		t.Errorf("file limit %d, %v", n, err)
	}
}

func TestEndpoint(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Unix(1_800_000_000, 0).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusForbidden) // an answer all the same
	}))
	defer server.Close()
	at := func(seconds int64) func() time.Time {
		return func() time.Time { return time.Unix(1_800_000_000+seconds, 0) }
	}
	for name, c := range map[string]struct {
		url    string
		now    func() time.Time
		status Status
		words  string
	}{
		"agrees":    {server.URL, at(1), OK, "agree within 1s"},
		"off":       {server.URL, at(30), Warning, "30s off"},
		"far off":   {server.URL, at(-600), Failed, "signatures will be refused"},
		"no server": {"http://127.0.0.1:1", at(0), Failed, "does not answer"},
		"nonsense":  {"::", at(0), Failed, "no address"},
	} {
		if status, words := c.status, "fetch"; name == "agrees" || name == "no server" { // the same server refuses to give a program
			if name == "agrees" {
				status, words = Failed, "403 Forbidden"
			}
			examine(t, name, []Check{Fetchable("program", c.url, server.Client())}, expectation{"program", status, words})
		}
		examine(t, name, []Check{Endpoint(c.url, server.Client(), c.now)}, expectation{"network and clock", c.status, c.words})
	}
}

func TestStore(t *testing.T) {
	objects := map[string]string{}
	s := Store{
		Write: func(_ context.Context, name string, write func(io.Writer) error) error {
			var b bytes.Buffer
			err := write(&b)
			objects[name] = b.String()
			return err
		},
		Open: func(_ context.Context, name string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(objects[name])), nil
		},
		Remove: func(_ context.Context, name string) error { delete(objects, name); return nil },
		Join:   func(folder string, below ...string) string { return folder + "/" + strings.Join(below, "/") },
	}
	examine(t, "store", []Check{s.Check("s3://b/p", "1")}, expectation{"checkpoints", OK, "s3://b/p takes objects"})
	if len(objects) != 0 {
		t.Errorf("left behind: %v", objects)
	}
	refuse := errors.New("access denied")
	stuck := s
	stuck.Remove = func(context.Context, string) error { return refuse }
	examine(t, "no removing", []Check{stuck.Check("s3://b/p", "2")}, expectation{"checkpoints", Warning, "old checkpoints would stay"})
	closed := s
	closed.Write = func(context.Context, string, func(io.Writer) error) error { return refuse }
	examine(t, "no writing", []Check{closed.Check("s3://b/p", "3")}, expectation{"checkpoints", Failed, "cannot be written"})
	other := s
	other.Open = func(context.Context, string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("?")), nil }
	examine(t, "other content", []Check{other.Check("s3://b/p", "4")}, expectation{"checkpoints", Failed, "something else"})
}

// account is EC2 as a test wants it.
type account struct {
	unpriced string
	EC2
	refused map[string]error // by call or action
	image   ec2.Image
	subnets []ec2.Subnet
	groups  []ec2.SecurityGroup
	quota   float64
	live    []provisioner.Holding
	prices  map[market.Pool][]market.PricePoint
}

func (a account) May(_ context.Context, action string) error { return a.refused[action] }
func (a account) MayTerminate(context.Context, provisioner.InstanceID) error {
	return a.refused["TerminateInstances"]
}
func (a account) Try(context.Context, provisioner.Request) error { return a.refused["RunInstances"] }
func (a account) TryFleet(context.Context, provisioner.Request) (rights ec2.FleetRights, err error) {
	if a.refused["CreateLaunchTemplate"] != nil {
		rights.Denied = append(rights.Denied, "ec2:CreateLaunchTemplate")
	}
	if a.refused["CreateFleet"] != nil {
		rights.Unsure = append(rights.Unsure, "ec2:CreateFleet")
	}
	return rights, a.refused["fleets"]
}
func (a account) Image(context.Context) (ec2.Image, error) {
	return a.image, a.refused["DescribeImages"]
}
func (a account) Subnets(context.Context) ([]ec2.Subnet, error) {
	return a.subnets, a.refused["DescribeSubnets"]
}
func (a account) SecurityGroups(context.Context) ([]ec2.SecurityGroup, error) { return a.groups, nil }
func (a account) Quota(context.Context, string, string) (float64, error) {
	return a.quota, a.refused["GetServiceQuota"]
}
func (a account) PriceHistory(context.Context, ec2.PriceQuery, func(int)) (map[market.Pool][]market.PricePoint, error) {
	return a.prices, nil
}
func (a account) Types(context.Context, ...string) ([]market.InstanceType, error) {
	return []market.InstanceType{{Name: "c5.xlarge", VCPU: 4, Arch: market.ArchX86}}, nil
}
func (a account) OnDemand(_ context.Context, names ...string) (found []market.InstanceType, missing []string, err error) {
	for _, name := range names {
		if name == a.unpriced {
			missing = append(missing, name)
		} else {
			found = append(found, market.InstanceType{Name: name})
		}
	}
	return found, missing, a.refused["GetProducts"]
}
func (a account) Holdings(context.Context) ([]provisioner.Holding, error) { return a.live, nil }

func healthy() account {
	return account{
		image: ec2.Image{State: "available", Architecture: "x86_64", RootDevice: "/dev/xvda"}, quota: 256,
		subnets: []ec2.Subnet{{ID: "subnet-a", Zone: "us-west-2a", VPC: "vpc-1", Free: 200}},
		groups:  []ec2.SecurityGroup{{ID: "sg-1", VPC: "vpc-1", Within: true}},
		prices:  map[market.Pool][]market.PricePoint{{Zone: "us-west-2a"}: nil}, refused: map[string]error{},
	}
}

func ec2Job() *config.Job {
	return &config.Job{
		Cloud: config.CloudEC2, Resources: config.Resources{Count: 8, AnyOf: []config.Machine{{Type: "c5.xlarge"}}, Zones: []string{"us-west-2a"}},
		Reliable: config.Reliable{Count: 1},
		EC2: config.EC2{Region: "us-west-2", Image: "ami-1", Device: "/dev/xvda", Subnets: map[string]string{"us-west-2a": "subnet-a"},
			SecurityGroups: []string{"sg-1"}, Cluster: "blue"},
	}
}

func TestEC2(t *testing.T) {
	denied := errors.Join(provisioner.ErrDenied, errors.New("UnauthorizedOperation"))
	for name, c := range map[string]struct {
		change func(*account, *config.Job)
		want   []expectation
	}{
		"all well": {func(*account, *config.Job) {}, []expectation{{"credentials", OK, "us-west-2"}, {"permissions", OK, "all 4"}, {"image", OK, "x86_64"},
			{"subnets", OK, "1"}, {"security groups", OK, "reach each other"}, {"a launch", OK, "c5.xlarge in us-west-2a"},
			{"terminations", OK, "none to try"}, {"prices", OK, "1 pools"}, {"quotas", OK, "256 spot vCPUs (32 wanted)"}}},
		"nobody": {func(a *account, _ *config.Job) { a.refused["DescribeInstances"] = denied }, []expectation{{"credentials", Failed, "AWS_PROFILE"},
			{"permissions", Skipped, "needs credentials"}, {"quotas", Skipped, ""}}},
		"no prices permitted": {func(a *account, _ *config.Job) { a.refused["DescribeSpotPriceHistory"] = denied },
			[]expectation{{"permissions", Failed, "ec2:DescribeSpotPriceHistory"}}},
		"no launch": {func(a *account, _ *config.Job) { a.refused["RunInstances"] = denied }, []expectation{{"a launch", Failed, "iam:PassRole"}}},
		"no end": {func(a *account, _ *config.Job) {
			a.refused["TerminateInstances"] = denied
			a.live = []provisioner.Holding{{Instance: provisioner.Instance{ID: "i-1"}}}
		}, []expectation{{"terminations", Failed, "terraform/aws"}}},
		"image is gone":    {func(a *account, _ *config.Job) { a.refused["DescribeImages"] = provisioner.ErrInvalid }, []expectation{{"image", Failed, "ec2.image"}}},
		"image unseen":     {func(a *account, _ *config.Job) { a.refused["DescribeImages"] = denied }, []expectation{{"image", Warning, "ec2:DescribeImages"}}},
		"no such call":     {func(a *account, _ *config.Job) { a.refused["DescribeImages"] = errors.New("InvalidAction") }, []expectation{{"image", Warning, "runs do without"}}},
		"image for others": {func(a *account, _ *config.Job) { a.image.Architecture = "arm64" }, []expectation{{"image", Failed, "c5.xlarge is x86_64"}}},
		"other device":     {func(a *account, _ *config.Job) { a.image.RootDevice = "/dev/sda1" }, []expectation{{"image", Failed, "ec2.device: /dev/sda1"}}},
		"image pending":    {func(a *account, _ *config.Job) { a.image.State = "pending" }, []expectation{{"image", Failed, "pending"}}},
		"other zone":       {func(a *account, _ *config.Job) { a.subnets[0].Zone = "us-west-2b" }, []expectation{{"subnets", Failed, "is in us-west-2b"}}},
		"small subnet":     {func(a *account, _ *config.Job) { a.subnets[0].Free = 3 }, []expectation{{"subnets", Warning, "3 free addresses"}}},
		"no subnets":       {func(_ *account, j *config.Job) { j.EC2.Subnets = nil }, []expectation{{"subnets", Warning, "default subnet"}}},
		"closed group":     {func(a *account, _ *config.Job) { a.groups[0].Within = false }, []expectation{{"security groups", Failed, "1024-65535"}}},
		"two networks": {func(a *account, _ *config.Job) {
			a.groups = append(a.groups, ec2.SecurityGroup{ID: "sg-2", VPC: "vpc-2"})
		}, []expectation{{"security groups", Failed, "different networks"}}},
		"small quota":        {func(a *account, _ *config.Job) { a.quota = 16 }, []expectation{{"quotas", Failed, "request-service-quota-increase"}}},
		"unseen quota":       {func(a *account, _ *config.Job) { a.refused["GetServiceQuota"] = denied }, []expectation{{"quotas", Warning, "servicequotas:GetServiceQuota"}}},
		"no price list":      {func(a *account, _ *config.Job) { a.refused["GetProducts"] = denied }, []expectation{{"on-demand prices", Failed, "pricing:GetProducts"}}},
		"not on the list":    {func(a *account, _ *config.Job) { a.unpriced = "c5.xlarge" }, []expectation{{"on-demand prices", Failed, "no price of c5.xlarge"}}},
		"catalog of its own": {func(a *account, j *config.Job) { a.refused["GetProducts"], j.EC2.Catalog = denied, "c.csv" }, []expectation{{"on-demand prices", OK, "own catalog"}}},
		"fleets":             {func(_ *account, j *config.Job) { j.Resources.Allocation = config.AllocationPriceCapacity }, []expectation{{"fleets", OK, "c5.xlarge in us-west-2a"}}},
		"no fleets": {func(a *account, j *config.Job) {
			j.Resources.Allocation = config.AllocationPriceCapacity
			a.refused["CreateLaunchTemplate"], a.refused["CreateFleet"] = denied, denied
		}, []expectation{{"fleets", Failed, "not allowed: ec2:CreateLaunchTemplate, ec2:CreateFleet"}, {"a launch", OK, ""}}},
		"fleets of a tag": {func(a *account, j *config.Job) {
			j.Resources.Allocation, a.refused["CreateFleet"] = config.AllocationCapacityOptimized, denied
		}, []expectation{{"fleets", Warning, "does not exist: ec2:CreateFleet"}}},
		"no such fleets": {func(a *account, j *config.Job) {
			j.Resources.Allocation, a.refused["fleets"] = config.AllocationPriceCapacity, errors.New("InvalidAction")
		}, []expectation{{"fleets", Warning, "allocation: one-pool"}}},
		"nothing sold": {func(a *account, _ *config.Job) { a.prices = nil }, []expectation{{"prices", Failed, "no spot prices"}}},
	} {
		a, job := healthy(), ec2Job()
		c.change(&a, job)
		examine(t, name, EC2Checks(job, func(context.Context) (EC2, error) { return a, nil }), c.want...)
	}
	refused := func(context.Context) (EC2, error) { return nil, provisioner.ErrDenied }
	examine(t, "no credentials", EC2Checks(ec2Job(), refused), expectation{"credentials", Failed, "aws configure"}, expectation{"image", Skipped, ""})
}

// project is Compute Engine as a test wants it.
type project struct {
	GCE
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
	return []market.InstanceType{{Name: "n2-standard-4", VCPU: 4}}, nil
}
func (p project) PriceList(context.Context, func([]byte) (bool, error)) error {
	return p.refused["skus"]
}
func (p project) Granted(context.Context, string, []string) ([]string, error) {
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
func (p project) MayActAs(context.Context, string) (bool, error) {
	return p.refused["actAs"] == nil, map[bool]error{true: p.refused["account"]}[p.refused["account"] != nil]
}
func (p project) MayUseSubnetwork(context.Context) ([]string, error) {
	if p.refused["use"] != nil {
		return []string{"compute.subnetworks.use"}, nil
	}
	return nil, nil
}
func (p project) Services(_ context.Context, _ string, names []string) (map[string]string, error) {
	states := map[string]string{}
	for _, name := range names {
		states[name] = "ENABLED"
	}
	if p.refused["storage"] != nil {
		states["storage.googleapis.com"] = "DISABLED"
	}
	return states, p.refused["services"]
}
func (p project) Holdings(context.Context) ([]provisioner.Holding, error) { return nil, nil }

func TestGCE(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*project, *config.Job)
		want   []expectation
	}{
		"all well": {func(*project, *config.Job) {}, []expectation{{"credentials", OK, "2 zones"}, {"permissions", OK, "all 16"}, {"APIs", OK, "are on"}, {"service account", OK, "machines@"}, {"machine types", OK, "1 in"},
			{"image", OK, "ready"}, {"network", OK, "10.8.0.0/20"}, {"quotas", OK, "PREEMPTIBLE_CPUS: 100 of 100 are free, 32 wanted"}, {"machines", OK, "0 of"}}},
		"nobody":       {func(p *project, _ *config.Job) { p.refused["zones"] = provisioner.ErrDenied }, []expectation{{"credentials", Failed, "gcloud auth"}, {"image", Skipped, ""}}},
		"not granted":  {func(p *project, _ *config.Job) { p.granted = p.granted[1:] }, []expectation{{"permissions", Failed, "compute.instances.get"}}},
		"by names":     {func(p *project, _ *config.Job) { p.granted = gceLooks }, []expectation{{"permissions", Warning, "compute.disks.create"}}},
		"off":          {func(p *project, _ *config.Job) { p.refused["storage"] = provisioner.ErrDenied }, []expectation{{"APIs", Failed, "gcloud services enable storage.googleapis.com"}}},
		"unseen":       {func(p *project, _ *config.Job) { p.refused["services"] = provisioner.ErrDenied }, []expectation{{"APIs", Warning, "serviceusage.services.get"}}},
		"not as":       {func(p *project, _ *config.Job) { p.refused["actAs"] = provisioner.ErrDenied }, []expectation{{"service account", Failed, "serviceAccountUser"}}},
		"no account":   {func(p *project, _ *config.Job) { p.refused["account"] = provisioner.ErrNotFound }, []expectation{{"service account", Failed, "gcloud iam service-accounts list"}}},
		"nobody's":     {func(_ *project, j *config.Job) { j.GCE.ServiceAccount = "" }, []expectation{{"service account", Warning, "act as nobody"}}},
		"not in it":    {func(p *project, _ *config.Job) { p.refused["use"] = provisioner.ErrDenied }, []expectation{{"network", Failed, "networkUser"}}},
		"API is off":   {func(p *project, _ *config.Job) { p.refused["granted"] = provisioner.ErrDenied }, []expectation{{"permissions", Warning, "cloudresourcemanager"}}},
		"other zone":   {func(_ *project, j *config.Job) { j.Resources.Zones = []string{"us-east1-b"} }, []expectation{{"machine types", Failed, "us-east1-b is not one"}}},
		"no such type": {func(_ *project, j *config.Job) { j.Resources.AnyOf[0].Type = "n9-huge" }, []expectation{{"machine types", Failed, "no n9-huge"}}},
		"image":        {func(p *project, _ *config.Job) { p.status = "DEPRECATED" }, []expectation{{"image", Failed, "DEPRECATED"}}},
		"closed in":    {func(p *project, _ *config.Job) { p.private = false }, []expectation{{"network", Failed, "Private Google Access"}}},
		"small quota":  {func(p *project, _ *config.Job) { p.quotas[1].Used = 90 }, []expectation{{"quotas", Failed, "PREEMPTIBLE_CPUS: 10 of 100"}}},
		"shared quota": {func(p *project, _ *config.Job) { p.quotas = p.quotas[:1] }, []expectation{{"quotas", Failed, "CPUS: 24 of 24 are free; the job may want 36"}}},
	} {
		p := project{granted: append(slices.Clone(gceLooks), gceChanges...), status: "READY", private: true, refused: map[string]error{},
			quotas: []provisioner.Quota{{Name: "CPUS", Limit: 24}, {Name: "PREEMPTIBLE_CPUS", Limit: 100}}}
		job := &config.Job{Cloud: config.CloudGCE, Resources: config.Resources{Count: 8, AnyOf: []config.Machine{{Type: "n2-standard-4"}}},
			Reliable: config.Reliable{Count: 1}, GCE: config.GCE{Project: "my-project", Region: "us-central1", Subnetwork: "tierml", Cluster: "blue", ServiceAccount: "machines@my-project.iam.gserviceaccount.com"}}
		c.change(&p, job)
		examine(t, name, GCEChecks(job, func(context.Context) (GCE, error) { return p, nil }), c.want...)
	}
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	r := Result{Check: "disk", Status: Failed, Found: "only 5 MB are free", Advice: "make room"}
	var steered strings.Builder
	evil := Result{Check: "disk\x1b[2J", Status: Failed, Found: "\x1b[2J", Advice: "\x1b[2J"}
	if err := evil.WriteLine(&steered, true); err != nil || strings.Count(steered.String(), "\x1b") != 2 || strings.Count(steered.String(), `\u001b[2J`) != 3 {
		t.Errorf("%v, %q", err, steered.String())
	}
	if err := r.WriteLine(&b, false); err != nil || b.String() != "✗ disk                 only 5 MB are free\n                       make room\n" {
		t.Errorf("%v: %q", err, b.String())
	}
	if got := Count([]Result{r, {Status: OK}}, Failed); got != 1 {
		t.Errorf("%d failed", got)
	}
}

// Who buys from one pool at a time needs no right to fleets.
func TestNoFleetsAreTried(t *testing.T) {
	job := ec2Job()
	job.Resources.Allocation = config.AllocationOnePool
	for _, c := range EC2Checks(job, nil) {
		if c.Name == "fleets" {
			t.Error("fleets are tried")
		}
	}
}
