package elasticity

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
)

// check reports whether a run kept its promises. Reads, recovered partitions and the exported model are checked during the run
// (toy_test.go): exactly once, exact state and the same answer. Here the journal is checked.
func (w *world) check(outcomes ...string) error {
	if !slices.Contains(outcomes, w.outcome) {
		return fmt.Errorf("outcome %q: %s\n%s", w.outcome, w.entries[len(w.entries)-1].Why, w.describe())
	}
	if w.outcome == "finished" && w.exported != ps.Clock(w.shape.clocks) {
		return fmt.Errorf("finished, and the last export was at clock %d of %d", w.exported, w.shape.clocks)
	}
	for _, check := range []func() error{w.checkMachines, w.checkClocks, w.checkOrder, w.checkSaves} {
		if err := check(); err != nil {
			return fmt.Errorf("%w\n%s", err, w.describe())
		}
	}
	return nil
}

// checkMachines: every machine that the provider gave has ended, and the journal has its whole life and its bill.
func (w *world) checkMachines() error {
	for _, n := range w.order {
		if n.instance.State != provisioner.Terminated {
			return fmt.Errorf("%s runs on after the end", n.id)
		}
		life := map[journal.Kind]int{}
		var ended *journal.Entry
		for i := range w.entries {
			e := &w.entries[i]
			if e.Instance != string(n.id) {
				continue
			}
			life[e.Kind]++
			if e.Kind != journal.Launch && life[journal.Launch] == 0 {
				return fmt.Errorf("%s: %q before its launch", n.id, e.Kind)
			}
			if e.Kind == journal.Leave && life[journal.Join] != life[journal.Leave] {
				return fmt.Errorf("%s leaves without having joined", n.id)
			}
			if e.Ended != nil {
				if ended != nil {
					return fmt.Errorf("%s ends twice", n.id)
				}
				ended = e
			}
		}
		switch {
		case life[journal.Launch] != 1 || life[journal.Join] > 1 || life[journal.Join] != life[journal.Leave]:
			return fmt.Errorf("%s: %d launches, %d joins, %d leaves", n.id, life[journal.Launch], life[journal.Join], life[journal.Leave])
		case ended == nil || !ended.Ended.Equal(n.instance.Ended) || ended.EndedBy != string(n.instance.EndedBy):
			return fmt.Errorf("%s: its end is not in the journal as it was: %+v", n.id, ended)
		case !n.crashed && ended.Kind != w.kindOfEnd(n, life):
			return fmt.Errorf("%s: ended as %q, which is a case of %q", n.id, ended.Kind, w.kindOfEnd(n, life))
		case life[journal.Charge] == 0:
			return fmt.Errorf("no bill for %s", n.id)
		}
	}
	return nil
}

// kindOfEnd: machines that the provider warned are evicted, we terminate, and everything else is a failure.
func (w *world) kindOfEnd(n *node, life map[journal.Kind]int) journal.Kind {
	switch {
	case n.instance.EndedBy == "user":
		return journal.Terminated
	case life[journal.Notice] > 0:
		return journal.Evicted
	}
	return journal.Failed
}

// checkClocks: clocks are done in order; only a roll-back repeats them, from the last committed cut and no further.
func (w *world) checkClocks() error {
	var done, furthest, cut int64
	generation := uint64(1)
	saved := map[int64]bool{0: true}
	for _, cut := range w.store.manifests { // the controller may have ended before it learned of one, and the next one finds it
		saved[int64(cut)] = true
	}
	for _, e := range w.entries {
		switch e.Kind {
		case journal.Checkpoint:
			saved[e.Clock] = true
		case journal.ClockDone:
			if e.Clock != done+1 || e.Redone != (e.Clock <= furthest) {
				return fmt.Errorf("clock %d (redone %v) was done when %d was due, of %d", e.Clock, e.Redone, done+1, furthest)
			}
			done, furthest = e.Clock, max(furthest, e.Clock)
		case journal.Cut:
			if e.Clock <= cut || e.Clock > done {
				return fmt.Errorf("cut %d after cut %d, with clock %d done", e.Clock, cut, done)
			}
			cut = e.Clock
		case journal.Rollback:
			if strings.Contains(e.Why, "back to the") && saved[e.Clock] { // no machine held the cut any more
				cut = e.Clock
			}
			// The newest checkpoint may be beyond the present clock, and nothing is lost then: it was being written when everything
			// restarted from the previous one, was completed later, and is a committed cut of this run that was compared with the
			// undisturbed state when it was saved.
			if e.Clock != cut || e.LostClocks != max(done-cut, 0) || e.Generation <= generation {
				return fmt.Errorf("generation %d goes back to %d and loses %d, from generation %d at clock %d, last cut %d",
					e.Generation, e.Clock, e.LostClocks, generation, done, cut)
			}
			done, generation = cut, e.Generation
		}
	}
	return nil
}

