// Package programs runs users' programs on machines that come and go: one program on all machines together (a gang), or an
// array of tasks, one per machine. When a machine is lost, its program restarts from its newest state. The package decides
// which machine runs what, what an exit means, and when a program has failed. It knows nothing about what a program computes,
// how its state reaches the store (package program), and which machines there are (elasticity/fleet, under elasticity/restart's
// controller).
//
// Each start of a program is a numbered attempt. Reports of older attempts are ignored, so that of two machines that both run
// rank 0 only one counts.
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

// Config configures Work. Durations are market time unless said otherwise.
type Config struct {
	tempo.Settings
	Count int            // of machines: ranks of a gang, or tasks at a time
	Least int            // machines that a gang starts on; 0 = Count
	Tasks int            // of an array; 0 = one program on all machines together
	Sweep *trials.Sweep  // whose trials the tasks are; nil = they are no trials
	Knobs []trials.Range // of the program, of whole numbers, which are sought while it runs; none = it has none
	Share float64        // of the program's time that trials of its knobs may lose
	// Elastic: of a gang only the rank on a lost machine starts again, as a task would, and the others run on. Master is the coordinator that
	// they meet at, as host:port; empty = none.
	Elastic bool
	Master  string
	Retries int   // after failures of a program's own, each
	Of      int64 // the step at which a program is done; 0 = unknown
	// Length is how long a program is expected to take; 0 = unknown.
	Length time.Duration
	// State: programs have state that is mirrored, and are not done before the last of it is.
	State bool

	Spec        []byte // program.Spec as JSON
	Secrets     map[string]string
	Heartbeat   time.Duration // wall clock
	OrphanAfter time.Duration // wall clock
	Grace       time.Duration // wall clock: from SIGTERM to SIGKILL
	// Orphaned is how long a program may run on after its machine was given up or its controller lost, until it has ended by itself. Until then no
	// other copy of it starts, unless the provider says that the machine is gone. 0 = such programs end at once.
	Orphaned time.Duration
	// SaveWithin is how long a program that is stopped may take to end and to have its state mirrored.
	SaveWithin time.Duration
	// SaveEvery is how often a gang of several ranks is saved, all ranks in a round; others save by themselves. 0 = never.
	SaveEvery time.Duration
	// StepEvery is the shortest time between two journal lines on one program's progress.
	StepEvery time.Duration
	// FirstID is beyond all numbers of commands of earlier controllers.
	FirstID uint64
	Past    *Past // nil = the run begins
	// TakesOver: the controller before did not end in order. What its machines run continues.
	TakesOver bool
}

// New returns a controller that runs programs on the machines of a restart.Config.
func New(machines restart.Config, cfg Config) *restart.Controller {
	return restart.NewForPrograms(machines, func(s *step.Step, f *fleet.Fleet, demand *fleet.Demand) restart.Work {
		return newWork(&cfg, s, f, demand)
	})
}

// programs returns how many start and end by themselves: tasks, or ranks of an elastic gang.
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

// ranks returns how many machines one program runs on at the most.
func (c *Config) ranks() int {
	if c.apart() {
		return 1
	}
	return c.Count
}

// least returns how many machines a gang starts on.
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
	rounds []uint64 // in which they were saved since the set; 0 = they were not
	set    []saved
}

func newSavedStates(ranks int) savedStates {
	return savedStates{newest: make([]saved, ranks), rounds: make([]uint64, ranks), set: make([]saved, ranks)}
}

// resize makes the next set one of this many ranks. The present one stays until that is complete.
func (k *savedStates) resize(ranks int) {
	k.newest, k.rounds = make([]saved, ranks), make([]uint64, ranks)
	copy(k.newest, k.set)
}

// of returns what a rank resumes from: a new one has nothing.
func (k *savedStates) of(rank int) saved {
	if rank < len(k.set) {
		return k.set[rank]
	}
	return saved{}
}

// last is the round of states that are saved when programs have ended.
const last = 1 << 52

// keep notes a rank's state of a round, and reports whether the ranks have a complete new set by it.
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

// again forgets what an ended attempt had saved beyond the set.
func (k *savedStates) again() { clear(k.rounds) }

// step returns the one that the set holds: the least of the ranks that count any.
func (k *savedStates) step() (least int64) {
	for _, s := range k.set {
		if s.step > 0 && (least == 0 || s.step < least) {
			least = s.step
		}
	}
	return least
}

func clock(n int64) ps.Clock { return ps.Clock(n) }
