package region

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/market"
)

// beginning is before every price, including one without a time (market.Constant).
var beginning = time.Time{}.Add(-time.Second)

// PriceQuery selects spot prices. An empty list does not limit the result.
type PriceQuery struct {
	Start, End time.Time // zero = from the beginning, until now
	Types      []string
	Zones      []string
}

// PriceChange is one line of the answer.
type PriceChange struct {
	Zone, Type string
	market.PricePoint
}

// Prices returns past spot prices, newest first: the changes in (Start, End] and for each pool the price in force at Start, with the time
// at which it began. Prices after now are not returned.
func (r *Region) Prices(now time.Time, q PriceQuery) []PriceChange {
	r.Advance(now)
	end := q.End
	if end.IsZero() || end.After(r.now) {
		end = r.now
	}
	var list []PriceChange
	for _, pool := range r.spotPools() {
		if len(q.Types) > 0 && !slices.Contains(q.Types, pool.Type) || len(q.Zones) > 0 && !slices.Contains(q.Zones, pool.Zone) {
			continue
		}
		h := r.config.Spot[pool].Until(end)
		points := h.Points(beginning, end)
		first := 0
		if !q.Start.IsZero() {
			if before := h.Until(q.Start).Len(); before > 0 {
				first = before - 1
			}
		}
		for _, p := range points[min(first, len(points)):] {
			list = append(list, PriceChange{Zone: pool.Zone, Type: pool.Type, PricePoint: p})
		}
	}
	slices.SortStableFunc(list, func(a, b PriceChange) int {
		return cmp.Or(b.At.Compare(a.At), strings.Compare(a.Type, b.Type), strings.Compare(a.Zone, b.Zone))
	})
	return list
}
