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
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/apps/mf"
)

// factors compares matrix factorisation in `tierml train` with LIBMF.
var factors = Group{Name: "factors", Title: "Matrix factorisation in one process", Pairs: 5, Open: openFactors}

// The generated ratings: of rank 20, with biases and noise; a few users and items have most.
const (
	factorUsers   = 20_000
	factorItems   = 5_000
	factorRatings = 1_000_000
	factorRank    = 20
)

// ratingFiles are the same training ratings for us and for LIBMF, plus test ratings.
type ratingFiles struct{ ours, train, test string }

func openFactors(ctx context.Context, env *Env) ([]Row, func(), error) {
	files, err := generateRatings(env.Dir)
	if err != nil {
		return nil, nil, err
	}
	var peer *Process
	program, skip := compileLIBMF(ctx, env)
	if skip == "" {
		if peer, err = Start(ctx, nil, program, files.train, files.test); err != nil {
			return nil, nil, err
		}
	}
	closeAll := func() {
		if peer != nil {
			peer.Close()
		}
	}
	var rows []Row
	for _, c := range []struct {
		rank, threads, passes int
		bar                   float64
	}{{32, 1, 30, 0.75}, {100, 1, 12, 0.95}, {1000, 1, 3, 1.2}, {32, 2, 60, 0.75}, {100, 2, 24, 0.85}, {1000, 2, 5, 1.0}} {
		rows = append(rows, Row{
			What: fmt.Sprintf("mf, rank %d, threads: %d", c.rank, c.threads), Against: "LIBMF (AVX)", Unit: "ratings/s",
			Bar: c.bar, Skip: skip,
			Ours: ourRatings(files.ours, c.rank, c.threads, c.passes), Theirs: theirRatings(peer, c.rank, c.threads, c.passes),
		})
	}
	for _, c := range []struct{ rank, passes int }{{32, 5}, {32, 10}, {32, 20}, {100, 5}, {100, 10}, {100, 20}, {1000, 5}, {1000, 10}, {1000, 20}} {
		rows = append(rows, Row{
			What: fmt.Sprintf("mf, test RMSE after %d passes, rank %d", c.passes, c.rank), Against: "LIBMF (AVX)", Unit: "RMSE",
			Bar: 1, AtMost: true, Skip: skip, Exact: true,
			Ours: ourRMSE(files, c.rank, c.passes), Theirs: theirRMSE(peer, c.rank, c.passes),
		})
	}
	return rows, closeAll, nil
}

// compileLIBMF compiles our program with LIBMF's sources.
func compileLIBMF(ctx context.Context, env *Env) (program, skip string) {
	folder, skip := env.Peer("LIBMF", among("libmf"))
	if skip != "" {
		return "", skip
	}
	return env.Compile(ctx, "libmf.cc", "-std=c++11", "-DUSEAVX", "-DUSEOMP", "-fopenmp", "-pthread",
		fmt.Sprintf("-DPENALTY=%g", penalty), "-I"+folder, filepath.Join(folder, "mf.cpp"))
}

// penalty is LIBMF's and ours for the generated ratings; with LIBMF's default of 0.1 it learns less.
const penalty = 0.05

// ourRatings returns ratings per second over some passes; the trainer continues across measurements.
func ourRatings(path string, rank, threads, passes int) Measure {
	var trainer *local.Direct
	const batches = 4
	return func(context.Context) (float64, error) {
		if trainer == nil {
			program, files, err := cutFile(mf.Kind{}, path, 0, apps.Params{"rank": rank, "l2": penalty, "batches": batches})
			if err != nil {
				return 0, err
			}
			if trainer, err = local.NewDirect(program.(apps.Direct), 1, files.Open, threads); err != nil {
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

// theirRatings subtracts everything outside passes by a run of one pass.
func theirRatings(libmf *Process, rank, threads, passes int) Measure {
	return func(context.Context) (float64, error) {
		took, err := libmf.Ask("passes %d %d %d", rank, threads, passes)
		if err != nil {
			return 0, err
		}
		return 0.9 * factorRatings * float64(passes) / (took[0] / 1e9), nil
	}
}

// ourRMSE trains on the same ratings as LIBMF and measures with LIBMF's test ratings.
func ourRMSE(files ratingFiles, rank, passes int) Measure {
	return func(context.Context) (float64, error) {
		program, splits, err := cutFile(mf.Kind{}, files.ours, 0, apps.Params{"rank": rank, "l2": penalty, "batches": 1})
		if err != nil {
			return 0, err
		}
		trainer, err := local.NewDirect(program.(apps.Direct), 1, splits.Open, 1)
		if err != nil {
			return 0, err
		}
		for range passes {
			if _, err := trainer.Step(false); err != nil {
				return 0, err
			}
		}
		model, err := program.Export(trainer, splits.Open)
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

func theirRMSE(libmf *Process, rank, passes int) Measure {
	return func(context.Context) (float64, error) {
		answer, err := libmf.Ask("rmse %d %d", rank, passes)
		if err != nil {
			return 0, err
		}
		return answer[0], nil
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
