package query

import (
	"math"
	"slices"
	"strings"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// wish is whether types of a kind are "included", "required" or, by default, "excluded".
type wish string

func (w wish) admits(is bool) bool { return w == "included" || is == (w == "required") }

// otherNeeds are requirements that are not supported here; Spot Fleet adds Set to the names of lists.
var otherNeeds = []string{"CpuManufacturer", "InstanceGeneration", "SpotMaxPricePercentageOverLowestPrice", "OnDemandMaxPricePercentageOverLowestPrice",
	"RequireHibernateSupport", "NetworkInterfaceCount", "LocalStorage", "LocalStorageType", "TotalLocalStorageGB", "BaselineEbsBandwidthMbps",
	"AcceleratorType", "AcceleratorCount", "AcceleratorManufacturer", "AcceleratorName", "AcceleratorTotalMemoryMiB", "NetworkBandwidthGbps",
	"MaxSpotPriceAsPercentageOfOptimalOnDemandPrice", "BaselinePerformanceFactors", "RequireEncryptionInTransit"}

// requirements reads those of a type: vCPUs, memory, burstable and bare-metal types, and names.
func (c *call) requirements(need string) func(t region.Type) bool {
	c.required(need + ".VCpuCount.Min")
	c.required(need + ".MemoryMiB.Min")
	least, most := c.number(need+".VCpuCount.Min", 0), c.number(need+".VCpuCount.Max", math.MaxInt)
	small, large := c.number(need+".MemoryMiB.Min", 0), c.number(need+".MemoryMiB.Max", math.MaxInt)
	lean, rich := c.decimal(need+".MemoryGiBPerVCpu.Min"), c.decimal(need+".MemoryGiBPerVCpu.Max")
	burstable, metal := wish(c.among(need+".BurstablePerformance", wishes)), wish(c.among(need+".BareMetal", wishes))
	allowed := append(c.list(need+".AllowedInstanceType"), c.list(need+".AllowedInstanceTypeSet")...)
	excluded := append(c.list(need+".ExcludedInstanceType"), c.list(need+".ExcludedInstanceTypeSet")...)
	if len(allowed) > 0 && len(excluded) > 0 {
		c.fail(region.Errorf("InvalidParameterCombination", "AllowedInstanceTypes and ExcludedInstanceTypes cannot both be specified."))
	}
	for _, name := range otherNeeds {
		c.unspoken(need+"."+name, need+"."+name+"Set")
	}
	return func(t region.Type) bool {
		perVCPU := float64(t.MemoryMiB) / 1024 / float64(max(1, t.VCPU))
		return t.VCPU >= least && t.VCPU <= most && int(t.MemoryMiB) >= small && int(t.MemoryMiB) <= large &&
			perVCPU >= lean && (rich == 0 || perVCPU <= rich) &&
			(len(allowed) == 0 || filter{values: allowed}.accepts(t.Name)) && !filter{values: excluded}.accepts(t.Name) &&
			burstable.admits(strings.HasPrefix(t.Name, "t") && !strings.HasPrefix(t.Name, "trn")) && metal.admits(strings.Contains(t.Name, ".metal"))
	}
}

var wishes = []string{"included", "required", "excluded"}

// getInstanceTypesFromInstanceRequirements knows the architecture and what requirements does.
func getInstanceTypesFromInstanceRequirements(c *call) (answer, error) {
	architectures, virtualization := c.list("ArchitectureType"), c.list("VirtualizationType")
	meets := c.requirements("InstanceRequirements")
	page := c.page(1, 1000)
	if len(architectures) == 0 || len(virtualization) == 0 {
		c.fail(region.Errorf("MissingParameter", "The request must contain the parameters ArchitectureType and VirtualizationType"))
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	type item struct {
		Name string `xml:"instanceType"`
	}
	var list []item
	for _, t := range c.region.Types() {
		if slices.Contains(architectures, t.Arch) && slices.Contains(virtualization, "hvm") && meets(t) {
			list = append(list, item{t.Name})
		}
	}
	list, next := cut(list, page)
	return &struct {
		header
		Types     set[item] `xml:"instanceTypeSet"`
		NextToken string    `xml:"nextToken,omitempty"`
	}{Types: set[item]{list}, NextToken: next}, nil
}

// getSpotPlacementScores scores a zone, or the region, by the share of the request that its pools could supply now.
func getSpotPlacementScores(c *call) (answer, error) {
	names, regions := c.list("InstanceType"), c.list("RegionName")
	target, byZone := c.number("TargetCapacity", 0), c.boolean("SingleAvailabilityZone")
	c.required("TargetCapacity")
	if unit := c.text("TargetCapacityUnitType"); unit != "" && unit != "units" {
		c.fail(region.Errorf("Unsupported", "Target capacity in %s is not supported here; use units.", unit))
	}
	if len(names) == 0 || target < 1 {
		c.fail(region.Errorf("Unsupported", "Placement scores are given here for named types, and for a target of at least 1."))
	}
	if len(regions) > 0 && !slices.Contains(regions, c.region.Name()) {
		c.fail(region.Errorf("InvalidParameterValue", "Invalid region: [%s]", regions[0]))
	}
	page := c.page(10, 1000)
	if err := c.ready(); err != nil {
		return nil, err
	}
	type item struct {
		Region string `xml:"region"`
		Zone   string `xml:"availabilityZoneId,omitempty"`
		Score  int    `xml:"score"`
	}
	score := func(room int) int { return max(1, min(10, 10*room/target)) }
	var list []item
	all := 0
	for n, zone := range c.region.Zones() {
		room := 0
		for _, name := range names {
			room += c.region.Room(market.Pool{Provider: region.EC2, Region: c.region.Name(), Zone: zone, Type: name, Class: market.Spot}, target)
		}
		list = append(list, item{c.region.Name(), zoneID(c.region.Name(), n), score(room)})
		all += room
	}
	if !byZone {
		list = []item{{c.region.Name(), "", score(all)}}
	}
	list, next := cut(list, page)
	return &struct {
		header
		Scores    set[item] `xml:"spotPlacementScoreSet"`
		NextToken string    `xml:"nextToken,omitempty"`
	}{Scores: set[item]{list}, NextToken: next}, nil
}
