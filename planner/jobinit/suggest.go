package jobinit

import (
	"bufio"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/decompress"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
)

// Candidate is a machine type that could be bought.
type Candidate struct {
	Type   market.InstanceType
	Zones  []string   // that sell it
	Price  market.USD // an hour on the spot market, in the zone where it is lowest; 0 = unknown
	Region string
}

// perVCPU is what candidates are compared by; types of which it is unknown come last.
func (c Candidate) perVCPU() float64 {
	price := cmp.Or(c.Price, c.Type.OnDemand)
	if c.Type.VCPU == 0 {
		return float64(price) + 1e15
	}
	return float64(price) / float64(c.Type.VCPU)
}

// Candidates are the types that have prices at a time, the cheapest per vCPU first.
func Candidates(offers []planner.Offer, at time.Time) []Candidate {
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

// OfCatalog are the types that a region sells on demand, for a cloud that tells its spot prices only later.
func OfCatalog(catalog *market.Catalog, region string) (all []Candidate) {
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

// suggested is how many types are proposed: several, so that there is somewhere to go when one is taken away.
const suggested = 3

// Usual are the types to propose: the cheapest of the cheapest one's region, with the zones that sell all of them.
func Usual(all []Candidate) (types, zones []string) {
	if len(all) == 0 {
		return nil, nil
	}
	for _, c := range all {
		if c.Region != all[0].Region || len(types) == suggested {
			continue
		}
		types = append(types, c.Type.Name)
	}
	return types, ZonesOf(all, types)
}

// ZonesOf are the zones of the first region of candidates that sell any of some types.
func ZonesOf(all []Candidate, types []string) (zones []string) {
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

// Start is a time to begin at in recorded prices: with a month of them before it, or a third of what there is.
func Start(offers []planner.Offer) (at time.Time, ok bool) {
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

// AppOf guesses the application from the training data: by its name, or by its first lines. It is empty when nothing fits.
func AppOf(path string) string {
	if strings.HasPrefix(filepath.Base(path), "docword.") {
		return "lda"
	}
	if base := filepath.Base(path); strings.HasPrefix(base, "u.data") || strings.HasPrefix(base, "ratings") {
		return "mf"
	}
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	plain, err := decompress.Reader(file)
	if err != nil {
		return ""
	}
	defer plain.Close()
	return appOfLines(plain)
}

var (
	rating = regexp.MustCompile(`^(user,item,rating|\d+(\t|::)\d+(\t|::)-?[0-9.]+((\t|::)\d+)?)$`)
	sparse = regexp.MustCompile(`^[+-]?[0-9.eE+-]+( \d+:\S+)+$`)
)

// looked is how many lines tell what a file is.
const looked = 20

func appOfLines(r io.Reader) string {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	ratings, examples := 0, 0
	labels := map[string]bool{}
	for n := 0; n < looked && lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		switch {
		case rating.MatchString(line):
			ratings++
		case sparse.MatchString(line):
			examples++
			label, _, _ := strings.Cut(line, " ")
			labels[label] = true
		}
	}
	switch {
	case ratings > 0:
		return "mf"
	case examples > 2 && len(labels) == 2:
		return "logistic"
	case examples > 2:
		return "ridge"
	}
	return ""
}

// UsualClocks is how many clocks an application usually needs.
func UsualClocks(app string) int {
	switch app {
	case "mf":
		return 300
	case "lda":
		return 200
	}
	return 100
}
