package apps

import (
	"context"
	"encoding/json"

	"github.com/tierml/tierml/ps"
)

// Outside is an App whose splits are computed by a process of the user's own, the child. The child starts on every machine that computes,
// before the machine receives splits, and works on one split at a time.
type Outside interface {
	App
	// Program describes the process to the machine that starts it. Empty if this machine computes nothing.
	Program() json.RawMessage
	// Terms are what the child and the job must agree on.
	Terms() Terms
	// Attach gives the application its child, before any split is loaded.
	Attach(Child)
	// Begin announces which of this machine's splits run a clock together, before their rows are requested. The context is cancelled when
	// the clock is aborted.
	Begin(ctx context.Context, c ps.Clock, splits []ps.Split)
	// Space returns memory of the child's, in the table's layout: for the rows that a round reads, and for the gradients of the split that
	// computes it. They need no copies there. Nil: there is none.
	Space() (rows, gradients []float32)
}

// Terms are a job's settings of its outer loop.
type Terms struct {
	Every         int     `json:"every"` // inner steps of a round
	Rate          float64 `json:"rate"`
	Momentum      float64 `json:"momentum"`
	Transport     string  `json:"transport"`
	Steps         int     `json:"steps"`    // of each replica, in total
	Floats        int     `json:"floats"`   // upper bound on the model's size
	Replicas      int     `json:"replicas"` // one split each
	Seed          uint64  `json:"seed"`
	Deterministic bool    `json:"deterministic"`
}

// Row returns how many of the model's floats a row of the table holds: small models get enough rows for all partitions, large ones rows of
// 256 KiB. One more column is the row's weight.
func (t Terms) Row() int { return min(max((t.Floats+63)/64, 64), 64<<10) }

// Order is one round of one replica.
type Order struct {
	Clock   ps.Clock
	Replica ps.Split
	First   int // index of the first step
	Steps   int
}

// Delivery is the result of a round. Steps is 0 if nothing is delivered.
type Delivery struct {
	Steps  int // steps completed
	Loss   float64
	Losses int // number of losses summed in Loss
}

// Child computes rounds.
type Child interface {
	// Ready waits until the child can take orders, and returns how many floats its model has.
	Ready(ctx context.Context) (floats int, err error)
	// Memory returns the memory of rows and delta (Round), which lasts as long as the child. Nil: no program is ready.
	Memory() (rows, delta []float32)
	// Round makes the child compute one round. It may call give repeatedly to write the rows; delta is the start minus the end of the
	// model, valid until the next Round. Both have Terms.Row of the model's floats and then one that is unused, again and again.
	Round(ctx context.Context, o Order, give func(rows []float32)) (d Delivery, delta []float32, err error)
}
