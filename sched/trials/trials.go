// Package trials draws the settings of a sweep's trials, and decides which trials continue after feedback. It decides over plain
// values: it knows nothing about programs, machines, job files, and what a trial computes.
package trials

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Sweep is a set of trials of one program.
type Sweep struct {
	Ranges  []Range // in order of their names
	Grid    bool    // all combinations of the listed values, instead of Samples random ones
	TPE     bool    // of the samples, First are drawn at random and Next draws the others
	Samples int
	Seed    uint64
	Rungs   []Rung // in order of their steps
}

// Range is the possible values of a setting: one of Values, or a number from Low to High.
type Range struct {
	Name      string
	Values    []string
	Low, High float64
	Log       bool // draw uniformly on a logarithmic scale
	Whole     bool // whole numbers only
}

// ParseRange reads "0.1..0.9", "log 1e-4..1" or, for whole numbers, "2..8".
func ParseRange(name, text string) (Range, error) {
	r := Range{Name: name}
	rest, isLog := strings.CutPrefix(strings.TrimSpace(text), "log ")
	low, high, found := strings.Cut(rest, "..")
	if !found {
		return r, fmt.Errorf("%q is neither a list nor a range", text)
	}
	low, high = strings.TrimSpace(low), strings.TrimSpace(high)
	var noLow, noHigh error
	r.Log = isLog
	r.Low, noLow = strconv.ParseFloat(low, 64)
	r.High, noHigh = strconv.ParseFloat(high, 64)
	const most = 1e300
	switch {
	case noLow != nil || noHigh != nil || !(math.Abs(r.Low) <= most) || !(math.Abs(r.High) <= most):
		return r, fmt.Errorf("%q has an end that is no number", text)
	case r.Low >= r.High:
		return r, fmt.Errorf("%q does not end above its beginning", text)
	case isLog && r.Low <= 0:
		return r, fmt.Errorf("%q begins at or below zero, which has no logarithm", text)
	}
	_, noLow = strconv.Atoi(low)
	_, noHigh = strconv.Atoi(high)
	r.Whole = noLow == nil && noHigh == nil
	return r, nil
}

// Number returns the number of trials.
func (s *Sweep) Number() int {
	if !s.Grid {
		return s.Samples
	}
	n := 1
	for _, r := range s.Ranges {
		n = min(n*len(r.Values), math.MaxInt32) // more than anyone runs
	}
	return n
}

// Trials returns the settings of each trial, by name. Equal sweeps give equal trials, and more samples do not change
// the first ones. With TPE only the First ones are final.
func (s *Sweep) Trials() []map[string]string {
	trials := make([]map[string]string, s.Number())
	for i := range trials {
		trial, chance, rest := map[string]string{}, rand.New(rand.NewPCG(s.Seed, uint64(i))), i
		for _, r := range s.Ranges {
			if s.Grid {
				trial[r.Name] = r.Values[rest%len(r.Values)]
				rest /= len(r.Values)
				continue
			}
			trial[r.Name] = r.draw(chance)
		}
		trials[i] = trial
	}
	return trials
}

func (r *Range) draw(chance *rand.Rand) string {
	u := chance.Float64()
	if len(r.Values) > 0 {
		return r.Values[int(u*float64(len(r.Values)))]
	}
	low, high := r.scale()
	return r.text(low + u*(high-low))
}

// scale returns the interval from which a setting is drawn uniformly: of logarithms if the range says so.
func (r *Range) scale() (low, high float64) {
	low, high = r.Low, r.High
	if r.Whole {
		high++ // the last number is as likely as the others
	}
	if r.Log {
		low, high = math.Log(low), math.Log(high)
	}
	return low, high
}

// text returns the setting at a point of the scale.
func (r *Range) text(at float64) string {
	if r.Log {
		at = math.Exp(at)
	}
	if r.Whole {
		return strconv.FormatFloat(min(math.Floor(at), r.High), 'f', 0, 64)
	}
	// Five digits: people read these numbers and type them again.
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(at, 'g', 5, 64), 64)
	return strconv.FormatFloat(min(max(rounded, r.Low), r.High), 'g', -1, 64)
}

// point returns a setting's position on the scale: a whole number is in the middle of the interval that is rounded to it.
func (r *Range) point(text string) (float64, error) {
	at, err := strconv.ParseFloat(text, 64)
	if r.Whole {
		at += .5
	}
	if r.Log {
		at = math.Log(at)
	}
	return at, err
}
