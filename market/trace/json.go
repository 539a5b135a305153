package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// spotPrice is one record of EC2's DescribeSpotPriceHistory. Pointers tell a missing field from an empty one.
type spotPrice struct {
	AvailabilityZone   *string
	InstanceType       *string
	ProductDescription *string
	SpotPrice          *string
	Timestamp          *string
}

// readJSON reads the output of `aws ec2 describe-spot-price-history`: an object with SpotPriceHistory, or that
// list alone (as with --query), or several of them one after the other (pages).
func readJSON(r io.Reader, c *collector) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	j := &jsonReader{text: text, line: 1, decoder: json.NewDecoder(bytes.NewReader(text)), collector: c}
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

// jsonReader keeps count of lines, which encoding/json does not.
type jsonReader struct {
	text      []byte
	counted   int // bytes of text whose line ends are in line
	line      int
	decoder   *json.Decoder
	collector *collector
}

// page reads an object after its opening brace.
func (j *jsonReader) page() error {
	found := false
	for j.decoder.More() {
		key, err := j.decoder.Token()
		if err != nil {
			return j.fault(err)
		}
		if key != "SpotPriceHistory" {
			var ignored json.RawMessage // NextToken
			if err := j.decoder.Decode(&ignored); err != nil {
				return j.fault(err)
			}
			continue
		}
		found = true
		open, err := j.decoder.Token()
		if err != nil {
			return j.fault(err)
		}
		if open != json.Delim('[') {
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
	return nil
}

// records reads a list after its opening bracket, to its closing one.
func (j *jsonReader) records() error {
	for j.decoder.More() {
		var record spotPrice
		if err := j.decoder.Decode(&record); err != nil {
			return j.fault(err)
		}
		r, err := record.row(j.position())
		if err != nil {
			return j.fault(err)
		}
		if err := j.collector.add(r); err != nil {
			return err
		}
	}
	if _, err := j.decoder.Token(); err != nil {
		return j.fault(err)
	}
	return nil
}

func (p *spotPrice) row(line int) (row, error) {
	r := row{line: line}
	for _, field := range []struct {
		name string
		from *string
		to   *string
	}{
		{"Timestamp", p.Timestamp, &r.timestamp},
		{"AvailabilityZone", p.AvailabilityZone, &r.zone},
		{"InstanceType", p.InstanceType, &r.kind},
		{"ProductDescription", p.ProductDescription, &r.product},
		{"SpotPrice", p.SpotPrice, &r.price},
	} {
		if field.from == nil {
			return row{}, fmt.Errorf("record without %s", field.name)
		}
		*field.to = *field.from
	}
	return r, nil
}

// position gives the line up to which text has been read.
func (j *jsonReader) position() int {
	read := int(j.decoder.InputOffset())
	j.line += bytes.Count(j.text[j.counted:read], []byte{'\n'})
	j.counted = read
	return j.line
}

func (j *jsonReader) fault(err error) error {
	line := j.position()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err, line = io.ErrUnexpectedEOF, 1+bytes.Count(j.text, []byte{'\n'})
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		line = 1 + bytes.Count(j.text[:min(int(syntax.Offset), len(j.text))], []byte{'\n'})
	}
	return &LineError{Line: line, Err: err}
}
