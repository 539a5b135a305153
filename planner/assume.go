package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market/shapes"
)

// assumeType chooses the machine of a job that names none: the type on sale that is cheapest on demand, preferably large enough for most
// programs.
func assumeType(job *config.Job, offers []Offer) {
	if !job.AnySize() || len(offers) == 0 || job.Resources.AnyOf[0].Type != "" {
		return
	}
	enough := slices.DeleteFunc(slices.Clone(offers), func(o Offer) bool {
		return !Admits(job.Resources.AnyOf[0], o.Type) || o.Type.OnDemand == 0 || len(job.Resources.Zones) > 0 && !slices.Contains(job.Resources.Zones, o.Pool.Zone)
	})
	if len(enough) == 0 {
		enough = offers
	}
	cores := job.Cores()
	perWork := func(o Offer) float64 { // on demand
		if full, _ := shapes.Complete(o.Type); cores > 0 && full.WorkRate() > 0 {
			return float64(o.Type.OnDemand) / min(full.WorkRate(), cores)
		}
		return float64(o.Type.OnDemand)
	}
	least := slices.MinFunc(enough, func(a, b Offer) int {
		return cmp.Or(cmp.Compare(perWork(a), perWork(b)), cmp.Compare(a.Type.OnDemand, b.Type.OnDemand), cmp.Compare(a.Type.Name, b.Type.Name))
	}).Type
	job.Resources.AnyOf = []config.Machine{{Type: least.Name}}
	why := "the smallest on sale"
	if math.IsInf(cores, 1) {
		why = "where a vCPU costs least on demand, as the last run used all that there were"
	} else if cores > 0 {
		why = fmt.Sprintf("where %.2g cores' worth of work costs least on demand", cores)
	}
	job.Assume("resources.any_of", fmt.Sprintf("resources.type: %s, %s", least.Name, why))
}
