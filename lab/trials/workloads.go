package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/all"
	"github.com/tierml/tierml/apps/tally"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
	_ "github.com/tierml/tierml/providers/all" // registers the sellers of machines
	"github.com/tierml/tierml/ps"
)

// workload is something to train.
type workload struct {
	app, data, params          string
	clocks, splits, partitions int
	seconds                    float64 // target length of a clock in a storm
	more                       string  // lines below train:
}

// recorded returns the workloads of storms, on real data.
func recorded(data string) ([]workload, error) {
	const (
		housing = "ml/regression/california-housing.csv.gz"
		adults  = "ml/linear/a9a.gz"
		digits  = "ml/mlr/mnist-t10k-images-idx3-ubyte.gz"
		lacking = "max_bad_lines: 207"
	)
	list := []workload{
		{"mf", "ml/mf/ml-100k.u.data.gz", "{rank: 8, batches: 8}", 80, 24, 16, 0.3, ""},
		{"lda", "ml/lda/docword.20news-test.txt.gz", "{topics: 10, batches: 8}", 40, 16, 16, 0.6, ""},
		{"linear", housing, "{}", 60, 16, 5, 0.4, lacking},
		{"ridge", housing, "{}", 60, 16, 5, 0.4, lacking},
		{"lasso", housing, "{}", 60, 16, 5, 0.4, lacking},
		{"robust", housing, "{}", 60, 16, 5, 0.4, lacking},
		{"logistic", adults, "{}", 60, 16, 8, 0.4, ""},
		{"svm", adults, "{}", 60, 16, 8, 0.4, ""},
		{"mlr", digits, "{}", 160, 24, 12, 0.3, ""},
		{"dnn", digits, "{}", 160, 24, 12, 0.4, ""},
		{"tally", "", "{}", 80, 24, 16, 0.3, ""},
	}
	for i := range list {
		if list[i].data == "" {
			list[i].data = "nothing"
			continue
		}
		path, err := filepath.Abs(filepath.Join(data, list[i].data))
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return nil, fmt.Errorf("finding the data: %w; name its folder with DATA=", err)
		}
		list[i].data = path
	}
	return list, nil
}

// small returns the workloads of short cells, on data generated here, with the applications' own optimizers and steps.
// The topic model's priors and number of topics let its chain settle within that many clocks: with the default, 12.5
// tokens for each of 4 topics, documents of 20 tokens teach little, and runs with other seeds are between 45 and 49 at
// the last clock, on their way from 50 to 43.
func small(dir string) ([]workload, error) {
	list := []workload{
		{"mf", "ratings.csv", "{rank: 4, batches: 2}", smallClocks, 12, 8, 0, ""},
		{"lda", "docword.small.txt", "{topics: 20, alpha_sum: 10, beta: 0.5}", smallClocks, 8, 8, 0, ""},
		{"linear", "numbers.csv", "{}", smallClocks, 12, 3, 0, ""},
		{"ridge", "numbers.csv", "{}", smallClocks, 12, 3, 0, ""},
		{"lasso", "numbers.csv", "{}", smallClocks, 12, 3, 0, ""},
		{"robust", "numbers.csv", "{}", smallClocks, 12, 3, 0, ""},
		{"logistic", "two.csv", "{}", smallClocks, 12, 3, 0, ""},
		{"svm", "two.csv", "{}", smallClocks, 12, 3, 0, ""},
		{"mlr", "three.csv", "{batches: 4}", smallClocks, 12, 5, 0, ""},
		{"dnn", "three.csv", "{batches: 1}", smallClocks, 12, 5, 0, ""},
		{"tally", "nothing", "{}", smallClocks, 12, 8, 0, ""},
	}
	for name, text := range smallData() {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, fmt.Errorf("making data: %w", err)
		}
	}
	for i := range list {
		list[i].data = filepath.Join(dir, list[i].data)
	}
	return list, nil
}

// smallClocks is the number of clocks of a cell: enough for an event at the fourth to have its consequences.
const smallClocks = 24

