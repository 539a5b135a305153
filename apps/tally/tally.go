// Package tally is an application for drills: it counts the work done, in integers, and learns nothing. Whatever happens to machines, and
// however stale reads may be, its tables after a clock are known in advance, cell by cell: an update that is lost or counted twice is
// noticed. It is only in programs built with the tag "drill".
package tally

import (
	"bufio"
	"fmt"
	"io"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/ps"
)

// Sizes of the tables.
const (
	rows    = 512 // that all splits share
	columns = 8
	touches = 12 // cells that a split adds to in a clock
)

const (
	shared ps.TableID = iota
	own               // a row for each split: the clocks done, and the sum of their numbers
)

// work is the number of floating-point operations that a split's clock counts as: machines are paced by it.
const work = 1e6

// Kind is the application for the registry.
type Kind struct{}

// Name is its name in job files.
func (Kind) Name() string { return "tally" }

// Params are for drills.
func (Kind) Params() []apps.Param {
	return []apps.Param{{Name: "panic_at", Max: 1 << 40, Whole: true, Unit: "clock",
		Why: "every split panics when it comes to this clock; 0: none does"}}
}

// Prepare writes only each split's number: the input is ignored.
func (Kind) Prepare(_ apps.Input, cut apps.Cut, create apps.Create) (apps.Dataset, error) {
	for s := range cut.Splits {
		w, err := create(ps.Split(s))
		if err != nil {
			return apps.Dataset{}, err
		}
		if _, err := fmt.Fprintln(w, s); err != nil {
			return apps.Dataset{}, err
		}
		if err := w.Close(); err != nil {
			return apps.Dataset{}, err
		}
	}
	return apps.Dataset{Splits: cut.Splits, Examples: int64(cut.Splits), Test: int64(cut.Splits)}, nil
}

// New creates the program.
func (Kind) New(params apps.Params, data apps.Dataset) (apps.Program, error) {
	values, err := params.Resolve(Kind{}.Params())
	if err != nil {
		return nil, err
	}
	return program{data.Splits, ps.Clock(values.Float("panic_at"))}, nil
}

type program struct {
	splits  int
	panicAt ps.Clock
}

func (program) Name() string                     { return Kind{}.Name() }
func (p program) WorkPerClock() float64          { return work * float64(p.splits) }
func (program) Score(l float64, n int64) float64 { return l / float64(n) }
func (program) ScoreName() string                { return "ones" }

func (p program) Tables() []ps.Table {
	return []ps.Table{
		{Name: "shared", Kind: ps.Int32, Rows: rows, Cols: columns},
		{Name: "own", Kind: ps.Int32, Rows: uint64(p.splits), Cols: 2, Ranged: true},
	}
}

func (p program) Evaluate(apps.Rows, apps.Open) (apps.Stats, error) {
	return apps.Stats{TestCount: int64(p.splits), TestLoss: float64(p.splits)}, nil
}

func (p program) Export(tables apps.Rows, _ apps.Open) (model.Model, error) {
	var m model.Model
	for id, t := range p.Tables() {
		tensor := model.Tensor{Name: t.Name, Shape: []int{int(t.Rows), t.Cols}}
		for row := range t.Rows {
			tensor.Int32 = append(tensor.Int32, ps.Ints(tables.Row(ps.Key{Table: ps.TableID(id), Row: ps.RowID(row)}))...)
		}
		m.Tensors = append(m.Tensors, tensor)
	}
	return m, nil
}

func (p program) LoadSplit(id ps.Split, r io.Reader, _ uint64) (apps.Split, error) {
	var written ps.Split
	if _, err := fmt.Fscan(bufio.NewReader(r), &written); err != nil || written != id {
		return nil, fmt.Errorf("the file of split %d holds %d: %w", id, written, err)
	}
	if p.panicAt > 0 {
		return panicking{split(id), p.panicAt}, nil
	}
	return split(id), nil
}

// panicking is a split with a deliberate bug.
type panicking struct {
	split
	at ps.Clock
}

func (p panicking) Run(c ps.Clock, tables apps.Rows, evaluate bool) (apps.Stats, error) {
	if c >= p.at {
		panic(fmt.Sprintf("tally: a drill of clock %d", c))
	}
	return p.split.Run(c, tables, evaluate)
}

type split ps.Split

// cell returns one of the cells to which a split adds in a clock.
func cell(s ps.Split, c ps.Clock, i int) (row ps.RowID, column int) {
	h := ps.Hash(uint64(s), uint64(c), uint64(i))
	return ps.RowID(h % rows), int(h / rows % columns)
}

func (s split) Needs(c ps.Clock, keys []ps.Key) []ps.Key {
	seen := map[ps.RowID]bool{}
	for i := range touches {
		if row, _ := cell(ps.Split(s), c, i); !seen[row] {
			seen[row] = true
			keys = append(keys, ps.Key{Table: shared, Row: row})
		}
	}
	return append(keys, ps.Key{Table: own, Row: ps.RowID(s)})
}

func (split) EvalNeeds(keys []ps.Key) []ps.Key { return keys }

func (s split) Run(c ps.Clock, tables apps.Rows, evaluate bool) (apps.Stats, error) {
	for i := range touches {
		row, column := cell(ps.Split(s), c, i)
		apps.Counts(tables, ps.Key{Table: shared, Row: row})[column]++
	}
	mine := apps.Counts(tables, ps.Key{Table: own, Row: ps.RowID(s)})
	mine[0]++
	mine[1] += int32(c)
	stats := apps.Stats{Examples: 1, Loss: 1, Work: work}
	if evaluate {
		stats.TestCount, stats.TestLoss = 1, 1
	}
	return stats, nil
}

// Expected returns the contents of the tables, by name, after each split has done each clock up to this one exactly once.
func Expected(splits int, clock ps.Clock) map[string][]int32 {
	all := map[string][]int32{"shared": make([]int32, rows*columns), "own": make([]int32, 2*splits)}
	for s := range ps.Split(splits) {
		for c := ps.Clock(1); c <= clock; c++ {
			for i := range touches {
				row, column := cell(s, c, i)
				all["shared"][int(row)*columns+column]++
			}
			all["own"][2*s]++
			all["own"][2*s+1] += int32(c)
		}
	}
	return all
}
