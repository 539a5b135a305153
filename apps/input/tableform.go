package input

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tierml/tierml/internal/pattern"
)

// LooksTable reports whether a text begins like a table.
func LooksTable(first []byte) bool {
	separator, _ := tableForm(first)
	return separator != ' ' || blankTable(someLines(first))
}

// beforeTable skips what tools write above a table: comments, and a spreadsheet's note of the separator.
func beforeTable(first []byte) (rest []byte, skipped int) {
	rest = first
	for {
		line, below, more := bytes.Cut(rest, []byte("\n"))
		note := bytes.HasPrefix(line, []byte("sep=")) && len(bytes.TrimSpace(line)) <= len("sep=;")
		if !more || !note && !isComment(string(line)) {
			return rest, len(first) - len(rest)
		}
		if next, _, _ := bytes.Cut(below, []byte("\n")); !note && sameFields(line, next) {
			return rest, len(first) - len(rest) // a header that begins with a comment sign
		}
		rest = below
	}
}

// isComment reports whether a line is a comment rather than a row whose first cell is #1 or #tag. PowerShell's
// Export-Csv writes #TYPE.
func isComment(line string) bool {
	rest, comment := strings.CutPrefix(line, "#")
	return comment && (strings.TrimSpace(rest) == "" || rest[0] == ' ' || rest[0] == '#' || strings.HasPrefix(rest, "TYPE "))
}

// nextRow reads a row, and skips comments between rows.
func nextRow(lines *csv.Reader) (fields []string, err error) {
	for {
		fields, err = lines.Read()
		if !errors.Is(err, csv.ErrFieldCount) || len(fields) == 0 || !isComment(fields[0]) {
			return fields, err
		}
	}
}

// quoted returns advice about single quotes around some field; empty = there are none.
func quoted(fields ...string) string {
	for _, field := range fields {
		if strings.HasPrefix(strings.TrimSpace(field), "'") || strings.Contains(field, ",'") {
			return "; quotes are \", not ': `python3 -c 'import csv,sys; csv.writer(sys.stdout).writerows(csv.reader(sys.stdin,quotechar=chr(39)))' <OLD >NEW` writes them so"
		}
	}
	return ""
}

// lastComment returns the last line above a table, where NumPy writes the columns' names.
func lastComment(above []byte) string {
	above = bytes.TrimSpace(above)
	return strings.TrimLeft(string(above[bytes.LastIndexByte(above, '\n')+1:]), "# ")
}

// sameFields reports whether two lines have the same fields with some separator that both contain.
func sameFields(a, b []byte) bool {
	return slices.ContainsFunc([]string{",", ";", "\t", "|"}, func(mark string) bool {
		n := bytes.Count(a, []byte(mark))
		return n > 0 && n == bytes.Count(b, []byte(mark))
	})
}

// shownLines is how many lines are examined to find a table's separator.
const shownLines = 10

func someLines(first []byte) []string {
	lines := strings.SplitN(string(first), "\n", shownLines+1)
	if len(lines) > 1 {
		lines = lines[:len(lines)-1] // the last line may be incomplete or empty
	}
	some := 0
	return slices.DeleteFunc(lines, func(line string) bool {
		if strings.TrimSpace(line) == "" || some > 0 && isComment(line) {
			return true
		}
		some++
		return false
	})
}

// tableForm finds the separator of a table's cells; even: all lines have the same number of cells.
func tableForm(first []byte) (separator rune, even bool) {
	lines := someLines(first)
	best := 1
	for _, mark := range []string{";", "\t", "|", ","} {
		if n := evenFields(lines, mark); n > best {
			separator, best = rune(mark[0]), n
		}
	}
	if best > 1 {
		return separator, true
	}
	for _, mark := range []string{",", ";", "\t"} {
		if len(lines) > 0 && strings.Contains(lines[0], mark) {
			return rune(mark[0]), false
		}
	}
	if blankTable(lines) {
		return ' ', true
	}
	return ' ', false
}

// comesAgain counts the first line's fields that recur in the same column of a later line.
func comesAgain(lines []string, mark string) (again int) {
	if len(lines) == 0 {
		return 0
	}
	first, _ := splitFields(strings.TrimSuffix(lines[0], "\r"), mark)
	for i, field := range first {
		if field != "" && slices.ContainsFunc(lines[1:], func(line string) bool {
			fields, _ := splitFields(strings.TrimSuffix(line, "\r"), mark)
			return i < len(fields) && fields[i] == field
		}) {
			again++
		}
	}
	return again
}

