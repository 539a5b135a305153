// Package invoice reads what providers themselves say that machines have cost (Amazon's cost and usage report, its Spot data
// feed, Google's billing export) and compares it with what was reckoned, machine by machine and hour by hour.
//
// It refuses to know rule books: which of the two is right is for the reader to say.
package invoice

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/decompress"
)

// Line is what a machine cost in a time.
type Line struct {
	Machine  string
	From, To time.Time
	USD      float64
}

// Form is how a file is written.
type Form string

// The forms.
const (
	CostAndUsage  Form = "AWS cost and usage report"
	SpotDataFeed  Form = "AWS Spot data feed"
	BillingExport Form = "GCP billing export"
)

// Read reads a file, plain or compressed, and tells its form from its first line. Lines without a machine (volumes, traffic,
// taxes) are left out.
func Read(r io.Reader) (lines []Line, form Form, err error) {
	plain, err := decompress.Reader(r)
	if err != nil {
		return nil, "", fmt.Errorf("reading a bill: %w", err)
	}
	defer plain.Close()
	text := bufio.NewReader(plain)
	head, err := text.Peek(1)
	if err != nil {
		return nil, "", fmt.Errorf("reading a bill: it is empty: %w", err)
	}
	switch head[0] {
	case '#':
		lines, err = spotDataFeed(text)
		form = SpotDataFeed
	case '{', '[':
		lines, err = exportJSON(text)
		form = BillingExport
	default:
		lines, form, err = table(text)
	}
	if err != nil {
		return nil, form, fmt.Errorf("reading a bill: %w", err)
	}
	return lines, form, nil
}

// spotDataFeed reads lines of fields, with tabs between, that a comment names. Each is an hour, or what was used of it, that
// ends at its time.
func spotDataFeed(r io.Reader) (lines []Line, err error) {
	text := bufio.NewScanner(r)
	columns := []string{"Timestamp", "UsageType", "Operation", "InstanceID", "MyBidID", "MyMaxPrice", "MarketPrice", "Charge", "Version"}
	for n := 1; text.Scan(); n++ {
		line := strings.TrimRight(text.Text(), "\r")
		if names, ok := strings.CutPrefix(line, "#Fields:"); ok {
			columns = strings.Fields(names)
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		field := func(name string) string {
			parts := strings.Split(line, "\t")
			if i := slices.Index(columns, name); i >= 0 && i < len(parts) {
				return parts[i]
			}
			return ""
		}
		at, err := time.Parse("2006-01-02 15:04:05 MST", field("Timestamp"))
		amount, currency, _ := strings.Cut(field("Charge"), " ")
		usd, err2 := strconv.ParseFloat(amount, 64)
		if currency != "" && currency != "USD" {
			err2 = fmt.Errorf("the charge is in %s", currency)
		}
		if err := errors.Join(err, err2); err != nil || field("InstanceID") == "" {
			return nil, fmt.Errorf("line %d: %w", n, cmp.Or(err, errors.New("it names no machine")))
		}
		hour := at.Truncate(time.Hour)
		lines = append(lines, Line{field("InstanceID"), hour, hour.Add(time.Hour), usd})
	}
	return lines, text.Err()
}

// The columns of tables, by form: machine, from, to, cost.
var tables = []struct {
	form    Form
	columns [4]string
}{
	{CostAndUsage, [4]string{"lineItem/ResourceId", "lineItem/UsageStartDate", "lineItem/UsageEndDate", "lineItem/UnblendedCost"}},
	{CostAndUsage, [4]string{"line_item_resource_id", "line_item_usage_start_date", "line_item_usage_end_date", "line_item_unblended_cost"}},
	{BillingExport, [4]string{"resource.name", "usage_start_time", "usage_end_time", "cost"}},
	{BillingExport, [4]string{"resource_name", "usage_start_time", "usage_end_time", "cost"}},
}

// table reads CSV whose header names the columns of one of the forms.
func table(r io.Reader) (lines []Line, form Form, err error) {
	rows := csv.NewReader(r)
	header, err := rows.Read()
	if err != nil {
		return nil, "", err
	}
	var at [4]int
	for _, t := range tables {
		complete := true
		for i, name := range t.columns {
			at[i] = slices.Index(header, name)
			complete = complete && at[i] >= 0
		}
		if complete {
			form = t.form
			break
		}
	}
	if form == "" {
		return nil, "", errors.New("its first line is of no form that is known: an AWS cost and usage report with resource ids (lineItem/ResourceId ...), " +
			"an AWS Spot data feed (#Version ...), or a detailed GCP billing export (resource.name ...)")
	}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return lines, form, nil
		}
		if err != nil {
			return nil, form, err
		}
		n, _ := rows.FieldPos(0)
		l, err := lineOf(row[at[0]], row[at[1]], row[at[2]], row[at[3]])
		if err != nil {
			return nil, form, fmt.Errorf("line %d: %w", n, err)
		}
		if form == BillingExport || strings.HasPrefix(l.Machine, "i-") {
			lines = append(lines, l)
		}
	}
}

