package api

import (
	"cmp"
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// This file has EC2's advice on what to buy: which types meet a need, and where spot requests are likely to succeed.

// Need is a machine's requirements; 0 = any. Burstable and bare-metal types also qualify.
type Need struct {
	MinVCPU, MaxVCPU     int
	MinMemory, MaxMemory int64 // MiB
	Arch                 string
}

// TypesFor returns the names of the types that meet a need, sorted.
func (m *Market) TypesFor(ctx context.Context, n Need) ([]string, error) {
	in := &ec2.GetInstanceTypesFromInstanceRequirementsInput{
		ArchitectureTypes:   []types.ArchitectureType{types.ArchitectureTypeX8664, types.ArchitectureTypeArm64},
		VirtualizationTypes: []types.VirtualizationType{types.VirtualizationTypeHvm},
		InstanceRequirements: &types.InstanceRequirementsRequest{
			VCpuCount:            &types.VCpuCountRangeRequest{Min: aws.Int32(int32(n.MinVCPU)), Max: most(int32(n.MaxVCPU))},
			MemoryMiB:            &types.MemoryMiBRequest{Min: aws.Int32(int32(n.MinMemory)), Max: most(int32(n.MaxMemory))},
			BurstablePerformance: types.BurstablePerformanceIncluded,
			BareMetal:            types.BareMetalIncluded,
		},
		MaxResults: aws.Int32(pageSize),
	}
	if n.Arch != "" {
		in.ArchitectureTypes = []types.ArchitectureType{types.ArchitectureType(n.Arch)}
	}
	var names []string
	for pages := ec2.NewGetInstanceTypesFromInstanceRequirementsPaginator(m.api, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, failure(ctx, "asking which types meet a need", err)
		}
		for _, t := range page.InstanceTypes {
			names = append(names, aws.ToString(t.InstanceType))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func most(n int32) *int32 {
	if n == 0 {
		return nil
	}
	return &n
}

// Zone is an availability zone. Names are specific to an account: us-east-1a of one may be us-east-1c of another. Ids are the same for all,
// so that comparisons between accounts use the id.
type Zone struct {
	Name, ID string
	Score    int // of PlacementScores, from 1 to 10; 0 = none
}

// Zones returns the zones of the region in which the account can buy, sorted by name.
func (m *Market) Zones(ctx context.Context) ([]Zone, error) {
	out, err := m.api.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{
		Filters: []types.Filter{{Name: aws.String("zone-type"), Values: []string{"availability-zone"}}}})
	if err != nil {
		return nil, failure(ctx, "asking for zones", err)
	}
	var zones []Zone
	for _, z := range out.AvailabilityZones {
		zones = append(zones, Zone{Name: aws.ToString(z.ZoneName), ID: aws.ToString(z.ZoneId)})
	}
	slices.SortFunc(zones, func(a, b Zone) int { return cmp.Compare(a.Name, b.Name) })
	return zones, nil
}

// scoredTypes is the minimum number of types for meaningful scores: with fewer EC2's scores are always low.
const scoredTypes = 3

// PlacementScores returns how likely a spot request for this many machines of any of these types is to succeed in each zone now: 10 is
// highly likely, 1 is not. EC2 answers few requests of an account per day, and the score does not predict how long machines last. It
// advises naming at least three types; with fewer, all says so.
func (m *Market) PlacementScores(ctx context.Context, machines int, names ...string) (zones []Zone, all bool, err error) {
	zones, err = m.Zones(ctx)
	if err != nil {
		return nil, false, err
	}
	slices.Sort(names)
	names = slices.Compact(names)
	pages := ec2.NewGetSpotPlacementScoresPaginator(m.api, &ec2.GetSpotPlacementScoresInput{
		InstanceTypes: names, TargetCapacity: aws.Int32(int32(machines)), TargetCapacityUnitType: types.TargetCapacityUnitTypeUnits,
		SingleAvailabilityZone: aws.Bool(true), RegionNames: []string{m.config.Region},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, false, failure(ctx, "asking for placement scores", err)
		}
		for _, s := range page.SpotPlacementScores {
			for i := range zones {
				if zones[i].ID == aws.ToString(s.AvailabilityZoneId) {
					zones[i].Score = int(aws.ToInt32(s.Score))
				}
			}
		}
	}
	return zones, len(names) >= scoredTypes, nil
}
