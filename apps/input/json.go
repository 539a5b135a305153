package input

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tierml/tierml/internal/pattern"
)

// ErrJSON rejects JSON that is not a table.
var ErrJSON = errors.New("it is JSON, but not an object a line or a list of objects: write it so, or as CSV with the names in the first line")

// jsonForm is the beginning of a list or an object; no header or number of the other formats begins like this.
var jsonForm = pattern.Of(`^\s*[{\[]\s*["{\[\]}]`)

// lookJSON is the part of a file that shows its column names, as objects may omit some.
const lookJSON = 4 << 20

// objects reads JSON objects, one per line or in a list, as CSV with a header. The members of a nested object are columns a.b; lists stay
// JSON; null is empty. Line ends in texts become spaces, so that object i is in line i+1.
type objects struct {
	in      *json.Decoder
	list    bool
	ended   bool // the list has been closed
	columns []string
	row     []string
	read    int
	text    bytes.Buffer
	out     *csv.Writer
}

func readObjects(in io.Reader) (*objects, error) {
	buffered := bufio.NewReaderSize(in, lookJSON)
	first, err := buffered.Peek(lookJSON)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	o := &objects{list: bytes.HasPrefix(bytes.TrimSpace(first), []byte("["))}
	o.out = csv.NewWriter(&o.text)
	o.in = json.NewDecoder(bytes.NewReader(first))
	nested := false
	for ; ; o.read++ {
		object, err := o.next()
		if err != nil && o.read == 0 {
			return nil, ErrJSON
		}
		if err != nil { // the last object may be incomplete
			break
		}
		err = eachMember(object, "", func(name, value string) error {
			if !slices.Contains(o.columns, name) {
				o.columns = append(o.columns, name)
			}
			nested = nested || strings.HasPrefix(value, "[") || strings.Contains(name, ".")
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if o.read == 1 && nested || len(o.columns) == 0 {
		return nil, ErrJSON
	}
	o.in, o.read, o.ended = json.NewDecoder(buffered), 0, false
	return o, o.write(o.columns)
}

// next returns the next object; io.EOF after the last.
func (o *objects) next() (object json.RawMessage, err error) {
	if o.list && o.read == 0 {
		if _, err := o.in.Token(); err != nil {
			return nil, err
		}
	}
	if o.list && !o.in.More() {
		if o.ended {
			return nil, io.EOF
		}
		if _, err := o.in.Token(); err != nil {
			return nil, io.ErrUnexpectedEOF
		}
		o.ended = true
		return nil, io.EOF
	}
	if err := o.in.Decode(&object); err != nil {
		return nil, err
	}
	if object[0] != '{' {
		return nil, ErrJSON
	}
	return object, nil
}

func (o *objects) write(row []string) error {
	if err := o.out.Write(row); err != nil {
		return err
	}
	o.out.Flush()
	return o.out.Error()
}

// Read implements io.Reader.
func (o *objects) Read(p []byte) (int, error) {
	for o.text.Len() == 0 {
		object, err := o.next()
		if errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		o.read++
		if err == nil {
			o.row = slices.Grow(o.row[:0], len(o.columns))[:len(o.columns)]
			clear(o.row)
			err = eachMember(object, "", o.set)
		}
		if err == nil {
			err = o.write(o.row)
		}
		if err != nil {
			return 0, fmt.Errorf("JSON object %d: %w", o.read, err)
		}
	}
	return o.text.Read(p)
}

func (o *objects) set(name, value string) error {
	i := slices.Index(o.columns, name)
	if i < 0 {
		return fmt.Errorf("%q is in none of the objects of the first %d MB: write it in the first one, as null", name, lookJSON>>20)
	}
	o.row[i] = value
	return nil
}

var oneLine = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ")

// eachMember yields the values of an object in order.
func eachMember(object json.RawMessage, prefix string, take func(name, value string) error) error {
	in := json.NewDecoder(bytes.NewReader(object))
	if _, err := in.Token(); err != nil {
		return err
	}
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return err
		}
		name := oneLine.Replace(prefix + key.(string))
		var value json.RawMessage
		if err := in.Decode(&value); err != nil {
			return err
		}
		switch value[0] {
		case '{':
			err = eachMember(value, name+".", take)
		case '"':
			var text string
			if err = json.Unmarshal(value, &text); err == nil {
				err = take(name, oneLine.Replace(text))
			}
		case 'n':
			err = take(name, "")
		default:
			err = take(name, oneLine.Replace(string(value)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
