package console

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/watch/status"
)

// At any width a sweep's screen has its best trial with the settings, and a failed run's has the reason, the output and the losses.
func TestScreenOfPrograms(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2016, 4, 1, 0, 0, s, 0, time.UTC) }
	details, err := json.Marshal(journal.StartDetails{Name: "rates", Rules: "ec2-now", Clock: "2016-04-01T00:00:00Z@2026-04-01T00:00:00Z*60", App: "program",
		Machines: []journal.MachineType{{Name: "m", VCPU: 4, OnDemand: "0.4", FLOPS: 100}}, Want: journal.Want{Machines: 1}, Clocks: 3,
		Program: &journal.ProgramDetails{Tasks: 3, Of: 20, Sweep: true}})
	if err != nil {
		t.Fatal(err)
	}
	launched := at(0)
	of := func(task string) journal.OfProgram { return journal.OfProgram{Program: task} }
	failed := of("task-1")
	failed.Code = 9
	s := status.New()
	for _, e := range []journal.Entry{
		{T: at(0), Kind: journal.Start, Details: details},
		{T: at(0), Kind: journal.Price, Pool: "ec2/r/ra/m/spot", USD: "0.36", At: &launched},
		{T: at(0), Kind: journal.Launch, Instance: "a", Tier: "transient", Pool: "ec2/r/ra/m/spot", Bid: "1", Launched: &launched},
		{T: at(9), Kind: journal.ProgramStart, OfProgram: of("task-0"), Instance: "a", Generation: 1, Details: []byte(`{"settings":{"RATE":"0.1"}}`)},
		{T: at(20), Kind: journal.ProgramEnd, OfProgram: of("task-0"), Instance: "a", Generation: 1, Clock: 20, Outcome: journal.Finished, TrainLoss: journal.Loss(.125)},
		{T: at(20), Kind: journal.Use, Instance: "a", Seconds: 10, OfUse: journal.OfUse{CPU: 31, Memory: 1 << 30}},
		{T: at(20), Kind: journal.ProgramStart, OfProgram: of("task-1"), Instance: "a", Generation: 2, Details: []byte(`{"settings":{"RATE":"9"}}`)},
		{T: at(30), Kind: journal.ProgramEnd, OfProgram: failed, Instance: "a", Generation: 2, Outcome: journal.Failure, Why: "exit code 9", Log: "epoch 1\n\x1b[2Jout of \u202ememory"},
		{T: at(31), Kind: journal.Done, Outcome: journal.Failure, Why: "1 of 3 trials failed"},
	} {
		s.Feed(e)
	}
	for _, width := range []int{30, 50, 59, 60, 100} {
		var out bytes.Buffer
		if err := writeOnce(&out, s, width, false); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(out.String()), " ")
		for _, want := range []string{"rates sweep of 3 trials", "1 failed, 1 finished, 1 waiting", "best task-0 loss 0.125 at step 20", "RATE=0.1", "1 of 3 trials failed", "task-1, attempt 1, on a (m ra): exit code 9",
			`| \u001b[2Jout of`, "lost: 10 s of work: no state was saved", "replayed: no real money", "3.1 of 4 cores and 1.1 GB used"} {
			if !strings.Contains(text, want) {
				t.Errorf("%d cells: no %q in\n%s", width, want, &out)
			}
		}
		for line := range strings.Lines(out.String()) {
			if n := ansi.StringWidth(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d cells on a terminal of %d: %s", n, width, line)
			}
		}
		for _, bad := range []string{"stage", "reliable", "clock"} {
			if strings.Contains(strings.ToLower(text), bad) {
				t.Errorf("a sweep has %q in\n%s", bad, &out)
			}
		}
	}
}
