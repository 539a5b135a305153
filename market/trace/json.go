package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Fields of a record of EC2's DescribeSpotPriceHistory that are read, by their place in a row.
var recordFields = [...]string{"Timestamp", "AvailabilityZone", "InstanceType", "ProductDescription", "SpotPrice"}

const historyField = "SpotPriceHistory"

// readJSON reads the output of `aws ec2 describe-spot-price-history`: an object with SpotPriceHistory, or that
// list alone (as with --query), or several of them one after the other (pages).
func readJSON(r io.Reader, c *collector) error {
	lines := &lineCounter{r: r, line: 1}
	j := &jsonReader{lines: lines, collector: c, decoder: jsontext.NewDecoder(lines, jsontext.AllowDuplicateNames(true))}
	for {
		token, err := j.decoder.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return j.fault(err)
		}
		switch token.Kind() {
		case '[':
			err = j.records()
		case '{':
			err = j.page()
		default:
			err = j.fault(errors.New(`want {"SpotPriceHistory": [...]}`))
		}
		if err != nil {
			return err
		}
	}
}

// jsonReader reads token by token, because a year of prices is hundreds of megabytes.
type jsonReader struct {
	lines     *lineCounter
	decoder   *jsontext.Decoder
	collector *collector
	fields    []byte // of the record being read, one behind the other
}

// page reads an object after its opening brace.
func (j *jsonReader) page() error {
	found := false
	for j.decoder.PeekKind() != '}' {
		name, err := j.decoder.ReadToken()
		if err != nil {
			return j.fault(err)
		}
		if name.String() != historyField {
			if err := j.decoder.SkipValue(); err != nil { // NextToken
				return j.fault(err)
			}
			continue
		}
		found = true
		open, err := j.decoder.ReadToken()
		if err != nil {
			return j.fault(err)
		}
		if open.Kind() != '[' {
			return j.fault(errors.New("SpotPriceHistory is not a list"))
		}
		if err := j.records(); err != nil {
			return err
		}
	}
	if _, err := j.decoder.ReadToken(); err != nil {
		return j.fault(err)
	}
	if !found {
		return j.fault(errors.New("object without SpotPriceHistory"))
	}
	return nil
}

// records reads a list after its opening bracket, to its closing one.
func (j *jsonReader) records() error {
	for j.decoder.PeekKind() != ']' {
		r, err := j.record()
		if err != nil {
			return j.fault(err)
		}
		if err := j.collector.add(r); err != nil {
			return err
		}
	}
	if _, err := j.decoder.ReadToken(); err != nil {
		return j.fault(err)
	}
	return nil
}

// record reads one object. All its fields become one string, as a row of a CSV file does.
func (j *jsonReader) record() (row, error) {
	if err := j.open(); err != nil {
		return row{}, err
	}
	j.fields = j.fields[:0]
	var span [len(recordFields)][2]int
	var seen [len(recordFields)]bool
	for j.decoder.PeekKind() != '}' {
		name, err := j.decoder.ReadValue()
		if err != nil {
			return row{}, err
		}
		i := fieldIndex(name)
		if i < 0 {
			if err := j.decoder.SkipValue(); err != nil {
				return row{}, err
			}
			continue
		}
		start := len(j.fields)
		if err := j.readText(recordFields[i]); err != nil {
			return row{}, err
		}
		span[i], seen[i] = [2]int{start, len(j.fields)}, true
	}
	if _, err := j.decoder.ReadToken(); err != nil {
		return row{}, err
	}
	for i, ok := range seen {
		if !ok {
			return row{}, fmt.Errorf("record without %s", recordFields[i])
		}
	}
	all := string(j.fields)
	field := func(i int) string { return all[span[i][0]:span[i][1]] }
	return row{line: j.position(), timestamp: field(0), zone: field(1), kind: field(2), product: field(3), price: field(4)}, nil
}

// open reads a record's opening brace.
func (j *jsonReader) open() error {
	token, err := j.decoder.ReadToken()
	if err == nil && token.Kind() != '{' {
		err = fmt.Errorf("want a record in {}, not %s", token.Kind())
	}
	return err
}

// fieldIndex returns the place of a quoted name among recordFields; -1 when it is none of them.
func fieldIndex(quoted jsontext.Value) int {
	for i, name := range recordFields {
		if len(quoted) == len(name)+2 && string(quoted[1:len(quoted)-1]) == name {
			return i
		}
	}
	return -1
}

// readText appends a field's text to fields.
func (j *jsonReader) readText(name string) error {
	value, err := j.decoder.ReadValue()
	if err != nil {
		return err
	}
	if value.Kind() != '"' {
		return fmt.Errorf("%s is not a string", name)
	}
	j.fields, err = jsontext.AppendUnquote(j.fields, value)
	return err
}

// position returns the line up to which text has been read.
func (j *jsonReader) position() int { return j.lines.at(j.decoder.InputOffset()) }

func (j *jsonReader) fault(err error) error {
	line := j.position()
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		err, line = io.ErrUnexpectedEOF, j.lines.at(j.lines.read)
	case errors.As(err, &syntax):
		line = j.lines.at(syntax.ByteOffset)
	}
	return &LineError{Line: line, Err: err}
}

// lineCounter returns the line of an offset, asked in rising order, in what was read through it.
type lineCounter struct {
	r    io.Reader
	read int64   // bytes so far
	line int     // of the offset that was asked for last
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
