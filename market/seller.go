package market

import (
	"slices"
	"time"
)

// Seller is what prices and bills have to know of a provider, as data.
type Seller struct {
	Name   string
	NoBids bool       // spot machines have a price, and there are no bids
	Books  []RuleBook // its own, in addition to those of this package
}

// withoutBids are the providers that take none. What is recorded of Compute Engine can be replayed without the provider.
var withoutBids = map[string]bool{"gce": true}

// Register adds a seller to those that are known. It is for init functions (providers/all): nothing changes once main has begun.
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

// BySecond is a rule book that bills each second at the price in force in it, 60 seconds at least.
type BySecond struct {
	Name string
	// FreeWithin is for how long a spot machine is free that the provider takes back, and FreeNote says so on bills.
	FreeWithin time.Duration
	FreeNote   string
	Notice     time.Duration // before an eviction
	MaxLife    time.Duration // no machine lives longer; 0 = there is no such limit
}

// Book makes the rule book.
func (b BySecond) Book() RuleBook {
	return perSecond{name: b.Name, freeWithin: b.FreeWithin, freeNote: b.FreeNote, notice: b.Notice, maxLife: b.MaxLife}
}
