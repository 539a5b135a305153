package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"go.uber.org/goleak"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/watch/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// play feeds a story in real time, by the clock of the synctest bubble.
func play(c *Console, entries []journal.Entry) {
	began := time.Now()
	for _, e := range entries {
		due := began.Add(e.T.Sub(journaltest.Began) / journaltest.Speed)
		time.Sleep(time.Until(due))
		c.Feed(e)
	}
}

func TestPlainLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := New(&out, Options{})
		play(c, journaltest.New(1).Entries)
		if err := errors.Join(c.Close(), c.Close()); err != nil {
			t.Fatal(err)
		}
		c.Feed(journal.Entry{T: time.Now(), Kind: journal.Done}) // too late, and harmless
		text := out.String()
		for _, want := range []string{
			"12:26:00  stage 2 -> 3: 17 transient, 1 reliable (ratio 17:1 above 15:1)\n",
			"15:20:00  switch from c3.xlarge us-west-1a to c3.2xlarge us-west-1a (MTTF 9.0 h is at least",
			"18:20:00  eviction notice for 9 transient machines of c3.2xlarge us-west-1a (price 0.742 above bid 0.478)\n",
			"22:00:00  roll-back to the cut at clock ",
			"01:20:00  done: finished at clock 709\n",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing in\n%s", want, text)
			}
		}
		if strings.Contains(text, "\x1b") {
			t.Error("escape sequences where there is no terminal")
		}
		checkOrder(t, text)
		// 80 s and 714 clocks: one line each 5 s, or each 50 clocks.
		if n := strings.Count(text, "  clock "); n < 14 || n > 32 {
			t.Errorf("%d clock lines", n)
		}
	})
}

// checkOrder checks that the lines' times are in order, across midnight.
func checkOrder(t *testing.T, text string) {
	last, day := "", ""
	for line := range strings.Lines(text) {
		stamp := line[:8]
		if stamp < last && last > "23" && stamp < "01" {
			day = "next day "
			last = ""
		}
		if stamp < last {
			t.Errorf("%s%s after %s", day, stamp, last)
		}
		last = stamp
	}
}

// A group that waits for more lines is shown when none come.
func TestPlainLinesDoNotWaitForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var out bytes.Buffer
		c := New(writer(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return out.Write(p)
		}), Options{})
		defer c.Close()
		c.Feed(journal.Entry{T: journaltest.Began, Kind: journal.Join, Instance: "i-1", Tier: "transient"})
		time.Sleep(2 * quiet)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if got := out.String(); got != "12:00:00  transient machine i-1 joins\n" {
			t.Errorf("shown: %q", got)
		}
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestCloseReportsWriteErrors(t *testing.T) {
	c := New(writer(func([]byte) (int, error) { return 0, errors.New("pipe is closed") }), Options{})
	c.Feed(journal.Entry{T: journaltest.Began, Kind: journal.Done, Outcome: "failed"})
	if err := c.Close(); err == nil || !strings.Contains(err.Error(), "pipe is closed") {
		t.Errorf("error %v", err)
	}
}

// The screen fits at every size and moment.
func TestDrawFits(t *testing.T) {
	s := picture{Status: status.New()}
	for i, e := range journaltest.New(1).Entries {
		s.Feed(e)
		if i%50 != 0 {
			continue
		}
		for _, size := range [][2]int{{80, 24}, {120, 40}, {40, 10}, {1, 1}, {300, 3}} {
			lines := strings.Split(s.draw(s.Now, size[0], size[1], 0), "\n")
			if len(lines) != size[1] {
				t.Fatalf("%d lines on a screen of %d", len(lines), size[1])
			}
			for _, l := range lines {
				if w := ansi.StringWidth(l); w > size[0] {
					t.Fatalf("%d cells on a screen of %d: %q", w, size[0], l)
				}
			}
		}
	}
}

