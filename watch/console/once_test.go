package console

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/watch/status"
)

// The one-time output is that of the live view, without keys, escapes or empty lines at the end.
func TestWriteOnce(t *testing.T) {
	s := status.New()
	half := journaltest.Began.Add(6 * time.Hour)
	for _, e := range journaltest.New(1).Entries {
		if e.T.Before(half) {
			s.Feed(e)
		}
	}
	for _, width := range []int{40, 60, 100} {
		var out bytes.Buffer
		if err := writeOnce(&out, s, width, false); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := ansi.StringWidth(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d cells on a terminal of %d: %s", n, width, line)
			}
		}
		if width == 100 && (!strings.Contains(out.String(), "of 400") || !strings.Contains(out.String(), "per hour")) {
			t.Errorf("printed\n%s", &out)
		}
		if strings.Contains(out.String(), "Ctrl-C") || strings.Contains(out.String(), "\x1b") || strings.Contains(out.String(), "\n\n\n") {
			t.Errorf("keys, escapes or holes in\n%q", &out)
		}
	}
	var colored bytes.Buffer
	if err := WriteOnce(&colored, s, true); err != nil || !strings.Contains(colored.String(), "\x1b[") {
		t.Errorf("%v, no colours in %q", err, &colored)
	}
}

// A job with a target shows how many clocks remain to it.
func TestClocksLeftAreShown(t *testing.T) {
	s := status.New()
	details, err := journal.Pack(journal.StartDetails{Clock: "real", Rules: "ec2-now", Metric: "rmse", TargetLoss: .5, Clocks: 100})
	if err != nil {
		t.Fatal(err)
	}
	s.Feed(journal.Entry{Kind: journal.Start, Details: details})
	for clock := int64(1); clock <= 40; clock++ {
		loss := 4 / (1 + .1*float64(clock))
		s.Feed(journal.Entry{Kind: journal.ClockDone, Clock: clock, TestLoss: &loss})
	}
	var out bytes.Buffer
	if err := writeOnce(&out, s, 100, false); err != nil {
		t.Fatal(err)
	}
	if want := " left     " + s.LeftText(); !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, &out)
	}
}
