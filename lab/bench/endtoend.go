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

	"github.com/tierml/tierml/apps/input"
	"github.com/tierml/tierml/apps/mf"
	"github.com/tierml/tierml/apps/model"
)

// endToEnd compares whole commands: start, reading, preparation, training and saving. Quality is measured on the model
// files.
var endToEnd = Group{Name: "end-to-end", Title: "End to end", Pairs: 15, Open: openEndToEnd}

// commands are both sides of a job; each writes a model to a file.
type commands struct {
	ours, theirs []string
	model, peers string // the files
	skip         string
	what, peer   string
	quality      string // quality of a model, lower is better
	mine, yours  func(path string) (float64, error)
}

func openEndToEnd(ctx context.Context, env *Env) ([]Row, func(), error) {
	tierml := filepath.Join(env.Dir, "tierml")
	if out, err := exec.CommandContext(ctx, "go", "-C", "..", "build", "-o", tierml, "./cmd/tierml").CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("build tierml: %w: %s", err, out)
	}
	jobs, err := classJobs(env, tierml)
	if err != nil {
		return nil, nil, err
	}
	ratings, err := ratingJobs(env, tierml)
	if err != nil {
		return nil, nil, err
	}
	var rows []Row
	for _, j := range append(jobs, ratings...) {
		rows = append(rows,
			Row{What: j.what, Against: j.peer, Unit: "runs/s", Bar: 1, Skip: j.skip, Ours: runs(j.ours), Theirs: runs(j.theirs)},
			Row{What: j.what + ": " + j.quality, Against: j.peer, Unit: j.quality, Bar: 1.001, AtMost: true, Exact: true, Skip: j.skip,
				Ours:   func(context.Context) (float64, error) { return j.mine(j.model) },
				Theirs: func(context.Context) (float64, error) { return j.yours(j.peers) }})
	}
	return rows, func() {}, nil
}

// runs runs a command as often as possible in some tenths of a second.
func runs(command []string) Measure {
	return func(ctx context.Context) (float64, error) {
		n, total := 0.0, 0.0
		for total < 0.3 {
			seconds, out, err := timed(ctx, command[0], command[1:]...)
			if err != nil {
				return 0, fmt.Errorf("%s: %w: %s", command[0], err, out)
			}
			n, total = n+1, total+seconds
		}
		return n / total, nil
	}
}

// classJobs returns jobs of logistic regression with liblinear's penalty at C = 1.
func classJobs(env *Env, tierml string) (jobs []commands, err error) {
	peer, skip := env.Peer("LIBLINEAR", among("liblinear"))
	words := filepath.Join(env.Dir, "words")
	if err := generateWords(words); err != nil {
		return nil, err
	}
	files := [][2]string{{"words", words}}
	if path := os.Getenv("A9A"); path != "" {
		files = append(files, [2]string{"a9a", path})
	}
	for _, file := range files {
		name, path := file[0], file[1]
		data, err := readWords(path)
		if err != nil {
			return nil, err
		}
		penalty := 1 / float64(len(data.Labels))
		j := commands{what: "logistic, " + name, peer: "liblinear -s 0", skip: skip, quality: "objective"}
		j.model, j.peers = filepath.Join(env.Dir, name+".safetensors"), filepath.Join(env.Dir, name+".liblinear")
		job := filepath.Join(env.Dir, name+".yaml")
		err = writeJob(job, fmt.Sprintf("{app: logistic, data: %q, holdout: 0, clocks: 200, params: {l2: %g}}", path, penalty))
		if err != nil {
			return nil, err
		}
		j.ours = []string{tierml, "train", job, "--into", j.model}
		j.theirs = []string{filepath.Join(peer, "train"), "-q", "-s", "0", "-B", "1", path, j.peers}
		j.mine = func(path string) (float64, error) { return data.objective(penalty, oursWeights(path)) }
		j.yours = func(path string) (float64, error) { return data.objective(penalty, liblinearWeights(path)) }
		jobs = append(jobs, j)
	}
	return jobs, nil
}

