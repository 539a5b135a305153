package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/apps/tally"
	"github.com/tierml/tierml/internal/checkpoint"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/localrun"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/test/drill"
)

const (
	speed = 600 // of the market
	// patience is how long the run may do no clock. The longest fault and the recovery from it take a few seconds.
	patience = 90 * time.Second
	splits   = 24
)

// job is the run that everything happens to. There are far more clocks than it will do: it is ended in order.
func job(o options, dir string) drill.Job {
	random := rand.New(rand.NewPCG(o.seed, 18))
	j := drill.Job{
		Name: "chaos", App: "tally", Data: filepath.Join(dir, "nothing"), Machines: o.machines, Reliable: o.reliable,
		Clocks: 10_000_000, Splits: splits, Partitions: 16, Seed: o.seed, Speed: speed, Notice: notice,
		Dead: deadAfter, Heartbeat: 500 * time.Millisecond, Orphan: time.Minute,
		// A quarter of a second for a clock on all machines of two vCPUs.
		FlopsPerVCPU: splits * 1e6 / 0.25 / 2 / float64(o.machines),
		TwoAbove:     1, ThreeAbove: float64(o.machines) / float64(o.reliable) * 0.7,
		EvaluateEvery: 100,
		Extra:         fmt.Sprintf("checkpoint: {to: %s, every: 1s, keep: 2}", filepath.Join(dir, diskDir)),
	}
	if o.tls {
		j.Extra += "\nsecurity: tls"
	}
	usual := []string{"bsp", "ssp", "asp"}[random.IntN(3)]
	if o.consistency != "" {
		usual = o.consistency
	}
	switch usual {
	case "bsp":
		j.Consistency = "deterministic: false"
	case "ssp":
		j.Consistency = "staleness: 2"
	case "asp":
		j.Consistency = "consistency: asp"
	}
	return j
}

func chaos(ctx context.Context, o options, p plan, dir string) (err error) {
	binary, err := drill.Build(ctx, dir, "drill")
	if err != nil {
		return err
	}
	s := &stage{out: o.out}
	if s.site, err = drill.NewSite(dir, binary); err != nil {
		return err
	}
	if err := s.site.Write("nothing", "\n"); err != nil {
		return err
	}
	release, err := s.makeDisk(slices.Contains(o.without, "disk-full"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release(err != nil)) }()
	j := job(o, dir)
	fmt.Fprintf(o.out, "%d transient and %d reliable machines, %s\n", o.machines, o.reliable, j.Consistency)
	file, err := s.site.WriteJob(j)
	if err != nil {
		return err
	}
	defer s.site.KillAll()
	if s.cloud, err = s.site.StartCloud(j); err != nil {
		return err
	}
	defer s.cloud.End()
	if s.run, err = s.site.StartRun(s.cloud, j.Name, file); err != nil {
		return err
	}
	if err := s.reach(5); err != nil {
		return err
	}
	happened, err := s.play(ctx, o, p)
	if err = errors.Join(err, s.settle()); err != nil {
		return err
	}
	return s.conclude(o, happened)
}

// reach waits for a clock.
func (s *stage) reach(clock int64) error {
	there, err := s.run.Until(patience, func(e []journal.Entry) bool { return drill.Reached(e) >= clock })
	if err == nil && !there {
		err = fmt.Errorf("the run ended by itself; it printed\n%s", s.run.Printed())
	}
	return err
}

