package input

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
)

const small = "user,item,rating\n2,7,-1.5\n1,9,3\n1,7,0.25\n"

func smallRatings() []Rating {
	return []Rating{{1, 7, 0.25, 4}, {1, 9, 3, 3}, {2, 7, -1.5, 2}}
}

// list returns ratings with their ids.
func (r Ratings) list() (all []Rating) {
	for u, id := range r.Users {
		for _, one := range r.Rated[r.Start[u]:r.Start[u+1]] {
			all = append(all, Rating{id, r.Items[one.Item], one.Value, one.Line})
		}
	}
	return all
}

func gzipped(t testing.TB, text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstandard(t testing.TB, text string) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll([]byte(text), nil)
}

func TestReadRatings(t *testing.T) {
	for name, data := range map[string][]byte{
		"plain":            []byte(small),
		"gzip":             gzipped(t, small),
		"zstd":             zstandard(t, small),
		"windows":          []byte("\ufeff" + strings.ReplaceAll(small, "\n", "\r\n")),
		"no last newline":  []byte(strings.TrimSuffix(small, "\n")),
		"movielens header": []byte("userId,movieId,rating,timestamp\n2,7,-1.5,5\n1,9,3,6\n1,7,0.25,7\n"),
	} {
		got, err := ReadRatings("ratings.csv", bytes.NewReader(data), 0)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(got.list(), smallRatings()) || got.BadLines != 0 {
			t.Errorf("%s: %+v, want %+v", name, got, smallRatings())
		}
	}
}

func TestReadMovieLens(t *testing.T) {
	got, err := ReadRatings("u.data", strings.NewReader("196\t242\t3\t881250949\n186\t302\t4\t891717742\n"), 0)
	want := []Rating{{186, 302, 4, 2}, {196, 242, 3, 1}}
	if err != nil || !slices.Equal(got.list(), want) {
		t.Errorf("%+v, %v; want %+v", got.list(), err, want)
	}
	got, err = ReadRatings("ratings.dat", strings.NewReader("196::242::3::881250949\n186::302::4::891717742\n"), 0)
	if err != nil || !slices.Equal(got.list(), want) {
		t.Errorf("%+v, %v; want %+v", got.list(), err, want)
	}
	if _, err := ReadRatings("ratings.dat", strings.NewReader("1::2::3::4\n1::2::3\n"), 0); err == nil || err.Error() != "ratings.dat:2: 3 columns, want 4" {
		t.Errorf("error %v", err)
	}
}

func TestReadRatingsErrors(t *testing.T) {
	const header = "user,item,rating\n"
	for _, c := range []struct{ name, data, want string }{
		{"empty", "", "f.csv: no ratings in it"},
		{"header only", header, "f.csv: no ratings in it"},
		{"another file", "hello\n", "f.csv:1: not a file of ratings"},
		{"wrong header", "user,rating\n1,2\n", "f.csv:1: not a file of ratings"},
		{"four columns of other names", "a,b,c,d,e\n1,2,3,4,5\n", "f.csv:1: not a file of ratings"},
		{"columns", header + "1,2,3\n1,2\n", "f.csv:3: 2 columns, want 3"},
		{"user", header + ",2,3\n", "f.csv:2: there is no user"},
		{"item", header + "1,\xff,3\n", `f.csv:2: item id "\xff" is not text in UTF-8`},
		{"quote", header + "1,\"a,3\n", "f.csv:2: a quote does not end in its line"},
		{"no rating", header + "1,2,\n", `f.csv:2: rating "" is not a number: leave out`},
		{"Netflix without ratings", "1:\n1046323,2005-12-19\n", "f.csv:2: 2 columns, want 3"},
		{"single quotes", header + "1,'A, B',3\n", "f.csv:2: 4 columns, want 3; quotes are \", not ': `python3 -c"},
		{"single quotes, no header", "1,'A, B',3\n", "f.csv:1: not a file of ratings: " + formats + "; quotes are"},
		{"quoted rating", header + "1,2,'3'\n", "f.csv:2: rating \"'3'\" is not a number: write it as 4 or 3.5; quotes are"},
		{"symmetric matrix", "%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n1 2 3\n", "f.csv:1: a MatrixMarket file"},
		{"rating", header + "1,2,good\n", `f.csv:2: rating "good" is not a number`},
		{"not a number", header + "1,2,NaN\n", `f.csv:2: rating "NaN" is not a finite number`},
		{"infinite", header + "1,2,1e39\n", `f.csv:2: rating "1e39" is not a finite number`},
		{"long line", header + strings.Repeat("1", 2*maxRatingLine), "f.csv:2: longer than 1048576 bytes"},
		{"damaged gzip", "\x1f\x8b\x08\x00", "f.csv: gzip: "},
	} {
		_, err := ReadRatings("f.csv", strings.NewReader(c.data), 0)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %q, want %q...", c.name, err, c.want)
		}
	}
}

