package linear

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/apps/splitmem"
	"github.com/tierml/tierml/ps"
)

// table returns n rows of two numbers, irrelevant noise, a word and a result that depends on all but the noise.
func table(n int) string {
	var b strings.Builder
	b.WriteString("a,b,noise,town,y\n")
	stream := apps.NewStream(1, 2, 3)
	uniform := func() float64 { return float64(stream.Uint64()>>11)/(1<<52) - 1 }
	for i := range n {
		a, c, noise, town := uniform(), uniform(), uniform(), []string{"bath", "york", "hull"}[i%3]
		y := 100 + 30*a - 20*c + 5*float64(i%3) + uniform()
		fmt.Fprintf(&b, "%.4f,%.4f,%.4f,%s,%.4f\n", a, c, noise, town, y)
	}
	return b.String()
}

// vectors returns n sparse vectors of wide features, of two classes that a line nearly separates.
func vectors(n int) string {
	var b strings.Builder
	stream := apps.NewStream(4, 5, 6)
	for range n {
		a, c, far := stream.Below(100), stream.Below(100), 3+stream.Below(400)
		label := 1
		if a+stream.Below(10) < c {
			label = -1
		}
		fmt.Fprintf(&b, "%d 1:%v 2:%v %d:1\n", label, float64(a)/100, float64(c)/100, far)
	}
	return b.String()
}

func small(t testing.TB, name string, splits int) (splitmem.Files, apps.Dataset) {
	t.Helper()
	text := table(300)
	if k := kind(t, name); k.loss.classifies() {
		text = vectors(300)
	}
	return prepare(t, "small", strings.NewReader(text), apps.Cut{Splits: splits, Holdout: 0.2, Seed: 1})
}

func TestSlopesFollowTheLosses(t *testing.T) {
	for _, r := range []rule{{loss: squared}, {loss: logistic}, {loss: hinge, width: 0.3}, {loss: huber, width: 0.7}, {loss: logistic, weights: []float32{.5, 3}}} {
		for _, goal := range []float64{-1, 1} {
			for score := -3.01; score < 3; score += 0.1 {
				const h = 1e-5
				want := (r.value(score+h, goal) - r.value(score-h, goal)) / (2 * h)
				if got := r.slope(float32(score), float32(goal)); math.Abs(float64(got)-want) > 1e-5 {
					t.Errorf("%s at %v, goal %v: slope %v, want %v", lossNames[r.loss], score, goal, got, want)
				}
				second := (r.value(score+h, goal) - 2*r.value(score, goal) + r.value(score-h, goal)) / (h * h)
				if second > r.curvature()+1e-4 {
					t.Errorf("%s at %v bends by %v, more than %v", lossNames[r.loss], score, second, r.curvature())
				}
			}
		}
	}
}

// Small data compared with the oracles, everywhere the tests run.
func TestSmallObjectives(t *testing.T) {
	for _, name := range []string{"linear", "ridge", "lasso", "robust"} {
		files, dataset := small(t, name, 5)
		m := train(t, kind(t, name), nil, files, dataset, 300)
		d := denseOf(t, m.program, files)
		want := d.objective(m.program.rule, m.program.l1, m.program.l2, d.oracle(m.program))
		if got := m.objective(t); got > want*1.001 || got < want*(1-1e-4) {
			t.Errorf("%s: objective %v, oracle %v", name, got, want)
		}
	}
}

func TestLassoLeavesOutNoise(t *testing.T) {
	files, dataset := small(t, "lasso", 3)
	m := train(t, kind(t, "lasso"), apps.Params{"l1": 0.05}, files, dataset, 200)
	weights, _ := m.program.weights(m.trainer)
	if weights[2] != 0 || weights[0] == 0 || weights[1] == 0 {
		t.Errorf("weights %v: want exactly 0 for the noise alone", weights)
	}
}

func TestClassesAreFound(t *testing.T) {
	for _, name := range []string{"logistic", "svm"} {
		files, dataset := small(t, name, 5)
		m := train(t, kind(t, name), nil, files, dataset, 150)
		if got := m.score(t); got > 0.12 {
			t.Errorf("%s: error rate %v", name, got)
		}
	}
}

