package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tierml/tierml/internal/pattern"
)

// ratingsReader reads lines of ratings.
type ratingsReader struct {
	name      string
	tolerance tolerance
	separator string
	columns   int
	at        [3]int // columns of user, item and rating; -1: no ratings
	header    bool
	named     bool // the header names user and item
	scored    bool // the header names a rating column
	libFM     bool
	matrix    bool  // MatrixMarket
	blocks    bool  // Netflix Prize: an item's line `7:`, followed by lines of user, rating and date
	item      int64 // of the block whose lines come next
}

// ratingPart holds the parsed ratings of some lines. An id below 0 refers to the text names[-1-id].
type ratingPart struct {
	ratings []Rating
	names   []string
	blocks  []block
}

// block begins at a rating of a ratingPart.
type block struct {
	from int
	item int64
}

// inBlocks sets the items of ratings in blocks; parts come in the file's order.
func (r *ratingsReader) inBlocks(some ratingPart) {
	for i := range len(some.ratings) + 1 {
		for len(some.blocks) > 0 && some.blocks[0].from == i {
			r.item, some.blocks = some.blocks[0].item, some.blocks[1:]
		}
		if i < len(some.ratings) {
			some.ratings[i].Item = r.item
		}
	}
}

// id returns the id of a text, or a whole number unchanged.
func (p *ratingPart) id(what, text string) (id int64, reason string) {
	if n, ok := wholeID(text); ok {
		return n, ""
	}
	switch {
	case text == "":
		return 0, "there is no " + what
	case !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0:
		return 0, fmt.Sprintf("%s id %q is %s", what, text, notUTF8)
	}
	p.names = append(p.names, strings.Clone(text))
	return int64(-len(p.names)), ""
}

// wholeID parses an id that is a whole number in its usual form: 007 and 7 are different ids.
func wholeID(text string) (id int64, ok bool) {
	text = strings.TrimSuffix(text, ".0") // as tools write integers in columns with missing values
	id, err := strconv.ParseInt(text, 10, 64)
	return id, err == nil && id >= 0 && (text[0] != '0' && text[0] != '+' || len(text) == 1)
}

// readAll passes the ratings on in the file's order.
func (r *ratingsReader) readAll(plain io.Reader, take func(ratingPart) error) error {
	file := &lineFile{name: r.name, in: plain, longest: maxRatingLine, format: ": " + formats}
	head := func(line []byte, _ int) (bool, error) {
		text := strings.TrimSuffix(string(line), "\r")
		switch {
		case r.separator != "" || r.libFM:
			return false, nil
		case strings.HasPrefix(text, "%"): // of MatrixMarket, or a comment of KONECT
			return true, r.banner(text)
		case strings.HasPrefix(text, "#"): // the columns' names, or another comment
			probe := *r
			if _, err := probe.recognise(strings.TrimLeft(text, "# ")); err == nil && probe.named {
				*r = probe
			}
			return true, nil
		case r.matrix: // rows, columns, entries
			r.separator = " "
			return true, nil
		}
		return r.recognise(text)
	}
	return readLines(file, &r.tolerance, head, func(p *piece) ratingPart {
		some := ratingPart{ratings: make([]Rating, 0, len(p.text)/shortLine)}
		usualOrder := !r.libFM && r.at == [3]int{0, 1, 2}
		p.each(func(line []byte, number int) (reason string) {
			var rating Rating
			usual := false
			if usualOrder {
				rating, usual = r.parseUsual(line)
			}
			if !usual {
				if item, ends := bytes.CutSuffix(line, []byte(":")); r.blocks && ends {
					if id, whole := usualID(item); whole {
						some.blocks = append(some.blocks, block{len(some.ratings), id})
						return ""
					}
				}
				if rating, reason = r.parse(&some, string(line)); reason != "" {
					if text := string(bytes.TrimSpace(line)); text == "" || isComment(text) {
						return ""
					}
					return reason
				}
			}
			rating.Line = uint32(number)
			some.ratings = append(some.ratings, rating)
			return ""
		})
		return some
	}, func(some ratingPart) error {
		if r.blocks {
			r.inBlocks(some)
		}
		return take(some)
	})
}

// shortLine is a short line of ratings: 12,34,5 and its end.
const shortLine = 8

// parseUsual parses a line of digits and separators, the common case. parse handles the others.
func (r *ratingsReader) parseUsual(line []byte) (rating Rating, ok bool) {
	user, rest, _ := r.field(line)
	item, rest, _ := r.field(rest)
	value, time, more := r.field(rest)
	if more != (r.columns == 4) {
		return rating, false
	}
	if rating.User, ok = usualID(user); !ok {
		return rating, false
	}
	if rating.Item, ok = usualID(item); !ok {
		return rating, false
	}
	if _, ok = parseWhole(time); !ok && r.columns == 4 {
		return rating, false
	}
	x, err := parseFloat32(value)
	rating.Value = x
	return rating, err == nil && x-x == 0
}

