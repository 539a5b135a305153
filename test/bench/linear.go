package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/linear"
	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/apps/splitmem"
)

// linearModels compares logistic regression, as `tierml train` does it, with liblinear.
var linearModels = Group{Name: "linear", Title: "Linear models in one process", Open: openLinear}

// The generated examples are like a9a's: words, one of each of some columns.
const (
	linearExamples = 30_000
	linearColumns  = 14
	linearWords    = 123
	linearPenalty  = 1e-4
)

func openLinear(_ context.Context, env *Env) ([]Row, func(), error) {
	liblinear, skip := "", ""
	for _, name := range []string{"liblinear-train", "liblinear-tools.train"} {
		if path, err := exec.LookPath(name); err == nil {
			liblinear = path
		}
	}
	if liblinear == "" {
		skip = "there is no liblinear-train"
	}
	generated := filepath.Join(env.Dir, "words.svm")
	if err := generateWords(generated); err != nil {
		return nil, nil, err
	}
	a9a, noA9a := env.Peer("A9A")
	if skip != "" {
		noA9a = skip
	}
	var rows []Row
	for _, c := range []struct{ what, path, skip string }{{"generated", generated, skip}, {"a9a", a9a, noA9a}} {
		race := &objectiveRace{program: liblinear, path: c.path, model: filepath.Join(env.Dir, "liblinear.model")}
		rows = append(rows, Row{
			What: "logistic, to the same objective, " + c.what, Against: "liblinear -s 0", Unit: "solutions/s", Bar: 1, Skip: c.skip,
			Ours: race.ours, Theirs: race.theirs,
		})
	}
	return rows, func() {}, nil
}

// objectiveRace measures how long it takes to get to the objective that liblinear gets to.
type objectiveRace struct {
	program, path, model string
	ourProgram           *linear.Program
	files                splitmem.Files
	examples             int
	passes               int // that ours needs
}

func (r *objectiveRace) args(more ...string) []string {
	cost := 1 / (linearPenalty * float64(r.examples))
	args := append([]string{"-q", "-s", "0", "-B", "1", "-c", strconv.FormatFloat(cost, 'g', -1, 64)}, more...)
	return append(args, r.path, r.model)
}

func (r *objectiveRace) open(ctx context.Context) error {
	for _, k := range linear.Kinds() {
		if k.Name() != "logistic" {
			continue
		}
		program, files, err := cutFile(k, r.path, 0, apps.Params{"l2": linearPenalty})
		if err != nil {
			return err
		}
		r.ourProgram, r.files = program.(*linear.Program), files
	}
	examples, err := readVectors(r.path)
	if err != nil {
		return err
	}
	r.examples = len(examples)
	if _, out, err := timed(ctx, r.program, r.args()...); err != nil {
		return fmt.Errorf("liblinear: %w: %s", err, out)
	}
	weights, err := readWeights(r.model)
	if err != nil {
		return err
	}
	goal := logisticObjective(examples, weights)
	trainer, err := local.NewDirect(r.ourProgram, 1, r.files.Open, 1)
	if err != nil {
		return err
	}
	for r.passes = 1; r.passes < 1000; r.passes++ {
		if _, err := trainer.Step(false); err != nil {
			return err
		}
		if f, err := r.ourProgram.Objective(trainer, r.files.Open); err != nil || f <= goal {
			return err
		}
	}
	return fmt.Errorf("after %d passes the objective is still above liblinear's %v", r.passes, goal)
}

func (r *objectiveRace) ours(ctx context.Context) (float64, error) {
	if r.ourProgram == nil {
		if err := r.open(ctx); err != nil {
			return 0, err
		}
	}
	trainer, err := local.NewDirect(r.ourProgram, 1, r.files.Open, 1)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	for range r.passes {
		if _, err := trainer.Step(false); err != nil {
			return 0, err
		}
	}
	return 1 / time.Since(began).Seconds(), nil
}

// theirs takes reading out by runs that are content with the first weights. It goes by processor time, of one thread as
// ours: what is left would drown in the scheduling of processes.
func (r *objectiveRace) theirs(ctx context.Context) (float64, error) {
	var reading, all []float64
	for range 7 {
		seconds, err := processorTime(ctx, r.program, r.args("-e", "1e9")...)
		if err != nil {
			return 0, err
		}
		reading = append(reading, seconds)
		if seconds, err = processorTime(ctx, r.program, r.args()...); err != nil {
			return 0, err
		}
		all = append(all, seconds)
	}
	return 1 / (median(all) - median(reading)), nil
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

// readWeights returns liblinear's weights for the class 1, the bias last.
func readWeights(path string) ([]float64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	head, numbers, _ := strings.Cut(string(text), "\nw\n")
	sign := 1.0
	if strings.Contains(head, "label -1") {
		sign = -1
	}
	var weights []float64
	for _, field := range strings.Fields(numbers) {
		w, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return nil, fmt.Errorf("liblinear's model: %w", err)
		}
		weights = append(weights, sign*w)
	}
	return weights, nil
}

// logisticObjective is ours, for weights of any origin.
func logisticObjective(examples []labelledVector, weights []float64) float64 {
	bias := len(weights) - 1
	var loss, squares float64
	for _, e := range examples {
		score := weights[bias]
		for k, j := range e.index {
			score += e.value[k] * weights[j]
		}
		loss += math.Log1p(math.Exp(-e.goal * score))
	}
	for _, w := range weights[:bias] {
		squares += w * w
	}
	return loss/float64(len(examples)) + linearPenalty/2*squares
}

// generateWords writes a LIBSVM file of words of random columns, and of classes that follow from them by chance.
func generateWords(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	out := bufio.NewWriter(file)
	r := rand.New(rand.NewPCG(7, 7))
	weights := make([]float64, linearWords)
	for j := range weights {
		weights[j] = r.NormFloat64()
	}
	for range linearExamples {
		var line strings.Builder
		score := -1.5
		for c := range linearColumns {
			from, to := c*linearWords/linearColumns, (c+1)*linearWords/linearColumns
			j := from + int(math.Pow(r.Float64(), 2)*float64(to-from)) // a few words are most
			fmt.Fprintf(&line, " %d:1", j+1)
			score += weights[j] / 2
		}
		label := "-1"
		if r.Float64() < 1/(1+math.Exp(-score)) {
			label = "+1"
		}
		fmt.Fprintln(out, label+line.String())
	}
	return out.Flush()
}
