package ec2

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
)

// amazon is as much of EC2 as a plan needs.
type amazon struct {
	asked    []string // what was requested on demand
	query    api.PriceQuery
	unpriced string // a type missing from the price list
	onDemand error
	needs    error
	zones    error
	scores   error
	many     bool // enough types for meaningful scores
	scored   string
	quotas   map[string]float64
	subnets  []api.Subnet
}

func (a *amazon) Subnets(context.Context) ([]api.Subnet, error) { return a.subnets, a.needs }

func (a *amazon) TypesFor(context.Context, api.Need) ([]string, error) {
	return []string{"m5.xlarge", "c5.xlarge"}, a.needs
}

func (a *amazon) Types(context.Context, ...string) ([]market.InstanceType, error) {
	return []market.InstanceType{{Name: "c5.xlarge", VCPU: 4}, {Name: "g6e.xlarge", VCPU: 4, MemoryMiB: 32 << 10, GPU: market.GPU{Name: "L40S", Count: 1, MemoryMiB: 45776}},
		{Name: "g6e.12xlarge", VCPU: 48, MemoryMiB: 384 << 10, GPU: market.GPU{Name: "L40S", Count: 4, MemoryMiB: 45776}},
		{Name: "g7e.2xlarge", VCPU: 8, MemoryMiB: 64 << 10, GPU: market.GPU{Name: "RTX PRO Server 6000", Count: 1, MemoryMiB: 98304}}}, nil
}

func (a *amazon) PriceHistory(_ context.Context, q api.PriceQuery, _ func(int)) (map[market.Pool][]market.PricePoint, error) {
	a.query = q
	prices := map[market.Pool][]market.PricePoint{}
	for _, kind := range q.Types {
		for _, zone := range q.Zones {
			prices[market.Pool{Provider: "ec2", Region: "us-west-2", Zone: zone, Type: kind, Class: market.Spot}] = []market.PricePoint{{At: q.Since, Price: market.Dollar / 20}}
		}
	}
	return prices, nil
}

func (a *amazon) OnDemand(_ context.Context, names ...string) (found []market.InstanceType, missing []string, err error) {
	a.asked = append(a.asked, strings.Join(names, ","))
	for _, name := range names {
		if name == a.unpriced {
			missing = append(missing, name)
			continue
		}
		found = append(found, market.InstanceType{Name: name, Arch: "x86_64", VCPU: 4, MemoryMiB: 8192, OnDemand: market.Dollar / 5})
	}
	return found, missing, a.onDemand
}

func (a *amazon) Zones(context.Context) ([]api.Zone, error) {
	return []api.Zone{{Name: "us-west-2a", ID: "usw2-az2"}, {Name: "us-west-2b", ID: "usw2-az1"}}, a.zones
}

func (a *amazon) PlacementScores(_ context.Context, machines int, names ...string) ([]api.Zone, bool, error) {
	a.scored = fmt.Sprint(machines, " of ", strings.Join(names, ","))
	return []api.Zone{{Name: "us-west-2a", ID: "usw2-az2", Score: 3}, {Name: "us-west-2b", ID: "usw2-az1", Score: 9}}, a.many, a.scores
}

func ec2Job() *config.Job {
	return &config.Job{Cloud: Name,
		Block:     &Block{Installation: config.Installation{Region: "us-west-2"}, Advisor: "testdata/advisor.json", Subnets: map[string]string{"us-west-2b": "subnet-b", "us-west-2a": "subnet-a"}},
		Resources: config.Resources{Count: config.Exactly(6), AnyOf: []config.Machine{{Type: "c5.xlarge"}, {CPUs: config.CPUs{Count: 4}}}},
		Reliable:  config.Reliable{Type: "r5.xlarge"},
		Local:     config.Local{Start: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)}}
}

