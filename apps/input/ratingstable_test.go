package input

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestRatingsBeyondMemory reads ratings that fit in memory, and the same ones by files: with users that fill several ranges, one
// user larger than a range, and repeats.
func TestRatingsBeyondMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var text strings.Builder
	text.WriteString("user,item,rating\n")
	for range 5000 {
		user := r.IntN(300)
		if r.IntN(4) == 0 {
			user = 77
		}
		fmt.Fprintf(&text, "%d,%d,%d\n", user*user, r.IntN(2000), r.IntN(5))
	}
	read := func(maxBad int, limit int64) (Ratings, []Rated, error) {
		got, err := readRatings("a.csv", strings.NewReader(text.String()), maxBad, limit)
		if err != nil {
			return got, nil, err
		}
		rated := append([]Rated(nil), got.Rated...)
		if err := got.Close(); err != nil {
			t.Fatal(err)
		}
		return got, rated, nil
	}
	want, wantRated, err := read(0, inMemory)
	if err != nil || want.Repeats == 0 {
		t.Fatal(err, want.Repeats)
	}
	for _, limit := range []int64{0, 12, 100, 5_000, 40_000, 70_000} {
		got, rated, err := read(0, limit)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Ratings{}, "Rated"), cmpopts.IgnoreUnexported(Ratings{})); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
		if diff := cmp.Diff(wantRated, rated); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
}

// TestRatingsOfOtherForms: headers in any order, ids that are texts, quotes, blanks, LibFM, no ratings, repeats.
func TestRatingsOfOtherForms(t *testing.T) {
	for name, c := range map[string]struct {
		text         string
		users, items string // ids
		values       []float32
		repeats      int
	}{
		"order":       {"rating,timestamp,movieId,title,userId\n4.5,9,3,\"A, B\",7\n2,9,1,C,7\n", "[7]", "[1 3]", []float32{2, 4.5}, 0},
		"names":       {"user,item,rating\nann,\"Film, part 2\",1\nbob,\"He said \"\"no\"\"\",2\n", "[ann bob]", `[Film, part 2 He said "no"]`, []float32{1, 2}, 0},
		"other names": {"reader,volume,mark\n7,b,1\n8,a,2\n", "[7 8]", "[a b]", []float32{1, 2}, 0},
		"mixed":       {"User-ID;ISBN;Book-Rating\n1;034545104X;5\n1;155061224;0\n1;007;1\n", "[1]", "[155061224 007 034545104X]", []float32{0, 1, 5}, 0},
		"blanks":      {"1   2  3\n1 3 4\n", "[1]", "[2 3]", []float32{3, 4}, 0},
		"text first":  {"ann,x,3\nbob,x,4\n", "[ann bob]", "[x]", []float32{3, 4}, 0},
		"LibFM":       {"5 0:1 3:1\n1 1:1 3:1\n", "[0 1]", "[3]", []float32{5, 1}, 0},
		"LibFFM":      {"5 0:0:1 1:3:1\n", "[0]", "[3]", []float32{5}, 0},
		"implicit":    {"item,user\n5,1\n6,1\n", "[1]", "[5 6]", []float32{1, 1}, 0},
		"repeats":     {"user,item,rating\n1,2,3\n4,5,6\n1,2,4\n1,2,1\n", "[1 4]", "[2 5]", []float32{1, 6}, 2},
	} {
		got, err := ReadRatings("f", strings.NewReader(c.text), 0)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var values []float32
		for _, r := range got.Rated {
			values = append(values, r.Value)
		}
		ids := func(ids []int64, names []string) string {
			if names != nil {
				return fmt.Sprint(names)
			}
			return fmt.Sprint(ids)
		}
		users, items := ids(got.Users, got.UserNames), ids(got.Items, got.ItemNames)
		if users != c.users || items != c.items || !cmp.Equal(values, c.values) || got.Repeats != c.repeats {
			t.Errorf("%s: users %s, items %s, values %v, %d repeats", name, users, items, values, got.Repeats)
		}
	}
}

// TestReadRatingsWithoutHeader: numbers alone are ratings, whatever stands between them.
func TestReadRatingsWithoutHeader(t *testing.T) {
	for _, separator := range []string{" ", "\t", ",", ";"} {
		text := strings.ReplaceAll("7 3 4.5\n7 1 2\n2 3 1\n", " ", separator)
		got, err := ReadRatings("f", strings.NewReader(text), 0)
		if err != nil || len(got.Rated) != 3 || len(got.Users) != 2 || got.Rated[2].Value != 4.5 {
			t.Errorf("%q: %+v, %v", separator, got, err)
		}
	}
}
