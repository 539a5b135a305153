package jobinit

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/look"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
)

// Candidate is a machine type that could be bought.
type Candidate struct {
	Type   market.InstanceType
	Zones  []string   // that sell it
	Price  market.USD // per hour on the spot market, in the cheapest zone; 0 = unknown
	Region string
}

// perVCPU returns the value by which candidates are compared; types without one come last.
func (c Candidate) perVCPU() float64 {
	price := cmp.Or(c.Price, c.Type.OnDemand)
	if c.Type.VCPU == 0 {
		return float64(price) + 1e15
	}
	return float64(price) / float64(c.Type.VCPU)
}

// typesWithPrices returns the types that have prices at a given time, the cheapest per vCPU first.
func typesWithPrices(offers []planner.Offer, at time.Time) []Candidate {
	var all []Candidate
	for _, o := range offers {
		price, known := o.History.At(at)
		if !known || price >= o.Type.OnDemand {
			continue
		}
		i := slices.IndexFunc(all, func(c Candidate) bool { return c.Type.Name == o.Type.Name && c.Region == o.Pool.Region })
		if i < 0 {
			all = append(all, Candidate{Type: o.Type, Price: price, Region: o.Pool.Region})
			i = len(all) - 1
		}
		all[i].Zones = append(all[i].Zones, o.Pool.Zone)
		all[i].Price = min(all[i].Price, price)
	}
	sortCandidates(all)
	return all
}

// typesOfCatalog returns the types that a region sells on demand, for a cloud whose spot prices become known only later.
func typesOfCatalog(catalog *market.Catalog, region string) (all []Candidate) {
	for _, t := range catalog.Types(region) {
		all = append(all, Candidate{Type: t, Region: region})
	}
	sortCandidates(all)
	return all
}

func sortCandidates(all []Candidate) {
	for i := range all {
		slices.Sort(all[i].Zones)
	}
	slices.SortFunc(all, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.perVCPU(), b.perVCPU()), cmp.Compare(a.Type.Name, b.Type.Name), cmp.Compare(a.Region, b.Region))
	})
}

// smallestFirst sorts by price, the cheapest first: nobody knows how many vCPUs a program uses.
func smallestFirst(all []Candidate) {
	slices.SortStableFunc(all, func(a, b Candidate) int { return cmp.Compare(a.Type.OnDemand, b.Type.OnDemand) })
}

// suggested is how many types are proposed: several, so that there is an alternative when one is reclaimed.
const suggested = 3

// suggestTypes returns the types to propose: the cheapest ones in the region of the cheapest, with the zones that sell all.
func suggestTypes(all []Candidate) (types, zones []string) {
	if len(all) == 0 {
		return nil, nil
	}
	for _, c := range all {
		if c.Region != all[0].Region || len(types) == suggested {
			continue
		}
		types = append(types, c.Type.Name)
	}
	return types, zonesOf(all, types)
}

// zonesOf returns the zones of the first region of candidates that sell any of some types.
func zonesOf(all []Candidate, types []string) (zones []string) {
	region := ""
	for _, c := range all {
		if !slices.Contains(types, c.Type.Name) || region != "" && c.Region != region {
			continue
		}
		region = c.Region
		zones = append(zones, c.Zones...)
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}

// vcpusOf returns the vCPUs of count machines of the smallest type, if the types differ in size; 0 = they do not, or the size of one is
// unknown.
func vcpusOf(all []Candidate, types []string, count int) int {
	least, most := 0, 0
	for _, name := range types {
		i := slices.IndexFunc(all, func(c Candidate) bool { return c.Type.Name == name })
		if i < 0 || all[i].Type.VCPU == 0 {
			return 0
		}
		size := all[i].Type.VCPU
		most = max(most, size)
		if least == 0 || size < least {
			least = size
		}
	}
	if least == most {
		return 0
	}
	return count * least
}

// startOf returns a start time in recorded prices: with a month of prices before it, or a third of the recording.
func startOf(offers []planner.Offer) (at time.Time, ok bool) {
	var first, last time.Time
	for _, o := range offers {
		begin, some := o.History.First()
		end, _ := o.History.Last()
		if !some {
			continue
		}
		if first.IsZero() || begin.At.Before(first) {
			first = begin.At
		}
		if end.At.After(last) {
			last = end.At
		}
	}
	if first.IsZero() {
		return at, false
	}
	const month = 30 * 24 * time.Hour
	at = first.Add(min(month, last.Sub(first)/3)).UTC().Truncate(time.Hour).Add(time.Hour)
	return at, true
}

// Propose guesses what to train on a file from its first lines, parsed like the applications do. The target, if it is not empty, is the
// column to predict.
func Propose(path, target string) look.Proposal {
	file, err := os.Open(path)
	if err != nil {
		return look.Proposal{}
	}
	defer file.Close()
	p, err := look.At(apps.Input{Name: path, Data: file}, target)
	if err != nil {
		if why := err.Error(); strings.HasPrefix(why, path+":") {
			return look.Proposal{Why: why}
		}
		return look.Proposal{Why: path + ": " + err.Error()}
	}
	return p
}
