package fleet

import (
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// Fleet is the state of the machines: which are wanted, requested, held and ended, and what they cost.
//
// It serves one Work (training, attempts or programs), which says by Need when machines may be bought and released, and gets a machine when
// it has called and when it is warned or lost. The fleet never knows what the machines compute.
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
	tiers  Tiers // nil = it has none
	demand *Demand

	// The parts, each of which knows those before it.
	markets  *markets
	Roster   *roster
	buys     *purchases
	Accounts *accounts
	View     *view

	Reliable  reliableTier
	NextPlan  time.Time
	WantPlan  bool
	settled   bool // until NextPlan, prices lead to no other plan: see bidding.Plan
	gathering gathering
	SaveEvery time.Duration // how often to take a checkpoint, by the last plan; 0 = never
	Switching *switchover   // a proactive switch under way
	crashes   Crashes
	Spending  spending

	early    map[step.ID]*early // what was learned of machines whose launch is not answered yet
	bought   int
	listed   time.Time // when all machines were last listed
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

// Surveyed reports whether the provider has said which machines there are of a run that is taken over.
func (f *Fleet) Surveyed() bool { return f.surveyed || !f.work.Need().TakingOver }

// switchover is a proactive switch: machines of the new pool are starting, those of the old one work on.
type switchover struct {
	from, to market.Pool
	token    string
}

// early holds reports of a machine that came before the answer to its launch: answers can be slow.
type early struct {
	called     bool
	warned     *Warned
	ended      *provisioner.Instance
	terminated bool // it belongs to no launch, and was sent away
}

// reliableTier buys the reliable tier, until the tier holds the job.
type reliableTier struct {
	tries int       // in vain, in a row
	After time.Time // not to be tried again before
	until time.Time // after, when it was last counted as a try
	token string    // of the launch whose machines were last counted as a try
	err   error     // of the last try
	lost  bool      // one may be missing after the tier was complete: it was lost, will go, or the number grew
	none  bool      // its pool sells none: the most reliable machine that can be had serves
}
