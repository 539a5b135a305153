package api_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/fakecloud/fakecloudtest"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	ec2 "github.com/tierml/tierml/providers/ec2/api"
)

func TestFieldsOfAdvice(t *testing.T) {
	s := newServer(t, byAction(map[string]string{
		"GetInstanceTypesFromInstanceRequirements": `<R><instanceTypeSet><item><instanceType>m5.xlarge</instanceType></item><item><instanceType>c5.xlarge</instanceType></item></instanceTypeSet></R>`,
		"DescribeAvailabilityZones": `<R><availabilityZoneInfo><item><zoneName>us-west-1b</zoneName><zoneId>usw1-az1</zoneId></item>` +
			`<item><zoneName>us-west-1a</zoneName><zoneId>usw1-az3</zoneId></item></availabilityZoneInfo></R>`,
		"GetSpotPlacementScores": `<R><spotPlacementScoreSet><item><availabilityZoneId>usw1-az1</availabilityZoneId><score>9</score></item></spotPlacementScoreSet></R>`,
	}))
	cloud := s.cloud()
	names, err := cloud.TypesFor(t.Context(), ec2.Need{MinVCPU: 4, MaxVCPU: 8, MinMemory: 8192, Arch: "x86_64"})
	if err != nil || !slices.Equal(names, []string{"c5.xlarge", "m5.xlarge"}) {
		t.Errorf("%v, %v", names, err)
	}
	zones, all, err := cloud.PlacementScores(t.Context(), 8, "m5.xlarge", "c5.xlarge", "c5.xlarge")
	want := []ec2.Zone{{Name: "us-west-1a", ID: "usw1-az3"}, {Name: "us-west-1b", ID: "usw1-az1", Score: 9}}
	if diff := cmp.Diff(want, zones); diff != "" || all || err != nil {
		t.Errorf("all %v, %v (-want +got):\n%s", all, err, diff)
	}
	calls := s.recorded()
	wantForm(t, calls[0], `
		Action=GetInstanceTypesFromInstanceRequirements
		Version=2016-11-15
		ArchitectureType.1=x86_64
		InstanceRequirements.BareMetal=included
		InstanceRequirements.BurstablePerformance=included
		InstanceRequirements.MemoryMiB.Min=8192
		InstanceRequirements.VCpuCount.Max=8
		InstanceRequirements.VCpuCount.Min=4
		MaxResults=1000
		VirtualizationType.1=hvm`)
	wantForm(t, calls[1], `
		Action=DescribeAvailabilityZones
		Version=2016-11-15
		Filter.1.Name=zone-type
		Filter.1.Value.1=availability-zone`)
	wantForm(t, calls[2], `
		Action=GetSpotPlacementScores
		Version=2016-11-15
		InstanceType.1=c5.xlarge
		InstanceType.2=m5.xlarge
		RegionName.1=us-west-1
		SingleAvailabilityZone=true
		TargetCapacity=8
		TargetCapacityUnitType=units`)
}

// Against the fake cloud: types by requirements, and scores by capacity.
func TestAdviceOfTheFakeCloud(t *testing.T) {
	pool := spotPool()
	other := pool
	other.Zone = "us-west-1b"
	config := fakecloud.Config{Clock: clock.Real(), Region: pool.Region, Rules: mustRules(t), Notice: time.Hour,
		Prices:   map[market.Pool]*market.History{pool: market.Constant(market.Dollar / 20), other: market.Constant(market.Dollar / 20)},
		Capacity: map[market.Pool]int{pool: 3}}
	for n, name := range []string{"c3.large", "c3.xlarge", "c3.2xlarge"} {
		config.Types = append(config.Types, fakecloud.InstanceType{InstanceType: market.InstanceType{Name: name, Arch: "x86_64", VCPU: 2 << n, MemoryMiB: 3840 << n, OnDemand: market.Dollar}})
	}
	fake := fakecloudtest.Start(t, config)
	cloud := newCloud(t, ec2.Config{Endpoint: fake.Endpoint(), Region: pool.Region, Cluster: "blue", ImageID: "ami-1"})
	for _, c := range []struct {
		need ec2.Need
		want []string
	}{
		{ec2.Need{MinVCPU: 4}, []string{"c3.2xlarge", "c3.xlarge"}},
		{ec2.Need{MinVCPU: 2, MaxVCPU: 4}, []string{"c3.large", "c3.xlarge"}},
		{ec2.Need{MinMemory: 7000, MaxMemory: 8000}, []string{"c3.xlarge"}},
		{ec2.Need{Arch: "arm64"}, nil},
	} {
		if got, err := cloud.TypesFor(t.Context(), c.need); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, %v; want %v", c.need, got, err, c.want)
		}
	}
	zones, _, err := cloud.PlacementScores(t.Context(), 10, "c3.large")
	want := []ec2.Zone{{Name: "us-west-1a", ID: "usw1-az1", Score: 3}, {Name: "us-west-1b", ID: "usw1-az2", Score: 10}}
	if diff := cmp.Diff(want, zones); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
