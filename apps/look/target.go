package look

import (
	"slices"
	"strings"
	"unicode"

	"github.com/tierml/tierml/apps/labelled"
	"github.com/tierml/tierml/internal/pattern"
)

// targetOf finds the column to predict, and reports whether that is a guess. It weighs what a careful person sees: names, places, values.
func targetOf(found labelled.Look, file, target string) (at int, guess bool) {
	if target != "" {
		return slices.IndexFunc(found.Columns, func(c labelled.ColumnLook) bool { return c.Name == target }), false
	}
	if len(found.Columns) == 1 {
		return 0, false
	}
	w := weigh(found, file)
	if w.first == w.last && w.usable(w.last) { // a value at each time
		return w.last, false
	}
	if !found.Named || w.numbered() {
		return nameless(found, w.first, w.last, w.few, w.usable)
	}
	best, second := -1, -1
	scores := make([]int, len(found.Columns))
	for i := range found.Columns {
		if scores[i] = w.score(i); best < 0 || scores[i] >= scores[best] {
			best, second = i, best
		} else if second < 0 || scores[i] >= scores[second] {
			second = i
		}
	}
	return best, w.survival && scores[best] < surelyCalled || scores[best] < enough || scores[best]-scores[second] < clear
}

// A column's score is the sum of these. They were set such that tables of many kinds, of which people know what is predicted, give few
// questions and fewer wrong answers.
const (
	enough = 50 // a lower best score is a guess
	clear  = 20 // so is one that leads by less

	surelyCalled  = 120
	nearlySure    = 80
	calledAtLast  = 60
	calledAtFirst = 50
	calledWithin  = 25
	calledPrice   = 70
	weaklyCalled  = 40
	asTheFile     = 60
	asWholeFile   = 50 // more
	lastPlace     = 35
	ofTwoNumbers  = 25
	aWhole        = 20
	firstPlace    = 15
	twoValues     = 15
	someClasses   = 15
	measures      = 5
	oddName       = 50
	lastOfNumbers = 10
	onlyWordsLast = 30
	onlyWordFirst = 45
	yesOrNoFirst  = -25
	oneOfASeries  = -45
	aFeature      = -50
	aVariant      = -30
	impossible    = -1000
)

// unnamed matches the reader's names of columns without one.
var unnamed = pattern.Of(`^column [0-9]+$`)

// weighed is a table whose columns are compared.
type weighed struct {
	labelled.Look
	file        string
	first, last int // of the columns that inform, if there are any
	series      []bool
	several     bool // there are more than two that inform
	panel       bool // it has states, or such, at several times
	survival    bool // and times until something happens, or not
}

func weigh(found labelled.Look, file string) *weighed {
	w := &weighed{Look: found, file: wordsOf(file), last: len(found.Columns) - 1, series: seriesOf(found.Columns)}
	for w.first < w.last && !w.informs(w.first) {
		w.first++
	}
	for w.last > w.first && !w.informs(w.last) {
		w.last--
	}
	informative := 0
	for i := range found.Columns {
		if w.informs(i) {
			informative++
		}
	}
	w.several = informative > 2 || w.has(times...)
	w.panel = w.has("year") && w.has("state", "country", "county", "region", "firm", "id", "company", "airline", "city", "district", "province")
	w.survival = w.has("time", "futime", "stime", "stop", "rtime", "dtime", "survtime", "survivaltime", "rfstime", "days", "years") &&
		w.has("status", "event", "cens", "censor", "censored", "delta", "endpoint", "cause")
	if !w.informs(w.last) {
		w.first, w.last = 0, len(found.Columns)-1
	}
	return w
}

