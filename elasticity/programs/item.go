package programs

import (
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/sched/trials"
	"github.com/tierml/tierml/tiers"
)

// unit is a program: the gang's, or a task.
type unit struct {
	number   int
	ranks    []rank
	kept     savedStates
	attempt  uint64 // 0 = waiting for machines
	over     bool   // it has ended permanently
	ok       bool   // and well
	dropped  bool   // as a trial that is not among the best
	failures int
	cancel   string // why it should end permanently; empty = it should not

	ran   time.Duration // work done in the state that it resumes from
	since time.Time     // since when all ranks run; zero = they do not
	began time.Time     // the attempt
	ready time.Time     // since when all its ranks are running; zero = they are not
	// prepared is the longest time that a rank needed to fetch its folder and set up its machine.
	prepared time.Duration
	whole    bool // a complete state has just been saved
	late     bool // a long time without one has been recorded

	peers   []string // of an elastic gang's rank, as known to its machine
	orphans []orphan // copies of earlier attempts that may still run

	saveAt    time.Time // of the next round; zero = the machines save by themselves, or not at all
	round     uint64
	open      bool      // the round was requested, and is incomplete
	winding   time.Time // by Step.Awake, since when the attempt is being stopped gracefully; zero = it is not
	why       string    // it is
	suspected time.Time // by Step.Awake, since when an exit waits for its cause; zero = none does
	lineAt    time.Time // of the last journal line on its progress

	losses  []float64 // of a sweep's trial, at each rung reached
	verdict trials.Verdict
	started int // number of leading ranks that have started
}

// resize gives a waiting program this many ranks.
func (it *unit) resize(ranks int, cfg *Config) {
	if ranks == len(it.ranks) {
		return
	}
	it.ranks = make([]rank, ranks)
	for i := range it.ranks {
		it.ranks[i].key = Key(cfg.Tasks, it.number+i)
	}
	it.kept.resize(ranks)
}

// rank is one machine's part of a program's attempt.
type rank struct {
	key       string
	w         *worker
	startedAt time.Time // zero = it is not running yet
	exited    bool
	asked     bool // it ended because of a request
	code      int
	signal    string
	phase     string
	tail      string
	cpu, wait float64 // seconds of processor time, and of waiting for it; 0 = unknown
	memory    int64   // the most bytes held by one of its processes; 0 = unknown
	note      string  // the reason, if there is more to say than the exit code
	final     bool    // its last state is in the store
	unsaved   string  // why it is not
	step      int64
	resumed   int64    // the step of the state that it began with, until it reports a step; 0 = it has
	behind    bool     // it began before that step
	loss      *float64 // last reported, in any attempt, as in journals
}

// worker is a machine as seen by programs.
type worker struct {
	*step.Machine
	since   time.Time // by Step.Awake, since when its agent should call
	called  bool
	met     bool
	warned  bool      // its agent has received its notice
	heard   time.Time // by Step.Awake; zero = it has had no program yet, and sends no heartbeats
	broken  time.Time // by Step.Awake, since when its stream is broken; zero = it is not
	deaf    time.Time // by Step.Awake, since when the provider has announced its end but its own agent has not; zero = does not apply
	address string
	on      *unit // program that it runs; nil = none
	rank    int   // in that unit, when last looked up
	// While its controller takes over: whether it has called, the attempt that it named (0 = none), and its reports since.
	claims bool
	claim  uint64
	aside  []tiers.Report
}

func newItem(number int, cfg *Config) *unit {
	it := &unit{number: number, ranks: make([]rank, cfg.ranks()), kept: newSavedStates(cfg.ranks())}
	for i := range it.ranks {
		it.ranks[i].key = Key(cfg.Tasks, number+i)
	}
	return it
}

func (it *unit) running() bool { return it.attempt != 0 }
func (it *unit) waiting() bool {
	return it.attempt == 0 && !it.over && it.verdict.Decision == trials.Goes
}

// orphan is a copy of a program that no controller manages.
type orphan struct {
	w     *worker   // nil = its machine is unknown
	since time.Time // by Step.Awake
}

// orphaned records that a machine may still run a program.
func (it *unit) orphaned(w *Work, x *worker) {
	if w.cfg.Orphaned > 0 {
		it.orphans = append(it.orphans, orphan{x, w.Awake.Now()})
	}
}

// alone reports whether no copy of a program can still run.
func (it *unit) alone(w *Work) bool {
	it.orphans = slices.DeleteFunc(it.orphans, func(o orphan) bool {
		return o.w != nil && o.w.Ended && !o.w.Unlisted || w.Awake.Over(o.since, w.cfg.Orphaned)
	})
	return len(it.orphans) == 0
}

// quiet records that a machine's program has ended.
func quiet(items []*unit, x *worker) {
	for _, it := range items {
		it.orphans = slices.DeleteFunc(it.orphans, func(o orphan) bool { return o.w == x })
	}
}

// rankOf returns the rank that a machine runs; nil = none.
func (it *unit) rankOf(w *worker) *rank {
	if w.rank < len(it.ranks) && it.ranks[w.rank].w == w {
		return &it.ranks[w.rank]
	}
	for i := range it.ranks {
		if it.ranks[i].w == w {
			w.rank = i
			return &it.ranks[i]
		}
	}
	return nil
}

// some reports whether any machine of the attempt satisfies a condition.
func (it *unit) some(of func(*worker) bool) bool {
	for i := range it.ranks {
		if w := it.ranks[i].w; w != nil && of(w) {
			return true
		}
	}
	return false
}

// step returns the attempt's progress: the minimum of the ranks that count steps.
func (it *unit) step() (least int64) {
	for i := range it.ranks {
		if s := it.ranks[i].step; s > 0 && (least == 0 || s < least) {
			least = s
		}
	}
	return least
}

// well reports whether a rank has succeeded, and its final state is in the store.
func (r *rank) well(state bool) bool {
	return r.exited && r.code == 0 && !r.asked && r.phase == phaseRun && (r.final || !state)
}

// worked returns how much work is done so far, and how much of it is saved, as the time it takes on the maximum number of machines.
func (it *unit) worked(now time.Time, cfg *Config) (done, kept time.Duration) {
	done, kept = it.ran, it.ran
	if !it.since.IsZero() {
		done += now.Sub(it.since) * time.Duration(len(it.ranks)) / time.Duration(cfg.ranks())
	}
	return done, kept
}

// parts returns how much of a program is done and saved, in millionths.
func (it *unit) parts(now time.Time, cfg *Config) (done, kept int64) {
	if it.over {
		return whole, whole
	}
	if at, safe := it.step(), it.kept.step(); cfg.Of > 0 && max(at, safe) > 0 {
		return min(max(at, safe)*whole/cfg.Of, whole-1), min(safe*whole/cfg.Of, whole-1)
	}
	if cfg.Length <= 0 {
		return 0, 0
	}
	of := func(d time.Duration) int64 { return min(int64(float64(d)/float64(cfg.Length)*whole), whole-1) }
	worked, safe := it.worked(now, cfg)
	return of(worked), of(safe)
}

// whole is a program in the unit of parts.
const whole = 1_000_000

// Phases of an attempt, as machines name them.
const (
	phaseSetup = "setup"
	phaseRun   = "run"
)
