package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tierml/tierml/apps/lda"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/internal/journal"
)

// soak runs the matrix and storms. Every run fails whose result differs from the undisturbed one, or that breaks a
// promise of docs/training.md.
func soak(f *flag.FlagSet) func(context.Context, place) error {
	patterns := f.String("cells", "*/*/*", "cells of the matrix, APPLICATION/CONSISTENCY/DISTURBANCE, with commas; none: no cell")
	storms := f.Int("storms", 1, "storms for each application and consistency")
	only := f.String("only", "*/*", "storms of which APPLICATION/CONSISTENCY, with commas")
	seed := f.Uint64("seed", 1, "seed of all cells and of the first storm; the next storm has the next")
	data := f.String("data", "../../shared/data", "folder with the recorded data of storms")
	parallel := f.Int("parallel", 2, "how many cells at a time")
	verbose := f.Bool("v", false, "print what storms do")
	return func(ctx context.Context, at place) error {
		workloads, err := small(at.dir)
		if err != nil {
			return err
		}
		s := &soaking{place: at, bases: map[string]baseline{}}
		s.matrix(ctx, cells(workloads, *seed, *patterns), *parallel)
		if *storms > 0 && ctx.Err() == nil {
			if workloads, err = recorded(*data); err != nil {
				return err
			}
			s.storms(ctx, workloads, *storms, *seed, *only, *verbose)
		}
		fmt.Fprintf(at.out, "%d runs, %d failed\n", s.runs, len(s.failed))
		return errors.Join(append(s.failed, ctx.Err())...)
	}
}

// soaking is a running soak.
type soaking struct {
	place
	bases  map[string]baseline
	mu     sync.Mutex
	runs   int
	failed []error
}

// verdict counts a run, keeps the remains of a failed one, and prints how to repeat it.
func (s *soaking) verdict(name, dir, repeat string, began time.Time, came string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	took := time.Since(began).Seconds()
	if err == nil {
		fmt.Fprintf(s.out, "%-28s ok      %4.1f s  %s\n", name, took, came)
		_ = os.RemoveAll(dir) // it is in the folder for temporary files
		return
	}
	fmt.Fprintf(s.out, "%-28s FAILED  %4.1f s: %v\n    again: %s\n    left:  %s\n", name, took, err, repeat, dir)
	s.failed = append(s.failed, errors.New(name))
}

// matrix runs cells, several at a time, and prints a table.
func (s *soaking) matrix(ctx context.Context, list []cell, parallel int) {
	var group errgroup.Group
	group.SetLimit(max(1, parallel))
	for n, c := range list {
		base, err := s.undisturbed(ctx, c)
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			began, came := time.Now(), ""
			at := s.place
			at.dir, at.out = filepath.Join(s.dir, fmt.Sprintf("cell-%d", n)), io.Discard
			if err == nil {
				came, err = c.run(ctx, at, base)
			}
			s.verdict(c.name(), at.dir, fmt.Sprintf("go run ./trials soak -storms 0 -seed %d -cells %s", c.seed, c.name()), began, came, err)
			return nil
		})
	}
	_ = group.Wait() // verdicts are collected
	if len(list) > 0 {
		fmt.Fprint(s.out, s.table(list))
	}
}