func (w *weighed) score(i int) (score int) {
	c := w.Columns[i]
	name := nameOf(c.Name)
	if !w.usable(i) && !(c.Different < 2 && i == w.last) || !w.informs(i) && i != w.last { // one value is refused by name
		return impossible
	}
	words := fieldsOf(c.Name)
	switch {
	case name == "close" && w.has("open") && w.has("high") && w.has("low"): // of a share
		score += surelyCalled
	case slices.Contains(sureTargets, name) && !(name == "y" && w.has("x")), name == "left" && c.Different == 2, slices.Contains(words, "target"),
		len(words) > 0 && slices.Contains(beginnings, words[0]) && c.Different == 2:
		score += surelyCalled
		if name == "class" && !w.few(i) && c.Different > mostClasses && i != w.last { // of pupils
			score -= surelyCalled / 2
		}
	case w.called(i, sureTargets) && !slices.Contains(loose, words[len(words)-1]):
		score += nearlySure
	case w.called(i, sureTargets):
		score += weaklyCalled
	case w.called(i, atEnds) && i == w.last:
		score += calledAtLast
	case w.called(i, atEnds) && i == w.first && w.several:
		score += calledAtFirst
	case slices.Contains(anywhere, name) && !w.panel:
		score += calledPrice
	case w.called(i, atEnds):
		score += calledWithin
	case i == w.last && (w.called(i, atLast) || c.Different == 2 && whether(name)):
		score += weaklyCalled
	}
	if score < surelyCalled && w.ofFile(nameOf(withoutUnit(c.Name))) && (i == w.last || !c.Words && c.Different > 2) {
		if score += asTheFile; nameOf(w.file) == name {
			score += asWholeFile
		}
	}
	named := score > 0
	if !named && len(words) > 1 && w.has(words[len(words)-1]) { // a new league, where there is a league
		score += aVariant
	}
	switch i {
	case w.last:
		if score += lastPlace; !w.several && !c.Words {
			score += ofTwoNumbers
		}
		if w.series[i] && slices.Contains(wholes, words[0]) {
			score += aWhole
		}
	case w.first:
		score += firstPlace
	}
	switch {
	case c.Different == 2 && i == w.last && (named || !w.panel && w.sameValues(i) < severalSame):
		score += twoValues
	case c.Different == 2 && i == w.last:
	case w.few(i) && (named || counted(c) && w.mostMeasured(i)) && (i == w.last || i == w.first):
		score += someClasses
	case c.Words && !w.classes(c):
		score += aFeature
	case !c.Words:
		score += measures
	}
	if !named {
		switch {
		case w.oddName(i):
			score += oddName
		case i == w.last && w.onlyWords(i):
			score += onlyWordsLast
		case i == w.first && w.onlyWords(i):
			score += onlyWordFirst
		case i == w.last && w.onlyNumbers() && !w.few(i) && !w.panel:
			score += lastOfNumbers
		}
		if i == w.first && c.Words && c.Different == 2 {
			score += yesOrNoFirst
		}
		if slices.ContainsFunc(words, func(word string) bool { return slices.Contains(features, word) }) || slices.Contains(features, name) || unnamed().MatchString(c.Name) {
			score += aFeature
		}
	}
	if score < surelyCalled && w.series[i] && !slices.Contains(wholes, words[0]) {
		score += oneOfASeries
	}
	return score
}

func (w *weighed) usable(i int) bool {
	c := w.Columns[i]
	return mostMissing*c.Missing <= w.Rows && c.Different > 1 && !(c.Counts && w.Rows >= leastCounted)
}

func (w *weighed) few(i int) bool {
	c := w.Columns[i]
	return w.usable(i) && c.Different <= mostClasses && (c.Words || c.Whole)
}

func (w *weighed) called(i int, names []string) bool {
	c := w.Columns[i]
	name := nameOf(c.Name)
	return w.usable(i) && slices.ContainsFunc(names, func(known string) bool {
		if (c.Words && c.Different > 2 || !c.Words && c.Whole && c.Different <= fewestAmounts) && slices.Contains(amounts, known) { // low, medium and high salaries
			return false
		}
		end := i == w.last || i == w.first && !slices.Contains(loose, known) // a segment's type at the beginning is a feature
		return name == known || end && slices.Contains(fieldsOf(w.Columns[i].Name), known) && strings.HasSuffix(nameOf(withoutUnit(w.Columns[i].Name)), known)
	})
}

