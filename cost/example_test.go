package cost_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal"
)

// A worked example from a journal to a bill. One reliable machine and two spot machines train for two and a half hours of a market that is
// replayed 60 times as fast; the price rise at 13:30 evicts one.
func ExampleLedger() {
	const (
		spot     = "ec2/us-west-1/us-west-1a/c3.xlarge/spot"
		onDemand = "ec2/us-west-1/us-west-1a/c3.xlarge/on-demand"
	)
	clock := func(hhmm string) time.Time {
		t, _ := time.Parse("2006-01-02 15:04", "2014-05-01 "+hhmm)
		return t
	}
	details, _ := journal.Pack(journal.StartDetails{
		Name: "example", App: "mf", Rules: "ec2-2017", Clock: "2014-05-01T12:00:00Z@2026-01-01T00:00:00Z*60",
		Machines: []journal.MachineType{{Name: "c3.xlarge", VCPU: 4, OnDemand: "0.24", FLOPS: 1e6}},
		Reliable: journal.Fleet{Pool: onDemand, Count: 1}, Want: journal.Want{Machines: 2},
	})
	at := func(hhmm string) *time.Time { t := clock(hhmm); return &t }
	launch := func(id, pool, bid string) journal.Entry {
		return journal.Entry{T: clock("12:00"), Kind: journal.Launch, Instance: id, Pool: pool, Bid: bid, Launched: at("12:00")}
	}
	on := func(hhmm string, kind journal.Kind, id string) journal.Entry {
		return journal.Entry{T: clock(hhmm), Kind: kind, Instance: id}
	}
	end := func(hhmm string, kind journal.Kind, id, by string) journal.Entry {
		return journal.Entry{T: clock(hhmm), Kind: kind, Instance: id, Ended: at(hhmm), EndedBy: by}
	}
	done := func(hhmm string, n int64, seconds float64) journal.Entry { // wall-clock seconds; 60 are a market hour
		return journal.Entry{T: clock(hhmm), Kind: journal.ClockDone, Clock: n, Seconds: seconds, Work: 1.2e8}
	}
	var ledger cost.Ledger
	for _, e := range []journal.Entry{
		{T: clock("12:00"), Kind: journal.Start, Details: details},
		{T: clock("12:00"), Kind: journal.Price, Pool: spot, USD: "0.1", At: at("11:30")},
		launch("reliable", onDemand, ""), launch("a", spot, "0.24"), launch("b", spot, "0.24"),
		on("12:00", journal.Join, "reliable"), on("12:10", journal.Join, "a"), on("12:10", journal.Join, "b"),
		done("12:50", 1, 40), done("13:20", 2, 30),
		{T: clock("13:30"), Kind: journal.Price, Pool: spot, USD: "0.3", At: at("13:30")},
		{T: clock("13:30"), Kind: journal.Notice, Instance: "a", Deadline: at("13:32")},
		on("13:31", journal.Leave, "a"), end("13:32", journal.Evicted, "a", "provider"),
		on("13:40", journal.Failed, "b"), end("13:45", journal.Terminated, "b", "user"),
		{T: clock("13:45"), Kind: journal.Rollback, Clock: 1, LostClocks: 1},
		done("14:00", 2, 15), done("14:30", 3, 30),
		end("14:30", journal.Terminated, "reliable", "user"),
		{T: clock("14:30"), Kind: journal.Done, Outcome: "finished", Clock: 3},
	} {
		if err := ledger.Add(e); err != nil {
			fmt.Println(err)
			return
		}
	}
	report, err := ledger.Report(time.Time{})
	if err != nil {
		fmt.Println(err)
		return
	}
	print := func(format string, args ...any) { fmt.Println(strings.TrimRight(fmt.Sprintf(format, args...), " ")) }
	for _, i := range report.Instances {
		for _, c := range i.Charges {
			print("%-8s  %s-%s  %6s  %s", i.ID, c.From.Format("15:04"), c.To.Format("15:04"), c.USD, c.Note)
		}
	}
	print("total     %s: spot %s, on-demand %s", report.Totals.Total, report.Totals.Spot, report.Totals.OnDemand)
	e := report.Equivalent
	print("the same work on %d machines on demand: %.3f h, %s; saving %.1f %%", e.Count, e.Hours, e.USD, report.Totals.SavingPercent)
	for _, row := range report.Waste.Rows() {
		print("%-16s %6.0f min  %s", row.Name, row.Seconds/60, row.USD)
	}
	// Output:
	// a         12:00-13:00     0.1
	// a         13:00-13:32       0  interrupted hour
	// b         12:00-13:00     0.1
	// b         13:00-14:00     0.1  begun hour paid in full
	// reliable  12:00-13:00    0.24
	// reliable  13:00-14:00    0.24
	// reliable  14:00-15:00    0.24  begun hour paid in full
	// total     1.02: spot 0.3, on-demand 0.72
	// the same work on 3 machines on demand: 2.000 h, 1.44; saving 29.2 %
	// working             305 min  0.773333335
	// redone work          15 min  0.06
	// start-up idle        20 min  0.033333332
	// flush                 1 min  0
	// out of training       6 min  0.008333333
	// beyond the end        0 min  0.145
	// free                 32 min  0
}
