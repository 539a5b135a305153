package market

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Catalog is what a provider sells on demand: shapes and prices of machine types by region.
type Catalog struct {
	types map[string]map[string]InstanceType // by region, then name
}

// NewCatalog creates a catalog of the types that a region sells.
func NewCatalog(region string, types []InstanceType) *Catalog {
	byName := make(map[string]InstanceType, len(types))
	for _, t := range types {
		byName[t.Name] = t
	}
	return &Catalog{types: map[string]map[string]InstanceType{region: byName}}
}

// Lookup returns a type as sold in a region.
func (c *Catalog) Lookup(region, name string) (InstanceType, bool) {
	t, ok := c.types[region][name]
	return t, ok
}

// Regions lists the regions, sorted.
func (c *Catalog) Regions() []string {
	regions := make([]string, 0, len(c.types))
	for region := range c.types {
		regions = append(regions, region)
	}
	slices.Sort(regions)
	return regions
}

// Types lists the types sold in a region, sorted by name.
func (c *Catalog) Types(region string) []InstanceType {
	types := make([]InstanceType, 0, len(c.types[region]))
	for _, t := range c.types[region] {
		types = append(types, t)
	}
	slices.SortFunc(types, func(a, b InstanceType) int { return strings.Compare(a.Name, b.Name) })
	return types
}

// WithGPUs returns the catalog with GPUs from of, by type, where the catalog has none.
func (c *Catalog) WithGPUs(of func(name string) GPU) *Catalog {
	with := &Catalog{types: make(map[string]map[string]InstanceType, len(c.types))}
	for region, types := range c.types {
		with.types[region] = maps.Clone(types)
		for name, t := range types {
			if t.GPU.Count == 0 {
				t.GPU = of(name)
				with.types[region][name] = t
			}
		}
	}
	return with
}

// Columns of a catalog file; the last four are optional.
const (
	columnRegion   = "region"
	columnType     = "instance_type"
	columnOnDemand = "linux_ondemand_usd_hour"
	columnVCPU     = "vcpu"
	columnMemory   = "memory_gib"
	columnNetwork  = "network"
	columnArch     = "arch"
)

// ReadCatalog reads a CSV file of EC2 types whose header names the columns
//
//	region,instance_type,vcpu,memory_gib,ecu,linux_ondemand_usd_hour,network
//
// or only region, instance_type and linux_ondemand_usd_hour. Missing vCPUs are derived from EC2's names of sizes (VCPUOf), or 0, unknown;
// missing memory is 0, unknown. The network is known if it contains a number, such as "10 Gigabit"; "Moderate" and "Up to 10 Gigabit" give
// no figure for planning. The architecture is in the column arch, or else derived from the name (ArchOf). Other columns are ignored.
func ReadCatalog(r io.Reader) (*Catalog, error) {
	rows := csv.NewReader(r)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("catalog: empty; its first line must name the columns")
	}
	if err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	columns := make(map[string]int)
	for i, name := range header {
		columns[strings.Clone(name)] = i
	}
	for _, name := range []string{columnRegion, columnType, columnOnDemand} {
		if _, ok := columns[name]; !ok {
			return nil, fmt.Errorf("catalog line 1: no column %q", name)
		}
	}
	c := &Catalog{types: make(map[string]map[string]InstanceType)}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return c, nil
		}
		if err != nil {
			return nil, fmt.Errorf("catalog: %w", err)
		}
		if err := c.addRow(columns, row); err != nil {
			line, _ := rows.FieldPos(0)
			return nil, fmt.Errorf("catalog line %d: %w", line, err)
		}
	}
}

func (c *Catalog) addRow(columns map[string]int, row []string) error {
	field := func(name string) string {
		if i, ok := columns[name]; ok {
			return row[i]
		}
		return ""
	}
	region := strings.Clone(field(columnRegion))
	t, err := parseType(field)
	if err != nil {
		return err
	}
	if region == "" || t.Name == "" {
		return errors.New("region and instance_type must not be empty")
	}
	if _, ok := c.types[region][t.Name]; ok {
		return fmt.Errorf("%s in %s is listed twice", t.Name, region)
	}
	if c.types[region] == nil {
		c.types[region] = make(map[string]InstanceType)
	}
	c.types[region][t.Name] = t
	return nil
}

func parseType(field func(string) string) (InstanceType, error) {
	name := strings.Clone(field(columnType))
	t := InstanceType{Name: name, Arch: ArchOf(name), VCPU: VCPUOf(name)}
	var err error
	if t.OnDemand, err = ParseUSD(field(columnOnDemand)); err != nil {
		return InstanceType{}, fmt.Errorf("%s: %w", columnOnDemand, err)
	}
	if t.OnDemand <= 0 {
		return InstanceType{}, fmt.Errorf("%s %s: must be above 0", columnOnDemand, t.OnDemand)
	}
	if s := field(columnVCPU); s != "" {
		if t.VCPU, err = strconv.Atoi(s); err != nil || t.VCPU <= 0 {
			return InstanceType{}, fmt.Errorf("%s %q: want a whole number above 0", columnVCPU, s)
		}
	}
	if s := field(columnMemory); s != "" {
		gib, err := strconv.ParseFloat(s, 64)
		if err != nil || !(gib > 0) || gib > 1<<20 {
			return InstanceType{}, fmt.Errorf("%s %q: want a number of GiB above 0", columnMemory, s)
		}
		t.MemoryMiB = int64(math.Round(gib * 1024))
	}
	switch arch := field(columnArch); arch {
	case "":
	case ArchX86, ArchARM:
		t.Arch = arch
	default:
		return InstanceType{}, fmt.Errorf("%s %q: want %s or %s", columnArch, arch, ArchX86, ArchARM)
	}
	if number, ok := strings.CutSuffix(field(columnNetwork), " Gigabit"); ok {
		if gigabits, err := strconv.ParseFloat(number, 64); err == nil && gigabits > 0 && gigabits < 1e6 {
			t.Bandwidth = gigabits * 1e9 / 8
		}
	}
	return t, nil
}

// Architectures of machine types, in EC2's words.
const (
	ArchX86 = "x86_64"
	ArchARM = "arm64"
)

// ArchOf returns the architecture of a machine type by its provider's naming rule. On EC2 the family (before the dot) is
// letters, a generation number and attributes; "g" among the attributes means Graviton, which is arm64 (m6g, c7gn, im4gn), as
// is all of a1; g4dn and gr6 have their g before the number. On Compute Engine "a" after the generation means ARM (t2a-standard-4,
// c4a-highmem-8); everything else is x86_64.
func ArchOf(instanceType string) string {
	family, _, amazon := strings.Cut(instanceType, ".")
	mark := "g"
	switch {
	case family == "a1":
		return ArchARM
	case !amazon && strings.Contains(instanceType, "-"):
		family, _, _ = strings.Cut(instanceType, "-")
		mark = "a"
	}
	generation := strings.IndexAny(family, "0123456789")
	if generation >= 0 && strings.Contains(family[generation:], mark) {
		return ArchARM
	}
	return ArchX86
}
