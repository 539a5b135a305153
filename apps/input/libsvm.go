package input

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"strconv"
)

// Sparse is a file of labelled sparse vectors, until Close. Vector i has the entries Start[i] to Start[i+1]. Entries beyond inMemory
// are in files.
type Sparse struct {
	Labels   []float64
	Start    []int    // has one more element than there are labels
	Index    []uint32 // from 0, ascending within a vector; while reading, the file's index minus 1
	Value    []float32
	Features int // the largest index plus one
	// ZeroBased reports that the file counts indices from 0, as scikit-learn writes them.
	ZeroBased bool
	Queries   bool // query ids were ignored
	Weighted  int  // weights of examples (label:weight) were ignored
	Ascending int  // of Weighted, those whose label would be an index below the others: there may be no labels
	BadLines  int  // left out
	close     func() error
}

// Close releases Index and Value.
func (s Sparse) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}

// maxSparseLine is far above the longest vector of the public LIBSVM sets.
const maxSparseLine = 16 << 20

// maxIndex bounds a model's size after a mistyped index.
const maxIndex = 1 << 30

// ReadLIBSVM reads lines of the form
//
//	label index:value index:value ...
//
// in any order, with indices from 1, or from 0 where there is a 0. A query id (qid:7) and a weight (label:weight) are ignored. Anything
// after a # is a comment. Up to maxBad bad lines are skipped.
func ReadLIBSVM(name string, r io.Reader, maxBad int) (Sparse, error) {
	return readLIBSVM(name, r, maxBad, nil, inMemory)
}

// ReadLIBSVMBased is ReadLIBSVM for a file whose indices are known to count from 0, or from 1.
func ReadLIBSVMBased(name string, r io.Reader, maxBad int, zeroBased bool) (Sparse, error) {
	return readLIBSVM(name, r, maxBad, &zeroBased, inMemory)
}

func readLIBSVM(name string, r io.Reader, maxBad int, zeroBased *bool, limit int64) (Sparse, error) {
	plain, err := Plain(r)
	if err != nil {
		return Sparse{}, fmt.Errorf("%s: %w", name, err)
	}
	defer plain.Close()
	file := &lineFile{name: name, in: plain, longest: maxSparseLine}
	bad := tolerance{allowed: maxBad}
	all := newSparseTable(limit)
	err = readLines(file, &bad, nil, parseSparse, all.add)
	if err == nil && len(all.Labels) == 0 {
		err = fmt.Errorf("%s: no examples in it: want lines of the form `label index:value index:value ...`", name)
	}
	if n := len(all.Labels); err == nil && n > 1 && all.Ascending == n {
		err = &LineError{name, 1, "its first word may be an index with its value, or a label with a weight: write a label before the entries of each line " +
			"(to predict, any: `sed 's/^/0 /' OLD >NEW`), or leave the weights out, by `sed 's/^\\([^ ]*\\):[^ ]*/\\1/' OLD >NEW`"}
	}
	if err == nil {
		err = all.end()
	}
	if err == nil {
		err = all.rebase(name, zeroBased)
	}
	if err != nil {
		return Sparse{}, errors.Join(err, all.close())
	}
	all.BadLines = bad.bad
	return all.Sparse, nil
}

// sparseTable assembles the parts of a file.
type sparseTable struct {
	Sparse
	index array[uint32]
	value array[float32]
}

func newSparseTable(limit int64) *sparseTable {
	return &sparseTable{Sparse: Sparse{Start: []int{0}}, index: array[uint32]{limit: limit}, value: array[float32]{limit: limit}}
}

func (t *sparseTable) add(part *Sparse) error {
	for _, end := range part.Start[1:] {
		t.Start = append(t.Start, t.index.length+end)
	}
	t.Labels, t.Features = append(t.Labels, part.Labels...), max(t.Features, part.Features)
	t.ZeroBased, t.Queries, t.Weighted = t.ZeroBased || part.ZeroBased, t.Queries || part.Queries, t.Weighted+part.Weighted
	t.Ascending += part.Ascending
	return cmp.Or(t.index.add(part.Index), t.value.add(part.Value))
}

func (t *sparseTable) end() (err error) {
	if t.Index, err = t.index.all(); err != nil {
		return err
	}
	t.Value, err = t.value.all()
	if t.index.file != nil {
		t.Sparse.close = t.close
	}
	return err
}

// rebase makes indices count from 0. They were read as if the file counted from 1, so that its index 0 became the largest number.
func (t *sparseTable) rebase(name string, zeroBased *bool) error {
	switch {
	case zeroBased == nil:
	case t.ZeroBased && !*zeroBased:
		return fmt.Errorf("%s: it has an index 0, and the model was trained on a file whose indices count from 1", name)
	default:
		t.ZeroBased = *zeroBased
	}
	if t.ZeroBased {
		t.Features++
		for i := range t.Index {
			t.Index[i]++
		}
	}
	return nil
}

func (t *sparseTable) close() error { return errors.Join(t.index.close(), t.value.close()) }

func parseSparse(p *piece) *Sparse {
	entries := len(p.text) / shortEntry
	s := &Sparse{Start: []int{0}, Index: make([]uint32, 0, entries), Value: make([]float32, 0, entries)}
	p.each(func(line []byte, _ int) (reason string) {
		if before := len(s.Index); !s.addUsual(line) {
			s.Index, s.Value = s.Index[:before], s.Value[:before]
			return s.addLine(line)
		}
		return ""
	})
	return s
}

// shortEntry matches an entry such as 12:1 with the preceding space.
const shortEntry = 5

