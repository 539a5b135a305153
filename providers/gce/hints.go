package gce

import (
	"context"
	"fmt"
	"slices"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/provisioner"
)

// This file queries what Compute Engine publishes about capacity: priors for the policies until a job has data of its
// own.

// maxAsked is the number of pools about which Compute Engine is queried, one at a time.
const maxAsked = 24

// forecast gets Compute Engine's forecast for a request for all of the job's machines in each pool.
func forecast(ctx context.Context, m *local.Market, job *config.Job, account marketAPI) {
	names, machines := providers.WantedTypes(m, job)
	m.Told = map[market.Pool]bidding.Hints{}
	asked, few := 0, 0
	for _, on := range m.Trace.Markets {
		if !slices.Contains(names, on.Pool.Type) || len(job.Resources.Zones) > 0 && !slices.Contains(job.Resources.Zones, on.Pool.Zone) {
			continue
		}
		if asked++; asked > maxAsked {
			break
		}
		a, told, err := account.CapacityAdvice(ctx, on.Pool, machines)
		if err != nil { // the others would fail the same way
			m.Sources = append(m.Sources, "Capacity: unknown; "+providers.FirstLine(err)+".")
			return
		}
		if !told {
			continue
		}
		h := bidding.Hints{Placement: bidding.Hint{Value: 10 * a.Obtainability, At: job.Local.Start}}
		if h.Placement.Value == 0 {
			h.Placement.Value = 0.1 // 0 means unknown
		}
		if a.Uptime > 0 {
			h.Uptime = bidding.Hint{Value: a.Uptime.Hours(), At: job.Local.Start}
		}
		if a.Obtainability < 0.4 {
			few++
		}
		m.Told[on.Pool] = h
	}
	if len(m.Told) > 0 {
		m.Sources = append(m.Sources, fmt.Sprintf("Capacity for %d machines: Compute Engine, asked now, of %d pools; unlikely to be had in %d.", machines, len(m.Told), few))
	}
}

// warnOfQuotas warns when less of the project's quotas is free than the job may want. Spot machines count against
// PREEMPTIBLE_CPUS, or against CPUS if that is 0.
func warnOfQuotas(ctx context.Context, m *local.Market, job *config.Job, account marketAPI) {
	quotas, err := account.Quotas(ctx)
	if err != nil {
		return
	}
	limits := map[string]provisioner.Quota{}
	for _, q := range quotas {
		limits[q.Name] = q
	}
	const spotName, name = "PREEMPTIBLE_CPUS", "CPUS"
	spot, onDemand := providers.WantedVCPUs(m, job, blockOf(job).Region)
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
				q.wanted, q.name, blockOf(job).Region, free, limit.Limit))
		}
	}
	for _, q := range gpuQuotas(job, m.Catalog.Types(blockOf(job).Region)) {
		limit, told := limits[q.name]
		if free := limit.Limit - limit.Used; told && q.wanted > free {
			m.Warnings = append(m.Warnings, fmt.Sprintf("the job may want %.0f GPUs of the quota %s in %s, and %.0f of its %.0f are free: ask for more on the console's page Quotas",
				q.wanted, q.name, blockOf(job).Region, free, limit.Limit))
		}
	}
}
