package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/test/drill"
)

// patience is how long a run may have nothing to say. Nothing is proved by speed: it is long.
const patience = 3 * time.Minute

type options struct {
	schedules, parallel int
	seed                uint64
	workloads           []workload
	dir                 string
	out                 io.Writer
}

// step is something to do when a clock is reached.
type step struct {
	clock int64
	do    string // in the fake cloud's words
}

// schedule is a random history of machines.
type schedule struct {
	seed               uint64
	machines, reliable int
	three              float64 // transient machines per reliable one above which stage 3 begins
	notice             time.Duration
	steps              []step
}

// draw gives the schedule of a seed for a workload.
func draw(seed uint64, w workload) schedule {
	random := rand.New(rand.NewPCG(seed, 11))
	s := schedule{
		seed: seed, machines: 2 + random.IntN(6), reliable: 1 + random.IntN(2), three: float64(2 + random.IntN(2)),
		notice: time.Duration(1000+random.IntN(3000)) * time.Millisecond,
	}
	count := func() int { return 1 + random.IntN(s.machines) }
	for clock := int64(4 + random.IntN(5)); clock < int64(w.clocks)-3; clock += int64(2 + random.IntN(w.clocks/5)) {
		do := ""
		switch random.IntN(8) {
		case 0:
			do = "evict all"
		case 1, 2:
			do = fmt.Sprintf("evict random %d", count())
		case 3:
			do = fmt.Sprintf("evict-now random %d", count())
		case 4, 5:
			do = fmt.Sprintf("kill random %d", 1+random.IntN(2))
		case 6:
			do = fmt.Sprintf("no-capacity for %dm", 10+random.IntN(20)) // one or two seconds by the wall clock
		case 7:
			do = fmt.Sprintf("slow-start boot %dms for 1h", 200+random.IntN(1500))
		}
		s.steps = append(s.steps, step{clock, do})
	}
	return s
}

func (s schedule) String() string {
	parts := []string{fmt.Sprintf("%d+%d machines, stage 3 above %g, notice %v", s.machines, s.reliable, s.three, s.notice)}
	for _, st := range s.steps {
		parts = append(parts, fmt.Sprintf("%d: %s", st.clock, st.do))
	}
	return strings.Join(parts, "; ")
}

// tally counts what happened over all schedules.
type tally struct {
	sync.Mutex
	joins, warned, unwarned, moves, stages, rollbacks int
}

func (t *tally) add(entries []journal.Entry) {
	t.Lock()
	defer t.Unlock()
	t.joins += drill.Count(entries, journal.Join)
	t.warned += drill.Count(entries, journal.Evicted)
	t.unwarned += drill.Count(entries, journal.Failed)
	t.moves += drill.Count(entries, journal.Move)
	t.stages += drill.Count(entries, journal.Stage)
	t.rollbacks += drill.Count(entries, journal.Rollback)
}

func (t *tally) String() string {
	return fmt.Sprintf("%d joins, %d warned and %d unwarned losses, %d moves, %d stage changes, %d roll-backs",
		t.joins, t.warned, t.unwarned, t.moves, t.stages, t.rollbacks)
}

// missing names what did not happen in any schedule: then nothing was shown about it.
func (t *tally) missing() (names []string) {
	for name, n := range map[string]int{"joins": t.joins, "warned evictions": t.warned, "unwarned losses": t.unwarned,
		"moves": t.moves, "stage changes": t.stages, "roll-backs": t.rollbacks} {
		if n == 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// soak runs all schedules. Every schedule that leads to another model is an error.
func soak(ctx context.Context, o options) error {
	fmt.Fprintf(o.out, "seeds %d to %d\n", o.seed, o.seed+uint64(o.schedules)-1)
	binary, err := drill.Build(ctx, o.dir)
	if err != nil {
		return err
	}
	want := make([][]byte, len(o.workloads))
	for i := range o.workloads {
		w := &o.workloads[i]
		began := time.Now()
		if want[i], err = undisturbed(ctx, o.dir, binary, w); err != nil {
			return fmt.Errorf("%s undisturbed: %w", w.app, err)
		}
		fmt.Fprintf(o.out, "%-4s undisturbed: %d clocks, a model of %d bytes, %.0f s\n", w.app, w.clocks, len(want[i]), time.Since(began).Seconds())
	}
	var group errgroup.Group
	group.SetLimit(max(1, o.parallel))
	var all tally
	var printing sync.Mutex
	var failures []error
	for n := range o.schedules {
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			which := (int(o.seed) + n) % len(o.workloads)
			w := o.workloads[which]
			s := draw(o.seed+uint64(n), w)
			began := time.Now()
			happened, err := disturbed(ctx, o.dir, binary, w, s, want[which])
			all.add(happened)
			printing.Lock()
			defer printing.Unlock()
			verdict := "the same model"
			if err != nil {
				verdict = "FAILED: " + err.Error()
				failures = append(failures, fmt.Errorf("seed %d", s.seed))
			}
			var own tally
			own.add(happened)
			fmt.Fprintf(o.out, "seed %-4d %-4s %s (%.0f s; %s)\n     %s\n", s.seed, w.app, verdict, time.Since(began).Seconds(), &own, s)
			return nil
		})
	}
	_ = group.Wait() // errors are collected
	fmt.Fprintf(o.out, "%d schedules, %d failed: %s\n", o.schedules, len(failures), &all)
	if missing := all.missing(); ctx.Err() == nil && o.schedules >= 10 && len(missing) > 0 {
		failures = append(failures, fmt.Errorf("nothing was shown: no schedule had %s", strings.Join(missing, ", ")))
	}
	return errors.Join(append(failures, ctx.Err())...)
}