// usualID parses a whole number as wholeID does.
func usualID(text []byte) (id int64, ok bool) {
	id, ok = parseWhole(text)
	return id, ok && (text[0] != '0' || len(text) == 1)
}

// field cuts off the first field of a line.
func (r *ratingsReader) field(line []byte) (field, rest []byte, more bool) {
	for i, c := range line {
		if c == r.separator[0] && (len(r.separator) == 1 || string(line[i:min(i+2, len(line))]) == r.separator) {
			return line[:i], line[i+len(r.separator):], true
		}
	}
	return line, nil, false
}

// libFM matches a line of LibFM, or of LibFFM with a field before each index.
var libFM = pattern.Of(`^(-?[0-9.eE+-]+)[ \t]+(?:\d+:)?(\d+):1(?:\.0*)?[ \t]+(?:\d+:)?(\d+):1(?:\.0*)?\s*$`)

// banner parses the MatrixMarket line that describes the matrix; other comments are ignored.
func (r *ratingsReader) banner(text string) error {
	words := strings.Fields(strings.ToLower(text))
	if len(words) == 0 || words[0] != "%%matrixmarket" {
		return nil
	}
	if len(words) != 5 || words[2] != "coordinate" || words[4] != "general" {
		return &LineError{r.name, 1, "a MatrixMarket file of ratings is `matrix coordinate real general`: each entry a line of user, item and rating"}
	}
	r.matrix, r.columns, r.at = true, 3, [3]int{0, 1, 2}
	if words[3] == "pattern" {
		r.columns, r.at[2] = 2, -1
	}
	return nil
}

// recognise detects the format from the first line, and whether it is a header.
func (r *ratingsReader) recognise(first string) (header bool, err error) {
	if libFM().MatchString(first) {
		r.libFM, r.at = true, [3]int{0, 1, 2}
		return false, nil
	}
	if item, ends := strings.CutSuffix(first, ":"); ends {
		if _, whole := usualID([]byte(item)); whole { // the item's column is the user's, until inBlocks sets it
			r.blocks, r.separator, r.columns, r.at, r.named, r.scored = true, ",", 3, [3]int{0, 0, 1}, true, true
			return false, nil
		}
	}
	var columns []string // of a possible header
	for _, separator := range []string{"\t", "::", ";", ",", "|", " "} {
		fields, closed := splitFields(first, separator)
		if !closed || len(fields) < 2 {
			continue
		}
		r.separator, r.columns = separator, len(fields)
		if at, named := ratingColumns(fields); named {
			r.at, r.named, r.header = at, true, true
			r.scored = at[2] >= 0 && slices.Contains(valueNames[:scores], plainName(fields[at[2]]))
			return true, nil
		}
		if len(fields) != 3 && len(fields) != 4 {
			continue
		}
		if r.at = [3]int{0, 1, 2}; isRating(fields, separator) {
			return false, nil
		}
		if _, err := strconv.ParseFloat(fields[2], 64); err != nil && columns == nil && separator != " " {
			columns = fields
		}
	}
	if columns != nil && !slices.ContainsFunc(columns, func(name string) bool { _, err := strconv.ParseFloat(name, 64); return err == nil || name == "" }) {
		for _, separator := range []string{"\t", "::", ";", ",", "|"} { // three columns with other names, in the usual order
			if fields, _ := splitFields(first, separator); len(fields) == len(columns) {
				r.separator, r.columns, r.at, r.header = separator, len(fields), [3]int{0, 1, 2}, true
				return true, nil
			}
		}
	}
	return false, &LineError{r.name, 1, "not a file of ratings: " + formats + quoted(first)}
}

// isRating reports whether a first line is itself a rating.
func isRating(fields []string, separator string) bool {
	for _, id := range fields[:2] {
		if _, whole := wholeID(id); whole || id != "" && strings.Trim(id, "0123456789") == "" {
			continue
		}
		if _, err := strconv.ParseFloat(id, 64); err == nil || id == "" { // a measured number is not an id
			return false
		}
	}
	if _, reason := parseRating(fields[2], separator); reason != "" {
		return false
	}
	if len(fields) == 3 {
		return true
	}
	time, err := strconv.ParseFloat(fields[3], 64)
	const since = 1e8 // a time in seconds; a table without a header has smaller numbers
	return separator != "," || err == nil && time >= since
}

// Usual column names, in lower case and without punctuation.
var (
	userNames = []string{"user", "reviewer", "customer", "member", "visitor", "reader", "viewer", "listener", "person", "player", "profile",
		"account", "client", "buyer", "u", "uid", "cust"}
	itemNames = []string{"item", "movie", "film", "product", "book", "isbn", "asin", "parentasin", "song", "track", "artist", "album", "game", "anime", "article",
		"joke", "business", "restaurant", "hotel", "recipe", "beer", "show", "video", "app", "course", "sku", "i", "iid", "mid", "sid", "pid", "content", "ad", "prod"}
	valueNames = []string{"rating", "stars", "starrating", "score", "overall", "bookrating", "movierating", "userrating", "reviewscore", "reviewrating", "preference",
		"plays", "playcount", "listencount", "count", "weight", "value", "clicks", "views", "purchases", "quantity"}
)