func TestDrawShows(t *testing.T) {
	s := picture{Status: status.New()}
	if got := ansi.Strip(s.draw(time.Time{}, 80, 24, 0)); !strings.Contains(got, "no stage yet") {
		t.Errorf("before anything:\n%s", got)
	}
	for _, e := range journaltest.New(1).Entries {
		if e.T.After(journaltest.Began.Add(6*time.Hour + 25*time.Minute)) { // notice is given, no machine has left
			break
		}
		s.Feed(e)
	}
	got := ansi.Strip(s.draw(s.Now, 100, 30, 1))
	for _, want := range []string{
		"demo  mf", "market time x600", "of 400", "rmse", "stage 3  0 transient, 1 reliable in training",
		"1 x c3.xlarge us-west-1a on-demand", "$0.239", "0 x c3.2xlarge us-west-1a", "bid $0.478", "-9 leaving",
		"per hour", "spent $", "saved so far", "eviction notice for 9 transient machines", "once more: at once",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// q and Ctrl-C reach the owner, every time, and do not end the view.
func TestInterruptIsPassedOn(t *testing.T) {
	calls := 0
	c := New(&bytes.Buffer{}, Options{OnInterrupt: func() { calls++ }})
	defer c.Close()
	var m tea.Model = screen{console: c, interrupts: make(chan struct{}, 1)}
	for i, key := range []tea.KeyPressMsg{{Code: 'q', Text: "q"}, {Code: 'c', Mod: tea.ModCtrl}, {Code: 'x', Text: "x"}} {
		next, cmd := m.Update(key)
		if (cmd != nil) != (i < 2) {
			t.Fatalf("key %s: command %v", key, cmd)
		}
		if cmd != nil {
			if _, quit := cmd().(tea.QuitMsg); quit {
				t.Errorf("key %s ends the view", key)
			}
		}
		m = next
	}
	if calls != 2 || m.(screen).interrupted != 2 {
		t.Errorf("%d calls", calls)
	}
	m, _ = m.Update(tea.WindowSizeMsg{Width: 50, Height: 12})
	if view := m.View(); !view.AltScreen || strings.Count(view.Content, "\n") != 11 || !strings.Contains(view.Content, "stopping at once") {
		t.Errorf("view %q", view.Content)
	}
}

func TestSpark(t *testing.T) {
	for want, values := range map[string][]float64{"▁█": {1, 2}, "▁▁": {3, 3}, "█▁": {9, 8, 1, 0}, "": nil} {
		if got := spark(values, 2); got != want {
			t.Errorf("%v: %s, want %s", values, got, want)
		}
	}
}

// The drawing has no escape sequences except those of the styles, whatever the texts in a journal.
func TestDrawIsNotSteered(t *testing.T) {
	const canary = "\x1b]0;canary\a\u009b2J\r\u202e\n"
	s, plain := status.New(), &bytes.Buffer{}
	c := New(plain, Options{})
	colours := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for i, e := range journaltest.New(1).Entries {
		for v, f := reflect.ValueOf(&e).Elem(), 0; f < v.NumField(); f++ {
			if field := v.Field(f); field.Kind() == reflect.String && field.Type() != reflect.TypeFor[journal.Kind]() && field.String() != "" {
				switch v.Type().Field(f).Name {
				case "USD", "Bid", "Tier", "EndedBy": // figures and kinds, without which nothing is shown
				default:
					field.SetString(field.String() + canary)
				}
			}
		}
		e.Pool = strings.TrimSuffix(e.Pool, canary) // a pool is parsed by its parts
		e.Pool = strings.Replace(e.Pool, "xlarge", "x"+canary+"large", 1)
		if e.Details != nil {
			quoted, err := json.Marshal(canary)
			if err != nil {
				t.Fatal(err)
			}
			e.Details = json.RawMessage(strings.NewReplacer(`"demo"`, `"demo`+string(quoted[1:]), `"mf"`, `"mf`+string(quoted[1:]), `"rmse"`, `"rmse`+string(quoted[1:])).Replace(string(e.Details)))
		}
		s.Feed(e)
		c.Feed(e)
		if i%20 != 0 && e.Kind != journal.Done {
			continue
		}
		drawn := colours.ReplaceAllString(picture{Status: s}.draw(s.Now, 200, 40, 0), "")
		if terminal.Unsafe(drawn) {
			t.Fatalf("after %d entries, %s: %q", i, e.Kind, drawn)
		}
		if !strings.Contains(drawn, `\u001b`) || strings.Count(drawn, "\n") != 39 {
			t.Fatalf("%d lines, or no canary, in\n%s", 1+strings.Count(drawn, "\n"), drawn)
		}
	}
	if err := c.Close(); err != nil || terminal.Unsafe(plain.String()) || !strings.Contains(plain.String(), `\u001b`) {
		t.Errorf("%v; plain lines:\n%q", err, plain.String())
	}
	var once bytes.Buffer
	if err := WriteOnce(&once, s, true); err != nil || terminal.Unsafe(colours.ReplaceAllString(once.String(), "")) {
		t.Errorf("%v; once:\n%q", err, once.String())
	}
}
