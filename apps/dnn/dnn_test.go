package dnn

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/apps/splitmem"
	"github.com/tierml/tierml/ps"
)

// rings returns n points in three rings around the origin, which no line separates, with some rarely present features.
func rings(n int) string {
	var b strings.Builder
	stream := apps.NewStream(1, 2, 3)
	uniform := func() float64 { return float64(stream.Uint64()>>11) / (1 << 53) }
	for i := range n {
		ring := i % 3
		radius, angle := 0.3+float64(ring)+0.4*uniform(), 2*math.Pi*uniform()
		fmt.Fprintf(&b, "%d 1:%.4f 2:%.4f %d:0.1\n", 10*ring, radius*math.Cos(angle), radius*math.Sin(angle), 3+stream.Below(30))
	}
	return b.String()
}

func prepare(t testing.TB, k Kind, text string, splits int) (splitmem.Files, apps.Dataset) {
	t.Helper()
	files := splitmem.Files{}
	dataset, err := k.Prepare(apps.Input{Name: "small", Data: strings.NewReader(text)}, apps.Cut{Splits: splits, Holdout: 0.2, Seed: 1}, files.Create)
	if err != nil {
		t.Fatal(err)
	}
	return files, dataset
}

// trained is a network after some clocks.
type trained struct {
	program *Program
	trainer *local.Trainer
	files   splitmem.Files
}

func train(t testing.TB, k Kind, params apps.Params, splits, threads, clocks int) trained {
	t.Helper()
	files, dataset := prepare(t, k, rings(600), splits)
	p, err := k.New(params, dataset)
	if err != nil {
		t.Fatal(err)
	}
	trainer, err := local.New(p, ps.Schema{Splits: splits, Seed: 5}, files.Open)
	if err != nil {
		t.Fatal(err)
	}
	trainer.SetThreads(threads)
	for range clocks {
		if _, err := trainer.Step(true); err != nil {
			t.Fatal(err)
		}
	}
	return trained{p.(*Program), trainer, files}
}

func (m trained) errorRate(t testing.TB) float64 {
	t.Helper()
	stats, err := m.program.Evaluate(m.trainer, m.files.Open)
	if err != nil {
		t.Fatal(err)
	}
	return m.program.Score(stats.TestLoss, stats.TestCount)
}

func (m trained) weights() []float32 { return weightsOf(m.program, m.trainer) }

// deep is small, and uses every feature of networks.
var deep = apps.Params{"hidden": 20, "hidden_2": 12, "hidden_3": 8, "batches": 4, "step": 0.1}

func TestHiddenLayersFindRings(t *testing.T) {
	network := train(t, Networks(), deep, 3, 1, 600).errorRate(t)
	linear := train(t, Softmax(), apps.Params{"batches": 4}, 3, 1, 600).errorRate(t)
	if network > 0.1 || linear < 0.3 {
		t.Errorf("error rate %v with hidden layers, %v without: want few, and many", network, linear)
	}
}

// The gradient, found by differences of the loss.
func TestGradient(t *testing.T) {
	sizes := []int{3, 5, 4, 3}
	n := newNetwork(sizes, 3)
	stream := apps.NewStream(7, 7, 7)
	random := func(count int) []float32 {
		v := make([]float32, count)
		for i := range v {
			v[i] = float32(stream.Uint64()>>40)/(1<<23) - 1
		}
		return v
	}
	var all, gradients [][]float32 // every row of weights
	add := func(weights, gradient *[]float32, count int) {
		*weights, *gradient = random(count), make([]float32, count)
		all, gradients = append(all, *weights), append(gradients, *gradient)
	}
	for i := range n.layers {
		add(&n.layers[i].weights.bias, &n.layers[i].gradient.bias, sizes[i+1])
		for row := range sizes[i] {
			if i == 0 {
				add(&n.first[row], &n.firstGradient[row], sizes[1])
			} else {
				add(&n.layers[i].weights.inputs[row], &n.layers[i].gradient.inputs[row], sizes[i+1])
			}
		}
	}
	places, values, class := []uint32{0, 2}, []float32{0.7, -1.3}, 1
	loss := func() float64 {
		n.forward(places, values)
		var total float64
		for _, s := range n.output() {
			total += math.Exp(float64(s))
		}
		return math.Log(total) - float64(n.output()[class])
	}
	if _, finite := n.learn(places, values, class); !finite {
		t.Fatal("not finite")
	}
	moved := 0
	for i, gradient := range gradients {
		for j, g := range gradient {
			const h = 1e-3
			before := all[i][j]
			all[i][j] = before + h
			above := loss()
			all[i][j] = before - h
			below := loss()
			all[i][j] = before
			if want := (above - below) / (2 * h); math.Abs(float64(g)-want) > 1e-3 {
				t.Errorf("row %d, column %d: gradient %v, want %v", i, j, g, want)
			}
		}
		if slices.ContainsFunc(gradient, func(g float32) bool { return g != 0 }) {
			moved++
		}
	}
	if moved < len(all)/2 {
		t.Errorf("only %d rows of %d have a gradient", moved, len(all))
	}
}

