package diloco

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/ps"
)

// child moves every float by its index, or a multiple of that, and does some of the steps.
type child struct {
	floats, done int
	times        float32
	orders       []apps.Order
	given        []float32
}

func (c *child) Ready(context.Context) (int, error) { return c.floats, nil }

func (c *child) Memory() (rows, delta []float32) { return nil, nil }

func (c *child) Round(_ context.Context, o apps.Order, give func([]float32)) (apps.Delivery, []float32, error) {
	c.orders = append(c.orders, o)
	row := terms.Row()
	area := (c.floats + row - 1) / row * (row + 1)
	c.given = make([]float32, area)
	give(c.given)
	delta := make([]float32, area)
	for i := range c.floats {
		delta[i+i/row] = float32(i) * max(c.times, 1)
	}
	return apps.Delivery{Steps: min(c.done, o.Steps), Loss: 6, Losses: 3}, delta, nil
}

// rows are a worker's copies of the rows that a split needs.
type rows struct {
	values, gradients map[ps.Key][]float32
}

func (r *rows) Row(k ps.Key) []float32      { return r.values[k] }
func (r *rows) Gradient(k ps.Key) []float32 { return r.gradients[k] }

func newProgram(t *testing.T, terms apps.Terms, params apps.Params) *program {
	t.Helper()
	data, err := Detail{Terms: terms, Program: []byte(`{}`), Work: 8}.Dataset()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Kind{}.New(params, data)
	if err != nil {
		t.Fatal(err)
	}
	return p.(*program)
}

var terms = apps.Terms{Every: 10, Rate: 0.7, Momentum: 0.9, Steps: 95, Floats: 200, Replicas: 4}

