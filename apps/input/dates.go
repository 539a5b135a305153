package input

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/pattern"
)

// dateForms are the notations of dates; 3-4-2024 has the day first, and 3/4/2024 what its column shows.
var dateForms = []string{time.DateOnly, time.DateTime, "2006-01-02 15:04", "2006-01-02T15:04:05", time.RFC3339, "2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04:05 UTC", "20060102T150405", "20060102T150405Z07:00", time.ANSIC, time.RFC1123Z, "Mon, 02 Jan 2006 15:04:05 GMT",
	"2006/1/2", "2006/1/2 15:04", "2006/1/2 15:04:05", "2006/1/2 3:04 PM", "2006/1/2 3:04:05 PM", "2.1.2006",
	"1/2/2006", "1/2/2006 15:04", "1/2/2006 15:04:05", "1/2/2006 3:04:05 PM", "1/2/2006 3:04 PM", "1/2/06", "1/2/06 15:04",
	"2-1-2006", "2-1-2006 15:04", "2-Jan-2006", "2-Jan-06", "2 Jan 2006", "Jan 2, 2006", "2 January 2006", "January 2, 2006",
	"2006-01", "Jan-2006", "Jan 2006", "January 2006"} // the last are months, which begin on their first day

func parseDate(field string) (at time.Time, is bool) {
	for _, form := range dateForms {
		if at, err := time.Parse(form, field); err == nil {
			return at, true
		}
	}
	if part := slashed().FindStringSubmatch(field); part != nil { // the day first
		field = part[2] + "/" + part[1] + "/" + part[3] + part[4]
		for _, form := range dateForms {
			if at, err := time.Parse(form, field); err == nil {
				return at, true
			}
		}
	}
	return at, false
}

func daysSince1970(at time.Time) float64 { return float64(at.Unix()) / (24 * 60 * 60) }

// slashed matches 3/4/2024, perhaps with a time behind it.
var slashed = pattern.Of(`^([0-9]{1,2})/([0-9]{1,2})/([0-9]{4}|[0-9]{2})( .*)?$`)

// dateOrder is what comes first in a column's dates with slashes.
type dateOrder int

const (
	unknownOrder dateOrder = iota
	monthFirst
	dayFirst
)

// DateOrderError says that a column's dates with slashes do not show whether the month or the day comes first.
type DateOrderError struct{ error }

// ClearDate reports whether a line has a date with slashes that shows it.
func ClearDate(line []byte) bool {
	for _, part := range slashedIn().FindAllSubmatch(line, -1) {
		first, _ := strconv.Atoi(string(part[1]))
		second, _ := strconv.Atoi(string(part[2]))
		if (first > 12) != (second > 12) {
			return true
		}
	}
	return false
}

// packed matches names of files that sed cannot read.
var packed = pattern.Of(`(?i)\.(?:gz|bz2|xz|zst|zip|parquet)$`)

// slashedIn matches the beginnings of dates with slashes in a line.
var slashedIn = pattern.Of(`\b([0-9]{1,2})/([0-9]{1,2})/[0-9]{2}`)

// dateColumn finds the order of day and month in a column's dates with slashes: a number above 12 is a day. Until one is seen, dates are
// read as if the month came first, and exchanged at the end.
type dateColumn struct {
	order   dateOrder
	until   int    // number of rows before the order was seen
	unclear int    // dates in them
	others  bool   // other cells are in them
	example string // the first of the unclear dates
}

// parse parses a date with slashes in the column's row of this number; is = the field looks like one.
func (d *dateColumn) parse(field string, row int) (x float64, is bool, reason string) {
	if strings.IndexByte(field, '/') < 0 {
		return 0, false, ""
	}
	part := slashed().FindStringSubmatch(field)
	if part == nil {
		return 0, false, ""
	}
	first, _ := strconv.Atoi(part[1])
	second, _ := strconv.Atoi(part[2])
	order := unknownOrder
	switch {
	case first > 12 && second > 12:
	case first > 12 && len(part[3]) == 2: // may be the year
		return 0, true, fmt.Sprintf("%q may begin with a year or a day: write dates as 2024/4/13, as by `%s`", field, rewrite("{2}", `20\3/\2/\1`))
	case first > 12:
		order = dayFirst
	case second > 12:
		order = monthFirst
	}
	if d.order == unknownOrder && order != unknownOrder {
		d.order, d.until = order, row
	}
	if order != unknownOrder && order != d.order {
		return 0, true, fmt.Sprintf("%q has day and month in another order than the dates above it: write all dates as 2024/4/13", field)
	}
	text := field
	if d.order == dayFirst {
		text = part[2] + "/" + part[1] + "/" + part[3] + part[4]
	}
	at, valid := parseDate(text)
	if !valid {
		return 0, true, fmt.Sprintf("%q is not a date: there is no such day; correct it, or leave it empty", field)
	}
	x = daysSince1970(at)
	if d.order == unknownOrder {
		if d.unclear++; d.unclear == 1 {
			d.example = field
		}
		if day := math.Floor(x); float64(float32(x)) >= day+1 { // rounding must not make it the next day
			x = float64(math.Nextafter32(float32(day+1), 0))
		}
	}
	return x, true, ""
}

// fault explains why a column's dates cannot be read; empty = they can.
func (d *dateColumn) fault(column string) string {
	switch {
	case d.unclear == 0 || d.order == monthFirst:
		return ""
	case d.order == dayFirst && d.others:
		return fmt.Sprintf("has dates such as %q among other cells: write all dates as 2024/4/13", d.example)
	case d.order == dayFirst:
		return ""
	}
	return fmt.Sprintf("has dates such as %q, and none shows whether the month or the day comes first: write them as 2024/4/13, if the month is first by `%s`, "+
		"if the day is first by `%s`; train.ignore: [%s] leaves the column out", d.example, rewrite("{4}", `\3/\1/\2`), rewrite("{4}", `\3/\2/\1`), column)
}

// rewrite is a command that rewrites dates, for years with this many digits.
func rewrite(digits, form string) string {
	return "sed -E 's#([0-9]{1,2})/([0-9]{1,2})/([0-9]" + digits + ")#" + form + "#g' OLD >NEW"
}

// exchanged returns the value of a date whose day and month were taken for each other.
func exchanged(x float32) float32 {
	day, part := math.Modf(float64(x))
	if part < 0 { // before 1970
		day, part = day-1, part+1
	}
	year, month, of := time.Unix(int64(day)*24*60*60, 0).UTC().Date()
	return float32(daysSince1970(time.Date(year, time.Month(of), int(month), 0, 0, 0, 0, time.UTC)) + part)
}
