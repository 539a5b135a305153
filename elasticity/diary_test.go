package elasticity

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/*.txt anew")

// TestDiaries plays stories: the input is events, the output the controller's journal. A file of testdata is a list of entries, with a
// blank line after each:
//
//	what happens
//	----
//	the journal since the entry before
//
// Events, one per line, are "world" with the settings that differ from the defaults (must be first), "run" up to a time, "end", or a fault
// in the form of faults_test.go's plans. In the journal, clocks are a column, similar consecutive lines are merged, and bills are added up.
func TestDiaries(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no diaries", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tell(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if got == string(text) {
				return
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("it went otherwise; if that is right: go test ./elasticity -run TestDiaries -rewrite\n%s", got)
		})
	}
}

// tell plays a diary and returns it with the journal that the controller wrote.
func tell(text string) (string, error) {
	var out strings.Builder
	var w *world
	said := 0
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		events, _, isEntry := strings.Cut(block, "\n----")
		if !isEntry { // a comment
			fmt.Fprintf(&out, "%s\n\n", block)
			continue
		}
		for event := range strings.SplitSeq(events, "\n") {
			words := strings.Fields(event)
			var err error
			if w, err = w.happen(words); err != nil {
				return "", fmt.Errorf("%q: %w", event, err)
			}
		}
		fmt.Fprintf(&out, "%s\n----\n%s\n", events, w.diary(said))
		said = len(w.entries)
	}
	if err := w.check("finished", "interrupted", "failed"); err != nil {
		return "", err
	}
	return strings.TrimRight(out.String(), "\n") + "\n", nil
}

// happen applies one event.
func (w *world) happen(words []string) (*world, error) {
	switch words[0] {
	case "world":
		return imagine(words[1:])
	case "run":
		at, err := time.ParseDuration(words[1])
		if err == nil {
			w.until(at)
		}
		return w, err
	case "end":
		return w, w.run()
	}
	p, err := parsePlan("0s " + strings.Join(words, " "))
	if err == nil {
		w.play(p)
	}
	return w, err
}

func imagine(figures []string) (*world, error) {
	s, seed := plain(), 1
	for _, f := range figures {
		name, value, _ := strings.Cut(f, "=")
		n, err := strconv.Atoi(value)
		if err != nil {
			return nil, err
		}
		switch name {
		case "seed":
			seed = n
		case "clocks":
			s.clocks = n
		case "transient":
			s.transient = n
		case "reliable":
			s.reliable = n
		case "notice-wait-ms":
			s.noticeWait = time.Duration(n) * time.Millisecond
		default:
			return nil, fmt.Errorf("there is no %s", name)
		}
	}
	return newWorld(uint64(seed), s), nil
}

// diary returns the journal from an index on, for readers.
func (w *world) diary(from int) string {
	var b strings.Builder
	clock := int64(0)
	for _, e := range w.entries[:from] {
		clock = clockAfter(clock, e)
	}
	for i := from; i < len(w.entries); {
		e := w.entries[i]
		alike := 1
		for i+alike < len(w.entries) && alikeLines(e, w.entries[i+alike]) {
			alike++
		}
		group := w.entries[i : i+alike]
		i += alike
		if e.Kind != journal.ClockDone {
			fmt.Fprintf(&b, "%6.2fs %4d  %-13s%s\n", e.T.Sub(epoch).Seconds(), clock, e.Kind, sentence(group))
		}
		for _, e := range group {
			clock = clockAfter(clock, e)
		}
	}
	return b.String()
}

func clockAfter(clock int64, e journal.Entry) int64 {
	if e.Kind == journal.ClockDone || e.Kind == journal.Rollback {
		return e.Clock
	}
	return clock
}

// alikeLines reports whether two consecutive lines are merged.
func alikeLines(a, b journal.Entry) bool {
	if a.Kind != b.Kind {
		return false
	}
	switch a.Kind {
	case journal.ClockDone, journal.Charge:
		return true
	case journal.Move:
		return a.From == b.From || a.To == b.To
	}
	return a.Instance != "" && a.Why == b.Why && a.Pool == b.Pool && a.Deadline == nil == (b.Deadline == nil)
}

// sentence describes similar lines.
func sentence(group []journal.Entry) string {
	e := group[0]
	switch e.Kind {
	case journal.Charge:
		var sum market.USD
		for _, e := range group {
			usd, err := market.ParseUSD(e.USD)
			if err != nil {
				return err.Error()
			}
			sum += usd
		}
		return fmt.Sprintf("%s in %d lines", sum, len(group))
	case journal.Move:
		n, to := 0, ""
		for _, e := range group {
			n += e.Count
			to += " " + e.To
		}
		return fmt.Sprintf("%d partitions from %s to%s (%s)", n, e.From, to, e.Why)
	}
	text := strings.TrimSpace(words(e))
	if len(group) > 1 {
		last := group[len(group)-1]
		text = fmt.Sprintf("%s .. %s, %d machines", e.Instance, last.Instance, len(group))
		if e.Why != "" {
			text += " (" + e.Why + ")"
		}
	}
	return text
}
