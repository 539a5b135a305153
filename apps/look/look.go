// Package look proposes what to train on a file of data: it asks the applications' own readers what they find in its first lines, and
// judges by names and values. It opens no file, and knows no machine.
package look

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/input"
	"github.com/tierml/tierml/apps/labelled"
	"github.com/tierml/tierml/internal/pattern"
)

// Proposal is what to train. App is empty when nothing fits; Why then is the fault of a file that begins as one that fits, with the file's
// name, or empty.
type Proposal struct {
	App    string
	Target string   // the column of a table to predict
	Ignore []string // columns of a table that say nothing, such as line numbers
	Why    string
	// Guess means that only the column's place in the table suggests the target: people must say which of Columns they
	// mean.
	Guess   bool
	Columns []string
}

// shownText is how much of a file shows what it is.
const shownText = 4 << 20

// At examines the beginning of a file. The target, if it is not empty, is the column to predict.
func At(in apps.Input, target string) (Proposal, error) {
	unpacked, err := input.Plain(in.Data)
	if err != nil {
		return Proposal{}, err
	}
	defer unpacked.Close()
	head, err := io.ReadAll(io.LimitReader(unpacked, shownText))
	if err != nil {
		return Proposal{}, err
	}
	rest := bufio.NewReaderSize(unpacked, 1<<16)
	if len(head) == shownText { // the last line is not whole
		head = head[:bytes.LastIndexByte(head, '\n')+1]
		_, _ = rest.ReadSlice('\n')
	}
	in.MaxBadLines = bytes.Count(head, []byte("\n")) / 5
	again := func() apps.Input { in.Data = bytes.NewReader(head); return in }
	switch {
	case len(bytes.TrimSpace(head)) == 0:
		return Proposal{}, nil
	case bytes.HasPrefix(head, []byte("\x00\x00\x08")):
		return Proposal{App: "mlr", Why: "they are images"}, nil
	case target == "" && input.LooksBag(head):
		return Proposal{App: "lda", Why: "they are counted words of documents"}, nil
	}
	if target == "" {
		pairs, err := input.ReadPairs(in.Name, bytes.NewReader(head), in.MaxBadLines)
		if err != nil && pairs.Scored && pairs.Columns <= mostOfRatings {
			_, err = input.ReadPairs(in.Name, bytes.NewReader(head), 0) // its first fault
			return Proposal{Why: err.Error()}, nil
		}
		if err == nil && bytes.HasPrefix(head, []byte("%%MatrixMarket matrix coordinate integer")) && fewRepeat(pairs) {
			return Proposal{Why: in.Name + ": its whole numbers may be counts of words in documents, or ratings: `tierml init --data " + in.Name + " --app lda`, or `--app mf`, says which"}, nil
		}
		why := ratings(pairs)
		switch {
		case err != nil || why == "" || !pairs.Named && describes(in, head):
		case !pairs.Header && pairs.Columns == 3 && fewRepeat(pairs):
			return Proposal{Why: in.Name + ": its whole numbers may be counts of words in documents, or ratings: a first line `document,word,count`, or `user,item,rating`, says which"}, nil
		default:
			return Proposal{App: "mf", Why: why}, nil
		}
	}
	found, err := labelled.LookAt(again())
	for tries := 0; errors.As(err, new(*input.DateOrderError)) && tries < mostDates; tries++ { // a later line may show it
		line := nextClearDate(rest)
		if line == nil {
			break
		}
		head = append(head, line...)
		found, err = labelled.LookAt(again())
	}
	text := input.TextColumn(head, in.Ignore)
	line, _, _ := bytes.Cut(head, []byte("\n"))
	wide := input.LooksTable(head) && bytes.Count(line, []byte(",")) >= mostOfRatings && !bytes.Contains(line, []byte(", ")) // whose fault is shown
	switch {
	case err == nil && target == "" && text != "" && onlyText(found, text):
		return Proposal{App: "lda", Why: "column " + text + " is free text"}, nil
	case err == nil && target == "" && namelessPairs(found):
		return Proposal{Why: in.Name + ": its two columns have no names: a first line `user,item` makes them users and items, and --target c1 or c2 predicts one"}, nil
	case err == nil:
		base, _, _ := strings.Cut(path.Base(in.Name), ".")
		p := examples(found, base, target)
		if p.App == "" && p.Why != "" {
			p.Why = in.Name + ": " + p.Why
		}
		return p, nil
	case text != "" && target == "" && !wide:
		return Proposal{App: "lda", Why: "column " + text + " is free text"}, nil
	case target == "" && !wide && isText(head):
		return Proposal{App: "lda", Why: "each line is a text"}, nil
	case err == nil:
	case sparse().Match(head):
		if _, err := input.ReadLIBSVM(in.Name, bytes.NewReader(head), 0); err != nil { // its first fault
			return Proposal{Why: err.Error()}, nil
		}
	case input.LooksTable(head), isNamedTable(in.Name):
		in.MaxBadLines = 0
		var fault *input.LineError
		if _, err = labelled.LookAt(again()); errors.As(err, &fault) && fault.Line > 1 || err != nil && isNamedTable(in.Name) || errors.Is(err, labelled.ErrOneColumn) { // else the first line shows that it is no table
			return Proposal{Why: err.Error()}, nil
		}
	}
	return Proposal{}, nil
}

