package market

import "testing"

// TestVCPUOf: figures of EC2's pages on instance types and of recorded catalogs that have them.
func TestVCPUOf(t *testing.T) {
	for name, want := range map[string]int{
		"c5.large": 2, "c5.xlarge": 4, "c5d.2xlarge": 8, "c5.9xlarge": 36, "c5.18xlarge": 72, "c5.24xlarge": 96, "m5zn.3xlarge": 12,
		"m6g.16xlarge": 64, "r5n.12xlarge": 48, "t3.large": 2, "t3.2xlarge": 8, "p3.16xlarge": 64, "g4dn.12xlarge": 48,
		"u-6tb1.112xlarge": 448, "x1e.32xlarge": 128, "c7i-flex.8xlarge": 32, "c3.8xlarge": 32, "m4.10xlarge": 40,
		"c4.4xlarge": 16, "c4.8xlarge": 36, "d2.8xlarge": 36,
		"c5.metal": 0, "mac1.metal": 0, "i3.metal": 0, "c6i.metal-24xl": 0, "m6g.medium": 0, "t3.micro": 0, "hpc6a.48xlarge": 0,
		"m2.xlarge": 0, "c1.xlarge": 0, "cg1.4xlarge": 0, "n2-standard-8": 0, "xlarge": 0, "a.xlarge": 0, "c5.": 0, "c5.0xlarge": 0,
		"c5.-2xlarge": 0, "c5.02xlarge": 0, "c5.99999999999999999999xlarge": 0,
	} {
		if got := VCPUOf(name); got != want {
			t.Errorf("%s has %d vCPUs, want %d", name, got, want)
		}
	}
}