// smallData returns ratings, documents and tables with something to learn, by file.
func smallData() map[string]string {
	random := rand.New(rand.NewPCG(3, 3))
	var ratings, entries, words, numbers strings.Builder
	classes := map[int]*strings.Builder{2: {}, 3: {}}
	ratings.WriteString("user,item,rating\n")
	numbers.WriteString("a,b,c,d,y\n")
	for _, table := range classes {
		table.WriteString("class,a,b,c,d\n")
	}
	count := 0
	for i := range 120 {
		for item := range 40 {
			if random.IntN(2) == 0 {
				fmt.Fprintf(&ratings, "%d,%d,%.2f\n", i, item, float64(i%7-3)*float64(item%5-2)/2+random.NormFloat64())
			}
		}
		for range 5 {
			x := [4]float64{random.NormFloat64(), random.NormFloat64(), random.NormFloat64(), random.NormFloat64()}
			fmt.Fprintf(&numbers, "%.3f,%.3f,%.3f,%.3f,%.3f\n", x[0], x[1], x[2], x[3], 3*x[0]-2*x[1]+x[2]+random.NormFloat64())
			for n, table := range classes {
				class := i % n
				fmt.Fprintf(table, "k%d,%.3f,%.3f,%.3f,%.3f\n", class, 2*float64(class)+x[0], 2*float64(class%2)+x[1], x[2], x[3])
			}
		}
		for word := range 50 {
			if (word+i)%5 < 2 && random.IntN(2) == 0 {
				fmt.Fprintf(&entries, "%d %d %d\n", i+1, word+1, 1+random.IntN(3))
				count++
			}
		}
	}
	for i := range 50 {
		fmt.Fprintf(&words, "word%d\n", i)
	}
	return map[string]string{
		"ratings.csv": ratings.String(), "numbers.csv": numbers.String(), "two.csv": classes[2].String(), "three.csv": classes[3].String(),
		"docword.small.txt": fmt.Sprintf("120\n50\n%d\n%s", count, entries.String()), "vocab.small.txt": words.String(), "nothing": "\n",
	}
}

// holdout is large, as the error rate of few examples scatters. Programs for drills hold out the same examples for any
// seed.
const holdout = 0.3

// job returns a workload's job, without its machines.
func (w workload) job(name string, m mode, seed uint64) job {
	j := usual(name, w.app)
	j.Holdout = holdout
	j.Data, j.Params, j.Clocks, j.Splits, j.Partitions, j.Seed = w.data, w.params, w.clocks, w.splits, w.partitions, seed
	j.Consistency = strings.Join(slices.DeleteFunc([]string{m.lines, w.more}, func(s string) bool { return s == "" }), "\n  ")
	return j
}

// programOf returns the application of a job file.
func programOf(ctx context.Context, jobFile string) (*config.Job, apps.Program, error) {
	j, err := config.Load(jobFile)
	if err != nil {
		return nil, nil, err
	}
	kind, err := append(all.Registry(), tally.Kind{}).Find(j.Train.App)
	if err != nil {
		return nil, nil, err
	}
	file, err := blob.Open(ctx, j.Train.Data)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the training data: %w", err)
	}
	defer file.Close()
	in := apps.Input{Name: j.Train.Data, Data: file, MaxBadLines: j.Train.MaxBadLines, Columns: j.Train.Columns, Ignore: j.Train.Ignore, Target: apps.TargetOf(j.Train.Params), Beside: func(name string) (io.ReadCloser, error) {
		return blob.Open(ctx, location.Beside(j.Train.Data, name))
	}}
	data, err := kind.Prepare(in, apps.Cut{Splits: j.Train.Splits, Holdout: j.Train.Holdout, Seed: j.Seed},
		func(ps.Split) (io.WriteCloser, error) { return nowhere{}, nil })
	if err != nil {
		return nil, nil, err
	}
	program, err := kind.New(apps.Params(j.Train.Params), data)
	return j, program, err
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) Close() error                { return nil }