func ratingJobs(env *Env, tierml string) (jobs []commands, err error) {
	peer, skip := env.Peer("LIBMF", among("libmf"))
	files, err := generateRatings(env.Dir)
	if err != nil {
		return nil, err
	}
	// After one pass our model is further from the minimum than LIBMF's, after two nearer.
	for _, c := range [][2]int{{1, 2}, {10, 10}} {
		passes, ourPasses := c[0], c[1]
		name := fmt.Sprintf("mf-%d", passes)
		j := commands{what: fmt.Sprintf("mf, rank 32, passes: %d", ourPasses), peer: fmt.Sprintf("mf-train, passes: %d", passes), skip: skip, quality: "test RMSE"}
		j.model, j.peers = filepath.Join(env.Dir, name+".safetensors"), filepath.Join(env.Dir, name+".libmf")
		job := filepath.Join(env.Dir, name+".yaml")
		err := writeJob(job, fmt.Sprintf("{app: mf, data: %q, holdout: 0, clocks: %d, evaluate_every: 1000, params: {l2: %g, bias_l2: %g}}",
			files.ours, 4*ourPasses, penalty, penalty))
		if err != nil {
			return nil, err
		}
		j.ours = []string{tierml, "train", job, "--into", j.model}
		j.theirs = []string{filepath.Join(peer, "mf-train"), "--quiet", "-l2", fmt.Sprint(penalty), "-k", "32", "-t", fmt.Sprint(passes), "-s", "2", files.train, j.peers}
		j.mine = func(path string) (float64, error) {
			m, err := model.Load(path)
			if err != nil {
				return 0, err
			}
			p, err := mf.NewPredictor(m)
			if err != nil {
				return 0, err
			}
			return predictorRMSE(p, files.test)
		}
		j.yours = func(path string) (float64, error) {
			out, err := exec.Command(filepath.Join(peer, "mf-predict"), "-e", "0", files.test, path, filepath.Join(env.Dir, "predicted")).Output()
			if err != nil {
				return 0, err
			}
			_, figure, _ := strings.Cut(string(out), "=")
			return strconv.ParseFloat(strings.TrimSpace(figure), 64)
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

func writeJob(path, train string) error {
	return os.WriteFile(path, []byte("name: bench\ncloud: none\ntrain: "+train+"\n"), 0o644)
}

// generateWords writes documents of two classes, with w8a's number and length: 300 words, of which an example has about
// fourteen, a few occurring in most.
func generateWords(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(file)
	r := rand.New(rand.NewPCG(1, 2))
	weights := make([]float64, 300)
	for i := range weights {
		weights[i] = 1.2 * r.NormFloat64()
	}
	for range 49_749 {
		line, score := "", -4.2
		for i, weight := range weights {
			if r.Float64() < min(0.67, 3.1/float64(i+3)) {
				line += fmt.Sprintf(" %d:1", i+1)
				score += weight
			}
		}
		class := "-1"
		if r.Float64() < 1/(1+math.Exp(-score)) {
			class = "+1"
		}
		fmt.Fprintln(out, class+line)
	}
	return errors.Join(out.Flush(), file.Close())
}

// vectors are a file's examples.
type vectors struct{ input.Sparse }

func readWords(path string) (vectors, error) {
	file, err := os.Open(path)
	if err != nil {
		return vectors{}, err
	}
	defer file.Close()
	s, err := input.ReadLIBSVM(path, file, 0)
	return vectors{s}, err
}

// weights are a linear model's, the bias last.
type weights func() ([]float64, error)

// objective returns what both minimise: the mean logistic loss and the penalty, including the bias, as in liblinear.
func (v vectors) objective(penalty float64, of weights) (float64, error) {
	w, err := of()
	if err != nil {
		return 0, err
	}
	if len(w) != v.Features+1 {
		return 0, fmt.Errorf("%d weights for %d features", len(w), v.Features)
	}
	var loss, squares float64
	for i, label := range v.Labels {
		score := w[v.Features]
		for k := v.Start[i]; k < v.Start[i+1]; k++ {
			score += w[v.Index[k]] * float64(v.Value[k])
		}
		if label <= 0 {
			score = -score
		}
		loss += math.Log1p(math.Exp(-math.Abs(score))) + max(-score, 0)
	}
	for _, x := range w {
		squares += x * x
	}
	return loss/float64(len(v.Labels)) + penalty/2*squares, nil
}

func oursWeights(path string) weights {
	return func() ([]float64, error) {
		m, err := model.Load(path)
		if err != nil {
			return nil, err
		}
		var all []float64
		for _, name := range []string{"weights", "bias"} {
			t, _ := m.Tensor(name)
			for _, x := range t.Float {
				all = append(all, float64(x))
			}
		}
		return all, nil
	}
}

// liblinearWeights reads a model in text: the order of the classes, and weights after a line "w".
func liblinearWeights(path string) weights {
	return func() ([]float64, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		head, body, found := strings.Cut(string(text), "\nw\n")
		if !found {
			return nil, fmt.Errorf("%s: not a model of liblinear", path)
		}
		sign := 1.0
		if strings.Contains(head, "label -1") {
			sign = -1
		}
		var all []float64
		for word := range strings.FieldsSeq(body) {
			x, err := strconv.ParseFloat(word, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			all = append(all, sign*x)
		}
		return all, nil
	}
}
