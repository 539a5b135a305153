package agent

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Worker decides which clocks a node works on. Its user requests a round (Choose), fetches the rows, and reports when the round begins
// (Begin), is computed (Computed) and counts (Counted).
//
// Invariants:
//   - A split's clock has begun when its rows have been read. Until then the wait for other splits can be broken off; what has
//     begun counts before its split is given away, or is discarded as if it had not.
//   - The lowest clock goes first: rows that a worker waits for may need an old split which it has itself (docs/training.md).
//   - A round that was dropped counts for nothing, whenever its user notices.
type Worker struct {
	Incarnation ps.Incarnation // 0 before the first Welcome
	Generation  ps.Generation
	Last        ps.Clock // the job's last clock
	Until       ps.Clock // no later clock is begun for now
	Begun       ps.Clock // highest clock begun
	Passes      bool     // it does its own split and passes over the others, which takes no time
	Round       *Round   // waits for its rows, or computes; nil = none
	Sending     *Round   // computed, and on its way to the servers; nil = none

	parked   bool
	standby  bool // only begins clocks that an Unpark names: see StandBy
	fenced   bool // the generation has ended: waits for Recover
	stopping bool
	splits   []holding // sorted
	found    int       // index of the split that was found last: commands list them in order
	releases []*release
	report   func(tiers.Report)
	here     func(ps.Split) any
}

// holding is a split that this worker works on.
type holding struct {
	id      ps.Split
	next    ps.Clock // first clock not computed
	data    any      // nil while it is being loaded
	in      *Round   // the newest round that includes it
	taken   bool     // taken over from another worker, and not begun since
	leaving bool     // begins no more clocks
	gone    bool     // was just given back
}

// Round is one clock of a group of splits.
type Round struct {
	Generation ps.Generation
	Clock      ps.Clock
	Splits     []ps.Split // in order
	Taken      bool       // some split is new here: earlier reads may lack its previous worker's contributions
	Begun      bool       // the rows are here
	Dropped    bool       // its result does not count
	Cancel     func()     // called when it is dropped, unless nil
}

// release is a Release that waits for rounds in progress.
type release struct {
	command uint64
	waiting []ps.Split
	done    []tiers.SplitAt
}

// smallRound is a round with the memory for its splits: most workers have few.
type smallRound struct {
	Round
	few [fewSplits]ps.Split
}

const fewSplits = 8

func (r *Round) has(id ps.Split) bool {
	if r == nil {
		return false
	}
	_, found := slices.BinarySearch(r.Splits, id)
	return found
}

func (r *Round) drop() {
	r.Dropped = true
	if r.Cancel != nil {
		r.Cancel()
	}
}

// find looks first at the end, where new splits are mostly added, and at the two places where a list in order continues.
func (w *Worker) find(id ps.Split) (at int, found bool) {
	n := len(w.splits)
	if n == 0 || w.splits[n-1].id < id {
		return n, false
	}
	for at = w.found; at <= w.found+1 && at < n; at++ {
		if w.splits[at].id == id {
			w.found = at
			return at, true
		}
	}
	if at, found = w.search(id); found {
		w.found = at
	}
	return at, found
}

func (w *Worker) search(id ps.Split) (at int, found bool) {
	return slices.BinarySearchFunc(w.splits, id, func(h holding, id ps.Split) int { return cmp.Compare(h.id, id) })
}

func (w *Worker) get(id ps.Split) *holding {
	if at, found := w.find(id); found {
		return &w.splits[at]
	}
	return nil
}

// add accepts a split and reports whether its data is here.
func (w *Worker) add(id ps.Split, next ps.Clock, taken bool) bool {
	h := holding{id: id, next: next, data: true, taken: taken}
	if w.here != nil {
		h.data = w.here(id)
	}
	at, _ := w.find(id)
	w.splits = slices.Insert(w.splits, at, h)
	return h.data != nil
}

// Splits lists the splits that are worked on here, in order.
func (w *Worker) Splits() []ps.Split {
	ids := make([]ps.Split, len(w.splits))
	for i := range w.splits {
		ids[i] = w.splits[i].id
	}
	return ids
}

