package restart

import (
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
)

// Config configures a Controller. Durations are in market time.
type Config struct {
	tempo.Settings
	Run    string // names the run in tokens: unique per run
	Clocks ps.Clock
	// Want is the whole fleet: fewer machines do not train.
	Want   bidding.Want
	Pools  []elasticity.Pool // sorted by pool
	Policy bidding.Policy
	// Job is what the policy knows about the work; the controller adds what changes, and what follows from the settings.
	Job bidding.Job
	// Restart is the time from when all agents of a fleet have called until it works: it loads its data and the checkpoint.
	Restart time.Duration
	// Continuous saving loses nothing and takes no time of its own: its cost is part of a fleet's start-up time, as in Can't Be Late (NSDI
	// 24, section 3.1). Without it, checkpoints are taken at the interval of the policy's plan.
	Continuous bool
	// SaveEvery is the interval of checkpoints, overriding the policy's plan; 0 = not set.
	SaveEvery time.Duration
	// ResumeAt is the clock of the checkpoint that the run continues from; 0 = a new run. Past is the record of a previous controller that
	// did not end cleanly: its machines are ended, since a fleet trains only as a whole.
	ResumeAt ps.Clock
	Past     *elasticity.Past
	// Reached is the highest clock that was done before an orderly end.
	Reached ps.Clock
	// Adopts: the previous controller's machines are taken over instead.
	Adopts bool
	// AskAgain: an unanswered launch of the previous controller that is younger than this is requested again; 0 = never.
	AskAgain time.Duration

	Chooses     bool          // a purchase may name several pools: see elasticity.Config
	MaxDuration time.Duration // the run ends gracefully after this; 0 = never
	Silent      bool          // Step returns no Record, because the journal has no reader; Totals has the run's figures
	Rules       market.RuleBook
	Billed      bool // see elasticity.Config
}

// A restarted controller does not take its fleet over: anything unsaved was lost with the controller that knew it.
const forgotten = "its controller was lost, and the job restarts from its last checkpoint"

// fleet returns the configuration of the machines.
func (c *Config) fleet() *fleet.Config {
	f := &fleet.Config{
		Settings: c.Settings, Run: c.Run, Want: c.Want, Pools: c.Pools, Policy: c.Policy, Job: c.Job, Whole: true, Forgotten: forgotten,
		AskAgain: c.AskAgain, Chooses: c.Chooses, Rules: c.Rules, Billed: c.Billed,
	}
	f.Job.Startup, f.Job.Notice, f.Job.Lag, f.Job.SaveEvery = c.Startup-c.Begin+c.Restart, c.Notice, c.Lag, c.SaveEvery
	f.Job.Leave = c.DrainMargin
	if c.Adopts {
		f.Forgotten = ""
	}
	if c.Past != nil {
		f.Past = &c.Past.Ledger
	}
	return f
}
