package quote

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/grid"
	"github.com/tierml/tierml/market"
)

func appendSeconds(d time.Duration) []byte {
	return strconv.AppendFloat(nil, d.Seconds(), 'f', -1, 64)
}

// unknown is shown for unknown values.
const unknown = "-"

// stale is the age from which a price is marked: EC2 repeats an unchanged one about daily.
const stale = 25 * time.Hour

// WriteTable prints the quotes of pools whose price is known, in lines of width columns, unless width is 0; wide adds the on-demand price,
// the basis of the figures, the provider's own statement and the last week as a row of bars.
func WriteTable(w io.Writer, quotes []Quote, width int, wide bool) error {
	g := &grid.Grid{Head: []string{"ZONE", "TYPE", ">$/HOUR ", ">SAVES", ">$/VCPU", ">MTTF", ">IN 1H", ">IN JOB"}, Names: 2, Width: width}
	if wide {
		g.Head = append(g.Head, ">ON DEMAND", ">BID", ">PRICES", ">DAYS", ">CROSSED", ">ADVISOR", "LAST WEEK, UP TO THE ON-DEMAND PRICE")
		g.Width = 0
	}
	unpriced, old := 0, 0
	for _, q := range quotes {
		if q.Price == nil {
			unpriced++
			continue
		}
		mark := " "
		if time.Duration(*q.PriceAge) > stale {
			mark = "*"
			old++
		}
		cells := []string{q.Pool.Zone, q.Pool.Type, dollars(q.Price, 4) + mark, percent(q.Saving), dollars(q.PerVCPU, 5), mttf(q.MTTF),
			percent(q.InHour), percent(q.InJob)}
		if wide {
			cells = append(cells, q.more()...)
		}
		g.Add(cells...)
	}
	var b strings.Builder
	b.WriteString(g.String())
	if old > 0 {
		fmt.Fprintf(&b, "\n* no price for more than %.0f hours: the last one may not hold any more\n", stale.Hours())
	}
	if unpriced > 0 {
		fmt.Fprintf(&b, "\nno price at that time: %d pool%s\n", unpriced, strings.Repeat("s", min(unpriced-1, 1)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// more returns the cells of the wide form.
func (q *Quote) more() []string {
	crossed, advice := unknown, unknown
	if q.MTTF != nil {
		crossed = strconv.Itoa(q.MTTF.Crossings)
	}
	if q.Advice != nil {
		advice = q.Advice.Interrupted
	}
	return []string{dollars(q.OnDemand, 4), dollars(q.Bid, 4), strconv.Itoa(q.Points), fmt.Sprintf("%.0f", time.Duration(q.Span).Hours()/24),
		crossed, advice, bars(q.Recent)}
}

func dollars(u *market.USD, decimals int) string {
	if u == nil {
		return unknown
	}
	return strconv.FormatFloat(float64(*u)/float64(market.Dollar), 'f', decimals, 64)
}

func percent(share *float64) string {
	if share == nil {
		return unknown
	}
	return fmt.Sprintf("%.0f%%", 100**share)
}

// mttf formats a duration for people; ">" means that no crossing was seen in this time.
func mttf(m *MTTF) string {
	if m == nil {
		return unknown
	}
	sign := ""
	if m.AtLeast {
		sign = ">"
	}
	return sign + span(time.Duration(m.Mean))
}

func span(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.1fd", d.Hours()/24)
	case d >= time.Hour:
		return fmt.Sprintf("%.1fh", d.Hours())
	default:
		return fmt.Sprintf("%.0fm", d.Minutes())
	}
}

// bars draws shares from 0 to 1 by height; above 1 it is "!", unknown a space.
func bars(shares []float64) string {
	const heights = "▁▂▃▄▅▆▇█"
	var b strings.Builder
	for _, share := range shares {
		switch {
		case share < 0:
			b.WriteByte(' ')
		case share > 1:
			b.WriteByte('!')
		default:
			height := min(int(math.Floor(share*8)), 7)
			b.WriteString(string([]rune(heights)[height]))
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// WriteJSON prints an array with one object per pool; null stands for unknown.
func WriteJSON(w io.Writer, quotes []Quote) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(quotes)
}

// WriteCSV prints one row per pool; an empty field stands for unknown.
func WriteCSV(w io.Writer, quotes []Quote) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"pool", "vcpu", "price", "price_age_seconds", "on_demand", "saving", "per_vcpu_hour", "bid", "mttf_seconds",
		"mttf_at_least", "crossings", "eviction_in_hour", "eviction_in_job", "points", "span_seconds", "advisor_interrupted"})
	for _, q := range quotes {
		row := []string{q.Pool.String(), strconv.Itoa(q.VCPU), amount(q.Price), "", amount(q.OnDemand), number(q.Saving), amount(q.PerVCPU),
			amount(q.Bid), "", "", "", number(q.InHour), number(q.InJob), strconv.Itoa(q.Points), string(appendSeconds(time.Duration(q.Span))), ""}
		if q.PriceAge != nil {
			row[3] = string(appendSeconds(time.Duration(*q.PriceAge)))
		}
		if q.MTTF != nil {
			row[8], row[9], row[10] = string(appendSeconds(time.Duration(q.MTTF.Mean))), strconv.FormatBool(q.MTTF.AtLeast), strconv.Itoa(q.MTTF.Crossings)
		}
		if q.Advice != nil {
			row[15] = q.Advice.Interrupted
		}
		_ = c.Write(row)
	}
	c.Flush() // keeps the first error
	return c.Error()
}

func amount(u *market.USD) string {
	if u == nil {
		return ""
	}
	return u.String()
}

func number(x *float64) string {
	if x == nil {
		return ""
	}
	return strconv.FormatFloat(*x, 'f', -1, 64)
}
