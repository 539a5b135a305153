package fleet

import (
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// Fleet is the state of the machines: which are wanted, requested, held and ended, and their cost.
//
// It serves one Work (training, attempts or programs), which reports by Need when machines may be bought and released, and learns when
// machines call, are warned or lost. The fleet never knows what the machines compute.
//
// Invariants:
//   - A machine that was bought stays in Roster until the provider has reported its end and its bill is written.
//   - The provider's list and Roster are compared in both directions (reconcile.go): an unknown machine is adopted or ended, a
//     missing one is given up after SettleTime.
//   - Nothing is bought without a plan of the policy or a lack in the reliable tier, and never while Need forbids it.
type Fleet struct {
	*step.Step
	cfg    *Config
	work   Work
	tiers  Tiers // nil = no reliable tier
	demand *Demand

	// The parts, each of which knows only earlier ones.
	markets  *markets
	Roster   *roster
	buys     *purchases
	Accounts *accounts
	View     *view

	Reliable  reliableTier
	NextPlan  time.Time
	WantPlan  bool
	settled   bool // prices do not change the plan until NextPlan: see bidding.Plan
	gathering gathering
	SaveEvery time.Duration // interval of checkpoints, by the last plan; 0 = never
	Switching *switchover   // a proactive switch in progress
	crashes   Crashes
	Spending  spending

	early    map[step.ID]*early // reports about machines whose launch is unanswered
	bought   int
	listed   time.Time // when machines were last listed
	surveyed bool      // after a takeover: the provider has listed the run's machines
	Totals   Totals
}

// Totals are a fleet's figures so far.
type Totals struct {
	Machines  int // bought
	Evictions int // machines that the provider took
	Switches  int
}

// Terminate ends a machine.
func (f *Fleet) Terminate(of *step.Machine, why string) {
	m := f.Roster.ByID[of.ID]
	if m.Terminating || m.Ended {
		return
	}
	m.Terminating, m.Why, m.terminated = true, why, f.Now
	f.Do(Terminate{IDs: []provisioner.InstanceID{provisioner.InstanceID(m.ID)}, Why: why})
}

// Surveyed reports whether the provider has listed the machines of a run that is taken over.
func (f *Fleet) Surveyed() bool { return f.surveyed || !f.work.Need().TakingOver }

// switchover is a proactive switch: machines of the new pool start while those of the old one keep working.
type switchover struct {
	from, to market.Pool
	token    string
}

// early holds reports about a machine that arrived before the answer to its launch, which can be slow.
type early struct {
	called     bool
	warned     *Warned
	ended      *provisioner.Instance
	terminated bool // it belongs to no launch, and was terminated
}

// reliableTier buys machines until the reliable tier holds the job.
type reliableTier struct {
	tries int       // consecutive failures
	After time.Time // no further try before
	until time.Time // when After was last counted as a try
	token string    // of the launch whose machines were last counted as a try
	err   error     // of the last try
	lost  bool      // one may be missing after the tier was complete: lost, about to go, or the number grew
	none  bool      // its pool sells none: the most reliable available machine serves
}
