package apps

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/internal/spelling"
)

// Params are hyper-parameters as a job file or a command line gives them: numbers of any Go type, or words.
type Params map[string]any

// Param documents one hyper-parameter. It is a number, or one of a few words.
type Param struct {
	Name    string
	Default float64
	Min     float64 // smallest allowed value
	Max     float64 // greatest
	Whole   bool    // whole numbers only
	Unit    string
	Why     string // what it does, and why the default is what it is
	// Choices are the allowed words, if the parameter is a word: its value, and Default, is the word's index in the list, and Min, Max and
	// Whole are not used.
	Choices []string
	// Shared means that the default is for all examples together: PerExample divides it among them.
	Shared bool
	// Column means that it is a column of the data, given by its number from 1 or by its name. Resolve returns 0 for a name; the
	// application looks it up in the data.
	Column bool
}

// Values are checked hyper-parameters, all present.
type Values map[string]float64

// Float returns a hyper-parameter's value. Requesting one that was never declared is a bug and panics.
func (v Values) Float(name string) float64 {
	x, ok := v[name]
	if !ok {
		panic("apps: hyper-parameter " + name + " is not declared")
	}
	return x
}

// Int returns a whole hyper-parameter's value.
func (v Values) Int(name string) int { return int(v.Float(name)) }

// Resolve checks params against their declarations and fills in the defaults. The error names every fault.
func (p Params) Resolve(declared []Param) (Values, error) {
	values := make(Values, len(declared))
	names := make([]string, len(declared))
	var faults []error
	for i, d := range declared {
		names[i] = d.Name
		values[d.Name] = d.Default
		given, ok := p[d.Name]
		if !ok {
			continue
		}
		value, err := d.check(given)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		values[d.Name] = value
	}
	for _, name := range p.names() {
		if !slices.Contains(names, name) {
			faults = append(faults, unknownParam(name, names))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return values, nil
}

// PerExample returns a value whose default is divided by a number of examples.
func (p Params) PerExample(v Values, name string, examples int64) float64 {
	if _, given := p[name]; given {
		return v.Float(name)
	}
	return v.Float(name) / float64(max(examples, 1))
}

// With returns the settings plus another one, unless that is already given.
func (p Params) With(name string, value any) Params {
	if _, given := p[name]; given {
		return p
	}
	more := Params{name: value}
	maps.Copy(more, p)
	return more
}

func (p Params) names() []string {
	names := make([]string, 0, len(p))
	for name := range p {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func unknownParam(name string, names []string) error {
	if near := spelling.Nearest(name, names); near != "" {
		return fmt.Errorf("unknown parameter %q: did you mean %q?", name, near)
	}
	return fmt.Errorf("unknown parameter %q: there are %s", name, strings.Join(names, ", "))
}

// check converts a given value, or says what to write instead.
func (d Param) check(given any) (float64, error) {
	if len(d.Choices) > 0 {
		return d.choose(given)
	}
	value, ok := number(given)
	if name, word := given.(string); word && d.Column && name != "" {
		return 0, nil
	}
	switch {
	case !ok:
		return 0, fmt.Errorf("parameter %s: %v is not a number: write %s", d.Name, quoted(given), d.wanted())
	case d.Whole && value != math.Trunc(value):
		return 0, fmt.Errorf("parameter %s: %v is not a whole number: write %s", d.Name, value, d.wanted())
	case !(value >= d.Min && value <= d.Max):
		return 0, fmt.Errorf("parameter %s: %v is out of range: write %s", d.Name, value, d.wanted())
	}
	return value, nil
}

// choose finds a given word among the choices.
func (d Param) choose(given any) (float64, error) {
	word, _ := given.(string)
	if i := slices.Index(d.Choices, word); i >= 0 {
		return float64(i), nil
	}
	return 0, fmt.Errorf("parameter %s: %v is not one of its words: write %s", d.Name, quoted(given), d.wanted())
}

func (d Param) wanted() string {
	if len(d.Choices) > 0 {
		return "one of " + strings.Join(d.Choices, ", ") + ", for example " + d.Choices[int(d.Default)]
	}
	if d.Column {
		return "a column's name, or its number from 1"
	}
	kind, example := "a number", d.Default
	if d.Whole {
		kind = "a whole number"
	}
	if d.Shared {
		example /= 1000 // examples
	}
	return fmt.Sprintf("%s from %v to %v, for example %v", kind, d.Min, d.Max, example)
}

// Usual returns the default in words.
func (d Param) Usual() string {
	switch {
	case len(d.Choices) > 0:
		return d.Choices[int(d.Default)]
	case d.Shared && d.Default != 0:
		return fmt.Sprintf("%v / examples", d.Default)
	}
	return strconv.FormatFloat(d.Default, 'g', -1, 64)
}

// number accepts whatever YAML and JSON decoders produce for a number; strings are not numbers.
func number(given any) (float64, bool) {
	switch x := given.(type) {
	case int:
		return float64(x), true
	case int64:
		return float64(x), true
	case uint64:
		return float64(x), true
	case float32:
		return float64(x), true
	case float64:
		return x, true
	}
	return 0, false
}

func quoted(given any) string {
	if s, ok := given.(string); ok {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprint(given)
}