func TestSplitsDoNotMatter(t *testing.T) {
	for _, k := range Kinds() {
		var objectives []float64
		for _, splits := range []int{1, 2, 64} {
			files, dataset := small(t, k.name, splits)
			objectives = append(objectives, train(t, k, nil, files, dataset, 60).objective(t))
		}
		for _, f := range objectives {
			if math.Abs(f/objectives[0]-1) > 1e-4 {
				t.Errorf("%s: objectives %v with 1, 2 and 64 splits", k.name, objectives)
			}
		}
	}
}

func TestThreadsDoNotMatter(t *testing.T) {
	files, dataset := small(t, "svm", 16)
	var models [][]byte
	for _, threads := range []int{1, 4} {
		m := train(t, kind(t, "svm"), nil, files, dataset, 0)
		m.trainer.SetThreads(threads)
		for range 20 {
			if _, err := m.trainer.Step(true); err != nil {
				t.Fatal(err)
			}
		}
		exported, err := m.program.Export(m.trainer, files.Open)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := exported.Write(&b); err != nil {
			t.Fatal(err)
		}
		models = append(models, b.Bytes())
	}
	if !bytes.Equal(models[0], models[1]) {
		t.Error("1 and 4 threads give different models")
	}
}

// recorded returns rows of zeros and remembers which were used.
type recorded struct {
	rows map[ps.Key][]float32
	used map[ps.Key]bool
}

func (r recorded) Row(k ps.Key) []float32 {
	r.used[k] = true
	return r.rows[k]
}

func given(keys []ps.Key) recorded {
	r := recorded{map[ps.Key][]float32{}, map[ps.Key]bool{}}
	for _, k := range keys {
		r.rows[k] = make([]float32, rowSize)
		ps.InitRow(9, ps.Table{Init: ps.Init{Low: -1, High: 1}}, k.Table, k.Row, r.rows[k])
	}
	return r
}

