package elasticity

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// moveAll requests a move of every partition to another server, and returns the outcome.
func (w *world) moveAll(how string) Scaled {
	before := len(w.scaled)
	w.step(ScaleWanted{ID: uint64(before + 1), MoveAll: how, By: "somebody"})
	return w.scaled[before]
}

// Every partition moves to another server, of several and of one, in both ways, and stays there; nothing is repeated.
func TestMoveAll(t *testing.T) {
	for _, how := range []string{InWindow, AtOnce, FaultIn} {
		for _, servers := range []int{3, 1} {
			schedule(t, six(), func(w *world) func() bool {
				w.windows = true
				var before, after []ps.ServerID
				w.settled(func() {
					if servers < 3 {
						w.policy.asked = true
						w.step(ScaleWanted{ID: 1, Servers: servers - 3})
					}
					w.when(func() bool { return len(holdersOf(w.ctrl.training.Layout.Route.Owner)) == servers && w.grown(6) }, func() {
						before = slices.Clone(w.ctrl.training.Layout.Route.Owner)
						if answer := w.moveAll(how); answer.Err != nil {
							w.failf("%v", answer.Err)
						}
						w.when(func() bool { return w.scaled[len(w.scaled)-1].Reached }, func() {
							after = slices.Clone(w.ctrl.training.Layout.Route.Owner)
							w.after(3*time.Second, func() {
								if !slices.Equal(w.ctrl.training.Layout.Route.Owner, after) && w.outcome == "" {
									w.failf("partitions moved on: %v, %v", after, w.ctrl.training.Layout.Route.Owner)
								}
							})
						})
					})
				})
				w.neverBack()
				return func() bool {
					for p := range after {
						if before[p] == after[p] {
							t.Errorf("%s, %d servers: partition %d is still at %s", how, servers, p, after[p])
						}
					}
					return len(after) > 0 && w.count(journal.Moved) > 1
				}
			})
		}
	}
}

// prefer makes shared hosts prefer owners: one of the reliable machines, all in turn, or none.
func (w *world) prefer(place float64) {
	reliable := w.machinesOf(market.OnDemand)
	if w.absent || len(reliable) == 0 {
		return
	}
	var p Preferred
	for i := range w.shape.partitions {
		switch n := int(place * float64(len(reliable)+2)); {
		case n < len(reliable):
			p.Owners = append(p.Owners, reliable[n])
		case n == len(reliable):
			p.Owners = append(p.Owners, reliable[(i+1)%len(reliable)])
		}
	}
	p.Why = "the other hosts are busy"
	w.step(p)
}

// In stage 1 partitions go where shared hosts prefer them, with the hosts' reason, and spread out evenly when nothing is preferred any
// more. Nothing is repeated.
func TestPreferredOwners(t *testing.T) {
	s := six()
	s.reliable, s.transient = 2, 2
	schedule(t, s, func(w *world) func() bool {
		w.windows = true
		stands := func(owners, other int) func() bool {
			return func() bool {
				la, n := w.ctrl.training.Layout, map[ps.ServerID]int{}
				for _, id := range la.Route.Owner {
					n[id]++
				}
				first, second := w.machinesOf(market.OnDemand)[0], w.machinesOf(market.OnDemand)[1]
				return len(la.Moves) == 0 && n[first] == owners && n[second] == other
			}
		}
		done := false
		w.when(func() bool {
			return w.ctrl.training.Clocks.Done >= 3 && len(w.machinesOf(market.OnDemand)) == 2 && w.grown(2) && stands(4, 4)()
		}, func() {
			w.step(Preferred{Preference: tiers.Preference{Owners: []ps.ServerID{"nobody"}}}) // does not match the number of partitions
			w.prefer(0.3)
			w.when(stands(0, 8), func() {
				w.step(Preferred{})
				w.when(stands(4, 4), func() { done = true })
			})
		})
		w.neverBack()
		return func() bool {
			for _, e := range w.lines(journal.Move) {
				if e.Why == "the other hosts are busy" {
					return done
				}
			}
			return false
		}
	})
}

// Refused: an unknown way to move, together with other numbers, without another machine that could serve, and in a pause.
func TestMoveAllRefuses(t *testing.T) {
	s := six()
	s.transient = 1
	w := newWorld(1, s)
	w.settledIn1(func() {
		for _, how := range []string{"somehow", InWindow} {
			if answer := w.moveAll(how); answer.Err == nil {
				t.Errorf("%q is granted", how)
			}
		}
		w.step(ScaleWanted{ID: uint64(len(w.scaled) + 1), MoveAll: InWindow, Workers: 1})
		if w.scaled[len(w.scaled)-1].Err == nil {
			t.Error("moves and another number are granted")
		}
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
	if len(w.scaled) != 3 {
		t.Errorf("%d answers", len(w.scaled))
	}
}

// settledIn1 calls f when training continues with the reliable machine as its only server.
func (w *world) settledIn1(f func()) {
	w.when(func() bool { return w.ctrl.training.Clocks.Done >= 3 && len(w.machinesOf(market.OnDemand)) == 1 }, f)
}

// All partitions move at random moments of a run with faults of all kinds, in both ways, and shared hosts prefer owners: promises are kept.
func TestMovesAtRandom(t *testing.T) {
	moved := 0
	first, seeds := setting("TIERML_FIRST", 0), setting("TIERML_SEEDS", 100)
	limit, _ := time.ParseDuration(os.Getenv("TIERML_FOR"))
	began, done := time.Now(), uint64(0)
	for ; done < seeds && (limit == 0 || time.Since(began) < limit); done++ {
		seed := first + done
		r := rand.New(rand.NewPCG(seed, 7))
		p := drawPlan(rand.New(rand.NewPCG(seed, 2)))
		for at := time.Duration(r.Int64N(int64(4 * time.Second))); at < 14*time.Second; at += time.Duration(r.Int64N(int64(3 * time.Second))) {
			p = append(p, drawFault(r, kindOf("move-all"), at), drawFault(r, kindOf("prefer"), at+time.Second))
		}
		w := newWorld(seed, drawn(rand.New(rand.NewPCG(seed, 3))))
		w.windows = true
		w.play(p)
		err := w.run()
		if err == nil {
			err = w.check(p.outcomes()...)
		}
		if err != nil {
			t.Fatalf("seed %d: %v\nTIERML_TRACE=1 TIERML_SEED=%d TIERML_FAULTS='%s' go test ./elasticity -run TestRandomSchedules", seed, err, seed, p)
		}
		moved += w.count(journal.Moved)
	}
	if t.Logf("%d worlds, all partitions moved %d times", done, moved); moved < int(done) {
		t.Errorf("only %d times", moved)
	}
}
