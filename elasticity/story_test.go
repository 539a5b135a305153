package elasticity

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
)

// undisturbed computes the toy's state after every clock, without any machine. Index: clock.
func undisturbed(w *world) []map[ps.Key][]float32 {
	rows := map[ps.Key][]float32{}
	for _, k := range w.keys() {
		rows[k] = make([]float32, w.schema.Cols(k))
		ps.InitRow(w.schema.Seed, w.schema.Tables[k.Table], k.Table, k.Row, rows[k])
	}
	states := []map[ps.Key][]float32{rows}
	for clock := ps.Clock(1); clock <= w.ctrl.cfg.Job.Clocks; clock++ {
		next := map[ps.Key][]float32{}
		for _, k := range w.keys() {
			row := slices.Clone(states[clock-1][k])
			next[k] = row
			if (int(k.Row)+int(clock))%3 == 0 {
				continue
			}
			total := make([]int64, len(row))
			for s := range w.schema.Splits {
				for i, v := range toyUpdate(ps.Split(s), clock, states[clock-1][k]) {
					f, _ := ps.ToFixed(v)
					total[i] += f
				}
			}
			for i, v := range total {
				row[i] += ps.FromFixed(v)
			}
		}
		states = append(states, next)
	}
	return states
}

func checkAnswer(t *testing.T, w *world) {
	t.Helper()
	if w.outcome != "finished" {
		w.dump()
		last := w.entries[len(w.entries)-1]
		t.Fatalf("outcome %q: %s", w.outcome, last.Why)
	}
	for k, want := range w.truth[w.ctrl.cfg.Job.Clocks] {
		for i := range want {
			if got := w.final[k]; got[i] != want[i] {
				w.dump()
				t.Fatalf("row %v: got %v, undisturbed %v", k, got, want)
			}
		}
	}
	for _, m := range w.ctrl.machines {
		if !m.charged {
			t.Errorf("no bill for %s", m.id)
		}
	}
	next := ps.Clock(1)
	for _, e := range w.entries {
		switch e.Kind {
		case journal.ClockDone:
			if ps.Clock(e.Clock) != next {
				t.Fatalf("clock %d was done when %d was due", e.Clock, next)
			}
			next++
		case journal.Rollback:
			next = ps.Clock(e.Clock) + 1
		}
	}
}

func count1(w *world, kind journal.Kind) (n int) {
	for _, e := range w.entries {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// TierML, section 3: growth, bulk eviction with notice, growth again; no clock is done twice.
func TestWarnedBulkEvictionLosesNothing(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			policy := &fleet{pool: poolA, count: 17}
			w := newWorld(t, seed, policy)
			w.after(6*time.Second, func() {
				policy.count = 0
				w.evict(4*time.Second, w.live(market.Spot)...)
			})
			w.after(11*time.Second, func() { policy.count = 5 })
			w.run()
			checkAnswer(t, w)
			for _, e := range w.entries {
				if e.Kind == journal.Rollback || e.Redone {
					t.Fatalf("a warned eviction must not lose work: %+v", e)
				}
			}
			if n := count1(w, journal.Stage); n < 3 {
				t.Errorf("%d stage changes, want at least up, down, up", n)
			}
		})
	}
}

// A proactive switch moves a working fleet to another pool without losing work.
func TestSwitchLosesNothing(t *testing.T) {
	for seed := range uint64(20) {
		policy := &fleet{pool: poolA, count: 6}
		w := newWorld(t, seed, policy)
		w.after(5*time.Second, func() { policy.pool = poolB })
		w.run()
		checkAnswer(t, w)
		if count1(w, journal.Rollback) > 0 {
			t.Fatal("a switch must not roll back")
		}
		if count1(w, journal.Switch) != 1 {
			t.Fatal("want one switch")
		}
	}
}

// One machine killed without warning: if it served, everything returns to the last committed cut.
func TestUnwarnedKillRollsBack(t *testing.T) {
	for seed := range uint64(40) {
		policy := &fleet{pool: poolA, count: 6}
		w := newWorld(t, seed, policy)
		w.after(7*time.Second, func() {
			live := w.live(market.Spot)
			w.end(live[w.rng.IntN(len(live))], market.ByProvider, "Server.InternalError")
		})
		w.run()
		checkAnswer(t, w)
	}
}

// Random schedules of everything at once.
func TestRandomSchedulesKeepTheAnswer(t *testing.T) {
	seeds := uint64(300)
	if n, err := strconv.ParseUint(os.Getenv("TIERML_SEEDS"), 10, 64); err == nil {
		seeds = n // a soak: as many as asked
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			policy := &fleet{pool: poolA, count: 4 + int(seed%16)}
			w := newWorld(t, seed+1000, policy)
			var fault func()
			fault = func() {
				if w.outcome != "" || w.ctrl.ending {
					return
				}
				live := w.live(market.Spot)
				switch w.rng.IntN(6) {
				case 0:
					w.evict(w.delay(3*time.Second), live...)
				case 1:
					if len(live) > 0 {
						w.end(live[w.rng.IntN(len(live))], market.ByProvider, "Server.InternalError")
					}
				case 2:
					if len(live) > 1 {
						w.evict(w.delay(3*time.Second), live[:len(live)/2]...)
					}
				case 3:
					policy.count = w.rng.IntN(20)
				case 4:
					if policy.pool == poolA {
						policy.pool = poolB
					} else {
						policy.pool = poolA
					}
				case 5:
					for _, id := range live {
						if w.rng.IntN(2) == 0 {
							w.end(id, market.ByProvider, "Server.InternalError")
						}
					}
				}
				w.after(w.delay(4*time.Second), fault)
			}
			w.after(w.delay(8*time.Second), fault)
			w.run()
			checkAnswer(t, w)
		})
	}
}
