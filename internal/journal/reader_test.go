package journal

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

const good = `{"t":"2014-05-01T12:00:00Z","kind":"ready","instance":"i-1"}`

func TestReader(t *testing.T) {
	for _, c := range []struct {
		name, in string
		entries  int
		torn     *Torn
		wrong    string // part of the error
	}{
		{name: "empty"},
		{name: "lines", in: good + "\n" + good + "\n", entries: 2},
		{name: "carriage returns and empty lines", in: good + "\r\n\n" + good + "\n\n", entries: 2},
		{name: "newline lost", in: good + "\n" + good, entries: 2},
		{name: "torn", in: good + "\n" + good[:20], entries: 1, torn: &Torn{Line: 2, Bytes: 20}},
		{name: "torn at once", in: "{", torn: &Torn{Line: 1, Bytes: 1}},
		{name: "unknown field and kind", in: `{"t":"2014-05-01T12:00:00Z","kind":"teleport","speed":9}` + "\n", entries: 1},
		{name: "bad in the middle", in: good + "\n" + good[:20] + "\n" + good + "\n", entries: 1, wrong: "line 2"},
		{name: "two objects on a line", in: good + good + "\n", wrong: "line 1"},
		{name: "bad last line that is no torn one", in: good + "\nnonsense\n", entries: 1, wrong: "line 2"},
		{name: "no kind", in: `{"t":"2014-05-01T12:00:00Z"}` + "\n", wrong: "no kind"},
		{name: "no time", in: `{"kind":"cut"}` + "\n", wrong: "no time"},
		{name: "wrong type", in: `{"t":"2014-05-01T12:00:00Z","kind":"cut","clock":"7"}` + "\n", wrong: "line 1"},
		{name: "endless line", in: `{"why":"` + strings.Repeat("x", MaxLine) + `"}` + "\n", wrong: "longer than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewReader(strings.NewReader(c.in))
			var entries int
			var failure error
			for _, err := range r.All() {
				if err != nil {
					failure = err
					continue
				}
				entries++
			}
			if entries != c.entries {
				t.Errorf("%d entries, want %d", entries, c.entries)
			}
			if (failure != nil) != (c.wrong != "") || failure != nil && !strings.Contains(failure.Error(), c.wrong) {
				t.Errorf("error %v, want one with %q", failure, c.wrong)
			}
			if got := r.Torn(); (got == nil) != (c.torn == nil) || got != nil && *got != *c.torn {
				t.Errorf("torn %v, want %v", got, c.torn)
			}
		})
	}
}

// Truncating a journal anywhere loses at most the line that was cut.
func TestReaderCutAnywhere(t *testing.T) {
	whole := strings.Repeat(good+"\n", 3)
	for n := range len(whole) + 1 {
		entries, torn := readAll(t, []byte(whole[:n]))
		full := strings.Count(whole[:n], "\n")
		rest := n - strings.LastIndex(whole[:n], "\n") - 1
		if rest == len(good) { // only the newline is missing
			full, rest = full+1, 0
		}
		if len(entries) != full || (torn != nil) != (rest > 0) {
			t.Fatalf("cut at %d: %d entries and torn %v, want %d", n, len(entries), torn, full)
		}
	}
}

type brokenDisk struct{}

func (brokenDisk) Read([]byte) (int, error) { return 0, errors.New("bad sector") }

func TestReaderPassesOnReadErrors(t *testing.T) {
	in := io.MultiReader(strings.NewReader(good+"\n"+good[:9]), brokenDisk{})
	r := NewReader(in)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err == nil || !strings.Contains(err.Error(), "bad sector") || r.Torn() != nil {
		t.Fatalf("error %v, torn %v: a read error is no torn line", err, r.Torn())
	}
}

// Whatever the reader accepts is read back the same after the writer has written it.
func FuzzReader(f *testing.F) {
	f.Add([]byte(good + "\n" + good[:20]))
	f.Add([]byte("\n{}\nnull\n"))
	f.Add([]byte(`{"t":"2014-05-01T12:00:00+02:00","kind":"clock","test_loss":1e-300,"details":{"x":[]}}`))
	f.Add([]byte("{\"t\":\"0001-01-01T00:00:00Z\",\"kind\":\"\\ud800\"}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		once := reprint(t, data)
		if twice := reprint(t, once); !bytes.Equal(once, twice) {
			t.Fatalf("printed\n%s\nthen\n%s", once, twice)
		}
	})
}

func reprint(t *testing.T, data []byte) []byte {
	d := &disk{room: 1 << 26}
	w := NewWriter(d, 0, nil)
	for e, err := range NewReader(bytes.NewReader(data)).All() {
		if err != nil {
			break
		}
		if err := w.Write(e); err != nil {
			t.Fatalf("an entry that was read cannot be written: %v", err)
		}
	}
	return d.data
}
