package page

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
)

// A tuned job shows its settings, their pace and the improvements in pictures, each well-formed, with a table; other jobs have none.
func TestTuningOnThePage(t *testing.T) {
	entries := journaltest.New(1).Entries
	if html := render(t, storyReport(t, entries)); strings.Contains(html, "Settings over time") {
		t.Error("a job that is not tuned has settings over time")
	}
	at := entries[0].T.Add(time.Hour)
	last := entries[len(entries)-1]
	entries = entries[:len(entries)-1]
	for i, servers := range []int{4, 9, 2} {
		d := journal.TuneDetails{Step: "explore", Machines: 16, Setting: map[string]int{"servers": servers, "workers": 16 - i, "reliable machines work": 0}}
		if i > 0 {
			d.Sample = &journal.TuneSample{Setting: map[string]int{"servers": 4}, Pace: .9 - .2*float64(i), Default: .9, Expected: .1, Real: .05}
		}
		details, err := journal.Pack(d)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, journal.Entry{T: at, Kind: journal.Tune, From: "a", To: "b", Clock: int64(10 * i), Details: details})
		at = at.Add(10 * time.Minute)
	}
	r := storyReport(t, append(entries, last))
	html := render(t, r)
	for _, want := range []string{"Settings over time", "Pace of the settings", "Expected and real improvement", "reliable machines work 0, servers 9, workers 15",
		"2 settings were measured; a clock took 0.5 s by the last, 0.5 s by the best and 0.9 s by default", "<td>explore</td>", "0.050"} {
		if !strings.Contains(html, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for i, c := range []chart{settingsChart(r), paceChart(r), improvementChart(r)} {
		if want := []int{3, 2, 2}[i]; len(c.lines) != want {
			t.Errorf("%s: %d lines, want %d", c.title, len(c.lines), want)
		}
		for d := xml.NewDecoder(strings.NewReader(string(c.svg("x", "wide", 800, 300)))); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", c.title, err)
			}
		}
	}
}
