package shapes

import (
	_ "embed"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tierml/tierml/market"
)

// gpusOfEC2 has EC2's virtual types with whole NVIDIA GPUs, from GpuInfo of DescribeInstanceTypes. Made by `make
// shapes` from moto 5 and, for the retired families g3, p2 and p3, moto 4 (Apache-2.0), which keep copies.
//
//go:embed gpus.csv
var gpusOfEC2 string

// words are EC2's names of GPU models that differ from the usual ones.
var words = map[string]string{"RTX PRO Server 6000": "RTX-PRO-6000"}

// attached are Compute Engine's types with built-in GPUs: their number by the type's name, or by its vCPUs. From its documentation, "GPU
// machine types". SkyPilot (sky/catalog/gcp_catalog.py) has the same models and counts for all except G4 and a3-edgegpu, which it lacks;
// its catalog (v8, gcp/vms.csv) has a3-edgegpu and the names in -nolssd. The memory is EC2's figure for the same model.
var attached = []struct {
	prefix string
	each   market.GPU
	byVCPU map[string]int // nil = the name ends in -COUNTg
}{
	{"g2-standard-", market.GPU{Name: "L4", MemoryMiB: 22888}, map[string]int{"4": 1, "8": 1, "12": 1, "16": 1, "24": 2, "32": 1, "48": 4, "96": 8}},
	{"g4-standard-", market.GPU{Name: "RTX-PRO-6000", MemoryMiB: 98304}, map[string]int{"48": 1, "96": 2, "192": 4, "384": 8}},
	{"a2-highgpu-", market.GPU{Name: "A100", MemoryMiB: 40960}, nil},
	{"a2-megagpu-", market.GPU{Name: "A100", MemoryMiB: 40960}, nil},
	{"a2-ultragpu-", market.GPU{Name: "A100", MemoryMiB: 81920}, nil},
	{"a3-highgpu-", market.GPU{Name: "H100", MemoryMiB: 81920}, nil},
	{"a3-megagpu-", market.GPU{Name: "H100", MemoryMiB: 81920}, nil},
	{"a3-edgegpu-", market.GPU{Name: "H100", MemoryMiB: 81920}, nil},
	{"a3-ultragpu-", market.GPU{Name: "H200", MemoryMiB: 144384}, nil},
	{"a4-highgpu-", market.GPU{Name: "B200", MemoryMiB: 183359}, nil},
}

var gpuTable = sync.OnceValue(func() map[string]market.GPU {
	types, err := readGPUs(gpusOfEC2)
	if err != nil {
		panic(err) // an embedded file, which a test reads
	}
	return types
})

func readGPUs(text string) (map[string]market.GPU, error) {
	return readTable(text, func(row []string) (g market.GPU, err error) {
		err = errors.Join(set(&g.Count, row[2], strconv.Atoi), set(&g.MemoryMiB, row[3], parseInt64))
		g.Name = GPUModel(row[1])
		return g, err
	})
}

// GPUOf returns the GPUs of a machine type of EC2 or Compute Engine. Unknown types have none.
func GPUOf(name string) market.GPU {
	if g, known := gpuTable()[name]; known {
		return g
	}
	for _, a := range attached {
		rest, is := strings.CutPrefix(strings.TrimSuffix(name, "-nolssd"), a.prefix)
		if !is {
			continue
		}
		g := a.each
		if a.byVCPU != nil {
			g.Count = a.byVCPU[rest]
		} else if number, gs := strings.CutSuffix(rest, "g"); gs {
			g.Count, _ = strconv.Atoi(number) // another name: no GPUs
		}
		if g.Count > 0 {
			return g
		}
	}
	return market.GPU{}
}

// GPUModel returns the usual name of a model from EC2's name.
func GPUModel(name string) string {
	if word, other := words[name]; other {
		return word
	}
	return strings.ReplaceAll(name, " ", "-")
}

// GPUModels returns the models of all known types, sorted.
var GPUModels = sync.OnceValue(func() (names []string) {
	for _, g := range gpuTable() {
		names = append(names, g.Name)
	}
	for _, a := range attached {
		names = append(names, a.each.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
})

// accelerators are Compute Engine's words for the GPUs of its machine types (its documentation, "GPU machine types"). dstack's gpuhunt
// (src/gpuhunt/providers/gcp.py) has the same models for those of L4, A100 and H100, and no others.
var accelerators = map[string]market.GPU{
	"nvidia-l4": {Name: "L4", MemoryMiB: 22888}, "nvidia-rtx-pro-6000": {Name: "RTX-PRO-6000", MemoryMiB: 98304},
	"nvidia-tesla-a100": {Name: "A100", MemoryMiB: 40960}, "nvidia-a100-80gb": {Name: "A100", MemoryMiB: 81920},
	"nvidia-h100-80gb": {Name: "H100", MemoryMiB: 81920}, "nvidia-h100-mega-80gb": {Name: "H100", MemoryMiB: 81920},
	"nvidia-h200-141gb": {Name: "H200", MemoryMiB: 144384}, "nvidia-b200": {Name: "B200", MemoryMiB: 183359},
}

// Accelerators returns count GPUs by Compute Engine's name; none for an unknown name.
func Accelerators(word string, count int) market.GPU {
	g, known := accelerators[word]
	if !known || count < 1 {
		return market.GPU{}
	}
	g.Count = count
	return g
}
