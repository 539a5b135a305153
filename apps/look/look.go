// Package look proposes what to train on a file of data: it asks the applications' own readers what they find in its first lines, and
// judges by names and values. It opens no file, and knows no machine.
package look

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

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
	plain, err := input.Plain(in.Data)
	if err != nil {
		return Proposal{}, err
	}
	defer plain.Close()
	head, err := io.ReadAll(io.LimitReader(plain, shownText))
	if err != nil {
		return Proposal{}, err
	}
	if len(head) == shownText { // the last line is not whole
		head = head[:bytes.LastIndexByte(head, '\n')+1]
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
		if why := ratings(pairs); err == nil && why != "" {
			return Proposal{App: "mf", Why: why}, nil
		}
	}
	found, err := labelled.LookAt(again())
	text := input.TextColumn(head, in.Ignore)
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
	case text != "" && target == "":
		return Proposal{App: "lda", Why: "column " + text + " is free text"}, nil
	case target == "" && isText(head):
		return Proposal{App: "lda", Why: "each line is a text"}, nil
	case sparse().Match(head):
		if _, err := input.ReadLIBSVM(in.Name, bytes.NewReader(head), 0); err != nil { // its first fault
			return Proposal{Why: err.Error()}, nil
		}
	case input.LooksTable(head):
		in.MaxBadLines = 0
		var fault *input.LineError
		if _, err = labelled.LookAt(again()); errors.As(err, &fault) && fault.Line > 1 { // else the first line shows that it is no table
			return Proposal{Why: err.Error()}, nil
		}
	}
	return Proposal{}, nil
}

// sparse is LIBSVM's first line, with any label or none.
var sparse = pattern.Of(`^(?:[^ \t\r\n:,]+[ \t]+)?[0-9]+:[-+.:0-9eE]+(?:[ \t]+[0-9]+:[-+.:0-9eE]+)*[ \t]*\r?\n`)

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

// measured reports whether an id is a number with a fraction, which nobody gives to a user or an item.
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

// What people call the column to predict, in lower case and without signs: names that nothing else has, and those that are so only at an
// end of the table, or only at its last, as features have them, too.
var (
	sureTargets = []string{"target", "label", "labels", "survived", "churn", "churned", "diagnosis", "outcome", "response", "class", "classes", "y",
		"exited", "attrition", "defaulted", "defaultpaymentnextmonth", "isfraud", "saleprice", "sellingprice", "medv", "medianhousevalue", "heartdisease",
		"deathevent", "loanstatus", "sentiment", "denied", "deny", "isspam", "readmitted", "clicked"}
	atEnds = []string{"species", "default", "fraud", "quality", "price", "mpg", "charges", "salary", "wage", "wages", "earnings", "revenue", "cnt", "stroke",
		"purchase", "purchased", "subscribed", "deposit", "approved", "spam", "result", "win", "winner", "demand", "yield", "strength", "vote", "voted",
		"admit", "admitted", "tip", "tips", "fareamount", "tripduration", "rings", "loss", "lifeexpectancy", "lifeexp", "survival", "survivaltime", "choice",
		"close", "output", "cost", "visits", "participation", "claims", "incidents", "sales", "duration", "count", "rating", "score", "grade"}
	atLast = []string{"income", "balance", "category", "type", "status", "consumption", "volume", "growth"} // of which one at the beginning is a feature, as a rule
	times  = []string{"year", "month", "day", "date", "time", "hour", "week", "timestamp"}
)

func nameOf(column string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return -1
	}, strings.ToLower(column))
}

// notOfWord separates the words of a name.
func notOfWord(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }

// examples proposes an application for the examples of a file.
func examples(found labelled.Look, file, target string) (p Proposal) {
	at, guess := targetOf(found, file, target)
	if at < 0 {
		return Proposal{}
	}
	c := found.Columns[at]
	if p.App, p.Why = appOf(c, found.Rows); !found.Table || p.App == "" && p.Why == "" {
		return p
	}
	p.Target, p.Guess = c.Name, guess
	for i, other := range found.Columns {
		p.Columns = append(p.Columns, other.Name)
		if i != at && numbersRows(other, found.Rows) {
			p.Ignore = append(p.Ignore, other.Name)
		}
	}
	return p
}

// numbersRows reports whether a column only tells rows apart.
func numbersRows(c labelled.ColumnLook, rows int) bool {
	name := nameOf(c.Name)
	isID := name == "id" || strings.HasSuffix(name, "id") || name == "index" || name == "no" || name == "rownumber" || name == "serialno"
	return c.Whole && !c.Words && (c.Counts && c.Least <= 1 && rows >= leastCounted || isID && c.Different == rows)
}

