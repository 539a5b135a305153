package elasticity

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// killController ends the controller between two steps, and after a time starts another one, which knows only the journal. Machines train
// on, and the provider keeps acting.
func (w *world) killController(gone time.Duration) {
	if w.absent || w.outcome != "" {
		return
	}
	w.absent, w.stopped, w.missed = true, false, nil
	w.after(gone, func() {
		past, err := ReadPast(w.entries)
		if err != nil {
			w.failf("reading the journal: %v", err)
		}
		w.absent, w.wakeAt = false, time.Time{}
		w.clock = max(w.wall, w.entries[len(w.entries)-1].T.Sub(w.now)) // a run's time never goes back
		w.life++
		cfg := w.config()
		cfg.Run, cfg.FirstID, cfg.Past = "test"+string(rune('a'+w.life)), uint64(w.life)<<32, past
		if w.ctrl.training.Saves.Newest != "" {
			cfg.Checkpoints.Newest, cfg.Checkpoints.NewestAt = w.newestCheckpoint()
			cfg.Checkpoints.Older = w.olderCheckpoints(cfg.Checkpoints.Newest)
		}
		cfg.Checkpoints.Life = string(rune('1' + w.life))
		before := w.ctrl
		w.ctrl = New(cfg)
		if w.crash == nil { // otherwise it died in the middle of a step, and some of its state is not in the journal
			w.checkMemory(before)
		}
		w.step(Wake{})
		w.after(w.delay(500*time.Millisecond), w.tellList)
		for _, n := range w.order {
			w.after(w.delay(time.Second), n.attach)
		}
	})
}

// tellList sends the controller the answer that the provider gives to a listing.
func (w *world) tellList() {
	w.list()
	w.after(3*time.Second, func() { w.step(PricesKnown{At: w.time()}) })
	for _, n := range w.order {
		if n.warned && n.instance.State != provisioner.Terminated {
			w.step(Warned{ID: n.id, Deadline: n.deadline})
		}
	}
}

// list sends the controller the machines that exist, as far as the provider knows everywhere.
func (w *world) list() {
	var all []provisioner.Instance
	for _, n := range w.order {
		if w.now.Sub(n.made) >= w.cloud.hidden {
			all = append(all, n.instance)
		}
	}
	w.step(Listed{Instances: all, Asked: w.time()})
}

func (w *world) listNowAndThen() {
	w.after(time.Second, func() {
		if w.outcome == "" {
			w.list()
			if w.clock < 0 {
				w.step(PricesKnown{At: w.time()})
			}
			w.listNowAndThen()
		}
	})
}

// crashes kills the controller at the point of a plan.
func (w *world) crashes(a Action, after bool) bool {
	if w.crash == nil || w.outcome != "" {
		return false
	}
	gone := w.crash(a, after)
	if gone > 0 {
		w.killController(gone)
	}
	return gone > 0
}

// attach calls the restarted controller, and then sends the reports that were kept.
func (n *node) attach() {
	switch {
	case n.dead || !n.booted || n.w.absent || n.life == n.w.life:
	case n.closed():
		n.w.after(100*time.Millisecond, n.attach)
	default:
		n.life = n.w.life
		n.hello()
		kept := n.kept
		n.kept = nil
		for _, r := range kept {
			n.report(r)
		}
	}
}

func (n *node) takeStock(id uint64) {
	if len(n.leaving) > 0 || slices.ContainsFunc(n.owned(), func(p ps.Partition) bool { return n.shards[p].Moving() }) {
		n.soon(func() { n.takeStock(id) })
		return
	}
	s := tiers.Stock{Generation: n.generation, Suspended: n.suspended, Version: n.route.Version, Named: n.cut}
	for _, p := range n.owned() {
		s.Owned = append(s.Owned, n.shards[p].Status())
	}
	s.Backups = n.holdings()
	s.Splits = n.agent.Stock()
	for split := range n.w.schema.Splits {
		s.Loaded = append(s.Loaded, ps.Split(split))
	}
	n.answer(id, nil, s)
}

// olderCheckpoints returns the other checkpoints, damaged or not, the newest first.
func (w *world) olderCheckpoints(than string) (older []Kept) {
	for _, name := range slices.Sorted(maps.Keys(w.store.manifests)) {
		if at := w.store.manifests[name]; name != than && at <= w.store.manifests[than] {
			older = append(older, Kept{Name: name, At: at})
		}
	}
	slices.SortStableFunc(older, func(a, b Kept) int { return int(b.At - a.At) })
	return older
}

func (w *world) newestCheckpoint() (name string, at ps.Clock) {
	for manifest, cut := range w.store.manifests {
		if cut > at && !w.store.damaged[manifest] { // it is read as a whole before a run continues
			name, at = manifest, cut
		}
	}
	return name, at
}

// The controller dies midway and is restarted: training has continued, nothing is repeated, no machine is lost or bought twice.
func TestControllerComesBack(t *testing.T) {
	both(t, func(w *world) func() bool {
		var at, back ps.Clock
		launches := 0
		w.settled(func() {
			at, launches = w.ctrl.training.Clocks.Done, w.count(journal.Launch)
			w.killController(2 * time.Second)
		})
		w.neverBack()
		w.onEntryAlso(func(e journal.Entry) {
			if e.Kind == journal.TakeOver {
				w.after(time.Millisecond, func() { back = w.ctrl.training.Clocks.Done })
			}
		})
		return func() bool {
			return back > at+3 && w.count(journal.Launch) == launches && w.count(journal.TakeOver) == 1
		}
	})
}

// onEntryAlso adds a listener.
func (w *world) onEntryAlso(f func(journal.Entry)) {
	before := w.onEntry
	w.onEntry = func(e journal.Entry) {
		if before != nil {
			before(e)
		}
		f(e)
	}
}
