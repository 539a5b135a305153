// Package means is the smallest application that trains: it learns the mean of every column of a table of numbers, by small steps towards
// each batch. It shows what an application consists of; docs/extend.md walks through it.
package means

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/ps"
)

// Kind is the application before it has seen data. List it in apps/all to offer it.
type Kind struct{}

// Name returns the value of train.app in job files.
func (Kind) Name() string { return "means" }

// Params returns the settings below train.params, each with its default, limits and explanation.
func (Kind) Params() []apps.Param {
	return []apps.Param{{Name: "step", Default: 0.1, Min: 1e-6, Max: 1, Why: "how far to go towards the mean of a clock's examples"}}
}

// detail is what every process of a job must know about the data besides its size.
type detail struct{ Columns int }

// Prepare reads the input once and distributes its lines to the splits. It is a pure function of the input and the cut.
func (Kind) Prepare(in apps.Input, cut apps.Cut, create apps.Create) (apps.Dataset, error) {
	files := make([]io.WriteCloser, cut.Splits)
	for s := range files {
		var err error
		if files[s], err = create(ps.Split(s)); err != nil {
			return apps.Dataset{}, err
		}
	}
	d, data := detail{}, apps.Dataset{Splits: cut.Splits}
	lines := bufio.NewScanner(in.Data)
	for lines.Scan() {
		numbers, err := parse(lines.Text())
		if err != nil || d.Columns != 0 && len(numbers) != d.Columns {
			return data, fmt.Errorf("%s:%d: want as many numbers as in the first line, with commas between: %v", in.Name, data.Examples+1, err)
		}
		d.Columns = len(numbers)
		if _, err := fmt.Fprintln(files[int(data.Examples)%cut.Splits], lines.Text()); err != nil {
			return data, err
		}
		data.Examples++
	}
	errs := []error{lines.Err()}
	for _, f := range files {
		errs = append(errs, f.Close()) // which makes it durable
	}
	if data.Examples < int64(cut.Splits) {
		errs = append(errs, fmt.Errorf("%d lines cannot be spread over %d splits", data.Examples, cut.Splits))
	}
	var err error
	data.Detail, err = json.Marshal(d)
	return data, errors.Join(append(errs, err)...)
}

func parse(line string) ([]float32, error) {
	var numbers []float32
	for field := range strings.SplitSeq(line, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(field), 32)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, float32(v))
	}
	return numbers, nil
}

// New creates the application for prepared data. Every process of a job passes the same arguments.
func (k Kind) New(params apps.Params, data apps.Dataset) (apps.Program, error) {
	values, err := params.Resolve(k.Params())
	if err != nil {
		return nil, err
	}
	var d detail
	if err := json.Unmarshal(data.Detail, &d); err != nil {
		return nil, fmt.Errorf("what was learned of the data: %w", err)
	}
	return program{step: values["step"], columns: d.Columns, examples: data.Examples}, nil
}

type program struct {
	step     float64
	columns  int
	examples int64
}

// means is the only row of the only table.
var means = ps.Key{Table: 0, Row: 0}

func (program) Name() string { return Kind{}.Name() }

// Tables returns the parameters: here one row, whose updates are differences that add up.
func (p program) Tables() []ps.Table {
	return []ps.Table{{Name: "means", Rows: 1, Cols: p.columns}}
}

// WorkPerClock returns the work of one clock over all splits, in floating-point operations: plans and paces depend on it.
func (p program) WorkPerClock() float64 { return 3 * float64(p.examples) * float64(p.columns) }

// Score returns the displayed figure: the root mean square distance from the means.
func (program) Score(loss float64, n int64) float64 { return math.Sqrt(loss / float64(max(n, 1))) }
func (program) ScoreName() string                   { return "RMS" }

// LoadSplit reads what Prepare wrote for a split.
func (p program) LoadSplit(_ ps.Split, r io.Reader, _ uint64) (apps.Split, error) {
	s := &split{program: p}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		row, err := parse(lines.Text())
		if err != nil || len(row) != p.columns {
			return nil, fmt.Errorf("a damaged line %q: %v", lines.Text(), err)
		}
		s.rows = append(s.rows, row)
	}
	return s, lines.Err()
}

type split struct {
	program
	rows [][]float32
}

// Needs returns the rows that Run touches in a clock: the worker fetches them before it calls Run.
func (*split) Needs(_ ps.Clock, keys []ps.Key) []ps.Key { return append(keys, means) }

// EvalNeeds returns the rows for measuring held-out examples, of which there are none.
func (*split) EvalNeeds(keys []ps.Key) []ps.Key { return keys }

// Run does the work of a clock: a pure function of the split, the clock and the given rows. It changes rows in place; the differences are
// sent and added up over all splits.
func (s *split) Run(_ ps.Clock, rows apps.Rows, _ bool) (apps.Stats, error) {
	row := rows.Row(means)
	change := make([]float64, len(row))
	stats := apps.Stats{Examples: int64(len(s.rows)), Work: 3 * float64(len(s.rows)) * float64(len(row))}
	for _, example := range s.rows {
		for i, v := range example {
			distance := float64(v) - float64(row[i])
			stats.Loss += distance * distance
			change[i] += distance
		}
	}
	for i := range row {
		row[i] += float32(s.step * change[i] / float64(s.examples))
	}
	return stats, nil
}

// Evaluate measures held-out examples with the final tables.
func (program) Evaluate(apps.Rows, apps.Open) (apps.Stats, error) { return apps.Stats{}, nil }

// Export creates the model file.
func (p program) Export(rows apps.Rows, _ apps.Open) (model.Model, error) {
	return model.Model{Tensors: []model.Tensor{{Name: "means", Shape: []int{p.columns}, Float: rows.Row(means)}}}, nil
}
