package sim

import (
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/ps"
)

// Checkpoints is what saving and restarting cost in a job that survives the loss of its machines by checkpoints, and
// how often it saves. Zero values are derived from the others, and without a Model from the Timing. Times are market
// time.
type Checkpoints struct {
	Model     float64 // bytes of a checkpoint
	Bandwidth float64 // bytes per second of market time between the storage and the fleet, in either direction
	// Save is how long training stops for a checkpoint; 0 = Model / Bandwidth.
	Save time.Duration
	// Restart is how long a fleet with all its machines takes until it works: to start processes, load its part of the
	// data and read the checkpoint. 0 = the Timing's Start and Load, and Model / Bandwidth.
	Restart time.Duration
	// Overhead is the share by which work on spot machines slows down throughout, apart from the stops: the
	// cost of checkpoints in the background, or of keeping ready for one. 0.17 = 17 %.
	Overhead float64
	// Every and EveryClocks are how often a job without reliable machines saves, without stopping work, once a cut is
	// committed; both 0 = never. Policies by restart choose when to save, unless Fixed applies Every to them, too.
	Every       time.Duration
	EveryClocks ps.Clock
	Fixed       bool
}

// taken reports whether there are checkpoints to return to when all machines are lost.
func (c *Checkpoints) taken() bool { return c.Every > 0 || c.EveryClocks > 0 }

// settings returns the controller's checkpoints for a job without reliable machines.
func (c *Checkpoints) settings() elasticity.Checkpoints {
	return elasticity.Checkpoints{Place: "simulated", Life: "1", Every: c.Every, EveryClocks: c.EveryClocks}
}

// OnStorage returns the costs assumed if none are declared: a model of 2 GB, about a factorisation of rank 1000 of
// Netflix's ratings (498,000 users and films by 1000 by 4 bytes), and 100 MB/s, about a machine's gigabit link.
func OnStorage() Checkpoints { return Checkpoints{Model: 2e9, Bandwidth: 100e6} }

// Times returns how long a checkpoint stops training, and how long a restart takes.
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
