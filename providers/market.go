package providers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/planner/pricelist"
	"github.com/tierml/tierml/provisioner"
)

// This file has what the markets of all providers share.

func denied(err error) bool { return errors.Is(err, provisioner.ErrDenied) }

// ReadCatalog reads the job's own catalog of types.
func ReadCatalog(m *local.Market, job *config.Job) (err error) {
	at := job.Installation()
	if m.Catalog, err = local.ReadCatalog(at.Catalog); err != nil {
		return job.Fault(at.Block+".catalog", fmt.Sprintf("%s: %v", at.Catalog, err),
			"name a CSV file with the columns region, instance_type, vcpu, memory_gib, linux_ondemand_usd_hour, or leave it out: the provider's price list is asked then")
	}
	source := "On-demand prices: " + at.Catalog
	if info, err := os.Stat(at.Catalog); err == nil {
		source += ", a file of " + info.ModTime().UTC().Format("2006-01-02")
	}
	m.Sources = append(m.Sources, source+".")
	return nil
}

// AskCatalog reads types from a price list; unpriced returns the problem and the remedy if a type that the job names is missing.
func AskCatalog(ctx context.Context, m *local.Market, job *config.Job, names []string, book *pricelist.Book, unpriced func(kind string) (problem, instead string)) (*pricelist.Answer, error) {
	catalog := "give on-demand prices with " + job.Cloud + ".catalog: a CSV file with the columns region, instance_type, vcpu, memory_gib, linux_ondemand_usd_hour"
	answer, err := book.Look(ctx, names, job.Local.Start)
	if err != nil {
		return nil, fmt.Errorf("%w\nOr %s", err, catalog)
	}
	m.Catalog = answer.Catalog()
	for _, kind := range append(NamedTypes(job), job.Reliable.Type) {
		if _, priced := m.Catalog.Lookup(book.Region, kind); kind != "" && !priced {
			problem, instead := unpriced(kind)
			return nil, job.Fault("resources.any_of", problem, instead+", or "+catalog)
		}
	}
	m.Sources = append(m.Sources, "On-demand prices: "+answer.Source(job.Local.Start)+".")
	if answer.Lost != nil {
		m.Sources = append(m.Sources, "They will be asked for again next time: "+answer.Lost.Error()+".")
	}
	return answer, nil
}

// NamedTypes returns the types that a job names.
func NamedTypes(job *config.Job) (names []string) {
	for _, m := range job.Resources.AnyOf {
		if m.Type != "" {
			names = append(names, m.Type)
		}
	}
	return names
}

// WantedTypes returns the types that a job may buy on a market, and how many machines it wants: if it wants vCPUs, of the largest type.
func WantedTypes(m *local.Market, job *config.Job) (names []string, machines int) {
	largest := 1
	offers, _ := m.Offers()
	for _, o := range offers {
		if !slices.ContainsFunc(job.Resources.AnyOf, func(want config.Machine) bool { return planner.Admits(want, o.Type) }) {
			continue
		}
		names, largest = append(names, o.Type.Name), max(largest, o.Type.VCPU)
	}
	slices.Sort(names)
	if machines = job.Resources.Count.Most; machines == 0 {
		machines = (job.Resources.VCPU + largest - 1) / largest
	}
	return slices.Compact(names), max(machines, 1)
}

// WantedVCPUs returns the most vCPUs that a job uses, on spot and on demand. A run treats an exhausted quota as a lack of capacity and
// continues with fewer machines; a plan warns of it. tierml doctor reports missing rights to read quotas; plans do not.
func WantedVCPUs(m *local.Market, job *config.Job, region string) (spot, onDemand float64) {
	_, machines := WantedTypes(m, job)
	largest := 0
	for _, t := range m.Catalog.Types(region) {
		for _, want := range job.Resources.AnyOf {
			if planner.Admits(want, t) {
				largest = max(largest, t.VCPU)
			}
		}
	}
	spot = float64(job.Resources.VCPU)
	if job.Resources.Count.Most > 0 {
		spot = float64(machines * largest)
	}
	if t, ok := m.Catalog.Lookup(region, job.Reliable.Type); ok {
		largest = t.VCPU
	}
	return spot, float64(job.Reliable.Count * largest)
}

// NotCounted lists costs that plans and reports omit. The controller's own machine, if any, also serves other runs: its price is included
// if the catalog has it.
func NotCounted(m *local.Market, job *config.Job) string {
	controller := "the controller's own machine"
	if at := job.Installation(); at != nil && m.Catalog != nil {
		if t, known := m.Catalog.Lookup(at.Region, at.Controller.Type); known && t.OnDemand > 0 {
			controller += fmt.Sprintf(" (of `tierml server start`: %s, $%s an hour and its disk)", t.Name, t.OnDemand)
		}
	}
	return "Not counted: traffic between zones of programs, NAT, object storage, " + controller + ", taxes, support, credits."
}

// FirstLine returns the first line of an error, for a plan's sources.
func FirstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// OtherRegion returns a note that disk prices of the region are unknown; empty if they are known.
func OtherRegion(region string, known ...string) string {
	if slices.Contains(known, region) {
		return ""
	}
	return ", as those of " + region + " are not known"
}