func (w *weighed) has(names ...string) bool {
	return slices.ContainsFunc(w.Columns, func(c labelled.ColumnLook) bool { return slices.Contains(names, nameOf(c.Name)) })
}

// sameValues counts the other columns that have the same two values: answers to several questions.
func (w *weighed) sameValues(at int) (n int) {
	for i, c := range w.Columns {
		if i != at && c.Different == 2 && slices.Equal(c.Some, w.Columns[at].Some) {
			n++
		}
	}
	return n
}

// severalSame is how many such columns make it doubtful which is to be predicted.
const severalSame = 2

// mostMeasured reports whether most other columns have measured numbers.
func (w *weighed) mostMeasured(at int) bool {
	measured, others := 0, 0
	for i, c := range w.Columns {
		if i == at || !w.informs(i) {
			continue
		}
		if others++; !c.Words && !w.few(i) {
			measured++
		}
	}
	return 2*measured > others
}

// informs reports whether a column contains more than a row's time or id, which are never worth predicting.
func (w *weighed) informs(i int) bool {
	c := w.Columns[i]
	name := nameOf(c.Name)
	return !slices.Contains(times, name) && !strings.HasSuffix(name, "id") && !numbersRows(c, w.Rows) && (!namesRows(c, w.Rows) || slices.Contains(amounts, name)) // 12K is an amount that cannot be read
}

// ofFile reports whether the file is called so, too, as a table of prestige has a column of that name.
func (w *weighed) ofFile(name string) bool {
	return name != "" && !slices.Contains(times, name) && (nameOf(w.file) == name || slices.ContainsFunc(strings.Fields(w.file), func(word string) bool {
		return strings.TrimSuffix(nameOf(word), "s") == strings.TrimSuffix(name, "s")
	}))
}

// numbered reports whether all names are one series, such as V1, V2: they say nothing.
func (w *weighed) numbered() bool {
	return !slices.Contains(w.series, false) && !slices.ContainsFunc(w.Columns, func(c labelled.ColumnLook) bool {
		return stemOf(c.Name) != stemOf(w.Columns[0].Name) || !endsInDigit(c.Name)
	})
}

// oddName reports whether all other names are series.
func (w *weighed) oddName(at int) bool {
	for i := range w.Columns {
		if w.informs(i) && w.series[i] == (i == at) {
			return false
		}
	}
	return len(w.Columns) > severalNumbers
}

// onlyWords reports whether a column has few words, and the others, which are several, have numbers.
func (w *weighed) onlyWords(at int) bool {
	numbers := 0
	for i, c := range w.Columns {
		switch {
		case i == at && (!c.Words || !w.classes(c)):
			return false
		case i != at && w.informs(i) && c.Words:
			return false
		case i != at && w.informs(i):
			numbers++
		}
	}
	return numbers >= severalNumbers
}

// fewestAmounts are fewer different amounts than anything has that costs or lasts.
const fewestAmounts = 8

// classes reports whether words are few enough, each of several rows.
func (w *weighed) classes(c labelled.ColumnLook) bool {
	return c.Different <= mostClasses || c.Different <= 4*mostClasses && c.Different <= w.Rows/20
}

// onlyNumbers reports whether a table is wide, and has only numbers.
func (w *weighed) onlyNumbers() bool {
	informative := 0
	for i, c := range w.Columns {
		if w.informs(i) {
			if informative++; c.Words {
				return false
			}
		}
	}
	return informative >= manyNumbers
}

// manyNumbers are columns of a table that was made for predictions, which has what is predicted at its end.
const manyNumbers = 7

// severalNumbers are more than a table of measurements by group has.
const severalNumbers = 4

