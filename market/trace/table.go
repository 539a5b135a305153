package trace

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/pattern"
)

// columnNames are the usual names of the columns, without case and punctuation. In some, region holds zones.
var columnNames = map[string][]string{
	"timestamp":     {"timestamp", "datetime", "date", "time", "ts", "at", "when"},
	"zone":          {"zone", "availabilityzone", "az", "availabilityzonename", "region"},
	"instance_type": {"instancetype", "type", "instance", "machinetype"},
	"product":       {"product", "productdescription", "os", "description", "platform", "operatingsystem"},
	"price":         {"price", "spotprice", "spot", "usd", "priceusd", "usdperhour", "pricehour", "spotpriceusd", "cost"},
}

// columns are the indexes of a table's columns; -1 = missing; only product and clock may be missing.
type columns struct {
	timestamp, zone, kind, product, price int
	clock                                 int  // the time of day, if timestamp is only the date
	comma                                 bool // commas are decimal points
}

func (c columns) row(fields []string, line int, product string) row {
	r := row{line: line, timestamp: fields[c.timestamp], zone: fields[c.zone], kind: fields[c.kind], product: product, price: fields[c.price]}
	if c.product >= 0 {
		r.product = fields[c.product]
	}
	if c.clock >= 0 {
		r.timestamp += " " + fields[c.clock]
	}
	if c.comma && !strings.Contains(r.price, ".") {
		r.price = strings.Replace(r.price, ",", ".", 1)
	}
	return r
}

// awsText is a line of `aws ... --output text`.
const awsText = "SPOTPRICEHISTORY"

var (
	separatorLine = pattern.Of(`^[|+\-:\s]*$`)
	notInWords    = pattern.Of(`[^a-z0-9]+`)
)

// readTable reads lines of fields: CSV with commas, semicolons or tabs, and the formats text and table of the AWS command line.
func readTable(in *bufio.Reader, c *collector) error {
	head, _ := in.Peek(4096)
	first := firstLine(string(head))
	_, below, _ := strings.Cut(string(head), first)
	below = firstLine(below)
	framed := strings.Contains(first, "|") && below != "" && separatorLine().MatchString(below) // psql's table format
	switch {
	case first == "":
		return errors.New("empty file")
	case strings.HasPrefix(first, awsText), strings.Contains(string(head), "\n"+awsText), strings.HasPrefix(first, "|"), strings.HasPrefix(first, "+-"), strings.HasPrefix(first, "--"), framed:
		return readAWS(in, c)
	}
	rows := csv.NewReader(in)
	rows.ReuseRecord = true
	rows.TrimLeadingSpace = true
	rows.Comment = '#'
	for _, separator := range []rune{'\t', ';', ',', '|'} {
		if strings.ContainsRune(first, separator) {
			rows.Comma = separator
			break
		}
	}
	fields, err := rows.Read()
	if err != nil {
		return csvError(err, 0)
	}
	at, named, err := columnsOf(fields)
	if err != nil {
		return &LineError{Line: 1, Err: err}
	}
	at.comma = rows.Comma == ';' || rows.Comma == '\t'
	if at.product < 0 {
		c.summary.NoProduct = true
	}
	width := len(fields)
	if !named {
		if err := c.add(at.row(fields, 1, c.options.Product)); err != nil {
			return err
		}
	}
	for {
		fields, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return csvError(err, width)
		}
		line, _ := rows.FieldPos(0)
		if err := c.add(at.row(fields, line, c.options.Product)); err != nil {
			return err
		}
	}
}

func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return line
		}
	}
	return ""
}

