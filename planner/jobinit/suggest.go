package jobinit

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/apps/input"
	"github.com/tierml/tierml/internal/pattern"
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

// typesWithPrices are the types that have prices at a time, the cheapest per vCPU first.
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

// typesOfCatalog are the types that a region sells on demand, for a cloud that has spot prices only later.
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

// smallestFirst puts the types that cost least first: how many vCPUs a program uses nobody knows.
func smallestFirst(all []Candidate) {
	slices.SortStableFunc(all, func(a, b Candidate) int { return cmp.Compare(a.Type.OnDemand, b.Type.OnDemand) })
}

// suggested is how many types are proposed: several, so that there is somewhere to go when one is taken away.
const suggested = 3

// suggestTypes are the types to propose: the cheapest of the cheapest one's region, with the zones that sell all of them.
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

// zonesOf are the zones of the first region of candidates that sell any of some types.
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

// vcpusOf are those of a count of machines of the smallest of some types, where the types differ in size; 0 = they do not, or the size of
// one is unknown.
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

// startOf is a time to begin at in recorded prices: with a month of them before it, or a third of what there is.
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
	plain, err := input.Plain(file)
	if err != nil {
		return ""
	}
	defer plain.Close()
	head, err := io.ReadAll(io.LimitReader(plain, shownText))
	if err != nil {
		return ""
	}
	if len(head) == shownText { // the last line is not whole
		head = head[:bytes.LastIndexByte(head, '\n')+1]
	}
	pairs, err := input.ReadPairs(path, bytes.NewReader(head), bytes.Count(head, []byte("\n"))/5) // as the application reads it; repeats are its matter
	switch {
	case err == nil && pairs.Rated:
		return "mf"
	case err == nil: // nothing to predict is in it
		return ""
	}
	return appOfLines(bytes.NewReader(head))
}

// shownText is how much of a file shows what it is.
const shownText = 4 << 20

var (
	rating  = pattern.Of(`^(user,item,rating|\d+(\t|::)\d+(\t|::)-?[0-9.]+((\t|::)\d+)?)$`)
	sparse  = pattern.Of(`^([+-]?[0-9.eE+-]+)(\s+(qid|\d+):\S+)+$`)
	numeral = pattern.Of(`^[+-]?[0-9.eE+-]+$`)
)

// looked is how many lines show what a file is: enough to meet each of a few classes, also where they are sorted.
const looked = 5000

// mostClasses is how many different whole numbers still look like classes.
const mostClasses = 30

func appOfLines(r io.Reader) string {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	var targets []string
	column := -1 // of a table's target
	separator := ","
	for n := 0; n < looked && lines.Scan(); n++ {
		line := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff"))
		if n == 0 && !strings.Contains(line, separator) { // the data will be refused by name, instead of the question here
			for _, other := range []string{";", "\t"} {
				if strings.Contains(line, other) {
					separator = other
				}
			}
		}
		fields := fieldsOf(line, separator)
		switch {
		case n < 2 && strings.HasPrefix(line, "\x00\x00\x08"): // images
			return "mlr"
		case rating().MatchString(line):
			return "mf"
		case sparse().MatchString(line):
			targets = append(targets, sparse().FindStringSubmatch(line)[1])
		case n == 0 && len(fields) > 1 && !numeral().MatchString(fields[0]):
			column = targetOf(fields)
		case column >= 0 && column < len(fields):
			targets = append(targets, strings.TrimSpace(fields[column]))
		}
	}
	return appOfTargets(targets)
}

// fieldsOf takes a line of a table apart, as its reader does.
func fieldsOf(line, separator string) []string {
	if strings.Contains(line, `"`) {
		quoted := csv.NewReader(strings.NewReader(line))
		quoted.Comma = rune(separator[0])
		if fields, err := quoted.Read(); err == nil {
			return fields
		}
	}
	return strings.Split(line, separator)
}

// targetOf is the column that a classifier would predict (labelled.Classification).
func targetOf(header []string) int {
	for i, name := range header {
		if slices.Contains([]string{"class", "label", "target", "y"}, strings.ToLower(strings.Trim(name, ` "`))) {
			return i
		}
	}
	return len(header) - 1
}

// appOfTargets distinguishes classes from measured numbers.
func appOfTargets(targets []string) string {
	different, words, fractions := map[string]bool{}, false, false
	least, most := math.Inf(1), math.Inf(-1)
	for _, t := range targets {
		different[t] = true
		words = words || !numeral().MatchString(t)
		v, err := strconv.ParseFloat(t, 64)
		fractions = fractions || err == nil && v != math.Trunc(v)
		least, most = min(least, v), max(most, v)
	}
	switch {
	case len(targets) < 3 || len(different) < 2:
		return ""
	case len(different) == 2:
		return "logistic"
	case words, !fractions && len(different) <= mostClasses && (2*len(different) <= len(targets) || most-least <= mostClasses): // twenty weights are no classes
		return "mlr"
	}
	return "ridge"
}
