package training

import (
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Training is the state of the work.
//
// What may happen at the same time: partitions move, or a cut is outstanding, never both (decision 3). Moves start only when no cut, halt,
// settling or recovery is in progress, and a halt only when none of these nor a hand-over of splits is. A recovery starts at once and ends
// all others, because it returns everything to the committed cut anyway.
type Training struct {
	*step.Step
	cfg      *Config
	machines Machines

	// The parts, each of which knows only earlier ones.
	Nodes   *nodes
	Layout  *layout
	Load    *load
	Clocks  *clocks
	Saves   *saves
	Cuts    *cuts
	Silence *failureDetector

	// What is in progress; nil = none.
	Halt      *Halting
	Pause     Pausing
	Settle    *settling
	Recovery  *recovery
	adopting  *adoption // a run is being taken over
	endsAtCut bool      // the run ends at the committed cut: no clock begins
	tuned     tuned
	profile   profile

	ReadySince time.Time // when the first of the machines waiting to join was ready
	coming     int       // number of starting machines at the last check, minus those ready since
	Totals     Totals
}

// Totals are training's figures so far.
type Totals struct {
	Rollbacks int
	Lost      ps.Clock // clocks undone by roll-backs
}

// Resting reports whether the next event may find nothing to do.
func (t *Training) Resting() bool { return !t.Pending && !t.machines.PlanDue() && !t.Cuts.bareCut() }

// atRest reports whether nothing is due now apart from the consequences of the current event.
func (t *Training) atRest() bool { return t.Resting() && !t.Layout.Due && t.Now.Before(t.RestUntil) }

// snapshot is the state by which a later part of advance may cause work for an earlier one.
type snapshot struct {
	recovery *recovery
	settle   *settling
	halt     *Halting
	cut      *cut
	adopting *adoption
	standing bool // then waiting transient machines may join
	done     bool // undone by a roll-back
	resting  bool
	relayout bool
	handing  bool
}

// Snapshot is compared before and after.
func (t *Training) Snapshot() snapshot {
	return snapshot{t.Recovery, t.Settle, t.Halt, t.Cuts.Cut, t.adopting, t.Layout.Standing(), t.Clocks.Over(), t.Pause.AtRest, t.Layout.Due, t.Layout.HandingOver()}
}

// changes reports whether processing something has changed the snapshot, or led to actions.
func (t *Training) changes(take func()) bool {
	acts, before := t.Acts, t.Snapshot()
	take()
	return t.Acts != acts || t.Snapshot() != before
}

func (t *Training) wantsHalt() bool {
	return t.Layout.Standing() && (t.Stop != "" || t.Clocks.Over() || t.Cuts.flushesAll() || t.Pause.wanted())
}

func (t *Training) layOut() {
	t.Layout.Due = false
	if t.Layout.Standing() && t.Recovery == nil && !t.Ending {
		t.loadAhead()
		t.Load.layOut()
	}
}

// adoption is the take-over of a run. The journal has the decisions (Past). The present state is known to the provider and the machines,
// which have trained on meanwhile.
//
// Invariant: until it ends there is no route (Standing), so no partition moves and no cut is named. Purchases only repeat requests in the
// journal, and no new machine joins.
//
//  1. The provider lists the run's machines (Surveyed): those of launches without an answer in the journal are entered, those without a
//     launch ended.
//  2. Each machine calls, and answers TakeStock: what it owns, backs up and works on. Members have adoptWithin to call.
//  3. putTogether merges the answers (survey). Where a move or a hand-over may have ended between two answers, it requests all answers
//     again, at most maxAsked times.
//  4. If they agree, goOn continues from that state and nothing is repeated. Otherwise startRecovery returns everything to the committed cut,
//     or startOver to a checkpoint where no machine is left.
//
// Machines may be behind the journal, never ahead of it: the `cut` line is written before CommitCut is sent. So goOn repeats CommitCut for
// a machine that does not know of it, withdraws cuts that were named and not committed, and unparks all, as a halt may have been in
// progress. If this controller dies, too, the next begins with step 1: until step 4 machines are only queried, or given up, which the
// journal records.
type adoption struct {
	since   time.Time // by Step.Awake
	stocks  map[ps.ServerID]tiers.Stock
	members []ps.ServerID // that took part, according to the journal
	asked   int           // how often all machines were queried again
	// All machines were queried again after all had answered. Before that, an owner may have answered while a split was still with a worker
	// that released it meanwhile and answered later: the owner's mark may miss that worker's last clock.
	confirmed bool
}

// Halting brings all work to rest at one committed cut, so that no clock is repeated.
//
// Invariant: a machine that has answered Park begins no clock until Unpark, and the cut is at or beyond every clock begun.
//
//  1. haltParking: every reachable machine is sent Park and answers with the highest clock it has begun. The splits of dead
//     workers are settled first, since what they committed counts.
//  2. haltCutting: the highest answer is the clock of the cut. Unpark allows workers that are behind to reach it.
//  3. The cut is committed. Flush: haltPromoting makes the backups owners of what warned machines served. ending: haltExporting
//     saves the model, and retries while the machines may hold its only copy. pausing: as Flush, for what any transient machine served.
//  4. Flush: when all backups have answered, the route is announced and work continues in stage 1. pausing: it does not.
//
// A halt starts only with no move, hand-over, cut, settling or recovery in progress. Losing an owner ends it by a recovery.
//
// Rejected: continuing as each backup is promoted. A backup that has not learned of its promotion would send workers to the former owner,
// and their work there would be lost.
type Halting struct {
	Purpose purpose
	why     string
	phase   haltPhase
	parking map[ps.ServerID]bool // members that have not answered
	begun   ps.Clock
	fresh   bool      // it has committed a cut of its own
	failing time.Time // since when the export fails; zero = it has not failed
	failure string    // the newest in the journal
	Retry   time.Time // when to retry the export; zero = one is in progress
}

type purpose int

const (
	Flush   purpose = iota // end-of-life: the reliable machines take over from the cut
	ending                 // the run ends here, finished or not
	pausing                // the reliable machines take over from the cut, and workers rest
)

type haltPhase int

const (
	haltParking haltPhase = iota
	haltCutting
	haltPromoting
	haltExporting
)

// recovery returns everything to the last committed cut after the loss of an owner.
//
// Invariant: no server serves two generations, and the rollback line is durable before any machine returns.
//
//  1. fence: the generation grows, and every reachable machine stops serving older ones and reports what it holds. Answers to
//     earlier commands no longer count.
//  2. goBack chooses the server of each partition: its owner, if it lives, is not warned and can undo to the cut; otherwise a
//     backup that holds the cut, committed or delivered. If none does, startOver returns to the newest checkpoint.
//  3. The rollback line is written, and all are sent Recover.
//  4. When all have answered, ordinary moves spread the partitions again.
//
// Another loss meanwhile sets again, and the procedure restarts with the next generation.
//
// Rejected: restoring only the lost partitions. The others are ahead of the cut, and all partitions must be at the same one (promise 2 of
// docs/training.md).
type recovery struct {
	why       string
	fencing   map[ps.ServerID]bool
	Holdings  map[ps.ServerID]tiers.Holdings
	returning bool
	again     bool // a machine was lost meanwhile: restart with the next generation
}

// settling reassigns the splits of a dead worker that served nothing.
//
// Invariant: its last contribution counts in every partition or in none.
//
//  1. Every owner and backup fences its incarnation and reports what it knows of it. Backups too: the dead may only be
//     silent, and find one promoted when it wakes up.
//  2. If any partition has committed the contribution, the worker had seen it staged in all, and all commit; otherwise all discard.
//  3. Only then do its splits continue elsewhere, each after its highest mark. With staleness nothing else would keep a split's
//     next clock from arriving before the one being settled.
//
// It needs no roll-back, which would repeat clocks of all workers for the loss of one.
type settling struct {
	dead      ps.ServerID
	fencing   map[ps.ServerID]bool
	standings []tiers.Standing
	ending    bool
}
