package query

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/fakecloud/internal/region"
)

type instanceType struct {
	Name           string      `xml:"instanceType"`
	Current        bool        `xml:"currentGeneration"`
	FreeTier       bool        `xml:"freeTierEligible"`
	Usage          set[string] `xml:"supportedUsageClasses"`
	RootDevices    set[string] `xml:"supportedRootDeviceTypes"`
	Virtualization set[string] `xml:"supportedVirtualizationTypes"`
	BareMetal      bool        `xml:"bareMetal"`
	Hypervisor     string      `xml:"hypervisor"`
	Processor      struct {
		Architectures set[string] `xml:"supportedArchitectures"`
	} `xml:"processorInfo"`
	VCPU   vcpu     `xml:"vCpuInfo"`
	Memory memory   `xml:"memoryInfo"`
	GPU    *gpuInfo `xml:"gpuInfo"`
}

type gpuInfo struct {
	GPUs  set[gpu] `xml:"gpus"`
	Total int64    `xml:"totalGpuMemoryInMiB"`
}

type gpu struct {
	Name         string `xml:"name"`
	Manufacturer string `xml:"manufacturer"`
	Count        int    `xml:"count"`
	Memory       memory `xml:"memoryInfo"`
}

// modelWords are EC2's names of GPU models that differ in catalogs.
var modelWords = map[string]string{"RTX-PRO-6000": "RTX PRO Server 6000"}

type vcpu struct {
	VCPUs   int `xml:"defaultVCpus"`
	Cores   int `xml:"defaultCores"`
	Threads int `xml:"defaultThreadsPerCore"`
}

type memory struct {
	MiB int64 `xml:"sizeInMiB"`
}

func usageClasses(r *region.Region, name string) []string {
	if r.SoldAsSpot(name) {
		return []string{"on-demand", "spot"}
	}
	return []string{"on-demand"}
}

func (c *call) typeShape(t region.Type) instanceType {
	v := instanceType{
		Name: t.Name, Current: true, Usage: set[string]{usageClasses(c.region, t.Name)}, RootDevices: set[string]{[]string{"ebs"}},
		Virtualization: set[string]{[]string{"hvm"}}, Hypervisor: "xen",
		VCPU: vcpu{t.VCPU, t.VCPU, 1}, Memory: memory{t.MemoryMiB},
	}
	v.Processor.Architectures.Items = []string{t.Arch}
	if g := t.GPU; g.Count > 0 {
		v.GPU = &gpuInfo{set[gpu]{[]gpu{{cmp.Or(modelWords[g.Name], g.Name), "NVIDIA", g.Count, memory{g.MemoryMiB}}}}, int64(g.Count) * g.MemoryMiB}
	}
	return v
}

func describeInstanceTypes(c *call) (answer, error) {
	wanted := c.list("InstanceType")
	filters, page := c.filters(), c.page(5, 100)
	if err := c.ready(); err != nil {
		return nil, err
	}
	list := c.region.Types()
	for _, name := range wanted {
		if !slices.ContainsFunc(list, func(t region.Type) bool { return t.Name == name }) {
			return nil, region.Errorf("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", name)
		}
	}
	if len(wanted) > 0 {
		list = slices.DeleteFunc(list, func(t region.Type) bool { return !slices.Contains(wanted, t.Name) })
	}
	list, err := selectBy(list, filters, nil, map[string]func(region.Type) []string{
		"instance-type":                         one(func(t region.Type) string { return t.Name }),
		"processor-info.supported-architecture": one(func(t region.Type) string { return t.Arch }),
		"supported-usage-class":                 func(t region.Type) []string { return usageClasses(c.region, t.Name) },
		"vcpu-info.default-vcpus":               one(func(t region.Type) string { return strconv.Itoa(t.VCPU) }),
		"memory-info.size-in-mib":               one(func(t region.Type) string { return strconv.FormatInt(t.MemoryMiB, 10) }),
		"current-generation":                    one(func(region.Type) string { return "true" }),
		"bare-metal":                            one(func(region.Type) string { return "false" }),
		"supported-virtualization-type":         one(func(region.Type) string { return "hvm" }),
		"network-info.efa-supported":            one(func(region.Type) string { return "false" }),
	})
	if err != nil {
		return nil, err
	}
	list, next := cut(list, page)
	return &struct {
		header
		Types     set[instanceType] `xml:"instanceTypeSet"`
		NextToken string            `xml:"nextToken,omitempty"`
	}{Types: setOf(list, c.typeShape), NextToken: next}, nil
}

