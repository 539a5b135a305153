// Package training decides how machines train: which serve and which work (layout), when to cut, halt and save, how to recover from losses,
// and how to continue after a restart of the controller. The fleet announces machines; training requests none. It knows nothing about what
// machines cost, where they come from or why they go: no pool, no price.
package training

import (
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/elasticity/tuning"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/stopping"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Checkpoints sets where and how often committed cuts are saved while training continues. A checkpoint is what remains when
// reliable machines and their copies are gone.
type Checkpoints struct {
	Place       string        // directory or URL; empty = no checkpoints
	Life        string        // separates the folders of this start of the run from those of others
	Every       time.Duration // 0 = not by time
	EveryClocks ps.Clock      // 0 = not by clocks
	Newest      string        // complete checkpoint of an earlier start of the run, at clock NewestAt; empty = none
	NewestAt    ps.Clock
	Older       []Kept // than Newest, the newest first
}

// Kept is an existing checkpoint.
type Kept struct {
	Name string // of its manifest, or file
	At   ps.Clock
}

// Config configures Training: see elasticity.Config.
type Config struct {
	tempo.Settings
	Job         Job
	Stages      tiers.Thresholds
	Load        tiers.LoadRule
	Checkpoints Checkpoints
	Past        *Log // nil = a new run

	FirstID         uint64
	FirstGeneration ps.Generation // above those of earlier trainings that restarted; 0 = there were none

	CutsUnpaced bool
	Tune        *tuning.Options // nil = the job is not tuned
}

// Job describes the training job.
type Job struct {
	Schema      ps.Schema
	App         string
	Params      map[string]string
	Dataset     []byte            // what was learned about the data when it was cut, for the application
	Secrets     map[string]string // environment variables of the program that computes
	SplitsURL   string
	Clocks      ps.Clock
	Work        float64 // of all clocks, in vCPU hours at the declared rates, for the policy; 0 = unknown
	EvalEvery   ps.Clock
	Stop        stopping.Rules // end before all clocks are done
	Figure      string         // name of Metric's figure
	Heartbeat   time.Duration  // wall clock
	OrphanAfter time.Duration  // wall clock
	// Metric converts a mean loss per example to the displayed figure (RMSE: the square root); nil leaves it as it is.
	Metric func(mean float64) float64
	// Standby replaces Params on reliable machines that only hold splits while no other machine can. nil = they work like others.
	Standby map[string]string
	// Short: clocks end at a notice, with the steps done so far.
	Short bool
	// ResumeFrom is a checkpoint at clock ResumeAt; empty starts from the initial state.
	ResumeFrom string
	ResumeAt   ps.Clock
	// Before is the work done until the last controller ended cleanly; nil = none, or Past has it.
	Before *Log
}

func (c *Config) loadRule() tiers.LoadRule {
	if c.Load == (tiers.LoadRule{}) {
		return tiers.DefaultLoadRule()
	}
	return c.Load
}

// Machines is the fleet, as training sees it. A call may call back into Training (Lose).
type Machines interface {
	// GiveUp declares a machine dead and terminates it.
	GiveUp(m *step.Machine, why string)
	// Crashed: its agent ended by itself, or a command failed.
	Crashed(m *step.Machine, why, log string)
	Terminate(m *step.Machine, why string)
	// Ready: it has answered its welcome.
	Ready(m *step.Machine)
	// Reorder is called when machines have ranks in the order of joining, before Joined.
	Reorder()
	// Joined: it takes part. The fleet completes the journal line.
	Joined(m *step.Machine, line func() journal.Entry)
	// Lost: nothing more is expected of it. ready: it had been ready.
	Lost(m *step.Machine, ready bool)
	// Warned: it reports its own notice, or (rebalance) a raised risk.
	Warned(id step.ID, deadline time.Time, rebalance bool) (due bool)
	// Called: a machine unknown to training has called.
	Called(id step.ID)
	// Surveyed reports whether the provider has listed the machines of a run that is taken over.
	Surveyed() bool
	// TakenOver: all machines are accounted for, and StartedOver: no reliable one serves.
	TakenOver()
	StartedOver()
	// Progressed: a cut was committed beyond all earlier ones.
	Progressed()
	// Replan requests a new plan soon; PlanDue reports whether that is due.
	Replan()
	PlanDue() bool
}