func TestTruncatedCompression(t *testing.T) {
	long := small + strings.Repeat("1,2,3\n", 1000)
	for name, data := range map[string][]byte{"gzip": gzipped(t, long), "zstd": zstandard(t, long)} {
		if _, err := ReadRatings("f", bytes.NewReader(data[:len(data)-6]), 1000); err == nil {
			t.Errorf("%s: a file that is cut short was read", name)
		}
	}
}

func TestBadLinesMayBeLeftOut(t *testing.T) {
	const data = small + "oops\n1,7\n"
	got, err := ReadRatings("f.csv", strings.NewReader(data), 2)
	if err != nil || got.BadLines != 2 || !slices.Equal(got.list(), smallRatings()) {
		t.Errorf("%+v, %v; want the good lines and 2 bad ones", got, err)
	}
	_, err = ReadRatings("f.csv", strings.NewReader(data), 1)
	var line *LineError
	if !errors.As(err, &line) || line.Line != 6 || !strings.Contains(err.Error(), "more than the 1 bad lines") {
		t.Errorf("error %v, want line 6 and the limit", err)
	}
}

// Whatever is read is sorted, free of repeats and finite, and is the same when written and read again.
func FuzzReadRatings(f *testing.F) {
	f.Add([]byte(small), 0)
	f.Add([]byte("196\t242\t3\t881250949\n"), 0)
	f.Add([]byte("1::2::3.5::881250949\n1:2:3:4\n"), 1)
	f.Add([]byte("userId,movieId,rating,timestamp\r\n1,2,.5,9\r\n,,\n"), 1)
	f.Add(gzipped(f, small), 3)
	f.Add(zstandard(f, small), 0)
	f.Fuzz(func(t *testing.T, data []byte, maxBad int) {
		got, err := ReadRatings("fuzz", bytes.NewReader(data), maxBad)
		if err != nil {
			return
		}
		var again strings.Builder
		again.WriteString("user,item,rating\n")
		all := got.list()
		for i := range all {
			r := &all[i]
			r.Line = uint32(i) + 2
			again.WriteString(strconv.FormatInt(r.User, 10) + "," + strconv.FormatInt(r.Item, 10) + "," +
				strconv.FormatFloat(float64(r.Value), 'g', -1, 32) + "\n")
		}
		back, err := ReadRatings("again", strings.NewReader(again.String()), 0)
		if err != nil || !slices.Equal(back.list(), all) {
			t.Fatalf("%v: read %+v, read back %+v", err, all, back.list())
		}
	})
}

// A stream that breaks off within a line fails with its own error, not with one about half a line.
func TestBrokenStreams(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		text string
		read func(io.Reader) error
	}{
		"ratings":      {small + "3,", func(r io.Reader) error { _, err := ReadRatings("x", r, 0); return err }},
		"LIBSVM":       {"+1 1:1\n-1 2:", func(r io.Reader) error { _, err := ReadLIBSVM("x", r, 0); return err }},
		"bag of words": {"2\n2\n3\n1 1 1\n1 ", func(r io.Reader) error { _, err := ReadBagOfWords("x", r, 0); return err }},
		"table":        {"a,b\n1,2\n3", func(r io.Reader) error { _, err := ReadTable("x", r, 0); return err }},
	} {
		if err := c.read(io.MultiReader(strings.NewReader(c.text), iotest.ErrReader(broken))); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
