package cost_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// A program's machine is paid for setup, restoring, work, and lost work; work after the last saved state counts as lost only if the attempt
// did not end cleanly.
func TestProgramsSplitTheBill(t *testing.T) {
	begin := time.Date(2016, 4, 1, 0, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	const pool = "ec2/r/ra/m/spot"
	pack := func(v any) json.RawMessage {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var l cost.Ledger
	add := func(s int, e journal.Entry) {
		e.T = at(s)
		if err := l.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	of := journal.OfProgram{Program: "rank-0"}
	launch := func(s int, id string) {
		launched := at(s)
		add(s, journal.Entry{Kind: journal.Launch, Instance: id, Tier: "transient", Pool: pool, Bid: "1", Launched: &launched})
		add(s+60, journal.Entry{Kind: journal.Join, Instance: id})
	}
	end := func(s int, id string, kind journal.Kind, by market.EndedBy) {
		ended := at(s)
		add(s, journal.Entry{Kind: kind, Instance: id, Pool: pool, Ended: &ended, EndedBy: string(by)})
	}
	priced := at(0)
	add(0, journal.Entry{Kind: journal.Start, Details: pack(journal.StartDetails{Name: "own", Rules: "ec2-now", Clock: "2016-04-01T00:00:00Z@2016-04-01T00:00:00Z*1",
		Machines: []journal.MachineType{{Name: "m", VCPU: 4, OnDemand: "0.4", FLOPS: 100}}, Want: journal.Want{Machines: 1},
		Program: &journal.ProgramDetails{Of: 50, SaveEvery: 100}})})
	add(0, journal.Entry{Kind: journal.Price, Pool: pool, USD: "0.36", At: &priced})
	launch(0, "a")
	add(160, journal.Entry{Kind: journal.ProgramStart, OfProgram: of, Instance: "a", Generation: 1, Details: pack(journal.ProgramStartDetails{Fetch: 10, Setup: 80, Restore: 10})})
	add(400, journal.Entry{Kind: journal.ProgramSaved, OfProgram: of, Instance: "a", Generation: 1, Model: "m1", Clock: 20, Bytes: 99, Seconds: 2})
	add(460, journal.Entry{Kind: journal.ProgramEnd, OfProgram: of, Instance: "a", Generation: 1, Outcome: journal.Lost, Clock: 25})
	end(460, "a", journal.Failed, market.ByUser)
	launch(460, "b")
	add(620, journal.Entry{Kind: journal.ProgramStart, OfProgram: of, Instance: "b", Generation: 2, Clock: 20, Details: pack(journal.ProgramStartDetails{Setup: 80, Restore: 20})})
	add(1000, journal.Entry{Kind: journal.ProgramSaved, OfProgram: of, Instance: "b", Generation: 2, Model: "m2", Clock: 50, Bytes: 99, Seconds: 5})
	add(1000, journal.Entry{Kind: journal.ProgramEnd, OfProgram: of, OfUse: journal.OfUse{CPU: 187.5, Memory: 5 << 20}, Instance: "b", Generation: 2, Outcome: journal.Finished, Clock: 50})
	end(1010, "b", journal.Terminated, market.ByUser)
	add(1010, journal.Entry{Kind: journal.Done, Outcome: "finished"})
	r, err := l.Report(time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"saved work": 240 + 380, "redone work": 60, "start-up": 120, "setup": 160, "restore": 40, "flush": 0, "idle": 10, "beyond the end": 0, "free": 0}
	var paid market.USD
	for _, row := range r.Waste.Rows() {
		if row.Seconds != want[row.Name] {
			t.Errorf("%s: %v s, want %v", row.Name, row.Seconds, want[row.Name])
		}
		if row.Name != "free" {
			paid += row.USD
		}
	}
	if paid != r.Totals.Total || paid != 1010*market.Dollar/10000 {
		t.Errorf("the parts come to $%s, the bill is $%s", paid, r.Totals.Total)
	}
	if p := r.Programs; p == nil || p.Done != 1 || p.Step != 50 || p.Attempts != 2 || p.Lost != 1 || p.WorkEach != 61500 || p.State != 99 || p.Setup != 80 || p.Restore != 15 || p.Save != 3.5 {
		t.Errorf("%+v", r.Programs)
	}
	if p := r.Programs; p.Cores != .5 || p.Memory != 5<<20 || p.On != "m" || p.Wall != 615 { // of the second attempt's 375 s without the last save
		t.Errorf("%v cores, %d bytes, %v s on %s", p.Cores, p.Memory, p.Wall, p.On)
	}
	if r.Equivalent == nil || r.Equivalent.Work != 62000 {
		t.Errorf("%+v", r.Equivalent)
	}
}

// The resources that programs used are compared with their machines; the hint names the cheapest type that the job may use and that has
// enough.
func TestUseOfMachinesHasAHint(t *testing.T) {
	begin := time.Date(2016, 4, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		cpu    float64
		wait   float64
		memory int64
		want   string
	}{
		"idle":             {90, 0, 1 << 30, "a small would do"},
		"busy":             {1500, 0, 1 << 30, ""},
		"its threads wait": {700, 800, 1 << 30, ""},
		"memory":           {90, 0, 12 << 30, ""},
		"in-between":       {350, 0, 1 << 30, "most of it was idle"},
	} {
		details, err := json.Marshal(journal.StartDetails{Name: "own", Rules: "ec2-now", Clock: "2016-04-01T00:00:00Z@2016-04-01T00:00:00Z*1", Machines: []journal.MachineType{
			{Name: "large", VCPU: 16, MemoryMiB: 16384, OnDemand: "0.8", FLOPS: 100}, {Name: "small", VCPU: 2, MemoryMiB: 4096, OnDemand: "0.1", FLOPS: 100},
			{Name: "tiny", VCPU: 1, MemoryMiB: 512, OnDemand: "0.02", FLOPS: 100}}, Want: journal.Want{Machines: 1}, Program: &journal.ProgramDetails{}})
		if err != nil {
			t.Fatal(err)
		}
		of := journal.OfProgram{Program: "rank-0"}
		ended := journal.OfUse{CPU: c.cpu, Wait: c.wait, Memory: c.memory}
		var l cost.Ledger
		for _, e := range []journal.Entry{
			{T: begin, Kind: journal.Start, Details: details},
			{T: begin, Kind: journal.Launch, Instance: "a", Tier: "transient", Pool: "ec2/r/ra/large/on-demand", Bid: "0", Launched: &begin},
			{T: begin, Kind: journal.ProgramStart, OfProgram: of, Instance: "a", Generation: 1},
			{T: begin.Add(100 * time.Second), Kind: journal.ProgramEnd, OfProgram: of, OfUse: ended, Instance: "a", Generation: 1, Outcome: journal.Finished},
		} {
			if err := l.Add(e); err != nil {
				t.Fatal(err)
			}
			if e.Kind == journal.ProgramStart && l.Use() != nil {
				t.Error("a use is known before an attempt has ended")
			}
		}
		if u := l.Use(); u.Hint() != c.want || u.Cores != c.cpu/100 || u.VCPU != 16 || u.Memory != c.memory || u.Of != 16<<30 {
			t.Errorf("%s: %+v: %q, not %q", name, u, u.Hint(), c.want)
		}
	}
}
