package apps

import "github.com/tierml/tierml/ps"

// Direct is a Program that can also train on the tables themselves, when they are all in the memory of one process:
// without working copies, differences and sums. It does the same number of examples per clock and leads to as good a
// model, but not to the same bits as a parameter server, nor on two kinds of processors.
type Direct interface {
	Program
	// NewDirect reads all splits and gives the tables their first values. Seed is the job's. What comes out does not
	// depend on the number of threads. With settings that its way of training does not know it gives errors.ErrUnsupported.
	NewDirect(open Open, seed uint64, threads int) (DirectTrainer, error)
}

// DirectTrainer is a Direct program's training. It is not safe for use by several goroutines.
type DirectTrainer interface {
	// Rows are the tables as they are; they must not be changed, and are good until the next Step.
	Rows
	// Step does the work of a clock, of all splits. Clocks come in turn, from 1. When evaluate is set it also measures
	// the held-out examples as of the clock's start. After an error the trainer is not to be used.
	Step(c ps.Clock, evaluate bool) (Stats, error)
}

// Converging is a DirectTrainer that notices when further clocks would change nothing. It gives the reason, or nothing.
type Converging interface{ Converged() (why string) }
