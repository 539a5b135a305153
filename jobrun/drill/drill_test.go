package drill

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
)

// speed: a wall-clock second is ten minutes of the market.
const speed = 600

var began = time.Date(2014, 5, 1, 0, 0, 0, 0, time.UTC)

// at returns the market time this many wall-clock seconds after the beginning.
func at(seconds float64) time.Time {
	return began.Add(time.Duration(seconds * speed * float64(time.Second)))
}

// training returns a run in stage 2 with four transient machines and a clock every 0.2 s until 2 s.
func training(t *testing.T) *Watch {
	t.Helper()
	w := New()
	details, err := journal.Pack(journal.StartDetails{Clock: clock.Mapping{Market: began, Wall: time.Unix(1000, 0), Speed: speed}.String()})
	if err != nil {
		t.Fatal(err)
	}
	w.Feed(journal.Entry{T: began, Kind: journal.Start, Details: details})
	for i, pool := range []string{journaltest.ReliablePool, journaltest.FirstPool, journaltest.FirstPool, journaltest.BetterPool, journaltest.BetterPool} {
		id, tier := fmt.Sprintf("i-%d", i), "transient"
		if i == 0 {
			tier = "reliable"
		}
		launched := at(float64(i) / 100)
		w.Feed(journal.Entry{T: launched, Kind: journal.Launch, Instance: id, Tier: tier, Pool: pool, Launched: &launched})
		w.Feed(journal.Entry{T: launched, Kind: journal.Join, Instance: id})
	}
	w.Feed(journal.Entry{T: at(0.1), Kind: journal.Stage, From: "1", To: "2"})
	w.Feed(journal.Entry{T: at(0.1), Kind: journal.Move, From: "i-0", To: "i-1", Count: 16})
	w.Feed(journal.Entry{T: at(0.1), Kind: journal.Move, From: "i-0", To: "i-2", Count: 16})
	for c := range 10 {
		w.Feed(journal.Entry{T: at(0.2 * float64(c+1)), Kind: journal.ClockDone, Clock: int64(c + 1)})
	}
	return w
}

func ids(machines []Machine) (all []string) {
	for _, m := range machines {
		all = append(all, m.ID)
	}
	return all
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		choice Aim
		want   []string
		fault  string
	}{
		{choice: Aim{}, want: []string{"i-1"}},
		{choice: Aim{Which: "newest", Count: 2}, want: []string{"i-3", "i-4"}},
		{choice: Aim{Which: "all"}, want: []string{"i-1", "i-2", "i-3", "i-4"}},
		{choice: Aim{Which: "all", Of: "c3.2xlarge"}, want: []string{"i-3", "i-4"}},
		{choice: Aim{Which: "oldest", Count: 9, Of: "us-west-1a/c3.xlarge"}, want: []string{"i-1", "i-2"}},
		{choice: Aim{Servers: "all"}, want: []string{"i-1", "i-2"}},
		{choice: Aim{Servers: "half"}, want: []string{"i-1"}},
		{choice: Aim{IDs: []string{"i-0", "i-4"}}, want: []string{"i-0", "i-4"}},
		{choice: Aim{IDs: []string{"i-"}}, fault: `5 machines that take part are called "i-"`},
		{choice: Aim{IDs: []string{"x"}}, fault: "there are i-0, i-1"},
		{choice: Aim{Of: "us-east-1a"}, fault: "no transient machine of us-east-1a"},
		{choice: Aim{Which: "best"}, fault: `"best" does not exist`},
	} {
		got, err := training(t).Choose(c.choice, 1)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%+v: error %v, want %q", c.choice, err, c.fault)
			}
			continue
		}
		if err != nil || !slices.Equal(ids(got), c.want) {
			t.Errorf("%+v means %v, %v; want %v", c.choice, ids(got), err, c.want)
		}
	}
	if got, err := training(t).Choose(Aim{Which: "random", Count: 2}, 7); err != nil || len(got) != 2 {
		t.Errorf("random: %v, %v", ids(got), err)
	}
	w := training(t)
	w.Feed(journal.Entry{T: at(3), Kind: journal.Stage, From: "2", To: "1"})
	if _, err := w.Choose(Aim{Servers: "half"}, 1); err == nil || !strings.Contains(err.Error(), "no ActivePSs: training is in stage 1") {
		t.Errorf("in stage 1: %v", err)
	}
}

