package market

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadCatalog(t *testing.T) {
	c, err := ReadCatalog(strings.NewReader(`region,instance_type,vcpu,memory_gib,ecu,linux_ondemand_usd_hour,network
us-west-1,c3.xlarge,4,7.5,14.0,0.239,Moderate
us-west-1,c3.2xlarge,8,15.0,28.0,0.478,High
us-east-1,c3.xlarge,4,7.5,14.0,0.210,Moderate
us-east-1,t1.micro,1,0.613,0,0.020,Very Low
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"us-east-1", "us-west-1"}, c.Regions()); diff != "" {
		t.Error(diff)
	}
	want := []InstanceType{
		{Name: "c3.2xlarge", Arch: "x86_64", VCPU: 8, MemoryMiB: 15360, OnDemand: mils(478)},
		{Name: "c3.xlarge", Arch: "x86_64", VCPU: 4, MemoryMiB: 7680, OnDemand: mils(239)},
	}
	if diff := cmp.Diff(want, c.Types("us-west-1")); diff != "" {
		t.Error(diff)
	}
	if micro, ok := c.Lookup("us-east-1", "t1.micro"); !ok || micro.MemoryMiB != 628 || micro.OnDemand != mils(20) {
		t.Errorf("t1.micro: %+v, %v", micro, ok)
	}
	if _, ok := c.Lookup("us-west-1", "t1.micro"); ok {
		t.Error("a type was found in a region that does not sell it")
	}
}

func TestReadShortCatalog(t *testing.T) {
	c, err := ReadCatalog(strings.NewReader("region,instance_type,linux_ondemand_usd_hour\nus-east-1,m6g.large,0.077\nus-east-1,m6g.metal,2.464\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, ok := c.Lookup("us-east-1", "m6g.large")
	if want := (InstanceType{Name: "m6g.large", Arch: "arm64", VCPU: 2, OnDemand: mils(77)}); !ok || got != want {
		t.Errorf("%+v, %v; want %+v", got, ok, want)
	}
	if metal, ok := c.Lookup("us-east-1", "m6g.metal"); !ok || metal.VCPU != 0 {
		t.Errorf("bare metal: %+v, %v; its vCPUs do not follow from its name", metal, ok)
	}
}

func TestReadCatalogRefuses(t *testing.T) {
	const header = "region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\n"
	for _, c := range []struct{ name, text, says string }{
		{"empty", "", "empty"},
		{"missing column", "region,instance_type\n", `no column "linux_ondemand_usd_hour"`},
		{"price", header + "r,a.b,1,1,free\n", "line 2: linux_ondemand_usd_hour"},
		{"no price", header + "r,a.b,1,1,0\n", "line 2: linux_ondemand_usd_hour"},
		{"vCPUs", header + "r,a.b,1,1,1\nr,a.c,half,1,1\n", "line 3: vcpu"},
		{"memory", header + "r,a.b,1,-1,1\n", "line 2: memory_gib"},
		{"twice", header + "r,a.b,1,1,1\nr,a.b,1,1,1\n", "line 3: a.b in r is listed twice"},
		{"no name", header + "r,,1,1,1\n", "line 2: region and instance_type"},
		{"short line", header + "r,a.b,1\n", "line 2"},
	} {
		if _, err := ReadCatalog(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want an error that says %q", c.name, err, c.says)
		}
	}
}

func TestArchOf(t *testing.T) {
	arm := "a1.large m6g.xlarge c7gn.large t4g.micro x2gd.medium im4gn.large is4gen.large g5g.xlarge hpc7g.4xlarge i4g.large r8gd.large"
	x86 := "c3.xlarge g2.2xlarge g4dn.xlarge g4ad.xlarge g5.xlarge g6e.xlarge gr6.4xlarge m5zn.large u-6tb1.metal cg1.4xlarge " +
		"c7i-flex.large hs1.8xlarge p4d.24xlarge inf2.xlarge trn1.2xlarge t1.micro x2iedn.xlarge"
	arm += " t2a-standard-4 c4a-highmem-8" // Compute Engine's
	x86 += " n2-highmem-8 n2d-highcpu-4 c3-standard-22 n1-highmem-2 u7i-12tb.224xlarge"
	for _, name := range strings.Fields(arm) {
		if ArchOf(name) != ArchARM {
			t.Errorf("%s is %s", name, ArchOf(name))
		}
	}
	for _, name := range strings.Fields(x86) {
		if ArchOf(name) != ArchX86 {
			t.Errorf("%s is %s", name, ArchOf(name))
		}
	}
}