// A batch is a function of the split, the clock and the rows, uses exactly the rows that it requests, and changes no row that is only
// evaluated.
func TestRunIsPureAndNeedsAreExact(t *testing.T) {
	files, dataset := small(t, "logistic", 40)
	p, err := kind(t, "logistic").New(nil, dataset)
	if err != nil {
		t.Fatal(err)
	}
	load := func(id ps.Split) apps.Split {
		s, err := p.LoadSplit(id, bytes.NewReader(files[id].Bytes()), 1)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	kept := map[ps.Key]int{}
	for id := range ps.Split(40) {
		old := load(id)
		for c := ps.Clock(1); c <= 4; c++ {
			evaluate := c%2 == 0
			keys := old.Needs(c, []ps.Key{{Table: 7}})
			if keys[0] != (ps.Key{Table: 7}) {
				t.Fatal("Needs does not append")
			}
			needs := len(keys)
			if evaluate {
				keys = old.EvalNeeds(keys)
			}
			a, b := given(keys[1:]), given(keys[1:])
			statsA, errA := old.Run(c, a, evaluate)
			statsB, errB := load(id).Run(c, b, evaluate)
			if errA != nil || errB != nil || statsA != statsB || !reflect.DeepEqual(a.rows, b.rows) {
				t.Fatalf("split %d, clock %d: %+v and %+v (%v, %v), or rows differ", id, c, statsA, statsB, errA, errB)
			}
			if len(a.used) != len(a.rows) {
				t.Errorf("split %d: %d rows asked for, %d used", id, len(a.rows), len(a.used))
			}
			fresh := given(keys[1:])
			for k, row := range a.rows {
				if !reflect.DeepEqual(row[:blockSize], fresh.rows[k][:blockSize]) && c == 1 {
					kept[k]++
				}
				if i := indexOf(keys[1:needs], k); i < 0 && !reflect.DeepEqual(row, fresh.rows[k]) {
					t.Errorf("row %v was only to be evaluated, and changed", k)
				}
			}
		}
	}
	for block := range p.(*Program).blocks() {
		if n := kept[ps.Key{Row: ps.RowID(block)}]; n != 1 {
			t.Errorf("%d splits write the weights of block %d, want 1", n, block)
		}
	}
}

func indexOf(keys []ps.Key, k ps.Key) int {
	for i := range keys {
		if keys[i] == k {
			return i
		}
	}
	return -1
}

func TestWorkPerClock(t *testing.T) {
	for _, name := range []string{"lasso", "svm"} {
		files, dataset := small(t, name, 7)
		m := train(t, kind(t, name), nil, files, dataset, 0)
		stats, err := m.trainer.Step(false)
		if err != nil || stats.Work != m.program.WorkPerClock() || stats.Examples != 240 {
			t.Errorf("%s: %+v, %v; want work %v of 240 examples", name, stats, err, m.program.WorkPerClock())
		}
	}
}

func TestScoreOfTrainingIsInTheUnitOfTheTarget(t *testing.T) {
	files, dataset := small(t, "linear", 2)
	m := train(t, kind(t, "linear"), nil, files, dataset, 0)
	stats, err := m.trainer.Step(true)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := m.program.Score(stats.Loss, stats.Examples), m.program.scale; math.Abs(got/want-1) > 1e-5 {
		t.Errorf("before any step the train RMSE is %v, want the deviation %v", got, want)
	}
	evaluated, err := m.program.Evaluate(m.trainer, files.Open) // the weights lag a clock behind the gradients
	if err != nil || stats.TestCount != 60 || math.Abs(stats.TestLoss-evaluated.TestLoss) > 1e-6*stats.TestLoss {
		t.Errorf("test %+v, evaluated %+v, %v", stats, evaluated, err)
	}
}

func TestExport(t *testing.T) {
	files, dataset := small(t, "ridge", 2)
	m := train(t, kind(t, "ridge"), nil, files, dataset, 100)
	exported, err := m.program.Export(m.trainer, files.Open)
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
	weights, _ := back.Tensor(tensorWeights)
	bias, _ := back.Tensor(tensorBias)
	means, _ := back.Tensor("feature_mean")
	scales, _ := back.Tensor("feature_scale")
	if want := `["a","b","noise","town=bath","town=hull","town=york"]`; back.Metadata["features"] != want {
		t.Errorf("features %s, want %s", back.Metadata["features"], want)
	}
	// A prediction from the file alone, for y of table at a = 0.5, b = 0 in hull.
	raw := []float32{0.5, 0, 0, 0, 1, 0}
	score := bias.Float[0]
	for j, x := range raw {
		score += weights.Float[j] * (x - means.Float[j]) / scales.Float[j]
	}
	if y := m.program.center + m.program.scale*float64(score); math.Abs(y-125) > 2 {
		t.Errorf("predicted %v, want about 125", y)
	}
}

func TestNewRefuses(t *testing.T) {
	_, numbers := small(t, "linear", 1)
	_, three := prepare(t, "t", strings.NewReader("1 1:1\n2 1:1\n3 1:1\n"), apps.Cut{Splits: 1})
	for _, c := range []struct {
		name    string
		params  apps.Params
		dataset apps.Dataset
		want    string
	}{
		{"svm", nil, three, "svm: 3 classes: a linear model tells 2 apart; the application mlr takes more"},
		{"lasso", apps.Params{"loss": "hinge"}, numbers, `lasso: unknown parameter "loss"`},
		{"linear", apps.Params{"loss": "hing"}, numbers, `linear: parameter loss: "hing" is not one of its words: write one of squared, logistic`},
		{"linear", apps.Params{"loss": 2}, numbers, "linear: parameter loss: 2 is not one of its words"},
		{"ridge", apps.Params{"target": 4}, numbers, `ridge: column "town" holds words`},
		{"ridge", nil, apps.Dataset{}, "ridge: the dataset has no details"},
	} {
		if _, err := kind(t, c.name).New(c.params, c.dataset); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s %v: %v, want %q", c.name, c.params, err, c.want)
		}
	}
	if _, err := kind(t, "linear").New(apps.Params{"loss": "logistic", "target": 4}, numbers); err == nil {
		t.Error("three towns are two classes")
	}
}

func BenchmarkClock(b *testing.B) {
	for _, name := range []string{"lasso", "logistic", "svm"} {
		b.Run(name, func(b *testing.B) {
			text := table(20000)
			if kind(b, name).loss.classifies() {
				text = vectors(20000)
			}
			files, dataset := prepare(b, "small", strings.NewReader(text), apps.Cut{Splits: 1})
			p, err := kind(b, name).New(nil, dataset)
			if err != nil {
				b.Fatal(err)
			}
			trainer, err := local.New(p, ps.Schema{Splits: 1}, files.Open)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := trainer.Step(false); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/20000, "ns/example")
		})
	}
}
