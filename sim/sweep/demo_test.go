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

var (
	realJournal = flag.String("journal", "", "judge this journal of a real run of examples/demo.yaml instead of the golden decisions")
	update      = flag.Bool("update", false, "with -journal: take the golden decisions from it")
)

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
	case journal.Terminated:
		if strings.HasPrefix(e.Why, "the run is over") {
			return "terminate all machines" // one decision: the lines come in the order of the provider's answers
		}
		return "terminate machines of " + e.Pool
	}
	return ""
}

// decisions lists them, one a line. Terminations of one pool that follow each other are one.
func decisions(entries []journal.Entry) string {
	var b strings.Builder
	last := ""
	for _, e := range entries {
		d := decision(e)
		if d == "" || e.Kind == journal.Terminated && d == last {
			continue
		}
		b.WriteString(d + "\n")
		last = d
	}
	return b.String()
}

// TestOneBrain: the simulated demo decides what a real run of it on a laptop decided, in the same order: launches (pool,
// count, bid), switches, stages and terminations. Without flags it judges the golden decisions, which were taken from a
// real journal by -journal FILE -update; -journal FILE alone judges that journal and writes nothing:
//
//	go test ./sim/sweep -run OneBrain -journal runs/demo-N/journal.jsonl
//
// What may differ is not compared: times, names of machines, how many clocks a loss costs, in how many calls machines
// of a pool are terminated one after the other, and ends that the provider decides. What may not differ, but does on a busy computer: notices that reach the controller
// more than sim.LaptopNoticeWait apart are answered in several launches, where the simulator's notices come at once.
func TestOneBrain(t *testing.T) {
	const golden = "testdata/demo.decisions"
	want, err := os.ReadFile(golden)
	if *realJournal != "" {
		var real []journal.Entry
		if real, _, err = journal.ReadFile(*realJournal); err != nil {
			t.Fatal(err)
		}
		want = []byte(decisions(real))
		if *update {
			err = os.WriteFile(golden, want, 0o644)
		}
	}
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
