package cost_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/market"
)

const (
	spot     = "ec2/us-west-1/us-west-1a/c3.xlarge/spot"
	onDemand = "ec2/us-west-1/us-west-1a/c3.xlarge/on-demand"
)

var noon = time.Date(2014, 5, 1, 12, 0, 0, 0, time.UTC)

// at is minutes after noon.
func at(minutes float64) time.Time {
	return noon.Add(time.Duration(minutes * float64(time.Minute)))
}

// small returns the first lines of a journal: one machine type of 1e6 operations per wall-clock second, a market at 60 times real time, and
// a spot price of $0.1 that is $0.4 from 13:30 on.
func small(t *testing.T, rules string) []journal.Entry {
	t.Helper()
	details, err := journal.Pack(journal.StartDetails{
		ZoneIDs: map[string]string{"us-west-1a": "usw1-az3"},
		Version: "test", Name: "small", Rules: rules, Clock: "2014-05-01T12:00:00Z@2026-01-01T00:00:00Z*60", App: "mf",
		Machines: []journal.MachineType{{Name: "c3.xlarge", VCPU: 4, OnDemand: "0.24", FLOPS: 1e6}},
		Reliable: journal.Fleet{Pool: onDemand, Count: 1}, Want: journal.Want{Machines: 2}, ClocksPerEpoch: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	before, later := at(-30), at(90)
	return []journal.Entry{
		{T: at(0), Kind: journal.Start, Details: details},
		{T: at(0), Kind: journal.Price, Pool: spot, USD: "0.1", At: &before},
		{T: at(90), Kind: journal.Price, Pool: spot, USD: "0.4", At: &later},
	}
}

func launch(id, pool, bid string, minutes float64) journal.Entry {
	t := at(minutes)
	tier := "transient"
	if bid == "" {
		tier = "reliable"
	}
	return journal.Entry{T: t, Kind: journal.Launch, Instance: id, Tier: tier, Pool: pool, Bid: bid, Launched: &t, Token: "t"}
}

func on(kind journal.Kind, id string, minutes float64) journal.Entry {
	return journal.Entry{T: at(minutes), Kind: kind, Instance: id, Pool: spot}
}

func end(kind journal.Kind, id string, minutes float64, by string) journal.Entry {
	e := on(kind, id, minutes)
	t := at(minutes)
	e.Ended, e.EndedBy = &t, by
	return e
}

func notice(id string, minutes, deadline float64) journal.Entry {
	e := on(journal.Notice, id, minutes)
	t := at(deadline)
	e.Deadline = &t
	return e
}

// clock returns a clock of 60 wall-clock seconds (one market hour) and 9e8 operations.
func clock(n int64, minutes, wallSeconds, test float64) journal.Entry {
	return journal.Entry{T: at(minutes), Kind: journal.ClockDone, Clock: n, Seconds: wallSeconds, Work: 9e8, TestLoss: &test}
}

func feed(t *testing.T, entries ...journal.Entry) *cost.Ledger {
	t.Helper()
	slices.SortStableFunc(entries, func(a, b journal.Entry) int { return a.T.Compare(b.T) })
	l := new(cost.Ledger)
	for _, e := range entries {
		if err := l.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func report(t *testing.T, l *cost.Ledger) *cost.Report {
	t.Helper()
	r, err := l.Report(time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func usd(s string) market.USD {
	u, err := market.ParseUSD(s)
	if err != nil {
		panic(err)
	}
	return u
}

// A run small enough to compute by hand: whole hours, the interrupted one free.
func TestReportByHand(t *testing.T) {
	entries := append(small(t, "ec2-2017"),
		launch("r", onDemand, "", 0), launch("a", spot, "0.3", 0), launch("b", spot, "0.3", 0),
		on(journal.Join, "r", 0), on(journal.Join, "a", 10), on(journal.Join, "b", 10),
		clock(1, 30, 20, 5), clock(2, 60, 30, 4),
		notice("a", 90, 96), on(journal.Leave, "a", 94), end(journal.Evicted, "a", 96, "provider"),
		on(journal.Failed, "b", 100), end(journal.Terminated, "b", 110, "user"),
		journal.Entry{T: at(100), Kind: journal.Rollback, Clock: 1, LostClocks: 1, Generation: 2},
		clock(2, 115, 15, 4.1), clock(3, 120, 5, 3),
		on(journal.Leave, "r", 120), end(journal.Terminated, "r", 120, "user"),
		journal.Entry{T: at(120), Kind: journal.Done, Outcome: "finished", Clock: 3},
	)
	r := report(t, feed(t, entries...))
	var text strings.Builder
	if err := r.WriteSummary(&text, 0); err != nil || !strings.Contains(text.String(), "Zones by their ids: us-west-1a is usw1-az3\n") {
		t.Errorf("the zone's id is not in the text: %v\n%s", err, &text)
	}

	want := cost.Totals{
		// r: 2 h x 0.24. a: its first hour, the second is free. b: two begun hours at 0.1 (the price at 13:00).
		Total: usd("0.78"), OnDemand: usd("0.48"), Spot: usd("0.3"),
		// 3 clocks of 9e8 operations at 1e6 per wall-clock second: 2700 s, 60 times as long on the market, 45 h.
		Equivalent: usd("10.8"), Saving: usd("10.02"), SavingPercent: 100 * 10.02 / 10.8,
		// 120 + 96 + 110 minutes.
		SameMachines: usd("1.304"), MachineHours: 326.0 / 60, Evictions: 1, Rollbacks: 1,
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	if diff := cmp.Diff(want, r.Totals, near); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	if e := r.Equivalent; e.Count != 3 || e.Pool != onDemand || math.Abs(e.Hours-15) > 1e-9 {
		t.Errorf("equivalent %+v, want 15 h on 3 machines of %s", e, onDemand)
	}

	minutes := func(m float64) float64 { return m * 60 }
	seconds := map[string]float64{
		"start-up idle":   minutes(10 + 10),
		"flush":           minutes(4),             // a: 90 to 94
		"out of training": minutes(2 + 10),        // a: 94 to 96, b: 100 to 110
		"redone work":     minutes(15),            // clock 2 again, 15 s by the wall, on r alone
		"working":         minutes(105 + 80 + 90), // r, a, b
		"beyond the end":  0,
		"free":            minutes(36), // a: 60 to 96
	}
	var paid market.USD
	var lived float64
	for _, row := range r.Waste.Rows() {
		if math.Abs(row.Seconds-seconds[row.Name]) > 1e-6 {
			t.Errorf("%s: %v s, want %v", row.Name, row.Seconds, seconds[row.Name])
		}
		if row.Name != "free" {
			paid += row.USD
			lived += row.Seconds
		}
	}
	if paid != r.Totals.Total || math.Abs(lived-r.Totals.MachineHours*3600) > 1e-6 {
		t.Errorf("the waste split adds up to $%s and %v s, want $%s and %v s", paid, lived, r.Totals.Total, r.Totals.MachineHours*3600)
	}
	// b's last hour, 60 to 120, cost 0.1: 40 minutes working, 10 out of training, 10 beyond its end.
	if got := r.Waste.AfterEnd.USD; got != usd("0.016666666") {
		t.Errorf("beyond the end: $%s", got)
	}

	tr := r.Training
	if tr.Clocks != 3 || tr.RedoneClocks != 1 || tr.LostClocks != 1 || tr.Work != 27e8 || tr.WorkInAll != 36e8 || tr.Epochs != 1.5 {
		t.Errorf("training %+v", tr)
	}
	if *r.Progress.PerClock != 0.26 || math.Abs(*r.Progress.PerEpoch-0.52) > 1e-12 {
		t.Errorf("per clock %v, per epoch %v", *r.Progress.PerClock, *r.Progress.PerEpoch)
	}
	fates := map[string]string{}
	for _, i := range r.Instances {
		fates[i.ID] = i.Fate
	}
	if diff := cmp.Diff(map[string]string{"r": "terminated", "a": "evicted", "b": "failed"}, fates); diff != "" {
		t.Error(diff)
	}
	if len(r.Warnings) > 0 {
		t.Errorf("warnings: %q", r.Warnings)
	}
}

// The same facts under today's rules: by the second, first hour free when interrupted.
func TestReportUnderOtherRules(t *testing.T) {
	entries := append(small(t, "ec2-now"), launch("a", spot, "0.3", 60), end(journal.Evicted, "a", 96, "provider"),
		launch("b", spot, "0.3", 60), end(journal.Terminated, "b", 105, "user"))
	r := report(t, feed(t, entries...))
	// b: 30 minutes at 0.1, then 15 at 0.4, but never more than its bid of 0.3.
	if got := r.Totals.Total; got != usd("0.125") {
		t.Errorf("total $%s", got)
	}
	if got := r.Waste.Free.Seconds; got != 36*60 {
		t.Errorf("free %v s", got)
	}
}

// A reliable machine under a commitment adds nothing; the commitment's own cost is shown separately.
func TestReportWithACommitment(t *testing.T) {
	entries := append(small(t, "ec2-2017+committed=c3.xlarge@0.15"), launch("r", onDemand, "", 0), launch("a", spot, "0.3", 0),
		end(journal.Terminated, "a", 30, "user"), end(journal.Terminated, "r", 90, "user"))
	r := report(t, feed(t, entries...))
	if got := r.Totals; got.Total != usd("0.1") || got.OnDemand != 0 || got.Committed != usd("0.3") {
		t.Errorf("total $%s, on demand $%s, committed $%s; want 0.1, 0 and two hours at 0.15", got.Total, got.OnDemand, got.Committed)
	}
	var text strings.Builder
	if err := r.WriteSummary(&text, 0); err != nil || !strings.Contains(text.String(), "paid anyway, for reliable machines; not in the total") {
		t.Errorf("%v\n%s", err, &text)
	}
}

// The journal of a killed run: what is due as of the last entry.
func TestReportOfAKilledRun(t *testing.T) {
	entries := append(small(t, "ec2-2017"), launch("r", onDemand, "", 0), launch("a", spot, "0.3", 0),
		end(journal.Terminated, "a", 30, "user"), clock(1, 61, 60, 5))
	r := report(t, feed(t, entries...))
	if r.Run.Finished || r.Run.Outcome != "unfinished" || !r.Run.AsOf.Equal(at(90)) {
		t.Errorf("run %+v", r.Run)
	}
	if got := r.Totals.Total; got != usd("0.58") { // r: two begun hours, a: one
		t.Errorf("total $%s", got)
	}
	if i := r.Instances[1]; i.ID != "r" || i.Fate != "running" || i.Ended != nil || i.Hours != 1.5 {
		t.Errorf("r is %+v", i)
	}
	earlier, err := feed(t, entries...).Report(at(29))
	if err != nil {
		t.Fatal(err)
	}
	if got := earlier.Totals.Total; got != usd("0.34") || earlier.Instances[0].Fate != "running" {
		t.Errorf("as of 12:29: total $%s, %+v", got, earlier.Instances[0])
	}
}

func TestLedgerRefuses(t *testing.T) {
	good := small(t, "ec2-2017")
	bad := func(change func(*journal.Entry)) journal.Entry {
		e := launch("a", spot, "0.3", 1)
		change(&e)
		return e
	}
	for _, c := range []struct {
		name    string
		entries []journal.Entry
		want    string
	}{
		{"no start", []journal.Entry{launch("a", spot, "0.3", 1)}, `begins with a "start"`},
		{"unknown rules", small(t, "barter"), "barter"},
		{"changed rules", append(slices.Clone(good), small(t, "ec2-now")...), "cannot go on under"},
		{"bad pool", append(slices.Clone(good), bad(func(e *journal.Entry) { e.Pool = "here" })), `pool "here"`},
		{"bad bid", append(slices.Clone(good), bad(func(e *journal.Entry) { e.Bid = "lots" })), `amount "lots"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l cost.Ledger
			var err error
			for _, e := range c.entries {
				if err = l.Add(e); err != nil {
					break
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := new(cost.Ledger).Report(time.Time{}); err == nil {
		t.Error("an empty journal has no report")
	}
	l := feed(t, append(slices.Clone(good), launch("a", "ec2/us-west-1/us-west-1b/c3.xlarge/spot", "0.3", 1))...)
	if _, err := l.Report(time.Time{}); err == nil || !strings.Contains(err.Error(), "the bill of a") {
		t.Errorf("a machine without a price: %v", err)
	}
}

// Repeated and contradictory news about a machine.
func TestLedgerTakesTheProvidersWord(t *testing.T) {
	rough := on(journal.Terminated, "a", 20.01)
	entries := append(small(t, "ec2-2017"), launch("a", spot, "0.3", 0), launch("a", spot, "0.3", 5), on(journal.Leave, "ghost", 6),
		on(journal.Notice, "a", 7), // no deadline: only a raised risk
		rough, end(journal.Evicted, "a", 30, "provider"), on(journal.Terminated, "a", 40))
	r := report(t, feed(t, entries...))
	if len(r.Instances) != 1 || !r.Instances[0].Ended.Equal(at(30)) || r.Instances[0].Fate != "evicted without warning" {
		t.Errorf("machines %+v", r.Instances)
	}
	if r.Totals.Total != 0 || len(r.Warnings) != 2 {
		t.Errorf("total $%s, warnings %q", r.Totals.Total, r.Warnings)
	}
}

func TestChargeLinesAreChecked(t *testing.T) {
	entries := append(small(t, "ec2-2017"), launch("a", spot, "0.3", 0), end(journal.Terminated, "a", 30, "user"),
		journal.Entry{T: at(31), Kind: journal.Charge, Instance: "a", Pool: spot, USD: "0.2"},
		journal.Entry{T: at(99), Kind: journal.Done, Outcome: "finished"})
	if r := report(t, feed(t, entries...)); len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "add up to $0.2") {
		t.Errorf("warnings %q", r.Warnings)
	}
}

// Properties of every story, whatever its prices.
func TestStories(t *testing.T) {
	for seed := range uint64(20) {
		story := journaltest.New(seed)
		l := feed(t, story.Entries...)
		r := report(t, l)
		rules, err := market.Rules("ec2-2017")
		if err != nil {
			t.Fatal(err)
		}
		var bill []cost.BillLine
		for _, m := range story.Machines {
			pool, err := market.ParsePool(m.Pool)
			if err != nil {
				t.Fatal(err)
			}
			u := market.Usage{Pool: pool, Start: m.Launched, End: m.Ended, EndedBy: market.EndedBy(m.EndedBy)}
			if m.Bid != "" {
				u.Bid = usd(m.Bid)
			}
			charges, err := rules.Charges(u, l.History(pool), m.Ended)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range charges {
				bill = append(bill, cost.BillLine{Instance: m.ID, From: c.From, To: c.To, USD: c.Amount})
			}
		}
		if c := cost.Compare(r, bill); !c.Equal || c.Ours != c.Theirs || c.Machines != len(story.Machines) {
			t.Errorf("seed %d: %s", seed, c)
		}
		var split, pools, instances market.USD
		for _, row := range r.Waste.Rows() {
			split += row.USD
		}
		for _, p := range r.Pools {
			pools += p.USD
		}
		for _, i := range r.Instances {
			instances += i.USD
		}
		if total := r.Totals.Total; split != total || pools != total || instances != total || r.Totals.Spot+r.Totals.OnDemand != total {
			t.Errorf("seed %d: total $%s, split $%s, pools $%s, instances $%s", seed, total, split, pools, instances)
		}
		if spent, err := l.Spent(l.AsOf()); err != nil || spent != r.Totals.Total {
			t.Errorf("seed %d: spent $%s, %v", seed, spent, err)
		}
		checkCurve(t, seed, r)
		if !cmp.Equal(r, report(t, feed(t, story.Entries...))) {
			t.Errorf("seed %d: the same journal gives another report", seed)
		}
	}
}

// checkCurve checks that dollars never fall and lead to the total. (Charges between the last clock and the end are not on the curve.)
func checkCurve(t *testing.T, seed uint64, r *cost.Report) {
	last := 0.0
	for _, p := range r.Series.Loss {
		if p.USD < last-1e-9 {
			t.Fatalf("seed %d: paid falls from %v to %v at clock %d", seed, last, p.USD, p.Clock)
		}
		last = p.USD
	}
	total := float64(r.Totals.Total) / float64(market.Dollar)
	if last > total+1e-9 || last < 0.9*total {
		t.Errorf("seed %d: the curve ends at %v, the total is %v", seed, last, total)
	}
	steps := r.Series.Machines
	if end := steps[len(steps)-1]; end.Transient != 0 || end.Reliable != 0 {
		t.Errorf("seed %d: %+v take part at the end", seed, end)
	}
}

// All prices doubled: same report, double the dollars.
func TestDoubledPrices(t *testing.T) {
	entries := journaltest.New(3).Entries
	once := report(t, feed(t, entries...))
	doubled := slices.Clone(entries)
	for i := range doubled {
		e := &doubled[i]
		if e.USD != "" {
			e.USD = (2 * usd(e.USD)).String()
		}
		if e.Bid != "" {
			e.Bid = (2 * usd(e.Bid)).String()
		}
		if e.Kind == journal.Start {
			d, err := e.StartDetails()
			if err != nil {
				t.Fatal(err)
			}
			for j := range d.Machines {
				d.Machines[j].OnDemand = (2 * usd(d.Machines[j].OnDemand)).String()
			}
			if e.Details, err = journal.Pack(d); err != nil {
				t.Fatal(err)
			}
		}
	}
	twice := report(t, feed(t, doubled...))
	if twice.Totals.Total != 2*once.Totals.Total || twice.Totals.SavingPercent != once.Totals.SavingPercent {
		t.Errorf("total $%s, doubled $%s", once.Totals.Total, twice.Totals.Total)
	}
}

func TestSavedWhileRunning(t *testing.T) {
	l := feed(t, append(small(t, "ec2-2017"), launch("a", spot, "0.3", 0))...)
	if saved, err := l.Saved(at(10)); err == nil {
		t.Errorf("$%s are saved before any work counts", saved)
	}
	l = feed(t, append(small(t, "ec2-2017"), launch("a", spot, "0.3", 0), clock(1, 30, 20, 5))...)
	// 9e8 operations are 15 market hours of one machine, $3.6; an hour at $0.1 is due.
	if saved, err := l.Saved(at(30)); err != nil || saved != usd("3.5") {
		t.Errorf("saved $%s, %v", saved, err)
	}
	if rate := l.Rate(at(95)); rate != usd("0.3") { // the price is above the bid
		t.Errorf("rate $%s", rate)
	}
}

// A run restarts from a checkpoint while the next one is being written, and later from that one: it advances. The model then includes the
// clocks in between, which were done before.
func TestCheckpointBeyondTheClock(t *testing.T) {
	back := func(minute, to, lost int64) journal.Entry {
		return journal.Entry{T: at(float64(minute)), Kind: journal.Rollback, Clock: to, LostClocks: lost}
	}
	entries := append(small(t, "ec2-2017"),
		launch("r", onDemand, "", 0), on(journal.Join, "r", 0),
		clock(1, 10, 10, 5), clock(2, 20, 10, 4), clock(3, 30, 10, 3), clock(4, 40, 10, 2),
		back(50, 1, 3), clock(2, 60, 10, 4), back(70, 3, 0), clock(4, 80, 10, 2),
	)
	one := report(t, feed(t, append(small(t, "ec2-2017"), launch("r", onDemand, "", 0), on(journal.Join, "r", 0), clock(1, 10, 10, 5))...)).Training
	got := report(t, feed(t, entries...)).Training
	if got.Clocks != 4 || got.Work != 4*one.Work || got.WorkInAll != 6*one.Work || got.RedoneClocks != 2 || got.LostClocks != 3 {
		t.Errorf("%+v, where one clock is %+v", got, one)
	}
}
