package elasticity

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/training"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Random worlds whose reliable machines only hold splits: they keep all promises, and no reliable machine begins a clock unless all work is
// to rest there, or no worker is left to complete a cut that is needed for that.
func TestRandomSchedulesWithStandby(t *testing.T) {
	first, seeds := setting("TIERML_FIRST", 0), setting("TIERML_SEEDS", 40)
	limit, _ := time.ParseDuration(os.Getenv("TIERML_FOR"))
	began := time.Now()
	for seed := first; seed < first+seeds && (limit == 0 || time.Since(began) < limit); seed++ {
		p := drawPlan(rand.New(rand.NewPCG(seed, 2)))
		reliable := slices.ContainsFunc(p, func(f fault) bool { return f.do == "reliable" })
		p = slices.DeleteFunc(p, func(f fault) bool {
			// No machine would work; and a policy that wants more than a person's request buys again at once what is released.
			return f.do == "scale" || f.do == "want" && (f.who < 0.1 || reliable)
		})
		shape := drawn(rand.New(rand.NewPCG(seed, 3)))
		shape.standby, shape.staleness, shape.reliable, shape.tuned = true, 0, max(shape.reliable, 1), nil
		w := newWorld(seed, shape)
		w.onSend = func(s Send) {
			do, is := s.Command.Do.(tiers.Unpark)
			tr := w.ctrl.training
			if !is || tr.Halt != nil || tr.Nodes.ByID[s.ID].Tier != tiers.Reliable {
				return
			}
			worker := func(m *training.Node) bool { return m.Tier == tiers.Transient && m.Member() && m.Staying() }
			if c := tr.Cuts.Cut; c == nil || c.Clock != do.Until || slices.ContainsFunc(tr.Nodes.Roster, worker) {
				w.failf("%s is to work up to clock %d", s.ID, do.Until)
			}
		}
		w.play(p)
		err := w.run()
		if err == nil {
			err = w.check(p.outcomes()...)
		}
		if err != nil {
			t.Errorf("seed %d: %v\n%s", seed, err, p)
		}
	}
}

// A machine whose program takes long to start gets no split before it has started: when it replaces a machine with a notice, the others
// take that one's splits and do not wait.
func TestNobodyWaitsForAProgramToStart(t *testing.T) {
	for seed := range uint64(4) {
		s := elastic()
		s.standby, s.staleness = true, 0
		var before, during float64 // the longest clock
		evicted, joined := false, ps.ServerID("")
		works := false
		w := newElastic(seed, s, func(w *world) {
			there := slices.Clone(w.order)
			w.loading = func(n *node) time.Duration {
				if slices.Contains(there, n) {
					return 0
				}
				return 8 * time.Second
			}
			evicted = true
			w.evict(3*time.Second, w.spot()[0])
		})
		w.onEntry = func(e journal.Entry) {
			switch {
			case evicted && e.Kind == journal.Join:
				joined = ps.ServerID(e.Instance)
			case e.Kind != journal.ClockDone || e.Clock < 3:
			case evicted:
				during = max(during, e.Seconds)
			default:
				before = max(before, e.Seconds)
			}
		}
		w.onSend = func(s Send) {
			if do, is := s.Command.Do.(tiers.Assign); is && s.ID == joined && len(do.Splits) > 0 {
				works = true
			}
		}
		finish(t, w, "finished")
		t.Logf("the longest clock took %.3f s, and %.3f s before", during, before)
		if !works || during > before+1 {
			t.Errorf("seed %d: %s has work: %v; the longest clock took %.3f s, and %.3f s before", seed, joined, works, during, before)
		}
	}
}

// A machine that has no split yet does not get a split of a lost machine: it would do the current clock from its beginning, and the others
// would wait. A working machine passes over it, and gives it away afterwards.
func TestNewcomersTakeNoLostSplit(t *testing.T) {
	for seed := range uint64(4) {
		s := elastic()
		s.standby, s.short, s.staleness = true, true, 0
		s.splits = s.transient
		var newcomer ps.ServerID
		var lost ps.Split // on a machine that serves nothing: the others do not return to a cut
		var takers []ps.ServerID
		w := newElastic(seed, s, func(w *world) {
			w.ask(1, 0)
			nodes, layout := w.ctrl.training.Nodes, w.ctrl.training.Layout
			w.when(func() bool {
				return newcomer != "" && len(nodes.ByID[newcomer].Loaded) > 0
			}, func() {
				if n := nodes.ByID[newcomer].Splits; n > 0 {
					t.Fatalf("seed %d: %s has %d splits, so that this proves nothing", seed, newcomer, n)
				}
				for i := range layout.Splits {
					if !layout.OwnsAny(layout.Splits[i].Holder) {
						lost = ps.Split(i)
					}
				}
				w.kill(layout.Splits[lost].Holder)
			})
		})
		w.onEntry = func(e journal.Entry) {
			if e.Kind == journal.Join && len(w.lines(journal.Scale)) > 0 && newcomer == "" {
				newcomer = ps.ServerID(e.Instance)
			}
		}
		w.onSend = func(s Send) {
			if do, is := s.Command.Do.(tiers.Assign); is && newcomer != "" {
				if slices.ContainsFunc(do.Splits, func(at tiers.SplitAt) bool { return at.Split == lost }) {
					takers = append(takers, s.ID)
				}
			}
		}
		finish(t, w, "finished")
		if len(takers) < 2 || takers[0] == newcomer || !slices.Contains(takers, newcomer) {
			t.Errorf("seed %d: the lost split went to %v, and %s has joined", seed, takers, newcomer)
		}
	}
}