// scores is the number of valueNames that name ratings; the others name counts and amounts.
const scores = 11

// plainName returns a name in lower case and without signs.
func plainName(name string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return -1
	}, strings.ToLower(name))
}

// ratingColumns finds user, item and rating among the names of a header.
func ratingColumns(names []string) (at [3]int, ok bool) {
	at = [3]int{-1, -1, -1}
	rank := [3]int{}
	for i, name := range names {
		word := plainName(name)
		stem, isID := strings.CutSuffix(word, "id")
		if stem == "" || word == "uid" || word == "iid" || word == "mid" || word == "sid" || word == "pid" {
			stem = word
		}
		if !isID {
			stem = strings.TrimSuffix(stem, "name")
		}
		for k, known := range [][]string{userNames, itemNames, valueNames} {
			place := slices.Index(known, stem)
			if k == 2 {
				place = slices.Index(known, word)
			}
			if place < 0 {
				continue
			}
			// An id is preferred to a name, and among values the usual name.
			better := 1
			if k < 2 && isID {
				better = 2
			} else if k == 2 {
				better = len(known) - place
			}
			if better > rank[k] {
				at[k], rank[k] = i, better
			}
		}
	}
	return at, at[0] >= 0 && at[1] >= 0
}

// splitFields splits a line into fields. Quoted fields may contain the separator, and a quote as two; closed is false if a quoted
// field does not end.
func splitFields(line, separator string) (fields []string, closed bool) {
	switch {
	case separator == " ":
		fields = blankFields(line)
		for i := range fields {
			fields[i] = strings.Trim(fields[i], `"`)
		}
		return fields, strings.Count(line, `"`)%2 == 0
	case !strings.Contains(line, `"`):
		fields = strings.Split(line, separator)
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		return fields, true
	}
	for {
		line = strings.TrimLeft(line, " ")
		var field string
		if rest, quoted := strings.CutPrefix(line, `"`); quoted {
			for {
				before, after, found := strings.Cut(rest, `"`)
				if !found {
					return nil, false
				}
				field += before
				if after, found = strings.CutPrefix(after, `"`); !found {
					line = strings.TrimLeft(strings.TrimPrefix(rest, before+`"`), " ")
					break
				}
				field, rest = field+`"`, after
			}
		} else {
			field, _, _ = strings.Cut(line, separator)
			line = line[len(field):]
			field = strings.TrimSpace(field)
		}
		fields = append(fields, field)
		if line == "" {
			return fields, true
		}
		next, more := strings.CutPrefix(line, separator)
		if !more {
			return nil, false
		}
		line = next
	}
}

// parse parses one line; a non-empty reason says why it is bad.
func (r *ratingsReader) parse(part *ratingPart, text string) (rating Rating, reason string) {
	var fields []string
	if r.libFM {
		found := libFM().FindStringSubmatch(text)
		if found == nil {
			return rating, "not of the form `rating user:1 item:1`, as the first line is"
		}
		fields = []string{found[2], found[3], found[1]}
		return r.parseFields(part, fields, [3]int{0, 1, 2})
	}
	fields, closed := splitFields(text, r.separator)
	switch {
	case !closed:
		return rating, "a quote does not end in its line"
	case len(fields) != r.columns:
		return rating, fmt.Sprintf("%d columns, want %d%s", len(fields), r.columns, quoted(fields...))
	}
	return r.parseFields(part, fields, r.at)
}

func (r *ratingsReader) parseFields(part *ratingPart, fields []string, at [3]int) (rating Rating, reason string) {
	rating.Value = 1
	if at[2] >= 0 {
		if rating.Value, reason = parseRating(fields[at[2]], r.separator); reason != "" {
			return rating, reason
		}
	}
	if rating.User, reason = part.id("user", fields[at[0]]); reason == "" {
		rating.Item, reason = part.id("item", fields[at[1]])
	}
	return rating, reason
}

func parseRating(text, separator string) (value float32, reason string) {
	number := strings.TrimSpace(text)
	if separator == ";" { // used where a comma is the decimal point
		number = strings.Replace(number, ",", ".", 1)
	}
	x, err := strconv.ParseFloat(number, 32)
	switch {
	case text == "":
		return 0, "rating \"\" is not a number: leave out lines without a rating, or the whole column if it does not matter"
	case errors.Is(err, strconv.ErrRange) || err == nil && (math.IsInf(x, 0) || math.IsNaN(x)):
		return 0, fmt.Sprintf("rating %q is not a finite number", text)
	case err != nil:
		return 0, fmt.Sprintf("rating %q is not a number: write it as 4 or 3.5%s", text, quoted(text))
	}
	return float32(x), ""
}
