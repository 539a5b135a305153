package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// record is the part that is read of a record of EC2's DescribeSpotPriceHistory.
type record struct {
	Timestamp          scalar
	AvailabilityZone   scalar
	InstanceType       scalar
	ProductDescription scalar
	SpotPrice          scalar
}

// scalar is a string, or a number as in the file.
type scalar string

// UnmarshalJSON implements json.Unmarshaler.
func (s *scalar) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && (data[0] == '-' || data[0] >= '0' && data[0] <= '9') {
		*s = scalar(data)
		return nil
	}
	if len(data) > 0 && data[0] == '{' { // PowerShell's constants and dates
		var of struct{ Value scalar }
		err := json.Unmarshal(data, &of)
		*s = of.Value
		return err
	}
	return json.Unmarshal(data, (*string)(s))
}

const historyField = "SpotPriceHistory"

// jsonReader reads record by record, because a year of prices is hundreds of megabytes.
type jsonReader struct {
	lines     *lineCounter
	decoder   *json.Decoder
	collector *collector
}

// readJSON reads the output of `aws ec2 describe-spot-price-history`: an object with SpotPriceHistory, or that list alone (as with
// --query), or several consecutive ones (pages).
func readJSON(r io.Reader, c *collector) error {
	lines := &lineCounter{r: r, line: 1}
	j := &jsonReader{lines: lines, decoder: json.NewDecoder(lines), collector: c}
	for {
		token, err := j.decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return j.fault(err)
		}
		switch token {
		case json.Delim('['):
			err = j.records()
		case json.Delim('{'):
			err = j.page()
		default:
			err = j.fault(errors.New(`want {"SpotPriceHistory": [...]}`))
		}
		if err != nil {
			return err
		}
	}
}

// page reads an object after its opening brace.
func (j *jsonReader) page() error {
	found := false
	others := map[string]json.RawMessage{} // NextToken, or a record's fields, as in files with one on each line
	for j.decoder.More() {
		name, err := j.decoder.Token()
		if err != nil {
			return j.fault(err)
		}
		if name != historyField {
			var other json.RawMessage
			if err := j.decoder.Decode(&other); err != nil {
				return j.fault(err)
			}
			others[fmt.Sprint(name)] = other
			continue
		}
		found = true
		if open, err := j.decoder.Token(); err != nil {
			return j.fault(err)
		} else if open != json.Delim('[') {
			return j.fault(errors.New("SpotPriceHistory is not a list"))
		}
		if err := j.records(); err != nil {
			return err
		}
	}
	if _, err := j.decoder.Token(); err != nil {
		return j.fault(err)
	}
	if found {
		return nil
	}
	text, err := json.Marshal(others)
	if err != nil {
		return j.fault(err)
	}
	return j.record(text)
}

// fill reads the fields of an object with the same names as table columns.
func (r *record) fill(fields map[string]json.RawMessage) error {
	plain := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		plain[plainName(name)] = fields[name]
	}
	for column, field := range map[string]*scalar{"timestamp": &r.Timestamp, "zone": &r.AvailabilityZone, "instance_type": &r.InstanceType,
		"product": &r.ProductDescription, "price": &r.SpotPrice} {
		for _, name := range columnNames[column] {
			if value, there := plain[name]; there {
				if err := json.Unmarshal(value, field); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				break
			}
		}
	}
	return nil
}

// records reads a list after its opening bracket, to its closing one.
func (j *jsonReader) records() error {
	for j.decoder.More() {
		var text json.RawMessage
		if err := j.decoder.Decode(&text); err != nil {
			return j.fault(err)
		}
		if err := j.record(text); err != nil {
			return err
		}
	}
	if _, err := j.decoder.Token(); err != nil {
		return j.fault(err)
	}
	return nil
}

// record reads an entry of a list: a record, or a page of several.
func (j *jsonReader) record(text json.RawMessage) error {
	var r record
	err := json.Unmarshal(text, &r)
	if other := map[string]json.RawMessage{}; err == nil && r.missing() != "" && json.Unmarshal(text, &other) == nil {
		for _, list := range []string{historyField, "value"} { // ConvertTo-Json's names for a list
			var page []json.RawMessage
			if json.Unmarshal(other[list], &page) != nil {
				continue
			}
			for _, text := range page {
				if err := j.record(text); err != nil {
					return err
				}
			}
			return nil
		}
		if err = r.fill(other); err == nil && r == (record{}) { // other names
			err = errors.New("object without SpotPriceHistory: want JSON as of `aws ec2 describe-spot-price-history --output json`, or objects with timestamp, zone, instance_type and price")
		}
	}
	if err != nil {
		return j.fault(err)
	}
	row, err := r.row(j.collector)
	if err != nil {
		return j.fault(err)
	}
	row.line = j.position()
	return j.collector.add(row)
}

// missing returns the name of a missing field; "" = none.
func (r record) missing() string {
	switch "" {
	case string(r.Timestamp):
		return "Timestamp"
	case string(r.AvailabilityZone):
		return "AvailabilityZone"
	case string(r.InstanceType):
		return "InstanceType"
	case string(r.ProductDescription):
		return "ProductDescription"
	case string(r.SpotPrice):
		return "SpotPrice"
	}
	return ""
}

func (r record) row(c *collector) (row, error) {
	if r.ProductDescription == "" && r.Timestamp != "" && r.SpotPrice != "" {
		c.summary.NoProduct, r.ProductDescription = true, scalar(c.options.Product)
	}
	if missing := r.missing(); missing != "" {
		return row{}, fmt.Errorf("record without %s", missing)
	}
	return row{timestamp: string(r.Timestamp), zone: string(r.AvailabilityZone), kind: string(r.InstanceType), product: string(r.ProductDescription),
		price: string(r.SpotPrice)}, nil
}

// position returns the line up to which text has been read.
func (j *jsonReader) position() int { return j.lines.at(j.decoder.InputOffset()) }

func (j *jsonReader) fault(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &LineError{Line: j.lines.at(j.lines.read), Err: io.ErrUnexpectedEOF}
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		err = fmt.Errorf("%s is not a string", kind.Field)
	}
	return &LineError{Line: j.position(), Err: err}
}

// lineCounter returns the line of an offset, requested in ascending order, in what was read through it.
type lineCounter struct {
	r    io.Reader
	read int64   // bytes so far
	line int     // of the last requested offset
	ends []int64 // offsets of line ends that are not counted in line yet, ascending
}

func (l *lineCounter) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	for at := 0; ; {
		end := bytes.IndexByte(p[at:n], '\n')
		if end < 0 {
			break
		}
		l.ends = append(l.ends, l.read+int64(at+end))
		at += end + 1
	}
	l.read += int64(n)
	return n, err
}

func (l *lineCounter) at(offset int64) int {
	passed := 0
	for passed < len(l.ends) && l.ends[passed] < offset {
		passed++
	}
	l.line += passed
	l.ends = append(l.ends[:0], l.ends[passed:]...)
	return l.line
}
