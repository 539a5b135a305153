package change

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/watch/dashboard"
)

// answering is a run that answers a change with these standings.
type answering struct {
	target.Runs
	standings []call.Standing
}

func (a answering) Scale(_ context.Context, _ string, _ call.Scale, told func(call.Standing)) error {
	for _, s := range a.standings {
		told(s)
	}
	return nil
}

// People follow a change of numbers; programs get only its result, once.
func TestStandingsInForms(t *testing.T) {
	for format, want := range map[string]string{
		table.Plain: "asked for  4 workers (6 wanted), 1 servers (as the stage has them), 1 reliable (1 wanted)\n" +
			"reached    6 workers (6 wanted), 1 servers (as the stage has them), 1 reliable (1 wanted)\n",
		table.JSON: `{"reached":true,"workers":6,"servers":1,"reliable":1,"wanted_machines":6,"wanted_reliable":1,"paused":false}`,
		table.CSV:  "reached,workers,servers,reliable,wanted_machines,wanted_vcpus,wanted_servers,wanted_reliable,paused\ntrue,6,1,1,6,0,0,1,false\n",
	} {
		var out bytes.Buffer
		run := answering{standings: []call.Standing{{Workers: 4, Servers: 1, Reliable: 1, WantedMachines: 6, WantedReliable: 1},
			{Reached: true, Workers: 6, Servers: 1, Reliable: 1, WantedMachines: 6, WantedReliable: 1}}}
		if err := scale(t.Context(), run, "demo-1", call.Scale{Workers: 2}, format, &out); err != nil {
			t.Fatal(err)
		}
		if got := compacted(format, out.Bytes()); got != want {
			t.Errorf("-o %s:\n%s\nwant:\n%s", format, got, want)
		}
	}
	var out bytes.Buffer
	if err := scale(t.Context(), answering{}, "demo-1", call.Scale{}, table.JSON, &out); err != nil || out.Len() > 0 {
		t.Errorf("of a change that was refused: %v, %q", err, &out)
	}
}

func TestEndingInForms(t *testing.T) {
	stopped := ending{Summary: dashboard.Summary{Run: "demo-1", State: "interrupted", Clock: 7, Clocks: 60, Spent: "1.25"}, Resumable: true}
	end := target.End{Name: "runs/demo-1", Job: call.Job{Summary: stopped.Summary}, Resumable: true}
	var out bytes.Buffer
	if err := writeEnd(end, table.JSON, &out); err != nil {
		t.Fatal(err)
	}
	var back ending
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || !reflect.DeepEqual(back, stopped) || !strings.Contains(out.String(), `"ended_before": false`) {
		t.Errorf("%v, %s", err, &out)
	}
	out.Reset()
	if err := writeEnd(end, table.CSV, &out); err != nil ||
		out.String() != "run,state,clock,clocks,spent,ended_before,resumable\ndemo-1,interrupted,7,60,1.25,false,true\n" {
		t.Errorf("%v, %s", err, &out)
	}
	out.Reset()
	if err := writeEnd(end, table.Plain, &out); err != nil || !strings.HasPrefix(out.String(), "demo-1 has ended: interrupted at clock 7") ||
		!strings.Contains(out.String(), "tierml run --resume runs/demo-1") {
		t.Errorf("%v, %s", err, &out)
	}
	out.Reset()
	killed := target.End{Name: "runs/demo-1", Job: call.Job{Summary: dashboard.Summary{Run: "demo-1", State: "killed"}}, Before: true}
	if err := writeEnd(killed, table.JSON, &out); cli.ExitCodeOf(err) != cli.ExitFailed || !strings.Contains(out.String(), `"state": "killed"`) {
		t.Errorf("%v, %s", err, &out)
	}
}

// compacted returns JSON without white space.
func compacted(format string, text []byte) string {
	var short bytes.Buffer
	if format == table.JSON && json.Compact(&short, text) == nil {
		return short.String()
	}
	return string(text)
}