// A clock is the same step, except for rounding, with any number of splits.
func TestSplitsDoNotMatter(t *testing.T) {
	for _, clocks := range []int{1, 2, 9} {
		one := train(t, Networks(), deep, 1, 1, clocks).weights()
		for _, splits := range []int{2, 64} {
			for i, w := range train(t, Networks(), deep, splits, 1, clocks).weights() {
				if math.Abs(float64(w-one[i])) > 2e-5 {
					t.Fatalf("%d splits, %d clocks: weight %d is %v, with 1 split %v", splits, clocks, i, w, one[i])
				}
			}
		}
	}
}

// Without float32 noise: the change of a clock is the previous one's, times momentum, less the gradient's step, which a run without
// momentum and penalty gives.
func TestMomentumAndPenalty(t *testing.T) {
	params := func(momentum, l2 float64) apps.Params {
		return apps.Params{"momentum": momentum, "l2": l2, "batches": 1, "step": 0.01, "decay": 0}
	}
	start := train(t, Networks(), params(0.5, 0), 3, 1, 0).weights()
	first := train(t, Networks(), params(0.5, 0), 3, 1, 1).weights()
	plain := train(t, Networks(), params(0, 0), 3, 1, 1).weights()
	penalised := train(t, Networks(), params(0, 10), 3, 1, 1)
	if !slices.Equal(first, plain) {
		t.Error("momentum matters in the first clock")
	}
	bias := map[int]bool{}
	at := 0
	for layer := range penalised.program.layers() {
		in, out := penalised.program.sizes[layer], penalised.program.sizes[layer+1]
		for j := range out {
			bias[at+in*out+j] = true
		}
		at += (in + 1) * out
	}
	for i, w := range penalised.weights() {
		want := plain[i]
		if !bias[i] {
			want -= 0.01 * 10 * start[i]
		}
		if math.Abs(float64(w-want)) > 1e-6 {
			t.Fatalf("weight %d is %v with penalty, want %v", i, w, want)
		}
	}
	// Two clocks: w2 = w1 - step*g(w1) + momentum*(w1-w0), and without momentum w2 = w1 - step*g(w1), at the same w1.
	with := train(t, Networks(), params(0.5, 0), 3, 1, 2).weights()
	without := train(t, Networks(), params(0, 0), 3, 1, 2).weights()
	for i := range with {
		if want := without[i] + 0.5*(first[i]-start[i]); math.Abs(float64(with[i]-want)) > 1e-6 {
			t.Fatalf("weight %d is %v, want %v", i, with[i], want)
		}
	}
}

func TestThreadsDoNotMatter(t *testing.T) {
	if a, b := train(t, Networks(), deep, 16, 1, 20), train(t, Networks(), deep, 16, 4, 20); !reflect.DeepEqual(a.weights(), b.weights()) {
		t.Error("1 and 4 threads give different weights")
	}
}

// recorded returns random rows and remembers which were used.
type recorded struct {
	rows, gradients map[ps.Key][]float32
	used            map[ps.Key]bool
}

func (r recorded) Gradient(k ps.Key) []float32 {
	r.used[k] = true
	return r.gradients[k]
}

func (r recorded) Row(k ps.Key) []float32 {
	r.used[k] = true
	return r.rows[k]
}

