package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/apps/mf"
)

// factors compares matrix factorisation, as `tierml train` does it, with LIBMF.
var factors = Group{Name: "factors", Title: "Matrix factorisation in one process", Open: openFactors}

// The ratings that are generated: of rank 20, with biases and noise, a few users and items having most of them.
const (
	factorUsers   = 20_000
	factorItems   = 5_000
	factorRatings = 1_000_000
	factorRank    = 20
)

// ratingFiles are the same training ratings for us and for LIBMF, and test ratings.
type ratingFiles struct{ ours, train, test string }

func openFactors(ctx context.Context, env *Env) ([]Row, func(), error) {
	libmf, skip := env.Peer("LIBMF")
	libmf = filepath.Join(libmf, "mf-train")
	files, err := generateRatings(env.Dir)
	if err != nil {
		return nil, nil, err
	}
	var rows []Row
	for _, c := range []struct {
		rank, threads, passes int
		bar                   float64
	}{{32, 1, 6, 0.75}, {100, 1, 3, 0.95}, {1000, 1, 3, 1.2}, {32, 2, 6, 0.75}, {100, 2, 3, 0.85}, {1000, 2, 3, 1.0}} {
		rows = append(rows, Row{
			What: fmt.Sprintf("mf, rank %d, threads: %d", c.rank, c.threads), Against: "LIBMF (AVX)", Unit: "ratings/s",
			Bar: c.bar, Skip: skip,
			Ours:   ourRatings(files.ours, c.rank, c.threads, c.passes),
			Theirs: theirRatings(libmf, files.train, c.rank, c.threads, c.passes),
		})
	}
	for _, c := range []struct{ rank, passes int }{{32, 5}, {32, 10}, {32, 20}, {100, 10}} {
		rows = append(rows, Row{
			What: fmt.Sprintf("mf, test RMSE after %d passes, rank %d", c.passes, c.rank), Against: "LIBMF (AVX)", Unit: "RMSE",
			Bar: 1, AtMost: true, Skip: skip,
			Ours:   ourRMSE(files, c.rank, c.passes),
			Theirs: theirRMSE(libmf, files, c.rank, c.passes),
		})
	}
	return rows, func() {}, nil
}

// penalty is LIBMF's and ours for the generated ratings; at LIBMF's default of 0.1 it learns less.
const penalty = 0.05

// ourRatings gives ratings per second over some passes; the trainer goes on from measurement to measurement.
func ourRatings(path string, rank, threads, passes int) Measure {
	var trainer *local.Direct
	const batches = 4
	return func(context.Context) (float64, error) {
		if trainer == nil {
			program, files, err := cutFile(mf.Kind{}, path, 0, apps.Params{"rank": rank, "l2": penalty, "batches": batches})
			if err != nil {
				return 0, err
			}
			if trainer, err = local.NewDirect(program.(apps.Direct), 1, files.open, threads); err != nil {
				return 0, err
			}
		}
		var examples int64
		began := time.Now()
		for range passes * batches {
			stats, err := trainer.Step(false)
			if err != nil {
				return 0, err
			}
			examples += stats.Examples
		}
		return float64(examples) / time.Since(began).Seconds(), nil
	}
}

func libmfArgs(rank, threads, passes int, more ...string) []string {
	return append([]string{"-k", strconv.Itoa(rank), "-t", strconv.Itoa(passes), "-s", strconv.Itoa(threads), "-l2", fmt.Sprint(penalty)}, more...)
}

// theirRatings takes reading, and what else is not a pass, out by a run of one pass.
func theirRatings(libmf, path string, rank, threads, passes int) Measure {
	return func(ctx context.Context) (float64, error) {
		model := path + ".model"
		one, _, err := timed(ctx, libmf, libmfArgs(rank, threads, 1, "--quiet", path, model)...)
		if err != nil {
			return 0, err
		}
		all, _, err := timed(ctx, libmf, libmfArgs(rank, threads, 1+passes, "--quiet", path, model)...)
		return 0.9 * factorRatings * float64(passes) / (all - one), err
	}
}

