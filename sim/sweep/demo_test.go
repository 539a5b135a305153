package sweep

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/planner"
	"github.com/tierml/tierml/internal/planner/local"
	"github.com/tierml/tierml/sim"
)

var realJournal = flag.String("journal", "", "take the decisions to compare with from this journal of a real run of examples/demo.yaml")

// demoWork is the work of a clock of examples/demo.yaml, as the journals of real runs have it.
const demoWork = 5_049_036

func demo(t testing.TB) sim.Config {
	t.Helper()
	job, err := config.Load("../../examples/demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m, err := local.Load(job)
	if err != nil {
		t.Fatal(err)
	}
	offers, _ := m.Offers()
	choice, err := planner.Resolve(job, offers, m.Catalog)
	if err != nil {
		t.Fatal(err)
	}
	cfg, skipped, err := ForJob(job, choice, demoWork*float64(job.Train.Clocks))
	if err != nil || len(skipped) > 0 {
		t.Fatal(err, skipped)
	}
	return cfg
}

// decision gives what a journal line decided, without times and names of machines; "" for other lines.
func decision(e journal.Entry) string {
	switch e.Kind {
	case journal.Intent:
		return fmt.Sprintf("launch %d %s of %s, bid %s", e.Count, e.Tier, e.Pool, e.Bid)
	case journal.Switch:
		return fmt.Sprintf("switch from %s to %s", e.From, e.To)
	case journal.Stage:
		return fmt.Sprintf("stage %s to %s with %d transient and %d reliable", e.From, e.To, e.Transient, e.Reliable)
	}
	return ""
}

func decisions(entries []journal.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		if d := decision(e); d != "" {
			b.WriteString(d + "\n")
		}
	}
	return b.String()
}

// TestOneBrain: the simulated demo decides what a real run of it on a laptop decided, in the same order. The golden text
// was taken from a real journal: go test ./sim/sweep -run OneBrain -journal runs/demo-N/journal.jsonl
func TestOneBrain(t *testing.T) {
	const golden = "testdata/demo.decisions"
	if *realJournal != "" {
		entries, _, err := journal.ReadFile(*realJournal)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(decisions(entries)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	var entries []journal.Entry
	cfg := demo(t)
	cfg.Record = func(e journal.Entry) { entries = append(entries, e) }
	if _, err := sim.Run(cfg); err != nil {
		t.Fatal(err)
	}
	if got := decisions(entries); got != string(want) {
		t.Errorf("simulated:\n%s\nreal:\n%s", got, want)
	}
}

// TestDemoPredicted: cost and run time are within a tenth of what real runs came to (the medians of three, on two cores).
func TestDemoPredicted(t *testing.T) {
	r, err := sim.Run(demo(t))
	if err != nil || !r.Finished() {
		t.Fatal(r, err)
	}
	near := func(what string, got, want float64) {
		t.Logf("%s: simulated %.2f, real %.2f, %+.1f %%", what, got, want, 100*(got/want-1))
		if math.Abs(got/want-1) > 0.1 {
			t.Errorf("%s: simulated %.2f is more than 10 %% off the real %.2f", what, got, want)
		}
	}
	near("cost in dollars", dollars(r.Cost), 29.2061)
	near("run time in hours", r.Runtime.Hours(), 12.980)
}

func TestOnEC2Scales(t *testing.T) {
	base := demo(t)
	for _, hours := range []time.Duration{2, 8} {
		cfg := OnEC2(base, hours*time.Hour)
		if got := ComputeTime(&cfg); got.Round(time.Second) != hours*time.Hour {
			t.Errorf("%d h of work take %s", hours, got)
		}
		// 16 x c3.xlarge at $0.239.
		if got, want := OnDemandCost(&cfg), 16*239_000_000*int64(hours); int64(got) != want {
			t.Errorf("%d h cost %s on demand, want %d billionths", hours, got, want)
		}
	}
}