// checkOrder: time does not go back, stages follow each other, purchases are recorded first and answered, and the end is the last entry.
func (w *world) checkOrder() error {
	at, stage := time.Time{}, ""
	intents, answers, refused := map[string]int{}, map[string]int{}, map[string]int{}
	for i, e := range w.entries {
		if e.T.Before(at) {
			return fmt.Errorf("line %d is older than the one before it", i)
		}
		at = e.T
		switch e.Kind {
		case journal.Stage:
			if e.From != stage || e.To == stage {
				return fmt.Errorf("from stage %s to %s while it is %s", e.From, e.To, stage)
			}
			stage = e.To
		case journal.Intent:
			intents[e.Token] = e.Count
		case journal.Launch:
			if answers[e.Token] == intents[e.Token] && refused[e.Token] > 0 { // it appeared all the same
				refused[e.Token]--
			} else {
				answers[e.Token]++
			}
		case journal.LaunchFailed:
			answers[e.Token] += e.Count
			refused[e.Token] += e.Count
		case journal.Done:
			if i != len(w.entries)-1 {
				return fmt.Errorf("%q follows the end", w.entries[i+1].Kind)
			}
		}
	}
	for token, n := range intents {
		if answers[token] != n {
			return fmt.Errorf("%d machines were to be had by %s, and the journal tells of %d", n, token, answers[token])
		}
	}
	return nil
}

// count returns the number of lines of a kind.
func (w *world) count(kind journal.Kind) (n int) {
	for _, e := range w.entries {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// line formats a journal entry for people.
func line(e journal.Entry) string {
	return fmt.Sprintf("%7.2fs %-10s%s", e.T.Sub(epoch).Seconds(), e.Kind, words(e))
}

func words(e journal.Entry) string {
	var b strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&b, " "+format, args...) }
	if e.Instance != "" {
		add("%s", e.Instance)
	}
	if e.From != "" && e.Kind != journal.Charge {
		add("%s -> %s", short(e.From), short(e.To))
	}
	switch e.Kind {
	case journal.ClockDone, journal.Cut, journal.Export, journal.Profile:
		add("%d", e.Clock)
	case journal.Rollback:
		add("generation %d to cut %d, %d clocks lost", e.Generation, e.Clock, e.LostClocks)
	case journal.Intent, journal.LaunchFailed:
		add("%d of %s", e.Count, short(e.Pool))
	case journal.Launch:
		add("%s", short(e.Pool))
	case journal.Move, journal.Moved:
		add("%d partitions", e.Count)
	case journal.Done:
		add("%s", e.Outcome)
	case journal.Price, journal.Charge:
		add("%s %s", short(e.Pool), e.USD)
	}
	if e.Why != "" {
		add("(%s)", e.Why)
	}
	return b.String()
}

// short returns a pool's type and class.
func short(pool string) string {
	parts := strings.Split(pool, "/")
	return strings.Join(parts[max(0, len(parts)-2):], "/")
}

// describe describes the world's state for a person reading a failure.
func (w *world) describe() string {
	var b strings.Builder
	for _, e := range w.entries {
		fmt.Fprintln(&b, line(e))
	}
	c := w.ctrl
	fmt.Fprintf(&b, "shape %+v\ngeneration %d committed %d done %d stage %d cut %+v halt %+v recovery %+v settle %+v moves %v stop %q\n",
		w.shape, c.training.Layout.Generation, c.training.Cuts.Committed, c.training.Clocks.Done, c.training.Layout.Stage, c.training.Cuts.Cut, c.training.Halt, c.training.Recovery, c.training.Settle, c.training.Layout.Moves, c.step.Stop)
	fmt.Fprintf(&b, "commands %+v\n", c.training.Nodes.Commands)
	for _, n := range w.order {
		if n.instance.State == provisioner.Running {
			fmt.Fprintf(&b, "%s dead %v hole %v broken %v generation %d owns %v, worker %+v\n", n.id, n.dead, n.hole, n.broken, n.generation, n.owned(), n.worker)
			if m := c.training.Nodes.ByID[n.id]; m != nil {
				fmt.Fprintf(&b, "    joined %d lost %v warned %v draining %v leaving %v terminating %v ended %v loading %v\n",
					m.Joined, m.Lost, m.Warned, m.Draining, m.Leaving, m.Terminating, m.Ended, m.Loading)
			}
		}
	}
	for i, s := range c.training.Layout.Splits {
		if c.training.Layout.Target.Worker != nil {
			fmt.Fprintf(&b, "split %d: %+v wanted at %q\n", i, s, c.training.Layout.Target.Worker[i])
		}
	}
	return b.String()
}
