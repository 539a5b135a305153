package dnn

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/apps/splitmem"
	"github.com/tierml/tierml/ps"
)

func newDirect(t testing.TB, k Kind, params apps.Params, files splitmem.Files, dataset apps.Dataset, seed uint64, threads int) (*Program, *local.Direct) {
	t.Helper()
	p, err := k.New(params, dataset)
	if err != nil {
		t.Fatal(err)
	}
	trainer, err := local.NewDirect(p.(*Program), seed, files.Open, threads)
	if err != nil {
		t.Fatal(err)
	}
	return p.(*Program), trainer
}

func weightsOf(p *Program, tables apps.Rows) (all []float32) {
	for layer := range p.layers() {
		for row := range p.biasRow(layer) + 1 {
			all = append(all, tables.Row(weights(layer, row))...)
		}
	}
	return all
}

// In place, or by splits and servers' rules: the steps are the same, with every optimizer.
func TestDirectTakesTheStepsOfTheServers(t *testing.T) {
	for _, name := range optimizerNames {
		t.Run(name, func(t *testing.T) {
			params := apps.Params{"optimizer": name, "hidden": 20, "hidden_2": 12, "batches": 4, "l2": 0.01, "class_weights": "balanced"}
			files, dataset := prepare(t, Networks(), rings(600), 5)
			p, direct := newDirect(t, Networks(), params, files, dataset, 5, 2)
			servers, err := local.New(p, ps.Schema{Splits: 5, Seed: 5}, files.Open)
			if err != nil {
				t.Fatal(err)
			}
			for c := range 12 {
				want, err := servers.Step(true)
				if err != nil {
					t.Fatal(err)
				}
				got, err := direct.Step(true)
				if err != nil {
					t.Fatal(err)
				}
				if got.Examples != want.Examples || got.TestCount != want.TestCount || math.Abs(got.Work-want.Work) > 1e-9*want.Work ||
					math.Abs(got.Loss-want.Loss) > 3 || math.Abs(got.TestLoss-want.TestLoss) > 3 {
					t.Errorf("clock %d: %+v, want %+v", c+1, got, want)
				}
			}
			wanted := weightsOf(p, servers)
			for i, w := range weightsOf(p, direct) {
				if math.Abs(float64(w-wanted[i])) > 2e-4 {
					t.Fatalf("weight %d is %v, want %v", i, w, wanted[i])
				}
			}
		})
	}
}

func TestDirectDoesNotDependOnThreads(t *testing.T) {
	files, dataset := prepare(t, Networks(), rings(3000), 3)
	var results [][]float32
	for _, threads := range []int{1, 3} {
		p, trainer := newDirect(t, Networks(), apps.Params{"batches": 1}, files, dataset, 1, threads)
		for range 20 {
			if _, err := trainer.Step(true); err != nil {
				t.Fatal(err)
			}
		}
		results = append(results, weightsOf(p, trainer))
	}
	if !slices.Equal(results[0], results[1]) {
		t.Error("1 and 3 threads give different weights")
	}
}

func TestDirectDivergenceIsAnError(t *testing.T) {
	files, dataset := prepare(t, Softmax(), rings(60), 2)
	_, trainer := newDirect(t, Softmax(), apps.Params{"optimizer": "momentum", "step": 10, "l2": 10, "batches": 1}, files, dataset, 1, 1)
	for range 1000 {
		if _, err := trainer.Step(false); err != nil {
			return
		}
	}
	t.Error("it did not say that it diverged")
}

func BenchmarkDirect(b *testing.B) {
	for _, k := range []Kind{Softmax(), Networks()} {
		files, dataset := prepareMNIST(b, k, 4, 1)
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", k.name, threads), func(b *testing.B) {
				_, trainer := newDirect(b, k, nil, files, dataset, 1, threads)
				for b.Loop() {
					if _, err := trainer.Step(false); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/500, "ns/example")
			})
		}
	}
}
