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

// Config configures a Controller. Durations are market time.
type Config struct {
	tempo.Settings
	Run    string // names the run in tokens: unique per run
	Clocks ps.Clock
	// Want is the whole fleet: nothing is trained with less.
	Want   bidding.Want
	Pools  []elasticity.Pool // sorted by pool
	Policy bidding.Policy
	// Job is what the policy knows of the work; the controller adds what changes in it, and what follows from the settings.
	Job bidding.Job
	// Restart is how long a fleet whose agents have all called takes until it works: it loads its data and the checkpoint.
	Restart time.Duration
	// Continuous saving loses nothing and takes no time of its own: what it costs is part of the time that a fleet
	// takes to begin, as Can't Be Late (NSDI 24, section 3.1) has it. Without, a checkpoint is taken as often as the
	// policy's plan says.
	Continuous bool
	// SaveEvery is how often checkpoints are taken, whatever the policy's plan says; 0 = as it says.
	SaveEvery time.Duration
	// ResumeAt is the clock of the checkpoint that the run continues from; 0 = it begins. Past is what a controller before
	// has written down that did not end in order: its machines are ended, as all of a fleet that trains goes or nothing.
	ResumeAt ps.Clock
	Past     *elasticity.Past
	// Reached is the highest clock that was done before an orderly end.
	Reached ps.Clock
	// Adopts: the machines of the controller before are taken over instead.
	Adopts bool
	// AskAgain: a launch that the previous controller decided within this time and that has no answer is requested again; 0 = none
	// is.
	AskAgain time.Duration

	Chooses     bool          // a purchase may name several pools: see elasticity.Config
	MaxDuration time.Duration // the run ends in order after this; 0 = never
	Silent      bool          // Step returns no Record, because the journal has no reader; Totals has the run's figures
	Rules       market.RuleBook
	Billed      bool // as elasticity.Config has it
}

// A controller that is started again does not take its fleet over: what was not saved is gone with the controller that knew it.
const forgotten = "its controller was lost, and the job restarts from its last checkpoint"

// fleet returns the part about machines.
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
