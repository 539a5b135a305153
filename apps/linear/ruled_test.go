package linear

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/splitmem"
	"github.com/tierml/tierml/ps"
)

var ruledNames = methodNames[proximal:]

// The servers' proximal steps find the same minimum as averaging, and leave out the same weights.
func TestServersRulesFindTheMinimum(t *testing.T) {
	for _, name := range []string{"linear", "ridge", "lasso", "robust", "logistic", "svm"} {
		files, dataset := small(t, name, 5)
		params := apps.Params{}
		if kind(t, name).loss.classifies() {
			params["l2"] = 0.01 // with almost none the minimum is far away
		}
		best := train(t, kind(t, name), params, files, dataset, 1000)
		for _, optimizer := range ruledNames {
			params["optimizer"] = optimizer
			m := train(t, kind(t, name), params, files, dataset, 1500)
			if got, want := m.objective(t), best.objective(t); got > want*1.005 || got < want*(1-1e-3) {
				t.Errorf("%s by %s: objective %v, want %v", name, optimizer, got, want)
			}
			if weights, _ := m.program.weights(m.trainer); name == "lasso" && (weights[2] != 0 || weights[0] == 0) {
				t.Errorf("lasso by %s: weights %v: want exactly 0 for the noise alone", optimizer, weights)
			}
		}
	}
}

func TestServersRulesDoNotDependOnSplits(t *testing.T) {
	for _, optimizer := range ruledNames {
		for _, name := range []string{"lasso", "logistic"} {
			var first []float32
			for _, splits := range []int{1, 2, 64} {
				files, dataset := small(t, name, splits)
				m := train(t, kind(t, name), apps.Params{"optimizer": optimizer}, files, dataset, 60)
				weights, _ := m.program.weights(m.trainer)
				if first == nil {
					first = weights
				}
				for i, w := range weights {
					if math.Abs(float64(w-first[i])) > 1e-3 {
						t.Fatalf("%s by %s: weight %d is %v with %d splits, %v with 1", name, optimizer, i, w, splits, first[i])
					}
				}
			}
		}
	}
}

// Gradients that arrive clocks late, all or at random, lead to the same objective.
func TestStaleGradients(t *testing.T) {
	const clocks = 600
	for _, name := range []string{"linear", "ridge", "lasso", "robust", "logistic", "svm"} {
		files, dataset := small(t, name, 8)
		params := kind(t, name).StaleDefaults()
		if kind(t, name).l2 != 0 { // the default, which is lower for this many examples, takes more clocks
			params["l2"] = 0.01
		}
		p, err := kind(t, name).program(params, dataset)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		lags := map[string]func(ps.Clock, ps.Split) ps.Clock{
			"none":   func(ps.Clock, ps.Split) ps.Clock { return 0 },
			"2":      func(ps.Clock, ps.Split) ps.Clock { return 2 },
			"5":      func(ps.Clock, ps.Split) ps.Clock { return 5 },
			"half 5": func(_ ps.Clock, s ps.Split) ps.Clock { return 5 * ps.Clock(s%2) },
			"random": func(ps.Clock, ps.Split) ps.Clock { return ps.Clock(rng.IntN(6)) },
			"bursts": func(c ps.Clock, _ ps.Split) ps.Clock { return c % 6 },
		}
		want := trainLate(t, p, files, clocks, lags["none"])
		for how, lag := range lags {
			if got := trainLate(t, p, files, clocks, lag); math.Abs(got/want-1) > 0.01 {
				t.Errorf("%s: objective %v with gradients late by %s; %v without", name, got, how, want)
			}
		}
	}
}

// trainLate acts as splits and servers do, with gradients computed from the weights of some clocks before.
func trainLate(t *testing.T, p *Program, files splitmem.Files, clocks ps.Clock, lag func(ps.Clock, ps.Split) ps.Clock) float64 {
	t.Helper()
	tables := p.Tables()
	stored := make(lateRows, len(tables))
	var splits []apps.Split
	for id := range ps.Split(8) {
		file, err := files.Open(id)
		if err != nil {
			t.Fatal(err)
		}
		split, err := p.LoadSplit(id, file, 1)
		if err != nil {
			t.Fatal(err)
		}
		splits = append(splits, split)
	}
	for i := range tables {
		for range tables[i].Rows {
			stored[i] = append(stored[i], make([]float32, tables[i].Width()))
		}
	}
	history := []lateRows{stored.seen(tables, 0)}
	for c := ps.Clock(1); c <= clocks; c++ {
		gradients := stored.seen(tables, 0)
		for _, rows := range gradients {
			for _, row := range rows {
				clear(row)
			}
		}
		for id, split := range splits {
			at := max(c-1-lag(c, ps.Split(id)), 0)
			if _, err := split.Run(c, late{history[at], gradients}, false); err != nil {
				t.Fatal(err)
			}
		}
		for i := range tables {
			for row, cells := range stored[i] {
				tables[i].Step(cells, gradients[i][row], c)
			}
		}
		history = append(history, stored.seen(tables, c))
	}
	objective, err := p.Objective(late{history[clocks], nil}, files.Open)
	if err != nil {
		t.Fatal(err)
	}
	return objective
}

// lateRows are rows by table and number.
type lateRows [][][]float32

// seen copies the columns as they are when a clock is folded.
func (r lateRows) seen(tables []ps.Table, c ps.Clock) lateRows {
	seen := make(lateRows, len(r))
	for i, rows := range r {
		for _, cells := range rows {
			row := make([]float32, tables[i].Cols)
			tables[i].Seen(row, cells, c)
			seen[i] = append(seen[i], row)
		}
	}
	return seen
}

// late has the rows as they were, and one sum of gradients for all splits.
type late struct{ rows, gradients lateRows }

func (l late) Row(k ps.Key) []float32      { return l.rows[k.Table][k.Row] }
func (l late) Gradient(k ps.Key) []float32 { return l.gradients[k.Table][k.Row] }
