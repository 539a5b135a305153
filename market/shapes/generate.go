//go:build ignore

// Generate writes ec2.csv from moto's copy of EC2's DescribeInstanceTypes: `make shapes`.
//
//	go run generate.go instance_types.json.gz >ec2.csv
package main

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"os"
	"slices"
	"strconv"
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
	Bare bool `json:"BareMetal"`
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	file, err := os.Open(os.Args[1])
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	var shapes map[string]shape
	if err := json.NewDecoder(text).Decode(&shapes); err != nil {
		return err
	}
	var rows [][]string
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
	slices.SortFunc(rows, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	out := csv.NewWriter(os.Stdout)
	if err := out.WriteAll(append([][]string{{"type", "vcpu", "memory_mib", "arch", "network_mbps"}}, rows...)); err != nil {
		return err
	}
	return out.Error()
}
