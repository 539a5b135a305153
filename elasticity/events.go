package elasticity

import (
	"time"

	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/training"
	"github.com/tierml/tierml/ps"
)

// Event is something that happened: one of the following structs. Repeating an event is harmless.
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
	// StopWanted: a person, a budget or a limit requests an orderly end: flush, save, terminate. Now requests
	// an immediate end: nothing is saved, every machine is terminated.
	StopWanted struct {
		Why string
		Now bool
	}
	// Trained: a fleet has done all clocks up to Clock, and takes Pace for another. The first one reports that it has
	// started. This event and the next are only for kill-and-restart runs (elasticity/restart).
	Trained struct {
		Clock ps.Clock
		Pace  time.Duration
	}
	// Saved: a checkpoint at this clock exists. It answers a Save; with continuous saving it comes when a fleet is
	// lost.
	Saved struct {
		Clock ps.Clock
		Model string // its location
		Err   error
	}
	// Wake is the passing of time.
	Wake struct{}
)

func (StopWanted) Event() {}
func (Trained) Event()    {}
func (Saved) Event()      {}
func (Wake) Event()       {}

// Action is something to do: one of the following structs. The actions of one step are done in order.
type Action = step.Action

// The actions of the fleet and of training.
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
	// Train starts a fleet with the checkpoint at a clock (0 = the initial state), replacing the team that trained
	// before; answered by Trained. Training ends when the first machine is lost. This action and the next are only for
	// kill-and-restart runs.
	Train struct {
		Machines []ps.ServerID
		From     ps.Clock
	}
	// Save takes a checkpoint of the training in progress; answered by Saved.
	Save struct{ Final bool }
	// Finish ends the run: all machines are gone.
	Finish struct{ Outcome, Why string }
)

func (Train) Action()  {}
func (Save) Action()   {}
func (Finish) Action() {}
