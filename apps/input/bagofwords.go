package input

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// Bag is a collection of non-empty documents as bags of words; it is valid until Close. Document i has the entries Start[i] to Start[i+1].
// An entry takes 8 bytes, and 24 while the file is read: in memory up to inMemory, then in files.
type Bag struct {
	ID    []uint32 // the file's number of each document, ascending: from 1, or from 0 if the file has a document 0
	Start []int    // has one more element than there are documents
	Word  []uint32 // from 0, ascending within a document
	Count []uint32 // occurrences, from 1
	Words int      // size of the vocabulary, according to the header
	// Vocabulary are the words of a text file, sorted; nil for a file of numbers.
	Vocabulary []string
	Sparse     bool     // LDA-C
	Notes      []string // surprises for the user
	BadLines   int      // left out
	close      func() error
}

// Close releases Word and Count.
func (b Bag) Close() error { return b.close() }

// bagFormat describes the format in messages.
const bagFormat = "want the UCI bag-of-words format: three lines with the numbers of documents, words and entries, " +
	"then lines of `document word count`"

// maxBagHeader bounds the memory that a mistyped header can request.
const maxBagHeader = 1 << 31

// ReadBagOfWords reads a docword file of the UCI repository's "Bag of Words" collection: the numbers of documents, words and entries, one
// per line, then a line `document word count` for each entry, numbered from 1. Entries may come in any order, but no word of a document
// twice. Up to maxBad bad lines are skipped.
func ReadBagOfWords(name string, r io.Reader, maxBad int) (Bag, error) {
	return readBagOfWords(name, r, maxBad, inMemory)
}

func readBagOfWords(name string, r io.Reader, maxBad int, limit int64) (Bag, error) {
	plain, err := Plain(r)
	if err != nil {
		return Bag{}, fmt.Errorf("%s: %w", name, err)
	}
	defer plain.Close()
	b := &bagReader{
		name: name, tolerance: tolerance{allowed: maxBad},
		entries: array[bagEntry]{limit: limit}, words: array[uint32]{limit: limit}, counts: array[uint32]{limit: limit},
	}
	err = b.readAll(plain)
	var bag Bag
	if err == nil {
		bag, err = b.bag()
	}
	if err = errors.Join(err, b.entries.close()); err != nil {
		return Bag{}, errors.Join(err, b.close())
	}
	return bag, nil
}

type bagReader struct {
	name      string
	tolerance tolerance
	line      int
	header    [3]int // documents, words, entries
	entries   array[bagEntry]
	zero      [2]atomic.Bool // whether there is a document 0, a word 0

	words, counts array[uint32] // of the entries in order
}

func (b *bagReader) close() error { return errors.Join(b.words.close(), b.counts.close()) }

type bagEntry struct {
	document, word, count, line uint32
}

func (b *bagReader) readAll(plain io.Reader) error {
	file := &lineFile{name: b.name, in: plain, longest: maxLine, format: ": " + bagFormat}
	head := func(line []byte, number int) (bool, error) {
		if number > len(b.header) {
			return false, nil
		}
		text := bytes.TrimSpace(line)
		return true, b.readHeader(text, number)
	}
	parse := func(p *piece) []bagEntry {
		entries := make([]bagEntry, 0, len(p.text)/shortLine)
		p.each(func(line []byte, number int) (reason string) {
			entry, reason := b.parse(bytes.TrimSpace(line))
			if reason == "" {
				entry.line = uint32(number)
				entries = append(entries, entry)
			}
			return reason
		})
		return entries
	}
	if err := readLines(file, &b.tolerance, head, parse, b.entries.add); err != nil {
		return err
	}
	if file.lines < len(b.header) {
		return fmt.Errorf("%s: it ends after line %d: %s", b.name, file.lines, bagFormat)
	}
	b.line = file.lines
	return b.checkCount()
}

func (b *bagReader) readHeader(text []byte, line int) error {
	what := [...]string{"documents", "words", "entries"}[line-1]
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 0 || n > maxBagHeader {
		return &LineError{b.name, line, fmt.Sprintf("number of %s %q is not a whole number from 0 to %d: %s", what, text, maxBagHeader, bagFormat)}
	}
	b.header[line-1] = int(n)
	return nil
}

// checkCount detects a truncated file: good and bad lines together must match the header's number of entries.
func (b *bagReader) checkCount() error {
	want := b.header[2]
	if got := b.entries.length + b.tolerance.bad; got != want {
		reason := fmt.Sprintf("%d entries, the header says %d", got, want)
		if got < want {
			reason += fmt.Sprintf(": the file may be cut short; fetch it again, or write %d in its third line", got)
		}
		return b.tolerance.take(&LineError{b.name, b.line, reason})
	}
	return nil
}

