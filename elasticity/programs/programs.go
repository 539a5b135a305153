// Package programs runs users' programs on machines that come and go: one program on all machines together (a gang), or an array of tasks,
// one per machine. When a machine is lost, its program restarts from its newest state. The package decides which machine runs what, what an
// exit means, and when a program has failed. It knows nothing about what a program computes, how its state reaches the store (package
// program), and which machines there are (elasticity/fleet, under elasticity/restart's controller).
//
// Each start of a program is a numbered attempt. Reports of older attempts are ignored, so that only one of two machines running rank 0
// counts.
package programs

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/elasticity/restart"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/sched/trials"
)

// Config configures Work. Durations are in market time unless noted.
type Config struct {
	tempo.Settings
	Count int            // number of machines: ranks of a gang, or concurrent tasks
	Least int            // machines that a gang needs to start; 0 = Count
	Tasks int            // of an array; 0 = one program on all machines together
	Sweep *trials.Sweep  // the sweep whose trials the tasks are; nil = none
	Knobs []trials.Range // integer knobs of the program, tuned while it runs; none = not tuned
	Share float64        // share of the program's time that knob trials may lose
	// Elastic: in a gang only the rank on a lost machine restarts, like a task, and the others continue. Master is their coordinator, as
	// host:port; empty = none.
	Elastic bool
	Master  string
	Retries int   // after each program's own failures
	Of      int64 // the step at which a program is done; 0 = unknown
	// Length is a program's expected duration; 0 = unknown.
	Length time.Duration
	// State: programs have state that is mirrored, and are not done before the last of it has been.
	State bool

	Spec        []byte // program.Spec as JSON
	Secrets     map[string]string
	Heartbeat   time.Duration // wall clock
	OrphanAfter time.Duration // wall clock
	Grace       time.Duration // wall clock: from SIGTERM to SIGKILL
	// Orphaned is how long a program may keep running after its machine was given up or its controller lost, until it ends by itself. Until
	// then no other copy starts, unless the provider reports that the machine has ended. 0 = such programs end at once.
	Orphaned time.Duration
	// SaveWithin is how long a stopped program may take to end and to have its state mirrored.
	SaveWithin time.Duration
	// SaveEvery is the interval at which a gang of several ranks is saved, all ranks in a round; others save by themselves. 0 = never.
	SaveEvery time.Duration
	// StepEvery is the shortest time between two journal lines on one program's progress.
	StepEvery time.Duration
	// FirstID is above all command numbers of earlier controllers.
	FirstID uint64
	Past    *Past // nil = a new run
	// TakesOver: the previous controller did not end cleanly. The programs on its machines continue.
	TakesOver bool
}

// New returns a controller that runs programs on the machines of a restart.Config.
func New(machines restart.Config, cfg Config) *restart.Controller {
	return restart.NewForPrograms(machines, func(s *step.Step, f *fleet.Fleet, demand *fleet.Demand) restart.Work {
		return newWork(&cfg, s, f, demand)
	})
}

// programs returns how many start and end separately: tasks, or ranks of an elastic gang.
func (c *Config) programs() int {
	switch {
	case c.Tasks > 0:
		return c.Tasks
	case c.Elastic:
		return c.Count
	}
	return 1
}

// apart reports whether each program has one machine.
func (c *Config) apart() bool { return c.Tasks > 0 || c.Elastic }

// ranks returns the maximum number of machines of one program.
func (c *Config) ranks() int {
	if c.apart() {
		return 1
	}
	return c.Count
}

// least returns the number of machines that a gang needs to start.
func (c *Config) least() int {
	if c.Least > 0 {
		return min(c.Least, c.Count)
	}
	return c.Count
}

// Key names the state of a rank, or of a task.
func Key(tasks, number int) string {
	if tasks > 0 {
		return fmt.Sprintf("task-%d", number)
	}
	return fmt.Sprintf("rank-%d", number)
}

// saved is a program's mirrored state.
type saved struct {
	manifest string // empty = none
	digest   string
	step     int64
}

// savedStates tracks the newest state of a program that all its ranks have saved.
type savedStates struct {
	newest []saved  // of each rank
	rounds []uint64 // rounds in which they were saved since the set; 0 = none
	set    []saved
}

func newSavedStates(ranks int) savedStates {
	return savedStates{newest: make([]saved, ranks), rounds: make([]uint64, ranks), set: make([]saved, ranks)}
}

// resize sets the number of ranks of the next set. The current set stays until that is complete.
func (k *savedStates) resize(ranks int) {
	k.newest, k.rounds = make([]saved, ranks), make([]uint64, ranks)
	copy(k.newest, k.set)
}

// ofRank returns the state that a rank resumes from; a new rank has none.
func (k *savedStates) ofRank(rank int) saved {
	if rank < len(k.set) {
		return k.set[rank]
	}
	return saved{}
}

// last is the round of states that are saved when programs have ended.
const last = 1 << 52

// keep records a rank's state of a round, and reports whether this completes a new set.
func (k *savedStates) keep(rank int, s saved, round uint64) (complete bool) {
	k.newest[rank], k.rounds[rank] = s, round
	for _, other := range k.rounds {
		if other != round {
			return false
		}
	}
	k.set = slices.Clone(k.newest)
	clear(k.rounds)
	return true
}

// discardAttempt discards what an ended attempt had saved beyond the set.
func (k *savedStates) discardAttempt() { clear(k.rounds) }

// step returns the set's step: the minimum of the ranks that count steps.
func (k *savedStates) step() (least int64) {
	for _, s := range k.set {
		if s.step > 0 && (least == 0 || s.step < least) {
			least = s.step
		}
	}
	return least
}

func clock(n int64) ps.Clock { return ps.Clock(n) }
