package localrun

import (
	"context"
	"fmt"
	"strings"

	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/internal/planner"
	"github.com/tierml/tierml/internal/planner/local"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/ec2"
)

// This file compares what a job may want with the account's limits. A run meets a limit as a lack of capacity and goes on with
// fewer machines: a plan warns of it. Who may not ask for limits is told so by tierml doctor, not by every plan.

// wantedVCPUs is how many vCPUs a job takes at most, on spot and on demand.
func wantedVCPUs(m *local.Market, job *config.Job, region string) (spot, onDemand float64) {
	_, machines := wantedTypes(m, job)
	largest := 0
	for _, t := range m.Catalog.Types(region) {
		for _, want := range job.Resources.AnyOf {
			if planner.Admits(want, t) {
				largest = max(largest, t.VCPU)
			}
		}
	}
	spot = float64(job.Resources.VCPU)
	if job.Resources.Count > 0 {
		spot = float64(machines * largest)
	}
	if t, ok := m.Catalog.Lookup(region, job.Reliable.Type); ok {
		largest = t.VCPU
	}
	return spot, float64(job.Reliable.Count * largest)
}

// standardFamilies begin the names of the types that EC2's quotas of standard machines are of.
const standardFamilies = "acdhimrtz"

// ec2Limits warns where the account's quotas are below what the job may want. Service Quotas does not tell how much of one is
// in use.
func ec2Limits(ctx context.Context, m *local.Market, job *config.Job, account EC2Account) {
	names, _ := wantedTypes(m, job)
	for _, name := range append(names, job.Reliable.Type) {
		if name != "" && !strings.Contains(standardFamilies, name[:1]) {
			return // other quotas are theirs
		}
	}
	spot, onDemand := wantedVCPUs(m, job, job.EC2.Region)
	for _, q := range []struct {
		code, what string
		wanted     float64
	}{{ec2.QuotaSpotVCPUs, "spot", spot}, {ec2.QuotaOnDemandVCPUs, "on-demand", onDemand}} {
		limit, err := account.Quota(ctx, job.EC2.Endpoint, q.code)
		if err == nil && q.wanted > limit {
			m.Warnings = append(m.Warnings, fmt.Sprintf("the job may want %.0f %s vCPUs, and the account's quota %s in %s is %.0f: ask for more with "+
				"`aws service-quotas request-service-quota-increase --service-code ec2 --quota-code %s --desired-value %.0f`",
				q.wanted, q.what, q.code, job.EC2.Region, limit, q.code, q.wanted))
		}
	}
}

// gceLimits warns where less of the project's quotas is free than the job may want. Spot machines count against
// PREEMPTIBLE_CPUS, and where that is 0 against CPUS.
func gceLimits(ctx context.Context, m *local.Market, job *config.Job, account GCEAccount) {
	quotas, err := account.Quotas(ctx)
	if err != nil {
		return
	}
	limits := map[string]provisioner.Quota{}
	for _, q := range quotas {
		limits[q.Name] = q
	}
	const spotName, name = "PREEMPTIBLE_CPUS", "CPUS"
	spot, onDemand := wantedVCPUs(m, job, job.GCE.Region)
	if limits[spotName].Limit == 0 {
		spot, onDemand = 0, spot+onDemand
	}
	for _, q := range []struct {
		name   string
		wanted float64
	}{{spotName, spot}, {name, onDemand}} {
		limit, told := limits[q.name]
		if free := limit.Limit - limit.Used; told && q.wanted > free {
			m.Warnings = append(m.Warnings, fmt.Sprintf("the job may want %.0f vCPUs of the quota %s in %s, and %.0f of its %.0f are free: ask for more on the console's page Quotas",
				q.wanted, q.name, job.GCE.Region, free, limit.Limit))
		}
	}
}
