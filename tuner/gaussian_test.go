package tuner

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

func readJSON(t testing.TB, name string, into any) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

type oracle struct {
	Sets []struct {
		X, At                           [][]float64
		Y, Lengths, Mean, Variance      []float64
		Signal, Noise, Likelihood, Best float64
	}
	Improvement [][2]float64
}

func ownScales(d int) []int {
	scales := make([]int, d)
	for i := range scales {
		scales[i] = i
	}
	return scales
}

// Mean, variance and marginal likelihood at given hyper-parameters, and the maximum found, compared with scikit-learn's
// (testdata/gaussian.py).
func TestGaussianProcessAgreesWithScikitLearn(t *testing.T) {
	var o oracle
	readJSON(t, "gaussian.json", &o)
	if len(o.Sets) != 50 {
		t.Fatalf("%d data sets, want 50", len(o.Sets))
	}
	worst, shortfall := 0., math.Inf(-1)
	for i, s := range o.Sets {
		scales := ownScales(len(s.Lengths))
		p, ok := condition(hyper{s.Lengths, s.Signal, s.Noise}, scales, s.X, s.Y)
		if !ok {
			t.Fatalf("set %d: not positive definite", i)
		}
		mean, variance := p.predict(s.At)
		for j := range mean {
			worst = max(worst, math.Abs(mean[j]-s.Mean[j]), math.Abs(variance[j]-s.Variance[j]))
		}
		worst = max(worst, math.Abs(p.likelihood()-s.Likelihood))
		free := beliefs(len(s.Lengths))
		for k := range free {
			free[k].power = 0
		}
		first := hyper{make([]float64, len(s.Lengths)), 1, .1}
		for k := range first.lengths {
			first.lengths[k] = .5
		}
		found := search{limits: free, starts: 16, most: 300, seed: uint64(i)}.fit(first, scales, s.X, s.Y)
		if found == nil {
			t.Fatalf("set %d: no hyper-parameters were found", i)
		}
		shortfall = max(shortfall, s.Best-found.likelihood())
	}
	t.Logf("largest difference %.2g; largest shortfall of likelihood %.2g", worst, shortfall)
	if worst > 1e-6 {
		t.Errorf("differs from scikit-learn by %v", worst)
	}
	if shortfall > 1e-3 {
		t.Errorf("scikit-learn's marginal likelihood is %v higher", shortfall)
	}
}

func TestLogImprovementAgreesWithScipy(t *testing.T) {
	var o oracle
	readJSON(t, "gaussian.json", &o)
	if len(o.Improvement) == 0 {
		t.Fatal("no numbers")
	}
	for _, c := range o.Improvement {
		if got := logStandard(c[0]); math.Abs(got-c[1]) > 1e-8*max(1, math.Abs(c[1])) {
			t.Errorf("log improvement at %v is %v, want %v", c[0], got, c[1])
		}
	}
}

// The slopes compared with finite differences, away from the oracle's optimum.
func TestSlopes(t *testing.T) {
	var o oracle
	readJSON(t, "gaussian.json", &o)
	for i, s := range o.Sets[:10] {
		scales := ownScales(len(s.Lengths))
		logs := hyper{s.Lengths, s.Signal, s.Noise}.logs()
		p, _ := condition(fromLogs(logs), scales, s.X, s.Y)
		for k, slope := range p.slopes() {
			const step = 1e-5
			value := func(by float64) float64 {
				moved := append([]float64(nil), logs...)
				moved[k] += by
				q, _ := condition(fromLogs(moved), scales, s.X, s.Y)
				return q.likelihood()
			}
			if want := (value(step) - value(-step)) / (2 * step); math.Abs(slope-want) > 1e-4*max(1, math.Abs(want)) {
				t.Errorf("set %d, parameter %d: slope %v, by differences %v", i, k, slope, want)
			}
		}
	}
}

// The expected saving of a log-normal time, compared with its integral.
func TestSaving(t *testing.T) {
	for _, c := range []struct{ mean, variance, least float64 }{{3, .25, 20}, {3, .01, 10}, {0, 1, 5}} {
		sum, sd := 0., math.Sqrt(c.variance)
		const step = 1e-4
		for z := -10.; z < 10; z += step {
			sum += step * density(z) * max(0, c.least-math.Exp(c.mean+sd*z))
		}
		if got := saving(c.mean, c.variance, c.least); math.Abs(got-sum) > 1e-4*c.least {
			t.Errorf("%+v saves %v, by integration %v", c, got, sum)
		}
	}
}
