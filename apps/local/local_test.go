package local

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// toy is an application of one table with one shared row and one row per split. Each split adds its number
// to the shared row twice, and records in its own row what it saw the second time.
type toy struct {
	amount float32 // added to the shared row in addition to the split's number
	greedy bool    // uses a row that was not requested
}

var shared = ps.Key{Table: 0, Row: 0}

func (toy) Name() string { return "toy" }

func (toy) Tables() []ps.Table { return []ps.Table{{Name: "t", Rows: 4, Cols: 2}} }

func (a toy) LoadSplit(id ps.Split, r io.Reader, _ uint64) (apps.Split, error) {
	text, err := io.ReadAll(r)
	if err != nil || string(text) != fmt.Sprint(id) {
		return nil, fmt.Errorf("split %d: read %q, %w", id, text, err)
	}
	return toySplit{a, id}, nil
}

type toySplit struct {
	app toy
	id  ps.Split
}

func (s toySplit) own() ps.Key { return ps.Key{Table: 0, Row: ps.RowID(1 + s.id)} }

func (s toySplit) Needs(_ ps.Clock, keys []ps.Key) []ps.Key { return append(keys, shared) }

func (s toySplit) EvalNeeds(keys []ps.Key) []ps.Key { return append(keys, s.own(), shared) }

func (s toySplit) Run(c ps.Clock, rows apps.Rows, evaluate bool) (apps.Stats, error) {
	add := float32(s.id) + s.app.amount
	rows.Row(shared)[0] += add
	seen := rows.Row(shared)[0]
	rows.Row(shared)[0] += add
	if evaluate || s.app.greedy {
		rows.Row(s.own())[1] = seen
	}
	return apps.Stats{Examples: 1, Loss: float64(c), Work: float64(s.id)}, nil
}

func text(id ps.Split) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(fmt.Sprint(id))), nil
}

func TestStepSumsDifferencesOfIsolatedSplits(t *testing.T) {
	trainer, err := New(toy{}, ps.Schema{Splits: 3}, text)
	if err != nil {
		t.Fatal(err)
	}
	for c := 1; c <= 2; c++ {
		stats, err := trainer.Step(true)
		if err != nil || stats != (apps.Stats{Examples: 3, Loss: 3 * float64(c), Work: 3}) {
			t.Errorf("clock %d: %+v, %v", c, stats, err)
		}
		if got, want := trainer.Row(shared)[0], float32(c*2*(0+1+2)); got != want {
			t.Errorf("clock %d: shared row is %v, want %v", c, got, want)
		}
		for id := range 3 { // the folded state before the clock and the split's own update, but no other split's
			own := trainer.Row(ps.Key{Row: ps.RowID(1 + id)})[1]
			if want := float32((c-1)*6 + id); own != want {
				t.Errorf("clock %d: split %d saw %v, want %v", c, id, own, want)
			}
		}
	}
	if trainer.Clock() != 2 {
		t.Errorf("clock %d, want 2", trainer.Clock())
	}
}

func TestUnaskedRowPanics(t *testing.T) {
	for _, threads := range []int{1, 3} {
		trainer, err := New(toy{greedy: true}, ps.Schema{Splits: 3}, text)
		if err != nil {
			t.Fatal(err)
		}
		trainer.SetThreads(threads)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d threads: a row that was not asked for was given", threads)
				}
			}()
			_, _ = trainer.Step(false)
		}()
	}
}

// Fractions that float32 would add up differently in another order.
func TestThreadsDoNotMatter(t *testing.T) {
	var results []float32
	for _, threads := range []int{0, 1, 2, 3, 100} {
		trainer, err := New(toy{amount: 1e-3}, ps.Schema{Splits: 3}, text)
		if err != nil {
			t.Fatal(err)
		}
		trainer.SetThreads(threads)
		for range 100 {
			if stats, err := trainer.Step(true); err != nil || stats.Work != 3 {
				t.Fatalf("%+v, %v", stats, err)
			}
		}
		results = append(results, trainer.Row(shared)[0])
	}
	for _, r := range results {
		if r != results[0] {
			t.Errorf("results %v with 0, 1, 2, 3 and 100 threads", results)
		}
	}
}

func TestFirstSplitsErrorIsReported(t *testing.T) {
	trainer, err := New(toy{amount: math.MaxFloat32 / 4}, ps.Schema{Splits: 3}, text)
	if err != nil {
		t.Fatal(err)
	}
	trainer.SetThreads(3)
	if _, err := trainer.Step(false); !errors.Is(err, ps.ErrOverflow) || !strings.HasPrefix(err.Error(), "clock 1, split 0: ") {
		t.Errorf("error %v, want that of split 0", err)
	}
}

// tally counts in an int32 table, beyond the precision of a float32.
type tally struct{ toy }

