package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/market"
)

func TestParseGPU(t *testing.T) {
	for text, want := range map[string]struct {
		gpu     GPU
		written string
	}{
		"L40S": {GPU{Model: "L40S", Count: 1}, "L40S:1"}, "l40s:4": {GPU{Model: "L40S", Count: 4}, "L40S:4"},
		"A100:80GB:8+": {GPU{Model: "A100", GB: 80, Count: 8, OrMore: true}, "A100:80GB:8+"}, "A100-80GB:8": {GPU{Model: "A100", GB: 80, Count: 8}, "A100:80GB:8"},
		"24GB": {GPU{GB: 24, Count: 1}, "24GB:1"}, "24 GiB:2": {GPU{GB: 24, Count: 2}, "24GB:2"}, "2": {GPU{Count: 2}, "2"}, "nvidia-tesla-v100": {GPU{Model: "V100", Count: 1}, "V100:1"},
		"RTX PRO 6000": {GPU{Model: "RTX-PRO-6000", Count: 1}, "RTX-PRO-6000:1"}, "0.5TB:1": {GPU{GB: 500, Count: 1}, "500GB:1"},
	} {
		got, m := parseGPU(text)
		if m != nil || got != want.gpu || got.String() != want.written {
			t.Errorf("%q: %+v (%s), %v; want %+v", text, got, got, m, want)
		}
		if again, m := parseGPU(got.String()); m != nil || again != got {
			t.Errorf("%s reads back as %+v, %v", got, again, m)
		}
	}
	for text, words := range map[string]string{
		"L40X:1": "did you mean L40S? There is A100", "TPU-v5:4": "there is A100", "L40S:0": "not a number of GPUs", "L40S:A10G": "does not name GPUs", "": "does not name GPUs",
		"L4:24GB:48GB": "does not name GPUs", "1:2": "does not name GPUs", "L4:99999": "not a number of GPUs",
	} {
		if got, m := parseGPU(text); m == nil || !strings.Contains(m.problem+"; "+m.instead, words) {
			t.Errorf("%q: %+v, %+v; want %q", text, got, m, words)
		}
	}
}

// What vendors call 24 GB is 22888 MiB on an L4, and 24 x 1024 on others.
func TestGPUAdmits(t *testing.T) {
	l4 := market.GPU{Name: "L4", Count: 1, MemoryMiB: 22888}
	for text, want := range map[string]bool{"L4": true, "24GB": true, "24GiB:1": true, "25GB": false, "L4:2": false, "L4:1+": true, "1": true, "A10G": false, "1+": true, "2+": false} {
		if g, _ := parseGPU(text); g.Admits(l4) != want {
			t.Errorf("%s admits %s: %v", text, l4, !want)
		}
	}
	if (GPU{}).Admits(market.GPU{}) != true || (GPU{Count: 1}).Admits(market.GPU{}) {
		t.Error("a machine without GPUs")
	}
}

// loadGPU loads a job with some resources.
func loadGPU(t *testing.T, resources, work string) (*Job, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.yaml")
	for name, text := range map[string]string{"p.csv": "", "c.csv": "", "r.csv": "",
		"job.yaml": "name: x\ncloud: local\nresources: " + resources + "\n" + work + "\nlocal: {prices: p.csv, catalog: c.csv, start: 2014-04-01T00:00:00Z}\n"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Load(path)
}

// resources.gpu is short for entries of any_of, also in a run's copy of its job.
func TestGPUShorthand(t *testing.T) {
	for _, resources := range []string{"{count: 2, gpu: L40S:1}", "{count: 2, gpu: [L40S:1]}", "{count: 2, any_of: [{gpu: L40S:1}]}"} {
		job, err := loadGPU(t, resources, "run: nvidia-smi")
		if err != nil {
			t.Errorf("%s: %v", resources, err)
			continue
		}
		if any := job.Resources.AnyOf; len(any) != 1 || any[0] != (Machine{GPU: GPU{Model: "L40S", Count: 1}}) || !job.WantsGPUs() || len(job.Resources.GPU) != 0 {
			t.Errorf("%s: %+v", resources, any)
		}
		if text := string(job.Resolved()); !strings.Contains(text, "gpu: L40S:1") {
			t.Errorf("%s resolves to\n%s", resources, text)
		}
	}
}

// A number of machines may be a range, for programs.
func TestRangeOfMachines(t *testing.T) {
	for text, want := range map[string]Machines{"4": {4, 4}, "1..4": {1, 4}, "2..2": {2, 2}} {
		job, err := loadGPU(t, "{count: "+text+", any_of: [{type: c3.xlarge}]}", "run: ls")
		if err != nil || job.Resources.Count != want {
			t.Errorf("%s: %+v, %v", text, job, err)
			continue
		}
		if again, m := parseMachines(want.String()); m != nil || again != want {
			t.Errorf("%s is written %s", text, want)
		}
	}
	for text, words := range map[string]string{"4..1": "smaller number first", "0..3": "smaller number first", "1...4": "nor a range", "1..": "nor a range", "few": "not a whole number", "1..100001": "too large"} {
		if _, err := loadGPU(t, "{count: "+text+", any_of: [{type: c3.xlarge}]}", "run: ls"); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want %q", text, err, words)
		}
	}
	if _, err := loadGPU(t, "{count: 1..4, any_of: [{type: c3.xlarge}]}", "train: {app: mf, data: r.csv, clocks: 1}\nweight: 0"); err == nil || strings.Contains(err.Error(), "count") ||
		!strings.Contains(err.Error(), "weight") {
		t.Errorf("a range of workers, and a weight of nothing: %v", err)
	}
}

func TestGPURefusals(t *testing.T) {
	const run, train = "run: nvidia-smi", "train: {app: mf, data: r.csv, clocks: 1}"
	for _, c := range []struct{ resources, work, words string }{
		{"{count: 1, gpu: L40S:1}", train, "the built-in applications do not use"},
		{"{count: 1, gpu: L40S:1, any_of: [{type: c3.xlarge}]}", run, "gpu and any_of are both given"},
		{"{count: 1, any_of: [{gpu: L40S:1}, {cpus: 4}]}", run, "any_of[1]: asks for no GPU"},
		{"{count: 1, any_of: [{gpu: L40S:1, type: g6e.xlarge}]}", run, "has a type and a need"},
		{"{count: 1, gpu: {L40S: 1}}", run, "write gpu: [L40S:1, A10G:1]"},
		{"{count: 1, gpu: [L40S:1, A10F:1]}", run, "did you mean A100?"},
		{"{count: 1, gpu: L40S:1, accelerators: A10G:1}", run, "write gpu: L40S:1, below resources"},
		{"{count: 1, any_of: [{type: c3.xlarge}]}", run + "\ngpu: L40S:1", "there is resources.gpu"},
	} {
		if _, err := loadGPU(t, c.resources, c.work); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %q", c.resources, err, c.words)
		}
	}
}