// play lets the plan happen and gives how many faults met somebody, by kind.
func (s *stage) play(ctx context.Context, o options, p plan) (happened map[string]int, err error) {
	happened = map[string]int{}
	watch := &watch{stage: s, moved: time.Now()}
	began := time.Now()
	for n := 0; n < len(p) || time.Since(began) < o.length; {
		if err := ctx.Err(); err != nil {
			return happened, err
		}
		if err := watch.look(); err != nil {
			return happened, fmt.Errorf("%v after the start, after %d faults: %w", time.Since(began).Round(time.Second), n, err)
		}
		if n == len(p) || time.Since(began) < p[n].at {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		f := p[n]
		n++
		which := slices.IndexFunc(kinds, func(k kind) bool { return k.name == f.kind })
		whom, err := kinds[which].do(s, f)
		if err != nil {
			return happened, fmt.Errorf("fault %v: %w", f, err)
		}
		if whom != "" {
			happened[f.kind]++
			fmt.Fprintf(o.out, "%v  clock %d  %s\n", f, watch.clock, whom)
		}
	}
	return happened, nil
}

// watch sees to it that the run gets on.
type watch struct {
	*stage
	looked time.Time
	clock  int64
	moved  time.Time
}

func (w *watch) look() error {
	if time.Since(w.looked) < time.Second {
		return nil
	}
	w.looked = time.Now()
	select {
	case <-w.run.Ended():
		return fmt.Errorf("the run ended by itself; it printed\n%s", w.run.Printed())
	case <-w.cloud.Ended():
		return errors.New("the cloud ended by itself")
	default:
	}
	entries, err := w.run.Journal()
	if err != nil {
		return err
	}
	clocks := int64(drill.Count(entries, journal.ClockDone))
	if clocks != w.clock {
		w.clock, w.moved = clocks, time.Now()
	}
	if still := time.Since(w.moved); still > patience {
		return fmt.Errorf("stuck: no clock for %v\n%s", still.Round(time.Second), w.run.Printed())
	}
	return nil
}

// conclude ends the run in order and checks the promises.
func (s *stage) conclude(o options, happened map[string]int) error {
	s.run.Signal(syscall.SIGINT)
	select {
	case <-s.run.Ended():
	case <-time.After(2 * patience):
		return fmt.Errorf("stuck: the run does not end; it printed\n%s", s.run.Printed())
	}
	entries, err := s.run.Journal()
	if err != nil {
		return err
	}
	recoveries, cuts := s.oneCutEverywhere(entries)
	clock, counted := s.countedOnce()
	saved, whole := s.checkpointsAreWhole(entries, happened["disk-full"] > 0)
	leaked := s.noneLeft()
	total := 0
	var kinds []string
	for _, name := range slices.Sorted(maps.Keys(happened)) {
		total += happened[name]
		kinds = append(kinds, fmt.Sprintf("%d %s", happened[name], name))
	}
	fmt.Fprintf(o.out, "%d faults: %s\n", total, strings.Join(kinds, ", "))
	fmt.Fprintf(o.out, "%d clocks done, %d of them again; the model stands at clock %d; %d joins, %d moves, %d stage changes, %d cuts, %d roll-backs, %d checkpoints, %d that failed, %d takeovers\n",
		drill.Count(entries, journal.ClockDone), redone(entries), clock, drill.Count(entries, journal.Join), drill.Count(entries, journal.Move),
		drill.Count(entries, journal.Stage), drill.Count(entries, journal.Cut), drill.Count(entries, journal.Rollback),
		drill.Count(entries, journal.Checkpoint), drill.Count(entries, journal.SaveFailed), drill.Count(entries, journal.TakeOver))
	for _, promise := range []struct {
		words string
		err   error
	}{
		{"no clock lost beyond the last cut, and each in order", drill.CheckJournal(entries)},
		{fmt.Sprintf("one cut everywhere after each of %d recoveries", recoveries), cuts},
		{"every update counted once: the sums are the work", counted},
		{fmt.Sprintf("each of the %d checkpoints that are kept holds the work up to its clock", saved), whole},
		{"no process is left over", leaked},
		{"no process says that it broke", s.site.CheckLogs()},
	} {
		verdict := "ok  "
		if promise.err != nil {
			verdict = "LIE "
		}
		fmt.Fprintf(o.out, "%s %s\n", verdict, promise.words)
		err = errors.Join(err, promise.err)
	}
	return err
}

func redone(entries []journal.Entry) (n int) {
	for _, e := range entries {
		if e.Redone {
			n++
		}
	}
	return n
}

// backAtTheCut is what a machine's log says when it has returned.
var backAtTheCut = regexp.MustCompile(`msg="back at the cut".* generation=(\d+) cut=(\d+)`)

// oneCutEverywhere compares the cuts to which machines say that they returned with what the journal says of their
// generation.
func (s *stage) oneCutEverywhere(entries []journal.Entry) (recoveries int, err error) {
	cut := map[string]int64{}
	for _, e := range entries {
		if e.Kind == journal.Rollback {
			cut[strconv.FormatUint(e.Generation, 10)] = e.Clock
		}
	}
	logs, err := filepath.Glob(s.site.Path("machines", "*.log"))
	if err != nil {
		return 0, err
	}
	var errs []error
	said := map[string]bool{}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			return 0, err
		}
		for _, found := range backAtTheCut.FindAllStringSubmatch(string(text), -1) {
			said[found[1]] = true
			if want, ok := cut[found[1]]; !ok || strconv.FormatInt(want, 10) != found[2] {
				errs = append(errs, fmt.Errorf("%s says that in generation %s it went back to cut %s; the journal says %d", filepath.Base(log), found[1], found[2], want))
			}
		}
	}
	return len(said), errors.Join(errs...)
}

// countedOnce compares the saved tables with the work that was done.
func (s *stage) countedOnce() (clock int64, err error) {
	path := filepath.Join(s.run.Dir(), localrun.CheckpointFile)
	at, err := checkpoint.Clock(path)
	if err != nil {
		return 0, fmt.Errorf("nothing was saved: %w; it printed\n%s", err, s.run.Printed())
	}
	m, err := model.Load(path)
	if err != nil {
		return 0, err
	}
	return int64(at), compare(at, func(name string) []int32 {
		table, _ := m.Tensor(name)
		return table.Int32
	})
}

// compare compares tables at a clock with the work that was done.
func compare(at ps.Clock, tables func(name string) []int32) error {
	var errs []error
	for name, want := range tally.Expected(splits, at) {
		table := tables(name)
		if len(table) != len(want) {
			errs = append(errs, fmt.Errorf("there is no table %s of %d counts", name, len(want)))
			continue
		}
		more, fewer := 0, 0
		for i, n := range table {
			switch {
			case n > want[i]:
				more++
			case n < want[i]:
				fewer++
			}
		}
		if more+fewer > 0 {
			errs = append(errs, fmt.Errorf("table %s at clock %d: %d cells hold more than was done, %d less", name, at, more, fewer))
		}
	}
	return errors.Join(errs...)
}

// noneLeft waits a moment for the last machines to end.
func (s *stage) noneLeft() error {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		left := s.site.Processes(s.cloud.Process)
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v are left over", left)
		}
	}
}
