package input

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Rating is one line: what a user thinks of an item. The ids are the file's own.
type Rating struct {
	User, Item int64
	Value      float32
	Line       uint32
}

// Ratings are a whole file, by user, then item, until Close. No user rates an item twice. A rating takes 12 bytes, and 28 while the
// file is read, about twice as many as its line; in memory, or beyond inMemory in files.
type Ratings struct {
	Users, Items []int64 // ids, ascending
	Start        []int   // the ratings of Users[u] are those from Start[u] up to Start[u+1]
	Rated        []Rated // to be read only
	BadLines     int     // left out
	close        func() error
}

// Close gives back what holds Rated.
func (r Ratings) Close() error { return r.close() }

// Rated is a rating of a known user.
type Rated struct {
	Item  uint32 // place in Items
	Line  uint32
	Value float32
}

// maxLine is far above any line of ratings; a longer one means that the file is something else.
const maxLine = 4096

// formats says what can be read, for messages.
const formats = "want CSV with the header user,item,rating, or MovieLens u.data or ratings.dat (user, item, rating, time; " +
	"tabs, blanks, commas or :: between)"

// ReadRatings reads ratings from a file in one of these formats, recognised by its first line:
//
//   - CSV with a header: user,item,rating and perhaps timestamp, which is not used. The names of the
//     MovieLens files (userId, movieId) are known too.
//   - MovieLens u.data (100K) and ratings.dat (1M, 10M): user, item, rating and time between tabs or ::, no header.
//   - The same with blanks, commas or semicolons, with or without the time.
//
// Ids are whole numbers from 0, ratings are decimal numbers. Up to maxBad bad lines are left out.
func ReadRatings(name string, r io.Reader, maxBad int) (Ratings, error) {
	return readRatings(name, r, maxBad, inMemory)
}

func readRatings(name string, r io.Reader, maxBad int, limit int64) (ratings Ratings, err error) {
	plain, err := Plain(r)
	if err != nil {
		return Ratings{}, fmt.Errorf("%s: %w", name, err)
	}
	defer plain.Close()
	reader := ratingsReader{name: name, tolerance: tolerance{allowed: maxBad}}
	table := newRatingsTable(name, &reader.tolerance, limit)
	defer func() {
		if err != nil {
			err = errors.Join(err, table.close())
		}
	}()
	if err := reader.readAll(plain, table.add); err != nil {
		return Ratings{}, err
	}
	if ratings, err = table.sorted(); err != nil {
		return Ratings{}, err
	}
	if len(ratings.Rated) == 0 {
		return Ratings{}, fmt.Errorf("%s: no ratings in it: %s", name, formats)
	}
	ratings.BadLines, ratings.close = reader.tolerance.bad, table.close
	return ratings, nil
}

// Pairs are the lines of a file about users and items, in its order.
type Pairs struct {
	Ratings  []Rating
	Rated    bool // each has a rating; without, their Values are 0
	BadLines int  // left out
}

// ReadPairs reads what ReadRatings reads, and CSV without ratings, with the header user,item. Repeats stay.
func ReadPairs(name string, r io.Reader, maxBad int) (Pairs, error) {
	plain, err := Plain(r)
	if err != nil {
		return Pairs{}, fmt.Errorf("%s: %w", name, err)
	}
	defer plain.Close()
	reader := ratingsReader{name: name, unrated: true, tolerance: tolerance{allowed: maxBad}}
	var all []Rating
	if err := reader.readAll(plain, func(some []Rating) error { all = append(all, some...); return nil }); err != nil {
		return Pairs{}, err
	}
	if len(all) == 0 {
		return Pairs{}, fmt.Errorf("%s: no users and items in it: %s", name, formats)
	}
	return Pairs{Ratings: all, Rated: reader.columns > 2, BadLines: reader.tolerance.bad}, nil
}

type ratingsReader struct {
	name      string
	unrated   bool // ratings may be missing
	tolerance tolerance
	separator string
	columns   int
}

