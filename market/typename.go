package market

import (
	"slices"
	"strconv"
	"strings"
)

// otherVCPU are families whose vCPUs do not follow from their size: those from before 2013, when sizes were not yet multiples of each other
// across families, and hpc, which counts cores.
var otherVCPU = []string{"c1", "cc1", "cc2", "cg1", "cr1", "hi1", "hs1", "m1", "m2", "t1"}

// VCPUOf returns the vCPUs of an EC2 type by EC2's naming of sizes: large has 2, xlarge 4, Nxlarge 4 N. It returns 0, unknown, if no such
// rule holds: for bare metal, sizes below large (1 or 2, depending on the family), families from before 2013 and hpc. The 8xlarge of c4 and
// d2 have 36.
func VCPUOf(instanceType string) int {
	family, size, ok := strings.Cut(instanceType, ".")
	if !ok || slices.Contains(otherVCPU, family) || strings.HasPrefix(family, "hpc") || !strings.ContainsAny(family, "123456789") {
		return 0
	}
	if size == "8xlarge" && (family == "c4" || family == "d2") {
		return 36
	}
	switch size {
	case "large":
		return 2
	case "xlarge":
		return 4
	}
	times, ok := strings.CutSuffix(size, "xlarge")
	n, err := strconv.Atoi(times)
	if !ok || err != nil || n < 2 || n > 1000 || strconv.Itoa(n) != times {
		return 0
	}
	return 4 * n
}