// seriesOf reports which columns are of a series: at least three have the name before a number in common, or the first or last word.
func seriesOf(columns []labelled.ColumnLook) []bool {
	keys := func(c labelled.ColumnLook) []string {
		words := fieldsOf(c.Name)
		all := []string{}
		if endsInDigit(c.Name) {
			all = append(all, "#"+stemOf(c.Name))
		}
		if len(words) > 1 {
			all = append(all, "<"+words[0], ">"+words[len(words)-1])
		}
		return all
	}
	counts := map[string]int{}
	for _, c := range columns {
		for _, key := range keys(c) {
			counts[key]++
		}
	}
	series := make([]bool, len(columns))
	for i, c := range columns {
		series[i] = slices.ContainsFunc(keys(c), func(key string) bool { return counts[key] >= 3 })
	}
	return series
}

func endsInDigit(name string) bool {
	return name != "" && unicode.IsDigit(rune(name[len(name)-1]))
}

// stemOf returns a name without the number at its end.
func stemOf(name string) string {
	return strings.TrimRightFunc(name, func(c rune) bool { return !unicode.IsLetter(c) })
}

// fieldsOf returns a name's words, in lower case.
func fieldsOf(name string) []string {
	return strings.FieldsFunc(strings.ToLower(wordsOf(name)), notOfWord)
}

// withoutUnit removes what stands in parentheses.
func withoutUnit(name string) string {
	if before, _, found := strings.Cut(name, "("); found && strings.TrimSpace(before) != "" {
		return before
	}
	return name
}

// nameless finds the column to predict of a table without names: the last, except that UCI's files often begin with the class.
func nameless(found labelled.Look, first, last int, few, usable func(int) bool) (at int, guess bool) {
	c, others := found.Columns[first], found.Columns[first+1:]
	wordsFollow := slices.ContainsFunc(others, func(c labelled.ColumnLook) bool { return c.Words })
	switch {
	case few(last) && few(first) && found.Columns[first].Different != found.Columns[last].Different && alike(found.Columns[first+1:last+1]):
		return first, false
	case few(last):
		return last, found.Named && !found.Columns[last].Words && !counted(found.Columns[last])
	case few(first) && (c.Words || c.Different == 2 || c.Least >= 0 && c.Least <= 1 && !wordsFollow):
		return first, false
	case few(first), !usable(last) || found.Columns[last].Words:
		return last, true
	}
	// A whole number before fractions may be a year, which is predicted from them.
	fractions := !slices.ContainsFunc(others, func(c labelled.ColumnLook) bool { return c.Whole })
	return last, found.Named || c.Whole && fractions && len(others) > 1
}

// counted reports whether numbers look like those of classes: nearly all from 0 or 1 on.
func counted(c labelled.ColumnLook) bool {
	return c.Whole && !c.Words && (c.Least == 0 || c.Least == 1) && c.Most-c.Least <= float64(c.Different+1)
}

// alike reports whether nearly all columns have as many values.
func alike(columns []labelled.ColumnLook) bool {
	same := 0
	for _, c := range columns {
		if c.Different == columns[len(columns)-1].Different && c.Words == columns[len(columns)-1].Words {
			same++
		}
	}
	return len(columns) > severalNumbers && 3*same > 2*len(columns)
}

// namesRows reports whether a column has another word in nearly every line.
func namesRows(c labelled.ColumnLook, rows int) bool {
	return c.Words && c.Different > mostClasses && 5*c.Different > 4*rows
}

// mostMissing is the part of rows, as 1/n, that may lack the column to predict.
const mostMissing = 5

// wordsOf separates a file name's words, also those of CamelCase.
func wordsOf(file string) string {
	var b strings.Builder
	before := ' '
	for _, c := range file {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			c = ' '
		} else if unicode.IsUpper(c) && unicode.IsLower(before) {
			b.WriteByte(' ')
		}
		b.WriteRune(c)
		before = c
	}
	return b.String()
}

// whether reports whether a name asks a question of yes or no.
func whether(name string) bool {
	return slices.ContainsFunc([]string{"is", "has", "did", "was", "will"}, func(word string) bool { return strings.HasPrefix(name, word) && len(name) > len(word)+4 })
}

// mostClasses is how many different whole numbers still look like classes.
const mostClasses = 30
