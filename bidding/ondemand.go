package bidding

// OnDemand is the policy for jobs that must have no evictions: the job stays on its reliable machines.
type OnDemand struct{}

// Name returns "on-demand".
func (OnDemand) Name() string { return "on-demand" }

// Plan buys no spot machines, and keeps machines held for other reasons.
func (OnDemand) Plan(s State) Plan {
	const why = "policy on-demand buys no spot machines"
	plan := Plan{Why: why}
	for i := range s.Pools {
		seen := look(&s.Pools[i], s, BidOnDemand)
		seen.Why = why
		plan.Considered = append(plan.Considered, seen)
	}
	return plan
}
