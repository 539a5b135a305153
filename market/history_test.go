package market

import (
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var day = time.Date(2014, 3, 1, 0, 0, 0, 0, time.UTC)

// at returns the instant this many minutes into the day.
func at(minutes int) time.Time { return day.Add(time.Duration(minutes) * time.Minute) }

// prices makes a history of (minute, thousandths of a dollar) pairs.
func prices(pairs ...int) *History {
	var points []PricePoint
	for i := 0; i < len(pairs); i += 2 {
		points = append(points, PricePoint{at(pairs[i]), USD(pairs[i+1]) * Dollar / 1000})
	}
	return NewHistory(points)
}

func mils(n int) USD { return USD(n) * Dollar / 1000 }

func TestHistoryAt(t *testing.T) {
	h := prices(30, 200, 10, 100, 30, 300, 60, 300) // unsorted, and two at 30: the last wins
	for _, c := range []struct {
		minute int
		want   USD
		known  bool
	}{
		{9, 0, false}, {10, mils(100), true}, {29, mils(100), true}, {30, mils(300), true}, {1000, mils(300), true},
	} {
		if got, known := h.At(at(c.minute)); got != c.want || known != c.known {
			t.Errorf("at %d: %s, %v; want %s, %v", c.minute, got, known, c.want, c.known)
		}
	}
	var none *History
	if _, known := none.At(day); known || none.Len() != 0 || none.Until(day).Len() != 0 {
		t.Error("a nil history knows something")
	}
	if got, known := Constant(mils(239)).At(day); got != mils(239) || !known {
		t.Errorf("constant price: %s, %v", got, known)
	}
}

func TestNewHistoryCopies(t *testing.T) {
	points := []PricePoint{{at(20), 2}, {at(10), 1}}
	h := NewHistory(points)
	points[0].Price = 99
	if got, _ := h.At(at(20)); got != 2 || points[0].At != at(20) {
		t.Error("the caller's slice is shared or was sorted")
	}
}

func TestHistoryFirstAbove(t *testing.T) {
	h := prices(10, 100, 30, 300, 40, 300, 60, 100)
	for _, c := range []struct {
		name   string
		from   int
		limit  int
		want   int
		wanted bool
	}{
		{"before the first point", 0, 200, 30, true},
		{"from below", 10, 200, 30, true},
		{"the step in force is above already", 35, 200, 35, true},
		{"at the crossing", 30, 200, 30, true},
		{"equal is not above", 0, 300, 0, false},
		{"none left", 60, 200, 0, false},
		{"the last step goes on", 90, 50, 90, true},
	} {
		got, ok := h.FirstAbove(at(c.from), mils(c.limit))
		if ok != c.wanted || ok && !got.Equal(at(c.want)) {
			t.Errorf("%s: %s, %v", c.name, got, ok)
		}
	}
}

func TestHistoryMean(t *testing.T) {
	h := prices(0, 100, 30, 300, 60, 200)
	for _, c := range []struct {
		from, to int
		want     USD
		known    bool
	}{
		{0, 60, mils(200), true},
		{15, 45, mils(200), true},
		{0, 45, 166_666_667, true}, // (30x100 + 15x300) / 45, rounded
		{70, 1000, mils(200), true},
		{30, 30, mils(300), true},
		{-1, 60, 0, false},
		{60, 30, 0, false},
	} {
		if got, known := h.Mean(at(c.from), at(c.to)); got != c.want || known != c.known {
			t.Errorf("mean of [%d, %d): %s, %v; want %s, %v", c.from, c.to, got, known, c.want, c.known)
		}
	}
	if got, known := Constant(mils(239)).Mean(day, day.AddDate(50, 0, 0)); got != mils(239) || !known {
		t.Errorf("mean of a constant over 50 years: %s, %v", got, known)
	}
}

func TestHistoryViewsStayAsTheyWere(t *testing.T) {
	h := prices(0, 100, 30, 300)
	view := h.Until(at(20))
	if err := h.Append(PricePoint{at(60), mils(400)}); err != nil {
		t.Fatal(err)
	}
	if err := view.Append(PricePoint{at(25), mils(999)}); err != nil {
		t.Fatal(err)
	}
	if got, _ := h.At(at(30)); got != mils(300) {
		t.Errorf("appending to a view changed the history: %s at 30", got)
	}
	if last, _ := view.Last(); last.At != at(25) {
		t.Errorf("the view reaches %s", last.At)
	}
	if first, _ := h.First(); first.At != at(0) || h.Len() != 3 {
		t.Errorf("history has %d points from %s", h.Len(), first.At)
	}
}

func TestHistoryAppendInOrder(t *testing.T) {
	h := prices(30, 300)
	if err := h.Append(PricePoint{at(30), mils(300)}); err != nil || h.Len() != 1 {
		t.Errorf("repeating the last point: %v, %d points", err, h.Len())
	}
	for _, p := range []PricePoint{{at(30), mils(301)}, {at(29), mils(300)}} {
		if err := h.Append(p); err == nil {
			t.Errorf("appended %v after 30", p)
		}
	}
}

func TestHistoryChanges(t *testing.T) {
	h := prices(0, 100, 10, 100, 20, 200, 30, 200, 40, 100)
	for _, c := range []struct {
		from, to int
		want     []PricePoint
	}{
		{-5, 100, []PricePoint{{at(0), mils(100)}, {at(20), mils(200)}, {at(40), mils(100)}}},
		{0, 40, []PricePoint{{at(20), mils(200)}, {at(40), mils(100)}}}, // after from, up to and with to
		{20, 39, nil},
		{40, 20, nil},
	} {
		if diff := cmp.Diff(c.want, h.Changes(at(c.from), at(c.to))); diff != "" {
			t.Errorf("changes in (%d, %d]: %s", c.from, c.to, diff)
		}
	}
}

// TestHistoryAgainstList compares with a list searched from end to end.
func TestHistoryAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := drawPoints(t)
		h := NewHistory(points)
		minute := rapid.IntRange(-10, 130).Draw(t, "t")
		limit := mils(rapid.IntRange(0, 9).Draw(t, "limit"))

		var want PricePoint
		for _, p := range points {
			if !p.At.After(at(minute)) && !p.At.Before(want.At) {
				want = p
			}
		}
		if got, known := h.At(at(minute)); got != want.Price || known != !want.At.IsZero() {
			t.Fatalf("at %d: %s, %v; want %v", minute, got, known, want)
		}
		wantAbove := -1
		for m := minute; m <= 130 && wantAbove < 0; m++ { // all points are at whole minutes
			if price, known := h.At(at(m)); known && price > limit {
				wantAbove = m
			}
		}
		if got, ok := h.FirstAbove(at(minute), limit); ok != (wantAbove >= 0) || ok && got != at(wantAbove) {
			t.Fatalf("first above %s from %d: %s, %v; want %d", limit, minute, got, ok, wantAbove)
		}
		to := minute + rapid.IntRange(1, 50).Draw(t, "length")
		sum, known := new(big.Int), true
		for m := minute; m < to; m++ {
			price, ok := h.At(at(m))
			known = known && ok
			sum.Add(sum, big.NewInt(int64(price)))
		}
		n := int64(to - minute)
		sum.Mul(sum, big.NewInt(2)).Add(sum, big.NewInt(n)).Div(sum, big.NewInt(2*n))
		if got, ok := h.Mean(at(minute), at(to)); ok != known || ok && int64(got) != sum.Int64() {
			t.Fatalf("mean of [%d, %d): %s, %v; want %s, %v", minute, to, got, ok, sum, known)
		}
	})
}

// drawPoints draws up to 40 points at whole minutes within two hours, priced up to 12 thousandths.
func drawPoints(t *rapid.T) []PricePoint {
	n := rapid.IntRange(0, 40).Draw(t, "points")
	points := make([]PricePoint, n)
	for i := range points {
		points[i].At = at(rapid.IntRange(0, 120).Draw(t, "at"))
		points[i].Price = mils(rapid.IntRange(1, 12).Draw(t, "price"))
	}
	return points
}