func given(p *Program, keys []ps.Key) recorded {
	r := recorded{map[ps.Key][]float32{}, map[ps.Key][]float32{}, map[ps.Key]bool{}}
	for _, k := range keys {
		r.rows[k] = make([]float32, p.Tables()[k.Table].Cols)
		r.gradients[k] = make([]float32, len(r.rows[k]))
		ps.InitRow(9, ps.Table{Init: ps.Init{Low: -1, High: 1}}, k.Table, k.Row, r.rows[k])
	}
	return r
}

func TestRunIsPureAndNeedsAreExact(t *testing.T) {
	files, dataset := prepare(t, Networks(), rings(60), 20)
	program, err := Networks().New(deep, dataset)
	if err != nil {
		t.Fatal(err)
	}
	p := program.(*Program)
	load := func(id ps.Split) apps.Split {
		s, err := p.LoadSplit(id, bytes.NewReader(files[id].Bytes()), 1)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	keepers := map[ps.Key]int{}
	for id := range ps.Split(20) {
		old := load(id)
		for layer, rows := range old.(*split).kept {
			for _, row := range rows {
				keepers[weights(layer, row)]++
			}
		}
		for c := ps.Clock(1); c <= 9; c++ {
			keys := old.Needs(c, []ps.Key{{Table: 99}})
			if keys[0] != (ps.Key{Table: 99}) {
				t.Fatal("Needs does not append")
			}
			keys = keys[1:]
			a := given(p, keys)
			if len(a.rows) != len(keys) {
				t.Fatalf("split %d, clock %d: a row is asked for twice", id, c)
			}
			statsA, errA := old.Run(c, a, false)
			if len(a.used) != len(keys) {
				t.Errorf("split %d, clock %d: %d rows asked for, %d used", id, c, len(keys), len(a.used))
			}
			b := given(p, keys)
			statsB, errB := load(id).Run(c, b, false)
			if errA != nil || errB != nil || statsA != statsB || !reflect.DeepEqual(a.gradients, b.gradients) {
				t.Fatalf("split %d, clock %d: %+v and %+v (%v, %v), or rows differ", id, c, statsA, statsB, errA, errB)
			}
			evaluated := given(p, old.EvalNeeds(keys))
			if stats, err := old.Run(c, evaluated, true); err != nil || stats.Loss != statsA.Loss || len(evaluated.used) != len(evaluated.rows) {
				t.Errorf("split %d, clock %d: with evaluation %+v, %v", id, c, stats, err)
			}
			for _, k := range keys {
				if !reflect.DeepEqual(a.gradients[k], evaluated.gradients[k]) {
					t.Fatalf("split %d, clock %d: evaluation changes the update of %v", id, c, k)
				}
			}
		}
	}
	for layer := range p.layers() {
		for row := range p.biasRow(layer) + 1 {
			want := 1
			if row == p.biasRow(layer) {
				want = 0 // no penalty
			}
			if n := keepers[weights(layer, row)]; n != want {
				t.Errorf("row %d of layer %d has %d keepers, want %d", row, layer, n, want)
			}
		}
	}
}

func TestAPassTakesEveryExampleOnce(t *testing.T) {
	for _, batches := range []int{1, 7, 1000} {
		m := train(t, Softmax(), apps.Params{"batches": batches}, 5, 1, 0)
		var total apps.Stats
		for range batches {
			stats, err := m.trainer.Step(false)
			if err != nil {
				t.Fatal(err)
			}
			total = total.Add(stats)
		}
		if want := m.program.WorkPerClock() * float64(batches); total.Examples != 480 || math.Abs(total.Work-want) > 1e-6*want {
			t.Errorf("%d batches: %d examples, work %v; want 480 and %v", batches, total.Examples, total.Work, want)
		}
	}
}

func TestDivergenceIsAnError(t *testing.T) {
	files, dataset := prepare(t, Softmax(), rings(60), 2)
	p, err := Softmax().New(apps.Params{"optimizer": "momentum", "step": 10, "l2": 10, "batches": 1}, dataset)
	if err != nil {
		t.Fatal(err)
	}
	trainer, err := local.New(p, ps.Schema{Splits: 2, Seed: 1}, files.Open)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if _, err = trainer.Step(false); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "diverged") {
		t.Errorf("error %v, want that it diverged", err)
	}
}

