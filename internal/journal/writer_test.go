package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// disk is a file in memory with room for a given number of bytes.
type disk struct {
	data       []byte
	room       int
	syncs      int
	noTruncate bool
	writes     int
}

func (d *disk) Write(p []byte) (int, error) {
	d.writes++
	n := min(len(p), d.room-len(d.data))
	d.data = append(d.data, p[:n]...)
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (d *disk) Truncate(size int64) error {
	if d.noTruncate {
		return errors.New("no truncation today")
	}
	d.data = d.data[:size]
	return nil
}

func (d *disk) Sync() error  { d.syncs++; return nil }
func (d *disk) Close() error { return nil }

func at(seconds int) time.Time {
	return time.Date(2014, 5, 1, 12, 0, seconds, 0, time.UTC)
}

func readAll(t *testing.T, data []byte) ([]Entry, *Torn) {
	t.Helper()
	var got []Entry
	r := NewReader(bytes.NewReader(data))
	for e, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	return got, r.Torn()
}

func TestWriterOneWritePerLine(t *testing.T) {
	d := &disk{room: 1 << 20}
	var seen []Entry
	w := NewWriter(d, 0, func(e Entry) { seen = append(seen, e) })
	for i := range 5 {
		if err := w.Write(Entry{T: at(i), Kind: Cut, Clock: int64(i), Why: "a -> b & <c>"}); err != nil {
			t.Fatal(err)
		}
	}
	if d.writes != 5 || bytes.Count(d.data, []byte("\n")) != 5 || d.data[len(d.data)-1] != '\n' {
		t.Errorf("5 entries made %d writes and these lines:\n%s", d.writes, d.data)
	}
	if !strings.Contains(string(d.data), `"a -> b & <c>"`) {
		t.Errorf("reasons are not readable: %s", d.data)
	}
	got, _ := readAll(t, d.data)
	if diff := cmp.Diff(seen, got); diff != "" {
		t.Errorf("the observer and the reader disagree (-observer +reader):\n%s", diff)
	}
}

func TestWriterSyncsDurableKindsOnly(t *testing.T) {
	for _, f := range Kinds() {
		d := &disk{room: 1 << 20}
		w := NewWriter(d, 0, nil)
		if err := w.Write(Entry{T: at(0), Kind: f.Kind}); err != nil {
			t.Fatal(err)
		}
		if got := d.syncs == 1; got != f.Durable {
			t.Errorf("%s: synced is %v, want %v", f.Kind, got, f.Durable)
		}
	}
	for _, k := range []Kind{Intent, Launch, Cut, Rollback, Done} {
		if !k.Durable() {
			t.Errorf("%s must be durable: recovery or the bill depends on it", k)
		}
	}
}

// A disk that fills up at any byte of a line costs only that line.
func TestWriterFullDisk(t *testing.T) {
	line := int(mustSize(t, Entry{T: at(1), Kind: Ready, Instance: "i-1"}))
	for room := line; room < 2*line; room++ {
		d := &disk{room: room}
		w := NewWriter(d, 0, nil)
		write := func(i int) error { return w.Write(Entry{T: at(i), Kind: Ready, Instance: "i-1"}) }
		if err := write(1); err != nil {
			t.Fatalf("room %d: %v", room, err)
		}
		if err := write(2); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("room %d: error %v, want ENOSPC", room, err)
		}
		d.room = 1 << 20 // room was made
		if err := write(3); err != nil {
			t.Fatalf("room %d: the writer did not recover: %v", room, err)
		}
		got, torn := readAll(t, d.data)
		if len(got) != 2 || torn != nil || !got[1].T.Equal(at(3)) {
			t.Fatalf("room %d: read %v, torn %v, from:\n%s", room, got, torn, d.data)
		}
	}
}

// As long as the torn piece cannot be cut off nothing is written after it.
func TestWriterNeverBuriesATornLine(t *testing.T) {
	line := int(mustSize(t, Entry{T: at(1), Kind: Ready, Instance: "i-1"}))
	d := &disk{room: line + 10, noTruncate: true}
	var seen int
	w := NewWriter(d, 0, func(Entry) { seen++ })
	for i := 1; i <= 3; i++ {
		err := w.Write(Entry{T: at(i), Kind: Ready, Instance: "i-1"})
		if (err == nil) != (i == 1) {
			t.Fatalf("write %d: error %v", i, err)
		}
		if i == 2 {
			d.room = 1 << 20 // room again, but the torn piece is still there
		}
	}
	if got, torn := readAll(t, d.data); len(got) != 1 || torn == nil || torn.Line != 2 || torn.Bytes != 10 {
		t.Fatalf("read %d entries and torn %v", len(got), torn)
	}
	d.noTruncate = false
	if err := w.Write(Entry{T: at(4), Kind: Ready, Instance: "i-1"}); err != nil {
		t.Fatal(err)
	}
	if got, torn := readAll(t, d.data); len(got) != 2 || torn != nil || seen != 2 {
		t.Fatalf("read %d entries, torn %v; observed %d", len(got), torn, seen)
	}
}

