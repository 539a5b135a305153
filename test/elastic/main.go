// Command elastic compares what a change of machines costs a job: elastically, as partitions and splits move while training
// goes on, and by kill and restart, as it is done without: save a checkpoint, end every process, start the job again on other
// machines from the checkpoint. Six transient machines train matrix factorisation, three of them serve; one that serves and
// one that only works are taken away and replaced. Kill-and-restart is given the best case: it is told beforehand and loses no
// work. A third way is what a scheduler does with `tierml scale`: a server and a worker more, and then fewer again, during
// which nobody has more work than usual, so that whatever a clock takes longer is waiting.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/test/drill"
)

func main() {
	if err := command(); err != nil {
		fmt.Fprintln(os.Stderr, "elastic:", err)
		os.Exit(1)
	}
}

const (
	machines = 6
	splits   = 42
	before   = 20 // clocks that say what is usual
	after    = 40 // clocks over which the loss is measured
	patience = time.Minute
)

// cost is what a change has cost.
type cost struct {
	usual time.Duration // a clock before the change
	lost  time.Duration // by which the job is later
	worst time.Duration // the longest clock, beyond the usual
	wait  time.Duration // the longest clock, beyond what its work takes on the machines that were there
}

func command() error {
	rounds := flag.Int("rounds", 3, "how often each way is tried; medians count")
	data := flag.String("data", "examples/data/jester5k.csv.gz", "ratings to train on")
	flag.Parse()
	path, err := filepath.Abs(*data)
	if err != nil {
		return fmt.Errorf("finding the data: %w", err)
	}
	dir, err := os.MkdirTemp("", "tierml-elastic-")
	if err != nil {
		return fmt.Errorf("making a working directory: %w", err)
	}
	defer os.RemoveAll(dir)
	binary, err := drill.Build(context.Background(), dir)
	if err != nil {
		return err
	}
	fmt.Println("one server and one worker of 3 + 3 machines replaced   usual clock   job later by   lost job-seconds   longest clock: beyond usual   beyond its work")
	medians := map[string]cost{}
	for _, w := range []struct {
		name   string
		change func(*rig) (cost, error)
	}{{"elastic", (*rig).elastic}, {"kill and restart", (*rig).restart}, {asked, (*rig).scale}} {
		var costs []cost
		for n := range *rounds {
			c, err := try(filepath.Join(dir, fmt.Sprintf("%s-%d", w.name[:4], n)), binary, path, w.change)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			c.print(w.name)
			costs = append(costs, c)
		}
		slices.SortFunc(costs, func(a, b cost) int { return int(a.lost - b.lost) })
		medians[w.name] = costs[len(costs)/2]
	}
	e, k, a := medians["elastic"], medians["kill and restart"], medians[asked]
	fmt.Println("medians:")
	e.print("elastic")
	k.print("kill and restart")
	a.print(asked)
	share := e.lost.Seconds() / k.lost.Seconds()
	fmt.Printf("elastic loses %.1f %% of what kill and restart loses (at most 20 %%); no worker waits more than %v longer than usual (at most 100ms)\n",
		100*share, e.wait.Round(time.Millisecond))
	fmt.Printf("%s: the longest clock takes %v longer than usual (at most 100ms)\n", asked, a.worst.Round(time.Millisecond))
	var errs []error
	if a.worst > 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("%s: a clock takes %v longer than usual", asked, a.worst))
	}
	if share > 0.2 {
		errs = append(errs, fmt.Errorf("elastic loses %.2f of what kill and restart loses", share))
	}
	if e.wait > 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("a worker waits %v longer than usual", e.wait))
	}
	return errors.Join(errs...)
}

func (c cost) print(name string) {
	fmt.Printf("%-52s  %11v  %13v  %17.1f  %27v  %14v\n", name, c.usual.Round(time.Millisecond), c.lost.Round(time.Millisecond),
		machines*c.lost.Seconds(), c.worst.Round(time.Millisecond), c.wait.Round(time.Millisecond))
}

type rig struct {
	site  *drill.Site
	cloud *drill.Cloud
	run   *drill.Run
}

func try(dir, binary, data string, change func(*rig) (cost, error)) (cost, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return cost{}, fmt.Errorf("making a site: %w", err)
	}
	site, err := drill.NewSite(dir, binary)
	if err != nil {
		return cost{}, err
	}
	j := drill.Job{
		Name: "elastic", App: "mf", Data: data, Params: "{rank: 16, batches: 8}", Machines: machines, Reliable: 1,
		Clocks: 100_000, Splits: splits, Partitions: 24, ThreeAbove: 15, Seed: 1, EvaluateEvery: 1000, Boot: time.Second,
		Notice: 10 * time.Second, FlopsPerVCPU: 900_000, Dead: 10 * time.Second,
	}
	file, err := site.WriteJob(j)
	if err != nil {
		return cost{}, err
	}
	r := &rig{site: site}
	if r.cloud, err = site.StartCloud(j); err != nil {
		return cost{}, err
	}
	defer r.cloud.End()
	defer site.KillAll()
	if r.run, err = site.StartRun(r.cloud, j.Name, file); err != nil {
		return cost{}, err
	}
	if err := r.until(func(entries []journal.Entry) bool {
		return clocksSince(entries, journal.Join) >= before+2 && joined(entries) > machines
	}); err != nil {
		return cost{}, err
	}
	return change(r)
}

