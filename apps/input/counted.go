package input

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"
)

// What people call the columns of a table that has a row for each word of a document, in lower case and without signs.
var countedNames = [3][]string{
	{"doc", "docs", "docid", "document", "documents", "documentid", "docno"},
	{"word", "words", "wordid", "term", "terms", "termid", "token", "tokenid"},
	{"count", "counts", "n", "freq", "frequency", "tf", "occurrences"},
}

// countedColumns returns the columns of documents, words and counts in a table that has exactly one of each.
func countedColumns(first []byte, o BagOptions) (columns [3]int, found bool) {
	separator, _ := tableForm(first)
	lines := csv.NewReader(bytes.NewReader(first))
	lines.Comma, lines.LazyQuotes = separator, separator != ','
	header, err := lines.Read()
	if err != nil {
		return columns, false
	}
	for k, names := range countedNames {
		at := -1
		for i, name := range documentHeader(header, o.Columns) {
			name = strings.ToLower(strings.NewReplacer("_", "", " ", "", ".", "", "-", "").Replace(name))
			switch {
			case !slices.Contains(names, name):
			case at >= 0:
				return columns, false
			default:
				at = i
			}
		}
		if at < 0 {
			return columns, false
		}
		columns[k] = at
	}
	return columns, true
}

// readCounted reads a table that has a row for each word of a document, in any order. Counts of the same word and document add up.
func (d *documentReader) readCounted(in io.Reader, first []byte) error {
	columns, _ := countedColumns(first, d.options)
	d.bag.Notes = append(d.bag.Notes, "each row counts a word of a document; documents are numbered in the order in which they appear")
	documents := map[string]uint32{}
	var entries []bagEntry
	err := d.eachRow(in, first, func(row int, fields []string) (reason string, err error) {
		if row == 0 && len(d.options.Columns) == 0 {
			return "", nil
		}
		document, word := strings.TrimSpace(fields[columns[0]]), strings.TrimSpace(fields[columns[1]])
		n, err := countOf(fields[columns[2]])
		switch {
		case document == "" || word == "":
			return "a row without a document or a word", nil
		case err != nil:
			return fmt.Sprintf("column %d: %q is not a count, a whole number from 0", columns[2]+1, fields[columns[2]]), nil
		}
		number, known := documents[document]
		if !known {
			number = uint32(len(documents) + 1)
			documents[strings.Clone(document)] = number
		}
		if place := d.placeOf(strings.Clone(word)); place >= 0 && n > 0 {
			entries = append(entries, bagEntry{document: number, word: uint32(place), count: uint32(n)})
		}
		return "", nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b bagEntry) int {
		return cmp.Or(cmp.Compare(a.document, b.document), cmp.Compare(a.word, b.word))
	})
	for i, e := range entries {
		last := len(d.bag.Word) - 1
		switch {
		case i > 0 && e.document == entries[i-1].document && e.word == entries[i-1].word:
			d.bag.Count[last] += e.count
			continue
		case i == 0 || e.document != entries[i-1].document:
			d.bag.ID, d.bag.Start = append(d.bag.ID, e.document), append(d.bag.Start, len(d.bag.Word))
		}
		d.bag.Word, d.bag.Count = append(d.bag.Word, e.word), append(d.bag.Count, e.count)
		d.bag.Start[len(d.bag.Start)-1] = len(d.bag.Word)
	}
	return nil
}
