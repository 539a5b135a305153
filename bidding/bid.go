package bidding

import "github.com/tierml/tierml/market"

// BidRule determines the bid for a machine. No rule bids more than the on-demand price, or than the job's own limit.
type BidRule string

const (
	// BidOnDemand bids the on-demand price: a machine is kept as long as it is worth it. It is TierML's rule.
	BidOnDemand BidRule = ""
	// BidAggressive bids little more than the present price, so that machines are soon lost when it rises, and the
	// last hour is then free. TierML (CMU-PDL-16-102) rounds the price up to the next dime for c4.2xlarge and to
	// the next nickel for c4.xlarge, which on demand cost $0.419 and $0.209: to the next 24 % of the on-demand
	// price. Other types are treated the same way.
	BidAggressive BidRule = "aggressive"
)

// aggressiveShare is the step of BidAggressive, in percent of the on-demand price.
const aggressiveShare = 24

// defaultBid returns the bid assumed for machines whose bid is unknown.
func (c *Candidate) defaultBid() market.USD { return BidOnDemand.Bid(c, 0) }

// Bid returns the bid for a machine of a pool at a spot price; 0 for machines bought without one.
func (r BidRule) Bid(c *Candidate, price market.USD) market.USD {
	if c.OnDemand() {
		return 0
	}
	bid := c.Type.OnDemand
	if step := c.Type.OnDemand * aggressiveShare / 100; r == BidAggressive && step > 0 {
		bid = min(bid, max(1, (price+step-1)/step)*step)
	}
	if c.MaxPrice > 0 {
		bid = min(bid, c.MaxPrice)
	}
	return bid
}
