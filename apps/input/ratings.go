package input

import (
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Rating is one line: a user's rating of an item. The ids are the file's own; one below 0 is a text (Pairs.Name).
type Rating struct {
	User, Item int64
	Value      float32
	Line       uint32
}

// Ratings holds a whole file, by user, then item; it is valid until Close. Of several lines about the same user and item the last counts. A
// rating takes 12 bytes, and 28 while the file is read, about twice its line: in memory up to inMemory, then in files.
type Ratings struct {
	Users, Items []int64 // ids, ascending
	// UserNames and ItemNames list the ids if any is a text, numbers first; Users and Items then hold ranks.
	UserNames, ItemNames []string
	Start                []int   // the ratings of Users[u] are those from Start[u] up to Start[u+1]
	Rated                []Rated // read-only
	Unrated              bool    // the file has no ratings: each value is 1
	Repeats              int     // lines replaced by a later one about the same user and item
	BadLines             int     // left out
	close                func() error
}

// Close releases Rated.
func (r Ratings) Close() error { return r.close() }

// Notes report what users may not expect.
func (r Ratings) Notes() (notes []string) {
	if r.Repeats > 0 {
		notes = append(notes, fmt.Sprintf("%d ratings are repeated: of each user and item the last counts", r.Repeats))
	}
	if r.Unrated {
		notes = append(notes, "there are no ratings: each line counts as 1, and as many other pairs, drawn at random, as 0")
	}
	return notes
}

// Rated is a rating of a known user.
type Rated struct {
	Item  uint32 // index in Items
	Line  uint32
	Value float32
}

// maxLine is far above any line of a bag of words, and maxRatingLine above any line of ratings, which may quote a review; a longer
// line means that the file is something else.
const (
	maxLine       = 4096
	maxRatingLine = 1 << 20
)

// formats lists the formats in messages.
const formats = "want columns named user, item and rating, or those three in this order (tabs, blanks, commas, semicolons or :: between), or LibFM"

// ReadRatings reads ratings from a file in one of these formats, which it recognises by the first line:
//
//   - A header that names a user, an item and perhaps a rating, in any order and as people call them (userId, movie_id, stars);
//     other columns are not used. Without a rating each line counts as 1.
//   - User, item, rating and perhaps a time, without a header or with other names: MovieLens u.data and ratings.dat.
//   - LibFM: rating user:1 item:1. MatrixMarket: coordinates with ratings, below its banner; lines of KONECT begin with %.
//   - The Netflix Prize: an item's line 7: and below it lines of user, rating and date.
//
// Comments begin with # and a space. Fields are separated by tabs, spaces, commas, semicolons or ::, and may be quoted. An id is a whole number from 0, or a text. Up to
// maxBad bad lines are skipped.
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
	table := newRatingsTable(limit)
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
	ratings.BadLines, ratings.close, ratings.Unrated = reader.tolerance.bad, table.close, reader.at[2] < 0
	return ratings, nil
}

// Pairs holds the lines of a file about users and items, in the file's order.
type Pairs struct {
	Ratings  []Rating
	Rated    bool // whether lines have ratings; otherwise Values are 1
	Header   bool // the first line names columns
	Named    bool // and names user and item
	Scored   bool // and names a rating column, as opposed to a count
	Columns  int
	BadLines int // left out
	names    []string
}

// Name returns an id as written in the file.
func (p Pairs) Name(id int64) string {
	if id < 0 {
		return p.names[-1-id]
	}
	return strconv.FormatInt(id, 10)
}

// ReadPairs reads the formats of ReadRatings and keeps repeated pairs. An error explains what the header names.
func ReadPairs(name string, r io.Reader, maxBad int) (Pairs, error) {
	plain, err := Plain(r)
	if err != nil {
		return Pairs{}, fmt.Errorf("%s: %w", name, err)
	}
	defer plain.Close()
	reader := ratingsReader{name: name, tolerance: tolerance{allowed: maxBad}}
	var all Pairs
	err = reader.readAll(plain, func(some ratingPart) error {
		for _, r := range some.ratings {
			for _, id := range []*int64{&r.User, &r.Item} {
				if *id < 0 {
					*id -= int64(len(all.names))
				}
			}
			all.Ratings = append(all.Ratings, r)
		}
		all.names = append(all.names, some.names...)
		return nil
	})
	if err == nil && len(all.Ratings) == 0 {
		err = fmt.Errorf("%s: no users and items in it: %s", name, formats)
	}
	all.Rated, all.Named, all.Columns, all.BadLines = reader.at[2] >= 0, reader.named, reader.columns, reader.tolerance.bad
	all.Header, all.Scored = reader.header, reader.scored
	return all, err
}
