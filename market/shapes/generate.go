//go:build ignore

// Generate writes ec2.csv and gpus.csv from moto's copies of EC2's DescribeInstanceTypes: `make shapes`.
//
//	go run generate.go instance_types.json.gz >ec2.csv
//	go run generate.go -gpus instance_types.json.gz older.json >gpus.csv
package main

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

type shape struct {
	VCPU   struct{ DefaultVCpus int }                `json:"VCpuInfo"`
	Memory struct{ SizeInMiB int64 }                 `json:"MemoryInfo"`
	CPU    struct{ SupportedArchitectures []string } `json:"ProcessorInfo"`
	Net    struct {
		Cards []struct {
			Baseline float64 `json:"BaselineBandwidthInGbps"`
		} `json:"NetworkCards"`
	} `json:"NetworkInfo"`
	GPU struct {
		GPUs []struct {
			Name, Manufacturer string
			Count              int
			MemoryInfo         struct{ SizeInMiB int64 }
		} `json:"Gpus"`
	} `json:"GpuInfo"`
	Bare bool `json:"BareMetal"`
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	gpus := flag.Bool("gpus", false, "write the types with GPUs; what a later file has beside the earlier ones is added: retired types")
	flag.Parse()
	shapes := map[string]shape{}
	for _, name := range flag.Args() {
		of, err := read(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for kind, s := range of {
			if _, known := shapes[kind]; !known {
				shapes[kind] = s
			}
		}
	}
	rows, header := sizes(shapes), []string{"type", "vcpu", "memory_mib", "arch", "network_mbps"}
	if *gpus {
		rows, header = graphics(shapes), []string{"type", "gpu", "count", "memory_mib"}
	}
	slices.SortFunc(rows, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	out := csv.NewWriter(os.Stdout)
	if err := out.WriteAll(append([][]string{header}, rows...)); err != nil {
		return err
	}
	return out.Error()
}

func read(name string) (shapes map[string]shape, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var text io.Reader = file
	if strings.HasSuffix(name, ".gz") {
		if text, err = gzip.NewReader(file); err != nil {
			return nil, err
		}
	}
	return shapes, json.NewDecoder(text).Decode(&shapes)
}

// graphics returns the virtual types with whole NVIDIA GPUs.
func graphics(shapes map[string]shape) (rows [][]string) {
	for name, s := range shapes {
		for _, g := range s.GPU.GPUs {
			if g.Manufacturer == "NVIDIA" && g.Count > 0 && !s.Bare {
				rows = append(rows, []string{name, g.Name, strconv.Itoa(g.Count), fmt.Sprint(g.MemoryInfo.SizeInMiB)})
			}
		}
	}
	return rows
}

func sizes(shapes map[string]shape) (rows [][]string) {
	for name, s := range shapes {
		arch := ""
		for _, a := range []string{"x86_64", "arm64"} {
			if arch == "" && slices.Contains(s.CPU.SupportedArchitectures, a) {
				arch = a
			}
		}
		gigabits := 0.0
		for _, card := range s.Net.Cards {
			gigabits += card.Baseline
		}
		if s.Bare || arch == "" || gigabits == 0 || s.VCPU.DefaultVCpus == 0 || s.Memory.SizeInMiB == 0 {
			continue
		}
		rows = append(rows, []string{name, strconv.Itoa(s.VCPU.DefaultVCpus), fmt.Sprint(s.Memory.SizeInMiB), arch, fmt.Sprint(math.Round(gigabits * 1000))})
	}
	return rows
}
