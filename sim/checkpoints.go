package sim

import (
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/ps"
)

// Checkpoints is what saving and restarting cost where a job outlives its machines by checkpoints, and how often it saves. What is zero follows from
// the rest, and without a Model from the Timing. Times are market time.
type Checkpoints struct {
	Model     float64 // bytes that a checkpoint holds
	Bandwidth float64 // bytes per second of market time between the storage and the fleet, either way
	// Save is how long training stands still for a checkpoint; 0 = Model / Bandwidth.
	Save time.Duration
	// Restart is how long a fleet whose machines are all there takes until it works: to start processes, to load its part of
	// the data and to read the checkpoint. 0 = the Timing's Start and Load, and Model / Bandwidth.
	Restart time.Duration
	// Overhead is by which share work on spot machines takes longer all the while, apart from the stops: what a
	// checkpoint in the background, or keeping ready for one, costs. 0.17 = 17 %.
	Overhead float64
	// Every and EveryClocks say when a job saves whose every machine may be taken, without stopping work, once a cut is
	// committed; both 0 = never. Policies by restart save when they want to, unless Fixed says that Every holds for them,
	// too.
	Every       time.Duration
	EveryClocks ps.Clock
	Fixed       bool
}

// taken reports whether there are any to go back to where nothing else is left.
func (c *Checkpoints) taken() bool { return c.Every > 0 || c.EveryClocks > 0 }

// settings returns the controller's, of a job whose every machine may be taken.
func (c *Checkpoints) settings() elasticity.Checkpoints {
	return elasticity.Checkpoints{Place: "simulated", Life: "1", Every: c.Every, EveryClocks: c.EveryClocks}
}

// OnStorage returns the costs assumed where none are declared: a model of 2 GB, about a factorisation of rank 1000 of
// Netflix's ratings (498,000 users and films by 1000 by 4 bytes), and 100 MB/s, about what a machine's gigabit carries.
func OnStorage() Checkpoints { return Checkpoints{Model: 2e9, Bandwidth: 100e6} }

// Times returns the stop for a checkpoint and the time of a restart.
func (c Checkpoints) Times(t Timing) (save, restart time.Duration) {
	save, restart = t.Export, t.Start+t.Load
	if c.Model > 0 && c.Bandwidth > 0 {
		transfer := time.Duration(c.Model / c.Bandwidth * float64(time.Second))
		save = transfer
		restart += transfer
	}
	if c.Save > 0 {
		save = c.Save
	}
	if c.Restart > 0 {
		restart = c.Restart
	}
	return save, restart
}
