package planner

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tierml/tierml/config"
)

// assumeType names the machine of a job that names none: the type on sale that costs least on demand, of those that are large enough
// for most programs where there are some.
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
	least := slices.MinFunc(enough, func(a, b Offer) int {
		return cmp.Or(cmp.Compare(a.Type.OnDemand, b.Type.OnDemand), cmp.Compare(a.Type.Name, b.Type.Name))
	}).Type
	job.Resources.AnyOf = []config.Machine{{Type: least.Name}}
	job.Assume("resources.any_of", fmt.Sprintf("resources.type: %s, the smallest on sale", least.Name))
}
