// Command soak checks promise 6 of docs/training.md with real processes and real data: in deterministic mode the model is
// the same, byte for byte, whatever happens to the machines. It trains matrix factorisation, softmax regression and a topic
// model once undisturbed and then under random schedules of joins, evictions with and without a warning, kills, moves and
// stage changes, and compares the model files. A seed repeats a schedule; when exactly a step of it strikes is up to the
// machine, and must not matter.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if err := command(); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func command() error {
	var o options
	flag.IntVar(&o.schedules, "schedules", 20, "how many random schedules")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the first schedule; the next has the next")
	flag.IntVar(&o.parallel, "parallel", 2, "how many runs at a time")
	data := flag.String("data", "../shared/data", "folder with ml/mf, ml/mlr and ml/lda")
	flag.Parse()
	dir, err := os.MkdirTemp("", "tierml-soak-")
	if err != nil {
		return fmt.Errorf("making a working directory: %w", err)
	}
	o.dir, o.out = dir, os.Stdout
	if o.workloads, err = recorded(*data); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := soak(ctx, o); err != nil {
		return fmt.Errorf("%w\nwhat is left of it is in %s", err, dir)
	}
	return os.RemoveAll(dir)
}
