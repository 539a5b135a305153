package main

import (
	"bufio"
	"context"
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
	"github.com/tierml/tierml/apps/linear"
	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/apps/splitmem"
	"github.com/tierml/tierml/ps"
)

// wabbit compares softmax and logistic regression, as `tierml train` does them, with vowpal wabbit on its cached input.
var wabbit = Group{Name: "wabbit", Title: "Softmax and logistic regression at equal loss", Open: openWabbit}

func openWabbit(_ context.Context, env *Env) ([]Row, func(), error) {
	vw, skip := env.Peer("VW")
	if path, err := exec.LookPath("vw"); vw == "" && err == nil {
		vw, skip = path, ""
	}
	words, images := filepath.Join(env.Dir, "a9a-like.svm"), filepath.Join(env.Dir, "mnist-like.svm")
	if err := generateWords(words); err != nil {
		return nil, nil, err
	}
	if err := generateImages(images); err != nil {
		return nil, nil, err
	}
	a9a, noA9a := env.Peer("A9A")
	mnist, noMNIST := env.Peer("MNIST")
	if noMNIST == "" {
		real := filepath.Join(env.Dir, "mnist.svm")
		if err := imagesFromIDX(mnist, real); err != nil {
			return nil, nil, err
		}
		mnist = real
	}
	if skip != "" {
		noA9a, noMNIST = skip, skip
	}
	var rows []Row
	for _, c := range []struct {
		what, path, skip string
		classes, passes  int
	}{
		{"logistic, like a9a", words, skip, 2, 20}, {"logistic, a9a", a9a, noA9a, 2, 20},
		{"softmax, like MNIST", images, skip, imageClasses, 5}, {"softmax, MNIST t10k", mnist, noMNIST, imageClasses, 5},
	} {
		race := &lossRace{program: vw, path: c.path, dir: env.Dir, classes: c.classes, passes: c.passes}
		rows = append(rows, Row{
			What: fmt.Sprintf("%s, at the loss after %d passes of vw", c.what, c.passes), Against: "vowpal wabbit",
			Unit: "examples/s", Bar: 2, Skip: c.skip, Ours: race.ours, Theirs: race.theirs,
		})
	}
	return rows, func() {}, nil
}

// lossRace measures how long it takes to get to the mean log loss of the training examples that vw gets to in some
// passes. Both sides' figure is the examples of those passes by the seconds that it took.
type lossRace struct {
	program, path, dir string
	classes, passes    int
	examples           []labelledVector
	trained            apps.Program
	files              splitmem.Files
	clocks             int // that ours needs
}

func (r *lossRace) vwFile() string { return filepath.Join(r.dir, filepath.Base(r.path)+".vw") }

func (r *lossRace) args(passes int, more ...string) []string {
	args := []string{"-d", r.vwFile(), "--cache_file", r.vwFile() + ".cache", "--passes", strconv.Itoa(passes),
		"--loss_function", "logistic", "--holdout_off", "--quiet"}
	if r.classes > 2 {
		args = append(args, "--oaa", strconv.Itoa(r.classes), "--probabilities")
	}
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
	test := []string{"-t", "-i", model, "-d", r.vwFile(), "-p", predictions, "--quiet"}
	if r.classes == 2 {
		test = append(test, "--link", "logistic")
	} else {
		test = append(test, "--probabilities")
	}
	if _, out, err := timed(ctx, r.program, test...); err != nil {
		return fmt.Errorf("vowpal wabbit: %w: %s", err, out)
	}
	goal, err := r.vwLoss(predictions)
	if err != nil {
		return err
	}
	return r.prepare(goal)
}

// prepare finds out how many clocks take ours to a loss.
func (r *lossRace) prepare(goal float64) error {
	var kind apps.Kind = dnn.Softmax()
	for _, k := range linear.Kinds() {
		if k.Name() == "logistic" && r.classes == 2 {
			kind = k
		}
	}
	// vw has no penalty, by default; with ours the loss would stay above what vw gets to.
	var err error
	if r.trained, r.files, err = cutFile(kind, r.path, 0, apps.Params{"l2": 1e-6}); err != nil {
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

// stepper is a trainer of either kind.
type stepper interface {
	Step(evaluate bool) (apps.Stats, error)
	Row(k ps.Key) []float32
}

func (r *lossRace) trainer() (stepper, error) {
	if direct, can := r.trained.(apps.Direct); can {
		return local.NewDirect(direct, 1, r.files.Open, 1)
	}
	return local.New(r.trained, ps.Schema{Splits: 1, Seed: 1}, r.files.Open)
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

// theirs goes by passes beyond the first, which writes the cache.
func (r *lossRace) theirs(ctx context.Context) (float64, error) {
	one, out, err := timed(ctx, r.program, r.args(1)...)
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	all, _, err := timed(ctx, r.program, r.args(1+2*r.passes)...)
	return float64(len(r.examples)*2*r.passes) / (all - one), err
}

func (r *lossRace) writeVW() error {
	var text strings.Builder
	for _, e := range r.examples {
		label := e.goal
		if r.classes > 2 {
			label++ // classes are counted from 1
		}
		fmt.Fprintf(&text, "%g |", label)
		for k, j := range e.index {
			fmt.Fprintf(&text, " %d:%g", j, e.value[k])
		}
		text.WriteByte('\n')
	}
	return os.WriteFile(r.vwFile(), []byte(text.String()), 0o600)
}

// vwLoss reads vw's predictions: of two classes the probability of 1, of more a list of CLASS:PROBABILITY.
func (r *lossRace) vwLoss(path string) (float64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	var loss float64
	n := 0
	for lines := bufio.NewScanner(file); lines.Scan() && n < len(r.examples); n++ {
		words := strings.Fields(lines.Text())
		word := words[0]
		if r.classes > 2 {
			_, word, _ = strings.Cut(words[int(r.examples[n].goal)], ":")
		}
		p, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return 0, fmt.Errorf("vowpal wabbit predicts %q", lines.Text())
		}
		if r.classes == 2 && r.examples[n].goal < 0 {
			p = 1 - p
		}
		loss -= math.Log(max(p, 1e-15))
	}
	if n != len(r.examples) {
		return 0, fmt.Errorf("vowpal wabbit made %d predictions for %d examples", n, len(r.examples))
	}
	return loss / float64(n), nil
}

// loss returns the mean log loss of our weights.
func (r *lossRace) loss(tables stepper) float64 {
	if r.classes == 2 {
		return r.logisticLoss(tables)
	}
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

// features is how many there are: the bias comes behind them.
func (r *lossRace) features() (n int) {
	for _, e := range r.examples {
		for _, j := range e.index {
			n = max(n, j+1)
		}
	}
	return n
}

func (r *lossRace) logisticLoss(tables stepper) float64 {
	features := r.features()
	const block = 64 // weights in a row, which the bias follows
	weights := make([]float64, features+1)
	for j := range weights {
		weights[j] = float64(tables.Row(ps.Key{Row: ps.RowID(j / block)})[j%block])
	}
	var loss float64
	for _, e := range r.examples {
		score := weights[features]
		for k, j := range e.index {
			score += e.value[k] * weights[j]
		}
		loss += math.Log1p(math.Exp(-e.goal * score))
	}
	return loss / float64(len(r.examples))
}