// readAll hands the ratings on in the file's order.
func (r *ratingsReader) readAll(plain io.Reader, take func([]Rating) error) error {
	file := &lineFile{name: r.name, in: plain, longest: maxLine, format: ": " + formats}
	head := func(line []byte, number int) (bool, error) {
		if number > 1 {
			return false, nil
		}
		return r.recognise(strings.TrimSuffix(string(line), "\r"))
	}
	return readLines(file, &r.tolerance, head, func(p *piece) []Rating {
		some := make([]Rating, 0, len(p.text)/shortLine)
		p.each(func(line []byte, number int) (reason string) {
			rating, usual := r.parseUsual(line)
			if !usual {
				if rating, reason = r.parse(strings.TrimSuffix(string(line), "\r")); reason != "" {
					return reason
				}
			}
			rating.Line = uint32(number)
			some = append(some, rating)
			return ""
		})
		return some
	}, take)
}

// shortLine is a short line of ratings: 12,34,5 and its end.
const shortLine = 8

// parseUsual reads a line of digits and separators, as nearly all are. What it does not take is for parse.
func (r *ratingsReader) parseUsual(line []byte) (rating Rating, ok bool) {
	user, rest, _ := r.field(line)
	item, rest, _ := r.field(rest)
	value, time, more := r.field(rest)
	if r.columns == 2 || more != (r.columns == 4) {
		return rating, false
	}
	if rating.User, ok = parseWhole(user); !ok {
		return rating, false
	}
	if rating.Item, ok = parseWhole(item); !ok {
		return rating, false
	}
	if _, ok = parseWhole(time); !ok && r.columns == 4 {
		return rating, false
	}
	x, err := parseFloat32(value)
	rating.Value = x
	return rating, err == nil && x-x == 0
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

// recognise detects the format from the first line, and whether that line is a header.
func (r *ratingsReader) recognise(first string) (header bool, err error) {
	first = strings.TrimPrefix(first, "\ufeff")
	if strings.Count(first, "\t") == 3 {
		r.separator, r.columns = "\t", 4
		return false, nil
	}
	if strings.Count(first, "::") == 3 {
		r.separator, r.columns = "::", 4
		return false, nil
	}
	for _, separator := range []string{"\t", " ", ",", ";"} { // numbers alone, without a header
		fields := strings.Split(first, separator)
		if n := len(fields); n != 3 && (n != 4 || separator == ",") {
			continue
		}
		_, user := parseID("user", fields[0])
		_, item := parseID("item", fields[1])
		_, value := parseRating(fields[2])
		if user+item+value == "" {
			r.separator, r.columns = separator, len(fields)
			return false, nil
		}
	}
	names := strings.Split(strings.ToLower(first), ",")
	known := [][]string{
		{"user", "userid", "user_id"},
		{"item", "itemid", "item_id", "movieid", "movie_id"},
		{"rating"},
		{"timestamp", "time"},
	}
	r.separator, r.columns = ",", len(names)
	least := 3
	if r.unrated {
		least = 2
	}
	if len(names) < least || len(names) > len(known) {
		return false, &LineError{r.name, 1, "not a file of ratings: " + formats}
	}
	for i, name := range names {
		if !slices.Contains(known[i], strings.TrimSpace(name)) {
			return false, &LineError{r.name, 1, fmt.Sprintf("column %d is named %q: %s", i+1, name, formats)}
		}
	}
	return true, nil
}

// parse reads one line; a reason means that it is bad.
func (r *ratingsReader) parse(text string) (rating Rating, reason string) {
	if n := strings.Count(text, r.separator) + 1; n != r.columns {
		return rating, fmt.Sprintf("%d columns, want %d", n, r.columns)
	}
	user, rest, _ := strings.Cut(text, r.separator)
	item, rest, _ := strings.Cut(rest, r.separator)
	value, _, _ := strings.Cut(rest, r.separator)
	if rating.User, reason = parseID("user", user); reason != "" {
		return rating, reason
	}
	if rating.Item, reason = parseID("item", item); reason != "" {
		return rating, reason
	}
	if r.columns == 2 {
		return rating, ""
	}
	rating.Value, reason = parseRating(value)
	return rating, reason
}

func parseID(what, text string) (id int64, reason string) {
	id, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && id < 0:
		return 0, fmt.Sprintf("%s id %q is not from 0 to 2^63-1", what, text)
	case err != nil:
		return 0, fmt.Sprintf("%s id %q is not a whole number", what, text)
	}
	return id, ""
}

func parseRating(text string) (value float32, reason string) {
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 32)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && (math.IsInf(x, 0) || math.IsNaN(x)):
		return 0, fmt.Sprintf("rating %q is not a finite number", text)
	case err != nil:
		return 0, fmt.Sprintf("rating %q is not a number", text)
	}
	return float32(x), ""
}