// addUsual adds a line of plain numbers, as most are. If it fails, use addLine; it may leave entries behind.
func (s *Sparse) addUsual(line []byte) bool {
	word, rest := plainWord(line)
	label, err := parseFloat64(word)
	if err != nil || label-label != 0 {
		return false
	}
	last := uint32(0)
	for len(rest) > 0 {
		index, digits := uint64(0), 0
		for digits < len(rest) && rest[digits]-'0' <= 9 {
			index = 10*index + uint64(rest[digits]-'0')
			digits++
		}
		if digits == 0 || digits > 10 || digits == len(rest) || rest[digits] != ':' || index > maxIndex || uint32(index) <= last {
			return false
		}
		last = uint32(index)
		if word, rest = plainWord(rest[digits+1:]); len(word) == 0 {
			return false
		}
		value := float32(1)
		if len(word) > 1 || word[0] != '1' {
			if value, err = parseFloat32(word); err != nil || value-value != 0 {
				return false
			}
		}
		s.Index = append(s.Index, last-1)
		s.Value = append(s.Value, value)
	}
	s.end(label)
	return true
}

// plainWord cuts off the text before the first space, and the spaces.
func plainWord(text []byte) (word, rest []byte) {
	end := 0
	for end < len(text) && text[end] > ' ' {
		end++
	}
	after := end
	for after < len(text) && text[after] == ' ' {
		after++
	}
	return text[:end], text[after:]
}

// end ends a vector whose entries have been added.
func (s *Sparse) end(label float64) {
	if n := len(s.Index); n > s.Start[len(s.Labels)] {
		s.Features = max(s.Features, int(s.Index[n-1]+1)) // 0 for an index 0
	}
	s.Labels = append(s.Labels, label)
	s.Start = append(s.Start, len(s.Index))
}

// addLine adds one line, or nothing and returns the reason. An empty line or a comment is neither.
func (s *Sparse) addLine(text []byte) (reason string) {
	text, _, _ = bytes.Cut(text, []byte("#"))
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return ""
	}
	word, rest := nextWord(text)
	cure := ""
	if bytes.IndexByte(word, ',') > 0 {
		cure = ": of several labels write one, and blanks between entries"
	}
	word, weight, weighted := bytes.Cut(word, []byte(":"))
	if w, err := strconv.ParseFloat(string(weight), 64); weighted && (err != nil || !(w >= 0)) {
		if cure == "" && err == nil {
			cure = ", or the line has no label: write one before its entries"
		}
		return fmt.Sprintf("weight %q is not a number from 0%s", weight, cure)
	}
	label, err := strconv.ParseFloat(string(word), 64)
	if err != nil || math.IsNaN(label) || math.IsInf(label, 0) {
		if cure == "" {
			cure = ": write classes as whole numbers, such as 0 and 1"
		}
		return fmt.Sprintf("label %q is not a finite number%s", word, cure)
	}
	before := len(s.Index)
	if reason := s.addEntries(rest); reason != "" {
		s.Index, s.Value = s.Index[:before], s.Value[:before]
		return reason
	}
	if weighted {
		s.Weighted++
		if label == math.Trunc(label) && label >= 0 && (before == len(s.Index) || label < float64(s.Index[before]+1)) {
			s.Ascending++
		}
	}
	s.end(label)
	return ""
}

func (s *Sparse) addEntries(rest []byte) (reason string) {
	first, last, ascending := len(s.Index), int64(-1), true
	for len(rest) > 0 {
		var word []byte
		word, rest = nextWord(rest)
		index, value, found := bytes.Cut(word, []byte(":"))
		if !found {
			return fmt.Sprintf("%q is not of the form index:value", word)
		}
		if string(index) == "qid" {
			s.Queries = true
			continue
		}
		i, err := strconv.ParseUint(string(index), 10, 32)
		if err != nil || i > maxIndex {
			return fmt.Sprintf("index %q is not a whole number from 0 to %d", index, maxIndex)
		}
		s.ZeroBased = s.ZeroBased || i == 0
		ascending = ascending && int64(i) > last
		last = int64(i)
		v, err := strconv.ParseFloat(string(value), 32)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			cure := "leave out entries without a value"
			if bytes.IndexByte(value, ':') >= 0 {
				cure = "of LibFFM's field:index:value leave out the field"
			}
			return fmt.Sprintf("value %q of index %d is not a finite number: %s", value, i, cure)
		}
		s.Index = append(s.Index, uint32(i)-1)
		s.Value = append(s.Value, float32(v))
	}
	if ascending {
		return ""
	}
	vector := entries{s.Index[first:], s.Value[first:]}
	sort.Sort(vector)
	for i := 1; i < vector.Len(); i++ {
		if vector.index[i] == vector.index[i-1] {
			return fmt.Sprintf("index %d is there twice: leave one out, or write their sum", vector.index[i]+1)
		}
	}
	return ""
}

// entries are a vector's entries, for sorting by index.
type entries struct {
	index []uint32
	value []float32
}

func (e entries) Len() int           { return len(e.index) }
func (e entries) Less(i, j int) bool { return e.index[i]+1 < e.index[j]+1 } // an index 0 is the largest number
func (e entries) Swap(i, j int) {
	e.index[i], e.index[j] = e.index[j], e.index[i]
	e.value[i], e.value[j] = e.value[j], e.value[i]
}

// nextWord cuts off the first word of a text without space at its ends.
func nextWord(text []byte) (word, rest []byte) {
	i := bytes.IndexAny(text, " \t")
	if i < 0 {
		return text, nil
	}
	return text[:i], bytes.TrimLeft(text[i:], " \t")
}
