package sweep

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/sim"
)

// fleetsWork is the work of a clock of testdata/fleets/job.yaml, as in real runs' journals.
const fleetsWork = 5_671_061

// given returns how many machines of which pool each launch got: the provider's choice.
func given(entries []journal.Entry) string {
	counts := map[string]map[string]int{}
	var order []string
	for _, e := range entries {
		if e.Kind == journal.Intent {
			order, counts[e.Token] = append(order, e.Token), map[string]int{}
		}
		if e.Kind == journal.Launch {
			counts[e.Token][e.Pool]++
		}
	}
	var b strings.Builder
	for i, token := range order {
		fmt.Fprintf(&b, "launch %d:", i+1)
		for _, pool := range slices.Sorted(maps.Keys(counts[token])) {
			fmt.Fprintf(&b, " %d of %s", counts[token][pool], pool)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// purchases lists requests and answers up to the first notice of an eviction: after that, notices and answers may arrive in any order,
// which affects decisions.
func purchases(all []journal.Entry) string {
	var until []journal.Entry
	for _, e := range all {
		if e.Kind == journal.Notice {
			break
		}
		if e.Kind == journal.Intent || e.Kind == journal.Launch {
			until = append(until, e)
		}
	}
	return decisions(until) + given(until)
}

// TestSimulatedFleetsDecideAsReal: a job whose provider chooses among pools, none deep. A real run of it bought by CreateFleet from the
// fake cloud, got some machines from each of four pools, too few, and bought the missing ones in a fifth. The simulation requests and gets
// the same: from its own cloud, and given the events of the real run's controller.
func TestSimulatedFleetsDecideAsReal(t *testing.T) {
	real := readJournal(t, "testdata/fleets/real.jsonl.gz")
	want := purchases(real)
	if !strings.Contains(want, ", or of ") || strings.Count(want, "1 of ") < 3 {
		t.Fatalf("the real run bought no fleet over several pools:\n%s", want)
	}
	for _, told := range []bool{false, true} {
		cfg := simulated(t, "testdata/fleets/job.yaml", fleetsWork)
		if told {
			heard, err := sim.NewRecording(real)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Recording, cfg.Start = heard, heard.Began
		}
		var entries []journal.Entry
		cfg.Record = func(e journal.Entry) { entries = append(entries, e) }
		if r, err := sim.Run(cfg); err != nil || !r.Finished() {
			t.Fatal(r, err)
		}
		if got := purchases(entries); got != want {
			t.Errorf("simulated, told %v:\n%s\nreal:\n%s", told, got, want)
		}
	}
}
