package node

import (
	"fmt"
	"slices"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// The methods below are the commands that change what a worker does next. They return at once.

// assign takes splits over. Those without data wait for loaded.
func (w *worker) assign(splits []tiers.SplitAt, data func(ps.Split) apps.Split) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range splits {
		if w.splits[s.Split] != nil {
			return fmt.Errorf("split %d is assigned to this machine already", s.Split)
		}
	}
	for _, s := range splits {
		w.splits[s.Split] = &holding{next: s.Clock, data: data(s.Split), taken: true}
		w.preferLower(s.Clock)
	}
	w.signal()
	return nil
}

// loaded gives a split its data.
func (w *worker) loaded(id ps.Split, data apps.Split) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.splits[id]; h != nil && h.data == nil {
		h.data = data
		w.preferLower(h.next)
		w.signal()
	}
}

// failed takes a split back that could not be loaded.
func (w *worker) failed(id ps.Split) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.splits[id]; h != nil && h.data == nil {
		delete(w.splits, id)
	}
}

// preferLower breaks off a round that waits to begin a higher clock: it may wait for this very one.
func (w *worker) preferLower(c ps.Clock) {
	if w.round != nil && c < w.round.clock {
		w.breakOff()
	}
}

// release gives splits away: at once, but for those of rounds that have begun, which end first unless they may be dropped.
func (w *worker) release(ids []ps.Split, drop bool, answer func(tiers.Result, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fenced {
		answer(nil, errRolledBack)
		return
	}
	if drop {
		w.discard(ids)
	}
	l := &release{answer: answer}
	for _, id := range ids {
		if w.round != nil && slices.Contains(w.round.splits, id) {
			w.breakOff()
		}
		if !w.busy(id) {
			l.done = append(l.done, w.remove([]ps.Split{id})...)
			continue
		}
		if h := w.splits[id]; h != nil {
			h.leaving = true
		}
		l.waiting = append(l.waiting, id)
	}
	if l.waiting == nil {
		l.send()
		return
	}
	w.releases = append(w.releases, l)
}

// active returns the splits that the worker has.
func (w *worker) active() map[ps.Split]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(map[ps.Split]bool, len(w.splits))
	for id := range w.splits {
		out[id] = true
	}
	return out
}

// park stops the worker from beginning clocks and gives the highest one begun.
func (w *worker) park() ps.Clock {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parked = true
	w.breakOff()
	return w.begun
}

// unpark lets it begin clocks up to until.
func (w *worker) unpark(until ps.Clock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parked, w.until = false, until
	if w.round != nil && w.round.clock > until {
		w.breakOff()
	}
	w.signal()
}

// fence stops all work of generations before g until recover.
func (w *worker) fence(g ps.Generation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g > w.generation {
		w.giveUp()
	}
}

// enter takes a worker that has had no part in the job yet into a generation that began after its welcome: nothing of it
// has to return to the cut. One that takes part gets there by recover.
func (w *worker) enter(g ps.Generation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g > w.generation && len(w.splits) == 0 && !w.fenced {
		w.generation = g
	}
}

// recover goes on in generation g with these splits, all of them at the clock after the cut. What was parked or
// bounded before is so no longer.
func (w *worker) recover(g ps.Generation, cut ps.Clock, splits []ps.Split, data func(ps.Split) apps.Split) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.giveUp()
	w.fenced, w.parked, w.until = false, false, w.last
	w.generation, w.begun = g, cut
	w.splits = make(map[ps.Split]*holding, len(splits))
	for _, id := range splits {
		w.splits[id] = &holding{next: cut + 1, data: data(id)}
	}
	w.signal()
}

// stop ends run after the round that has begun.
func (w *worker) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopping = true
	w.breakOff()
	w.signal()
}

// present returns the generation that the worker is in.
func (w *worker) present() ps.Generation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.generation
}

// stock returns the splits that this worker holds, each with its first clock that does not count yet. A controller asks that has just
// been started: releases that wait for a round were asked for by the one before. They are dropped, since the splits are named
// here and nobody would hear that they were given away. Splits whose data is not here yet are dropped as well: nothing of them has
// begun, and nobody would hear if they cannot be loaded.
func (w *worker) stock() []tiers.SplitAt {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.releases {
		for _, id := range l.waiting {
			if h := w.splits[id]; h != nil {
				h.leaving = false
			}
		}
		l.answer(nil, errNewController)
	}
	w.releases = nil
	var out []tiers.SplitAt
	for _, id := range sortedSplits(w.splits) {
		if w.splits[id].data == nil {
			delete(w.splits, id)
			continue
		}
		at := tiers.SplitAt{Split: id, Clock: w.splits[id].next}
		if w.sending != nil && slices.Contains(w.sending.splits, id) {
			at.Clock = w.sending.clock
		}
		out = append(out, at)
	}
	return out
}
