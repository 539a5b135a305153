package bidding

import "github.com/tierml/tierml/internal/spelling"

// policies, sorted by name.
var policies = []Policy{
	Capacity{},
	Checkpoint{},
	Checkpoint{Bids: BidAggressive},
	CostPerWork{},
	Deadline{},
	OnDemand{},
	SkyNomad{},
	TierML{},
	TierML{Bids: BidAggressive},
	TierML{NeverSwitch: true},
	UniformProgress{},
}

// ByName returns the policy with a name, with its defaults:
//
//   - capacity: for markets without bids: the cheapest work by price and measured evictions, spread over pools.
//   - checkpoint: one fleet in the cheapest pool, spot or on demand, that starts again from its last checkpoint when it
//     is lost; no reliable tier.
//   - checkpoint-aggressive: the same at bids little above the present price.
//   - cost-per-work: Proteus's (EuroSys 2017): buys, keeps and drops by the expected cost of the work, interrupted hours
//     that cost nothing counted in.
//   - deadline: one fleet, on spot machines or on demand or none, so that the job meets its deadline at the least expected
//     cost; no reliable tier.
//   - on-demand: never buys spot machines.
//   - skynomad: SkyNomad's (arXiv 2601.06520) for a job with a deadline and pools in several regions; no reliable tier.
//   - tierml: TierML's (CMU-PDL-16-102): bids the on-demand price in the pool with the highest MTTF and moves
//     when another pool's is clearly higher.
//   - tierml-aggressive: the same at bids little above the present price.
//   - tierml-noswitch: the same without moving before an eviction.
//   - uniform-progress: that of Can't Be Late (NSDI 24) for a job with a deadline, by one fleet; no reliable tier.
func ByName(name string) (Policy, error) { return spelling.Find("policy", name, policies) }

// Names lists the names that ByName knows, sorted.
func Names() []string { return spelling.Names(policies) }

// NeedsDeadline reports whether a policy relies on the job's deadline.
func NeedsDeadline(p Policy) bool {
	switch p.(type) {
	case Deadline, SkyNomad, UniformProgress:
		return true
	}
	return false
}