// leastCounted is how many rows show that a column which counts up numbers them.
const leastCounted = 20

// targetOf finds the column to predict, and reports whether that is a guess.
func targetOf(found labelled.Look, file, target string) (at int, guess bool) {
	if target != "" {
		return slices.IndexFunc(found.Columns, func(c labelled.ColumnLook) bool { return c.Name == target }), false
	}
	if len(found.Columns) == 1 {
		return 0, false
	}
	last := len(found.Columns) - 1
	usable := func(i int) bool {
		c := found.Columns[i]
		return c.Missing == 0 && c.Different > 1 && !(c.Counts && found.Rows >= leastCounted)
	}
	few := func(i int) bool {
		c := found.Columns[i]
		return usable(i) && c.Different <= mostClasses && (c.Words || c.Whole)
	}
	called := func(i int, names []string) bool {
		name := nameOf(found.Columns[i].Name)
		return usable(i) && slices.ContainsFunc(names, func(known string) bool {
			return name == known || slices.Contains(strings.FieldsFunc(strings.ToLower(found.Columns[i].Name), notOfWord), known) && strings.HasSuffix(name, known)
		})
	}
	has := func(name string) bool {
		return slices.ContainsFunc(found.Columns, func(c labelled.ColumnLook) bool { return nameOf(c.Name) == name })
	}
	tells := func(i int) bool { // only when or which a row is, which nobody predicts
		name := nameOf(found.Columns[i].Name)
		return slices.Contains(times, name) || strings.HasSuffix(name, "id")
	}
	words := strings.FieldsFunc(file, func(c rune) bool { return c == '_' || c == '-' || c == ' ' })
	ofFile := func(name string) bool { // a table of prestige has a column of that name
		return name != "" && !slices.Contains(times, name) && slices.ContainsFunc(append(words, file), func(word string) bool { return nameOf(word) == name })
	}
	for _, name := range sureTargets {
		for i := last; i >= 0; i-- {
			if called(i, []string{name}) && !(name == "y" && has("x")) {
				return i, name == "class" && found.Columns[i].Different > mostClasses && !few(i) // of pupils, whose column is a feature
			}
		}
	}
	var likely []int
	guess = false
	for i, c := range found.Columns {
		name := nameOf(c.Name)
		end := i == 0 || i == last
		switch {
		case i == last && (called(i, atLast) || c.Different == 2 && whether(name)), usable(i) && ofFile(name) && (i == last || !c.Words && !tells(i) && c.Different > 2):
			likely = append(likely, i)
		case called(i, atEnds), i == 0 && called(i, atLast) && few(i):
			likely = append(likely, i)
			guess = guess || !end || !called(i, atEnds)
		}
	}
	if n := len(likely); n > 0 { // sales at an end and a price within: either may be meant
		return likely[n-1], guess || n > 1
	}
	if !found.Named && !few(last) && few(0) { // UCI's files often begin with the class
		return 0, false
	}
	guess = found.Named || !few(last)
	if found.Named && tells(last) && usable(0) && !few(0) && !tells(0) { // statisticians put it first, and time last
		return 0, true
	}
	for i := last; i >= 0; i-- {
		if (usable(i) || found.Columns[i].Different < 2) && !tells(i) { // one value is refused by name
			return i, guess
		}
	}
	return last, guess
}

// whether reports whether a name asks a question of yes or no.
func whether(name string) bool {
	return slices.ContainsFunc([]string{"is", "has", "did", "was", "will"}, func(word string) bool { return strings.HasPrefix(name, word) && len(name) > len(word)+4 })
}

// mostClasses is how many different whole numbers still look like classes.
const mostClasses = 30

// appOf distinguishes classes from measured numbers.
func appOf(c labelled.ColumnLook, rows int) (app, why string) {
	switch {
	case rows < 3 || c.Different < 2:
		return "", ""
	case c.Different == 2:
		return "logistic", "there are two classes"
	case c.Words && c.Different > mostClasses && 2*c.Different > rows:
		return "", fmt.Sprintf("the column %q, to be predicted, has another word in most lines: write numbers without units, classes as few words; --target names another column", c.Name)
	case c.Words, c.Whole && c.Different <= mostClasses && (2*c.Different <= rows || c.Most-c.Least <= mostClasses): // twenty weights are no classes
		return "mlr", "there are several classes"
	}
	return "ridge", "it is a measured number"
}
