package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/dnn"
	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/apps/splitmem"
	"github.com/tierml/tierml/ps"
)

// wabbit compares softmax regression in `tierml train` with vowpal wabbit on its cached input.
var wabbit = Group{Name: "wabbit", Title: "Softmax regression at equal loss", Pairs: 3, Open: openWabbit}

// wabbitBars are the required ratios, by vw's number of passes. Few passes favour vw: it learns most in the first.
var wabbitBars = []struct {
	passes int
	bar    float64
}{{1, 2}, {3, 2}, {5, 2}}

func openWabbit(_ context.Context, env *Env) ([]Row, func(), error) {
	vw, skip := env.Peer("VW", among("bin/vw"))
	if path, err := exec.LookPath("vw"); vw == "" && err == nil {
		vw, skip = path, ""
	}
	images := filepath.Join(env.Dir, "mnist-like.svm")
	if err := generateImages(images); err != nil {
		return nil, nil, err
	}
	mnist, noMNIST := env.Peer("MNIST", "../shared/data/ml/mlr/mnist-t10k-images-idx3-ubyte.gz")
	if noMNIST == "" {
		real := filepath.Join(env.Dir, "mnist.svm")
		if err := imagesFromIDX(mnist, real); err != nil {
			return nil, nil, err
		}
		mnist = real
	}
	if skip != "" {
		noMNIST = skip
	}
	var rows []Row
	for _, c := range []struct{ what, path, skip string }{{"softmax, like MNIST", images, skip}, {"softmax, MNIST t10k", mnist, noMNIST}} {
		for _, b := range wabbitBars {
			race := &lossRace{program: vw, path: c.path, dir: env.Dir, passes: b.passes}
			rows = append(rows, Row{
				What: fmt.Sprintf("%s, at vw's loss after passes: %d", c.what, b.passes), Against: "vowpal wabbit",
				Unit: "examples/s", Bar: b.bar, Skip: c.skip, Ours: race.ours, Theirs: race.theirs,
			})
		}
	}
	return rows, func() {}, nil
}

// lossRace measures the time to reach the mean log loss on the training examples that vw reaches in some passes.
// Both sides' figure is the examples of those passes divided by their seconds.
type lossRace struct {
	program, path, dir string
	passes             int // of vw
	examples           []labelledVector
	trained            apps.Program
	files              splitmem.Files
	clocks             int // that ours needs
}

func (r *lossRace) vwFile() string { return filepath.Join(r.dir, filepath.Base(r.path)+".vw") }

func (r *lossRace) args(passes int, more ...string) []string {
	args := []string{"-d", r.vwFile(), "--cache_file", r.vwFile() + ".cache", "--passes", strconv.Itoa(passes),
		"--loss_function", "logistic", "--holdout_off", "--quiet", "--oaa", strconv.Itoa(imageClasses), "--probabilities"}
	return append(args, more...)
}

func (r *lossRace) open(ctx context.Context) error {
	var err error
	if r.examples, err = readVectors(r.path); err != nil {
		return err
	}
	if err := r.writeVW(); err != nil {
		return err
	}
	model, predictions := r.vwFile()+".model", r.vwFile()+".predictions"
	if _, out, err := timed(ctx, r.program, r.args(r.passes, "-f", model)...); err != nil {
		return fmt.Errorf("vowpal wabbit: %w: %s", err, out)
	}
	test := []string{"-t", "-i", model, "-d", r.vwFile(), "-p", predictions, "--quiet", "--probabilities"}
	if _, out, err := timed(ctx, r.program, test...); err != nil {
		return fmt.Errorf("vowpal wabbit: %w: %s", err, out)
	}
	goal, err := r.vwLoss(predictions)
	if err != nil {
		return err
	}
	return r.prepare(goal)
}

