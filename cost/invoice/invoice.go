// Package invoice reads providers' own statements of what machines have cost and compares them with the computed bill, machine by machine
// and hour by hour.
//
// It does not know rule books, nor which of the two is right; providers supply their formats.
package invoice

import (
	"bufio"
	"cmp"
	"encoding/csv"
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

// Line is the cost of a machine in a time.
type Line struct {
	Machine  string
	From, To time.Time
	USD      float64
	Traffic  bool // it is for sent data, not for time
}

// Form is a provider's file format: a table with columns of these names, or anything that Read reads.
type Form struct {
	Name    string    // for people
	Looks   string    // what its first line looks like, for messages
	Columns [4]string // machine, from, to, cost
	// Machine reports whether a line of the table is about a machine, by its name; nil = each is.
	Machine func(name string) bool
	// Kind is the column with the purpose of a line, if the file has it, and Traffic whether that is traffic; "" = no line is.
	Kind    string
	Traffic func(kind string) bool
	// First are the possible first characters of a file for Read; empty = it is a table.
	First string
	Read  func(*bufio.Reader) ([]Line, error)
}

// Read reads a file, plain or compressed, in one of the forms, and returns the form's name. Lines without a machine (volumes, traffic,
// taxes) are skipped.
func Read(r io.Reader, forms []Form) (lines []Line, form string, err error) {
	plain, err := decompress.Reader(r)
	if err != nil {
		return nil, "", fmt.Errorf("reading a bill: %w", err)
	}
	defer plain.Close()
	text := bufio.NewReader(plain)
	first, err := text.Peek(1)
	if err != nil {
		return nil, "", fmt.Errorf("reading a bill: it is empty: %w", err)
	}
	if i := slices.IndexFunc(forms, func(f Form) bool { return strings.ContainsRune(f.First, rune(first[0])) }); i >= 0 {
		form = forms[i].Name
		lines, err = forms[i].Read(text)
	} else {
		lines, form, err = table(text, forms)
	}
	if err != nil {
		return nil, form, fmt.Errorf("reading a bill: %w", err)
	}
	return lines, form, nil
}

// table reads CSV whose header names the columns of one of the forms.
func table(r io.Reader, forms []Form) (lines []Line, name string, err error) {
	rows := csv.NewReader(r)
	header, err := rows.Read()
	if err != nil {
		return nil, "", err
	}
	var at [4]int
	i := slices.IndexFunc(forms, func(f Form) bool {
		complete := f.First == ""
		for i, name := range f.Columns {
			at[i] = slices.Index(header, name)
			complete = complete && at[i] >= 0
		}
		return complete
	})
	if i < 0 {
		var looks []string
		for _, f := range forms {
			if f.Looks != "" {
				looks = append(looks, f.Looks)
			}
		}
		return nil, "", fmt.Errorf("its first line is of no form that is known: %s", strings.Join(looks, "; "))
	}
	form := forms[i]
	kind := slices.Index(header, form.Kind)
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return lines, form.Name, nil
		}
		if err != nil {
			return nil, form.Name, err
		}
		n, _ := rows.FieldPos(0)
		l, err := ReadLine(row[at[0]], row[at[1]], row[at[2]], row[at[3]])
		if err != nil {
			return nil, form.Name, fmt.Errorf("line %d: %w", n, err)
		}
		l.Traffic = kind >= 0 && form.Traffic != nil && form.Traffic(row[kind])
		if form.Machine == nil || form.Machine(l.Machine) {
			lines = append(lines, l)
		}
	}
}

// ReadLine reads the texts of a line. A machine may be named by a path; an empty cost is none.
func ReadLine(machine, from, to, cost string) (l Line, err error) {
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

// Difference is an hour of a machine in which the two differ.
type Difference struct {
	Machine string    `json:"machine"`
	Hour    time.Time `json:"hour"`
	Ours    float64   `json:"ours_usd"`
	Theirs  float64   `json:"theirs_usd"`
}

// Comparison sets our figures against the provider's.
type Comparison struct {
	Form     string  `json:"form"`
	Machines int     `json:"machines"` // of ours
	Missing  int     `json:"missing"`  // machines that the provider's record lacks
	Others   int     `json:"others"`   // machines of the record that are not ours: skipped
	Ours     float64 `json:"ours_usd"`
	Theirs   float64 `json:"theirs_usd"`
	// Traffic of these machines is in neither sum: one estimates it, the other meters it.
	OurTraffic   float64      `json:"our_traffic_usd,omitempty"`
	TheirTraffic float64      `json:"their_traffic_usd,omitempty"`
	Differences  []Difference `json:"differences"` // by hour, then machine
}

// Compare matches lines by machine and hour of the clock; a longer line is spread evenly. Differences up to the tolerance, in dollars, are
// ignored.
func Compare(ours, theirs []Line, form string, tolerance float64) Comparison {
	c := Comparison{Form: form, Differences: []Difference{}}
	mine, all := map[string]bool{}, map[string]bool{}
	for _, l := range ours {
		mine[l.Machine] = true
	}
	for _, l := range theirs {
		all[l.Machine] = true
	}
	c.Machines = len(mine)
	for m := range mine { // in any order: only the count matters
		if !all[m] {
			c.Missing++
		}
	}
	for m := range all {
		if !mine[m] {
			c.Others++
		}
	}
	ours, c.OurTraffic = apart(ours, mine)
	theirs, c.TheirTraffic = apart(theirs, mine)
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

// apart returns the lines that are not for traffic, and the sum of the others of some machines.
func apart(lines []Line, of map[string]bool) (rest []Line, traffic float64) {
	for _, l := range lines {
		switch {
		case !l.Traffic:
			rest = append(rest, l)
		case of[l.Machine]:
			traffic += l.USD
		}
	}
	return rest, traffic
}

// spread splits lines of some machines into hours of the clock.
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
