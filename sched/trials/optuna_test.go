package trials

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:embed testdata/optuna_tpe.py
var optunaScript []byte

// The best loss of 64 trials by TPE, by Optuna's TPESampler with its own settings and the same number of random trials first, and at
// random. TPE's settings were chosen on the seeds below 200; these are others.
func TestTPEComparedWithOptuna(t *testing.T) {
	python := os.Getenv("TIERML_TEST_OPTUNA")
	if python == "" {
		t.Skip("it takes minutes, and needs a Python with Optuna: make -C lab tpe")
	}
	const samples, first, seeds = 64, 1000, 100
	o := startOptuna(t, python)
	for _, together := range []bool{true, false} {
		for _, p := range problems(t) {
			var ours, theirs, random, less sample
			for seed := uint64(first); seed < first+seeds; seed++ {
				s := Sweep{Samples: samples, Seed: seed, TPE: true}
				a, b, c := p.best(s, together), o.best(s, p, together), p.best(Sweep{Samples: samples, Seed: seed}, together)
				ours, theirs, random, less = append(ours, a), append(theirs, b), append(random, c), append(less, c-a)
			}
			t.Logf("%-8s together %-5t ours %s, Optuna %s, random %s", p.name, together, ours, theirs, random)
			if mean, half := less.mean(); mean <= half {
				t.Errorf("%s: TPE is not better than random draws: %s less", p.name, less)
			}
		}
	}
}

// best returns the lowest loss of a sweep's trials as Optuna draws them: problem.best with another search.
func (o *optuna) best(s Sweep, p problem, together bool) float64 {
	least := math.Inf(1)
	var losses []float64
	told := 0
	for i := range s.Samples {
		known := i
		for together && known > 0 && s.Ready(i, known-1) {
			known--
		}
		request := map[string]any{}
		if i == 0 {
			request = map[string]any{"seed": s.Seed, "first": s.First(), "ranges": p.ranges}
		}
		tell := [][2]any{}
		for ; told < known; told++ {
			var loss any // null if it is not a number
			if !math.IsNaN(losses[told]) {
				loss = losses[told]
			}
			tell = append(tell, [2]any{told, loss})
		}
		request["told"] = tell
		loss := p.loss(o.ask(request))
		losses = append(losses, loss)
		if loss < least {
			least = loss
		}
	}
	return least
}

// optuna is a process that draws trials.
type optuna struct {
	t   *testing.T
	in  *json.Encoder
	out *json.Decoder
}

func startOptuna(t *testing.T, python string) *optuna {
	t.Helper()
	script := filepath.Join(t.TempDir(), "optuna_tpe.py")
	if err := os.WriteFile(script, optunaScript, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, script) // it ends with its input
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	return &optuna{t, json.NewEncoder(in), json.NewDecoder(bufio.NewReader(out))}
}

func (o *optuna) ask(request map[string]any) (settings map[string]string) {
	o.t.Helper()
	if err := o.in.Encode(request); err != nil {
		o.t.Fatal(err)
	}
	if err := o.out.Decode(&settings); err != nil {
		o.t.Fatal(err)
	}
	return settings
}

// sample are figures of many seeds.
type sample []float64

// mean returns the mean with half of its 95 % interval.
func (s sample) mean() (mean, half float64) {
	var sum, squares float64
	for _, x := range s {
		sum, squares = sum+x, squares+x*x
	}
	n := float64(len(s))
	mean = sum / n
	return mean, 1.96 * math.Sqrt((squares/n-mean*mean)/(n-1))
}

func (s sample) String() string {
	mean, half := s.mean()
	return fmt.Sprintf("%.4f ± %.4f", mean, half)
}
