package shapes

import (
	"testing"

	"github.com/tierml/tierml/market"
)

// Figures from Amazon's and Google's documentation.
func TestComplete(t *testing.T) {
	for _, c := range []struct {
		name string
		has  market.InstanceType // given by the catalog
		want market.InstanceType
	}{
		{"m5.large", market.InstanceType{}, market.InstanceType{VCPU: 2, MemoryMiB: 8192, Bandwidth: 750 * megabit}},
		{"t3.micro", market.InstanceType{}, market.InstanceType{VCPU: 2, MemoryMiB: 1024, Bandwidth: 64 * megabit, Rate: 0.2}},
		{"t4g.large", market.InstanceType{}, market.InstanceType{VCPU: 2, MemoryMiB: 8192, Bandwidth: 512 * megabit, Rate: 0.6}},
		{"t2.small", market.InstanceType{Rate: 3}, market.InstanceType{VCPU: 1, MemoryMiB: 2048, Bandwidth: 128 * megabit, Rate: 3}},
		{"c3.8xlarge", market.InstanceType{Bandwidth: 7}, market.InstanceType{VCPU: 32, MemoryMiB: 61440, Bandwidth: 7}},
		{"e2-micro", market.InstanceType{}, market.InstanceType{VCPU: 2, MemoryMiB: 1024, Bandwidth: 1000 * megabit, Rate: 0.25}},
		{"n1-standard-8", market.InstanceType{VCPU: 8, MemoryMiB: 30720}, market.InstanceType{VCPU: 8, MemoryMiB: 30720, Bandwidth: 16000 * megabit}},
	} {
		c.has.Name, c.want.Name = c.name, c.name
		if got, known := Complete(c.has); !known || got != c.want {
			t.Errorf("%+v, known %v; want %+v", got, known, c.want)
		}
	}
	for _, name := range []string{"g2.8xlarge", "x9.huge", "n9-standard-8", "cg1.4xlarge"} {
		if got, known := Complete(market.InstanceType{Name: name, VCPU: 8, MemoryMiB: 1 << 14}); known {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The table has every type that can be proposed, with all the facts that are looked up.
func TestTable(t *testing.T) {
	types, err := read(ec2)
	if err != nil || len(types) < 1000 {
		t.Fatalf("%d types, %v", len(types), err)
	}
	for name, s := range types {
		if s.VCPU < 1 || s.MemoryMiB < 1 || s.Bandwidth <= 0 || s.Arch != market.ArchX86 && s.Arch != market.ArchARM {
			t.Errorf("%s: %+v", name, s)
		}
	}
	for _, arch := range []string{market.ArchX86, market.ArchARM} {
		for _, name := range ReliableTypes(arch) {
			if types[name].Arch != arch {
				t.Errorf("%s is proposed for %s: %+v", name, arch, types[name])
			}
		}
	}
	if n := len(ReliableTypes(market.ArchX86, market.ArchARM)); n != 22 {
		t.Errorf("%d types are proposed", n)
	}
	if _, err := read("type,vcpu,memory_mib,arch,network_mbps\nm5.large,two,8192,x86_64,750\n"); err == nil {
		t.Error("two vCPUs, in words")
	}
}

// GPUs of EC2's and Compute Engine's types, from their documentation.
func TestGPUOf(t *testing.T) {
	for name, want := range map[string]market.GPU{
		"p3.8xlarge": {Name: "V100", Count: 4, MemoryMiB: 16384}, "p2.xlarge": {Name: "K80", Count: 1, MemoryMiB: 12288}, "g6e.48xlarge": {Name: "L40S", Count: 8, MemoryMiB: 45776},
		"p4de.24xlarge": {Name: "A100", Count: 8, MemoryMiB: 81920}, "g7e.2xlarge": {Name: "RTX-PRO-6000", Count: 1, MemoryMiB: 98304},
		"g2-standard-24": {Name: "L4", Count: 2, MemoryMiB: 22888}, "a2-megagpu-16g": {Name: "A100", Count: 16, MemoryMiB: 40960}, "a3-highgpu-8g": {Name: "H100", Count: 8, MemoryMiB: 81920},
		"c5.xlarge": {}, "g4ad.xlarge": {}, "g6f.large": {}, "g2-standard-5": {}, "a2-highgpu-xg": {}, "n1-standard-8": {},
	} {
		if got := GPUOf(name); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	types, err := readGPUs(gpusOfEC2)
	if err != nil || len(types) < 50 {
		t.Fatalf("%d types, %v", len(types), err)
	}
	for name, g := range types {
		if g.Count < 1 || g.MemoryMiB < 1024 || g.Name == "" {
			t.Errorf("%s: %+v", name, g)
		}
	}
	for _, bad := range []string{"type,gpu,count,memory_mib\np3.2xlarge,V100,one,16384\n", "type,gpu,count,memory_mib\np3.2xlarge,V100,1,much\n"} {
		if _, err := readGPUs(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	if got := Accelerators("nvidia-a100-80gb", 2); got != (market.GPU{Name: "A100", Count: 2, MemoryMiB: 81920}) {
		t.Errorf("%+v", got)
	}
	if got := Accelerators("nvidia-next", 2); got != (market.GPU{}) {
		t.Errorf("%+v", got)
	}
}