func (tally) Tables() []ps.Table {
	return []ps.Table{{Name: "counts", Kind: ps.Int32, Rows: 1, Cols: 2}}
}

func (a tally) LoadSplit(ps.Split, io.Reader, uint64) (apps.Split, error) {
	return tallySplit{toySplit{}}, nil
}

type tallySplit struct{ toySplit }

func (s tallySplit) EvalNeeds(keys []ps.Key) []ps.Key { return keys }

func (s tallySplit) Run(_ ps.Clock, rows apps.Rows, _ bool) (apps.Stats, error) {
	counts := apps.Counts(rows, shared)
	counts[0] += 1<<24 + 1
	counts[1]--
	return apps.Stats{}, nil
}

func TestCounts(t *testing.T) {
	trainer, err := New(tally{}, ps.Schema{Splits: 3}, text)
	if err != nil {
		t.Fatal(err)
	}
	trainer.SetThreads(2)
	for clock := int32(1); clock <= 42; clock++ {
		if _, err := trainer.Step(false); err != nil {
			t.Fatal(err)
		}
		if got := apps.Counts(trainer, shared); got[0] != 3*clock*(1<<24+1) || got[1] != -3*clock {
			t.Fatalf("clock %d: counts %v", clock, got)
		}
	}
	if _, err := trainer.Step(false); !errors.Is(err, ps.ErrOverflow) {
		t.Errorf("error %v, want ErrOverflow", err)
	}
}

// descent sends gradients to a table with a rule, and none for its second row.
type descent struct{ toy }

func (descent) Tables() []ps.Table {
	return []ps.Table{
		{Name: "w", Rows: 2, Cols: 1, Rule: ps.Rule{Name: ps.SGD, Rate: 0.5, Momentum: 0.5}},
		{Name: "sum", Rows: 1, Cols: 1},
	}
}

func (a descent) LoadSplit(id ps.Split, _ io.Reader, _ uint64) (apps.Split, error) {
	return descentSplit{toySplit{a.toy, id}}, nil
}

type descentSplit struct{ toySplit }

func (s descentSplit) Needs(_ ps.Clock, keys []ps.Key) []ps.Key {
	return append(keys, shared, ps.Key{Row: 1}, ps.Key{Table: 1})
}
func (s descentSplit) EvalNeeds(keys []ps.Key) []ps.Key { return keys }

func (s descentSplit) Run(c ps.Clock, rows apps.Rows, _ bool) (apps.Stats, error) {
	if c == 1 {
		apps.Gradient(rows, shared)[0]++
	}
	rows.Row(shared)[0] = 99 // is not sent
	rows.Row(ps.Key{Table: 1})[0]++
	return apps.Stats{}, nil
}

// The splits' gradients are summed, and the rule continues where there are none.
func TestRule(t *testing.T) {
	trainer, err := New(descent{}, ps.Schema{Splits: 3}, text)
	if err != nil {
		t.Fatal(err)
	}
	trainer.SetThreads(2)
	for c, want := range []float32{-1.5, -2.25, -2.625} { // 3 times 0.5, then half of it, then a quarter
		if _, err := trainer.Step(false); err != nil {
			t.Fatal(err)
		}
		if got := trainer.Row(shared)[0]; got != want {
			t.Errorf("clock %d: %g, want %g", c+1, got, want)
		}
		if got := trainer.Row(ps.Key{Row: 1})[0]; got != 0 {
			t.Errorf("clock %d: a row without gradient is %g", c+1, got)
		}
		if got := trainer.Row(ps.Key{Table: 1})[0]; got != float32(3*(c+1)) {
			t.Errorf("clock %d: the table without a rule has %g", c+1, got)
		}
	}
}

func TestOverflowIsAnError(t *testing.T) {
	trainer, err := New(toy{amount: math.MaxFloat32 / 4}, ps.Schema{Splits: 1}, text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trainer.Step(false); !errors.Is(err, ps.ErrOverflow) {
		t.Errorf("error %v, want ErrOverflow", err)
	}
}

func TestNewRefuses(t *testing.T) {
	missing := errors.New("missing")
	for name, c := range map[string]struct {
		schema ps.Schema
		open   apps.Open
		want   string
	}{
		"staleness": {ps.Schema{Splits: 1, Staleness: 1}, text, "staleness 1"},
		"no splits": {ps.Schema{}, text, "0 splits"},
		"no file":   {ps.Schema{Splits: 1}, func(ps.Split) (io.ReadCloser, error) { return nil, missing }, "open split 0: missing"},
		"wrong file": {ps.Schema{Splits: 2}, func(ps.Split) (io.ReadCloser, error) { return text(0) },
			`split 1: read "0"`},
	} {
		if _, err := New(toy{}, c.schema, c.open); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
