package decompress

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
)

func compressed(t *testing.T, text string, make func(io.Writer) (io.WriteCloser, error)) string {
	t.Helper()
	var b bytes.Buffer
	w, err := make(&b)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestReader(t *testing.T) {
	const text = "timestamp,price\n1,2\n"
	zipped := compressed(t, text, func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil })
	standard := compressed(t, text, func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) })
	for name, c := range map[string]struct{ in, want string }{
		"plain": {text, text}, "gzip": {zipped, text}, "zstd": {standard, text}, "empty": {"", ""}, "one byte": {"\x1f", "\x1f"},
	} {
		// A byte at a time: the first read of a pipe may not return all identifying bytes.
		r, err := Reader(iotest.OneByteReader(strings.NewReader(c.in)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil || string(got) != c.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	damaged := []byte(zipped)
	damaged[len(damaged)-5] ^= 1 // of the checksum
	for name, c := range map[string]struct{ in, want string }{
		"no gzip": {"\x1f\x8bnot gzip", "is damaged"}, "no zstd": {"\x28\xb5\x2f\xfdnot zstd", ""}, "checksum": {string(damaged), "is damaged"},
		"half": {zipped[:len(zipped)/2], "is cut short"}, "zstd, half": {standard[:len(standard)-4], "is cut short"},
	} {
		r, err := Reader(strings.NewReader(c.in))
		if err == nil {
			_, err = io.ReadAll(r)
			err = errors.Join(err, r.Close())
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	broken := errors.New("broken")
	if _, err := Reader(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("a broken stream: %v", err)
	}
}

// A few bytes that expand to many short equal lines are rejected, too; different lines are not. Files of known other kinds are reported as
// such, and those that only begin similarly are read.
func TestForeign(t *testing.T) {
	for in, want := range map[string]string{
		"PK\x03\x04rest": "zip", "ARROW1\x00\x00": "Arrow", "\x5d\x00\x00\x80": "LZMA", "PAR1....": "Parquet", "\xfd7zXZ\x00": "xz", "%PDF-1.7": "PDF",
		"% Iris\n%\n@RELATION iris\n": "ARFF", "\n <Table>": "web page", "% a\n\\begin{tabular}{r}\n": "LaTeX", "-1 2 'x |f price:0.23 size:1\n": "Vowpal Wabbit", "1 | age:.5\n": "Vowpal Wabbit",
		"SQLite format 3\x00": "sqlite3 -header", "\x80\x04\x95\x00": "pickle", "ORC\n\x06": "ORC",
		"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "spreadsheet", "X\n\x00\x00": "data of R", "\x93NUMPY\x01": "NumPy", "\x89HDF": "HDF5", "7z\xbc\xaf'\x1c": "archive",
		"a.csv" + strings.Repeat("\x00", 252) + "ustar\x00": "archive",
	} {
		if _, err := Reader(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", in, err)
		}
	}
	for _, in := range []string{"PARTY,COUNT\n", "PK,a\n", "%,a\n", "\xff", "ORC,a\n", "X\n1\n", "7z,a\n", "relation,a\n", "1 | good film\n", "1 |12:30\n", "1 |a:2| b:3\n"} {
		if _, err := Reader(strings.NewReader(in)); err != nil {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// Text is UTF-8 without a mark, regardless of how a spreadsheet saves it, compressed or not.
func TestEncodings(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("\xfe\xff\x00\xfc\x00,")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{"ü,", "\ufeffü,", "\xff\xfe\xfc\x00,\x00", "\xfc\x00,\x00", "ü,\x1a", "\xfe\xff\x00\xfc\x00,", packed.String()} {
		r, err := Reader(strings.NewReader(in))
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != "ü," {
			t.Errorf("%q became %q: %v", in, got, err)
		}
	}
}

func TestManyLinesEnd(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	same, different := strings.Repeat("1\n", 4<<20), make([]byte, 8<<20)
	for i := range different {
		if different[i] = '\n'; i%2 == 0 {
			different[i] = '0' + byte(random.IntN(10))
		}
	}
	for text, want := range map[string]error{same: ErrTooLarge, string(different): nil} {
		r, err := Reader(strings.NewReader(compressed(t, text, func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil })))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, r); !errors.Is(err, want) || err != nil && n > 5<<20 {
			t.Errorf("%d bytes, %v; want %v", n, err, want)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A small stream that expands to a large one ends with an error, unless the limit is raised.
func TestBombsEnd(t *testing.T) {
	zeros := make([]byte, 300<<20)
	for name, make := range map[string]func(io.Writer) (io.WriteCloser, error){
		"gzip": func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriterLevel(w, gzip.BestSpeed) },
		"zstd": func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
	} {
		bomb := compressed(t, string(zeros), make)
		read := func() (int64, error) {
			r, err := Reader(strings.NewReader(bomb))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			return io.Copy(io.Discard, r)
		}
		if n, err := read(); !errors.Is(err, ErrTooLarge) || n > 260<<20 {
			t.Errorf("%s: %d bytes of %d: %v", name, n, len(bomb), err)
		}
		t.Setenv("TIERML_MAX_UNPACKED", "400")
		if n, err := read(); err != nil || n != int64(len(zeros)) {
			t.Errorf("%s, raised: %d bytes: %v", name, n, err)
		}
		t.Setenv("TIERML_MAX_UNPACKED", "")
	}
}
