package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/all"
	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/ps"
)

// workload is something to train.
type workload struct {
	app, data, params          string
	clocks, splits, partitions int
	seconds                    float64 // that a clock should take on a single machine, by pacing
	work                       float64 // floating-point operations per clock
}

// recorded are the workloads on real data.
func recorded(data string) ([]workload, error) {
	list := []workload{
		{app: "mf", data: "ml/mf/ml-100k.u.data.gz", params: "{rank: 8, batches: 8}", clocks: 80, splits: 24, partitions: 16, seconds: 0.5},
		{app: "mlr", data: "ml/mlr/shuttle.csv.gz", params: "{batches: 8, target: 1}", clocks: 80, splits: 24, partitions: 12, seconds: 0.5},
		{app: "lda", data: "ml/lda/docword.20news-test.txt.gz", params: "{topics: 10, batches: 8}", clocks: 40, splits: 16, partitions: 16, seconds: 1},
	}
	for i := range list {
		path, err := filepath.Abs(filepath.Join(data, list[i].data))
		if err != nil {
			return nil, fmt.Errorf("finding the data: %w", err)
		}
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("finding the data: %w; name its folder with DATA=", err)
		}
		list[i].data = path
	}
	return list, nil
}

// small are workloads on data made here.
func small(dir string) ([]workload, error) {
	random := rand.New(rand.NewPCG(3, 3))
	var ratings, labelled, entries strings.Builder
	ratings.WriteString("user,item,rating\n")
	labelled.WriteString("class,a,b,c,d\n")
	count := 0
	for i := range 120 {
		for item := range 40 {
			if random.IntN(2) == 0 {
				fmt.Fprintf(&ratings, "%d,%d,%.2f\n", i, item, float64(i%7-3)*float64(item%5-2)/2+random.NormFloat64())
			}
		}
		for range 5 {
			class := random.IntN(3)
			fmt.Fprintf(&labelled, "k%d,%.3f,%.3f,%.3f,%.3f\n", class, float64(class)+random.NormFloat64(),
				float64(class%2)+random.NormFloat64(), random.NormFloat64(), random.NormFloat64())
		}
		for word := range 50 {
			if (word+i)%5 < 2 && random.IntN(2) == 0 {
				fmt.Fprintf(&entries, "%d %d %d\n", i+1, word+1, 1+random.IntN(3))
				count++
			}
		}
	}
	list := []workload{
		{app: "mf", data: "ratings.csv", params: "{rank: 4, batches: 4}", clocks: 30, splits: 12, partitions: 8, seconds: 0.4},
		{app: "mlr", data: "labelled.csv", params: "{batches: 4}", clocks: 30, splits: 12, partitions: 5, seconds: 0.4},
		{app: "lda", data: "docword.small.txt", params: "{topics: 4, batches: 2}", clocks: 30, splits: 8, partitions: 8, seconds: 0.4},
	}
	texts := []string{ratings.String(), labelled.String(), fmt.Sprintf("120\n50\n%d\n%s", count, entries.String())}
	for i := range list {
		list[i].data = filepath.Join(dir, list[i].data)
		if err := os.WriteFile(list[i].data, []byte(texts[i]), 0o644); err != nil {
			return nil, fmt.Errorf("making data: %w", err)
		}
	}
	return list, os.WriteFile(filepath.Join(dir, "vocab.small.txt"), []byte(vocabulary(50)), 0o644)
}

func vocabulary(words int) string {
	var b strings.Builder
	for i := range words {
		fmt.Fprintf(&b, "word%d\n", i)
	}
	return b.String()
}

// measure finds out how much work a clock of a job is, which says how fast machines must be for it to take as long as
// it should.
func measure(ctx context.Context, jobFile string) (work float64, err error) {
	job, err := config.Load(jobFile)
	if err != nil {
		return 0, err
	}
	kind, err := all.Registry().Find(job.Train.App)
	if err != nil {
		return 0, err
	}
	file, err := blob.Open(ctx, job.Train.Data)
	if err != nil {
		return 0, fmt.Errorf("reading the training data: %w", err)
	}
	defer file.Close()
	in := apps.Input{Name: job.Train.Data, Data: file, Beside: func(name string) (io.ReadCloser, error) {
		return blob.Open(ctx, blob.Beside(job.Train.Data, name))
	}}
	data, err := kind.Prepare(in, apps.Cut{Splits: job.Train.Splits, Holdout: job.Train.Holdout, Seed: job.Seed},
		func(ps.Split) (io.WriteCloser, error) { return nowhere{}, nil })
	if err != nil {
		return 0, err
	}
	program, err := kind.New(apps.Params(job.Train.Params), data)
	if err != nil {
		return 0, err
	}
	return program.WorkPerClock(), nil
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) Close() error                { return nil }
