package elasticity

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/training"
	"github.com/tierml/tierml/tiers"
)

// Random worlds whose reliable machines only hold splits: they keep all promises, and no reliable machine begins a clock unless all work is
// to rest there, or a cut must be completed for that and no worker is left.
func TestRandomSchedulesWithStandby(t *testing.T) {
	first, seeds := setting("TIERML_FIRST", 0), setting("TIERML_SEEDS", 40)
	limit, _ := time.ParseDuration(os.Getenv("TIERML_FOR"))
	began := time.Now()
	for seed := first; seed < first+seeds && (limit == 0 || time.Since(began) < limit); seed++ {
		p := drawPlan(rand.New(rand.NewPCG(seed, 2)))
		reliable := slices.ContainsFunc(p, func(f fault) bool { return f.do == "reliable" })
		p = slices.DeleteFunc(p, func(f fault) bool {
			// Nobody would work; and a policy that wants more than a person's request buys what is given back at once.
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
