package input

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/tierml/tierml/internal/decompress"
)

// Sparse is a file of labelled sparse vectors. Vector i has the entries Start[i] to Start[i+1].
type Sparse struct {
	Labels   []float64
	Start    []int    // one more than there are labels
	Index    []uint32 // from 0, ascending within a vector
	Value    []float32
	Features int // the largest index, and one
	BadLines int // left out
}

// maxSparseLine is far above the longest vector of the public LIBSVM sets.
const maxSparseLine = 16 << 20

// maxIndex bounds what a mistyped index can make a model grow to.
const maxIndex = 1 << 30

// ReadLIBSVM reads lines of the form
//
//	label index:value index:value ...
//
// with indices from 1, ascending. What follows a # is a comment. Up to maxBad bad lines are left out.
func ReadLIBSVM(name string, r io.Reader, maxBad int) (Sparse, error) {
	plain, err := decompress.Reader(r)
	if err != nil {
		return Sparse{}, fmt.Errorf("%s: %w", name, err)
	}
	defer plain.Close()
	s := Sparse{Start: []int{0}}
	bad := tolerance{allowed: maxBad}
	scanner := bufio.NewScanner(plain)
	scanner.Buffer(make([]byte, 0, 1<<16), maxSparseLine)
	line := 0
	for scanner.Scan() && scanner.Err() == nil { // what is left before an error is half a line
		line++
		if reason := s.addLine(scanner.Bytes()); reason != "" {
			if err := bad.take(&LineError{name, line, reason}); err != nil {
				return Sparse{}, err
			}
		}
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return Sparse{}, &LineError{name, line + 1, fmt.Sprintf("longer than %d bytes", maxSparseLine)}
	case err != nil:
		return Sparse{}, fmt.Errorf("%s: after line %d: %w", name, line, err)
	}
	if len(s.Labels) == 0 {
		return Sparse{}, fmt.Errorf("%s: no examples in it: want lines of the form `label index:value index:value ...`", name)
	}
	s.BadLines = bad.bad
	return s, nil
}

// addLine adds one line, or nothing and gives the reason. An empty line or comment alone is neither.
func (s *Sparse) addLine(text []byte) (reason string) {
	text, _, _ = bytes.Cut(text, []byte("#"))
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return ""
	}
	word, rest := nextWord(text)
	label, err := strconv.ParseFloat(string(word), 64)
	if err != nil || math.IsNaN(label) || math.IsInf(label, 0) {
		return fmt.Sprintf("label %q is not a finite number", word)
	}
	before := len(s.Index)
	if reason := s.addEntries(rest); reason != "" {
		s.Index, s.Value = s.Index[:before], s.Value[:before]
		return reason
	}
	if n := len(s.Index); n > before {
		s.Features = max(s.Features, int(s.Index[n-1])+1)
	}
	s.Labels = append(s.Labels, label)
	s.Start = append(s.Start, len(s.Index))
	return ""
}

func (s *Sparse) addEntries(rest []byte) (reason string) {
	last := uint64(0)
	for len(rest) > 0 {
		var word []byte
		word, rest = nextWord(rest)
		index, value, found := bytes.Cut(word, []byte(":"))
		if !found {
			return fmt.Sprintf("%q is not of the form index:value", word)
		}
		i, err := strconv.ParseUint(string(index), 10, 32)
		switch {
		case err != nil || i < 1 || i > maxIndex:
			return fmt.Sprintf("index %q is not a whole number from 1 to %d", index, maxIndex)
		case i <= last:
			return fmt.Sprintf("index %d comes after %d: they must ascend", i, last)
		}
		last = i
		v, err := strconv.ParseFloat(string(value), 32)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprintf("value %q of index %d is not a finite number", value, i)
		}
		s.Index = append(s.Index, uint32(i-1))
		s.Value = append(s.Value, float32(v))
	}
	return ""
}

// nextWord cuts off the first word of a text without space at its ends.
func nextWord(text []byte) (word, rest []byte) {
	i := bytes.IndexAny(text, " \t")
	if i < 0 {
		return text, nil
	}
	return text[:i], bytes.TrimLeft(text[i:], " \t")
}
