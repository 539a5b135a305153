package elasticity

import (
	"errors"
	"strings"
	"time"

	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// Unwritten returns the prices of a pool that a controller writes down when it begins. Reports make bills from the journal's
// prices, so a controller that takes a run over writes all those of the time when nobody watched; the first one of a run
// writes the price that is in force.
func (p *Past) Unwritten(pool market.Pool, known *market.History) []market.PricePoint {
	last, ok := known.Last()
	if !ok || pool.Class != market.Spot {
		return nil
	}
	if p != nil {
		if written, ok := p.Prices[pool.String()]; ok {
			return known.Points(written, last.At)
		}
	}
	return []market.PricePoint{last}
}

// ChargeWait is how long, in market time, the end of a run waits for the last prices: two hours, and five minutes of the wall
// clock where the market is replayed faster, as a provider that refuses calls does so by the wall clock. A run that ends
// without them says which bills are not final.
func ChargeWait(s tempo.Settings) time.Duration {
	return max(2*time.Hour, s.Market(5*time.Minute))
}

// ChargeEntry is the journal's line of one line of a machine's bill.
func ChargeEntry(instance string, pool market.Pool, line market.Charge) journal.Entry {
	return journal.Entry{
		Kind: journal.Charge, Instance: instance, Pool: pool.String(), USD: line.Amount.String(),
		From: line.From.UTC().Format(time.RFC3339), To: line.To.UTC().Format(time.RFC3339), Why: line.Note,
	}
}

// ErrNoPrices is why a machine has no final bill when a run ends.
var ErrNoPrices = errors.New("the provider has not told all prices until its end; a report goes by the last one")

// UnknownCharge is the line that says why there is no bill of a machine that has ended.
func UnknownCharge(instance string, pool market.Pool, launched, ended time.Time, err error) journal.Entry {
	return journal.Entry{Kind: journal.Charge, Instance: instance, Pool: pool.String(), USD: "0",
		From: launched.UTC().Format(time.RFC3339), To: ended.UTC().Format(time.RFC3339),
		Why: unknownCharge + err.Error()}
}

const unknownCharge = "this machine's bill could not be reckoned: "

// unknownBill reports whether a journal line says that there is no bill: it is no line of one.
func unknownBill(e journal.Entry) bool { return strings.HasPrefix(e.Why, unknownCharge) }
