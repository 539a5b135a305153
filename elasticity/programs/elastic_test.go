package programs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/programs"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/tiers"
)

// In an elastic gang only the rank on a lost machine restarts, after a notice at exactly its step. The others run on, lose nothing, and
// always know which other ranks exist, also after another controller takes over.
func TestElasticGangReplacesOneRank(t *testing.T) {
	w := newWorld(t, programs.Config{Count: 4, State: true, Elastic: true, Master: "c:7"})
	knows := func(when string, ranks ...int) {
		t.Helper()
		for _, rank := range ranks {
			var others []string
			for _, other := range ranks {
				if other != rank {
					others = append(others, fmt.Sprintf("%d %s:1", other, w.running(programs.Key(0, other)).id))
				}
			}
			if m := w.running(programs.Key(0, rank)); !slices.Equal(m.peers, others) {
				t.Errorf("%s rank %d knows %v, and not %v", when, rank, m.peers, others)
			}
		}
	}
	w.seconds(7)
	knows("at first", 0, 1, 2, 3)
	gone := w.running("rank-2")
	if r := gone.run; r.Rank != 2 || r.Ranks != 4 || r.Master != "c:7" || !r.Elastic {
		t.Errorf("%+v", r)
	}
	w.warn(gone)
	w.seconds(1)
	w.end(gone, market.ByProvider)
	w.seconds(2)
	if again := w.running("rank-2"); again == gone || w.store[again.run.Resume] != gone.step {
		t.Errorf("warned at step %d, it continues at %d", gone.step, w.store[again.run.Resume])
	}
	knows("after a notice", 0, 1, 2, 3)
	w.room = 3
	w.end(w.running("rank-0"), market.ByProvider)
	w.seconds(2)
	knows("with one that is missing", 1, 2, 3)
	w.again()
	w.room = 0
	w.seconds(3)
	knows("with another controller", 0, 1, 2, 3)
	w.seconds(80)
	for rank, want := range []string{"lost,finished", "finished", "stopped,finished", "finished"} {
		if got := strings.Join(w.ends(programs.Key(0, rank)), ","); got != want {
			t.Errorf("rank %d has come to %s, and not %s", rank, got, want)
		}
	}
	if totals := w.r.Totals(); w.outcome != "finished" || totals.Clocks != of || totals.Lost != 0 {
		t.Errorf("%s: %+v", w.outcome, totals)
	}
}

// A rank that breaks when another's machine is lost has not failed by itself. One that breaks while all others are there has, as often as
// retries allow.
func TestElasticRankThatBreaks(t *testing.T) {
	breaks := map[int]int64{}
	w := newWorld(t, programs.Config{Count: 3, Elastic: true, Retries: 1})
	w.exit = func(run tiers.RunProgram, step int64) (tiers.ProgramExited, bool) {
		if at := breaks[run.Rank]; at == 0 || step < at {
			return tiers.ProgramExited{}, false
		}
		delete(breaks, run.Rank)
		return tiers.ProgramExited{Attempt: run.Attempt, Code: 1, Phase: "run"}, true
	}
	w.seconds(8)
	breaks[0] = 1
	w.end(w.running("rank-2"), market.ByProvider)
	w.seconds(10)
	failures := func() (n int) {
		for _, e := range w.lines(journal.ProgramEnd) {
			if e.Outcome == journal.Failure {
				n++
			}
		}
		return n
	}
	if got := w.ends("rank-1"); failures() != 0 || len(w.ends("rank-0")) != 1 || len(got) != 0 || w.ranks() != 3 {
		t.Fatalf("%d failures, rank 1 has come to %v, %d run", failures(), got, w.ranks())
	}
	w.seconds(8)
	breaks[0] = 1
	w.seconds(8)
	if failures() != 1 || w.ranks() != 3 {
		t.Fatalf("%d failures, %d run", failures(), w.ranks())
	}
	breaks[0] = 1
	w.seconds(int(20 * time.Second / time.Second))
	if failures() != 2 || w.outcome != "failed" {
		t.Errorf("%d failures: %s", failures(), w.outcome)
	}
}