// ourRMSE trains on LIBMF's very ratings and measures with LIBMF's test ratings.
func ourRMSE(files ratingFiles, rank, passes int) Measure {
	return func(context.Context) (float64, error) {
		program, splits, err := cutFile(mf.Kind{}, files.ours, 0, apps.Params{"rank": rank, "l2": penalty, "batches": 1})
		if err != nil {
			return 0, err
		}
		trainer, err := local.NewDirect(program.(apps.Direct), 1, splits.open, 1)
		if err != nil {
			return 0, err
		}
		for range passes {
			if _, err := trainer.Step(false); err != nil {
				return 0, err
			}
		}
		model, err := program.Export(trainer, splits.open)
		if err != nil {
			return 0, err
		}
		predictor, err := mf.NewPredictor(model)
		if err != nil {
			return 0, err
		}
		return predictorRMSE(predictor, files.test)
	}
}

func predictorRMSE(p *mf.Predictor, path string) (float64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	var n, squares float64
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var user, item int64
		var rating float64
		if _, err := fmt.Sscan(lines.Text(), &user, &item, &rating); err != nil {
			return 0, err
		}
		if predicted, known := p.Predict(user, item); known {
			squares += (rating - predicted) * (rating - predicted)
			n++
		}
	}
	return math.Sqrt(squares / n), nil
}

var lastRMSE = regexp.MustCompile(`(?m)^ *\d+ +[\d.]+ +([\d.]+) +[\d.e+]+ *$`)

func theirRMSE(libmf string, files ratingFiles, rank, passes int) Measure {
	return func(ctx context.Context) (float64, error) {
		_, out, err := timed(ctx, libmf, libmfArgs(rank, 1, passes, "-p", files.test, files.train, files.train+".model")...)
		if err != nil {
			return 0, err
		}
		found := lastRMSE.FindAllSubmatch(out, -1)
		if len(found) != passes {
			return 0, fmt.Errorf("LIBMF printed %d passes, want %d", len(found), passes)
		}
		return strconv.ParseFloat(string(found[passes-1][1]), 64)
	}
}

// generateRatings writes a tenth of the ratings to one file and the others to another, in lines of user, item, rating.
func generateRatings(dir string) (ratingFiles, error) {
	files := ratingFiles{ours: filepath.Join(dir, "ratings.csv"), train: filepath.Join(dir, "ratings-train"), test: filepath.Join(dir, "ratings-test")}
	var out [3]*bufio.Writer
	for i, path := range []string{files.train, files.test, files.ours} {
		file, err := os.Create(path)
		if err != nil {
			return files, err
		}
		defer file.Close()
		out[i] = bufio.NewWriter(file)
	}
	fmt.Fprintln(out[2], "user,item,rating")
	r := rand.New(rand.NewPCG(7, 7))
	normal := func(n int, scale float64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = scale * r.NormFloat64()
		}
		return v
	}
	p, q := normal(factorUsers*factorRank, 1), normal(factorItems*factorRank, 0.6/math.Sqrt(factorRank))
	userBias, itemBias := normal(factorUsers, 0.3), normal(factorItems, 0.4)
	seen := make(map[[2]int]bool, factorRatings)
	for len(seen) < factorRatings {
		u, i := int(math.Pow(r.Float64(), 1.5)*factorUsers), int(math.Pow(r.Float64(), 2)*factorItems)
		if seen[[2]int{u, i}] {
			continue
		}
		seen[[2]int{u, i}] = true
		rating := 3.5 + userBias[u] + itemBias[i] + 0.5*r.NormFloat64()
		for k := range factorRank {
			rating += p[u*factorRank+k] * q[i*factorRank+k]
		}
		rating = min(max(math.Round(2*rating)/2, 0.5), 5)
		if len(seen)%10 == 0 {
			fmt.Fprintf(out[1], "%d %d %g\n", u, i, rating)
			continue
		}
		fmt.Fprintf(out[0], "%d %d %g\n", u, i, rating)
		fmt.Fprintf(out[2], "%d,%d,%g\n", u, i, rating)
	}
	return files, errors.Join(out[0].Flush(), out[1].Flush(), out[2].Flush())
}