// evenFields returns how many fields each line has; 0 = the lines differ.
func evenFields(lines []string, mark string) (n int) {
	for _, line := range lines {
		fields, closed := splitFields(strings.TrimSuffix(line, "\r"), mark)
		switch {
		case !closed: // a cell with several lines
			continue
		case n != 0 && len(fields) != n:
			return 0
		}
		n = len(fields)
	}
	return n
}

// blankTable reports whether lines are rows separated by blanks, not text: text has lines of any length and no numbers.
func blankTable(lines []string) bool {
	if len(lines) < 2 || evenFields(lines, " ") < 2 {
		return false
	}
	form := numberForm{}
	return slices.ContainsFunc(strings.Fields(lines[1]), func(field string) bool { _, ok := form.parse(field); return ok })
}

// blanks replaces the blanks between words by tabs.
type blanks struct {
	in   *bufio.Reader
	rest string
	err  error
}

// Read implements io.Reader.
func (b *blanks) Read(p []byte) (n int, err error) {
	for b.rest == "" {
		if b.err != nil {
			return 0, b.err
		}
		var line string
		line, b.err = b.in.ReadString('\n')
		if b.rest = strings.Join(blankFields(line), "\t"); b.rest != "" || b.err == nil {
			b.rest += "\n"
		}
		if len(line) > maxSparseLine {
			b.err = errors.Join(io.ErrShortBuffer, b.err)
		}
	}
	n = copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// blankFields splits a line at its blanks, but not within quotes.
func blankFields(line string) (fields []string) {
	if !strings.Contains(line, `"`) {
		return strings.Fields(line)
	}
	start, quoted := -1, false
	for i, c := range line + "\n" {
		quoted = quoted != (c == '"')
		switch blank := !quoted && unicode.IsSpace(c); {
		case !blank && start < 0:
			start = i
		case blank && start >= 0:
			fields, start = append(fields, line[start:i]), -1
		}
	}
	if start >= 0 { // the quote is not closed
		fields = append(fields, line[start:])
	}
	return fields
}

// header returns the names of the columns, and whether the first line has them.
func (t *tableReader) header(first, second []string) (names []string, isHeader bool, err error) {
	if given := t.options.Columns; len(given) > 0 {
		if len(given) == len(first)+1 && t.options.Target != "" {
			given = slices.DeleteFunc(slices.Clone(given), func(name string) bool { return name == t.options.Target })
		}
		if len(given) != len(first) {
			return nil, false, fmt.Errorf("%d columns, and columns names %d", len(first), len(given))
		}
		t.headerless = given
		return given, t.names(first, second) || slices.Equal(first, given), nil
	}
	if !t.isData(first, second) {
		return first, true, nil
	}
	if len(t.above) == len(first) && t.names(t.above, first) {
		t.headerless = t.above
		return t.above, false, nil
	}
	for i := range first {
		names = append(names, fmt.Sprintf("c%d", i+1))
	}
	t.headerless = names
	t.notes = append(t.notes, fmt.Sprintf("the first line names no columns: they are c1 to c%d; train.columns names them", len(first)))
	return names, false, nil
}

// names reports whether the first line has words where the second has numbers.
func (t *tableReader) names(first, second []string) bool {
	for i := range min(len(first), len(second)) {
		_, above := t.number.parse(strings.TrimSpace(first[i]))
		_, below := t.number.parse(strings.TrimSpace(second[i]))
		if !above && below && !missing(strings.TrimSpace(first[i])) {
			return true
		}
	}
	return false
}

// namesRows reports whether the rows below the header have one more cell, the row's name, above which R and pandas write nothing. Commas
// may also be part of an unquoted word.
func (t *tableReader) namesRows(header, row []string, separator rune) bool {
	return len(row) == len(header)+1 && row[len(header)] != "" && t.names(header, row[1:]) && (separator != ',' || row[0] == "0" || row[0] == "1")
}

// isData reports whether the first line looks like the second: it has numbers, in the same columns, or words most of which recur in
// their columns. Numbers that count up, such as years, are names, and so are dates above other numbers.
func (t *tableReader) isData(first, second []string) bool {
	var found []float64
	for i, field := range first {
		field = strings.TrimSpace(field)
		x, number := t.number.parse(field)
		if number {
			found = append(found, x)
		}
		if second == nil {
			continue
		}
		below := strings.TrimSpace(second[i])
		_, numberBelow := t.number.parse(below)
		_, date := parseDate(field)
		_, dateBelow := parseDate(below)
		if (number != numberBelow || date && !dateBelow) && !missing(field) && !missing(below) {
			return false
		}
	}
	if len(found) == 0 {
		return 2*t.again >= len(first) && t.again > 0
	}
	for i := 1; i < len(found); i++ {
		if found[i] != found[i-1]+1 {
			return true
		}
	}
	const fewest = 3 // two numbers in a row of data may be consecutive by chance
	return len(found) < fewest && !(len(found) == 2 && found[0] >= 1900 && found[1] <= 2100)
}

// missing reports whether a field stands for a missing value.
func missing(field string) bool {
	switch field {
	case "", "NA", "?", "NaN", "nan", "-nan", "NULL", "null", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaT", `\N`, ".", "-":
		return true
	}
	return false
}

// numberForm is a notation of numbers.
type numberForm struct {
	comma bool // 1234,5
}

var (
	// thousands matches a number with thousands separators, decimalComma a number with a decimal comma.
	thousands    = pattern.Of(`^[+-]?([0-9]{1,3}(,[0-9]{3})+|[0-9]{1,2}(,[0-9]{2})+,[0-9]{3})(\.[0-9]+)?$`) // the second as in India
	decimalComma = pattern.Of(`^[+-]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+),[0-9]+$`)
	// signed matches a number with a currency before or behind it, or followed by a percent sign.
	signed = pattern.Of(`^([+-]?)(?:([A-Z]{0,2}\p{Sc}|[A-Z]{3}) ?)?([0-9][0-9.,]*)(?: ?(\p{Sc}|%|[A-Z]{3}))?$`)
	// grouped matches digits in groups with blanks or apostrophes between them, negative a number in an accountant's parentheses.
	grouped  = pattern.Of(`^([+-]?[0-9]{1,3})([ \x{a0}\x{202f}'’][0-9]{3})+([.,][0-9]+)?$`)
	negative = pattern.Of(`^\(([^()]+)\)$`)
)

// currencies are usual codes of currencies.
var currencies = []string{"USD", "EUR", "GBP", "CHF", "JPY", "CNY", "INR", "CAD", "AUD", "NZD", "BRL", "MXN", "SEK", "NOK", "DKK", "PLN", "CZK", "ZAR", "KRW", "SGD", "HKD"}

// isUnit reports whether letters and signs beside a number are a currency or a percent sign.
func isUnit(text string) bool {
	return strings.IndexFunc(text, func(c rune) bool { return c < 'A' || c > 'Z' }) >= 0 || text == "" || slices.Contains(currencies, text)
}

// plainNumber removes typesetters' and accountants' marks from numbers.
func plainNumber(field string) string {
	if found := negative().FindStringSubmatch(field); found != nil {
		field = "-" + found[1]
	}
	field = strings.Replace(field, "\u2212", "-", 1)
	if grouped().MatchString(field) {
		field = strings.NewReplacer(" ", "", "\u00a0", "", "\u202f", "", "'", "", "’", "").Replace(field)
	}
	return field
}

// parse parses a number, an amount of money, a percentage, a date (as days since 1970) or a time (as a part of the day).
func (f *numberForm) parse(field string) (x float64, ok bool) {
	x, err := strconv.ParseFloat(field, 32)
	if (err == nil || errors.Is(err, strconv.ErrRange)) && !strings.ContainsAny(field, "_xX") { // Go's number forms 1_1 and 0x1p4 are names in tables
		return x, true
	}
	if !strings.ContainsFunc(field, unicode.IsDigit) || len(field) > 40 {
		return 0, false
	}
	if inner, quotes := strings.CutPrefix(field, "'"); quotes && strings.HasSuffix(inner, "'") {
		return f.parse(strings.TrimSuffix(inner, "'"))
	}
	if found := signed().FindStringSubmatch(plainNumber(field)); found != nil && isUnit(found[2]) && isUnit(found[4]) {
		text := found[3]
		switch {
		case f.comma && decimalComma().MatchString(text):
			text = strings.Replace(strings.ReplaceAll(text, ".", ""), ",", ".", 1)
		case thousands().MatchString(text):
			text = strings.ReplaceAll(text, ",", "")
		}
		if x, err = strconv.ParseFloat(found[1]+text, 64); err == nil {
			return x, true
		}
	}
	if at, is := parseDate(field); is {
		return daysSince1970(at), true
	}
	for _, form := range []string{"15:04", time.TimeOnly, "3:04 PM", "3:04:05 PM"} {
		if at, err := time.Parse(form, field); err == nil {
			return at.Sub(at.Truncate(24*time.Hour)).Hours() / 24, true
		}
	}
	return 0, false
}

// reason explains an ambiguous number or an impossible date; empty = it is neither.
func (f *numberForm) reason(field string) string {
	switch {
	case decimalComma().MatchString(field):
		return fmt.Sprintf("%q may be a number with a comma for its point: write it as 1234.5", field)
	case slashed().MatchString(field):
		return fmt.Sprintf("%q is not a date", field)
	}
	return ""
}
