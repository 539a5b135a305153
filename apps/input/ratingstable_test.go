package input

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestRatingsBeyondMemory reads ratings in memory, and the same ones through files: with users that fill several ranges, one user larger
// than a range, and repeats.
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

// TestRatingsOfOtherForms reads people's files as pandas and scipy do: headers in any order, text ids, quotes, blanks, LibFM, MatrixMarket,
// no ratings, repeats.
func TestRatingsOfOtherForms(t *testing.T) {
	for name, c := range map[string]struct {
		text         string
		users, items string // ids
		values       []float32
		repeats      int
	}{
		"order":              {"rating,timestamp,movieId,title,userId\n4.5,9,3,\"A, B\",7\n2,9,1,C,7\n", "[7]", "[1 3]", []float32{2, 4.5}, 0},
		"names":              {"user,item,rating\nann,\"Film, part 2\",1\nbob,\"He said \"\"no\"\"\",2\n", "[ann bob]", `[Film, part 2 He said "no"]`, []float32{1, 2}, 0},
		"other names":        {"reader,volume,mark\n7,b,1\n8,a,2\n", "[7 8]", "[a b]", []float32{1, 2}, 0},
		"mixed":              {"User-ID;ISBN;Book-Rating\n1;034545104X;5\n1;155061224;0\n1;007;1\n", "[1]", "[155061224 007 034545104X]", []float32{0, 1, 5}, 0},
		"blanks":             {"1   2  3\n1 3 4\n", "[1]", "[2 3]", []float32{3, 4}, 0},
		"text first":         {"ann,x,3\nbob,x,4\n", "[ann bob]", "[x]", []float32{3, 4}, 0},
		"LibFM":              {"5 0:1 3:1\n1 1:1 3:1\n", "[0 1]", "[3]", []float32{5, 1}, 0},
		"LibFFM":             {"5 0:0:1 1:3:1\n", "[0]", "[3]", []float32{5}, 0},
		"implicit":           {"item,user\n5,1\n6,1\n", "[1]", "[5 6]", []float32{1, 1}, 0},
		"tab header":         {"user_id\titem_id\trating\ttimestamp\n196\t242\t3\t881250949\n186\t302\t3\t891717742\n", "[186 196]", "[242 302]", []float32{3, 3}, 0},
		"double colon":       {"1::1193::5::978300760\n1::661::3::978302109\n6::1193::4::978300761\n", "[1 6]", "[661 1193]", []float32{3, 5, 4}, 0},
		"ids as floats":      {"userId,itemId,rating\n1.0,2.0,3.5\n4.0,2.0,1\n", "[1 4]", "[2]", []float32{3.5, 1}, 0},
		"uuids":              {"user,item,rating\n3f2504e0-4f89-11d3-9a0c-0305e82c3301,9b2e,4\n3f2504e0-4f89-11d3-9a0c-0305e82c3302,9b2e,2\n", "[3f2504e0-4f89-11d3-9a0c-0305e82c3301 3f2504e0-4f89-11d3-9a0c-0305e82c3302]", "[9b2e]", []float32{4, 2}, 0},
		"decimal comma":      {"user;item;rating\n1;2;3,5\n4;2;1,25\n", "[1 4]", "[2]", []float32{3.5, 1.25}, 0},
		"CRLF quoted header": {"\"userId\",\"movieId\",\"rating\"\r\n\"1\",\"2\",\"3.5\"\r\n\"1\",\"3\",\"4\"\r\n\r\n", "[1]", "[2 3]", []float32{3.5, 4}, 0},
		"no final newline":   {"user,item,rating\n1,2,3\n1,4,5", "[1]", "[2 4]", []float32{3, 5}, 0},
		"index column":       {",userId,movieId,rating\n0,1,2,3.5\n1,7,2,4\n", "[1 7]", "[2]", []float32{3.5, 4}, 0},
		"MatrixMarket":       {"%%MatrixMarket matrix coordinate real general\n% a comment\n3 4 3\n1 2 3.5\n3 4 1\n3 1 2\n", "[1 3]", "[1 2 4]", []float32{3.5, 2, 1}, 0},
		"KONECT":             {"% bip weighted\n% 3 2 2\n1 2 5 100000000\n2 2 3 100000001\n", "[1 2]", "[2]", []float32{5, 3}, 0},
		"Amazon":             {"A2SUAM1J3GNN3B,0439893577,5.0,1202256000\nA2SUAM1J3GNN3C,0439893577,1.0,1202256001\nA2SUAM1J3GNN3B,0439893578,2.0,1202256001\n", "[A2SUAM1J3GNN3B A2SUAM1J3GNN3C]", "[0439893577 0439893578]", []float32{5, 2, 1}, 0},
		"negative":           {"user,joke,score\n1,5,-7.82\n1,7,8.79\n2,5,.5\n", "[1 2]", "[5 7]", []float32{-7.82, 8.79, 0.5}, 0},
		"large ids":          {"user,item,rating\n9007199254740993,18446744073,1\n9007199254740994,18446744073,2\n", "[9007199254740993 9007199254740994]", "[18446744073]", []float32{1, 2}, 0},
		"spaces in names":    {"User ID, Item ID, Rating\n1, 2, 3\n4, 2, 5\n", "[1 4]", "[2]", []float32{3, 5}, 0},
		"artists":            {"userID\tartistID\tweight\n2\t51\t13883\n2\t52\t11690\n3\t51\t1\n", "[2 3]", "[51 52]", []float32{13883, 11690, 1}, 0},
		"leading zeros":      {"user,item,rating\n007,01,3\n7,1,4\n", "[7 007]", "[1 01]", []float32{4, 3}, 0},
		"plus and exponent":  {"user,item,rating\n1,2,+3.5e0\n1,3,4E-1\n", "[1]", "[2 3]", []float32{3.5, 0.4}, 0},
		"Netflix":            {"1:\r\n7,3,2005-09-06\r\n8,5,2005-05-13\r\n9:\r\n10:\r\n7,4,2004-01-01\r\n", "[7 8]", "[1 10]", []float32{3, 4, 5}, 0},
		"comments":           {"# made by hand\nuser,item,rating\n\n1,2,3\n# the second day\n#tag,2,4\n", "[1 #tag]", "[2]", []float32{3, 4}, 0},
		"names in a comment": {"# all of May\n# item user rating\n2 1 3\n2 4 5\n", "[1 4]", "[2]", []float32{3, 5}, 0},
		"bars":               {"1|2|3|4\n", "[1]", "[2]", []float32{3}, 0},
		"repeats":            {"user,item,rating\n1,2,3\n4,5,6\n1,2,4\n1,2,1\n", "[1 4]", "[2 5]", []float32{1, 6}, 2},
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

// TestReadRatingsWithoutHeader: lines of only numbers are ratings, whatever separates them.
func TestReadRatingsWithoutHeader(t *testing.T) {
	for _, separator := range []string{" ", "\t", ",", ";"} {
		text := strings.ReplaceAll("7 3 4.5\n7 1 2\n2 3 1\n", " ", separator)
		got, err := ReadRatings("f", strings.NewReader(text), 0)
		if err != nil || len(got.Rated) != 3 || len(got.Users) != 2 || got.Rated[2].Value != 4.5 {
			t.Errorf("%q: %+v, %v", separator, got, err)
		}
	}
}