func (r *rig) until(there func([]journal.Entry) bool) error {
	ok, err := r.run.Until(patience, there)
	if err == nil && !ok {
		err = fmt.Errorf("the run ended; it printed\n%s", r.run.Printed())
	}
	return err
}

func joined(entries []journal.Entry) int { return drill.Count(entries, journal.Join) }

// clocksSince counts the clocks done since the last entry of a kind.
func clocksSince(entries []journal.Entry, kind journal.Kind) (n int) {
	for _, e := range slices.Backward(entries) {
		switch e.Kind {
		case kind:
			return n
		case journal.ClockDone:
			n++
		}
	}
	return n
}

// tick is a clock that was done.
type tick struct {
	at       time.Duration // by the wall clock: market time is 600 times as fast
	machines int           // that worked on it
}

func done(entries []journal.Entry) (ticks []tick) {
	const speed = 600
	for _, e := range entries {
		if e.Kind == journal.ClockDone && !e.Redone {
			ticks = append(ticks, tick{e.T.Sub(entries[0].T) / speed, e.Count})
		}
	}
	return ticks
}

// most is how many splits the machine with the most of them has, when so many share them.
func most(machines int) int { return (splits + machines - 1) / max(1, machines) }

// measure compares the clocks after a change with those before it.
func measure(at []tick, changed int) (c cost) {
	var usual []time.Duration
	for i := changed - before; i < changed; i++ {
		usual = append(usual, at[i].at-at[i-1].at)
	}
	slices.Sort(usual)
	c.usual = usual[len(usual)/2]
	last := changed + after
	c.lost = at[last].at - at[changed].at - time.Duration(after)*c.usual
	for i := changed + 1; i <= last; i++ {
		long := at[i].at - at[i-1].at
		c.worst = max(c.worst, long-c.usual)
		fewest := min(at[i].machines, at[i-1].machines)
		c.wait = max(c.wait, long-c.usual*time.Duration(most(fewest))/time.Duration(most(at[changed].machines)))
	}
	return c
}

// elastic takes the oldest transient machine, which serves, and the youngest, which does not.
func (r *rig) elastic() (cost, error) {
	instances, err := r.cloud.Instances()
	if err != nil {
		return cost{}, err
	}
	var ids []string
	for _, i := range instances {
		if i.Pool.Class == market.Spot {
			ids = append(ids, i.ID)
		}
	}
	entries, err := r.run.Journal()
	if err != nil {
		return cost{}, err
	}
	changed := len(done(entries)) - 1
	for _, id := range []string{ids[0], ids[len(ids)-1]} {
		if _, err := r.cloud.Do("evict " + id); err != nil {
			return cost{}, err
		}
	}
	err = r.until(func(entries []journal.Entry) bool {
		return joined(entries) >= machines+3 && len(done(entries)) > changed+after
	})
	if err != nil {
		return cost{}, err
	}
	if entries, err = r.run.Journal(); err != nil {
		return cost{}, err
	}
	if n := drill.Count(entries, journal.Rollback); n > 0 {
		return cost{}, fmt.Errorf("%d roll-backs, though the machines were warned", n)
	}
	return measure(done(entries), changed), nil
}

const asked = "more and fewer by tierml scale"

// scale asks for one server and one worker more, and, when they are there, for as many fewer.
func (r *rig) scale() (cost, error) {
	entries, err := r.run.Journal()
	if err != nil {
		return cost{}, err
	}
	changed := len(done(entries)) - 1
	for _, more := range []string{"+1", "-1"} {
		if printed, err := r.site.Ask("scale", r.run.Dir(), "--workers", more, "--servers", more, "--wait"); err != nil {
			return cost{}, fmt.Errorf("%w: %s", err, printed)
		}
	}
	if entries, err = r.run.Journal(); err != nil {
		return cost{}, err
	}
	last := max(len(done(entries)), changed+after) + 1
	if err := r.until(func(entries []journal.Entry) bool { return len(done(entries)) > last }); err != nil {
		return cost{}, err
	}
	if entries, err = r.run.Journal(); err != nil {
		return cost{}, err
	}
	if n := drill.Count(entries, journal.Rollback); n > 0 {
		return cost{}, fmt.Errorf("%d roll-backs, though people asked", n)
	}
	return measure(done(entries), changed), nil
}

// restart saves, ends everything and begins again with other machines.
func (r *rig) restart() (cost, error) {
	entries, err := r.run.Journal()
	if err != nil {
		return cost{}, err
	}
	changed := len(done(entries)) - 1
	r.run.Signal(syscall.SIGINT)
	select {
	case <-r.run.Ended():
	case <-time.After(patience):
		return cost{}, errors.New("the run does not end")
	}
	if err := r.again(); err != nil {
		return cost{}, err
	}
	if err := r.until(func(entries []journal.Entry) bool { return len(done(entries)) > changed+after }); err != nil {
		return cost{}, err
	}
	if entries, err = r.run.Journal(); err != nil {
		return cost{}, err
	}
	return measure(done(entries), changed), nil
}

func (r *rig) again() (err error) {
	r.run, err = r.site.Resume(r.cloud, "elastic")
	return err
}
