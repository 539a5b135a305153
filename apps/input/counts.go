package input

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// countColumns returns which columns of a table are words, and whether it counts words: each row is a document, each column a word. The
// first column may be the documents' names or numbers. A reason tells why a table of numbers does not.
func countColumns(first []byte, o BagOptions) (words []int, reason string) {
	separator, even := tableForm(first)
	if separator == ' ' || !even {
		return nil, ""
	}
	lines := csv.NewReader(bytes.NewReader(first))
	lines.Comma, lines.LazyQuotes = separator, separator != ','
	header, err := lines.Read()
	if err != nil || len(header) < 2 {
		return nil, ""
	}
	form := numberForm{}
	for i, name := range header {
		if _, number := form.parse(strings.TrimSpace(name)); !number && (i > 0 || !namesDocuments(name)) && !slices.Contains(o.Ignore, strings.TrimSpace(name)) {
			words = append(words, i)
		}
	}
	if len(words) < len(header)-1-len(o.Ignore) {
		return nil, "" // numbers are no words
	}
	named := false // the first column has names of documents
	for rows := 0; rows < shownRows; rows++ {
		fields, err := nextRow(lines)
		if err != nil { // the last line may not be whole
			if rows == 0 {
				return nil, ""
			}
			break
		}
		for _, i := range words {
			field := strings.TrimSpace(fields[i])
			_, number := form.parse(field)
			switch {
			case field == "":
			case !number && i == 0 && (rows == 0 || named):
				named = true
			case !number:
				return nil, ""
			case i > 0:
				if _, err := countOf(field); err != nil && reason == "" {
					reason = fmt.Sprintf("%q in the column %q is no count: to train on a table of words and counts write whole numbers, or choose another app for a table of measured numbers",
						field, strings.TrimSpace(header[i]))
				}
			}
		}
	}
	if named {
		words = slices.DeleteFunc(words, func(i int) bool { return i == 0 })
	}
	return words, reason
}

// namesDocuments reports whether a first column so called has documents' names or numbers.
func namesDocuments(name string) bool {
	return slices.Contains([]string{"", "id", "doc", "docid", "doc_id", "document", "documentid", "document_id", "index", "row", "rownames", "unnamed: 0"}, strings.ToLower(strings.TrimSpace(name)))
}

func countOf(field string) (int, error) {
	if field = strings.TrimSpace(field); field == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(field, ".0"), 10, 31)
	return int(n), err
}

// readCounts reads a table whose columns are words.
func (d *documentReader) readCounts(in io.Reader, first []byte, words []int) error {
	d.bag.Notes = append(d.bag.Notes, fmt.Sprintf("each row is a document, and each of %d columns counts a word", len(words)))
	var places []int64 // of the columns' words; -1 = not of the given vocabulary
	return d.eachRow(in, first, func(row int, fields []string) (reason string, err error) {
		if row > 0 {
			return d.addCounts(row, fields, words, places), nil
		}
		for _, i := range words {
			places = append(places, d.placeOf(strings.TrimSpace(fields[i])))
		}
		return "", nil
	})
}

// eachRow calls f for each row of a table, the header first. A reason makes it a bad line.
func (d *documentReader) eachRow(in io.Reader, first []byte, f func(row int, fields []string) (reason string, err error)) error {
	separator, _ := tableForm(first)
	lines := csv.NewReader(in)
	lines.Comma, lines.LazyQuotes, lines.ReuseRecord = separator, separator != ',', true
	for row := 0; ; row++ {
		fields, err := nextRow(lines)
		var parse *csv.ParseError
		line, reason := 0, ""
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &parse):
			line, reason = parse.StartLine, reasonOf(parse, fields, lines.FieldsPerRecord)
		case err != nil:
			return fmt.Errorf("%s: %w", d.name, err)
		default:
			line, _ = lines.FieldPos(0)
			if reason, err = f(row, fields); err != nil {
				return err
			}
		}
		if reason == "" {
			continue
		}
		if err := d.tolerance.take(&LineError{d.name, line, reason}); err != nil {
			return err
		}
	}
}

// placeOf returns a word's place in the vocabulary.
func (d *documentReader) placeOf(word string) int64 {
	place, known := d.places[word]
	if !known && d.options.Vocabulary != nil {
		return -1
	}
	if !known {
		place = uint32(len(d.places))
		d.places[word] = place
	}
	return int64(place)
}

func (d *documentReader) addCounts(row int, fields []string, words []int, places []int64) (reason string) {
	from := len(d.bag.Word)
	for k, i := range words {
		n, err := countOf(fields[i])
		if err != nil {
			d.bag.Word, d.bag.Count = d.bag.Word[:from], d.bag.Count[:from]
			return fmt.Sprintf("column %d: %q is not a count, a whole number from 0", i+1, fields[i])
		}
		if n > 0 && places[k] >= 0 {
			d.bag.Word, d.bag.Count = append(d.bag.Word, uint32(places[k])), append(d.bag.Count, uint32(n))
		}
	}
	if len(d.bag.Word) > from {
		d.bag.ID, d.bag.Start = append(d.bag.ID, uint32(row)), append(d.bag.Start, len(d.bag.Word))
	}
	return ""
}

// matrixBanner begins a MatrixMarket file of documents' counts.
const matrixBanner = "%%MatrixMarket"

// asBag turns a MatrixMarket file of documents by words into UCI's bag of words: its comments are left out, and each number of its line of
// sizes gets a line.
func asBag(in *bufio.Reader) io.Reader {
	for {
		if next, err := in.Peek(1); err != nil || next[0] != '%' {
			break
		}
		if _, err := in.ReadString('\n'); err != nil {
			break
		}
	}
	sizes, _ := in.ReadString('\n')
	return io.MultiReader(strings.NewReader(strings.Join(strings.Fields(sizes), "\n")+"\n"), in)
}
