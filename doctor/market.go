package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/planner/local"
)

// Prices checks that the recorded market of a job can be read and covers what the job may buy.
func Prices(job *config.Job, load func(*config.Job) (*local.Market, error)) Check {
	return Check{Name: "prices and catalog", Look: func(context.Context) (string, error) {
		m, err := load(job)
		if err != nil {
			return "", Wrong("docs/prices.md says where to get prices, and what a catalog looks like", "%v", err)
		}
		if err := m.Admit(job); err != nil {
			return "", err
		}
		offers, skipped := m.Offers()
		if len(offers) == 0 {
			return "", Wrong("name prices and a catalog of the same provider and region", "no type that has prices is in the catalog (%d are not)", len(skipped))
		}
		choice, err := planner.Resolve(job, offers, m.Catalog)
		if err != nil {
			return "", Wrong("tierml plan shows what is on sale", "%v", err)
		}
		spot := 0
		for _, c := range choice.Pools {
			if !c.OnDemand() {
				spot++
			}
		}
		return covered(job, offers, spot)
	}}
}

// enoughHistory is how much history before a start estimates need.
const enoughHistory = 7 * 24 * time.Hour

// covered checks whether there are prices at the job's start, and before.
func covered(job *config.Job, offers []planner.Offer, pools int) (string, error) {
	start := job.Local.Start
	known, long := 0, 0
	for _, o := range offers {
		first, some := o.History.First()
		if !some || first.At.After(start) {
			continue
		}
		known++
		if start.Sub(first.At) >= enoughHistory {
			long++
		}
	}
	switch {
	case known == 0:
		return "", Wrong("write a later local.start", "no price is known at the start, %s", start.Format(time.RFC3339))
	case long == 0:
		return "", Warn("write a later local.start, so that a week of prices lies before it", "less than %v of prices before the start: estimates will be vague", enoughHistory)
	}
	who := "the job"
	if job.IsHosts() {
		who = "shared hosts"
	}
	return fmt.Sprintf("pools with prices at the start: %d; %s may buy from %d", known, who, pools), nil
}

// Buys reports whether a job may buy machines of a type.
func Buys(job *config.Job, t market.InstanceType) bool {
	return slices.ContainsFunc(job.Resources.AnyOf, func(m config.Machine) bool { return planner.Admits(m, t) })
}

// Needs returns the maximum number of vCPUs that a job uses, on spot and on demand, according to the catalog.
func Needs(job *config.Job, types map[string]market.InstanceType) (spot, onDemand float64) {
	most := 0
	for _, m := range job.Resources.AnyOf {
		if t, ok := types[m.Type]; ok {
			most = max(most, t.VCPU)
		}
	}
	spot = float64(job.Resources.VCPU)
	if job.Resources.Count.Most > 0 {
		spot = float64(job.Resources.Count.Most * most)
	}
	reliable := most
	if t, ok := types[job.Reliable.Type]; ok {
		reliable = t.VCPU
	}
	return spot, float64(job.Reliable.Count * reliable)
}
