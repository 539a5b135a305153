package dnn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/apps/splitmem"
	"github.com/tierml/tierml/ps"
)

// mnist is a folder with the public MNIST test images, which are not part of the repository; tests are skipped without them.
const mnist = "../../../shared/data/ml/mlr"

func prepareMNIST(t testing.TB, k Kind, splits int, seed uint64) (splitmem.Files, apps.Dataset) {
	t.Helper()
	const name = "mnist-t10k-images-idx3-ubyte.gz"
	file, err := os.Open(filepath.Join(mnist, name))
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("%s is not there: get MNIST's 10,000 test images and labels (idx, gzip) and put them into %s", name, mnist)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	files := splitmem.Files{}
	beside := func(name string) (io.ReadCloser, error) { return os.Open(filepath.Join(mnist, name)) }
	dataset, err := k.Prepare(apps.Input{Name: name, Data: file, Beside: beside}, apps.Cut{Splits: splits, Holdout: 0.2, Seed: seed}, files.Create)
	if err != nil {
		t.Fatal(err)
	}
	return files, dataset
}

func mnistTrainer(t testing.TB, k Kind, splits int, seed uint64) trained {
	t.Helper()
	files, dataset := prepareMNIST(t, k, splits, seed)
	p, err := k.New(nil, dataset)
	if err != nil {
		t.Fatal(err)
	}
	trainer, err := local.New(p, ps.Schema{Splits: splits, Seed: seed}, files.Open)
	if err != nil {
		t.Fatal(err)
	}
	return trained{p.(*Program), trainer, files}
}

func TestMNISTAccuracy(t *testing.T) {
	if testing.Short() {
		t.Skip("-short is given, and this trains for some ten seconds: leave -short out")
	}
	for _, c := range []struct {
		kind   Kind
		clocks int
		bar    float64
	}{{Softmax(), 320, 0.90}, {Networks(), 480, 0.94}} {
		var accuracies []float64
		splits := []int{1, 64}
		if os.Getenv("TIERML_ALL_APPLICATIONS") == "" { // TestDirectTakesTheStepsOfTheServers covers it; make -C lab quality sets it
			splits = nil
		}
		for _, splits := range splits {
			m := mnistTrainer(t, c.kind, splits, 1)
			m.trainer.SetThreads(2)
			for range c.clocks {
				if _, err := m.trainer.Step(false); err != nil {
					t.Fatal(err)
				}
			}
			accuracies = append(accuracies, 1-m.errorRate(t))
		}
		accuracies = append(accuracies, accuracyInPlace(t, c.kind, c.clocks))
		t.Logf("MNIST test images, %s: accuracies %.4f: of 1 and 64 splits where they are tried, and in place", c.kind.name, accuracies)
		if least := slices.Min(accuracies); least < c.bar || slices.Max(accuracies) > 1.01*least {
			t.Errorf("%s: accuracies %.4f; want at least %v, and within 1 %%", c.kind.name, accuracies, c.bar)
		}
	}
}

func accuracyInPlace(t *testing.T, k Kind, clocks int) float64 {
	t.Helper()
	files, dataset := prepareMNIST(t, k, 4, 1)
	p, trainer := newDirect(t, k, nil, files, dataset, 1, 2)
	for range clocks {
		if _, err := trainer.Step(false); err != nil {
			t.Fatal(err)
		}
	}
	stats, err := p.Evaluate(trainer, files.Open)
	if err != nil {
		t.Fatal(err)
	}
	return 1 - p.Score(stats.TestLoss, stats.TestCount)
}

func BenchmarkMNIST(b *testing.B) {
	for _, k := range []Kind{Softmax(), Networks()} {
		for _, splits := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/splits=%d", k.name, splits), func(b *testing.B) {
				m := mnistTrainer(b, k, splits, 1)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := m.trainer.Step(false); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/500, "ns/example")
			})
		}
	}
}

// Only the kernel, which needs no data set: an example with 150 features present.
func BenchmarkLearn(b *testing.B) {
	for _, sizes := range [][]int{{784, 10}, {784, 128, 10}, {784, 256, 128, 10}} {
		b.Run(fmt.Sprint(sizes), func(b *testing.B) {
			n := newNetwork(sizes, 784)
			var places []uint32
			var values []float32
			for k := range uint32(150) {
				places, values = append(places, 3*k), append(values, 0.01*float32(k%7))
			}
			for i := range n.layers {
				l := &n.layers[i]
				l.weights.bias, l.gradient.bias = make([]float32, sizes[i+1]), make([]float32, sizes[i+1])
				for row := range sizes[i] {
					r, g := make([]float32, sizes[i+1]), make([]float32, sizes[i+1])
					for j := range r {
						r[j] = float32((row*31+j*17)%13-6) / 60
					}
					if i == 0 {
						n.first[row], n.firstGradient[row] = r, g
					} else {
						l.weights.inputs[row], l.gradient.inputs[row] = r, g
					}
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				n.learn(places, values, 3)
			}
		})
	}
}