// A prediction from the model file alone agrees with the program's.
func TestExport(t *testing.T) {
	m := train(t, Networks(), deep, 3, 1, 300)
	exported, err := m.program.Export(m.trainer, m.files.Open)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := exported.Save(path); err != nil {
		t.Fatal(err)
	}
	back, err := model.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if back.Metadata["sizes"] != "[32,20,12,8,3]" || back.Metadata["classes"] != `["0","10","20"]` {
		t.Errorf("metadata %v", back.Metadata)
	}
	if want := fmt.Sprintf("%.6g", 1-m.errorRate(t)); back.Metadata["accuracy"] != want {
		t.Errorf("accuracy %s, want %s", back.Metadata["accuracy"], want)
	}
	for ring := range 3 {
		x := make([]float32, 32)
		x[0] = 0.5 + float32(ring)
		for layer := 1; layer <= 4; layer++ {
			w, _ := back.Tensor(fmt.Sprintf("layer%d.weight", layer))
			b, _ := back.Tensor(fmt.Sprintf("layer%d.bias", layer))
			y := slices.Clone(b.Float)
			for i := range x {
				for j := range y {
					y[j] += max(x[i], 0) * w.Float[i*len(y)+j]
				}
			}
			x = y
		}
		if best(x) != ring {
			t.Errorf("a point in ring %d is said to be in ring %d", ring, best(x))
		}
	}
}

func TestNewRefuses(t *testing.T) {
	_, dataset := prepare(t, Networks(), rings(60), 2)
	for _, c := range []struct {
		kind   Kind
		params apps.Params
		want   string
	}{
		{Networks(), apps.Params{"hidden_3": 4}, "dnn: parameter hidden_3 is 4, but there is no second"},
		{Softmax(), apps.Params{"hidden": 4}, `mlr: unknown parameter "hidden"`},
		{Networks(), apps.Params{"hidden": 0}, "dnn: parameter hidden: 0 is out of range"},
		{Softmax(), apps.Params{"target": 1}, "mlr: target is for tables"},
	} {
		if _, err := c.kind.New(c.params, dataset); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.params, err, c.want)
		}
	}
}

// A run that began before AdaGrad was the default continues with its original optimizer.
func TestFormer(t *testing.T) {
	for _, c := range []struct {
		kind        Kind
		given, want apps.Params
	}{
		{Softmax(), nil, apps.Params{"optimizer": "momentum", "l2": 0.0001}},
		{Softmax(), apps.Params{"optimizer": "adagrad"}, apps.Params{"optimizer": "adagrad", "step": 0.1, "l2": 0.0001}},
		{Kind{hidden: true}, nil, nil},
		{Kind{hidden: true}, apps.Params{"optimizer": "adagrad", "step": 1}, apps.Params{"optimizer": "adagrad", "step": 1}},
	} {
		if got := c.kind.Former(0, c.given); !maps.Equal(got, c.want) {
			t.Errorf("%v becomes %v; want %v", c.given, got, c.want)
		}
	}
}

// For each table, some split reads at least LeastRows rows in some clock.
func TestLeastRows(t *testing.T) {
	files, dataset := prepare(t, Networks(), rings(60), 3)
	made, err := Networks().New(apps.Params{"hidden": 20, "hidden_2": 12, "batches": 2}, dataset)
	if err != nil {
		t.Fatal(err)
	}
	p := made.(*Program)
	most := make([]uint64, p.layers())
	for id := range 3 {
		file, err := files.Open(ps.Split(id))
		if err != nil {
			t.Fatal(err)
		}
		s, err := p.LoadSplit(ps.Split(id), file, 1)
		if err != nil {
			t.Fatal(err)
		}
		for c := range ps.Clock(2) {
			asked := make([]uint64, p.layers())
			for _, k := range s.Needs(c+1, nil) {
				asked[k.Table]++
			}
			for table, n := range asked {
				most[table] = max(most[table], n)
			}
		}
	}
	least := p.LeastRows()
	if least[1] != 21 || least[2] != 13 || least[0] < 2 {
		t.Errorf("at least %d rows", least)
	}
	for table := range least {
		if most[table] < least[table] {
			t.Errorf("table %d: at least %d rows, but splits ask for %d", table, least[table], most[table])
		}
	}
}
