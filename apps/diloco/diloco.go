// Package diloco has the servers' part of DiLoCo (Douillard et al., "DiLoCo: distributed low-communication training of language models",
// 2023) for a model that a user's program trains. A split is a replica, and a clock a round of many inner steps. The table holds the
// model's change since the start (w - w0), so that nothing is transferred at the start; the outer step is the rule ps.Mean.
//
// It does not know tensors: rows are consecutive ranges of the model's floats. Names and shapes are in the child's hello.
package diloco

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/ps"
)

// Name is the application's name in journals; job files select it by `tiers`.
const Name = "diloco"

// Detail is the Dataset's Detail of a job with tiers, whose data only the program knows.
type Detail struct {
	Terms   apps.Terms      `json:"terms"`
	Program json.RawMessage `json:"program,omitempty"` // for machines that compute
	Work    float64         `json:"work"`              // per clock over all splits, in floating-point operations
}

// Dataset describes a job without data.
func (d Detail) Dataset() (apps.Dataset, error) {
	text, err := json.Marshal(d)
	return apps.Dataset{Splits: d.Terms.Replicas, Detail: text}, err
}

// Of decodes a Detail written by Dataset.
func Of(data apps.Dataset) (d Detail, err error) {
	if err = json.Unmarshal(data.Detail, &d); err != nil {
		return d, fmt.Errorf("reading what is known of the program: %w", err)
	}
	t := &d.Terms
	if t.Every < 1 || t.Steps < 1 || t.Floats < 1 || t.Replicas < 1 || t.Replicas != data.Splits {
		return d, fmt.Errorf("%d replicas of %d floats, %d steps in rounds of %d, and %d splits: each must be at least 1, and splits are replicas",
			t.Replicas, t.Floats, t.Steps, t.Every, data.Splits)
	}
	return d, nil
}

// Passes is the setting of machines that only hold splits which have no other machine, and compute nothing.
const Passes = "passes"

// Kind returns the application by name.
type Kind struct{}

// Name implements apps.Kind.
func (Kind) Name() string { return Name }

// Params implements apps.Kind.
func (Kind) Params() []apps.Param {
	return []apps.Param{{Name: Passes, Max: 1, Whole: true, Why: "1: the machine holds splits and computes nothing"}}
}

// Prepare returns an error: the program reads the data.
func (Kind) Prepare(apps.Input, apps.Cut, apps.Create) (apps.Dataset, error) {
	return apps.Dataset{}, fmt.Errorf("%s reads no data: its program does", Name)
}

// New implements apps.Kind.
func (k Kind) New(params apps.Params, data apps.Dataset) (apps.Program, error) {
	v, err := params.Resolve(k.Params())
	if err != nil {
		return nil, err
	}
	d, err := Of(data)
	if err != nil {
		return nil, err
	}
	return &program{Detail: d, passes: v.Float(Passes) > 0}, nil
}

// Rounds returns the number of clocks for these steps.
func Rounds(t apps.Terms) int { return (t.Steps + t.Every - 1) / t.Every }

// order returns a replica's round.
func order(t apps.Terms, c ps.Clock, replica ps.Split) apps.Order {
	first := (int(c) - 1) * t.Every
	return apps.Order{Clock: c, Replica: replica, First: first, Steps: min(t.Every, t.Steps-first)}
}

type program struct {
	Detail
	passes bool
	child  apps.Child

	left   []float32  // rounding errors of this machine's deltas, added to its next one; used by one round at a time
	floats int        // of the model; set when the child is ready
	mu     sync.Mutex // the child does one round at a time; guards the following
	now    roundNow
}

// roundNow is what Begin announced.
type roundNow struct {
	ctx  context.Context //nolint:containedctx // of one round
	runs []ps.Split      // splits that compute; others pass the clock with weight 0
	own  ps.Split        // the split that this machine computes
	any  bool            // whether there is one
	done ps.Clock        // the last clock computed by the child; the next may have been announced since
}

func (p *program) rows(floats int) int { return (floats + p.Terms().Row() - 1) / p.Terms().Row() }

// Name implements apps.App.
func (*program) Name() string { return Name }

// Terms implements apps.Outside.
func (p *program) Terms() apps.Terms { return p.Detail.Terms }

// Program implements apps.Outside.
func (p *program) Program() json.RawMessage {
	if p.passes {
		return nil
	}
	return p.Detail.Program
}

// Attach implements apps.Outside.
func (p *program) Attach(c apps.Child) { p.child = c }

// Tables implements apps.App.
func (p *program) Tables() []ps.Table {
	t := p.Terms()
	return []ps.Table{{Name: "model", Rows: uint64(p.rows(t.Floats)), Cols: t.Row() + 1, Ranged: true,
		Rule: ps.Rule{Name: ps.Mean, Rate: float32(t.Rate), Momentum: float32(t.Momentum), Nesterov: t.Momentum > 0}}}
}

// WorkPerClock implements apps.Program.
func (p *program) WorkPerClock() float64 { return p.Work }

// Score implements apps.Program: the mean loss reported by the program.
func (*program) Score(loss float64, n int64) float64 { return loss / float64(n) }

// ScoreName implements apps.Program.
func (*program) ScoreName() string { return "loss" }

// Evaluate implements apps.Program: only the program can measure.
func (*program) Evaluate(apps.Rows, apps.Open) (apps.Stats, error) { return apps.Stats{}, nil }

