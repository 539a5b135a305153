// Package shapes knows what machine types can sustain: their network and, for burstable types, the baseline share of their vCPUs. Price
// lists and spot prices have neither.
//
// It does not guess: an unknown type stays unknown.
package shapes

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tierml/tierml/market"
)

// ec2 has EC2's virtual types from DescribeInstanceTypes, with the baseline bandwidth of all network cards together.
// Made by `make shapes` from moto 5 (Apache-2.0), which keeps a copy; the facts are Amazon's.
//
//go:embed ec2.csv
var ec2 string

const megabit = 1e6 / 8 // bytes per second

var ofEC2 = sync.OnceValue(func() map[string]market.InstanceType {
	types, err := read(ec2)
	if err != nil {
		panic(err) // an embedded file, which a test reads
	}
	return types
})

func read(text string) (map[string]market.InstanceType, error) {
	return readTable(text, func(row []string) (t market.InstanceType, err error) {
		var mbps float64
		err = errors.Join(set(&t.VCPU, row[1], strconv.Atoi), set(&t.MemoryMiB, row[2], parseInt64), set(&mbps, row[4], parseFloat64))
		t.Name, t.Arch, t.Bandwidth = row[0], row[3], mbps*megabit
		return t, err
	})
}

// readTable reads CSV with a heading line: the content of each line, by its first cell.
func readTable[T any](text string, read func(row []string) (T, error)) (map[string]T, error) {
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	table := make(map[string]T, len(rows))
	for _, row := range rows[1:] {
		if table[row[0]], err = read(row); err != nil {
			return nil, fmt.Errorf("shapes: %s: %w", row[0], err)
		}
	}
	return table, nil
}

func parseInt64(s string) (int64, error)     { return strconv.ParseInt(s, 10, 64) }
func parseFloat64(s string) (float64, error) { return strconv.ParseFloat(s, 64) }

func set[T any](to *T, text string, parse func(string) (T, error)) (err error) {
	*to, err = parse(text)
	return err
}

// baselines are the permanent shares of a burstable type's vCPUs (EC2 User Guide, "Key concepts for burstable
// performance instances", CPU credits and baseline utilization). More is on credit, which ends when a machine has
// worked for a while.
var baselines = map[string]map[string]float64{
	"t1": {"micro": 0.05}, // nothing is published: as for t2.nano
	"t2": {"nano": 0.05, "micro": 0.1, "small": 0.2, "medium": 0.2, "large": 0.3, "xlarge": 0.225, "2xlarge": 0.16875},
	"t3": {"nano": 0.05, "micro": 0.1, "small": 0.2, "medium": 0.2, "large": 0.3, "xlarge": 0.4, "2xlarge": 0.4},
}

// baseline returns the permanent share of an EC2 type's vCPUs.
func baseline(name string) float64 {
	family, size, _ := strings.Cut(name, ".")
	if family == "t3a" || family == "t4g" {
		family = "t3" // their table is the same
	}
	if share, burstable := baselines[family][size]; burstable {
		return share
	}
	return 1
}

// sharedCores are Compute Engine's types with a part of a core (its documentation, "Shared-core machine types"): vCPUs at their
// baseline, memory and network.
var sharedCores = map[string]market.InstanceType{
	"f1-micro":  {Rate: 0.2, VCPU: 1, MemoryMiB: 614, Bandwidth: 1000 * megabit},
	"g1-small":  {Rate: 0.5, VCPU: 1, MemoryMiB: 1740, Bandwidth: 1000 * megabit},
	"e2-micro":  {Rate: 0.25, VCPU: 2, MemoryMiB: 1024, Bandwidth: 1000 * megabit},
	"e2-small":  {Rate: 0.5, VCPU: 2, MemoryMiB: 2048, Bandwidth: 1000 * megabit},
	"e2-medium": {Rate: 1, VCPU: 2, MemoryMiB: 4096, Bandwidth: 2000 * megabit},
}

// steps are the egress bandwidths of a family's machines in Gbit/s, from each number of vCPUs on (Compute Engine's documentation, the
// tables of the machine families without Tier_1 networking).
var steps = map[string][]struct{ vcpu, gigabits int }{
	"e2":  {{2, 4}, {4, 8}, {8, 16}},
	"n1":  {{1, 2}, {2, 10}, {8, 16}, {16, 32}},
	"n2":  {{2, 10}, {8, 16}, {16, 32}},
	"n2d": {{2, 10}, {8, 16}, {16, 32}},
}

// Complete fills in sustained properties of a type that its catalog left open: vCPUs, memory, network, and the rate of types with only a
// part of their vCPUs. The catalog's values have priority. Known reports whether the type's network is then known.
func Complete(t market.InstanceType) (complete market.InstanceType, known bool) {
	of, found := ofEC2()[t.Name]
	if found {
		if share := baseline(t.Name); share < 1 {
			of.Rate = share * float64(of.VCPU)
		}
	} else if of, found = sharedCores[t.Name]; !found {
		of = step(t)
	}
	if t.VCPU == 0 {
		t.VCPU = of.VCPU
	}
	if t.MemoryMiB == 0 {
		t.MemoryMiB = of.MemoryMiB
	}
	if t.Bandwidth == 0 {
		t.Bandwidth = of.Bandwidth
	}
	if t.Rate == 0 {
		t.Rate = of.Rate
	}
	return t, t.VCPU > 0 && t.MemoryMiB > 0 && t.Bandwidth > 0
}

// step returns a row of a family's table of networks.
func step(t market.InstanceType) (of market.InstanceType) {
	family, _, gce := strings.Cut(t.Name, "-")
	if !gce {
		return of
	}
	for _, s := range steps[family] {
		if t.VCPU >= s.vcpu {
			of.Bandwidth = float64(s.gigabits) * 1000 * megabit
		}
	}
	return of
}

// usual are the families and sizes of EC2 to propose when a small machine is wanted: sold in every region, with
// increasing memory for their price.
var usual = map[string][]string{
	market.ArchX86: {"t3.micro", "t3.small", "t3.medium", "t3.large", "m5.large", "m5.xlarge", "m5.2xlarge", "r5.large", "r5.xlarge", "r5.2xlarge", "r5.4xlarge"},
	market.ArchARM: {"t4g.micro", "t4g.small", "t4g.medium", "t4g.large", "m6g.large", "m6g.xlarge", "m6g.2xlarge", "r6g.large", "r6g.xlarge", "r6g.2xlarge", "r6g.4xlarge"},
}

// ReliableTypes returns EC2 types of some architectures that may serve as reliable machines, for callers that query
// each price.
func ReliableTypes(archs ...string) (names []string) {
	for _, arch := range archs {
		for _, name := range usual[arch] {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}
