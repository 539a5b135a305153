package progress

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/charmbracelet/x/ansi"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// screen records the output.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// shown returns what a terminal finally shows, line by line.
func (s *screen) shown() string {
	var lines []string
	for line := range strings.SplitSeq(s.String(), "\n") {
		lines = append(lines, ansi.Strip(line[strings.LastIndex(line, "\r")+1:]))
	}
	return strings.Join(lines, "\n")
}

func meter(s *screen, width int) *Meter {
	return &Meter{out: s, now: time.Now, width: func() int { return width }}
}

// A bar appears after a second, shows count and time left, and disappears when it is done.
func TestBar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		b := meter(s, 80).Start("simulating", 400, Things)
		b.Add(50)
		time.Sleep(900 * time.Millisecond)
		if s.String() != "" {
			t.Errorf("shown before a second is over: %q", s)
		}
		time.Sleep(1150 * time.Millisecond)
		b.Add(50)
		time.Sleep(1950 * time.Millisecond) // 4 s: a quarter is done
		want := "simulating  ██████░░░░░░░░░░░░░░░░░░   25%  100/400  12s left"
		if got := s.shown(); got != want {
			t.Errorf("shown\n%s\nwant\n%s", got, want)
		}
		b.Done()
		b.Done()
		if got := s.shown(); got != "" {
			t.Errorf("left on the screen: %q", got)
		}
		before := s.String()
		time.Sleep(10 * time.Second)
		if s.String() != before {
			t.Error("drawn after its end")
		}
	})
}

// A short task shows nothing.
func TestShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		b := meter(s, 80).Start("reading", 0, Bytes)
		time.Sleep(950 * time.Millisecond)
		b.Done()
		if s.String() != "" {
			t.Errorf("written: %q", s)
		}
	})
}

// A part of a longer task replaces its bar for a while.
func TestParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		m := meter(s, 60)
		whole := m.Start("uploading", 3, Things)
		defer whole.Done()
		part := m.Start("prices.csv", 2e6, Bytes)
		if _, err := io.Copy(io.Discard, part.Reader(strings.NewReader(strings.Repeat("x", 1e6)))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if got := s.shown(); !strings.HasPrefix(got, "prices.csv  ") || !strings.HasSuffix(got, "50%  1.0 MB/2.0 MB  2s left") {
			t.Errorf("the part: %q", got)
		}
		part.Done()
		whole.Add(1)
		time.Sleep(time.Second)
		if got := s.shown(); !strings.HasPrefix(got, "uploading  ") || !strings.Contains(got, "1/3") {
			t.Errorf("the whole: %q", got)
		}
	})
}

// Lines printed while a bar is shown do not mix with it.
func TestPrintedLinesDoNotMixWithBars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		m := meter(s, 60)
		b := m.Start("training", 10, Things)
		time.Sleep(2 * time.Second)
		fmt.Fprintln(m.Writer(s), "clock 5")
		time.Sleep(time.Second)
		b.Done()
		if got := s.shown(); got != "clock 5\n" {
			t.Errorf("left on the screen: %q", got)
		}
	})
}

// The line fits on every terminal.
func TestLineFits(t *testing.T) {
	for width := range 120 {
		for _, b := range []*Bar{{what: "fetching prices", unit: Bytes}, {what: "waiting", unit: Seconds}, {what: "a"}, {what: "unknown", unit: Bytes}} {
			if b.what != "unknown" {
				b.Set(6, 1000)
			}
			if line := b.line(b.began.Add(time.Hour), width); ansi.StringWidth(line) > width || strings.Contains(line, "\n") {
				t.Errorf("width %d: %q", width, line)
			}
		}
	}
}

func TestWords(t *testing.T) {
	for want, got := range map[string]string{
		"0 B": Size(0), "999 B": Size(999), "1.0 kB": Size(1000), "99.9 MB": Size(99_900_000), "100 MB": Size(100_000_000), "1.2 TB": Size(1_230_000_000_000),
		"1.0 MB": Size(999_999),
		"0s":     Length(400 * time.Millisecond), "59s": Length(59 * time.Second), "2m05s": Length(125 * time.Second), "1h02m": Length(3725 * time.Second),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Where no line can be redrawn, lines are printed after three seconds, and then less and less often.
func TestWordsWithoutTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		m := New(s)
		bytes := m.Start("reading", 1000, Bytes)
		b := m.Start("Simulating runs", 400, Things)
		b.Add(100)
		time.Sleep(2900 * time.Millisecond)
		if s.String() != "" {
			t.Errorf("said before three seconds are over: %q", s)
		}
		time.Sleep(time.Second)
		want := "tierml: Simulating runs: 100 of 400 after 3s, about 9s left\n"
		if s.String() != want {
			t.Errorf("said %q, want %q", s, want)
		}
		time.Sleep(time.Hour)
		if n := strings.Count(s.String(), "\n"); n != 11 { // after 3, 6, 12, 24, 48 and 96 s, and so on
			t.Errorf("%d lines in an hour:\n%s", n, s)
		}
		b.Done()
		bytes.Add(250)
		time.Sleep(time.Second)
		if !strings.Contains(s.String(), "tierml: reading: 250 B of 1.0 kB after 1h00m, about 3h00m left\n") || strings.Contains(s.String(), "\x1b") {
			t.Errorf("what was hidden before has no words, or there is more than words: %q", s)
		}
		bytes.Done()
		plain := m.Start("Reading prices", 0, Things)
		time.Sleep(4 * time.Second)
		plain.Done()
		if !strings.HasSuffix(s.String(), "tierml: Reading prices: 3s\n") {
			t.Errorf("without a known end it says %q", s)
		}
	})
}

// Without a meter nothing is shown, and every method can be called.
func TestNothingIsShownWithoutAMeter(t *testing.T) {
	for _, ctx := range []context.Context{context.Background(), With(context.Background(), nil)} {
		b := Start(ctx, "nothing", 5, Things)
		b.Add(1)
		b.Set(2, 3)
		b.Done()
	}
	var out bytes.Buffer
	if w := From(context.Background()).Writer(&out); w != &out {
		t.Error("a writer of its own")
	}
}