func (w workload) job(name string) drill.Job {
	return drill.Job{
		Name: name, App: w.app, Data: w.data, Params: w.params, Clocks: w.clocks, Splits: w.splits, Partitions: w.partitions,
		Machines: 1, Consistency: "deterministic: true", Seed: 5, FlopsPerVCPU: 1e12, Dead: time.Minute, Heartbeat: time.Second,
	}
}

// undisturbed trains on one reliable machine, as fast as it goes, and gives the model.
func undisturbed(ctx context.Context, dir, binary string, w *workload) ([]byte, error) {
	j := w.job("undisturbed")
	j.Policy = "on-demand"
	r, err := newRig(filepath.Join(dir, "undisturbed-"+w.app), binary, j)
	if err != nil {
		return nil, err
	}
	defer r.end()
	if w.work, err = measure(ctx, r.site.Path(r.file)); err != nil {
		return nil, err
	}
	if err := r.start(); err != nil {
		return nil, err
	}
	if _, err := r.finish(); err != nil {
		return nil, err
	}
	return r.run.Model()
}

// disturbed trains under a schedule and compares the model.
func disturbed(ctx context.Context, dir, binary string, w workload, s schedule, want []byte) ([]journal.Entry, error) {
	j := w.job("disturbed")
	j.Machines, j.Reliable, j.ThreeAbove, j.Notice = s.machines, s.reliable, s.three, s.notice
	j.FlopsPerVCPU = w.work / w.seconds / 2 // two vCPUs each
	r, err := newRig(filepath.Join(dir, fmt.Sprintf("seed-%d", s.seed)), binary, j)
	if err != nil {
		return nil, err
	}
	defer r.end()
	if err := r.start(); err != nil {
		return nil, err
	}
	for _, st := range s.steps {
		there, err := r.run.Until(patience, func(entries []journal.Entry) bool {
			return ctx.Err() != nil || drill.Reached(entries) >= st.clock
		})
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil || !there {
			break
		}
		if _, err := r.cloud.Do(st.do); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	entries, err := r.finish()
	if err != nil {
		return entries, err
	}
	got, err := r.run.Model()
	if err == nil && !bytes.Equal(got, want) {
		err = errors.New("another model")
	}
	return entries, err
}

// rig is one run with its cloud.
type rig struct {
	site  *drill.Site
	job   drill.Job
	file  string
	cloud *drill.Cloud
	run   *drill.Run
}

func newRig(dir, binary string, j drill.Job) (*rig, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making a site: %w", err)
	}
	site, err := drill.NewSite(dir, binary)
	if err != nil {
		return nil, err
	}
	r := &rig{site: site, job: j}
	r.file, err = site.WriteJob(j)
	return r, err
}

func (r *rig) start() (err error) {
	if r.cloud, err = r.site.StartCloud(r.job); err != nil {
		return err
	}
	r.run, err = r.site.StartRun(r.cloud, r.job.Name, r.file)
	return err
}

// finish waits for the end of the run and checks what must hold of every run.
func (r *rig) finish() ([]journal.Entry, error) {
	if err := r.run.Wait(patience); err != nil {
		return nil, err
	}
	entries, err := r.run.Journal()
	if err != nil {
		return nil, err
	}
	errs := []error{r.run.Finished(), drill.CheckJournal(entries), r.site.CheckLogs()}
	for deadline := time.Now().Add(patience); len(r.site.Processes(r.cloud.Process)) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			errs = append(errs, fmt.Errorf("processes %v are left over", r.site.Processes(r.cloud.Process)))
			break
		}
	}
	return entries, errors.Join(errs...)
}

func (r *rig) end() {
	if r.run != nil {
		r.run.Signal(9) // it may have ended
	}
	if r.cloud != nil {
		r.cloud.End()
	}
	r.site.KillAll()
}
