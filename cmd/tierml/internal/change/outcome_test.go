package change

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/watch/dashboard"
)

// People follow a change of numbers; programs get what it came to, once.
func TestStandingsInForms(t *testing.T) {
	for format, want := range map[string]string{
		table.Plain: "asked for  4 workers (6 wanted), 1 servers (as the stage has them), 1 reliable (1 wanted)\n" +
			"reached    6 workers (6 wanted), 1 servers (as the stage has them), 1 reliable (1 wanted)\n",
		table.JSON: `{"reached":true,"workers":6,"servers":1,"reliable":1,"wanted_machines":6,"wanted_reliable":1,"paused":false}`,
		table.CSV:  "reached,workers,servers,reliable,wanted_machines,wanted_vcpus,wanted_servers,wanted_reliable,paused\ntrue,6,1,1,6,0,0,1,false\n",
	} {
		var out bytes.Buffer
		said := standings{out: &out, format: format}
		said.show(call.Standing{Workers: 4, Servers: 1, Reliable: 1, WantedMachines: 6, WantedReliable: 1})
		said.show(call.Standing{Reached: true, Workers: 6, Servers: 1, Reliable: 1, WantedMachines: 6, WantedReliable: 1})
		if err := said.finish(); err != nil {
			t.Fatal(err)
		}
		if got := compacted(format, out.Bytes()); got != want {
			t.Errorf("-o %s:\n%s\nwant:\n%s", format, got, want)
		}
	}
	refused := standings{out: new(bytes.Buffer), format: table.JSON}
	if err := refused.finish(); err != nil || refused.out.(*bytes.Buffer).Len() > 0 {
		t.Errorf("of a change that was refused: %v, %q", err, refused.out)
	}
}

func TestEndingInForms(t *testing.T) {
	stopped := ending{Summary: dashboard.Summary{Run: "demo-1", State: "interrupted", Clock: 7, Clocks: 60, Spent: "1.25"}, Resumable: true}
	var out bytes.Buffer
	if err := stopped.say(&out, "runs/demo-1", table.JSON); err != nil {
		t.Fatal(err)
	}
	var back ending
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || !reflect.DeepEqual(back, stopped) || !strings.Contains(out.String(), `"ended_before": false`) {
		t.Errorf("%v, %s", err, &out)
	}
	out.Reset()
	if err := stopped.say(&out, "runs/demo-1", table.CSV); err != nil ||
		out.String() != "run,state,clock,clocks,spent,ended_before,resumable\ndemo-1,interrupted,7,60,1.25,false,true\n" {
		t.Errorf("%v, %s", err, &out)
	}
	out.Reset()
	if err := stopped.say(&out, "runs/demo-1", table.Plain); err != nil || !strings.HasPrefix(out.String(), "demo-1 has ended: interrupted at clock 7") ||
		!strings.Contains(out.String(), "tierml run --resume runs/demo-1") {
		t.Errorf("%v, %s", err, &out)
	}
	out.Reset()
	killed := ending{Summary: dashboard.Summary{Run: "demo-1", State: "killed"}, Before: true}
	if err := killed.say(&out, "runs/demo-1", table.JSON); cli.ExitCodeOf(err) != cli.ExitFailed || !strings.Contains(out.String(), `"state": "killed"`) {
		t.Errorf("%v, %s", err, &out)
	}
}

// compacted is JSON without its white space.
func compacted(format string, text []byte) string {
	var short bytes.Buffer
	if format == table.JSON && json.Compact(&short, text) == nil {
		return short.String()
	}
	return string(text)
}
