package watch

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/watch/dashboard"
)

// The table of runs has a column of groups if a run has one; programs always get it.
func TestGroupsOfRuns(t *testing.T) {
	shown := func(format string, rows ...call.Job) string {
		t.Helper()
		var out bytes.Buffer
		if err := writePs(&out, rows, format); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	none, one := call.Job{Summary: dashboard.Summary{Run: "a-1"}}, call.Job{Summary: dashboard.Summary{Run: "b-1", Group: "vision"}}
	if text := shown(table.Plain, none); strings.Contains(text, "GROUP") {
		t.Error(text)
	}
	if text := shown(table.Plain, none, one); !strings.Contains(text, "GROUP") || !strings.Contains(text, "vision") {
		t.Error(text)
	}
	if text := shown(table.CSV, none, one); !strings.Contains(text, ",group,") || !strings.Contains(text, ",vision,") {
		t.Error(text)
	}
	if text := shown(table.JSON, one); !strings.Contains(text, `"group": "vision"`) {
		t.Error(text)
	}
}

// A run that has just begun shows no time, not the year 1.
func TestTimesNotKnown(t *testing.T) {
	for _, format := range []string{table.Wide, table.CSV, table.Plain} {
		var out bytes.Buffer
		if err := writePs(&out, []call.Job{{Summary: dashboard.Summary{Run: "a-1"}}}, format); err != nil || strings.Contains(out.String(), "0001") {
			t.Errorf("%s: %v %s", format, err, &out)
		}
	}
}

// Programs have no clocks, stages or test losses, and lists with programs do not mention these.
func TestListOfProgramsHasTheirWords(t *testing.T) {
	loss := .5
	var out bytes.Buffer
	if err := writePs(&out, []call.Job{{Summary: dashboard.Summary{Run: "own-1", Kind: journal.Gang, Unit: "step", Clock: 7, Clocks: 40, Train: &loss}}}, table.Plain); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "7/40 steps") || !strings.Contains(text, "0.5000") || strings.Contains(text, "CLOCK") || strings.Contains(text, "STAGE") || strings.Contains(text, "TEST") {
		t.Error(text)
	}
}