// Data returns the data of a split that is worked on here, from Here or Loaded.
func (w *Worker) Data(id ps.Split) any { return w.get(id).data }

// assign accepts splits and returns those whose data has to be loaded first.
func (w *Worker) assign(splits []tiers.SplitAt) (missing []ps.Split, err error) {
	for _, s := range splits {
		if w.get(s.Split) != nil {
			return nil, fmt.Errorf("split %d is assigned to this machine already", s.Split)
		}
	}
	w.splits = slices.Grow(w.splits, len(splits))
	for _, s := range splits {
		if !w.add(s.Split, s.Clock, true) {
			missing = append(missing, s.Split)
		}
		w.preferLower(s.Clock)
	}
	return missing, nil
}

// Loaded sets a split's data.
func (w *Worker) Loaded(id ps.Split, data any) {
	if h := w.get(id); h != nil && h.data == nil {
		h.data = data
		w.preferLower(h.next)
	}
}

// NotLoaded drops a split whose data cannot be loaded.
func (w *Worker) NotLoaded(id ps.Split) {
	if at, found := w.find(id); found && w.splits[at].data == nil {
		w.splits = slices.Delete(w.splits, at, at+1)
	}
}

// preferLower aborts a round that waits to begin a higher clock: it may wait for this very one.
func (w *Worker) preferLower(c ps.Clock) {
	if w.Round != nil && c < w.Round.Clock {
		w.breakOff()
	}
}

// breakOff ends the current round if it has not begun.
func (w *Worker) breakOff() {
	if w.Round != nil && !w.Round.Begun {
		w.Round.drop()
		w.Round = nil
	}
}

// release gives splits away, with the first clock of each that was not begun: at once, except for those of rounds that have begun, which
// end first unless they may be dropped.
func (w *Worker) release(command uint64, ids []ps.Split, drop bool) {
	if w.fenced {
		w.report(answer(command, nil, errRolledBack))
		return
	}
	l := &release{command: command, waiting: ids}
	for _, id := range ids {
		if w.Round.has(id) {
			w.breakOff()
		}
		if h := w.get(id); h != nil {
			h.leaving = true
		}
	}
	if drop {
		w.discard()
	}
	if !w.hand(l) {
		w.releases = append(w.releases, l)
	}
}

// hand gives away the resting splits of a release, and answers it when none is left.
func (w *Worker) hand(l *release) bool {
	var busy []ps.Split
	for _, id := range l.waiting {
		if w.busy(id) {
			busy = append(busy, id)
		} else if h := w.get(id); h != nil && !h.gone {
			h.gone = true
			l.done = append(l.done, tiers.SplitAt{Split: id, Clock: h.next})
		}
	}
	w.splits = slices.DeleteFunc(w.splits, func(h holding) bool { return h.gone })
	if l.waiting = busy; busy != nil {
		return false
	}
	slices.SortFunc(l.done, func(a, b tiers.SplitAt) int { return cmp.Compare(a.Split, b.Split) })
	w.report(tiers.Answer{ID: l.command, Result: tiers.Released{Splits: l.done}})
	return true
}

// Releasing reports whether a Release waits for rounds in progress.
func (w *Worker) Releasing() bool { return len(w.releases) > 0 }

// busy reports whether a split's work has begun and does not count yet.
func (w *Worker) busy(id ps.Split) bool {
	return w.Sending.has(id) || w.Round != nil && w.Round.Begun && w.Round.has(id) || w.behind(w.get(id))
}

// behind reports whether a split is at a clock that this worker has begun with another, and will soon pass over it. Then it is not given
// away before: its new worker would compute that clock from the beginning, and all others would wait.
func (w *Worker) behind(h *holding) bool {
	return w.Passes && h != nil && h.data != nil && !h.gone && h.next <= min(w.Begun, w.Until) && !w.parked && !w.fenced && !w.stopping
}

// StandBy makes the worker hold splits for which there is no other machine, without working on them: it only begins clocks up to which all
// work is brought to rest.
func (w *Worker) StandBy() { w.standby, w.parked = true, true }

