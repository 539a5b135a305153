package tuner

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Knob is a tunable parameter. It has exactly one of three kinds: real numbers from Low to High, whole numbers from Low to High (Whole), or
// one of Choices, which have no order.
type Knob struct {
	Name      string
	Low, High float64
	Log       bool // steps are factors: 1 to 2 is as far as 8 to 16
	Whole     bool
	Choices   []string

	// Technique names how a change of this knob is carried out ("settings", "data", "model"). Changes by one technique cost about the same
	// (section V), so costs are learned per technique.
	Technique string
}

// Setting has a value per knob, in the space's order: the number, or the index of the choice.
type Setting []float64

// Space is the set of settings to choose from.
type Space struct {
	Knobs []Knob
	// Allowed reports whether a setting can be used at all, for example because its servers and workers fit the machines held. nil = all.
	Allowed func(Setting) bool
}

func (s Space) check() error {
	if len(s.Knobs) == 0 {
		return errors.New("a space needs a knob")
	}
	for _, k := range s.Knobs {
		switch {
		case k.Name == "":
			return errors.New("a knob has no name")
		case len(k.Choices) == 1:
			return fmt.Errorf("knob %s has one choice, which is none", k.Name)
		case len(k.Choices) > 0:
		case !(k.Low < k.High) || math.IsInf(k.High-k.Low, 0):
			return fmt.Errorf("knob %s goes from %v to %v", k.Name, k.Low, k.High)
		case k.Log && k.Low <= 0:
			return fmt.Errorf("knob %s has factors for steps and begins at %v", k.Name, k.Low)
		case k.Whole && (k.Low != math.Trunc(k.Low) || k.High != math.Trunc(k.High)):
			return fmt.Errorf("knob %s has whole numbers and goes from %v to %v", k.Name, k.Low, k.High)
		}
	}
	return nil
}

// holds reports whether a setting belongs to the space.
func (s Space) holds(x Setting) bool {
	if len(x) != len(s.Knobs) {
		return false
	}
	for i, k := range s.Knobs {
		low, high := k.Low, k.High
		if len(k.Choices) > 0 {
			low, high = 0, float64(len(k.Choices)-1)
		}
		if !(x[i] >= low && x[i] <= high) || (k.Whole || len(k.Choices) > 0) && x[i] != math.Trunc(x[i]) {
			return false
		}
	}
	return s.Allowed == nil || s.Allowed(x)
}

// Text returns a setting in words: "servers 4, compress off".
func (s Space) Text(x Setting) string {
	var words []string
	for i, k := range s.Knobs {
		if i >= len(x) {
			break
		}
		words = append(words, k.Name+" "+k.text(x[i]))
	}
	return strings.Join(words, ", ")
}

func (k Knob) text(v float64) string {
	switch i := int(v); {
	case len(k.Choices) > 0 && i >= 0 && i < len(k.Choices):
		return k.Choices[i]
	case k.Whole:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// difference describes a change from one setting to another: "servers 2 -> 4".
func (s Space) difference(from, to Setting) string {
	var words []string
	for i, k := range s.Knobs {
		if from[i] != to[i] {
			words = append(words, k.Name+" "+k.text(from[i])+" -> "+k.text(to[i]))
		}
	}
	return strings.Join(words, ", ")
}

// techniques returns the techniques that a change needs, sorted (section V: the union of its parts).
func (s Space) techniques(from, to Setting) []string {
	var used []string
	for i, k := range s.Knobs {
		if from[i] != to[i] && !slices.Contains(used, k.Technique) {
			used = append(used, k.Technique)
		}
	}
	slices.Sort(used)
	return used
}

// at returns the setting nearest to a point of the unit cube, which has a coordinate per knob.
func (s Space) at(u []float64) Setting {
	x := make(Setting, len(s.Knobs))
	for i, k := range s.Knobs {
		v := min(max(u[i], 0), 1)
		switch {
		case len(k.Choices) > 0:
			x[i] = min(math.Floor(v*float64(len(k.Choices))), float64(len(k.Choices)-1))
			continue
		case k.Whole && !k.Log: // each number has an equal share of the interval
			x[i] = min(k.Low+math.Floor(v*(k.High-k.Low+1)), k.High)
			continue
		case k.Log:
			x[i] = k.Low * math.Pow(k.High/k.Low, v)
		default:
			x[i] = k.Low + v*(k.High-k.Low)
		}
		if k.Whole {
			x[i] = math.Round(x[i])
		}
		x[i] = min(max(x[i], k.Low), k.High)
	}
	return x
}

// unit returns a point of the unit cube that at maps to the setting.
func (s Space) unit(x Setting) []float64 {
	u := make([]float64, len(s.Knobs))
	for i, k := range s.Knobs {
		switch {
		case len(k.Choices) > 0:
			u[i] = (x[i] + .5) / float64(len(k.Choices))
		case k.Whole && !k.Log:
			u[i] = (x[i] - k.Low + .5) / (k.High - k.Low + 1)
		case k.Log:
			u[i] = math.Log(x[i]/k.Low) / math.Log(k.High/k.Low)
		default:
			u[i] = (x[i] - k.Low) / (k.High - k.Low)
		}
	}
	return u
}

// scales maps each column of encode to its knob, whose length scale it shares.
func (s Space) scales() []int {
	var of []int
	for i, k := range s.Knobs {
		of = append(of, i)
		for range max(len(k.Choices)-1, 0) {
			of = append(of, i)
		}
	}
	return of
}

// encode returns a setting as input for the Gaussian process: numbers between 0 and 1; choices one-hot (section III-D), divided by the root
// of two so that two choices are one apart.
func (s Space) encode(x Setting) []float64 {
	unit := s.unit(x)
	var row []float64
	for i, k := range s.Knobs {
		if len(k.Choices) == 0 {
			row = append(row, unit[i])
			continue
		}
		for c := range k.Choices {
			bit := 0.
			if c == int(x[i]) {
				bit = math.Sqrt2 / 2
			}
			row = append(row, bit)
		}
	}
	return row
}

// size returns how many settings there are; +Inf with a knob of real numbers.
func (s Space) size() float64 {
	n := 1.
	for _, k := range s.Knobs {
		switch {
		case len(k.Choices) > 0:
			n *= float64(len(k.Choices))
		case k.Whole:
			n *= k.High - k.Low + 1
		default:
			return math.Inf(1)
		}
	}
	return n
}
