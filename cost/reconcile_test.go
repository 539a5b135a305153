package cost_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/market"
)

// A journal that is cut off anywhere, supplemented by the provider's records, gives the provider's bill.
func TestSupplementCutAnywhere(t *testing.T) {
	story := journaltest.New(5)
	rules, err := market.Rules("ec2-2017")
	if err != nil {
		t.Fatal(err)
	}
	whole := feed(t, story.Entries...)
	for cut := 1; cut < len(story.Entries); cut += 7 {
		// The provider was killed a little later than the journal ends.
		asOf := story.Entries[min(cut+3, len(story.Entries)-1)].T
		l := feed(t, slices.Clone(story.Entries[:cut])...)
		var facts []cost.Fact
		var bill []cost.BillLine
		for _, m := range story.Machines {
			if m.Launched.After(asOf) {
				continue
			}
			pool, _ := market.ParsePool(m.Pool)
			u := market.Usage{Pool: pool, Start: m.Launched}
			if m.Bid != "" {
				u.Bid = usd(m.Bid)
			}
			if !m.Ended.After(asOf) {
				u.End, u.EndedBy = m.Ended, market.EndedBy(m.EndedBy)
			}
			facts = append(facts, cost.Fact{Instance: m.ID, Usage: u})
			l.SupplementPrices(pool, whole.History(pool).Points(journaltest.Began.AddDate(-1, 0, 0), asOf))
			charges, err := rules.Charges(u, whole.History(pool), asOf)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range charges {
				bill = append(bill, cost.BillLine{Instance: m.ID, From: c.From, To: c.To, USD: c.Amount})
			}
		}
		s := l.Supplement(facts)
		if !s.JournalEnds.Equal(story.Entries[cut-1].T) {
			t.Errorf("cut %d: the journal ends %s", cut, s.JournalEnds)
		}
		r, err := l.Report(asOf)
		if err != nil {
			t.Fatalf("cut %d: %v", cut, err)
		}
		if c := cost.Compare(r, bill); !c.Equal {
			t.Fatalf("cut %d: %s", cut, c)
		}
	}
}

func TestSupplementCounts(t *testing.T) {
	l := feed(t, append(small(t, "ec2-2017"), launch("a", spot, "0.3", 0), launch("b", spot, "0.3", 0), end(journal.Evicted, "b", 30, "provider"))...)
	pool, _ := market.ParsePool(spot)
	life := func(end float64) market.Usage {
		return market.Usage{Pool: pool, Bid: usd("0.3"), Start: at(0), End: at(end), EndedBy: market.ByUser}
	}
	s := l.Supplement([]cost.Fact{
		{Instance: "a", Usage: life(80)},                                                // an end
		{Instance: "b", Usage: life(31)},                                                // the journal knows better: Compare will report it
		{Instance: "c", Usage: life(70)},                                                // a launch and an end
		{Instance: "d", Usage: market.Usage{Pool: pool, Bid: usd("0.3"), Start: at(1)}}, // a launch
	})
	if s.Launches != 2 || s.Ends != 2 || !strings.Contains(s.String(), "the journal ends at 2014-05-01T13:30:00Z; 2 launches and 2 ends") {
		t.Errorf("%+v: %s", s, s)
	}
	if r := report(t, l); r.Instances[1].ID != "b" || !r.Instances[1].Ended.Equal(at(30)) || len(r.Instances) != 4 {
		t.Errorf("machines %+v", r.Instances)
	}
}

func TestCompareTellsTheDifference(t *testing.T) {
	r := report(t, feed(t, append(small(t, "ec2-2017"), launch("a", spot, "0.3", 0), end(journal.Terminated, "a", 70, "user"),
		launch("b", spot, "0.3", 0), end(journal.Terminated, "b", 30, "user"))...))
	hour := func(id string, n float64, amount string) cost.BillLine {
		return cost.BillLine{Instance: id, From: at(60 * n), To: at(60*n + 60), USD: usd(amount)}
	}
	equal := []cost.BillLine{hour("a", 0, "0.1"), hour("a", 1, "0.1"), hour("b", 0, "0.1")}
	if c := cost.Compare(r, equal); !c.Equal || !strings.Contains(c.String(), "equals") {
		t.Error(c)
	}
	recut := []cost.BillLine{hour("a", 0, "0.2"), hour("b", 0, "0.1")}
	if c := cost.Compare(r, recut); !c.Equal {
		t.Errorf("the same sum in other lines: %s", c)
	}
	c := cost.Compare(r, []cost.BillLine{hour("a", 0, "0.1"), hour("a", 1, "0.100000001"), hour("ghost", 0, "0.1")})
	if c.Equal || len(c.Differences) != 3 || c.Theirs-c.Ours != 1 {
		t.Fatalf("%+v", c)
	}
	for _, want := range []string{"journal $0.1, cloud $0.100000001", "journal $0.1, cloud not billed", "ghost", "journal not billed, cloud $0.1"} {
		if !strings.Contains(c.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, c)
		}
	}
}

// Equal totals do not hide two wrong machines.
func TestCompareLooksAtEachMachine(t *testing.T) {
	r := report(t, feed(t, append(small(t, "ec2-2017"), launch("a", spot, "0.3", 0), end(journal.Terminated, "a", 30, "user"))...))
	c := cost.Compare(r, []cost.BillLine{{Instance: "b", From: at(0), To: at(60), USD: usd("0.1")}})
	if c.Equal || c.Ours != c.Theirs {
		t.Errorf("%+v", c)
	}
}

func TestTextFits(t *testing.T) {
	story := journaltest.New(1)
	r := report(t, feed(t, story.Entries...))
	r.Supplement = &cost.Supplement{JournalEnds: at(3), Launches: 2}
	compared := cost.Compare(r, nil)
	r.Reconciliation = &compared
	var b strings.Builder
	if err := r.WriteText(&b, 0); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > 100 || strings.TrimRight(line, " ") != line {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	flat := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"spot machines", "on-demand equivalent", "saving", "redone work", "start-up idle", "flush", "free",
		"per clock", "per epoch", "stage 2 -> 3", "switch from c3.xlarge", "roll-back to the cut", "gone without warning",
		"2 launches and 0 ends were taken", story.Machines[7].ID,
	} {
		if !strings.Contains(flat, want) {
			t.Errorf("%q is missing", want)
		}
	}
}
