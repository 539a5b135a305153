package bidding

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"
)

// ForPrograms returns the policy with a name for a job without a reliable tier: those by restart; those that weigh the
// cost of work, which then count what an eviction undoes; and on-demand, which buys the whole fleet on demand.
func ForPrograms(name string) (ByRestart, error) {
	p, err := ByName(name)
	if err != nil {
		return nil, err
	}
	if r := forPrograms(p); r != nil {
		return r, nil
	}
	return nil, errors.New("policy " + name + " needs reliable machines, which programs do without: there are " + strings.Join(NamesForPrograms(), ", "))
}

func forPrograms(p Policy) ByRestart {
	switch p := p.(type) {
	case ByRestart:
		return p
	case Capacity, CostPerWork:
		return RolledBack{p}
	case OnDemand:
		return onDemandFleet{}
	}
	return nil
}

// NamesForPrograms lists the names that ForPrograms knows, sorted.
func NamesForPrograms() (names []string) {
	for _, p := range policies {
		if forPrograms(p) != nil {
			names = append(names, p.Name())
		}
	}
	return names
}

// RolledBack is a policy by the cost of work for machines that keep their own work: it counts what an eviction undoes
// (Job.Undone, Job.Together), and also considers machines on demand.
type RolledBack struct{ Policy }

// ByRestart marks a policy without a reliable tier.
func (RolledBack) ByRestart() {}

// Plan returns the wrapped policy's plan.
func (p RolledBack) Plan(s State) Plan {
	s.Job.alone = true
	return p.Policy.Plan(s)
}

// whole reports whether less than the whole fleet is useless.
func whole(p Policy, s *State) bool {
	if _, parts := p.(RolledBack); parts {
		return s.Job.Together
	}
	_, restarts := p.(ByRestart)
	return restarts
}

// kept returns the share of working time that survives evictions, given their hourly rate. Of an exponential lifetime
// that saves its work every u hours, u (exp(-r u) + exp(-2 r u) + ...) is kept on average, and it lasts 1/r:
//
//	r u / (exp(r u) - 1)
func (j *Job) kept(rate float64) float64 {
	x := float64(rate * j.Undone.Hours())
	if x <= 0 {
		return 1
	}
	return x / math.Expm1(x)
}

// stopped returns how many machines stop when one is evicted.
func (j *Job) stopped(machines int) float64 {
	if j.Together {
		return float64(machines)
	}
	return 1
}

// onDemandFleet buys the fleet in the cheapest on-demand pool.
type onDemandFleet struct{ Checkpoint }

// Name returns "on-demand".
func (onDemandFleet) Name() string { return OnDemand{}.Name() }

// Plan returns Checkpoint's plan without the spot pools.
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
