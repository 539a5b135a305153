package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// record is what is read of one record of EC2's DescribeSpotPriceHistory.
type record struct {
	Timestamp          string
	AvailabilityZone   string
	InstanceType       string
	ProductDescription string
	SpotPrice          string
}

const historyField = "SpotPriceHistory"

// jsonReader reads record by record, because a year of prices is hundreds of megabytes.
type jsonReader struct {
	lines     *lineCounter
	decoder   *json.Decoder
	collector *collector
}

// readJSON reads the output of `aws ec2 describe-spot-price-history`: an object with SpotPriceHistory, or that
// list alone (as with --query), or several one after the other (pages).
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
	var alone record // the object itself, as in files with one on each line
	for j.decoder.More() {
		name, err := j.decoder.Token()
		if err != nil {
			return j.fault(err)
		}
		if name != historyField {
			var other json.RawMessage // NextToken, or a field of a record
			if err := j.decoder.Decode(&other); err != nil {
				return j.fault(err)
			}
			if field := alone.field(name); field != nil {
				if err := json.Unmarshal(other, field); err != nil {
					return j.fault(err)
				}
				found = true
			}
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
	if !found {
		return j.fault(errors.New("object without SpotPriceHistory"))
	}
	if alone == (record{}) {
		return nil
	}
	row, err := alone.row()
	if err != nil {
		return j.fault(err)
	}
	row.line = j.position()
	return j.collector.add(row)
}

// field returns the place of a record's field; nil = it has none of that name.
func (r *record) field(name any) *string {
	switch name {
	case "Timestamp":
		return &r.Timestamp
	case "AvailabilityZone":
		return &r.AvailabilityZone
	case "InstanceType":
		return &r.InstanceType
	case "ProductDescription":
		return &r.ProductDescription
	case "SpotPrice":
		return &r.SpotPrice
	}
	return nil
}

// records reads a list after its opening bracket, to its closing one.
func (j *jsonReader) records() error {
	for j.decoder.More() {
		var r record
		if err := j.decoder.Decode(&r); err != nil {
			return j.fault(err)
		}
		row, err := r.row()
		if err != nil {
			return j.fault(err)
		}
		row.line = j.position()
		if err := j.collector.add(row); err != nil {
			return err
		}
	}
	if _, err := j.decoder.Token(); err != nil {
		return j.fault(err)
	}
	return nil
}

func (r record) row() (row, error) {
	for _, field := range []struct{ name, value string }{
		{"Timestamp", r.Timestamp},
		{"AvailabilityZone", r.AvailabilityZone},
		{"InstanceType", r.InstanceType},
		{"ProductDescription", r.ProductDescription},
		{"SpotPrice", r.SpotPrice},
	} {
		if field.value == "" {
			return row{}, fmt.Errorf("record without %s", field.name)
		}
	}
	return row{timestamp: r.Timestamp, zone: r.AvailabilityZone, kind: r.InstanceType, product: r.ProductDescription, price: r.SpotPrice}, nil
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

// lineCounter returns the line of an offset, asked in rising order, in what was read through it.
type lineCounter struct {
	r    io.Reader
	read int64   // bytes so far
	line int     // of the offset that was requested last
	ends []int64 // offsets of line ends that are not counted in line yet, rising
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