// prepare determines how many of our clocks reach a loss.
func (r *lossRace) prepare(goal float64) error {
	// vw has no penalty by default; with ours the loss would stay above vw's.
	var err error
	if r.trained, r.files, err = cutFile(dnn.Softmax(), r.path, 0, apps.Params{"l2": 1e-6}); err != nil {
		return err
	}
	trainer, err := r.trainer()
	if err != nil {
		return err
	}
	var loss float64
	for r.clocks = 1; r.clocks < 2000; r.clocks++ {
		if _, err := trainer.Step(false); err != nil {
			return err
		}
		if loss = r.loss(trainer); loss <= goal {
			fmt.Fprintf(os.Stderr, "ours has a loss of %.4f after %d clocks, vw %.4f after %d passes\n", loss, r.clocks, goal, r.passes)
			return nil
		}
	}
	return fmt.Errorf("after %d clocks the loss is %v, that of vowpal wabbit after %d passes %v", r.clocks, loss, r.passes, goal)
}

func (r *lossRace) trainer() (*local.Direct, error) {
	return local.NewDirect(r.trained.(apps.Direct), 1, r.files.Open, 1)
}

func (r *lossRace) ours(ctx context.Context) (float64, error) {
	if r.trained == nil {
		if err := r.open(ctx); err != nil {
			return 0, err
		}
	}
	trainer, err := r.trainer()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	for range r.clocks {
		if _, err := trainer.Step(false); err != nil {
			return 0, err
		}
	}
	return float64(len(r.examples)*r.passes) / time.Since(began).Seconds(), nil
}

// theirs counts passes after the first, which writes the cache.
func (r *lossRace) theirs(ctx context.Context) (float64, error) {
	one, out, err := timed(ctx, r.program, r.args(1)...)
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	const more = 10
	all, _, err := timed(ctx, r.program, r.args(1+more)...)
	return float64(len(r.examples)*more) / (all - one), err
}

func (r *lossRace) writeVW() error {
	var text strings.Builder
	for _, e := range r.examples {
		fmt.Fprintf(&text, "%g |", e.goal+1) // classes are counted from 1
		for k, j := range e.index {
			fmt.Fprintf(&text, " %d:%g", j, e.value[k])
		}
		text.WriteByte('\n')
	}
	return os.WriteFile(r.vwFile(), []byte(text.String()), 0o600)
}

// vwLoss reads vw's predictions, lists of CLASS:PROBABILITY.
func (r *lossRace) vwLoss(path string) (float64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	var loss float64
	n := 0
	for lines := bufio.NewScanner(file); lines.Scan() && n < len(r.examples); n++ {
		_, word, _ := strings.Cut(strings.Fields(lines.Text())[int(r.examples[n].goal)], ":")
		p, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return 0, fmt.Errorf("vowpal wabbit predicts %q", lines.Text())
		}
		loss -= math.Log(max(p, 1e-15))
	}
	if n != len(r.examples) {
		return 0, fmt.Errorf("vowpal wabbit made %d predictions for %d examples", n, len(r.examples))
	}
	return loss / float64(n), nil
}

// loss returns the mean log loss with our weights.
func (r *lossRace) loss(tables apps.Rows) float64 {
	var loss float64
	weights := make([][]float32, r.features()+1) // the biases come last
	for row := range weights {
		weights[row] = tables.Row(ps.Key{Row: ps.RowID(row)})
	}
	for _, e := range r.examples {
		scores := append([]float32(nil), weights[len(weights)-1]...)
		for k, j := range e.index {
			for class, w := range weights[j] {
				scores[class] += w * float32(e.value[k])
			}
		}
		var sum float64
		for _, s := range scores {
			sum += math.Exp(float64(s))
		}
		loss += math.Log(sum) - float64(scores[int(e.goal)])
	}
	return loss / float64(len(r.examples))
}

// features returns the number of features: the bias comes after them.
func (r *lossRace) features() (n int) {
	for _, e := range r.examples {
		for _, j := range e.index {
			n = max(n, j+1)
		}
	}
	return n
}

// labelledVector is an example of a LIBSVM file.
type labelledVector struct {
	goal  float64
	index []int // from 0
	value []float64
}

func readVectors(path string) ([]labelledVector, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []labelledVector
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		goal, err := strconv.ParseFloat(fields[0], 64)
		e := labelledVector{goal: goal}
		for _, field := range fields[1:] {
			place, number, _ := strings.Cut(field, ":")
			j, errPlace := strconv.Atoi(place)
			x, errNumber := strconv.ParseFloat(number, 64)
			err = errors.Join(err, errPlace, errNumber)
			e.index, e.value = append(e.index, j-1), append(e.value, x)
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		all = append(all, e)
	}
	return all, nil
}