// mostDates is how many lines with clear dates are tried: the dates may be those of another column.
const mostDates = 10

// nextClearDate returns the next line with a date that shows the order of day and month; nil = there is none.
func nextClearDate(rest *bufio.Reader) []byte {
	for {
		line, err := rest.ReadBytes('\n')
		if err != nil {
			return nil
		}
		if input.ClearDate(line) {
			return line
		}
	}
}

// isNamedTable reports whether a file's name says that it is a table, so that the fault of its form is worth telling.
func isNamedTable(name string) bool {
	base := strings.ToLower(path.Base(name))
	return slices.ContainsFunc([]string{".csv", ".tsv"}, func(ending string) bool { return strings.HasSuffix(base, ending) || strings.Contains(base, ending+".") })
}

// sparse is LIBSVM's first line, with any label, several or none.
var sparse = pattern.Of(`^(?:[^ \t\r\n:]+[ \t]+)?[0-9]+:[-+.:0-9eE]+(?:[ \t]+[0-9]+:[-+.:0-9eE]+)*[ \t]*\r?\n`)

// describes reports whether a table's columns are called as those of examples, not of ratings: an age, a salary, a purchase.
func describes(in apps.Input, head []byte) bool {
	in.Data = bytes.NewReader(head)
	found, err := labelled.LookAt(in)
	return err == nil && found.Named && slices.ContainsFunc(found.Columns, func(c labelled.ColumnLook) bool {
		return slices.ContainsFunc(append(fieldsOf(c.Name), nameOf(c.Name)), func(word string) bool {
			return slices.Contains(features, word) && word != "number" && word != "code" && word != "no" && word != "index" || slices.Contains(amounts, word)
		})
	})
}

// onlyText reports whether a table has nothing to learn from but its column of text: an id, perhaps, and a label.
func onlyText(found labelled.Look, text string) bool {
	others := 0
	for _, c := range found.Columns {
		if c.Name != text && !numbersRows(c, found.Rows) {
			others++
		}
	}
	return others <= 1
}

// namelessPairs reports whether there are two columns without names whose values come again, as those of users and items do.
func namelessPairs(found labelled.Look) bool {
	return !found.Named && len(found.Columns) == 2 && found.Rows >= manyRatings && !slices.ContainsFunc(found.Columns, func(c labelled.ColumnLook) bool {
		return !c.Words && !c.Whole || c.Different < fewestIDs || float64(c.Different) > .8*float64(found.Rows)
	})
}

// isText reports whether most lines are several words.
func isText(head []byte) bool {
	lines, texts := 0, 0
	for line := range bytes.Lines(head) {
		words := 0
		for _, field := range bytes.Fields(line) {
			if bytes.ContainsFunc(field, func(c rune) bool { return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c > 127 }) {
				words++
			}
		}
		if len(bytes.TrimSpace(line)) > 0 {
			lines++
		}
		if words >= 3 {
			texts++
		}
	}
	return lines >= 3 && 2*texts > lines
}

// mostOfRatings is how many columns a table of ratings alone has: user, item, rating and time.
const mostOfRatings = 4

// ratings reports why pairs are ratings; empty = they are not.
func ratings(p input.Pairs) (why string) {
	users, items, both := map[int64]bool{}, map[int64]bool{}, map[[2]string]bool{}
	userNames, itemNames := map[string]bool{}, map[string]bool{}
	values, fractions := map[float64]bool{}, false
	for _, r := range p.Ratings {
		if users[r.User], items[r.Item] = true, true; r.User < 0 || r.Item < 0 {
			userNames[p.Name(r.User)], itemNames[p.Name(r.Item)] = true, true
		}
		if !p.Named && (measured(p.Name(r.User)) || measured(p.Name(r.Item))) {
			return ""
		}
		values[float64(r.Value)] = true
		fractions = fractions || r.Value != float32(math.Trunc(float64(r.Value)))
		both[[2]string{p.Name(r.User), p.Name(r.Item)}] = true
	}
	n := float64(len(p.Ratings))
	repeated := func(ids map[int64]bool, names map[string]bool) bool { // each user and item comes again
		different := len(ids)
		if len(names) > 0 {
			different = len(names)
		}
		return float64(different) <= .8*n
	}
	switch {
	case p.Named && p.Rated && (p.Scored || p.Columns <= mostOfRatings):
		return "it has users, items and ratings"
	case p.Named && !p.Rated && p.Columns <= 3 && (repeated(users, userNames) || repeated(items, itemNames)):
		return "it has users and items"
	case p.Named, !p.Rated:
		return ""
	case float64(len(both)) < .9*n:
		return ""
	case !repeated(users, userNames) && !repeated(items, itemNames), n >= manyRatings && !(repeated(users, userNames) && repeated(items, itemNames)):
		return ""
	case p.Header && (p.Columns > 3 || len(users) < fewestIDs || len(items) < fewestIDs || fractions && len(values) > mostScores):
		return ""
	}
	return "its columns look like users, items and ratings"
}

