package fakecloud

import (
	"fmt"
	"time"

	"github.com/tierml/tierml/market"
)

// Bill is the cost of the machines in some launch records.
type Bill struct {
	Rules string     `json:"rules"`
	AsOf  time.Time  `json:"as_of"` // machines without an end are billed for what was due then
	Lines []BillLine `json:"lines"` // one per machine, in order of launch
	Total market.USD `json:"total"`
}

// BillLine is one machine's part.
type BillLine struct {
	ID       string         `json:"id"`
	Pool     market.Pool    `json:"pool"`
	Bid      market.USD     `json:"bid,omitzero"`
	Launched time.Time      `json:"launched"`
	Ended    time.Time      `json:"ended,omitzero"` // zero while running
	By       market.EndedBy `json:"by,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Charges  []Charge       `json:"charges"`
	Total    market.USD     `json:"total"`
}

// Charge is one line of a machine's bill.
type Charge struct {
	From   time.Time  `json:"from"`
	To     time.Time  `json:"to"`
	Rate   market.USD `json:"rate"` // per hour
	Amount market.USD `json:"amount"`
	Free   bool       `json:"free,omitempty"`
	Note   string     `json:"note,omitempty"`
}

// NewBill makes the bill as of the last record: for a cloud that was killed, the last time at which it is known to have been alive.
// Histories must have every pool in the records (Config.Histories).
func NewBill(records []Record, rules market.RuleBook, histories map[market.Pool]*market.History) (Bill, error) {
	var asOf time.Time
	for _, r := range records {
		if r.T.After(asOf) {
			asOf = r.T
		}
	}
	return NewBillAsOf(records, rules, histories, asOf)
}

// NewBillAsOf makes the bill as of a time: machines that ended later were still running, and those launched later did not exist.
func NewBillAsOf(records []Record, rules market.RuleBook, histories map[market.Pool]*market.History, asOf time.Time) (Bill, error) {
	lines, err := lives(records)
	if err != nil {
		return Bill{}, fmt.Errorf("bill: %w", err)
	}
	bill := Bill{Rules: rules.Name(), AsOf: asOf.UTC()}
	for _, line := range lines {
		if line.Launched.After(asOf) {
			continue
		}
		if line.Ended.After(asOf) {
			line.Ended, line.By, line.Reason = time.Time{}, market.Running, ""
		}
		history, ok := histories[line.Pool]
		if !ok {
			return Bill{}, fmt.Errorf("bill: no prices of %s, where %s ran", line.Pool, line.ID)
		}
		usage := market.Usage{Pool: line.Pool, Bid: line.Bid, Start: line.Launched, End: line.Ended, EndedBy: line.By}
		charges, err := rules.Charges(usage, history, asOf)
		if err != nil {
			return Bill{}, fmt.Errorf("bill: %s: %w", line.ID, err)
		}
		for _, c := range charges {
			line.Charges = append(line.Charges, Charge{c.From.UTC(), c.To.UTC(), c.Rate, c.Amount, c.Free, c.Note})
		}
		line.Total = market.Total(charges)
		bill.Total += line.Total
		bill.Lines = append(bill.Lines, line)
	}
	return bill, nil
}

// CloudKilled is the reason on the bill of machines that ran when their cloud was killed, once another cloud has continued with its
// records: they are not billed since the killed one was last known to be alive. Hours that had begun are paid.
const CloudKilled = "Cloud.Killed"

// lives joins launches with their ends.
func lives(records []Record) ([]BillLine, error) {
	var lines []BillLine
	byID := make(map[string]int)
	var last time.Time
	for _, r := range records {
		n, known := byID[r.ID]
		switch {
		case r.Kind == Opened:
			abandon(lines, last)
		case r.Kind == Launched && known && lines[n].Ended.IsZero():
			return nil, fmt.Errorf("%s is launched twice", r.ID)
		case r.Kind == Launched:
			byID[r.ID] = len(lines)
			lines = append(lines, BillLine{ID: r.ID, Pool: r.Pool, Bid: r.Bid, Launched: r.Launched})
		case r.Kind == Ended && !known:
			return nil, fmt.Errorf("%s ends without a launch", r.ID)
		case r.Kind == Ended && !lines[n].Ended.IsZero():
			return nil, fmt.Errorf("%s ends twice", r.ID)
		case r.Kind == Ended:
			lines[n].Ended, lines[n].By, lines[n].Reason = r.Ended, r.By, r.Reason
		}
		last = r.T
	}
	return lines, nil
}

func abandon(lines []BillLine, at time.Time) {
	for n := range lines {
		if line := &lines[n]; line.Ended.IsZero() {
			line.Ended, line.By, line.Reason = at.UTC().Truncate(time.Second), market.ByUser, CloudKilled
		}
	}
}
