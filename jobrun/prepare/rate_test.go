package prepare

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
)

// The default rate suits jobs of a minute; with more work, the run of a real data file would last for weeks of the market.
func TestRateSuitsTheWork(t *testing.T) {
	small := bidding.Candidate{Type: market.InstanceType{Name: "small", VCPU: 4}}
	large := bidding.Candidate{Type: market.InstanceType{Name: "large", VCPU: 16}}
	for _, c := range []struct {
		line string
		want bidding.Want
		work float64
		rate config.Rate
	}{
		{"", bidding.Want{Machines: 1}, 1e8, 400_000},
		{"", bidding.Want{Machines: 1}, 4e9, 10e6},
		{"", bidding.Want{Machines: 2}, 4e9, 5e6},
		{"", bidding.Want{VCPU: 64}, 2e9, 400_000},
		{"", bidding.Want{VCPU: 64}, 6e9, 940_000},
		{"", bidding.Want{Machines: 1}, 1e15, 100e6}, // what a core achieves
		{"  flops_per_vcpu: 400k\n", bidding.Want{Machines: 1}, 4e9, 400_000},
	} {
		path := filepath.Join(t.TempDir(), "job.yaml")
		text := "name: a\nresources: {count: 1}\ntrain: {app: mf, data: job.yaml}\nlocal:\n  speed: 600\n" + c.line
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		job, err := config.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		assumeRate(job, planner.Resolved{Want: c.want, Pools: []bidding.Candidate{large, small}}, c.work)
		if job.Local.FlopsPerVCPU != c.rate {
			t.Errorf("%+v: %v, want %v", c, job.Local.FlopsPerVCPU, c.rate)
		}
		named := slices.ContainsFunc(job.Assumed(), func(a config.Assumption) bool { return strings.HasPrefix(a.Text, "local.flops_per_vcpu: ") })
		if named != (c.rate != 400_000) {
			t.Errorf("%+v: assumptions %v", c, job.Assumed())
		}
	}
}