func lineOf(machine, from, to, cost string) (l Line, err error) {
	var errs [3]error
	l.Machine = machine[strings.LastIndexByte(machine, '/')+1:]
	l.From, errs[0] = parseTime(from)
	l.To, errs[1] = parseTime(to)
	l.USD, errs[2] = strconv.ParseFloat(cost, 64)
	if cost == "" {
		l.USD, errs[2] = 0, nil
	}
	return l, errors.Join(errs[:]...)
}

// parseTime reads the forms that the providers write.
func parseTime(text string) (t time.Time, err error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05 MST", "2006-01-02 15:04:05"} {
		if t, err = time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return t, fmt.Errorf("%q is not a time", text)
}

// exportJSON reads Google's detailed usage cost export as BigQuery writes it: objects, one after the other or in a list.
// Credits, such as discounts, are part of the cost.
func exportJSON(r *bufio.Reader) (lines []Line, err error) {
	if head, _ := r.Peek(1); head[0] == '[' {
		var all []exported
		if err := json.NewDecoder(r).Decode(&all); err != nil {
			return nil, err
		}
		for i, e := range all {
			if lines, err = e.add(lines); err != nil {
				return nil, fmt.Errorf("entry %d: %w", i+1, err)
			}
		}
		return lines, nil
	}
	objects := json.NewDecoder(r)
	for n := 1; ; n++ {
		var e exported
		err := objects.Decode(&e)
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err == nil {
			lines, err = e.add(lines)
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", n, err)
		}
	}
}

type exported struct {
	Resource struct {
		Name string `json:"name"`
	} `json:"resource"`
	Start   string      `json:"usage_start_time"`
	End     string      `json:"usage_end_time"`
	Cost    json.Number `json:"cost"`
	Credits []struct {
		Amount json.Number `json:"amount"`
	} `json:"credits"`
}

func (e exported) add(lines []Line) ([]Line, error) {
	if e.Resource.Name == "" {
		return lines, nil
	}
	l, err := lineOf(e.Resource.Name, e.Start, e.End, e.Cost.String())
	if err != nil {
		return nil, err
	}
	for _, c := range e.Credits {
		v, err := c.Amount.Float64()
		if err != nil {
			return nil, fmt.Errorf("a credit: %w", err)
		}
		l.USD += v
	}
	return append(lines, l), nil
}

// Difference is an hour of a machine in which the two do not agree.
type Difference struct {
	Machine string    `json:"machine"`
	Hour    time.Time `json:"hour"`
	Ours    float64   `json:"ours_usd"`
	Theirs  float64   `json:"theirs_usd"`
}

// Comparison is what was reckoned beside what the provider says.
type Comparison struct {
	Form        Form         `json:"form"`
	Machines    int          `json:"machines"` // of ours
	Missing     int          `json:"missing"`  // of them, those that the provider's record does not have
	Others      int          `json:"others"`   // machines of the record that are not ours: left out
	Ours        float64      `json:"ours_usd"`
	Theirs      float64      `json:"theirs_usd"`
	Differences []Difference `json:"differences"` // by hour, then machine
}

// Compare matches lines by machine and hour of the clock; a line that lasts longer is spread evenly. Differences up to the
// tolerance, in dollars, are none.
func Compare(ours, theirs []Line, form Form, tolerance float64) Comparison {
	c := Comparison{Form: form, Differences: []Difference{}}
	mine, all := map[string]bool{}, map[string]bool{}
	for _, l := range ours {
		mine[l.Machine] = true
	}
	for _, l := range theirs {
		all[l.Machine] = true
	}
	c.Machines = len(mine)
	for m := range mine { // any order: it counts
		if !all[m] {
			c.Missing++
		}
	}
	for m := range all {
		if !mine[m] {
			c.Others++
		}
	}
	hours := map[[2]string]*Difference{}
	spread(ours, mine, hours, func(d *Difference, usd float64) { d.Ours += usd; c.Ours += usd })
	spread(theirs, mine, hours, func(d *Difference, usd float64) { d.Theirs += usd; c.Theirs += usd })
	for _, d := range hours {
		if math.Abs(d.Ours-d.Theirs) > tolerance {
			c.Differences = append(c.Differences, *d)
		}
	}
	slices.SortFunc(c.Differences, func(a, b Difference) int { return cmp.Or(a.Hour.Compare(b.Hour), cmp.Compare(a.Machine, b.Machine)) })
	return c
}

// spread cuts lines of some machines into hours of the clock.
func spread(lines []Line, of map[string]bool, hours map[[2]string]*Difference, add func(*Difference, float64)) {
	for _, l := range lines {
		if !of[l.Machine] {
			continue
		}
		if !l.To.After(l.From) {
			l.To = l.From.Add(time.Second)
		}
		for hour := l.From.UTC().Truncate(time.Hour); hour.Before(l.To); hour = hour.Add(time.Hour) {
			from, to := hour, hour.Add(time.Hour)
			if l.From.After(from) {
				from = l.From
			}
			if l.To.Before(to) {
				to = l.To
			}
			key := [2]string{l.Machine, hour.Format(time.RFC3339)}
			if hours[key] == nil {
				hours[key] = &Difference{Machine: l.Machine, Hour: hour}
			}
			add(hours[key], l.USD*to.Sub(from).Seconds()/l.To.Sub(l.From).Seconds())
		}
	}
}
