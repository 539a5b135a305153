package planner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
)

// programJob loads a job that runs a program on some resources.
func programJob(t *testing.T, resources string) *config.Job {
	t.Helper()
	dir := t.TempDir()
	text := fmt.Sprintf("name: demo\ncloud: local\nresources: %s\nrun: nvidia-smi\nlocal: {prices: p.csv, catalog: c.csv, start: 2014-04-01T00:00:00Z}\n", resources)
	for name, text := range map[string]string{"p.csv": "", "c.csv": "", "job.yaml": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := config.Load(filepath.Join(dir, "job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// Machines with the requested GPUs are bought, and their work counts by GPUs, however many vCPUs they have, unless a rate says otherwise.
func TestGPUsAreResolved(t *testing.T) {
	of := func(name string, vcpu int, gpu market.GPU) Offer {
		return Offer{Pool: pool(name), Type: market.InstanceType{Name: name, VCPU: vcpu, MemoryMiB: 61 << 10, OnDemand: market.Dollar, GPU: gpu}, History: market.Constant(market.Dollar / 3)}
	}
	all := []Offer{of("p3.2xlarge", 8, market.GPU{Name: "V100", Count: 1, MemoryMiB: 16384}), of("p3.8xlarge", 32, market.GPU{Name: "V100", Count: 4, MemoryMiB: 16384}),
		of("p2.xlarge", 4, market.GPU{Name: "K80", Count: 1, MemoryMiB: 12288}), of("c5.9xlarge", 36, market.GPU{})}
	for _, c := range []struct{ resources, want string }{
		{"{count: 1, gpu: V100:1}", "p3.2xlarge 1"}, {"{count: 1, gpu: V100:1+}", "p3.2xlarge 1 p3.8xlarge 4"}, {"{count: 1, gpu: [V100:1, K80:1]}", "p2.xlarge 1 p3.2xlarge 1"},
		{"{count: 1, gpu: 16GB:1}", "p3.2xlarge 1"}, {"{count: 1, any_of: [{gpu: V100:1}, {gpu: K80:1, rate: 0.2}]}", "p2.xlarge 0.2 p3.2xlarge 1"},
		{"{count: 1, any_of: [{gpu: V100:1+, cpus: 16+}]}", "p3.8xlarge 4"}, {"{count: 1, any_of: [{gpu: K80:1}, {type: p3.2xlarge}]}", "p2.xlarge 1 p3.2xlarge 1"},
		{"{count: 1, gpu: L40S:1}", "no machine on sale has gpu: L40S:1 and meets the rest of this need (4 types in us-west-1a were looked at); on sale with GPUs are " +
			"p2.xlarge (K80:1, 12 GB each), p3.2xlarge (V100:1, 16 GB each), p3.8xlarge (V100:4, 16 GB each)"},
		{"{count: 1, any_of: [{gpu: V100:1}, {type: c5.9xlarge}]}", "c5.9xlarge has no GPU that is known"},
	} {
		got, err := Resolve(programJob(t, c.resources), all, catalog(t))
		var text []string
		for _, p := range got.Pools {
			if !p.OnDemand() {
				text = append(text, fmt.Sprint(p.Type.Name, " ", p.Type.WorkRate()))
			}
		}
		if err != nil {
			text = []string{err.Error()}
		}
		if said := strings.Join(text, " "); err == nil && said != c.want || !strings.Contains(said, c.want) {
			t.Errorf("%s: %s, want %s", c.resources, said, c.want)
		}
	}
	if _, err := Resolve(programJob(t, "{count: 1, gpu: L40S:1}"), all[3:], catalog(t)); err == nil || !strings.Contains(err.Error(), "none of them has a GPU that is known") {
		t.Error(err)
	}
}