// A server is killed: two clocks are repeated, and training continues when a later clock is done.
func TestKill(t *testing.T) {
	w := training(t)
	targets, err := w.Choose(Aim{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	w.Begin(Kill, targets, at(2.1))
	w.Feed(journal.Entry{T: at(2.2), Kind: journal.ClockDone, Clock: 11}) // before it is noticed
	if w.Settled() {
		t.Error("settled before the machine is gone")
	}
	w.Feed(journal.Entry{T: at(3), Kind: journal.Failed, Instance: "i-1"})
	w.Feed(journal.Entry{T: at(3.1), Kind: journal.Move, Count: 4})
	w.Feed(journal.Entry{T: at(3.2), Kind: journal.Rollback, Clock: 9, LostClocks: 2})
	w.Feed(journal.Entry{T: at(4.4), Kind: journal.ClockDone, Clock: 10, Redone: true})
	w.Feed(journal.Entry{T: at(4.6), Kind: journal.ClockDone, Clock: 11, Redone: true})
	if w.Settled() {
		t.Error("settled while clocks are done again")
	}
	w.Feed(journal.Entry{T: at(4.8), Kind: journal.ClockDone, Clock: 12})
	r := w.Report()
	if !w.Settled() || !r.WentOn || r.Gone != 1 || r.Lost != 2 || r.Rollback != 1 || r.Moved != 4 {
		t.Errorf("report %+v", r)
	}
	near := func(a, b float64) bool { return a > b-0.001 && a < b+0.001 }
	if !near(r.Longest, 2.2) || !near(r.Usual, 0.2) || !near(r.Still, 2) || !near(r.Until, 2.7) {
		t.Errorf("longest %v, usual %v, still %v, until %v", r.Longest, r.Usual, r.Still, r.Until)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"kill of 1 machine, at 2014-05-01 00:21:00", "2.00 s: the longest time between two clocks was 2.20 s, normally 0.20 s",
		"2 clocks repeated, after 1 roll-back", "4 partitions"} {
		if !strings.Contains(text.String(), words) {
			t.Errorf("%q is not in\n%s", words, &text)
		}
	}
}

// All partitions move: the time is known with the clock in which the move ended.
func TestMove(t *testing.T) {
	w := training(t)
	w.Begin(Move, nil, at(2.1))
	w.Feed(journal.Entry{T: at(2.2), Kind: journal.ClockDone, Clock: 11})
	w.Feed(journal.Entry{T: at(2.25), Kind: journal.Move, From: "i-1", To: "i-2", Count: 32})
	w.Feed(journal.Entry{T: at(2.42), Kind: journal.ClockDone, Clock: 12})
	if w.Settled() {
		t.Error("settled before the moves are over")
	}
	details, err := journal.Pack(journal.MovedDetails{Waited: 0.04, Longest: 0.002})
	if err != nil {
		t.Fatal(err)
	}
	w.Feed(journal.Entry{T: at(2.5), Kind: journal.Moved, Count: 32, Bytes: 4e6, Seconds: 0.4, Details: details})
	w.Feed(journal.Entry{T: at(2.64), Kind: journal.ClockDone, Clock: 13})
	w.Feed(journal.Entry{T: at(3.64), Kind: journal.ClockDone, Clock: 14}) // unrelated to it
	r := w.Report()
	if !w.Settled() || !r.WentOn || r.Lost != 0 || r.Moves.Partitions != 32 || r.Moves.Bytes != 4e6 || r.Moves.Longest != 0.002 {
		t.Errorf("report %+v", r)
	}
	if m := r.Moves; m.Added < 0.0399 || m.Added > 0.0401 || m.Hidden < 0.899 || m.Hidden > 0.901 {
		t.Errorf("%.4f s added, %.3f hidden", m.Added, m.Hidden)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "32 partitions, 4.0 MB in 0.400 s, 90.0 % of that time hidden") {
		t.Errorf("%v:\n%s", err, &text)
	}
}

// A rebalance recommendation takes no machine.
func TestRebalance(t *testing.T) {
	w := training(t)
	targets, _ := w.Choose(Aim{}, 1)
	w.Begin(Rebalance, targets, at(2.1))
	w.Feed(journal.Entry{T: at(2.2), Kind: journal.ClockDone, Clock: 11})
	if r := w.Report(); !w.Settled() || r.Still != 0 || r.Gone != 0 {
		t.Errorf("report %+v", r)
	}
}

// A run that ends meanwhile is no reason to wait.
func TestEnd(t *testing.T) {
	w := training(t)
	targets, _ := w.Choose(Aim{Which: "all"}, 1)
	w.Begin(EvictNow, targets, at(2.1))
	w.Feed(journal.Entry{T: at(2.2), Kind: journal.Evicted, Instance: "i-1"})
	w.Feed(journal.Entry{T: at(2.3), Kind: journal.Terminated, Instance: "i-0"})
	w.Feed(journal.Entry{T: at(2.4), Kind: journal.Done, Outcome: "interrupted"})
	r := w.Report()
	if !w.Settled() || r.WentOn || r.Gone != 1 || r.Others != 1 {
		t.Errorf("report %+v", r)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "has NOT continued") {
		t.Errorf("%v:\n%s", err, &text)
	}
}

// The story of a whole run can be read from any point.
func TestStory(t *testing.T) {
	w := New()
	for i, e := range journaltest.New(3).Entries {
		if w.Feed(e); i == 60 {
			if machines, err := w.Choose(Aim{}, 1); err == nil {
				w.Begin(Kill, machines, e.T)
			}
		}
	}
	if !w.Finished() {
		t.Error("the story has no end")
	}
}
