package trace

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierml/tierml/market"
)

// priced is a price of a pool, hours after the start.
type priced struct {
	hours float64
	kind  string
	price string
}

func recordingOf(t *testing.T, o Options, rows ...priced) *Trace {
	t.Helper()
	var text strings.Builder
	text.WriteString(csvHeader)
	for _, r := range rows {
		at := utc("2014-03-01T00:00:00Z").Add(time.Duration(r.hours * float64(time.Hour)))
		fmt.Fprintf(&text, "%s,us-west-1a,c3.%s,Linux/UNIX,%s\n", at.Format(time.RFC3339), r.kind, r.price)
	}
	return read(t, text.String(), o)
}

// often returns prices at even intervals, with a gap between two times; alternating, or the same.
func often(kind string, every, until, from, to float64, alternating bool) (rows []priced) {
	for i, at := 0, 0.0; at <= until; i, at = i+1, at+every {
		if at > from && at < to {
			continue
		}
		price := "0.05"
		if alternating && i%2 == 1 {
			price = "0.06"
		}
		rows = append(rows, priced{at, kind, price})
	}
	return rows
}

// TestHoles: whether a gap is a hole depends on whether the recording repeats unchanged prices.
func TestHoles(t *testing.T) {
	hole := func(kind string, from, to float64) Hole {
		begin := utc("2014-03-01T00:00:00Z")
		return Hole{c3(kind), market.Hole{From: begin.Add(time.Duration(from) * time.Hour), To: begin.Add(time.Duration(to) * time.Hour)}}
	}
	calm := append(often("large", 0.5, 2400, 0, 0, true), priced{0, "xlarge", "0.05"}, priced{300, "xlarge", "0.07"}, priced{2400, "xlarge", "0.05"})
	for _, c := range []struct {
		name string
		rows []priced
		want []Hole
	}{
		{"unchanged prices are repeated daily", append(often("large", 24, 960, 0, 0, false), often("xlarge", 1, 960, 0, 0, true)...), nil},
		{"16 days are missing of both pools", append(often("large", 24, 960, 240, 624, false), often("xlarge", 1, 960, 240, 624, true)...),
			[]Hole{hole("large", 240, 624), hole("xlarge", 240, 624)}},
		{"of one", append(often("large", 24, 960, 0, 0, false), often("xlarge", 1, 960, 240, 288, true)...), []Hole{hole("xlarge", 240, 288)}},
		{"one ends early", append(often("large", 24, 960, 0, 0, false), often("xlarge", 1, 960, 480, 961, true)...), []Hole{hole("xlarge", 480, 960)}},
		{"changes alone: a calm pool is no hole", calm, nil},
		{"changes alone: all pools are silent", append(often("large", 0.5, 2400, 600, 1000, true), priced{0, "xlarge", "0.05"}, priced{2400, "xlarge", "0.07"}),
			[]Hole{hole("large", 600, 1000), hole("xlarge", 600, 1000)}},
		{"changes alone, rarely", often("large", 700, 7000, 0, 0, true), nil}, // a price list that is imported each month
	} {
		t.Run(c.name, func(t *testing.T) {
			got := recordingOf(t, Options{}, c.rows...)
			if diff := cmp.Diff(c.want, got.Summary.Holes); diff != "" {
				t.Error(diff)
			}
			for _, m := range got.Markets {
				for _, h := range m.History.Until(m.firstOf()).Holes() {
					if !strings.Contains(fmt.Sprint(got.Summary.Holes), fmt.Sprint(h)) {
						t.Errorf("the history of %s has a hole of its own: %v", m.Pool, h)
					}
				}
			}
			if len(got.Summary.Holes) == 0 != (len(got.Doubts(nil)) == 0) {
				t.Errorf("doubts: %q", got.Doubts(nil))
			}
		})
	}
}

func (m Market) firstOf() time.Time {
	first, _ := m.History.First()
	return first.At
}

// TestDoubts: messages name the file, the line and the pool, and only pools that matter; also for combined files, which may contradict each
// other.
func TestDoubts(t *testing.T) {
	one := recordingOf(t, Options{File: "one.csv"}, priced{0, "large", "0.05"}, priced{1, "large", "0.05"}, priced{1, "large", "0.06"}, priced{2, "xlarge", "0"}, priced{3, "xlarge", "0.1"})
	two := recordingOf(t, Options{File: "two.csv"}, priced{0, "large", "0.09"}, priced{500, "large", "0.09"}, priced{501, "large", "0.09"})
	all := Merge(one, two)
	got := strings.Join(all.Doubts(func(p market.Pool) bool { return p == c3("large") }), "\n")
	want := "2 prices contradict another price of the same pool and instant, and the last one holds: one.csv line 4: us-west-1a/c3.large at 2014-03-01T01:00:00Z: $0.06, and 1 more\n" +
		"prices were not recorded for some time, and the last one is taken to have held: us-west-1a/c3.large from 2014-03-01T01:00:00Z for 499h0m0s"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := one.Doubts(func(p market.Pool) bool { return p == c3("xlarge") }); len(got) != 1 ||
		got[0] != "1 price is absurd and left out: one.csv line 5: us-west-1a/c3.xlarge at 2014-03-01T02:00:00Z: $0" {
		t.Errorf("%q", got)
	}
}