// fewRepeat reports whether 1 is the most frequent value, 2 is rarer and 3 no more frequent than that: so words are counted in documents, and
// few people rate.
func fewRepeat(p input.Pairs) bool {
	times, most := map[float32]int{}, 0
	for _, r := range p.Ratings {
		times[r.Value]++
		most = max(most, times[r.Value])
	}
	return times[1] == most && times[2] < most && times[3] <= times[2]
}

// measured reports whether an id is a number with a fraction, which is never the id of a user or an item.
func measured(id string) bool {
	_, err := strconv.ParseFloat(id, 64)
	return err == nil && strings.Contains(id, ".")
}

// mostScores is how many different fractions still look like a scale of ratings, without a header that says so.
const mostScores = 41

// fewestIDs are fewer than the users and items of any ratings.
const fewestIDs = 5

// manyRatings show that users and items come again.
const manyRatings = 20

// examples proposes an application for the examples of a file.
func examples(found labelled.Look, file, target string) (p Proposal) {
	at, guess := targetOf(found, file, target)
	if at < 0 {
		return Proposal{}
	}
	c := found.Columns[at]
	if p.App, p.Why = appOf(c, found.Rows-c.Missing); !found.Table || p.App == "" && p.Why == "" {
		switch {
		case found.Rows < fewestRows:
			p.Why = fmt.Sprintf("it has %d examples, too few to show what they are", found.Rows)
		case c.Different == 1 && !found.Table:
			p.Why = fmt.Sprintf("the label is %v in every line: there is nothing to predict", c.Least)
		case c.Different == 1:
			p.Why = fmt.Sprintf("the column %q is the same in every line: there is nothing to predict; --target names another column", c.Name)
		}
		return p
	}
	if c.Missing > 0 {
		p.Why += fmt.Sprintf(", which %d of %d rows lack: they are left out", c.Missing, found.Rows)
	}
	p.Target, p.Guess = c.Name, guess
	for i, other := range found.Columns {
		p.Columns = append(p.Columns, other.Name)
		if i != at && (numbersRows(other, found.Rows) || namesRows(other, found.Rows)) {
			p.Ignore = append(p.Ignore, other.Name)
		}
	}
	return p
}

// numbersRows reports whether a column only tells rows apart.
func numbersRows(c labelled.ColumnLook, rows int) bool {
	name := nameOf(c.Name)
	isID := name == "id" || strings.HasSuffix(name, "id") || name == "index" || name == "no" || name == "rownumber" || name == "rownames" || name == "serialno"
	return c.Whole && !c.Words && (c.Counts && c.Least <= 1 && rows >= leastCounted || isID && c.Different == rows)
}

// leastCounted is how many rows show that a column which counts up numbers them.
const leastCounted = 20

// fewNumbers is how many different whole numbers look like classes if they are not numbered from the beginning.
const fewNumbers = 10

// fewestRows show what they are.
const fewestRows = 3

// appOf distinguishes classes from measured numbers.
func appOf(c labelled.ColumnLook, rows int) (app, why string) {
	switch {
	case rows < fewestRows || c.Different < 2:
		return "", ""
	case c.Different == 2:
		return "logistic", "there are two classes"
	case c.Words && c.Different > mostClasses && 2*c.Different > rows:
		return "", fmt.Sprintf("the column %q, to be predicted, has another word in most lines: write numbers without units, classes as few words; --target names another column", c.Name)
	case !c.Words && c.Different > fewNumbers && (c.Least < 0 || c.Least > 2): // classes are numbered
	case c.Words, c.Whole && c.Different <= mostClasses && (2*c.Different <= rows || c.Most-c.Least <= mostClasses): // twenty weights are no classes
		return "mlr", "there are several classes"
	}
	return "ridge", "it is a measured number"
}