// parse parses one entry, or returns why it is bad.
func (b *bagReader) parse(text []byte) (entry bagEntry, reason string) {
	var fields [3]uint32
	rest := text
	for i, what := range [...]string{"document", "word", "count"} {
		var word []byte
		if word, rest = nextWord(rest); len(word) == 0 {
			return entry, fmt.Sprintf("%d numbers, want 3: document, word and count", i)
		}
		limit, least := uint64(math.MaxInt32), uint32(1)
		if i < 2 {
			limit, least = uint64(b.header[i]), 0
		}
		n, err := parseUint32(word)
		if i < 2 && err == nil && n == 0 && !b.zero[i].Load() {
			b.zero[i].Store(true)
		}
		if err != nil || n < least || uint64(n) > limit {
			return entry, fmt.Sprintf("%s %q is not a whole number from %d to %d", what, word, least, limit)
		}
		fields[i] = n
	}
	if len(rest) > 0 {
		return entry, "more than 3 numbers: want document, word and count"
	}
	return bagEntry{document: fields[0] - 1, word: fields[1] - 1, count: fields[2]}, ""
}

var errNumber = errors.New("not a number")

// parseUint32 parses a number without allocating a string: large collections have a billion numbers.
func parseUint32(text []byte) (uint32, error) {
	if len(text) > 10 {
		return 0, errNumber
	}
	var n uint64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, errNumber
		}
		n = 10*n + uint64(c-'0')
	}
	if n > math.MaxUint32 {
		return 0, errNumber
	}
	return uint32(n), nil
}

// bag sorts the entries by document, then word.
func (b *bagReader) bag() (Bag, error) {
	if b.entries.length == 0 {
		return Bag{}, fmt.Errorf("%s: no documents in it: %s", b.name, bagFormat)
	}
	entries, err := b.sorted()
	if err != nil {
		return Bag{}, err
	}
	bag := Bag{Words: b.header[1], BadLines: b.tolerance.bad, close: b.close}
	first := uint32(1)
	if b.zero[0].Load() {
		first = 0
		bag.Notes = append(bag.Notes, "documents count from 0")
	}
	for some := range slices.Chunk(entries, 1<<16) {
		words, counts := make([]uint32, len(some)), make([]uint32, len(some))
		for i, e := range some {
			if n := len(bag.ID); n == 0 || bag.ID[n-1] != e.document+first {
				bag.ID = append(bag.ID, e.document+first)
				bag.Start = append(bag.Start, b.words.length+i)
			}
			words[i], counts[i] = e.word, e.count
		}
		if err := cmp.Or(b.words.add(words), b.counts.add(counts)); err != nil {
			return Bag{}, err
		}
	}
	bag.Start = append(bag.Start, len(entries))
	if bag.Word, err = b.words.all(); err != nil {
		return Bag{}, err
	}
	bag.Count, err = b.counts.all()
	return bag, err
}

// ReadVocabulary reads the words of a bag of words, one per line.
func ReadVocabulary(name string, r io.Reader) ([]string, error) {
	plain, err := Plain(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer plain.Close()
	scanner := bufio.NewScanner(plain)
	scanner.Buffer(make([]byte, 0, maxLine), maxLine)
	var words []string
	for scanner.Scan() {
		word := strings.TrimSuffix(scanner.Text(), "\r")
		words = append(words, word)
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, &LineError{name, len(words) + 1, fmt.Sprintf("longer than %d bytes: want one word a line", maxLine)}
	case err != nil:
		return nil, fmt.Errorf("%s: after line %d: %w", name, len(words), err)
	case len(words) == 0:
		return nil, fmt.Errorf("%s: it is empty: want one word a line", name)
	}
	return words, nil
}

// rebase renumbers documents and words from 0 if the file has a 0. They were parsed as if the file counted from 1, so that 0 became
// the largest number.
func (b *bagReader) rebase(entries []bagEntry) error {
	if !b.zero[0].Load() && !b.zero[1].Load() {
		return nil
	}
	for i := range entries {
		for k, n := range []*uint32{&entries[i].document, &entries[i].word} {
			if !b.zero[k].Load() {
				continue
			}
			if *n++; int(*n) >= b.header[k] {
				what := [...]string{"document", "word"}[k]
				return &LineError{b.name, int(entries[i].line), fmt.Sprintf("%s %d of %d, and there is a %[1]s 0: numbers must count from 0 or from 1", what, *n, b.header[k])}
			}
		}
	}
	return nil
}

// sorted returns the entries in order. A second line with the same document and word is a bad line.
func (b *bagReader) sorted() ([]bagEntry, error) {
	entries, err := b.entries.all()
	if err != nil {
		return nil, err
	}
	if err := b.rebase(entries); err != nil {
		return nil, err
	}
	byPlace := func(x, y bagEntry) int {
		return cmp.Or(cmp.Compare(x.document, y.document), cmp.Compare(x.word, y.word), cmp.Compare(x.line, y.line))
	}
	if !slices.IsSortedFunc(entries, byPlace) {
		slices.SortFunc(entries, byPlace)
	}
	kept := entries[:0]
	for _, e := range entries {
		if n := len(kept); n > 0 && kept[n-1].document == e.document && kept[n-1].word == e.word {
			reason := fmt.Sprintf("document %d had word %d before, in line %d", e.document+1, e.word+1, kept[n-1].line)
			if err := b.tolerance.take(&LineError{b.name, int(e.line), reason}); err != nil {
				return nil, err
			}
			continue
		}
		kept = append(kept, e)
	}
	return kept, nil
}