// Without a catalog the price list is queried, for the types that the job may buy and the reliable one, but only once a day.
func TestEC2MarketOfThePriceList(t *testing.T) {
	folder, a := t.TempDir(), &amazon{}
	for _, hours := range []time.Duration{0, 3} {
		job := ec2Job()
		job.Local.Start = job.Local.Start.Add(hours * time.Hour)
		m, err := soldTo(t.Context(), job, a, folder)
		if err != nil {
			t.Fatal(err)
		}
		if offers, skipped := m.Offers(); len(offers) != 4 || len(skipped) > 0 || offers[0].Type.OnDemand != market.Dollar/5 {
			t.Errorf("%d offers, %v skipped", len(offers), skipped)
		}
		if _, ok := m.Catalog.Lookup("us-west-2", "r5.xlarge"); !ok {
			t.Error("the reliable type is not in the catalog")
		}
		want := []string{"Spot prices: EC2 in us-west-2, asked now; 4 pools, since 2026-08-24.", "On-demand prices: AWS Price List of us-west-2, asked 2026-11-22 10:00 UTC."}
		if hours > 0 {
			want[1] = "On-demand prices: AWS Price List of us-west-2, asked 2026-11-22 10:00 UTC (3 h ago)."
		}
		if !slices.Equal(m.Sources[:2], want) {
			t.Errorf("sources %q, want %q", m.Sources, want)
		}
	}
	if !slices.Equal(a.asked, []string{"c5.xlarge,m5.xlarge,r5.xlarge"}) {
		t.Errorf("asked for %q", a.asked)
	}
	if !slices.Equal(a.query.Zones, []string{"us-west-2a", "us-west-2b"}) {
		t.Errorf("zones %v", a.query.Zones)
	}
}

// A catalog of the job's own wins, without a query.
func TestEC2MarketOfACatalog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.csv")
	if err := os.WriteFile(path, []byte("region,instance_type,linux_ondemand_usd_hour\nus-west-2,c5.xlarge,0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	job, a := ec2Job(), &amazon{}
	blockOf(job).Catalog = path
	m, err := soldTo(t.Context(), job, a, t.TempDir())
	if err != nil || a.asked != nil || !strings.Contains(m.Sources[1], "On-demand prices: "+path+", a file of ") {
		t.Errorf("%v; asked %v; %q", err, a.asked, m.Sources)
	}
	if offers, skipped := m.Offers(); len(offers) != 2 || len(skipped) != 2 || offers[0].Type.OnDemand != market.Dollar/10 {
		t.Errorf("%d offers, %d skipped", len(offers), len(skipped))
	}
	blockOf(job).Catalog = path + "s"
	if _, err := soldTo(t.Context(), job, a, ""); err == nil || !strings.Contains(err.Error(), "or leave it out") {
		t.Errorf("no such file: %v", err)
	}
}

func TestEC2MarketErrors(t *testing.T) {
	denied := errors.Join(provisioner.ErrDenied, errors.New("pricing:GetProducts"))
	for name, c := range map[string]struct {
		a     amazon
		words string
	}{
		"no permission":         {amazon{onDemand: denied}, "Or give on-demand prices with ec2.catalog"},
		"no such price":         {amazon{unpriced: "c5.xlarge"}, "has no on-demand price of c5.xlarge in us-west-2"},
		"no price of the tier":  {amazon{unpriced: "r5.xlarge"}, "has no on-demand price of r5.xlarge"},
		"needs are not told of": {amazon{needs: errors.New("broken")}, "broken"},
	} {
		if _, err := soldTo(t.Context(), ec2Job(), &c.a, ""); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %q", name, err, c.words)
		}
	}
	if m, err := soldTo(t.Context(), ec2Job(), &amazon{unpriced: "m5.xlarge"}, ""); err != nil || len(m.Catalog.Types("us-west-2")) != 2 {
		t.Errorf("a type that is only needed, not named: %v", err)
	}
}

