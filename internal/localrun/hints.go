package localrun

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/internal/planner"
	"github.com/tierml/tierml/internal/planner/local"
	"github.com/tierml/tierml/internal/pricelist"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/advisor"
	"github.com/tierml/tierml/provisioner/ec2"
)

// This file asks providers what they tell of capacity: priors of the policies until a job has seen for itself. Nothing of it
// has to be there: what cannot be asked is said among the plan's sources, and unknown.

// adviceTime is how long the Spot Instance Advisor is waited for: plans can do without.
const adviceTime = 10 * time.Second

// advised takes up the Spot Instance Advisor's bands: those of the job's own file, or else of its page.
func advised(ctx context.Context, m *local.Market, job *config.Job, folder string) error {
	var err error
	switch {
	case job.EC2.Advisor != "":
		if m.Advice, m.AdvisedAt, err = local.ReadAdvice(job.EC2.Advisor); err != nil {
			return job.Fault("ec2.advisor", fmt.Sprintf("%s: %v", job.EC2.Advisor, err), "name the Spot Instance Advisor's spot-advisor-data.json, or leave it out")
		}
		m.Sources = append(m.Sources, fmt.Sprintf("Interruptions: Spot Instance Advisor, by %s of %s.", job.EC2.Advisor, m.AdvisedAt.Format("2006-01-02")))
	case job.EC2.Endpoint != "":
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
		m.Sources = append(m.Sources, "Interruptions: unknown; "+firstLine(err)+".")
		return
	}
	m.Advice, m.AdvisedAt = table, at
	m.Sources = append(m.Sources, "Interruptions: Spot Instance Advisor, asked "+at.Format("2006-01-02 15:04 UTC")+"; of types, not of zones.")
}

// placed asks EC2 for the zones' ids and how likely a request for all of the job's machines is to be met in each.
func placed(ctx context.Context, m *local.Market, job *config.Job, account EC2Account) {
	zones, err := account.Zones(ctx)
	if err != nil {
		m.Sources = append(m.Sources, "Ids of zones: unknown; "+firstLine(err)+".")
		return
	}
	m.ZoneIDs = map[string]string{}
	for _, z := range zones {
		m.ZoneIDs[z.Name] = z.ID
	}
	names, machines := wantedTypes(m, job)
	zones, all, err := account.PlacementScores(ctx, machines, names...)
	if err != nil { // EC2 answers some questions a day only, and roles of before may not ask
		m.Sources = append(m.Sources, "Placement scores: unknown; "+firstLine(err)+".")
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
		if i := slices.IndexFunc(zones, func(z ec2.Zone) bool { return z.Name == on.Pool.Zone && z.Score > 0 }); i >= 0 {
			m.Told[on.Pool] = bidding.Hints{Placement: bidding.Hint{Value: float64(zones[i].Score), At: job.Local.Start}}
		}
	}
}

// wantedTypes are the types that a job may buy on a market, and how many machines of them it wants: where it wants vCPUs, of
// the largest.
func wantedTypes(m *local.Market, job *config.Job) (names []string, machines int) {
	largest := 1
	offers, _ := m.Offers()
	for _, o := range offers {
		if !slices.ContainsFunc(job.Resources.AnyOf, func(want config.Machine) bool { return planner.Admits(want, o.Type) }) {
			continue
		}
		names, largest = append(names, o.Type.Name), max(largest, o.Type.VCPU)
	}
	slices.Sort(names)
	if machines = job.Resources.Count; machines == 0 {
		machines = (job.Resources.VCPU + largest - 1) / largest
	}
	return slices.Compact(names), max(machines, 1)
}

// maxAsked is of how many pools Compute Engine is asked, one at a time.
const maxAsked = 24

// forecast asks Compute Engine what would become of a request for all of the job's machines in each pool.
func forecast(ctx context.Context, m *local.Market, job *config.Job, account GCEAccount) {
	names, machines := wantedTypes(m, job)
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
		if err != nil { // the rest would fail alike
			m.Sources = append(m.Sources, "Capacity: unknown; "+firstLine(err)+".")
			return
		}
		if !told {
			continue
		}
		h := bidding.Hints{Placement: bidding.Hint{Value: 10 * a.Obtainability, At: job.Local.Start}}
		if h.Placement.Value == 0 {
			h.Placement.Value = 0.1 // 0 is unknown
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

func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}
