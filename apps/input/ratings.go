package input

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/internal/decompress"
)

// Rating is one line: what a user thinks of an item. The ids are the file's own.
type Rating struct {
	User, Item int64
	Value      float32
	Line       uint32
}

// Ratings are a whole file, sorted by user, then item. No user rates an item twice.
type Ratings struct {
	Ratings  []Rating
	BadLines int // left out
}

// maxLine is far above any line of ratings; a longer one means that the file is something else.
const maxLine = 4096

// formats says what can be read, for messages.
const formats = "want CSV with the header user,item,rating, or MovieLens u.data or ratings.dat (user, item, rating, time; " +
	"tabs or :: between)"

// ReadRatings reads ratings from a file in one of these formats, told by its first line:
//
//   - CSV with a header: user,item,rating and perhaps timestamp, which is not used. The names of the
//     MovieLens files (userId, movieId) are known too.
//   - MovieLens u.data (100K) and ratings.dat (1M, 10M): user, item, rating and time between tabs or ::, no header.
//
// Ids are whole numbers from 0, ratings are decimal numbers. Up to maxBad bad lines are left out.
func ReadRatings(name string, r io.Reader, maxBad int) (Ratings, error) {
	plain, err := decompress.Reader(r)
	if err != nil {
		return Ratings{}, fmt.Errorf("%s: %w", name, err)
	}
	defer plain.Close()
	reader := ratingsReader{name: name, tolerance: tolerance{allowed: maxBad}}
	if err := reader.readAll(plain); err != nil {
		return Ratings{}, err
	}
	ratings, err := reader.withoutRepeats()
	if err != nil {
		return Ratings{}, err
	}
	if len(ratings) == 0 {
		return Ratings{}, fmt.Errorf("%s: no ratings in it: %s", name, formats)
	}
	return Ratings{Ratings: ratings, BadLines: reader.tolerance.bad}, nil
}

// Pairs are the lines of a file about users and items, in its order.
type Pairs struct {
	Ratings  []Rating
	Rated    bool // each has a rating; without, their Values are 0
	BadLines int  // left out
}

// ReadPairs reads what ReadRatings reads, and CSV without ratings, with the header user,item. Repeats stay.
func ReadPairs(name string, r io.Reader, maxBad int) (Pairs, error) {
	plain, err := decompress.Reader(r)
	if err != nil {
		return Pairs{}, fmt.Errorf("%s: %w", name, err)
	}
	defer plain.Close()
	reader := ratingsReader{name: name, unrated: true, tolerance: tolerance{allowed: maxBad}}
	if err := reader.readAll(plain); err != nil {
		return Pairs{}, err
	}
	if len(reader.ratings) == 0 {
		return Pairs{}, fmt.Errorf("%s: no users and items in it: %s", name, formats)
	}
	return Pairs{Ratings: reader.ratings, Rated: reader.columns > 2, BadLines: reader.tolerance.bad}, nil
}

type ratingsReader struct {
	name      string
	unrated   bool // ratings may be missing
	tolerance tolerance
	separator string
	columns   int
	ratings   []Rating
}

func (r *ratingsReader) readAll(plain io.Reader) error {
	scanner := bufio.NewScanner(plain)
	scanner.Buffer(make([]byte, 0, maxLine), maxLine)
	line := 0
	for scanner.Scan() && scanner.Err() == nil { // what is left before an error is half a line
		line++
		text := strings.TrimSuffix(scanner.Text(), "\r")
		if line == 1 {
			header, err := r.recognise(text)
			if err != nil {
				return err
			}
			if header {
				continue
			}
		}
		rating, reason := r.parse(text)
		if reason != "" {
			if err := r.tolerance.take(&LineError{r.name, line, reason}); err != nil {
				return err
			}
			continue
		}
		rating.Line = uint32(line)
		r.ratings = append(r.ratings, rating)
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return &LineError{r.name, line + 1, fmt.Sprintf("longer than %d bytes: %s", maxLine, formats)}
	case err != nil:
		return fmt.Errorf("%s: after line %d: %w", r.name, line, err)
	}
	return nil
}

// recognise tells the format from the first line, and whether that line is a header.
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

// withoutRepeats sorts the ratings and treats the second line about the same user and item as a bad one: to
// keep both would let an example be trained on and held out at the same time.
func (r *ratingsReader) withoutRepeats() ([]Rating, error) {
	slices.SortFunc(r.ratings, func(a, b Rating) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Line, b.Line))
	})
	kept := r.ratings[:0]
	for _, rating := range r.ratings {
		if n := len(kept); n > 0 && kept[n-1].User == rating.User && kept[n-1].Item == rating.Item {
			reason := fmt.Sprintf("user %d rated item %d before, in line %d", rating.User, rating.Item, kept[n-1].Line)
			if err := r.tolerance.take(&LineError{r.name, int(rating.Line), reason}); err != nil {
				return nil, err
			}
			continue
		}
		kept = append(kept, rating)
	}
	return kept, nil
}