// EC2's capacity information reaches the pools' hints, with dates; missing information is reported, and nothing fails.
func TestHintsOfEC2(t *testing.T) {
	a, job := &amazon{many: true}, ec2Job()
	m, err := soldTo(t.Context(), job, a, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if a.scored != "6 of c5.xlarge,m5.xlarge" || m.ZoneIDs["us-west-2b"] != "usw2-az1" {
		t.Errorf("asked for %q; zones %v", a.scored, m.ZoneIDs)
	}
	offers, _ := m.Offers()
	for _, o := range offers {
		want := map[string]float64{"us-west-2a": 3, "us-west-2b": 9}[o.Pool.Zone]
		if h := o.Hints.Placement; h.Value != want || !h.At.Equal(job.Local.Start) {
			t.Errorf("%s: placement %+v", o.Pool, h)
		}
		if h := o.Hints.Interruptions; h.Known() != (o.Type.Name == "c5.xlarge") {
			t.Errorf("%s: interruptions %+v", o.Pool, h)
		}
	}
	said := strings.Join(m.Sources, "\n")
	for _, words := range []string{"Interruptions: Spot Instance Advisor, by testdata/advisor.json of ",
		"Placement scores of 6 machines, 10 = highly likely to be had: EC2, asked now: us-west-2a (usw2-az2) 3, us-west-2b (usw2-az1) 9."} {
		if !strings.Contains(said, words) {
			t.Errorf("no %q in\n%s", words, said)
		}
	}
	for name, c := range map[string]struct {
		a     amazon
		words string
	}{
		"few types": {amazon{}, "Nothing is decided by them"},
		"no scores": {amazon{scores: errors.New("asked too often\nmore")}, "Placement scores: unknown; asked too often."},
		"no zones":  {amazon{zones: errors.New("not allowed")}, "Ids of zones: unknown; not allowed."},
	} {
		m, err := soldTo(t.Context(), ec2Job(), &c.a, "")
		if err != nil || !strings.Contains(strings.Join(m.Sources, "\n"), c.words) {
			t.Errorf("%s: %v, %q", name, err, m.Sources)
		}
		if offers, _ := m.Offers(); offers[0].Hints.Placement.Known() {
			t.Errorf("%s: a score is decided by", name)
		}
	}
	blockOf(job).Advisor = "testdata/none.json"
	if _, err := soldTo(t.Context(), job, a, ""); err == nil || !strings.Contains(err.Error(), "spot-advisor-data.json") {
		t.Errorf("no such file: %v", err)
	}
}
func (a *amazon) Quota(_ context.Context, _, code string) (float64, error) {
	limit, told := a.quotas[code]
	if !told {
		return 0, errors.New("not allowed")
	}
	return limit, nil
}

// A plan warns of a quota that is lower than the job's maximum, with the figures and how to raise it; but not of an unknown one.
func TestLimits(t *testing.T) {
	sells := func(provider, region, kind string) *local.Market {
		pool := market.Pool{Provider: provider, Region: region, Zone: region + "a", Type: kind, Class: market.Spot}
		return &local.Market{Catalog: market.NewCatalog(region, []market.InstanceType{{Name: kind, VCPU: 4, MemoryMiB: 8192, OnDemand: market.Dollar}}),
			Trace: &trace.Trace{Markets: trace.Of(map[market.Pool][]market.PricePoint{pool: {{At: time.Unix(0, 0), Price: market.Dollar / 5}}})}}
	}
	for name, c := range map[string]struct {
		kind   string
		want   config.Resources
		quotas map[string]float64
		words  []string
	}{
		"enough":   {"c5.xlarge", config.Resources{Count: config.Exactly(8)}, map[string]float64{api.QuotaSpotVCPUs: 32, api.QuotaOnDemandVCPUs: 4}, nil},
		"spot":     {"c5.xlarge", config.Resources{Count: config.Exactly(8)}, map[string]float64{api.QuotaSpotVCPUs: 31}, []string{"32 spot vCPUs, and the account's quota L-34B43A08 in us-west-2 is 31", "--desired-value 32"}},
		"reliable": {"c5.xlarge", config.Resources{Count: config.Exactly(1)}, map[string]float64{api.QuotaOnDemandVCPUs: 0}, []string{"4 on-demand vCPUs"}},
		"vCPUs":    {"c5.xlarge", config.Resources{VCPU: 64}, map[string]float64{api.QuotaSpotVCPUs: 63}, []string{"64 spot vCPUs"}},
		"P":        {"p4d.24xlarge", config.Resources{Count: config.Exactly(8)}, map[string]float64{"L-7212CCBC": 31, "L-417A185B": 4}, []string{"32 spot vCPUs, and the account's quota L-7212CCBC"}},
		"P5":       {"p5.48xlarge", config.Resources{Count: config.Exactly(8)}, map[string]float64{"L-C4BD4855": 31, "L-417A185B": 4}, []string{"32 spot vCPUs, and the account's quota L-C4BD4855"}},
		"G":        {"gr6.4xlarge", config.Resources{Count: config.Exactly(8)}, map[string]float64{"L-3819A6DF": 32, "L-DB2E81BA": 3}, []string{"4 on-demand vCPUs, and the account's quota L-DB2E81BA"}},
		"others":   {"x1e.xlarge", config.Resources{Count: config.Exactly(8)}, map[string]float64{api.QuotaSpotVCPUs: 0}, nil},
		"not told": {"c5.xlarge", config.Resources{Count: config.Exactly(8)}, nil, nil},
	} {
		c.want.AnyOf = []config.Machine{{Type: c.kind}}
		m, job := sells("ec2", "us-west-2", c.kind), &config.Job{Block: &Block{Installation: config.Installation{Region: "us-west-2"}}, Resources: c.want, Reliable: config.Reliable{Count: 1}}
		warnOfQuotas(t.Context(), m, job, &amazon{quotas: c.quotas})
		if text := strings.Join(m.Warnings, "\n"); len(m.Warnings) != min(len(c.words), 1) || len(c.words) > 0 && !strings.Contains(text, c.words[0]) ||
			len(c.words) > 1 && !strings.Contains(text, c.words[1]) {
			t.Errorf("%s: %q, want %q", name, m.Warnings, c.words)
		}
	}
}

// A job that requests GPUs gets types that have them, from DescribeInstanceTypes, at list prices; one that requests other GPUs gets an
// error that names the existing ones.
func TestGPUMarket(t *testing.T) {
	job := ec2Job()
	job.Run, job.Reliable = "nvidia-smi", config.Reliable{}
	job.Resources.AnyOf = []config.Machine{{GPU: config.GPU{Model: "L40S", Count: 1}}, {GPU: config.GPU{GB: 96, Count: 1}}}
	a := &amazon{}
	m, err := soldTo(t.Context(), job, a, "")
	if err != nil {
		t.Fatal(err)
	}
	if names := strings.Join(a.query.Types, " "); names != "g6e.xlarge g7e.2xlarge" {
		t.Errorf("asked for prices of %s", names)
	}
	offers, _ := m.Offers()
	found := map[string]market.GPU{}
	for _, o := range offers {
		found[o.Type.Name] = o.Type.GPU
	}
	if found["g6e.xlarge"].Name != "L40S" || found["g7e.2xlarge"] != (market.GPU{Name: "RTX-PRO-6000", Count: 1, MemoryMiB: 98304}) || len(found) != 2 {
		t.Errorf("%+v", found)
	}
	job.Resources.AnyOf[0].GPU.Count = 8
	if _, err := soldTo(t.Context(), job, a, ""); err == nil || !strings.Contains(err.Error(), "EC2 has no type in us-west-2 with gpu: L40S:8 that meets the rest of this need "+
		"(3 types with GPUs were looked at); it has g6e.12xlarge (L40S:4), g6e.xlarge (L40S:1), g7e.2xlarge (RTX-PRO-6000:1)") {
		t.Error(err)
	}
}

// Machines of a job that requests GPUs boot from an image with drivers, of the processor's architecture, unless the job names one.
func TestGPUImage(t *testing.T) {
	const began = "name: x\ncloud: ec2\nrun: nvidia-smi\nresources: {count: 1, gpu: %s}\nec2: {region: us-west-2, program: {url: s3://b/t, sha256: " +
		"7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730}, checkpoints: s3://b/c%s}\n"
	for _, c := range []struct{ gpu, more, image, disk string }{
		{"L40S:1", "", "resolve:ssm:/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id", "100GB"},
		{"T4g:1", ", image: ami-1", "resolve:ssm:/aws/service/deeplearning/ami/arm64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id", "100GB"},
		{"[T4g:1, T4:1]", ", gpu_image: ami-2, disk: 200GB", "ami-2", "200GB"},
	} {
		path := filepath.Join(t.TempDir(), "job.yaml")
		if err := os.WriteFile(path, fmt.Appendf(nil, began, c.gpu, c.more), 0o600); err != nil {
			t.Fatal(err)
		}
		job, err := config.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if at := configOf(job); at.ImageID != c.image || blockOf(job).Disk.String() != c.disk {
			t.Errorf("%s: %s on %s", c.gpu, at.ImageID, blockOf(job).Disk)
		}
	}
}
