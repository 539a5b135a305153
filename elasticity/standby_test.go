package elasticity

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tierml/tierml/tiers"
)

// Random worlds whose reliable machines only hold splits: they keep all promises, and no reliable machine begins a clock unless all work is
// to rest there.
func TestRandomSchedulesWithStandby(t *testing.T) {
	first, seeds := setting("TIERML_FIRST", 0), setting("TIERML_SEEDS", 40)
	for seed := first; seed < first+seeds; seed++ {
		p := slices.DeleteFunc(drawPlan(rand.New(rand.NewPCG(seed, 2))), func(f fault) bool {
			return f.do == "scale" || f.do == "want" && f.who < 0.1 // nobody would work
		})
		shape := drawn(rand.New(rand.NewPCG(seed, 3)))
		shape.standby, shape.staleness, shape.reliable, shape.tuned = true, 0, max(shape.reliable, 1), nil
		w := newWorld(seed, shape)
		w.onSend = func(s Send) {
			do, is := s.Command.Do.(tiers.Unpark)
			if is && w.ctrl.training.Halt == nil && w.ctrl.training.Nodes.ByID[s.ID].Tier == tiers.Reliable {
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