func TestWriterRealFullDisk(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full: run it on Linux")
	}
	w := NewWriter(f, 0, nil)
	err = w.Write(Entry{T: at(0), Kind: Done, Outcome: "finished"})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), `writing "done"`) {
		t.Fatalf("error %v, want one that names the line and the full disk", err)
	}
}

func TestWriterConcurrentUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	w, err := Create(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	const writers, lines = 8, 50
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for j := range lines {
				if err := w.Write(Entry{T: at(j), Kind: ClockDone, Instance: fmt.Sprint(i), Clock: int64(j)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(Entry{T: at(0), Kind: Done}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("writing after Close: %v", err)
	}
	entries, torn, err := ReadFile(path)
	if err != nil || torn != nil || len(entries) != writers*lines {
		t.Fatalf("%d entries, torn %v, error %v", len(entries), torn, err)
	}
	next := map[string]int64{}
	for _, e := range entries { // each writer's lines keep their order
		if e.Clock != next[e.Instance] {
			t.Fatalf("writer %s: clock %d follows %d", e.Instance, e.Clock, next[e.Instance])
		}
		next[e.Instance]++
	}
}

func TestCreateRefusesAnExistingJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(path, []byte("precious\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path, nil); !errors.Is(err, os.ErrExist) {
		t.Fatalf("error %v, want that it exists", err)
	}
}

func TestResume(t *testing.T) {
	first := `{"t":"2014-05-01T12:00:00Z","kind":"cut","clock":7}`
	for _, c := range []struct{ name, tail string }{
		{"clean", "\n"},
		{"newline lost", ""},
		{"torn", "\n{\"t\":\"2014-05-0"},
		{"zeros after a power cut", "\n\x00\x00\x00\x00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.jsonl")
			if err := os.WriteFile(path, []byte(first+c.tail), 0o600); err != nil {
				t.Fatal(err)
			}
			w, past, err := Resume(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(past) != 1 || past[0].Clock != 7 {
				t.Errorf("the past is %v", past)
			}
			if err := errors.Join(w.Write(Entry{T: at(1), Kind: Cut, Clock: 8}), w.Close()); err != nil {
				t.Fatal(err)
			}
			all, torn, err := ReadFile(path)
			if err != nil || torn != nil || len(all) != 2 || all[1].Clock != 8 {
				t.Errorf("read %v, torn %v, error %v", all, torn, err)
			}
		})
	}
}

// Entries are read as they were written, whatever they contain.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := make([]Entry, rapid.IntRange(0, 8).Draw(t, "n"))
		for i := range want {
			want[i] = drawEntry(t)
		}
		d := &disk{room: 1 << 24}
		w := NewWriter(d, 0, nil)
		for _, e := range want {
			if err := w.Write(e); err != nil {
				t.Fatal(err)
			}
		}
		var got []Entry
		for e, err := range NewReader(bytes.NewReader(d.data)).All() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func drawEntry(t *rapid.T) Entry {
	text := rapid.String()
	instant := rapid.Custom(func(t *rapid.T) *time.Time {
		v := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
		return &v
	})
	number := rapid.Float64Range(-1e12, 1e12)
	kind := rapid.SampledFrom(kinds)
	e := Entry{
		T: *instant.Draw(t, "t"), Kind: kind.Draw(t, "kind").Kind, Why: text.Draw(t, "why"),
		Instance: text.Draw(t, "instance"), Tier: text.Draw(t, "tier"), Token: text.Draw(t, "token"),
		From: text.Draw(t, "from"), USD: text.Draw(t, "usd"),
		Count: rapid.Int().Draw(t, "count"), Clock: rapid.Int64().Draw(t, "clock"),
		Generation: rapid.Uint64().Draw(t, "generation"), Work: number.Draw(t, "work"),
		Redone: rapid.Bool().Draw(t, "redone"),
	}
	if rapid.Bool().Draw(t, "has optional") {
		loss := number.Draw(t, "loss")
		e.TestLoss, e.Ended, e.Details = &loss, instant.Draw(t, "ended"), []byte(`{"a":[1,2]}`)
	}
	return e
}

func TestNonNumericLossIsOmitted(t *testing.T) {
	d := &disk{room: 1 << 20}
	nan, inf := math.NaN(), math.Inf(1)
	w := NewWriter(d, 0, nil)
	if err := w.Write(Entry{T: at(0), Kind: ClockDone, TrainLoss: &nan, TestLoss: &inf}); err != nil {
		t.Fatal(err)
	}
	if got, _ := readAll(t, d.data); got[0].TrainLoss != nil || got[0].TestLoss != nil {
		t.Errorf("got %v", got)
	}
	if Loss(nan) != nil || *Loss(0) != 0 {
		t.Error("Loss(NaN) must be absent and Loss(0) present")
	}
}

func mustSize(t *testing.T, e Entry) int64 {
	t.Helper()
	d := &disk{room: 1 << 20}
	w := NewWriter(d, 0, nil)
	if err := w.Write(e); err != nil {
		t.Fatal(err)
	}
	return int64(len(d.data))
}