// park stops the worker from beginning clocks and returns the highest one begun.
func (w *Worker) park() ps.Clock {
	w.parked = true
	w.breakOff()
	w.releases = slices.DeleteFunc(w.releases, w.hand) // of splits that had to pass over a clock first
	return w.Begun
}

// unpark allows it to begin clocks up to until.
func (w *Worker) unpark(until ps.Clock) {
	w.parked, w.Until = false, until
	if w.Round != nil && w.Round.Clock > until {
		w.breakOff()
	}
}

// fence stops all work of generations before g until Recover.
func (w *Worker) fence(g ps.Generation) {
	if g > w.Generation {
		w.GiveUp()
	}
}

// GiveUp ends all work of the generation, which has ended.
func (w *Worker) GiveUp() {
	w.fenced = true
	w.Drop()
	w.forgetReleases(errRolledBack)
}

// discard ends the round being computed, if any of its splits is leaving: no part of it has left this machine, and its result does not
// depend on the machine that computes it. Splits of an earlier Release count as well. The controller requests splits as their takers become
// ready, and only the last release can tell that waiting costs more; considering only that one's splits let a machine that computes a
// hundred times slower hold up the fleet for a whole clock. An earlier round on its way to the servers counts.
func (w *Worker) discard() {
	r := w.Round
	if r == nil || !r.Begun || !slices.ContainsFunc(r.Splits, w.leaving) {
		return
	}
	r.drop()
	w.Round = nil
	w.releases = slices.DeleteFunc(w.releases, w.hand) // may have waited for it
}

func (w *Worker) leaving(id ps.Split) bool {
	h := w.get(id)
	return h != nil && h.leaving
}

// Drop ends the rounds in progress, in any phase. They may take a while to notice, but are not awaited, and their clocks say nothing about
// the splits.
func (w *Worker) Drop() {
	for _, r := range []*Round{w.Round, w.Sending} {
		if r != nil {
			r.drop()
		}
	}
	w.Round, w.Sending = nil, nil
}

func (w *Worker) forgetReleases(why error) {
	for _, l := range w.releases {
		w.report(answer(l.command, nil, why))
	}
	w.releases = nil
}

// enter moves a worker that has had no part in the job yet into a generation that began after its Welcome: it has nothing to return to the
// cut. One that takes part gets there by Recover.
func (w *Worker) enter(g ps.Generation) {
	if g > w.Generation && len(w.splits) == 0 && !w.fenced {
		w.Generation = g
	}
}

// recover continues in a generation with these splits, all at the clock after the cut, and returns those whose data has to be loaded first.
// Earlier parking and bounds no longer apply.
func (w *Worker) recover(g ps.Generation, cut ps.Clock, ids []ps.Split) (missing []ps.Split) {
	w.GiveUp()
	w.fenced, w.parked, w.Until = false, w.standby, w.Last
	w.Generation, w.Begun = g, cut
	w.splits = slices.Grow(w.splits[:0], len(ids))
	for _, id := range ids {
		if !w.add(id, cut+1, false) {
			missing = append(missing, id)
		}
	}
	return missing
}

// Stop ends the choice of rounds.
func (w *Worker) Stop() {
	w.stopping = true
	w.breakOff()
}

// Over reports whether Stop was called and nothing is in progress.
func (w *Worker) Over() bool { return w.stopping && w.Round == nil && w.Sending == nil }

// Stock returns the splits that this worker holds, each with its first clock that does not count yet. Only a restarted controller asks:
// releases that wait for a round belong to its predecessor. They are dropped, since the splits are listed here and no machine would learn
// that they were given away. Splits whose data is not here yet are dropped as well: none has begun, and no machine would learn if they
// cannot be loaded.
func (w *Worker) Stock() (held []tiers.SplitAt) {
	w.forgetReleases(errNewController)
	w.splits = slices.DeleteFunc(w.splits, func(h holding) bool { return h.data == nil })
	for i := range w.splits {
		h := &w.splits[i]
		h.leaving = false
		at := tiers.SplitAt{Split: h.id, Clock: h.next}
		if w.Sending.has(h.id) {
			at.Clock = w.Sending.Clock
		}
		held = append(held, at)
	}
	return held
}