// readAWS reads what `aws ec2 describe-spot-price-history` prints with --output text or table.
func readAWS(in io.Reader, c *collector) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	var at *columns
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		var fields []string
		switch {
		case separatorLine().MatchString(line) || strings.HasPrefix(line, "NEXTTOKEN"):
			continue
		case strings.HasPrefix(line, awsText):
			fields = strings.Split(line, "\t")[1:]
		default:
			for _, field := range strings.Split(strings.Trim(line, "|"), "|") {
				fields = append(fields, strings.TrimSpace(field))
			}
		}
		if at == nil || len(fields) == 1 {
			if len(fields) < 4 {
				continue // a title
			}
			found, named, err := columnsOf(fields)
			if err != nil {
				return &LineError{Line: n, Err: err}
			}
			if at = &found; named {
				continue
			}
		}
		if need := max(at.timestamp, at.zone, at.kind, at.product, at.price); need >= len(fields) {
			return &LineError{Line: n, Err: fmt.Errorf("%d fields, want %d", len(fields), need+1)}
		}
		if slices.Contains(columnNames["instance_type"], plainName(fields[at.kind])) {
			continue // the header of another page
		}
		if err := c.add(at.row(fields, n, c.options.Product)); err != nil {
			return err
		}
	}
	return lines.Err()
}

func plainName(name string) string { return notInWords().ReplaceAllString(strings.ToLower(name), "") }

// columnsOf finds the columns by their names or, if the first line has none, by the form of its fields.
func columnsOf(fields []string) (at columns, named bool, err error) {
	found := map[string]int{}
	for column, names := range columnNames {
		for _, name := range names { // in order: availabilityzone counts before region
			if i := slices.IndexFunc(fields, func(f string) bool { return plainName(f) == name }); i >= 0 {
				found[column] = i
				break
			}
		}
	}
	if named = len(found) >= 2; !named {
		found = columnsByShape(fields)
	}
	place := func(column string) int {
		if i, ok := found[column]; ok {
			return i
		}
		return -1
	}
	at = columns{place("timestamp"), place("zone"), place("instance_type"), place("product"), place("price"), -1, false}
	if at.timestamp >= 0 && plainName(fields[at.timestamp]) == "date" {
		at.clock = slices.IndexFunc(fields, func(f string) bool { return plainName(f) == "time" })
	}
	for _, column := range []string{"timestamp", "zone", "instance_type", "price"} {
		if place(column) < 0 {
			return at, named, fmt.Errorf("columns %q: no %s among them; want a header with the columns %s, or JSON as of `aws ... --output json`", strings.Join(fields, ","), column, strings.Join(header, ","))
		}
	}
	return at, named, nil
}

var (
	typeShape    = pattern.Of(`^[a-z][a-z0-9-]*\.[a-z0-9-]+$`)
	priceShape   = pattern.Of(`^\$?[0-9]*\.[0-9]+(e-?[0-9]+)?$`)
	productShape = pattern.Of(`(?i)^(linux|windows|suse|red hat)`)
)

func columnsByShape(fields []string) map[string]int {
	found := map[string]int{}
	for i, f := range fields {
		f = strings.TrimSpace(f)
		column := ""
		_, zone := RegionOf(f)
		switch {
		case productShape().MatchString(f):
			column = "product"
		case zone == nil:
			column = "zone"
		case priceShape().MatchString(f):
			column = "price"
		case typeShape().MatchString(f):
			column = "instance_type"
		default:
			if _, err := parseTime(f); err != nil {
				continue
			}
			column = "timestamp"
		}
		if _, twice := found[column]; !twice {
			found[column] = i
		}
	}
	return found
}

// timeForms are the usual formats of times; without a zone they are assumed to be UTC.
var timeForms = []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z0700", "2006-01-02T15:04:05", "2006-01-02 15:04:05",
	"2006-01-02 15:04", "2006-01-02 15:04:05 MST", "2006/01/02 15:04:05", "2006-01-02"}

// parseTime parses a time, also as seconds, milliseconds, microseconds or nanoseconds since 1970.
func parseTime(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	if since, found := strings.CutPrefix(text, "/Date("); found { // PowerShell
		text, _, _ = strings.Cut(strings.TrimSuffix(since, ")/"), "+")
	}
	for _, form := range timeForms {
		if at, err := time.Parse(form, text); err == nil {
			return at.UTC(), nil
		}
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 1e8 && n < 1e20 {
		for n >= 1e11 {
			n /= 1000 // of milliseconds, microseconds, nanoseconds
		}
		return time.Unix(0, int64(n*1e9)).UTC().Round(time.Millisecond), nil
	}
	return time.Time{}, fmt.Errorf("timestamp %q: want RFC 3339 such as 2014-02-16T05:33:25Z", text)
}