type zone struct {
	Name   string      `xml:"zoneName"`
	State  string      `xml:"zoneState"`
	Region string      `xml:"regionName"`
	OptIn  string      `xml:"optInStatus"`
	Notes  set[string] `xml:"messageSet"`
	ID     string      `xml:"zoneId"`
	Group  string      `xml:"groupName"`
	Border string      `xml:"networkBorderGroup"`
	Type   string      `xml:"zoneType"`
}

func describeAvailabilityZones(c *call) (answer, error) {
	wanted, byID := c.list("ZoneName"), c.list("ZoneId")
	c.ignore("AllAvailabilityZones")
	filters := c.filters()
	if err := c.ready(); err != nil {
		return nil, err
	}
	name := c.region.Name()
	var list []zone
	for n, z := range c.region.Zones() {
		list = append(list, zone{
			Name: z, State: "available", Region: name, OptIn: "opt-in-not-required", ID: zoneID(name, n), Group: name,
			Border: name, Type: "availability-zone",
		})
	}
	for _, w := range append(wanted, byID...) {
		if !slices.ContainsFunc(list, func(z zone) bool { return z.Name == w || z.ID == w }) {
			return nil, region.Errorf("InvalidParameterValue", "Invalid availability zone: [%s]", w)
		}
	}
	if len(wanted)+len(byID) > 0 {
		list = slices.DeleteFunc(list, func(z zone) bool { return !slices.Contains(wanted, z.Name) && !slices.Contains(byID, z.ID) })
	}
	list, err := selectBy(list, filters, nil, map[string]func(zone) []string{
		"zone-name":     one(func(z zone) string { return z.Name }),
		"zone-id":       one(func(z zone) string { return z.ID }),
		"region-name":   one(func(z zone) string { return z.Region }),
		"state":         one(func(z zone) string { return z.State }),
		"zone-type":     one(func(z zone) string { return z.Type }),
		"group-name":    one(func(z zone) string { return z.Group }),
		"opt-in-status": one(func(z zone) string { return z.OptIn }),
	})
	if err != nil {
		return nil, err
	}
	return &struct {
		header
		Zones set[zone] `xml:"availabilityZoneInfo"`
	}{Zones: set[zone]{list}}, nil
}

// zoneID returns ids in EC2's format: "usw1-az1" for the first zone of us-west-1, "apse2-az1" for that of ap-southeast-2.
func zoneID(region string, n int) string {
	parts := strings.Split(region, "-")
	short := parts[0]
	for _, part := range parts[1:] {
		second := ""
		for _, side := range []string{"east", "west"} { // of northeast, southwest, ...
			if len(part) > len(side) && strings.HasSuffix(part, side) {
				second = side[:1]
			}
		}
		short += part[:min(1, len(part))] + second
	}
	return short + "-az" + strconv.Itoa(n+1)
}

func describeRegions(c *call) (answer, error) {
	wanted := c.list("RegionName")
	c.ignore("AllRegions")
	filters := c.filters()
	if err := c.ready(); err != nil {
		return nil, err
	}
	type regionInfo struct {
		Name     string `xml:"regionName"`
		Endpoint string `xml:"regionEndpoint"`
		OptIn    string `xml:"optInStatus"`
	}
	list := []regionInfo{{c.region.Name(), c.host, "opt-in-not-required"}}
	for _, w := range wanted {
		if w != c.region.Name() {
			return nil, region.Errorf("InvalidParameterValue", "Invalid region: [%s]", w)
		}
	}
	list, err := selectBy(list, filters, nil, map[string]func(regionInfo) []string{
		"region-name": one(func(r regionInfo) string { return r.Name }),
		"endpoint":    one(func(r regionInfo) string { return r.Endpoint }),
	})
	if err != nil {
		return nil, err
	}
	return &struct {
		header
		Regions set[regionInfo] `xml:"regionInfo"`
	}{Regions: set[regionInfo]{list}}, nil
}