// Export implements apps.Program: the model's change, as one tensor. Over adds it to the initial model.
func (p *program) Export(tables apps.Rows, _ apps.Open) (model.Model, error) {
	floats := p.Terms().Floats
	all := make([]float32, 0, p.rows(floats)*p.Terms().Row())
	for r := range p.rows(floats) {
		row := tables.Row(ps.Key{Row: ps.RowID(r)})
		all = append(all, row[:len(row)-1]...)
	}
	return model.Model{Tensors: []model.Tensor{{Name: "moved", Shape: []int{floats}, Float: all[:floats]}}}, nil
}

// LoadSplit implements apps.App. It waits for the child: a machine gets splits only when it can compute.
func (p *program) LoadSplit(id ps.Split, r io.Reader, _ uint64) (apps.Split, error) {
	if _, err := io.Copy(io.Discard, r); err != nil {
		return nil, err
	}
	if p.child != nil {
		floats, err := p.child.Ready(context.Background())
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		p.floats = floats
		p.mu.Unlock()
	}
	return &split{p, id}, nil
}

// Begin implements apps.Outside. In deterministic jobs every split computes, one after another. In others only the machine's own split
// computes, as long as it is here: splits held for other machines pass, so that nobody waits for them.
func (p *program) Begin(ctx context.Context, c ps.Clock, splits []ps.Split) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := &p.now
	n.ctx, n.runs = ctx, nil
	switch {
	case p.child == nil:
	case p.Terms().Deterministic:
		n.runs = splits
	case n.any && slices.Contains(splits, n.own):
		n.runs = []ps.Split{n.own}
	case n.any && n.done == c: // it has done this clock, and takes over another's missing one
	case len(splits) > 0:
		n.own, n.any = splits[0], true
		n.runs = []ps.Split{n.own}
	}
}

// Space implements apps.Outside.
func (p *program) Space() (rows, gradients []float32) {
	if p.child == nil {
		return nil, nil
	}
	return p.child.Memory()
}

type split struct {
	*program
	id ps.Split
}

// Needs implements apps.Split.
func (s *split) Needs(_ ps.Clock, keys []ps.Key) []ps.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.now.runs, s.id) {
		for r := range s.rows(s.floats) {
			keys = append(keys, ps.Key{Row: ps.RowID(r)})
		}
	}
	return keys
}

// EvalNeeds implements apps.Split.
func (*split) EvalNeeds(keys []ps.Key) []ps.Key { return keys }

// Run implements apps.Split.
func (s *split) Run(c ps.Clock, rows apps.Rows, _ bool) (apps.Stats, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.now.runs, s.id) {
		return apps.Stats{}, nil
	}
	width := s.Terms().Row()
	each := func(all []float32, do func(row ps.Key, part []float32)) {
		for r := range s.rows(s.floats) {
			do(ps.Key{Row: ps.RowID(r)}, all[r*(width+1):][:min(width, s.floats-r*width)])
		}
	}
	o := order(s.Terms(), c, s.id)
	d, delta, err := s.child.Round(s.now.ctx, o, func(to []float32) {
		each(to, func(k ps.Key, part []float32) { move(part, rows.Row(k)) })
	})
	if err == nil {
		s.now.done = c
	}
	if err != nil || d.Steps == 0 {
		return apps.Stats{}, err
	}
	weight := float32(d.Steps) / float32(o.Steps)
	transport, left := ps.TransportOf(s.Terms().Transport), s.leftOver(s.floats)
	each(delta, func(k ps.Key, part []float32) {
		g := apps.UnsetGradient(rows, k)
		clear(g[len(part):]) // the last row may be longer than the model
		g[len(g)-1] = weight
		if weight == 1 {
			move(g, part)
		} else {
			for i, x := range part {
				g[i] = x * weight
			}
		}
		if transport == ps.Whole {
			return
		}
		if left == nil {
			transport.Round(g[:len(part)])
			return
		}
		mine := left[:len(part)]
		left = left[len(part):]
		for i := range mine {
			mine[i] += g[i]
		}
		copy(g, mine)
		transport.Round(g[:len(part)])
		for i := range mine {
			mine[i] -= g[i]
		}
	})
	return apps.Stats{Examples: int64(d.Losses), Loss: d.Loss, Work: max(s.Work/float64(s.Terms().Replicas)*float64(weight), 1)}, nil
}

// move copies, unless the memory is the same (Space).
func move(to, from []float32) {
	if &to[0] != &from[0] {
		copy(to, from)
	}
}

// leftOver returns the rounding errors so far (error feedback); nil: each delivery is rounded independently. Deterministic jobs use nil, as
// results must not depend on the machine's history.
func (p *program) leftOver(floats int) []float32 {
	if p.Terms().Deterministic || ps.TransportOf(p.Terms().Transport) == ps.Whole {
		return nil
	}
	if len(p.left) != floats {
		p.left = make([]float32, floats)
	}
	return p.left
}

// Over returns a model of the tensors named by a child, in order: the initial values plus the change.
func Over(began model.Model, names []string, moved []float32) (model.Model, error) {
	for _, name := range names {
		i := slices.IndexFunc(began.Tensors, func(t model.Tensor) bool { return t.Name == name })
		if i < 0 {
			return began, fmt.Errorf("the model as it began has no tensor %q", name)
		}
		values := began.Tensors[i].Float
		if len(values) > len(moved) {
			return began, fmt.Errorf("tensor %q: the tables end before it", name)
		}
		for j := range values {
			values[j] += moved[j]
		}
		moved = moved[len(values):]
	}
	return began, nil
}
