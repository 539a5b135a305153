package sweep

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/decompress"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/shapes"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/sim"
)

var (
	realJournal = flag.String("journal", "", "judge this journal of a real run of examples/demo.yaml instead of those in testdata/replays")
	update      = flag.Bool("update", false, "with -journal: take the golden decisions from it")
	keep        = flag.String("keep", "", "with -journal: keep what matters of it in testdata/replays under this `name`")
)

// demoWork is the work of a clock of examples/demo.yaml, as in real runs' journals.
const demoWork = 5_049_036

// demo returns the demo as recorded in testdata/replays: 16 machines, and a declared reliable one.
func demo(t testing.TB) sim.Config { return simulated(t, "testdata/replays/demo.yaml", demoWork) }

// simulated returns the simulation of a job with this much work per clock.
func simulated(t testing.TB, file string, work float64) sim.Config {
	t.Helper()
	job, err := config.Load(file)
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
	cfg, skipped, err := ForJob(job, choice, Content{Work: work * float64(job.Train.Clocks)})
	if err != nil || len(skipped) > 0 {
		t.Fatal(err, skipped)
	}
	return cfg
}

// decision returns the decision in a journal line, without times and machine names; "" for other lines.
func decision(e journal.Entry) string {
	switch e.Kind {
	case journal.Intent:
		text := fmt.Sprintf("launch %d %s of %s, bid %s", e.Count, e.Tier, e.Pool, e.Bid)
		for _, other := range e.Or {
			text += fmt.Sprintf(", or of %s, bid %s", other.Pool, other.Bid)
		}
		return text
	case journal.Switch:
		return fmt.Sprintf("switch from %s to %s", e.From, e.To)
	case journal.Stage:
		return fmt.Sprintf("stage %s to %s with %d transient and %d reliable", e.From, e.To, e.Transient, e.Reliable)
	case journal.Terminated:
		if strings.HasPrefix(e.Why, "the run is over") {
			return "terminate all machines" // one decision: the order of lines follows the provider's answers
		}
		return "terminate machines of " + e.Pool
	}
	return ""
}

// decisions lists them, one per line. Consecutive terminations in one pool are merged.
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

// TestSimulatedDemoDecidesAsReal: the simulated demo decides what a real run of it on a laptop decided, in the same order: launches (pool,
// count, bid), switches, stages and terminations. It knows nothing of that run; the golden decisions were taken from its
// journal by -journal FILE -update.
//
// What may differ is not compared: times, names of machines, how many clocks a loss costs, in how many calls machines
// of a pool are terminated one after the other, and ends that the provider decides.
func TestSimulatedDemoDecidesAsReal(t *testing.T) {
	const golden = "testdata/demo.decisions"
	if *update && *realJournal != "" {
		if err := os.WriteFile(golden, []byte(decisions(readJournal(t, *realJournal))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	compareDecisions(t, demo(t), string(want))
}

// TestReplayedRuns: given the events of a real run's journal at their times, the simulated controller decides the same, even if the run
// differs from an undisturbed one: on a busy computer notices come further apart than NoticeWait, and are answered with several launches.
// The journals in testdata are from runs of the demo next to two busy loops, without the lines that are not events. To check another one:
//
//	go test ./sim/sweep -run ReplayedRuns -journal runs/demo-N/journal.jsonl [-keep NAME]
func TestReplayedRuns(t *testing.T) {
	files, _ := filepath.Glob("testdata/replays/*.jsonl.gz")
	if *realJournal != "" {
		files = []string{*realJournal}
	} else if len(files) < 2 {
		t.Errorf("%d journals in testdata/replays", len(files))
	}
	for _, file := range files {
		real := readJournal(t, file)
		if *realJournal != "" && *keep != "" {
			keepRecorded(t, "testdata/replays/"+*keep+".jsonl.gz", real)
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			cfg, err := demo(t), error(nil)
			if *realJournal != "" {
				cfg = simulated(t, "../../examples/demo.yaml", demoWork)
				keepTier(t, &cfg, real)
			}
			if cfg.Recording, err = sim.NewRecording(real); err != nil {
				t.Fatal(err)
			}
			cfg.Start = cfg.Recording.Began
			compareDecisions(t, cfg, decisions(real))
		})
	}
}

func readJournal(t *testing.T, file string) []journal.Entry {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, err := decompress.Reader(f)
	if err != nil {
		t.Fatal(err)
	}
	var entries []journal.Entry
	for e, err := range journal.NewReader(plain).All() {
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		entries = append(entries, e)
	}
	return entries
}

func compareDecisions(t *testing.T, cfg sim.Config, want string) {
	t.Helper()
	var entries []journal.Entry
	cfg.Record = func(e journal.Entry) { entries = append(entries, e) }
	if _, err := sim.Run(cfg); err != nil {
		t.Fatal(err)
	}
	if got := decisions(entries); got != want {
		t.Errorf("simulated:\n%s\nreal:\n%s", got, want)
	}
}

// keepRecorded writes the lines of a journal that Recording and the decisions need, stripped: no paths of a computer, no losses.
func keepRecorded(t *testing.T, file string, real []journal.Entry) {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	for _, e := range real {
		switch e.Kind {
		case journal.Start, journal.Plan, journal.Charge, journal.Cut, journal.Move, journal.Join, journal.Leave, journal.Export:
			continue
		}
		e.TrainLoss, e.TestLoss, e.Model, e.Details = nil, nil, "", nil
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = zipped.Write(append(line, '\n')) // to memory
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestDemoPredicted: cost and run time are within a tenth of those of real runs (the medians of three, on two cores).
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

// keepTier gives a job the reliable tier of a recorded run: a plan would choose it by the data's size.
func keepTier(t *testing.T, cfg *sim.Config, run []journal.Entry) {
	t.Helper()
	d, err := run[0].StartDetails()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Reliable.Pool, err = market.ParsePool(d.Reliable.Pool); err != nil {
		t.Fatal(err)
	}
	cfg.Reliable.Count = d.Reliable.Count
	for _, m := range d.Machines {
		if m.Name == cfg.Reliable.Pool.Type {
			price, err := market.ParseUSD(m.OnDemand)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Reliable.Type, _ = shapes.Complete(market.InstanceType{Name: m.Name, VCPU: m.VCPU, MemoryMiB: m.MemoryMiB, OnDemand: price})
		}
	}
}
