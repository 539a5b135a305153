package provisioner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tierml/tierml/market"
)

// Allocation is a provider's criterion for choosing among the spot pools of a Request that names several. The words are EC2's
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-allocation-strategy.html).
type Allocation string

// The allocations.
const (
	PriceCapacityOptimized Allocation = "price-capacity-optimized" // the cheapest among those least likely to be reclaimed
	CapacityOptimized      Allocation = "capacity-optimized"       // the least likely to be reclaimed, whatever their price up to the bid
)

// Refusal is why a pool of a Request yielded nothing, or less than requested.
type Refusal struct {
	Pool market.Pool
	Err  error // wraps one of the contract's, as errors of Launch do
}

// Choose launches, and returns which pools refused where the Cloud reports it.
func Choose(ctx context.Context, c Cloud, r Request) ([]Instance, []Refusal, error) {
	if len(r.Or) > 0 && c.Traits().Chooses {
		return c.Choose(ctx, r)
	}
	instances, err := c.Launch(ctx, r)
	return instances, nil, err
}

// RefusalText words refusals for people: pools that refuse for the same reason are named together.
func RefusalText(refusals []Refusal) string {
	type group struct {
		why   string
		pools []string
	}
	var groups []*group
	for _, r := range refusals {
		i := slices.IndexFunc(groups, func(g *group) bool { return g.why == r.Err.Error() })
		if i < 0 {
			i, groups = len(groups), append(groups, &group{why: r.Err.Error()})
		}
		groups[i].pools = append(groups[i].pools, r.Pool.Zone+" "+r.Pool.Type)
	}
	var texts []string
	for _, g := range groups {
		texts = append(texts, fmt.Sprintf("%s: %s", strings.Join(g.pools, ", "), g.why))
	}
	return strings.Join(texts, "; ")
}