// turn returns the clock that a split can do after a round has been computed (nil: now); 0 = none.
func (w *Worker) turn(h *holding, after *Round) ps.Clock {
	next := h.next
	if after != nil && h.in == after {
		next = after.Clock + 1
	}
	if h.data == nil || h.leaving && (after != nil || !w.behind(h)) || next > w.Until {
		return 0
	}
	return next
}

// Lowest returns the lowest clock that can be done after a round has been computed (nil: now); 0 = none.
func (w *Worker) Lowest(after *Round) (clock ps.Clock) {
	for i := range w.splits {
		if c := w.turn(&w.splits[i], after); c > 0 && (clock == 0 || c < clock) {
			clock = c
		}
	}
	return clock
}

// After returns the round of the splits that are furthest behind once a round has been computed (nil: now); nil = none.
func (w *Worker) After(round *Round) *Round {
	var r *Round
	var splits []ps.Split
	if len(w.splits) <= fewSplits {
		one := &smallRound{}
		r, splits = &one.Round, one.few[:0]
	} else {
		r = &Round{}
	}
	r.Generation = w.Generation
	for i := range w.splits {
		h := &w.splits[i]
		clock := w.turn(h, round)
		if clock == 0 || len(r.Splits) > 0 && clock > r.Clock {
			continue
		}
		if r.Splits == nil {
			if r.Splits = splits; splits == nil {
				r.Splits = make([]ps.Split, 0, len(w.splits)-i)
			}
		}
		if clock != r.Clock {
			r.Clock, r.Splits, r.Taken = clock, r.Splits[:0], false
		}
		r.Splits, r.Taken = append(r.Splits, h.id), r.Taken || h.taken
	}
	if r.Splits == nil {
		return nil
	}
	return r
}

// Choose returns a round to do; nil = there is none, or one is in progress.
func (w *Worker) Choose() *Round {
	if !w.idle() {
		return nil
	}
	r := w.After(nil)
	if r != nil {
		for i, id := 0, 0; id < len(r.Splits); i++ {
			if h := &w.splits[i]; h.id == r.Splits[id] {
				h.in = r
				id++
			}
		}
	}
	w.Round = r
	return r
}

// Ready returns the clock of the round that Choose would return; 0 = none.
func (w *Worker) Ready() ps.Clock {
	if !w.idle() {
		return 0
	}
	return w.Lowest(nil)
}

func (w *Worker) idle() bool { return !w.stopping && !w.parked && !w.fenced && w.Round == nil }

// Begin marks a round as begun, as its rows are here; false if it was aborted before.
func (w *Worker) Begin(r *Round) bool {
	if r.Dropped {
		return false
	}
	r.Begun = true
	for i := range w.splits {
		if h := &w.splits[i]; h.in == r {
			h.taken = false
		}
	}
	w.Begun = max(w.Begun, r.Clock)
	return true
}

// Computed marks a round as on its way to the servers; false if its generation has ended.
func (w *Worker) Computed(r *Round) bool {
	if r.Dropped {
		return false
	}
	w.Round, w.Sending = nil, r
	for i := range w.splits {
		if h := &w.splits[i]; h.in == r {
			h.next = r.Clock + 1
		}
	}
	return true
}

// Counted records that a round counts. The worker's report about it comes before the answers to releases that have waited.
func (w *Worker) Counted(r *Round, progress tiers.Report) {
	if w.Sending == r {
		w.Sending = nil
	}
	if r.Dropped {
		return
	}
	if progress != nil {
		w.report(progress)
	}
	w.releases = slices.DeleteFunc(w.releases, w.hand)
}

// Interrupt stops a round that has begun, for users that can divide a clock: the rest of it begins again.
func (w *Worker) Interrupt() {
	w.Round.Begun, w.Begun = false, 0
	w.breakOff()
	for i := range w.splits {
		w.Begun = max(w.Begun, w.splits[i].next-1)
	}
}

// Skip records that n clocks have begun and counted, all with the splits of the current round, which are all there are here.
func (w *Worker) Skip(clocks ps.Clock) {
	w.Round.Clock, w.Begun = w.Round.Clock+clocks, w.Begun+clocks
	for i := range w.splits {
		w.splits[i].next += clocks
	}
}
