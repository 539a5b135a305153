package main

import (
	"context"
	"fmt"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/mf"
)

// through compares matrix factorisation through a parameter server with LIBMF.
var through = Group{Name: "through", Title: "Matrix factorisation through a parameter server", Pairs: 9, Open: openThrough}

const (
	throughRank   = 100
	throughSplits = 64 // the default in job files
)

func openThrough(ctx context.Context, env *Env) ([]Row, func(), error) {
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
	var clusters []*throughServer
	closeAll := func() {
		for _, c := range clusters {
			c.Close()
		}
		if peer != nil {
			peer.Close()
		}
	}
	against := func(workers, threads int) *throughServer {
		c := &throughServer{env: env, files: files, workers: workers, threads: threads}
		clusters = append(clusters, c)
		return c
	}
	const passes = 12
	var rows []Row
	for _, c := range []struct{ workers, threads int }{{1, 1}, {1, 2}, {2, 1}} {
		rows = append(rows, Row{
			What:    fmt.Sprintf("mf, rank %d, workers: %d, threads: %d", throughRank, c.workers, c.threads),
			Against: fmt.Sprintf("LIBMF (AVX), threads: %d", c.workers*c.threads), Unit: "ratings/s", Bar: 0.7, Skip: skip,
			Ours: against(c.workers, c.threads).ratings(passes), Theirs: theirRatings(peer, throughRank, c.workers*c.threads, passes),
		})
	}
	for _, workers := range []int{1, 2} {
		rows = append(rows, Row{
			What: fmt.Sprintf("mf, test RMSE after 20 passes, workers: %d", workers), Against: "LIBMF (AVX)", Unit: "RMSE",
			Bar: 1, AtMost: true, Skip: skip, Exact: true,
			Ours: against(workers, 1).testRMSE(20), Theirs: theirRMSE(peer, throughRank, 20),
		})
	}
	return rows, closeAll, nil
}

// throughServer is a server and workers, started at the first measurement.
type throughServer struct {
	env     *Env
	files   ratingFiles
	workers int
	threads int // per worker
	cluster *cluster
}

// Close ends them.
func (t *throughServer) Close() {
	if t.cluster != nil {
		t.cluster.Close()
	}
}

func (t *throughServer) start(ctx context.Context) (err error) {
	if t.cluster == nil {
		t.cluster, err = startCluster(ctx, t.env, clusterSpec{kind: mf.Kind{}, input: t.files.ours,
			params: apps.Params{"rank": throughRank, "l2": penalty, "batches": throughBatches}, splits: throughSplits,
			workers: t.workers, threads: t.threads})
	}
	return err
}

// throughBatches is the number of clocks per pass: mf's default.
const throughBatches = 4

// ratings returns ratings per second over some passes.
func (t *throughServer) ratings(passes int) Measure {
	return func(ctx context.Context) (float64, error) {
		if err := t.start(ctx); err != nil {
			return 0, err
		}
		took, err := t.cluster.train(passes * throughBatches)
		return 0.9 * factorRatings * float64(passes) / took.Seconds(), err
	}
}

// testRMSE trains and measures with LIBMF's test ratings.
func (t *throughServer) testRMSE(passes int) Measure {
	return func(ctx context.Context) (float64, error) {
		if err := t.start(ctx); err != nil {
			return 0, err
		}
		if _, err := t.cluster.train(passes * throughBatches); err != nil {
			return 0, err
		}
		rows, err := t.cluster.tables(ctx)
		if err != nil {
			return 0, err
		}
		model, err := t.cluster.program.Export(rows, t.cluster.open)
		if err != nil {
			return 0, err
		}
		predictor, err := mf.NewPredictor(model)
		if err != nil {
			return 0, err
		}
		return predictorRMSE(predictor, t.files.test)
	}
}
