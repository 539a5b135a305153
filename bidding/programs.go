package bidding

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// ForPrograms returns the policy of that name for a job without a reliable tier: those by restart, and on-demand, which then buys
// the whole fleet on demand.
func ForPrograms(name string) (ByRestart, error) {
	if name == (OnDemand{}).Name() {
		return onDemandFleet{}, nil
	}
	p, err := ByName(name)
	if err != nil {
		return nil, err
	}
	if r, ok := p.(ByRestart); ok {
		return r, nil
	}
	return nil, errors.New("policy " + name + " needs reliable machines, which programs do without: there are " + strings.Join(NamesForPrograms(), ", "))
}

// NamesForPrograms lists the names that ForPrograms knows, sorted.
func NamesForPrograms() (names []string) {
	for _, p := range policies {
		if _, restarts := p.(ByRestart); restarts || p.Name() == (OnDemand{}).Name() {
			names = append(names, p.Name())
		}
	}
	return names
}

// onDemandFleet buys the fleet in the cheapest on-demand pool.
type onDemandFleet struct{ Checkpoint }

// Name returns "on-demand".
func (onDemandFleet) Name() string { return OnDemand{}.Name() }

// Plan is that of Checkpoint without the spot pools.
func (p onDemandFleet) Plan(s State) Plan {
	never := s.Now.Add(100 * 365 * 24 * time.Hour)
	s.Pools = slices.Clone(s.Pools)
	for i := range s.Pools {
		if c := &s.Pools[i]; !c.OnDemand() {
			c.NoCapacityUntil = never
		}
	}
	plan := p.Checkpoint.Plan(s)
	plan.SaveEvery = 0
	for i := range plan.Considered {
		if seen := &plan.Considered[i]; !s.Pools[i].OnDemand() && !seen.Chosen {
			seen.Why = "policy on-demand buys no spot machines"
		}
	}
	return plan
}
