package ec2

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/advisor"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/planner/pricelist"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/ec2/api"
)

// This file queries what EC2 publishes about capacity: priors for the policies until a job has its own observations. All of it is optional:
// whatever could not be queried is unknown, and the plan's sources say so.

// adviceTime is how long to wait for the Spot Instance Advisor: plans can do without.
const adviceTime = 10 * time.Second

// advised adds the Spot Instance Advisor's bands, from the job's own file or from the Advisor's page.
func advised(ctx context.Context, m *local.Market, job *config.Job, folder string) error {
	var err error
	switch {
	case blockOf(job).Advisor != "":
		if m.Advice, m.AdvisedAt, err = local.ReadAdvice(blockOf(job).Advisor); err != nil {
			return job.Fault("ec2.advisor", fmt.Sprintf("%s: %v", blockOf(job).Advisor, err), "name the Spot Instance Advisor's spot-advisor-data.json, or leave it out")
		}
		m.Sources = append(m.Sources, fmt.Sprintf("Interruptions: Spot Instance Advisor, by %s of %s.", blockOf(job).Advisor, m.AdvisedAt.Format("2006-01-02")))
	case blockOf(job).Endpoint != "":
	default:
		client := &http.Client{Timeout: adviceTime}
		defer client.CloseIdleConnections()
		takeAdvice(m, func() (*advisor.Table, time.Time, error) {
			return pricelist.Advice(ctx, client, pricelist.AdvisorAddress, folder, job.Local.Start)
		})
	}
	return nil
}

func takeAdvice(m *local.Market, ask func() (*advisor.Table, time.Time, error)) {
	table, at, err := ask()
	if err != nil {
		m.Sources = append(m.Sources, "Interruptions: unknown; "+providers.FirstLine(err)+".")
		return
	}
	m.Advice, m.AdvisedAt = table, at
	m.Sources = append(m.Sources, "Interruptions: Spot Instance Advisor, asked "+at.Format("2006-01-02 15:04 UTC")+"; of types, not of zones.")
}

// placed asks EC2 for the zones' ids and for how likely each zone can meet a request for all of the job's machines.
func placed(ctx context.Context, m *local.Market, job *config.Job, account marketAPI) {
	zones, err := account.Zones(ctx)
	if err != nil {
		m.Sources = append(m.Sources, "Ids of zones: unknown; "+providers.FirstLine(err)+".")
		return
	}
	m.ZoneIDs = map[string]string{}
	for _, z := range zones {
		m.ZoneIDs[z.Name] = z.ID
	}
	names, machines := providers.WantedTypes(m, job)
	zones, all, err := account.PlacementScores(ctx, machines, names...)
	if err != nil { // EC2 answers only a few such queries a day, and old roles may not make them
		m.Sources = append(m.Sources, "Placement scores: unknown; "+providers.FirstLine(err)+".")
		return
	}
	var told []string
	for _, z := range zones {
		if z.Score > 0 {
			told = append(told, fmt.Sprintf("%s (%s) %d", z.Name, z.ID, z.Score))
		}
	}
	if len(told) == 0 {
		return
	}
	text := fmt.Sprintf("Placement scores of %d machines, 10 = highly likely to be had: EC2, asked now: %s", machines, strings.Join(told, ", "))
	if !all {
		m.Sources = append(m.Sources, text+". Nothing is decided by them: they are low where fewer than three types are asked for.")
		return
	}
	m.Sources = append(m.Sources, text+".")
	m.Told = map[market.Pool]bidding.Hints{}
	for _, on := range m.Trace.Markets {
		if i := slices.IndexFunc(zones, func(z api.Zone) bool { return z.Name == on.Pool.Zone && z.Score > 0 }); i >= 0 {
			m.Told[on.Pool] = bidding.Hints{Placement: bidding.Hint{Value: float64(zones[i].Score), At: job.Local.Start}}
		}
	}
}

// quotaNeed is the maximum number of vCPUs that a job uses of a quota.
type quotaNeed struct {
	code, what string
	wanted     float64
}

// quotaNeeds returns the quotas that a job's types count against, sorted by code.
func quotaNeeds(job *config.Job, types []market.InstanceType) []quotaNeed {
	largest, needs := map[api.QuotaCodes]int{}, map[string]quotaNeed{}
	for _, t := range types {
		if codes, known := api.QuotasOf(t.Name); known && doctor.Buys(job, t) {
			largest[codes] = max(largest[codes], t.VCPU)
		}
	}
	add := func(code, what string, wanted float64) {
		needs[code] = quotaNeed{code, what, needs[code].wanted + wanted}
	}
	for codes, vcpu := range largest {
		wanted := float64(job.Resources.VCPU)
		if job.Resources.Count.Most > 0 {
			wanted = float64(job.Resources.Count.Most * vcpu)
		}
		if job.Policy == (bidding.OnDemand{}).Name() && job.IsProgram() {
			add(codes.OnDemand, "on-demand", wanted)
			continue
		}
		add(codes.Spot, "spot", wanted)
		if job.Reliable.Type == "" {
			add(codes.OnDemand, "on-demand", float64(job.Reliable.Count*vcpu))
		}
	}
	for _, t := range types {
		if codes, known := api.QuotasOf(t.Name); known && t.Name == job.Reliable.Type {
			add(codes.OnDemand, "on-demand", float64(job.Reliable.Count*t.VCPU))
			break
		}
	}
	return slices.SortedFunc(maps.Values(needs), func(a, b quotaNeed) int { return strings.Compare(a.code, b.code) })
}

// warnOfQuotas warns if the account's quotas are below what the job may want. Service Quotas does not report how much of a quota is in use.
func warnOfQuotas(ctx context.Context, m *local.Market, job *config.Job, account marketAPI) {
	var types []market.InstanceType
	for _, t := range m.Catalog.Types(blockOf(job).Region) {
		if t.Name == job.Reliable.Type || doctor.Buys(job, t) {
			types = append(types, t)
		}
	}
	for _, q := range quotaNeeds(job, types) {
		limit, err := account.Quota(ctx, blockOf(job).Endpoint, q.code)
		if err == nil && q.wanted > limit {
			m.Warnings = append(m.Warnings, fmt.Sprintf("the job may want %.0f %s vCPUs, and the account's quota %s in %s is %.0f: ask for more with "+
				"`aws service-quotas request-service-quota-increase --service-code ec2 --quota-code %s --desired-value %.0f`",
				q.wanted, q.what, q.code, blockOf(job).Region, limit, q.code, q.wanted))
		}
	}
}
