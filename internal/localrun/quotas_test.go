package localrun

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/internal/planner/local"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/ec2"
)

func (a *amazon) Quota(_ context.Context, _, code string) (float64, error) {
	limit, told := a.quotas[code]
	if !told {
		return 0, errors.New("not allowed")
	}
	return limit, nil
}

func (a account) Quotas(context.Context) ([]provisioner.Quota, error) {
	if a.quotas == nil {
		return nil, errors.New("not allowed")
	}
	return a.quotas, nil
}

// A plan warns of a quota that is below what the job may want, with the figures and the way to more; of none that is not told.
func TestLimits(t *testing.T) {
	sells := func(provider, region, kind string) *local.Market {
		pool := market.Pool{Provider: provider, Region: region, Zone: region + "a", Type: kind, Class: market.Spot}
		return &local.Market{Catalog: market.NewCatalog(region, []market.InstanceType{{Name: kind, VCPU: 4, MemoryMiB: 8192, OnDemand: market.Dollar}}),
			Trace: &trace.Trace{Markets: trace.Of(map[market.Pool][]market.PricePoint{pool: {{At: time.Unix(0, 0), Price: market.Dollar / 5}}})}}
	}
	for name, c := range map[string]struct {
		kind   string
		want   config.Resources
		quotas map[string]float64
		words  []string
	}{
		"enough":   {"c5.xlarge", config.Resources{Count: 8}, map[string]float64{ec2.QuotaSpotVCPUs: 32, ec2.QuotaOnDemandVCPUs: 4}, nil},
		"spot":     {"c5.xlarge", config.Resources{Count: 8}, map[string]float64{ec2.QuotaSpotVCPUs: 31}, []string{"32 spot vCPUs, and the account's quota L-34B43A08 in us-west-2 is 31", "--desired-value 32"}},
		"reliable": {"c5.xlarge", config.Resources{Count: 1}, map[string]float64{ec2.QuotaOnDemandVCPUs: 0}, []string{"4 on-demand vCPUs"}},
		"vCPUs":    {"c5.xlarge", config.Resources{VCPU: 64}, map[string]float64{ec2.QuotaSpotVCPUs: 63}, []string{"64 spot vCPUs"}},
		"others":   {"p4d.24xlarge", config.Resources{Count: 8}, map[string]float64{ec2.QuotaSpotVCPUs: 0}, nil},
		"not told": {"c5.xlarge", config.Resources{Count: 8}, nil, nil},
	} {
		c.want.AnyOf = []config.Machine{{Type: c.kind}}
		m, job := sells("ec2", "us-west-2", c.kind), &config.Job{EC2: config.EC2{Region: "us-west-2"}, Resources: c.want, Reliable: config.Reliable{Count: 1}}
		ec2Limits(t.Context(), m, job, &amazon{quotas: c.quotas})
		if text := strings.Join(m.Warnings, "\n"); len(m.Warnings) != min(len(c.words), 1) || len(c.words) > 0 && !strings.Contains(text, c.words[0]) ||
			len(c.words) > 1 && !strings.Contains(text, c.words[1]) {
			t.Errorf("%s: %q, want %q", name, m.Warnings, c.words)
		}
	}
	for name, c := range map[string]struct {
		quotas []provisioner.Quota
		words  string
	}{
		"enough":   {[]provisioner.Quota{{Name: "CPUS", Limit: 24}, {Name: "PREEMPTIBLE_CPUS", Limit: 32}}, ""},
		"in use":   {[]provisioner.Quota{{Name: "CPUS", Limit: 24}, {Name: "PREEMPTIBLE_CPUS", Limit: 40, Used: 20}}, "32 vCPUs of the quota PREEMPTIBLE_CPUS in us-central1, and 20 of its 40 are free"},
		"shared":   {[]provisioner.Quota{{Name: "CPUS", Limit: 24}}, "36 vCPUs of the quota CPUS in us-central1, and 24 of its 24 are free"},
		"not told": {nil, ""},
	} {
		m := sells("gce", "us-central1", "n2-standard-4")
		job := &config.Job{GCE: config.GCE{Region: "us-central1"}, Resources: config.Resources{Count: 8, AnyOf: []config.Machine{{Type: "n2-standard-4"}}}, Reliable: config.Reliable{Count: 1}}
		gceLimits(t.Context(), m, job, account{quotas: c.quotas})
		if text := strings.Join(m.Warnings, "\n"); (text == "") != (c.words == "") || !strings.Contains(text, c.words) {
			t.Errorf("%s: %q, want %q", name, text, c.words)
		}
	}
}
