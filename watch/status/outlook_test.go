package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/market"
)

// Before the first clock the plan is the outlook. After half of the clocks, at ten minutes each, the same time remains, at the machines'
// current cost.
func TestOutlook(t *testing.T) {
	s := New()
	for _, e := range journaltest.New(1).Entries {
		if e.Kind == journal.ClockDone {
			break
		}
		s.Feed(e)
	}
	if o, ok := s.Outlook(s.Now); !ok || !o.ByPlan || o.Total != 9*market.Dollar {
		t.Errorf("before anything is done the outlook is not the plan's: %v, %+v", ok, o)
	}
	half, at := s.Start.Clocks/2, s.Now
	for clock := range half {
		at = at.Add(10 * time.Minute)
		s.Feed(journal.Entry{T: at, Kind: journal.ClockDone, Clock: clock + 1})
	}
	o, ok := s.Outlook(at)
	want := time.Duration(s.Start.Clocks-half) * 10 * time.Minute
	if !ok || math.Abs(o.Left.Hours()-want.Hours()) > 0.01*want.Hours() {
		t.Errorf("%s left, not %s", o.Left, want)
	}
	spent, _ := s.Spent(at)
	rate := float64(s.Ledger.Rate(at))
	if math.Abs(float64(o.Total-spent)-rate*o.Left.Hours()) > 1e3 || rate == 0 {
		t.Errorf("%s at the end: %s now and %.3f an hour", o.Total.Cents(), spent.Cents(), rate/1e9)
	}
	if d, err := plan(journaltest.New(1).Entries); err == nil && o.PlannedUSD != d.Cost {
		t.Errorf("the plan was %+v, not %+v", d.Cost, o.PlannedUSD)
	}
	s.Feed(journal.Entry{T: at, Kind: journal.Done, Outcome: "finished"})
	if _, ok := s.Outlook(at); ok {
		t.Error("a run that has ended has an outlook")
	}
}

func plan(entries []journal.Entry) (d journal.PlanDetails, err error) {
	for _, e := range entries {
		if e.Kind == journal.Plan {
			return e.PlanDetails()
		}
	}
	return d, errors.New("there is no plan")
}

// The list of remembered clocks stays short, and spans the whole run.
func TestMarks(t *testing.T) {
	var m marks
	began := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	for clock := range int64(100_000) {
		m.add(clock+1, began.Add(time.Duration(clock+1)*time.Second))
	}
	if len(m.at) > keepMarks || len(m.at) < keepMarks/4 {
		t.Errorf("%d marks", len(m.at))
	}
	if got := m.perClock(began.Add(100_000 * time.Second)); got < 990*time.Millisecond || got > 1010*time.Millisecond {
		t.Errorf("%s a clock, not a second", got)
	}
}

// When all clocks are done the remaining time is zero, not unknown.
func TestNoTimeLeft(t *testing.T) {
	if got := (Outlook{}).Time(); got.Left != "0 s" || got.Market != "" || got.Range != "" {
		t.Errorf("%+v", got)
	}
}

// On a replayed market the time that a person waits comes first.
func TestTimeLeftByTwoClocks(t *testing.T) {
	o := Outlook{Left: 9 * time.Hour, LeftLow: 8 * time.Hour, LeftHigh: 10 * time.Hour, Speed: 600}
	if got := o.Time(); got.String() != "54 s (9.0 h of the market)" || got.Range != "48 s to 60 s" {
		t.Errorf("%+v", got)
	}
}

// The range of the remaining time holds nine of ten results if clocks vary as before, and narrows as fewer remain.
func TestOutlookHasARange(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	began := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	held, tries := 0, 1000
	for range tries {
		var m marks
		at := began
		clock := func() time.Duration { return time.Duration((.5 + chance.Float64()) * float64(time.Minute)) }
		m.add(0, at)
		for i := range int64(50) {
			at = at.Add(clock())
			m.add(i+1, at)
		}
		var rest time.Duration
		for range 50 {
			rest += clock()
		}
		by, known := m.spread(50)
		if off := (rest - at.Sub(began)).Abs(); known && off <= by {
			held++
		}
		if less, _ := m.spread(5); less >= by {
			t.Fatalf("%s for 5 clocks, %s for 50", less, by)
		}
	}
	if share := float64(held) / float64(tries); share < .85 || share > .95 {
		t.Errorf("%.2f of the ranges held", share)
	}
}

// A program that reports no steps has its plan's remaining time and cost, until that time has passed.
func TestOutlookOfAProgramWithoutSteps(t *testing.T) {
	s := New()
	at := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	pack := func(d any) json.RawMessage {
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	s.Feed(journal.Entry{T: at, Kind: journal.Start, Details: pack(journal.StartDetails{Name: "own", Rules: "ec2-now", Clock: clock.Real().String(), Program: &journal.ProgramDetails{},
		Machines: []journal.MachineType{{Name: "m", VCPU: 4, OnDemand: "0.4", FLOPS: 100}}, Want: journal.Want{Machines: 1}})})
	s.Feed(journal.Entry{T: at, Kind: journal.Plan, Details: pack(journal.PlanDetails{Runtime: journal.Estimate{Low: 3000, Mid: 3600, High: 4000}, Cost: journal.Estimate{Low: .3, Mid: .4, High: .5}})})
	o, ok := s.Outlook(at.Add(40 * time.Minute))
	if got := o.Time(); !ok || got.Left != "20 min" || got.Range != "10 min to 27 min" || got.Basis == "at the pace so far" {
		t.Errorf("%v: %+v", ok, got)
	}
	if got := o.Cost(); got != "about $0.40 at the end, $0.30 to $0.50" { // though no machine is there yet
		t.Errorf("it costs %s", got)
	}
	if _, ok := s.Outlook(at.Add(2 * time.Hour)); ok {
		t.Error("it takes longer than planned, and still has an outlook")
	}
}

// Machines finish tasks in batches: the time left is that of the tasks that remain, however short the time between two ends was.
func TestOutlookOfTasks(t *testing.T) {
	s := New()
	began := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	details, err := json.Marshal(journal.StartDetails{Name: "own", Rules: "ec2-now", Clock: clock.Real().String(), Clocks: 8, Program: &journal.ProgramDetails{Tasks: 8},
		Machines: []journal.MachineType{{Name: "m", VCPU: 4, OnDemand: "0.4", FLOPS: 100}}, Want: journal.Want{Machines: 3}})
	if err != nil {
		t.Fatal(err)
	}
	s.Feed(journal.Entry{T: began, Kind: journal.Start, Details: details})
	task := func(kind journal.Kind, n, second int) {
		e := journal.Entry{T: began.Add(time.Duration(second) * time.Second), Kind: kind, OfProgram: journal.OfProgram{Program: fmt.Sprintf("task-%d", n)}}
		if kind == journal.ProgramEnd {
			e.Outcome = journal.Finished
		}
		s.Feed(e)
	}
	for n := range 3 {
		task(journal.ProgramStart, n, 0)
	}
	for n := range 3 {
		task(journal.ProgramEnd, n, 300+n)
		task(journal.ProgramStart, 3+n, 300+n)
	}
	for _, c := range []struct{ second, low, high int }{{303, 490, 600}, {450, 340, 450}, {590, 200, 320}} { // two more batches, of which the last one is not full
		o, ok := s.Outlook(began.Add(time.Duration(c.second) * time.Second))
		if left := int(o.Left.Seconds()); !ok || left < c.low || left > c.high {
			t.Errorf("%d s after the start, %d s are left, not %d to %d (%v)", c.second, left, c.low, c.high, ok)
		}
	}
}
