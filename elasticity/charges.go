package elasticity

import (
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// ChargeEntry is the journal's line of one line of a machine's bill.
func ChargeEntry(instance string, pool market.Pool, line market.Charge) journal.Entry {
	return journal.Entry{
		Kind: journal.Charge, Instance: instance, Pool: pool.String(), USD: line.Amount.String(),
		From: line.From.UTC().Format(time.RFC3339), To: line.To.UTC().Format(time.RFC3339), Why: line.Note,
	}
}

// UnknownCharge is the line that says why there is no bill.
func UnknownCharge(instance string, pool market.Pool, err error) journal.Entry {
	return journal.Entry{Kind: journal.Charge, Instance: instance, Pool: pool.String(), USD: "0",
		Why: "this machine's bill could not be reckoned: " + err.Error()}
}
