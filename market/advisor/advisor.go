// Package advisor reads Amazon's Spot Instance Advisor: for each region and type, how often machines were interrupted in the previous
// month, in bands, and the mean saving against on demand. It is a provider's only statement about the lifetime of spot machines since
// prices stopped reflecting it, and coarse: a band per type, not per zone.
//
// It does not know where the file comes from or how old it is: that is up to its caller.
package advisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/tierml/tierml/internal/decompress"
)

// Band is a range of interruption rates: the share of machines that were interrupted in a month, in percent.
type Band struct {
	Label string // "5-10%"
	Low   float64
	High  float64
}

// Advice is what the advisor says of a type in a region.
type Advice struct {
	Band   Band
	Saving int // percent of the on-demand price, monthly mean
}

// Table is the advice of a day.
type Table struct {
	advice map[[2]string]Advice
}

// Lookup returns the advice for Linux machines of a type in a region.
func (t *Table) Lookup(region, kind string) (Advice, bool) {
	if t == nil {
		return Advice{}, false
	}
	a, ok := t.advice[[2]string{region, kind}]
	return a, ok
}

// file is the advisor's own form.
type file struct {
	Ranges []struct {
		Index int     `json:"index"`
		Label string  `json:"label"`
		Max   float64 `json:"max"` // first percentage beyond the band
	} `json:"ranges"`
	Advisor map[string]map[string]map[string]struct {
		Saving int `json:"s"`
		Range  int `json:"r"`
	} `json:"spot_advisor"`
}

// Read reads the advisor's JSON, plain or compressed.
func Read(r io.Reader) (*Table, error) {
	plain, err := decompress.Reader(r)
	if err != nil {
		return nil, fmt.Errorf("spot advisor: %w", err)
	}
	var f file
	if err := json.NewDecoder(plain).Decode(&f); err != nil {
		return nil, fmt.Errorf("spot advisor: %w", err)
	}
	if len(f.Ranges) == 0 || len(f.Advisor) == 0 {
		return nil, errors.New(`spot advisor: no "ranges" or no "spot_advisor": this is another file`)
	}
	bands, err := f.bands()
	if err != nil {
		return nil, fmt.Errorf("spot advisor: %w", err)
	}
	t := &Table{advice: map[[2]string]Advice{}}
	for region, systems := range f.Advisor {
		for kind, a := range systems["Linux"] {
			band, ok := bands[a.Range]
			if !ok {
				return nil, fmt.Errorf("spot advisor: %s %s: there is no range %d", region, kind, a.Range)
			}
			t.advice[[2]string{region, kind}] = Advice{Band: band, Saving: a.Saving}
		}
	}
	return t, nil
}

// bands returns the ranges by index. Each begins where the previous one ends; the last is open and assumed to end at its own maximum, or at
// 35 % if that is 100 %: half of all machines a month would be a guess.
func (f *file) bands() (map[int]Band, error) {
	const openEnd = 35
	bands, low := map[int]Band{}, 0.0
	for _, r := range f.Ranges {
		high := r.Max
		if high >= 100 {
			high = openEnd
		}
		if high <= low {
			return nil, fmt.Errorf("range %d (%s) ends at %g %%, before it begins", r.Index, r.Label, r.Max)
		}
		bands[r.Index] = Band{Label: r.Label, Low: low, High: high}
		low = r.Max
	}
	return bands, nil
}
