package cost

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/market"
)

// Fact is a machine's life in the provider's own records.
type Fact struct {
	Instance string
	Usage    market.Usage
	Why      string // why it ended
}

// Supplement lists what a killed run's journal was missing.
type Supplement struct {
	JournalEnds time.Time `json:"journal_ends"`
	Launches    int       `json:"launches"`
	Ends        int       `json:"ends"`
}

// String describes it in words.
func (s Supplement) String() string {
	return fmt.Sprintf("the journal ends at %s; %d launches and %d ends were taken from the cloud's records",
		s.JournalEnds.UTC().Format(time.RFC3339), s.Launches, s.Ends)
}

// Supplement adds from the provider's records what the journal of a killed run lacks: machines that were launched, and ends of known
// machines. The journal's entries stay unchanged; Compare shows where the two disagree.
func (l *Ledger) Supplement(facts []Fact) Supplement {
	s := Supplement{JournalEnds: l.last}
	facts = slices.Clone(facts)
	slices.SortFunc(facts, func(a, b Fact) int {
		return cmp.Or(a.Usage.Start.Compare(b.Usage.Start), cmp.Compare(a.Instance, b.Instance))
	})
	for _, f := range facts {
		m, ok := l.machines[f.Instance]
		if !ok {
			u := f.Usage
			u.End, u.EndedBy = time.Time{}, market.Running
			m = l.launch(f.Instance, "", u)
			s.Launches++
		}
		if m.ended() || f.Usage.EndedBy == market.Running {
			continue
		}
		m.usage.End, m.usage.EndedBy = f.Usage.End, f.Usage.EndedBy
		m.leave(f.Usage.End)
		m.why = cmp.Or(f.Why, m.why, "ended after the journal did")
		s.Ends++
	}
	return s
}

// SupplementPrices adds what the provider's records know about a pool's price and the journal does not: all points of a pool that it never
// mentions, else those after its end.
func (l *Ledger) SupplementPrices(pool market.Pool, points []market.PricePoint) {
	known := l.prices.history(pool).Len() > 0
	for _, p := range points {
		if !known || p.At.After(l.last) {
			l.prices.add(pool, p)
		}
	}
}

// BillLine is a line of the provider's own bill.
type BillLine struct {
	Instance string
	From, To time.Time
	USD      market.USD
}

// Reconciliation compares the total computed from the journal with the provider's bill.
type Reconciliation struct {
	AsOf        time.Time    `json:"as_of"`
	Ours        market.USD   `json:"ours"`
	Theirs      market.USD   `json:"theirs"`
	Equal       bool         `json:"equal"` // total and every machine's sum, to the billionth
	Machines    int          `json:"machines"`
	Differences []Difference `json:"differences,omitempty"` // by instance, then time
}

// Difference is a line on which the two bills disagree; an amount is absent if a bill lacks the line.
type Difference struct {
	Instance string      `json:"instance"`
	From     time.Time   `json:"from"`
	To       time.Time   `json:"to"`
	Ours     *market.USD `json:"ours,omitempty"`
	Theirs   *market.USD `json:"theirs,omitempty"`
}

// Compare checks a report against the provider's bill, both as of the same time. Machines whose sums are equal agree, however their lines
// are split.
func Compare(r *Report, bill []BillLine) Reconciliation {
	ours := map[string][]BillLine{}
	for _, i := range r.Instances {
		ours[i.ID] = nil // the bill should even know a machine that owes nothing
		for _, c := range i.Charges {
			ours[i.ID] = append(ours[i.ID], BillLine{i.ID, c.From, c.To, c.USD})
		}
	}
	theirs := map[string][]BillLine{}
	for _, b := range bill {
		theirs[b.Instance] = append(theirs[b.Instance], b)
	}
	out := Reconciliation{AsOf: r.Run.AsOf, Ours: r.Totals.Total, Theirs: sum(bill), Equal: true}
	for _, id := range union(ours, theirs) {
		out.Machines++
		if sum(ours[id]) == sum(theirs[id]) {
			continue
		}
		out.Equal = false
		out.Differences = append(out.Differences, differences(ours[id], theirs[id])...)
	}
	return out
}

// String describes it in words, line by line where the bills differ.
func (r Reconciliation) String() string {
	if r.Equal {
		return fmt.Sprintf("the journal's total equals the cloud's own bill: $%s for %d machines, to the billionth",
			r.Ours, r.Machines)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the journal's total is $%s and the cloud's own bill $%s (difference $%s):", r.Ours, r.Theirs, r.Ours-r.Theirs)
	amount := func(u *market.USD) string {
		if u == nil {
			return "not billed"
		}
		return "$" + u.String()
	}
	for _, d := range r.Differences {
		fmt.Fprintf(&b, "\n  %s  %s to %s: journal %s, cloud %s", d.Instance,
			d.From.UTC().Format(time.RFC3339), d.To.UTC().Format(time.RFC3339), amount(d.Ours), amount(d.Theirs))
	}
	return b.String()
}

// differences aligns two bills of one machine by the start times of their lines.
func differences(ours, theirs []BillLine) []Difference {
	find := func(lines []BillLine, from time.Time) *BillLine {
		i := slices.IndexFunc(lines, func(b BillLine) bool { return b.From.Equal(from) })
		if i < 0 {
			return nil
		}
		return &lines[i]
	}
	var out []Difference
	for _, our := range ours {
		d := Difference{Instance: our.Instance, From: our.From, To: our.To, Ours: &our.USD}
		if their := find(theirs, our.From); their != nil {
			d.Theirs = &their.USD
		}
		if d.Theirs == nil || *d.Theirs != our.USD {
			out = append(out, d)
		}
	}
	for _, their := range theirs {
		if find(ours, their.From) == nil {
			out = append(out, Difference{Instance: their.Instance, From: their.From, To: their.To, Theirs: &their.USD})
		}
	}
	slices.SortFunc(out, func(a, b Difference) int { return a.From.Compare(b.From) })
	return out
}

func sum(lines []BillLine) (total market.USD) {
	for _, b := range lines {
		total += b.USD
	}
	return total
}

// union returns the keys of both, sorted.
func union(a, b map[string][]BillLine) []string {
	var ids []string
	for id := range a {
		ids = append(ids, id)
	}
	for id := range b {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
