package page

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/market"
)

func storyReport(t *testing.T, entries []journal.Entry) *cost.Report {
	t.Helper()
	var l cost.Ledger
	for _, e := range entries {
		if err := l.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	r, err := l.Report(time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func render(t *testing.T, r *cost.Report) string {
	t.Helper()
	var b strings.Builder
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The page needs nothing from outside, and has a picture and a table for everything, each table with its own name.
func TestPageStandsAlone(t *testing.T) {
	r := storyReport(t, journaltest.New(1).Entries)
	compared := cost.Compare(r, nil)
	r.Reconciliation = &compared
	r.Decisions = append(r.Decisions, r.Decisions[0]) // a plan and a purchase of the same second
	html := render(t, r)
	for _, bad := range []string{"http://", "https://", "<script", "<link", "@import", "url(", "NaN", "Inf", "%!"} {
		if strings.Contains(html, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	for _, want := range []string{
		`<html lang="en">`, `name="viewport"`, "prefers-color-scheme: dark", "Cost", "On-demand equivalent", "Saving", "Test RMSE",
		"Price of each pool", "Machines in training by tier and pool, stages and evictions", "RMSE over time", "RMSE over dollars", "redone work", "free",
		"c3.2xlarge us-west-1a", "price 0.742 above bid 0.478", "roll-back to the cut", journaltest.New(1).Machines[20].ID, "difference $",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("%q is missing", want)
		}
	}
	ids := map[string]bool{}
	for _, m := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(html, -1) {
		if ids[m[1]] {
			t.Errorf("id %q is there twice", m[1])
		}
		ids[m[1]] = true
	}
	regions := map[string]bool{}
	for _, m := range regexp.MustCompile(`role="region" aria-label="([^"]+)"`).FindAllStringSubmatch(html, -1) {
		if regions[m[1]] {
			t.Errorf("two regions have the label %q", m[1])
		}
		regions[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`aria-labelledby="([^"]+)"`).FindAllStringSubmatch(html, -1) {
		for id := range strings.FieldsSeq(m[1]) {
			if !ids[id] {
				t.Errorf("label %q is nowhere", id)
			}
		}
	}
	if n := strings.Count(html, `role="img"`); n != 10 {
		t.Errorf("%d charts, want 4 in 2 sizes and a machine's processor and memory", n)
	}
}

// Every chart is well-formed XML.
func TestChartsAreWellFormed(t *testing.T) {
	r := storyReport(t, journaltest.New(2).Entries)
	time, usd := lossCharts(r)
	for _, c := range []chart{priceChart(r), machineChart(r), time, usd} {
		d := xml.NewDecoder(strings.NewReader(string(c.svg("x", "wide", 800, 300))))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Errorf("%s: %v", c.title, err)
				break
			}
		}
	}
}

// A card counts what the provider took or lost without a notice, apart from evictions.
func TestUnwarnedEnds(t *testing.T) {
	end := func(by market.EndedBy) cost.Instance { return cost.Instance{Ended: &time.Time{}, EndedBy: string(by)} }
	r := &cost.Report{Instances: []cost.Instance{end(market.ByProvider), end(market.ByProvider), end(market.ByUser), {}}}
	r.Totals.Evictions = 1
	if got := (view{Report: r}).Unwarned(); got != 1 {
		t.Errorf("%d without a notice", got)
	}
}

// The price chart marks events: 3 bulk launches, a warned bulk eviction and an unwarned kill.
func TestPriceMarks(t *testing.T) {
	r := storyReport(t, journaltest.New(1).Entries)
	count := map[string]int{}
	for _, m := range priceChart(r).marks {
		count[m.shape]++
	}
	if count["launch"] != 3 || count["notice"] != 1 || count["evicted"] != 2 {
		t.Errorf("marks %v", count)
	}
	stages := ""
	for _, b := range machineChart(r).bands {
		stages += strings.TrimPrefix(b.label, "stage ")
	}
	if stages != "12313" {
		t.Errorf("stages %s", stages)
	}
}

// A journal of any length has a page: even one with only a start, and one cut off anywhere.
func TestPageOfAnUnfinishedRun(t *testing.T) {
	entries := journaltest.New(1).Entries
	for n := 1; n <= len(entries); n += 1 + n/3 {
		if html := render(t, storyReport(t, entries[:n])); strings.Contains(html, "NaN") || !strings.Contains(html, "unfinished") {
			t.Errorf("after %d entries the page is wrong", n)
		}
	}
}

// Names come from users and providers: they stay text.
func TestPageEscapes(t *testing.T) {
	r := storyReport(t, journaltest.New(1).Entries)
	evil := `<script>alert("x")</script>`
	r.Run.Name, r.Events[3].Why, r.Instances[0].Why = evil, evil, evil
	r.Series.Prices[0].Pool, r.Series.Machines[3].Stage = evil, "1"+evil
	if html := render(t, r); strings.Contains(html, "<script") {
		t.Error("a name became markup")
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{{0, 10, "0 2 4 6 8 10"}, {4.31, 5.8, "4.5 5 5.5"}, {0, 0.03, "0 0.01 0.02 0.03"}} {
		var got []string
		for _, v := range round(c.low, c.high, 5) {
			got = append(got, number(v))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%v to %v: %s, want %s", c.low, c.high, s, c.want)
		}
	}
	for _, span := range []float64{1, 100, 5000, 1e5, 1e7, 1e10} {
		if n := span / timeStep(span, 8); n > 8 && span < 1e9 {
			t.Errorf("%v s: %v ticks", span, n)
		}
	}
}

// Values at the edges of the data are inside the plot.
func TestFrameHoldsEverything(t *testing.T) {
	for _, c := range []chart{
		{lines: []line{{points: []point{{1, 5}, {2, 9}}}}},
		{lines: []line{{points: []point{{1, 5}}}}},
		{logY: true, lines: []line{{points: []point{{1, 0.01}, {9, 0.7}}}}},
		{zeroY: true, lines: []line{{points: []point{{1, 0}, {9, 0}}}}},
	} {
		f := c.frame(400, 200)
		for _, p := range c.lines[0].points {
			x, y := f.x(p.x), f.y(p.y)
			if math.IsNaN(x+y) || x < f.left || x > f.right || y < f.top || y > f.bottom {
				t.Errorf("%+v is at %v, %v of %+v", p, x, y, f)
			}
		}
	}
}

// The trend of the noisy training loss is a line of its own, if there are enough values.
func TestSmoothed(t *testing.T) {
	var points []point
	for i := range 400 {
		points = append(points, point{float64(i), 5 + float64(i%2)})
	}
	smooth := smoothed(points)
	if len(smooth) != len(points) || smooth[200].x != 200 || math.Abs(smooth[200].y-5.5) > 0.05 {
		t.Errorf("%d points, in the middle %+v", len(smooth), smooth[200])
	}
	if smoothed(points[:30]) != nil {
		t.Error("30 points were smoothed")
	}
}

// Reliable machines count as replicas only while they train alone.
func TestReplicas(t *testing.T) {
	l := Live{Fleet: []Fleet{{Tier: "reliable", Joined: 1}}}
	if n := l.Replicas().Joined; n != 1 {
		t.Errorf("alone: %d", n)
	}
	l.Fleet = append(l.Fleet, Fleet{Tier: "transient", Joined: 2, Starting: 3})
	if n := l.Replicas(); n.Joined != 2 || n.Starting != 3 {
		t.Errorf("%+v", n)
	}
}

// Prices within a fraction of an octave have labels, too.
func TestTicksOfANarrowLogAxis(t *testing.T) {
	for _, prices := range [][2]float64{{.0518, .0528}, {.19, .23}, {.05, .2}, {1e-3, 1e3}} {
		c := chart{logY: true, lines: []line{{points: []point{{0, prices[0]}, {1, prices[1]}}}}}
		f := c.frame(500, 300)
		ticks := c.yTicks(f)
		if len(ticks) < 2 || len(ticks) > 9 {
			t.Errorf("%v: %v", prices, ticks)
		}
		for _, v := range ticks {
			if y := f.y(v); y < f.top || y > f.bottom {
				t.Errorf("%v: %g is outside", prices, v)
			}
		}
	}
}

// Only a long report leaves out what is off the screen: pictures of whole pages are complete otherwise.
func TestOnlyLongReportsSkipLayout(t *testing.T) {
	r := storyReport(t, journaltest.New(1).Entries)
	event := r.Events[0]
	for events, want := range map[int]bool{10: false, 10_000: true} {
		r.Events = slices.Repeat([]cost.Event{event}, events)
		if got := strings.Contains(render(t, r), `<body class="long">`); got != want {
			t.Errorf("%d events: long is %v", events, got)
		}
	}
}
