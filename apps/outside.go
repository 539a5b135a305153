package apps

import (
	"context"
	"encoding/json"

	"github.com/tierml/tierml/ps"
)

// Outside is an App whose splits a process of the user's own computes, the child. It is started on every machine that computes, before
// the machine is given splits, and does the work of one split at a time.
type Outside interface {
	App
	// Program describes the process to the machine that starts it. Empty: this machine computes nothing.
	Program() json.RawMessage
	// Terms are what the child and the job must agree on.
	Terms() Terms
	// Attach gives the application its child, before any split is loaded.
	Attach(Child)
	// Begin announces which splits of this machine do a clock together, before their rows are requested. The context ends when the clock is
	// broken off.
	Begin(ctx context.Context, c ps.Clock, splits []ps.Split)
}

// Terms are what a job says of its outer loop.
type Terms struct {
	Every         int     `json:"every"` // inner steps of a round
	Rate          float64 `json:"rate"`
	Momentum      float64 `json:"momentum"`
	Transport     string  `json:"transport"`
	Steps         int     `json:"steps"`    // of each replica, in all
	Floats        int     `json:"floats"`   // the most that the model may have
	Replicas      int     `json:"replicas"` // one split each
	Seed          uint64  `json:"seed"`
	Deterministic bool    `json:"deterministic"`
}

// Order is one round of one replica.
type Order struct {
	Clock   ps.Clock
	Replica ps.Split
	First   int // step
	Steps   int
}

// Delivery is what a round came to. Nothing is delivered when Steps is 0.
type Delivery struct {
	Steps  int // that were done
	Loss   float64
	Losses int // that Loss sums up
}

// Child computes rounds.
type Child interface {
	// Ready waits until the child can take orders, and returns how many floats its model has.
	Ready(ctx context.Context) (floats int, err error)
	// Round has the child do a round. Give writes the rows' floats, as often as it is called; delta is what the model has moved by, start less
	// end, and is good until the next Round.
	Round(ctx context.Context, o Order, give func(to []float32)) (d Delivery, delta []float32, err error)
}
