package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/market"
)

// maxSilence is the longest interval between rows of a pool with a constant price in EC2's history, which repeats an
// unchanged price about once a day. A longer silence is missing data.
const maxSilence = 25 * time.Hour

// unusual is how many times the usual interval a silence of a whole region must last if unchanged prices are not repeated.
const unusual = 10

// Hole is a period for which a pool's prices were not recorded.
type Hole struct {
	Pool market.Pool
	market.Hole
}

// region is what a region's markets have in common: they were recorded together.
type region struct {
	markets  []Market
	end      time.Time // of the last point
	repeats  int       // points that repeat the price of less than maxSilence before
	silences int       // of a pool, longer than maxSilence
}

// findHoles finds the holes of all markets, longest first, and marks them in the histories. The definition of a hole
// depends on the recording. If it repeats unchanged prices, like EC2's history, each pool is judged by itself: it has a
// hole wherever it is silent for more than maxSilence, even at its end, while others continue. If it only has changes,
// a silent pool may be a calm one, so a hole is a period in which no pool of the region has a price: more than
// maxSilence, and more than ten times the length that nine of ten intervals in the region do not exceed.
func findHoles(markets []Market) (holes []Hole) {
	regions := map[[2]string]*region{}
	var order []*region
	for _, m := range markets {
		key := [2]string{m.Pool.Provider, m.Pool.Region}
		r := regions[key]
		if r == nil {
			r = &region{}
			regions[key], order = r, append(order, r)
		}
		r.markets = append(r.markets, m)
		if last, ok := m.History.Last(); ok && last.At.After(r.end) {
			r.end = last.At
		}
	}
	for _, r := range order {
		for _, m := range r.markets {
			r.look(m.History)
		}
		for _, m := range r.markets {
			m.History.SetHoles(nil)
		}
		switch {
		case r.silences == 0:
		case r.repeats > 0 && 4*r.repeats >= r.silences:
			for _, m := range r.markets {
				m.History.SetHoles(silences(m.History, r.end))
			}
		default:
			common := r.common()
			for _, m := range r.markets {
				m.History.SetHoles(within(common, m.History))
			}
		}
		for _, m := range r.markets {
			for _, h := range m.History.Holes() {
				holes = append(holes, Hole{m.Pool, h})
			}
		}
	}
	slices.SortStableFunc(holes, func(a, b Hole) int { return cmp.Compare(b.To.Sub(b.From), a.To.Sub(a.From)) })
	return holes
}

// pointsOf returns all points of a history.
func pointsOf(h *market.History) []market.PricePoint {
	last, _ := h.Last()
	return h.Points(time.Time{}, last.At)
}

// look counts repeats and silences.
func (r *region) look(h *market.History) {
	points := pointsOf(h)
	for i := 1; i < len(points); i++ {
		if points[i].Price == points[i-1].Price && points[i].At.Sub(points[i-1].At) <= maxSilence {
			r.repeats++
		}
	}
	r.silences += len(silences(h, r.end))
}

// silences returns the periods in which a pool has no price for longer than maxSilence, until the end of the recording.
func silences(h *market.History, end time.Time) (holes []market.Hole) {
	points := pointsOf(h)
	for i := range points {
		until := end
		if i+1 < len(points) {
			until = points[i+1].At
		}
		if until.Sub(points[i].At) > maxSilence {
			holes = append(holes, market.Hole{From: points[i].At, To: until})
		}
	}
	return holes
}