// round does a clock of some splits as a worker would, and returns each split's delivery.
func round(t *testing.T, p *program, c ps.Clock, ids ...ps.Split) []*rows {
	t.Helper()
	p.Begin(t.Context(), c, ids)
	var out []*rows
	for _, id := range ids {
		loaded, err := p.LoadSplit(id, strings.NewReader("0"), 1)
		if err != nil {
			t.Fatal(err)
		}
		r := &rows{map[ps.Key][]float32{}, map[ps.Key][]float32{}}
		for _, k := range loaded.Needs(c, nil) {
			cols := p.Tables()[0].Cols
			r.values[k], r.gradients[k] = make([]float32, cols), make([]float32, cols)
			r.values[k][0] = float32(k.Row)
		}
		if _, err := loaded.Run(c, r, false); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// A model of 130 floats fills the first rows; each row has its part of the delta, times the weight, and the weight.
func TestRowsAreRangesOfTheModel(t *testing.T) {
	p := newProgram(t, terms, nil)
	if table := p.Tables()[0]; table.Cols != 65 || table.Rows != 4 || table.Rule.Check() != nil {
		t.Fatalf("%+v", table)
	}
	c := &child{floats: 130, done: 5}
	p.Attach(c)
	r := round(t, p, 3, 2)[0]
	if len(r.values) != 3 || c.given[0] != 0 || c.given[65] != 1 || c.given[130] != 2 {
		t.Errorf("%d rows, given %v", len(r.values), c.given)
	}
	if o := c.orders[0]; o != (apps.Order{Clock: 3, Replica: 2, First: 20, Steps: 10}) {
		t.Errorf("order %+v", o)
	}
	last := r.gradients[ps.Key{Row: 2}]
	if last[0] != 64 || last[1] != 64.5 || last[2] != 0 || last[64] != 0.5 {
		t.Errorf("the last row is delivered as %v", last)
	}
	if o := order(terms, ps.Clock(Rounds(terms)), 0); o.First != 90 || o.Steps != 5 {
		t.Errorf("the last round is %+v", o)
	}
}

// A machine with several splits computes its own and passes over the others, so that nobody waits for unfinished work; a split that it
// takes over in the clock that it has just done is passed over, too.
func TestMachineComputesOneReplica(t *testing.T) {
	p := newProgram(t, terms, nil)
	c := &child{floats: 130, done: 10}
	p.Attach(c)
	delivered := func(clock ps.Clock, ids ...ps.Split) (who []ps.Split) {
		if clock < 0 {
			p.Begin(t.Context(), -clock, ids)
			return nil
		}
		for i, r := range round(t, p, clock, ids...) {
			if len(r.gradients) > 0 {
				who = append(who, ids[i])
			}
		}
		return who
	}
	for _, step := range []struct {
		clock ps.Clock
		has   []ps.Split
		want  []ps.Split
	}{
		{1, []ps.Split{2}, []ps.Split{2}},
		{1, []ps.Split{0}, nil},              // of a lost machine
		{2, []ps.Split{0, 2}, []ps.Split{2}}, // its own
		{3, []ps.Split{0, 2, 3}, []ps.Split{2}},
		{4, []ps.Split{0, 3}, []ps.Split{0}}, // its own was taken
		{5, []ps.Split{0, 3}, []ps.Split{0}},
		{6, []ps.Split{0}, []ps.Split{0}},
		{-7, []ps.Split{0}, nil}, // announced, but others have not delivered theirs
		{6, []ps.Split{1}, nil},  // of a lost machine
		{7, []ps.Split{0, 1}, []ps.Split{0}},
		{3, []ps.Split{0, 3}, []ps.Split{0}}, // after a roll-back
		{3, []ps.Split{3}, nil},
		{1, []ps.Split{3}, []ps.Split{3}},
	} {
		if got := delivered(step.clock, step.has...); !slices.Equal(got, step.want) {
			t.Errorf("clock %d with %v: %v delivers, want %v", step.clock, step.has, got, step.want)
		}
	}
	deterministic := terms
	deterministic.Deterministic = true
	p = newProgram(t, deterministic, nil)
	p.Attach(c)
	if got := delivered(1, 0, 1, 3); !slices.Equal(got, []ps.Split{0, 1, 3}) {
		t.Errorf("deterministic: %v deliver", got)
	}
	p = newProgram(t, terms, apps.Params{Passes: 1.0})
	if got := delivered(1, 0, 1); got != nil || p.Program() != nil {
		t.Errorf("a machine that passes: %v", got)
	}
}

func TestOver(t *testing.T) {
	began := model.Model{Tensors: []model.Tensor{
		{Name: "a", Shape: []int{2}, Float: []float32{1, 2}}, {Name: "n", Shape: []int{1}, Int: []int64{7}}, {Name: "z", Shape: []int{1}, Float: []float32{3}}}}
	m, err := Over(began, []string{"z", "a"}, []float32{10, 20, 30, 0, 0})
	if err != nil || m.Tensors[0].Float[0] != 21 || m.Tensors[0].Float[1] != 32 || m.Tensors[2].Float[0] != 13 || m.Tensors[1].Int[0] != 7 {
		t.Errorf("%+v %v", m, err)
	}
	if _, err := Over(began, []string{"b"}, nil); err == nil {
		t.Error("a tensor that is not there")
	}
	if _, err := Over(began, []string{"a"}, []float32{1}); err == nil {
		t.Error("tables that are too short")
	}
}

func TestDetailThatCannotBeIsRefused(t *testing.T) {
	wrong := terms
	wrong.Every = 0
	data, err := Detail{Terms: wrong}.Dataset()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (Kind{}).New(nil, data); err == nil {
		t.Error("rounds of no step")
	}
}

// A narrow transport keeps rounding errors, and delivers them later; in deterministic jobs a delivery depends only on its delta.
func TestRoundedDeltas(t *testing.T) {
	for _, transport := range []string{"bf16", "int8"} {
		for _, deterministic := range []bool{false, true} {
			terms := terms
			terms.Transport, terms.Deterministic, terms.Steps = transport, deterministic, 1000
			p := newProgram(t, terms, nil)
			const times = 1.0173
			p.Attach(&child{floats: 130, done: 10, times: times})
			sum, first := make([]float64, 130), make([]float32, 130)
			for clock := ps.Clock(1); clock <= 100; clock++ {
				for k, g := range round(t, p, clock, 1)[0].gradients {
					if g[64] != 1 {
						t.Fatalf("weight %v", g[64])
					}
					for i, x := range g[:min(64, 130-64*int(k.Row))] {
						at := 64*int(k.Row) + i
						sum[at] += float64(x)
						if clock == 1 {
							first[at] = x
						} else if deterministic && x != first[at] {
							t.Fatalf("float %d was %v and is %v", at, first[at], x)
						}
					}
				}
			}
			rounded := 0
			for i := range sum {
				if first[i] != float32(i)*times {
					rounded++
				}
				if want := 100 * times * float64(i); !deterministic && math.Abs(sum[i]-want) > 1.01 {
					t.Errorf("%s: 100 times %d come to %v, not %v", transport, i, sum[i], want)
				}
			}
			if rounded < 100 {
				t.Errorf("%s: only %d of 130 floats are rounded", transport, rounded)
			}
		}
	}
}