// table has a row for each disturbance, a column for each application, and a mark for each consistency.
func (s *soaking) table(list []cell) string {
	var apps, rows []string
	marks := map[string]string{}
	for _, c := range list {
		marks[c.name()] = "."
		if slices.ContainsFunc(s.failed, func(err error) bool { return err.Error() == c.name() }) {
			marks[c.name()] = "F"
		}
		if !slices.Contains(apps, c.workload.app) {
			apps = append(apps, c.workload.app)
		}
		if !slices.Contains(rows, c.disturbance.name) {
			rows = append(rows, c.disturbance.name)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-14s", "")
	for _, app := range apps {
		fmt.Fprintf(&b, " %-8s", app)
	}
	for _, row := range rows {
		fmt.Fprintf(&b, "\n%-14s", row)
		for _, app := range apps {
			line := ""
			for _, m := range modes {
				line += cmp.Or(marks[strings.Join([]string{app, m.name, row}, "/")], " ")
			}
			fmt.Fprintf(&b, " %-8s", line)
		}
	}
	fmt.Fprint(&b, "\n. ok, F failed; in each column")
	for _, m := range modes {
		fmt.Fprint(&b, " ", m.name)
	}
	return b.String() + "\n"
}

// baseline is the result of an undisturbed run.
type baseline struct {
	model []byte
	loss  float64 // mean over some seeds
	work  float64 // per clock, in floating-point operations
}

// base trains on one reliable machine, at full speed, with several seeds. The model is the first seed's.
func (s *soaking) base(ctx context.Context, w workload, m mode, seed uint64, seeds int) (b baseline, err error) {
	key := fmt.Sprint(w.data, " ", w.app, " ", m.name, " ", seed)
	if b, ok := s.bases[key]; ok {
		return b, nil
	}
	var losses []float64
	for n := range uint64(seeds) {
		j := w.job("undisturbed", m, seed+n)
		j.Policy, j.Machines, j.FlopsPerVCPU = "on-demand", 1, 1e12
		loss, err := s.alone(ctx, fmt.Sprintf("undisturbed-%s-%s-%d", w.app, m.name, seed+n), j, func(t *trial) (err error) {
			if n > 0 {
				return nil
			}
			if b.model, err = t.model(); err != nil {
				return err
			}
			_, program, err := programOf(ctx, t.path(j.file()))
			if err == nil {
				b.work = program.WorkPerClock()
			}
			return err
		})
		if err != nil {
			return b, err
		}
		b.loss += loss / float64(seeds)
		losses = append(losses, loss)
	}
	s.bases[key] = b
	if seeds > 1 {
		fmt.Fprintf(s.out, "%-28s mean %.5g of %.5g\n", "undisturbed "+w.app, b.loss, losses)
	}
	return b, nil
}

// fleetRuns is the number of undisturbed runs with which a stale cell is compared: enough to know their mean to less
// than half of one run's scatter.
const fleetRuns = 5

// undisturbed returns what to compare a cell with. Usually that is training on one machine, which also shows that
// staleness costs nothing, except for applications that draw at random. Under BSP these end as on one machine, byte for
// byte. Otherwise their draws depend on which machine is first, and their chains are some clocks behind a single
// machine's, with or without a disturbance (lda: 2 % above it). So they are compared with the mean of undisturbed runs
// of the same consistency on the same machines.
func (s *soaking) undisturbed(ctx context.Context, c cell) (b baseline, err error) {
	b, err = s.base(ctx, c.workload, c.mode, c.seed, 1)
	if err != nil || scatters[c.workload.app] == 0 || c.mode.name == "bsp" {
		return b, err
	}
	key := fmt.Sprint("fleet ", c.workload.data, " ", c.workload.app, " ", c.mode.name, " ", c.seed)
	if b, ok := s.bases[key]; ok {
		return b, nil
	}
	losses := make([]float64, fleetRuns)
	for n := range losses {
		j := c.job("undisturbed", c.seed+uint64(n))
		j.FlopsPerVCPU = paced(b.work, smallClock, smallMachines)
		losses[n], err = s.alone(ctx, fmt.Sprintf("undisturbed-fleet-%s-%s-%d", c.workload.app, c.mode.name, j.Seed), j, func(*trial) error { return nil })
		if err != nil {
			return b, err
		}
	}
	mean, deviation := scatter(losses)
	fmt.Fprintf(s.out, "%-28s mean %.5g, standard deviation %.2g %% of it (%.2g %% is expected), of %.5g\n", "undisturbed "+c.workload.app+"/"+c.mode.name,
		mean, 100*deviation/mean, 100*scatters[c.workload.app], losses)
	b.loss = mean
	s.bases[key] = b
	return b, nil
}

// alone runs a job to its end without disturbance, inspects the remains, and returns its loss.
func (s *soaking) alone(ctx context.Context, name string, j job, look func(*trial) error) (loss float64, err error) {
	t, err := begin(filepath.Join(s.dir, name), s.binary, j, io.Discard)
	var entries []journal.Entry
	if err == nil {
		entries, err = t.finish(ctx)
	}
	if err == nil {
		err = look(t)
	}
	t.abandon()
	if err != nil {
		return 0, fmt.Errorf("the undisturbed run: %w", err)
	}
	loss, _ = result(entries)
	return loss, os.RemoveAll(t.dir)
}

// scatter returns the mean and the standard deviation of some figures.
func scatter(of []float64) (mean, deviation float64) {
	for _, x := range of {
		mean += x / float64(len(of))
	}
	for _, x := range of {
		deviation += (x - mean) * (x - mean) / float64(len(of)-1)
	}
	return mean, math.Sqrt(deviation)
}

// result returns the test loss of the model, and its name.
func result(entries []journal.Entry) (loss float64, metric string) {
	for _, e := range entries {
		if start, err := e.StartDetails(); err == nil {
			metric = start.Metric
		}
		if e.Kind == journal.Export && e.TestLoss != nil {
			loss = *e.TestLoss
		}
	}
	return loss, metric
}

// tolerance is how far a nondeterministic result may be from the undisturbed one: a share, or, for error rates, a
// difference. A better result is fine if that many clocks are not enough for every optimizer to converge.
type tolerance struct {
	share, rate float64
	orBetter    bool
}

var (
	cellTolerance  = tolerance{0.05, 0.05, true} // little data, few clocks
	stormTolerance = tolerance{0.01, 0.01, false}
)

// scatters are the standard deviations of the losses of undisturbed runs with racing machines, relative to their mean,
// for applications that draw at random. For lda's small workload they were measured in 50 runs under SSP and ASP, by
// seeds and by machines.
var scatters = map[string]float64{lda.Kind{}.Name(): 0.012}

// deviations is how many standard deviations of undisturbed runs a cell may be worse than their mean, which itself has
// an error: by chance, one of an application's 54 stale cells exceeds that in a hundred soaks.
const deviations = 4

// tolerance returns a cell's tolerance. For applications that draw at random it follows from their scatter, but is
// never wider.
func (c cell) tolerance() tolerance {
	within := cellTolerance
	if of := scatters[c.workload.app]; of > 0 {
		within.share = deviations * of
	}
	return within
}

// promise compares the result of a run with the undisturbed one's, and describes the comparison.
func (b baseline) promise(t *trial, m mode, entries []journal.Entry, within tolerance) (p promise, came string) {
	if m.name == "bsp" {
		got, err := t.model()
		if err == nil && !bytes.Equal(got, b.model) {
			err = errors.New("it is another")
		}
		return promise{"the model is the undisturbed one's, byte for byte", err}, "the same model"
	}
	loss, metric := result(entries)
	bound := within.share * math.Abs(b.loss)
	if metric == "error rate" {
		bound = within.rate
	}
	off := loss - b.loss
	if !within.orBetter {
		off = math.Abs(off)
	}
	came = fmt.Sprintf("%s %.5g, undisturbed %.5g: %+.3g (bound %.3g)", metric, loss, b.loss, loss-b.loss, bound)
	p = promise{words: fmt.Sprintf("the %s is the undisturbed one's", metric), err: b.sameTokens(t)}
	if !(off <= bound) { // also catches NaN
		p.err = errors.Join(p.err, errors.New(came))
	}
	return p, came
}

// sameTokens checks that a topic model counts each word as often as the undisturbed one, whatever the topics.
func (b baseline) sameTokens(t *trial) error {
	if t.job.App != (lda.Kind{}).Name() {
		return nil
	}
	got, err := t.model()
	if err != nil {
		return err
	}
	var sums [2][]int32
	for i, text := range [][]byte{b.model, got} {
		m, err := model.Read(bytes.NewReader(text))
		if err != nil {
			return err
		}
		words, _ := m.Tensor("word_topic")
		sums[i] = rowSums(words)
	}
	if !slices.Equal(sums[0], sums[1]) {
		return fmt.Errorf("words are counted %d times, undisturbed %d times", sums[1], sums[0])
	}
	return nil
}

func rowSums(t model.Tensor) (sums []int32) {
	for row := range slices.Chunk(t.Int32, t.Shape[1]) {
		var sum int32
		for _, n := range row {
			sum += n
		}
		sums = append(sums, sum)
	}
	return sums
}

// storms runs several storms for each application and consistency mode, on recorded data.
func (s *soaking) storms(ctx context.Context, workloads []workload, each int, seed uint64, only string, verbose bool) {
	for range each {
		for _, w := range workloads {
			for _, m := range modes {
				if ctx.Err() != nil {
					return
				}
				name := w.app + "/" + m.name
				if !matches(only, name) {
					continue
				}
				own := seed
				seed++
				began := time.Now()
				at := s.place
				at.dir = filepath.Join(s.dir, fmt.Sprintf("storm-%d", own))
				if !verbose {
					at.out = io.Discard
				}
				came, err := s.storm(ctx, at, w, m, own)
				s.verdict(fmt.Sprintf("storm %d %s", own, name), at.dir,
					fmt.Sprintf("go run ./trials soak -cells none -storms 1 -seed %d -only %s", own, name), began, came, err)
			}
		}
	}
}

// stormsHave are kinds of disturbances that every storm includes.
var stormsHave = []string{"kill-controller", "silence", "throttle"}

// storm runs one storm: machines, notices and faults are determined by the seed.
func (s *soaking) storm(ctx context.Context, at place, w workload, m mode, seed uint64) (came string, err error) {
	base, err := s.base(ctx, w, modes[0], 1, 5)
	if err != nil {
		return "", err
	}
	random := rand.New(rand.NewPCG(seed, 11))
	j := w.job("storm", m, 1)
	j.FewServers = true
	reliable := 1 + random.IntN(2)
	j.Machines, j.Reliable = 2+random.IntN(6), fmt.Sprintf("{type: c3.large, count: %d}", reliable)
	j.ThreeAbove, j.Notice = float64(2+random.IntN(2)), time.Duration(1000+random.IntN(3000))*time.Millisecond
	j.Dead, j.Orphan, j.Extra = deadAfter, time.Minute, "checkpoint: {every: 1s}"
	clock := time.Duration(w.seconds * float64(time.Second))
	j.FlopsPerVCPU = paced(base.work, clock, j.Machines)
	length := clock * time.Duration(w.clocks)
	p := storm{length: length, faults: int(length.Seconds() / 2), seed: seed, without: append(impossible(), "disk-full"), always: stormsHave}.draw()
	t, err := begin(at.dir, at.binary, j, at.out)
	defer t.abandon()
	if err == nil {
		err = t.reach(ctx, 1)
	}
	if err != nil {
		return "", err
	}
	happened, err := t.play(ctx, p, 0)
	fmt.Fprintln(at.out, faultsMet(happened))
	if err != nil {
		return "", errors.Join(err, t.checkLogs())
	}
	entries, err := t.finish(ctx)
	if err != nil {
		return "", errors.Join(err, t.checkLogs())
	}
	same, came := base.promise(t, m, entries, stormTolerance)
	promises := append(t.promises(entries), same)
	for _, kind := range stormsHave {
		if happened[kind] == 0 {
			promises = append(promises, promise{"a storm has every kind that it must", errors.New(kind + " met nobody")})
		}
	}
	return came + "; " + faultsMet(happened), broken(promises)
}