// common returns the unusually long periods in which no pool has a price.
func (r *region) common() (holes []market.Hole) {
	var all []time.Time
	for _, m := range r.markets {
		for _, p := range pointsOf(m.History) {
			all = append(all, p.At)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	all = slices.CompactFunc(all, time.Time.Equal)
	if len(all) < 2 {
		return nil
	}
	intervals := make([]time.Duration, len(all)-1)
	for i := range intervals {
		intervals[i] = all[i+1].Sub(all[i])
	}
	slices.Sort(intervals)
	usual := intervals[(len(intervals)*9+9)/10-1]
	for i := 1; i < len(all); i++ {
		if silence := all[i].Sub(all[i-1]); silence > maxSilence && silence > unusual*usual {
			holes = append(holes, market.Hole{From: all[i-1], To: all[i]})
		}
	}
	return holes
}

// within returns the holes between the first and the last point of a history.
func within(holes []market.Hole, h *market.History) (out []market.Hole) {
	first, _ := h.First()
	last, _ := h.Last()
	for _, hole := range holes {
		if !hole.From.Before(first.At) && !hole.To.After(last.At) {
			out = append(out, hole)
		}
	}
	return out
}

// contradictions lists the instants at which several files have different prices for a pool.
func (s *Summary) contradictions(pool market.Pool, points []market.PricePoint) {
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b market.PricePoint) int { return a.At.Compare(b.At) })
	for i := 1; i < len(points); i++ {
		if p := points[i]; p.At.Equal(points[i-1].At) && p.Price != points[i-1].Price {
			s.Conflicts = append(s.Conflicts, RowNote{Pool: pool, At: p.At, Price: p.Price})
		}
	}
}

// Others names the products that were not read, after a message that nothing was; empty = there are none.
func (s *Summary) Others() string {
	if len(s.Products) == 0 {
		return ""
	}
	return ", as all are of " + strings.Join(s.Products, ", ")
}

// addRows adds the summary of another file's rows.
func (s *Summary) addRows(o *Summary) {
	s.Rows += o.Rows
	s.OtherProducts += o.OtherProducts
	for _, product := range o.Products {
		if !slices.Contains(s.Products, product) {
			s.Products = append(s.Products, product)
		}
	}
	s.Duplicates += o.Duplicates
	s.Rounded += o.Rounded
	s.Conflicts = append(s.Conflicts, o.Conflicts...)
	s.Absurd = append(s.Absurd, o.Absurd...)
}

// Doubts returns a sentence for each reason why prices are doubtful. Of limits it to some pools; nil = all.
func (t *Trace) Doubts(of func(market.Pool) bool) (said []string) {
	if t == nil {
		return nil
	}
	if of == nil {
		of = func(market.Pool) bool { return true }
	}
	rows := func(notes []RowNote) (some []RowNote) {
		for _, n := range notes {
			if of(n.Pool) {
				some = append(some, n)
			}
		}
		return some
	}
	if some := rows(t.Summary.Conflicts); len(some) > 0 {
		said = append(said, fmt.Sprintf("%s another price of the same pool and instant, and the last one holds: %s%s",
			count(len(some), "price contradicts", "prices contradict"), &some[0], more(len(some))))
	}
	if some := rows(t.Summary.Absurd); len(some) > 0 {
		said = append(said, fmt.Sprintf("%s absurd and left out: %s%s", count(len(some), "price is", "prices are"), &some[0], more(len(some))))
	}
	var holes []Hole
	for _, h := range t.Summary.Holes {
		if of(h.Pool) {
			holes = append(holes, h)
		}
	}
	if len(holes) > 0 {
		said = append(said, fmt.Sprintf("prices were not recorded for some time, and the last one is taken to have held: %s%s", &holes[0], more(len(holes))))
	}
	return said
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// more mentions how many there are in addition to the displayed one.
func more(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(", and %d more", n-1)
}

// String returns "prices.csv line 17: us-west-1a/c3.xlarge at 2014-03-01T00:00:00Z: $0.05".
func (n *RowNote) String() string {
	where := n.File
	if n.Line > 0 {
		if where != "" {
			where += " "
		}
		where += fmt.Sprintf("line %d", n.Line)
	}
	if where != "" {
		where += ": "
	}
	return fmt.Sprintf("%s%s/%s at %s: $%s", where, n.Pool.Zone, n.Pool.Type, n.At.Format(time.RFC3339), n.Price)
}

// String returns "us-west-1a/c3.xlarge from 2014-03-01T00:00:00Z for 384h0m0s".
func (h *Hole) String() string {
	return fmt.Sprintf("%s/%s from %s for %s", h.Pool.Zone, h.Pool.Type, h.From.UTC().Format(time.RFC3339), h.To.Sub(h.From).Round(time.Minute))
}
