package fleet

import (
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// A later controller knows the cost of machines whose bills an earlier one wrote. A bill that may lack lines is made anew.
func TestEarlierBillsAreSpent(t *testing.T) {
	ended := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pool := market.Pool{Provider: "ec2", Region: "us-east-1", Zone: "us-east-1a", Type: "c4.xlarge", Class: market.Spot}
	var past Ledger
	r := NewReader(&past)
	for _, id := range []string{"i-1", "i-2", "i-3"} {
		for _, e := range []journal.Entry{
			{Kind: journal.Launch, Instance: id, Pool: pool.String()},
			{Kind: journal.Terminated, Instance: id, Ended: &ended},
			{Kind: journal.Charge, Instance: id, USD: "0.25"},
			{Kind: journal.Charge, Instance: id, USD: "0.5"},
		} {
			if id == "i-3" && e.Kind == journal.Terminated {
				continue // still running
			}
			if err := r.Read(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := r.Read(journal.Entry{Kind: journal.Charge, Instance: "i-2", USD: "much"}); err == nil {
		t.Error("a bill that is no number was taken")
	}
	r.Close()
	if len(past.Machines) != 1 || past.Machines[0].Charged != 2 {
		t.Errorf("machines with a bill to write: %+v", past.Machines)
	}
	a := accounts{roster: &roster{}, settled: past.Settled}
	if due := a.due(ended); due.String() != "1.5" {
		t.Errorf("%s is spent, want 1.5", due)
	}
}
