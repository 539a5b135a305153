package calibration

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/sim"
)

const spot = "ec2/r/z/c3.xlarge/spot"

// run returns a journal at speed 10 whose clocks of 100 ms of work take 130 ms; the sixth takes half a second more.
func run() []journal.Entry {
	t := time.Date(2014, 4, 12, 0, 0, 0, 0, time.UTC)
	details, _ := json.Marshal(journal.StartDetails{
		Name: "x", Machines: []journal.MachineType{{Name: "c3.xlarge", FLOPS: 1000}},
		Job: json.RawMessage(`{"local": {"boot": "1s", "notice": "4s", "speed": 10}}`),
	})
	launched, ready := t, t.Add(12*time.Second)
	out := []journal.Entry{
		{T: t, Kind: journal.Start, Details: details},
		{T: t, Kind: journal.Launch, Instance: "a", Tier: "transient", Pool: spot, Launched: &launched},
		{T: ready, Kind: journal.Ready, Instance: "a", Tier: "transient", Pool: spot},
		{T: ready, Kind: journal.Join, Instance: "a", Tier: "transient", Pool: spot},
	}
	at := ready
	for i := range 40 {
		at = at.Add(1300 * time.Millisecond)
		if i == 5 {
			at = at.Add(5 * time.Second)
		}
		out = append(out, journal.Entry{T: at, Kind: journal.ClockDone, Work: 100})
	}
	deadline := at.Add(38 * time.Second) // 4 s of notice are 40 s: it came 200 ms late
	return append(out, journal.Entry{T: at, Kind: journal.Notice, Instance: "a", Pool: spot, Deadline: &deadline})
}

// A run of programs has no clocks: everything else is measured.
func TestMeasurePrograms(t *testing.T) {
	entries := run()
	entries[0].Details, _ = json.Marshal(journal.StartDetails{Name: "own", Program: &journal.ProgramDetails{},
		Job: json.RawMessage(`{"local": {"boot": "1s", "notice": "4s", "speed": 10}}`)})
	entries = append(entries[:4:4], entries[len(entries)-1])
	c, err := Measure(entries)
	if err != nil || math.Abs(c.Start-200) > 1e-6 || math.Abs(c.NoticeLag-200) > 1e-6 || c.Clock != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	if text := c.Words(); strings.Contains(text, "clock") || !strings.HasPrefix(text, "own: start of a machine after its boot: 200 ms") || !strings.Contains(text, "ends not measured") {
		t.Error(text)
	}
	before, err := Measure(run())
	if err != nil {
		t.Fatal(err)
	}
	if before.PriceLag = 7; c.Over(before).Clock != before.Clock || c.Over(before).PriceLag != 7 || c.Over(before).Run != "own" {
		t.Errorf("over %+v: %+v", before, c.Over(before))
	}
}

func TestMeasure(t *testing.T) {
	c, err := Measure(run())
	if err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	near("clock", c.Clock, (38*30.0+530)/39)
	near("machines", c.Machines, 1)
	near("start", c.Start, 200)
	near("notice", c.NoticeLag, 200)
	if c.Clocks != 39 { // not the first, which began earlier
		t.Errorf("%d clocks were measured", c.Clocks)
	}
	path := filepath.Join(t.TempDir(), "calibration.json")
	if err := c.Save(path); err != nil {
		t.Fatal(err)
	}
	if back, err := Load(path); err != nil || back != c {
		t.Errorf("kept %+v, read %+v, %v", c, back, err)
	}
	timing := sim.Config{}.At(tempo.Place{Speed: 10, Notice: 4 * time.Second, Boot: time.Second}).Timing
	ends := timing.EndLag
	c.Apply(&timing)
	if math.Abs(float64(timing.Clock)/1e7-c.Clock) > 0.001 || timing.EndLag != ends {
		t.Errorf("applied: a clock %s, ends %s", timing.Clock, timing.EndLag)
	}
	if _, err := Measure(run()[:10]); err == nil {
		t.Error("a run of 6 clocks was measured")
	}
}

// Clocks faster than their declared work reveal nothing about the overhead of a clock.
func TestClocksBelowTheirWork(t *testing.T) {
	entries := run()
	for i := range entries {
		entries[i].Work *= 5.5 // 550 ms of work in 130
	}
	c, err := Measure(entries)
	if err != nil {
		t.Fatal(err)
	}
	if c.Clock != 0 || c.Clocks != 39 || !strings.Contains(c.Note, "took 407.2 ms less than their work") || !strings.Contains(c.Words(), "the shipped figure stays (39 clocks)") {
		t.Errorf("measured %+v: %s", c, c.Words())
	}
	timing := sim.Config{}.At(tempo.Place{Speed: 10, Notice: 4 * time.Second, Boot: time.Second}).Timing
	shipped := timing.Clock
	if c.Apply(&timing); timing.Clock != shipped {
		t.Errorf("a clock takes %s beside its work; want the shipped %s", timing.Clock, shipped)
	}
	if c, err := Measure(run()); err != nil || c.Note != "" || !strings.Contains(c.Words(), "a clock takes 42.8 ms beside its work (39 clocks)") {
		t.Errorf("%s, %v", c.Words(), err)
	}
}
