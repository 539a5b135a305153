package apps

import "github.com/tierml/tierml/ps"

// Direct is a Program that can also train directly on the tables, when they are all in the memory of one process: without working copies,
// differences and sums. It processes the same number of examples per clock and reaches an equally good model, but the bits differ from a
// parameter server's and between kinds of processors.
type Direct interface {
	Program
	// NewDirect reads all splits and initialises the tables. Seed is the job's. The result does not depend on the number of threads. It
	// returns errors.ErrUnsupported for settings that direct training does not support.
	NewDirect(open Open, seed uint64, threads int) (DirectTrainer, error)
}

// DirectTrainer is a Direct program's training. It is not safe for use by several goroutines.
type DirectTrainer interface {
	// Rows are the actual tables; they must not be changed, and are valid until the next Step.
	Rows
	// Step does the work of a clock for all splits. Clocks are consecutive, from 1. If evaluate is set it also measures the held-out
	// examples as of the clock's start. After an error the trainer must not be used.
	Step(c ps.Clock, evaluate bool) (Stats, error)
}

// Converging is a DirectTrainer that detects when further clocks would change nothing. It returns the reason, or "".
type Converging interface{ Converged() (why string) }
