// Command recovery measures how long training stands still when half of the ActivePSs of a run go without a warning: by
// SIGKILL, which breaks their connections, and by SIGSTOP, after which they are silent with their connections open, as
// machines behind a black hole are. Machines are real processes, on a fake cloud of its own process, with a heartbeat of one
// second and death after three.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/test/drill"
)

func main() {
	if err := command(); err != nil {
		fmt.Fprintln(os.Stderr, "recovery:", err)
		os.Exit(1)
	}
}

const (
	transient, reliable = 8, 2
	usualClock          = 250 * time.Millisecond
	patience            = time.Minute
)

// way is how machines go.
type way struct {
	name   string
	signal syscall.Signal
	limit  time.Duration
}

func command() error {
	rounds := flag.Int("rounds", 5, "how often each way is tried")
	flag.Parse()
	dir, err := os.MkdirTemp("", "tierml-recovery-")
	if err != nil {
		return fmt.Errorf("making a working directory: %w", err)
	}
	defer os.RemoveAll(dir)
	r, err := start(dir)
	if err != nil {
		return err
	}
	defer r.end()
	fmt.Printf("%d transient and %d reliable machines, clocks of %v, heartbeat 1s, death after 3s\n", transient, reliable, usualClock)
	fmt.Println("half of the ActivePSs  until the roll-back  until all are back at the cut  until a clock is done")
	var failures []error
	for _, w := range []way{{"killed (SIGKILL)", syscall.SIGKILL, 2 * time.Second}, {"silent (SIGSTOP)", syscall.SIGSTOP, 5 * time.Second}} {
		var back []time.Duration
		for range *rounds {
			t, err := r.lose(w)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			fmt.Printf("%-21s  %19v  %29v  %20v\n", w.name, t.decided, t.back, t.clock)
			back = append(back, t.clock)
		}
		slices.Sort(back)
		verdict := "below"
		if back[len(back)-1] > w.limit {
			verdict = "NOT below"
			failures = append(failures, fmt.Errorf("%s: training again after %v", w.name, back[len(back)-1]))
		}
		fmt.Printf("%-21s  a clock is done after %v (median), %v (worst): %s %v\n", w.name, back[len(back)/2], back[len(back)-1], verdict, w.limit)
	}
	return errors.Join(failures...)
}

type rig struct {
	site  *drill.Site
	cloud *drill.Cloud
	run   *drill.Run
}

func start(dir string) (*rig, error) {
	binary, err := drill.Build(context.Background(), dir, "drill")
	if err != nil {
		return nil, err
	}
	site, err := drill.NewSite(dir, binary)
	if err != nil {
		return nil, err
	}
	j := drill.Job{
		Name: "recovery", App: "tally", Data: filepath.Join(site.Dir, "nothing"), Machines: transient, Reliable: reliable,
		Clocks: 1_000_000, Splits: 24, Partitions: 16, Heartbeat: time.Second, Dead: 3 * time.Second, ThreeAbove: 15,
		Consistency: "staleness: 0", FlopsPerVCPU: 24e6 / usualClock.Seconds() / 2 / (transient + reliable), Seed: 1,
	}
	if err := site.Write("nothing", "\n"); err != nil {
		return nil, err
	}
	file, err := site.WriteJob(j)
	if err != nil {
		return nil, err
	}
	r := &rig{site: site}
	if r.cloud, err = site.StartCloud(j); err != nil {
		return nil, err
	}
	r.run, err = site.StartRun(r.cloud, j.Name, file)
	return r, err
}

func (r *rig) end() {
	if r.run != nil {
		r.run.Signal(syscall.SIGKILL) // nothing of it is wanted
	}
	r.cloud.End()
	r.site.KillAll()
}

// times are since the machines went.
type times struct{ decided, back, clock time.Duration }

// lose takes half of the ActivePSs when all machines take part, and waits until training goes on.
func (r *rig) lose(w way) (t times, err error) {
	if err := r.settled(); err != nil {
		return t, err
	}
	servers, err := r.activePSs()
	if err != nil {
		return t, err
	}
	before, err := r.run.Journal()
	if err != nil {
		return t, err
	}
	rollbacks := drill.Count(before, journal.Rollback)
	went := time.Now()
	for _, id := range servers[:len(servers)/2] {
		if err := syscall.Kill(r.site.Machine(id), w.signal); err != nil {
			return t, fmt.Errorf("machine %s: %w", id, err)
		}
	}
	var generation uint64
	there, err := r.run.Until(patience, func(entries []journal.Entry) bool {
		again := false
		seen := 0
		for _, e := range entries {
			if e.Kind == journal.Rollback {
				seen++
				generation = e.Generation
				again = false
			}
			again = again || e.Kind == journal.ClockDone
		}
		if seen > rollbacks && t.decided == 0 {
			t.decided = time.Since(went).Round(time.Millisecond)
		}
		return seen > rollbacks && again
	})
	if err != nil || !there {
		return t, errors.Join(err, fmt.Errorf("training did not go on; it printed\n%s", r.run.Printed()))
	}
	t.clock = time.Since(went).Round(time.Millisecond)
	last, err := r.lastBack(generation)
	t.back = last.Sub(went).Round(time.Millisecond)
	return t, err
}

// settled waits until all machines take part, a cut is committed after that, and some clocks were done.
func (r *rig) settled() error {
	there, err := r.run.Until(patience, func(entries []journal.Entry) bool {
		present, cuts, clocks := map[string]bool{}, 0, 0
		for _, e := range entries {
			switch e.Kind {
			case journal.Join:
				present[e.Instance] = true
				cuts, clocks = 0, 0
			case journal.Leave:
				delete(present, e.Instance)
			case journal.Move, journal.Rollback:
				cuts, clocks = 0, 0
			case journal.Cut:
				cuts++
			case journal.ClockDone:
				clocks++
			}
		}
		return len(present) == transient+reliable && cuts >= 2 && clocks >= 8
	})
	if err == nil && !there {
		err = fmt.Errorf("the run ended; it printed\n%s", r.run.Printed())
	}
	return err
}

// activePSs are the oldest half of the transient machines (docs/training.md).
func (r *rig) activePSs() (ids []string, err error) {
	instances, err := r.cloud.Instances()
	if err != nil {
		return nil, err
	}
	for _, i := range instances {
		if i.Pool.Class == market.Spot && i.Ended.IsZero() && r.site.Machine(i.ID) != 0 {
			ids = append(ids, i.ID)
		}
	}
	return ids[:len(ids)/2], nil
}

var backAtTheCut = regexp.MustCompile(`(?m)^time=(\S+) .*msg="back at the cut".* generation=(\d+) `)

// lastBack is when the last machine returned to the cut.
func (r *rig) lastBack(generation uint64) (last time.Time, err error) {
	logs, err := filepath.Glob(r.site.Path("machines", "*.log"))
	if err != nil {
		return last, err
	}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			return last, err
		}
		for _, found := range backAtTheCut.FindAllStringSubmatch(string(text), -1) {
			at, err := time.Parse(time.RFC3339, found[1])
			if err == nil && found[2] == strconv.FormatUint(generation, 10) && at.After(last) {
				last = at
			}
		}
	}
	return last, nil
}
