package input

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tierml/tierml/internal/pattern"
)

// BagOptions supplies what a file of documents does not contain.
type BagOptions struct {
	Vocabulary []string // the only words that count, sorted; nil = all
	Columns    []string // names, for a table without a header
	Ignore     []string // columns to skip
}

// ReadBag reads documents in one of these forms, recognised by the first lines:
//
//   - UCI's bag of words (ReadBagOfWords);
//   - LDA-C: `words word:count word:count ...`, a document a line, words from 0;
//   - a table with a column of text, named text, review, body or the like, or else the one with the longest cells;
//   - a table of counts, a document a row, a word a column; or a MatrixMarket file of documents by words;
//   - a table with columns called as document, word and count, a row for each word of a document;
//   - text, a document a line.
//
// Words of text are runs of at least two letters, digits or underscores, in lower case.
func ReadBag(name string, r io.Reader, maxBad int, o BagOptions) (Bag, error) {
	plain, err := Plain(r)
	if err != nil {
		return Bag{}, fmt.Errorf("%s: %w", name, err)
	}
	defer plain.Close()
	in := bufio.NewReaderSize(plain, look)
	first, err := in.Peek(look)
	if err != nil && !errors.Is(err, io.EOF) {
		return Bag{}, fmt.Errorf("%s: %w", name, err)
	}
	d := documentReader{name: name, tolerance: tolerance{allowed: maxBad}, options: o, places: map[string]uint32{}, bag: Bag{Start: []int{0}}}
	for i, word := range o.Vocabulary {
		d.places[word] = uint32(i)
	}
	form, column := formOf(first, o)
	if form == formText && bytes.HasPrefix(first, []byte(matrixBanner)) {
		if line, _, _ := bytes.Cut(first, []byte("\n")); !bytes.Contains(line, []byte("coordinate")) || !bytes.Contains(line, []byte("general")) {
			return Bag{}, &LineError{name, 1, "of MatrixMarket's files `matrix coordinate integer general` has documents: write it so, by `scipy.io.mmwrite(NAME, scipy.sparse.coo_matrix(counts))`"}
		}
		return ReadBagOfWords(name, asBag(in), maxBad)
	}
	if form == formText && len(o.Columns) == 0 {
		words, reason := countColumns(first, o)
		switch {
		case reason != "":
			return Bag{}, fmt.Errorf("%s: %s", name, reason)
		case words != nil:
			if err := d.readCounts(in, first, words); err != nil {
				return Bag{}, err
			}
			return d.finish()
		}
	}
	if lines := someLines(first); form == formText && len(lines) > 0 && allMatch(lines, sparseLine()) {
		form = formSparse // whose first fault explains why it is not
	}
	switch form {
	case formUCI:
		return ReadBagOfWords(name, in, maxBad)
	case formSparse:
		err = d.readSparse(in)
	case formTable:
		err = d.readTable(in, column)
	case formCounted:
		err = d.readCounted(in, first)
	default:
		err = d.readLines(in, first)
	}
	if err != nil {
		return Bag{}, err
	}
	return d.finish()
}

type bagForm int

const (
	formText bagForm = iota
	formUCI
	formSparse
	formTable
	formCounted
)

var (
	wholeLine  = pattern.Of(`^\s*[0-9]+\s*$`)
	sparseLine = pattern.Of(`^([0-9]+)((?:\s+[0-9]+:[0-9]+)*)\s*$`)
)

// LooksBag reports whether a text begins like documents of counted words: UCI's or LDA-C's format, or a table of document, word and count.
func LooksBag(first []byte) bool {
	form, _ := formOf(first, BagOptions{})
	return form == formUCI || form == formSparse || form == formCounted
}

// TextColumn returns the column with text in a table's first lines; empty = no table, or no such column.
func TextColumn(first []byte, ignore []string) string {
	form, column := formOf(first, BagOptions{Ignore: ignore})
	if form != formTable {
		return ""
	}
	return column
}

func formOf(first []byte, o BagOptions) (form bagForm, column string) {
	lines := someLines(first)
	if len(lines) == 0 {
		return formText, ""
	}
	if wholeLine().MatchString(lines[0]) {
		return formUCI, ""
	}
	bad := 0
	for _, line := range lines {
		if !isSparseDocument(line) {
			bad++
		}
	}
	if bad == 0 || bad == 1 && len(lines) == shownLines && allMatch(lines, sparseLine()) {
		return formSparse, ""
	}
	if _, counted := countedColumns(first, o); counted {
		return formCounted, ""
	}
	if column = textColumn(first, o); column != "" {
		return formTable, column
	}
	return formText, ""
}

func allMatch(lines []string, form *regexp.Regexp) bool {
	return !slices.ContainsFunc(lines, func(line string) bool { return !form.MatchString(line) })
}

