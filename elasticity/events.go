package elasticity

import (
	"time"

	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/training"
	"github.com/tierml/tierml/ps"
)

// Event is something that happened: one of the structs below. Telling the same event again is harmless.
type Event = step.Event

// The events of the fleet and of training.
type (
	PriceChanged    = fleet.PriceChanged
	PricesKnown     = fleet.PricesKnown
	CapacityChanged = fleet.CapacityChanged
	Launched        = fleet.Launched
	LaunchFailed    = fleet.LaunchFailed
	Listed          = fleet.Listed
	InstanceEnded   = fleet.InstanceEnded
	Warned          = fleet.Warned
	ProviderChanged = fleet.ProviderChanged
	Reported        = training.Reported
	Disconnected    = training.Disconnected
	Exported        = training.Exported
	ManifestWritten = training.ManifestWritten
	Preferred       = training.Preferred
)

type (
	// StopWanted: a person, a budget or a limit asks for an orderly end: flush, save, terminate. Now asks for
	// an end at once: nothing is saved, every machine is terminated.
	StopWanted struct {
		Why string
		Now bool
	}
	// Trained: a fleet has all clocks up to Clock done, and another takes it Pace. The first one says that it has begun.
	// This and the next are of kill-and-restart runs only (elasticity/restart).
	Trained struct {
		Clock ps.Clock
		Pace  time.Duration
	}
	// Saved: a checkpoint at this clock is there. It answers a Save; where saving is continuous it comes when a fleet
	// is lost.
	Saved struct {
		Clock ps.Clock
		Model string // where
		Err   error
	}
	// Wake is the passing of time.
	Wake struct{}
)

func (StopWanted) Event() {}
func (Trained) Event()    {}
func (Saved) Event()      {}
func (Wake) Event()       {}

// Action is something to do: one of the structs below. Actions of one step are done in order.
type Action = step.Action

// What the fleet and training do.
type (
	Record        = step.Record
	Launch        = fleet.Launch
	Terminate     = fleet.Terminate
	Send          = training.Send
	Export        = training.Export
	WriteManifest = training.WriteManifest
	Profiled      = training.Profiled
)

type (
	// Train starts a fleet with the checkpoint at a clock (0 = the initial state), replacing the team that trained before;
	// answered by Trained. It ends with the first of its machines. This and the next are of kill-and-restart runs only.
	Train struct {
		Machines []ps.ServerID
		From     ps.Clock
	}
	// Save takes a checkpoint of what trains now; answered by Saved.
	Save struct{ Final bool }
	// Finish ends the run: every machine is gone.
	Finish struct{ Outcome, Why string }
)

func (Train) Action()  {}
func (Save) Action()   {}
func (Finish) Action() {}
