package input

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestRatingsBeyondMemory reads ratings that fit in memory, and the same ones by files: with users who fill several ranges, one user
// who is larger than a range, and repeats.
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
	want, wantRated, err := read(5000, inMemory)
	if err != nil || want.BadLines == 0 {
		t.Fatal(err, want.BadLines)
	}
	for _, limit := range []int64{0, 12, 100, 5_000, 40_000, 70_000} {
		got, rated, err := read(5000, limit)
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
	_, _, want0 := read(0, inMemory)
	if _, _, err := read(0, 100); err == nil || err.Error() != want0.Error() {
		t.Errorf("%v; want %v", err, want0)
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
