package market

import (
	"slices"
	"time"
)

// Seller is what prices and bills need to know about a provider, as data.
type Seller struct {
	Name   string
	NoBids bool       // spot machines have a price, and there are no bids
	Books  []RuleBook // its own, in addition to those of this package
}

// withoutBids are the providers without bids. Recordings of Compute Engine can be replayed without the provider.
var withoutBids = map[string]bool{"gce": true}

// Register adds a seller. It is for init functions (providers/all): nothing changes once main has begun.
func Register(s Seller) {
	if s.NoBids {
		withoutBids[s.Name] = true
	}
	for _, book := range s.Books {
		if slices.Contains(RuleNames(), book.Name()) {
			panic("market: there are two rule books " + book.Name())
		}
		ruleBooks = append(ruleBooks, book)
	}
}

// BySecond is a rule book that bills each second at the price in force, at least 60 seconds.
type BySecond struct {
	Name string
	// FreeWithin is how long a reclaimed spot machine is free, and FreeNote says so on bills.
	FreeWithin time.Duration
	FreeNote   string
	Notice     time.Duration // before an eviction
	MaxLife    time.Duration // maximum lifetime of a machine; 0 = no limit
}

// Book returns the rule book.
func (b BySecond) Book() RuleBook {
	return perSecond{name: b.Name, freeWithin: b.FreeWithin, freeNote: b.FreeNote, notice: b.Notice, maxLife: b.MaxLife}
}
