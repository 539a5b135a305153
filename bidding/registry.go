package bidding

import (
	"fmt"
	"strings"
)

// policies, sorted by name.
var policies = []Policy{
	Checkpoint{},
	Checkpoint{Bids: BidAggressive},
	OnDemand{},
	TierML{},
	TierML{Bids: BidAggressive},
	TierML{NeverSwitch: true},
}

// ByName gives the policy of that name, with its defaults:
//
//   - checkpoint: one fleet in the cheapest pool, spot or on demand, that starts again from its last checkpoint when it
//     is lost; no reliable tier.
//   - checkpoint-aggressive: the same at bids little above the present price.
//   - on-demand: never buys spot machines.
//   - tierml: TierML's (CMU-PDL-16-102): bids the on-demand price in the pool with the highest MTTF and moves
//     when another pool's is clearly higher.
//   - tierml-aggressive: the same at bids little above the present price.
//   - tierml-noswitch: the same without moving before an eviction.
func ByName(name string) (Policy, error) {
	for _, p := range policies {
		if p.Name() == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("policy %q: there are %s", name, strings.Join(Names(), ", "))
}

// Names lists the names that ByName knows, sorted.
func Names() []string {
	var names []string
	for _, p := range policies {
		names = append(names, p.Name())
	}
	return names
}
