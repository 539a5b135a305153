package cost_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal"
)

// A failure names what ended and where, the end of its output, and the work since its last save.
func TestFailureHasItsReason(t *testing.T) {
	begin := time.Date(2016, 4, 1, 0, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	details, err := json.Marshal(journal.StartDetails{Name: "own", Rules: "ec2-now", Clock: "2016-04-01T00:00:00Z@2016-04-01T00:00:00Z*1",
		Machines: []journal.MachineType{{Name: "m", VCPU: 4, OnDemand: "0.4", FLOPS: 100}}, Want: journal.Want{Machines: 2}, Program: &journal.ProgramDetails{Of: 50}})
	if err != nil {
		t.Fatal(err)
	}
	rank := func(name string) journal.OfProgram { return journal.OfProgram{Program: name} }
	failed := rank("rank-1")
	failed.Code = 7
	launched := at(0)
	var l cost.Ledger
	for _, e := range []journal.Entry{
		{T: at(0), Kind: journal.Start, Details: details},
		{T: at(0), Kind: journal.Price, Pool: "ec2/r/ra/m/spot", USD: "0.36", At: &launched},
		{T: at(0), Kind: journal.Launch, Instance: "a", Tier: "transient", Pool: "ec2/r/ra/m/spot", Bid: "1", Launched: &launched},
		{T: at(10), Kind: journal.Join, Instance: "a"},
		{T: at(10), Kind: journal.ProgramStart, OfProgram: rank("rank-0"), Instance: "a", Generation: 1},
		{T: at(10), Kind: journal.ProgramStart, OfProgram: rank("rank-1"), Instance: "a", Generation: 1},
		{T: at(60), Kind: journal.ProgramStep, OfProgram: rank("rank-1"), Generation: 1, Clock: 5, TrainLoss: journal.Loss(.5)},
		{T: at(100), Kind: journal.ProgramSaved, OfProgram: rank("rank-1"), Instance: "a", Generation: 1, Model: "m", Clock: 8, Bytes: 9},
		{T: at(160), Kind: journal.ProgramStep, OfProgram: rank("rank-1"), Generation: 1, Clock: 12, TrainLoss: journal.Loss(.25)},
		{T: at(200), Kind: journal.ProgramEnd, OfProgram: failed, Instance: "a", Generation: 1, Clock: 12, Outcome: journal.Failure, Why: "rank-1 ended with exit code 7", Log: strings.Repeat("more\n", 30) + "out of memory"},
		{T: at(200), Kind: journal.ProgramEnd, OfProgram: rank("rank-0"), Instance: "a", Generation: 1, Outcome: journal.Lost, Why: journal.FailedElsewhere},
	} {
		if err := l.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	f := l.Failure(at(210))
	if f == nil || f.Member.Name != "rank-1" || f.Member.Code != 7 || f.Member.Machine != "a" || f.Others != 0 {
		t.Fatalf("%+v", f)
	}
	if f.Why != "rank-1 ended with exit code 7" || strings.Count(f.Output, "\n") != 19 || !strings.HasSuffix(f.Output, "out of memory") || f.Lost != "100 s of work since its state was saved at step 8." {
		t.Errorf("%+v", f)
	}
	r, err := l.Report(at(210))
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Series.Loss; len(s) != 2 || s[1].Clock != 12 || *s[1].Train != .25 || s[1].USD <= s[0].USD {
		t.Errorf("losses %+v", s)
	}
	var text strings.Builder
	if err := r.WriteText(&text, 0); err != nil || !strings.Contains(text.String(), "  rank-1, attempt 1, on a (m ra): exit code 7\n") {
		t.Errorf("%v in\n%s", err, text.String())
	}
	// A program that continues and ends well has no failure.
	for _, e := range []journal.Entry{
		{T: at(220), Kind: journal.ProgramStart, OfProgram: rank("rank-1"), Instance: "a", Generation: 2},
		{T: at(300), Kind: journal.ProgramEnd, OfProgram: rank("rank-1"), Instance: "a", Generation: 2, Outcome: journal.Finished},
	} {
		if err := l.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if f := l.Failure(at(310)); f != nil {
		t.Errorf("it has ended well: %+v", f)
	}
}