func isSparseDocument(line string) bool {
	found := sparseLine().FindStringSubmatch(line)
	if found == nil {
		return false
	}
	n, err := strconv.Atoi(found[1])
	return err == nil && n == len(strings.Fields(found[2]))
}

// textNames are usual names of text columns, most likely first.
var textNames = []string{"text", "review", "review_text", "reviewtext", "body", "content", "document", "abstract", "comment", "comments", "message", "description",
	"tweet", "post", "sentence", "article", "headline", "summary", "title", "question"}

// textColumn finds a table's text column by its first lines.
func textColumn(first []byte, o BagOptions) string {
	separator, _ := tableForm(first)
	if separator == ' ' {
		return ""
	}
	lines := csv.NewReader(bytes.NewReader(first))
	lines.Comma, lines.LazyQuotes = separator, separator != ','
	header, err := lines.Read()
	if err != nil || len(header) < 2 {
		return ""
	}
	header = documentHeader(header, o.Columns)
	words, numbers, rows := make([]int, len(header)), make([]int, len(header)), 0
	form := numberForm{}
	for ; rows < 1000; rows++ {
		fields, err := nextRow(lines)
		if err != nil {
			break
		}
		for i, field := range fields {
			words[i] += len(strings.Fields(field))
			if _, number := form.parse(strings.TrimSpace(field)); number {
				numbers[i]++
			}
		}
	}
	best, most := -1, 0
	for i, name := range header {
		if slices.Contains(o.Ignore, name) || words[i] < wordsOfText*rows || numbers[i] > rows/2 {
			continue
		}
		weight := words[i]
		if at := slices.Index(textNames, strings.ToLower(strings.TrimSpace(name))); at >= 0 {
			weight += (len(textNames) - at) << 40
		}
		if weight > most {
			best, most = i, weight
		}
	}
	if best < 0 {
		return ""
	}
	return strings.TrimSpace(header[best])
}

// documentHeader returns the names of a table's columns: those given, its first line or, if that has text of its own, c1, c2 and so on.
func documentHeader(first, given []string) []string {
	if len(given) == len(first) {
		return given
	}
	if !slices.ContainsFunc(first, func(name string) bool { return len(strings.Fields(name)) > wordsOfText }) {
		return first
	}
	names := make([]string, len(first))
	for i := range first {
		names[i] = fmt.Sprintf("c%d", i+1)
	}
	return names
}

// documentReader builds a bag of documents in the file's order. Words are numbered by first occurrence.
type documentReader struct {
	name      string
	tolerance tolerance
	options   BagOptions
	places    map[string]uint32
	bag       Bag
}

// notUTF8 is the fault of text in another encoding.
const notUTF8 = "not text in UTF-8: save it so, for instance by `iconv -f WINDOWS-1252 -t UTF-8`"

// maxDocument is the longest line that counts as one document.
const maxDocument = 16 << 20

// lineOfText is a document and its line number.
type lineOfText struct {
	number int
	words  []string
}

func (d *documentReader) readLines(in io.Reader, first []byte) error {
	file := &lineFile{name: d.name, in: in, longest: maxDocument, format: ": want a document a line"}
	header := ""
	if line, _, _ := bytes.Cut(first, []byte("\n")); slices.Contains(textNames, strings.ToLower(strings.TrimSpace(string(line)))) {
		header = string(line)
	}
	head := func([]byte, int) (bool, error) {
		mine := header != ""
		header = ""
		return mine, nil
	}
	return readLines(file, &d.tolerance, head, func(p *piece) (all []lineOfText) {
		p.each(func(line []byte, number int) (reason string) {
			if !utf8.Valid(line) || bytes.IndexByte(line, 0) >= 0 {
				return notUTF8
			}
			all = append(all, lineOfText{number, wordsOf(string(line))})
			return ""
		})
		return all
	}, func(all []lineOfText) error {
		for _, line := range all {
			d.add(line.number, line.words)
		}
		return nil
	})
}

// wordsOf splits a text, as scikit-learn's CountVectorizer does by default.
func wordsOf(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { return c != '_' && !unicode.IsLetter(c) && !unicode.IsNumber(c) })
	return slices.DeleteFunc(words, func(word string) bool { return utf8.RuneCountInString(word) < 2 })
}

func (d *documentReader) readTable(in io.Reader, column string) error {
	d.bag.Notes = append(d.bag.Notes, fmt.Sprintf("each cell of the column %q is a document", column))
	buffered := bufio.NewReaderSize(in, look)
	first, _ := buffered.Peek(look)
	at, number := -1, 0
	return d.eachRow(buffered, first, func(row int, fields []string) (reason string, err error) {
		if row == 0 {
			names := documentHeader(fields, d.options.Columns)
			at = slices.IndexFunc(names, func(name string) bool { return strings.TrimSpace(name) == column })
			if at < 0 {
				return "", fmt.Errorf("%s: there is no column %q", d.name, column)
			}
			if slices.Equal(names, fields) {
				return "", nil
			}
			number = 1 // the first line is a document
		}
		d.add(number+row, wordsOf(fields[at]))
		return "", nil
	})
}

