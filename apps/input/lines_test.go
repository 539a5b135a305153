package input

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

// A file of many pieces is read like a single piece: the same ratings, the same line numbers in messages, wherever the pieces begin.
func TestManyPieces(t *testing.T) {
	const lines = 4 * pieceSize / 10
	text := func(special int, line string) string {
		var b strings.Builder
		b.WriteString("user,item,rating\n")
		for i := range lines {
			if i == special {
				b.WriteString(line + "\n")
			} else {
				fmt.Fprintf(&b, "%d,%d,%d\n", (i*7919)%lines, i%1000, i%5)
			}
		}
		return strings.TrimSuffix(b.String(), "\n")
	}
	whole, err := ReadRatings("f", strings.NewReader(text(-1, "")), 0)
	if err != nil || len(whole.Rated) != lines {
		t.Fatalf("%d ratings, %v", len(whole.Rated), err)
	}
	for i, r := range whole.list() {
		if n := int(r.Line) - 2; r.User != int64(n*7919%lines) || r.Item != int64(n%1000) || r.Value != float32(n%5) || int(r.User) != i {
			t.Fatalf("rating %d is %+v", i, r)
		}
	}
	for _, special := range []int{0, 1, lines / 2, lines - 1} {
		for line, want := range map[string]string{
			"1,2": "2 columns, want 3", ",2,3": "there is no user",
			strings.Repeat("1", maxRatingLine): "longer than 1048576 bytes",
		} {
			_, err := ReadRatings("f", strings.NewReader(text(special, line)), 0)
			if want := fmt.Sprintf("f:%d: %s", special+2, want); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		got, err := ReadRatings("f", strings.NewReader(text(special, "?")), 1)
		if err != nil || len(got.Rated) != lines-1 || got.BadLines != 1 {
			t.Errorf("%d ratings and %d bad lines, %v", len(got.Rated), got.BadLines, err)
		}
	}
	broken := errors.New("broken")
	_, err = ReadRatings("f", io.MultiReader(strings.NewReader(text(-1, "")), iotest.ErrReader(broken)), 0)
	if want := fmt.Sprintf("f: after line %d: broken", lines); !errors.Is(err, broken) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// An item's block of the Netflix Prize may begin in one piece and end in another.
func TestBlocksOfManyPieces(t *testing.T) {
	var text strings.Builder
	const items, each = 9, pieceSize / 40
	for item := range items {
		fmt.Fprintf(&text, "%d:\n", item+1)
		for user := range each {
			fmt.Fprintf(&text, "%d,%d,2005-09-06\n", user, (item+user)%5)
		}
	}
	got, err := ReadRatings("f", strings.NewReader(text.String()), 0)
	if err != nil || len(got.Rated) != items*each {
		t.Fatalf("%d ratings, %v", len(got.Rated), err)
	}
	for i, r := range got.list() {
		if user, item := i/items, i%items; r.User != int64(user) || r.Item != int64(item+1) || r.Value != float32((item+user)%5) {
			t.Fatalf("rating %d is %+v", i, r)
		}
	}
}

// Numbers equal strconv's, to the last bit.
func TestNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	texts := []string{"", "-", "+", ".", "-.", "1.", ".5", "-0", "+7", "1e3", "0x1p-2", "inf", "nan", "1_0", "1..2", "--1", "1-", "000000000000000001"}
	for range 200_000 {
		text := strconv.FormatUint(r.Uint64()>>r.IntN(64), 10)
		if at := r.IntN(len(text) + 1); r.IntN(4) > 0 {
			text = text[:at] + "." + text[at:]
		}
		texts = append(texts, []string{"", "-", "+"}[r.IntN(3)]+text)
		// The midpoint between two float32, and its neighbours: these must not be rounded twice.
		x := math.Float32frombits(0x3f800000 + r.Uint32()>>8)
		middle := (float64(x) + float64(math.Nextafter32(x, 9))) / 2
		texts = append(texts, strconv.FormatFloat(middle, 'f', 1+r.IntN(16), 64))
	}
	for _, text := range texts {
		want64, err64 := strconv.ParseFloat(text, 64)
		got64, err := parseFloat64([]byte(text))
		if (err == nil) != (err64 == nil) || math.Float64bits(got64) != math.Float64bits(want64) {
			t.Fatalf("%q: %v, %v; want %v, %v", text, got64, err, want64, err64)
		}
		want32, err32 := strconv.ParseFloat(text, 32)
		got32, err := parseFloat32([]byte(text))
		if (err == nil) != (err32 == nil) || math.Float32bits(got32) != math.Float32bits(float32(want32)) {
			t.Fatalf("%q: %v, %v; want %v, %v", text, got32, err, want32, err32)
		}
	}
}