// readSparse reads LDA-C.
func (d *documentReader) readSparse(in io.Reader) error {
	d.bag.Sparse = true
	file := &lineFile{name: d.name, in: in, longest: maxDocument}
	type document struct {
		number        int
		words, counts []uint32
	}
	return readLines(file, &d.tolerance, nil, func(p *piece) (all []document) {
		p.each(func(line []byte, number int) (reason string) {
			if !isSparseDocument(string(line)) {
				return "want the number of different words, then as many word:count"
			}
			one := document{number: number}
			for _, entry := range strings.Fields(string(line))[1:] {
				word, count, _ := strings.Cut(entry, ":")
				w, err := strconv.ParseUint(word, 10, 31)
				n, err2 := strconv.ParseUint(count, 10, 31)
				if err := cmp.Or(err, err2); err != nil || n == 0 {
					return fmt.Sprintf("%q is not word:count, from 0 and from 1", entry)
				}
				one.words, one.counts = append(one.words, uint32(w)), append(one.counts, uint32(n))
			}
			if len(one.words) > 0 {
				all = append(all, one)
			}
			return ""
		})
		return all
	}, func(all []document) error {
		for _, one := range all {
			d.bag.ID = append(d.bag.ID, uint32(one.number))
			d.bag.Word, d.bag.Count = append(d.bag.Word, one.words...), append(d.bag.Count, one.counts...)
			d.bag.Start = append(d.bag.Start, len(d.bag.Word))
			for _, w := range one.words {
				d.bag.Words = max(d.bag.Words, int(w)+1)
			}
		}
		return nil
	})
}

// add adds a document; one without words is skipped.
func (d *documentReader) add(number int, words []string) {
	from := len(d.bag.Word)
	for _, word := range words {
		place, known := d.places[word]
		if !known && d.options.Vocabulary != nil {
			continue
		}
		if !known {
			place = uint32(len(d.places))
			d.places[strings.Clone(word)] = place
		}
		d.bag.Word = append(d.bag.Word, place)
	}
	if len(d.bag.Word) == from {
		return
	}
	slices.Sort(d.bag.Word[from:])
	kept := from
	for _, place := range d.bag.Word[from:] {
		if kept > from && d.bag.Word[kept-1] == place {
			d.bag.Count[kept-1]++
			continue
		}
		d.bag.Word[kept], d.bag.Count = place, append(d.bag.Count[:kept], 1)
		kept++
	}
	d.bag.Word = d.bag.Word[:kept]
	d.bag.ID, d.bag.Start = append(d.bag.ID, uint32(number)), append(d.bag.Start, kept)
}

// finish sorts the words.
func (d *documentReader) finish() (Bag, error) {
	bag := d.bag
	if bag.close = func() error { return nil }; len(bag.ID) == 0 {
		return Bag{}, fmt.Errorf("%s: no documents in it: want a document a line, a table with a column of text, LDA-C or UCI's bag of words", d.name)
	}
	bag.BadLines = d.tolerance.bad
	rank := make([]uint32, len(d.places))
	switch {
	case d.options.Vocabulary != nil && !bag.Sparse:
		bag.Words, bag.Vocabulary = len(d.options.Vocabulary), d.options.Vocabulary
		return bag, nil
	case !bag.Sparse:
		bag.Vocabulary = make([]string, len(d.places))
		for word, place := range d.places {
			bag.Vocabulary[place] = word
		}
		order := make([]uint32, len(rank))
		for i := range order {
			order[i] = uint32(i)
		}
		slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(bag.Vocabulary[a], bag.Vocabulary[b]) })
		for i, place := range order {
			rank[place] = uint32(i)
		}
		slices.Sort(bag.Vocabulary)
		bag.Words = len(rank)
	}
	for i := range bag.ID {
		words, counts := bag.Word[bag.Start[i]:bag.Start[i+1]], bag.Count[bag.Start[i]:bag.Start[i+1]]
		entries := make([]bagEntry, len(words))
		for k, word := range words {
			if bag.Vocabulary != nil {
				word = rank[word]
			}
			entries[k] = bagEntry{word: word, count: counts[k]}
		}
		slices.SortFunc(entries, func(a, b bagEntry) int { return cmp.Compare(a.word, b.word) })
		for k, e := range entries {
			if words[k], counts[k] = e.word, e.count; k > 0 && words[k-1] == e.word {
				return Bag{}, &LineError{d.name, int(bag.ID[i]), fmt.Sprintf("word %d is there twice", e.word)}
			}
		}
	}
	return bag, nil
}
