package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// mode is a consistency mode.
type mode struct{ name, lines string }

var modes = []mode{{"bsp", "deterministic: true"}, {"ssp1", "staleness: 1"}, {"ssp3", "staleness: 3"}, {"asp", "consistency: asp"}}

// disturbance is the disturbance of a cell of the matrix.
type disturbance struct {
	name string
	// lossless: every departing machine is warned in time, so no clock is done twice.
	lossless bool
	clock    time.Duration // length of an undisturbed clock; 0 = smallClock
	tune     func(*job)    // nil = the default
	do       func(context.Context, *trial) error
	// shown reports whether it appears in the journal before training ended. Otherwise nothing was tested.
	shown func([]journal.Entry) bool
}

const (
	smallClock    = 150 * time.Millisecond
	smallMachines = 3 // transient, in addition to one reliable
	strikes       = 4 // the earliest clock at which a disturbance begins
	// unnoticed is the length of clocks if training does not wait for lost machines: the loss must be noticed before
	// the end.
	unnoticed = 400 * time.Millisecond
)

// disturbances of the matrix.
var disturbances = []disturbance{
	{name: "join", lossless: true, do: after(asked("--workers", "+1")), shown: atLeast(journal.Join, smallMachines+2)},
	{name: "leave", lossless: true, do: after(asked("--workers", "-1")), shown: atLeast(journal.Leave, 1)},
	{name: "evict", lossless: true, do: after(serving, steps("evict oldest 2")), shown: atLeast(journal.Notice, 2)},
	{name: "evict-all", lossless: true, do: after(serving, steps("evict all")), shown: atLeast(journal.Flush, 1)},
	{name: "short-notice", tune: shortNotice, clock: 600 * time.Millisecond, do: after(serving, steps("evict all")), shown: cutShort},
	{name: "partial-flush", do: after(serving, tornFlush), shown: flushedInPart},
	{name: "evict-now", do: after(toServer(evictServer)), shown: atLeast(journal.Rollback, 1)},
	{name: "kill", do: after(toServer(killServer)), shown: atLeast(journal.Rollback, 1)},
	{name: "freeze", tune: quick, do: after(toServer(freezeServer)), shown: atLeast(journal.Rollback, 1)},
	// Prices stay: a run that buys on demand when a zone has sold out returns to it later, which is a switch.
	{name: "fallback", tune: mayBuyOnDemand, do: after(soldOut(10*time.Hour, market.Spot), steps("evict-now all")), shown: boughtOnDemand},
	{name: "switch", tune: mayBuyOnDemand, clock: 300 * time.Millisecond, do: after(soldOut(15*time.Minute, market.Spot), steps("evict all")),
		shown: atLeast(journal.Switch, 1)},
	{name: "load", lossless: true, tune: slowLink, do: after(), shown: stageBy("of its link")},
	{name: "no-reliable", tune: noneReliable, clock: unnoticed, do: after(served(kill(market.Spot))), shown: atLeast(journal.Rollback, 1)},
	{name: "demand-serves", tune: noneReliableOrOnDemand, clock: unnoticed,
		do: after(soldOut(10*time.Hour, market.Spot), served(kill(market.Spot))), shown: reliableFrom(market.OnDemand)},
	{name: "substitute", tune: savedOften, clock: unnoticed,
		do: after(soldOut(10*time.Hour, market.OnDemand), served(kill(market.OnDemand))), shown: reliableFrom(market.Spot)},
	{name: "reliable-lost", tune: savedOften, clock: unnoticed, do: after(served(kill(market.OnDemand))), shown: reliableAgain},
	{name: "takeover", lossless: true, tune: patient, clock: unnoticed, do: after(serving, served((*trial).killController)), shown: atLeast(journal.TakeOver, 1)},
	{name: "resume", tune: savedOften, clock: 200 * time.Millisecond, do: after(killedAndResumed), shown: atLeast(journal.Join, 2*smallMachines)},
}

// after returns a function that does things once all machines take part and a cut is committed to which a loss can
// return.
func after(all ...func(context.Context, *trial) error) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		err := t.await(ctx, func(entries []journal.Entry) bool {
			return count(entries, journal.Join) > smallMachines && count(entries, journal.Cut) > 0 && reached(entries) >= strikes
		})
		for _, do := range all {
			if err == nil {
				err = do(ctx, t)
			}
		}
		return err
	}
}

func steps(step string) func(context.Context, *trial) error {
	return func(_ context.Context, t *trial) error {
		_, err := t.do("%s", step)
		return err
	}
}

// asked returns a request by `tierml scale`.
func asked(wish ...string) func(context.Context, *trial) error {
	return func(_ context.Context, t *trial) error {
		if answer, err := t.scale(wish...); err != nil {
			return fmt.Errorf("%w: %s", err, answer)
		}
		return nil
	}
}

// served returns a storm's fault for the oldest machine, which serves.
func served(do func(*trial, fault) (string, error)) func(context.Context, *trial) error {
	return func(_ context.Context, t *trial) error {
		whom, err := do(t, fault{})
		if err == nil && whom == "" {
			err = errors.New("there was nobody to disturb")
		}
		return err
	}
}

// server returns a transient machine that serves: the last one that partitions moved to. The journal records when moves
// begin; two clocks later they have ended.
func (t *trial) server(ctx context.Context) (m machine, err error) {
	err = t.await(ctx, func(entries []journal.Entry) bool {
		since := 0
		for i, e := range entries {
			if e.Kind == journal.Move {
				m.id, since = e.To, i
			}
		}
		return m.id != "" && count(entries[since:], journal.ClockDone) >= 2
	})
	m.pid = t.processOf(m.id)
	return m, err
}

// serving waits until transient machines serve.
func serving(ctx context.Context, t *trial) error {
	_, err := t.server(ctx)
	return err
}

// toServer does something to a machine that serves.
func toServer(do func(context.Context, *trial, machine) error) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		m, err := t.server(ctx)
		if err == nil {
			err = do(ctx, t, m)
		}
		return err
	}
}

func killServer(_ context.Context, _ *trial, m machine) error {
	return syscall.Kill(m.pid, syscall.SIGKILL)
}

func evictServer(_ context.Context, t *trial, m machine) error {
	_, err := t.do("evict-now %s", m.id)
	return err
}

// freezeServer stops a machine until it is given up, and then lets it continue.
func freezeServer(ctx context.Context, t *trial, m machine) error {
	if err := syscall.Kill(m.pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stopping %s: %w", m.id, err)
	}
	err := t.await(ctx, atLeast(journal.Rollback, 1))
	_ = syscall.Kill(m.pid, syscall.SIGCONT) // the cloud may have ended it
	return err
}

// tornFlush evicts all, while servers deliver only one of their partitions each.
func tornFlush(ctx context.Context, t *trial) error {
	if err := t.write(withhold, ""); err != nil {
		return err
	}
	if _, err := t.do("evict all"); err != nil {
		return err
	}
	if err := t.await(ctx, atLeast(journal.Rollback, 1)); err != nil {
		return err
	}
	if err := os.Remove(t.path(withhold)); err != nil {
		return fmt.Errorf("letting servers deliver again: %w", err)
	}
	return t.deliveredInPart()
}

// withhold is the file that makes ps/server, in programs for drills, withhold partitions.
const withhold = "withhold"

// deliveredInPart looks for a machine that has delivered some but not all partitions.
func (t *trial) deliveredInPart() error {
	logs, err := filepath.Glob(t.path(machineLogs, "*.log"))
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			return fmt.Errorf("reading the logs: %w", err)
		}
		if bytes.Contains(text, []byte("drill: this partition alone is delivered")) && bytes.Contains(text, []byte("drill: withheld")) {
			return nil
		}
	}
	return errors.Join(err, errors.New("no server got a request for several partitions before it was gone"))
}

// soldOut returns a function that leaves a class's pools without machines for a market time.
func soldOut(long time.Duration, class market.Class) func(context.Context, *trial) error {
	return func(_ context.Context, t *trial) error {
		for _, kind := range []string{"c3.large", "c3.xlarge"} {
			if _, err := t.do("no-capacity of ec2/us-west-1/us-west-1a/%s/%s for %v", kind, class, long); err != nil {
				return err
			}
		}
		return nil
	}
}

// killedAndResumed kills the controller and all machines once there is a checkpoint, and restarts the controller.
func killedAndResumed(ctx context.Context, t *trial) error {
	if err := t.await(ctx, atLeast(journal.Checkpoint, 1)); err != nil {
		return err
	}
	t.killAll(t.cloud)
	<-t.run.ended
	return t.resume()
}

func quick(j *job)          { j.Heartbeat, j.Dead = 300*time.Millisecond, 2*time.Second }
func shortNotice(j *job)    { j.Notice = 300 * time.Millisecond } // half of a clock
func patient(j *job)        { j.Orphan = time.Minute }            // for the next controller
func mayBuyOnDemand(j *job) { j.MaxPrice = "0.25" }
func savedOften(j *job)     { j.Extra = "checkpoint: {every: 500ms}" }

// slowLink declares a link of the reliable machines that is too slow for stage 1, which the ratio would select.
func slowLink(j *job) {
	j.Reliable, j.TwoAbove, j.ThreeAbove = "{type: c3.2xlarge, bandwidth: 1kbit/s}", 2*smallMachines, 2*smallMachines
}

func noneReliable(j *job) {
	savedOften(j)
	j.Reliable = "{count: 0}"
}

func noneReliableOrOnDemand(j *job) {
	noneReliable(j)
	mayBuyOnDemand(j)
}

func atLeast(kind journal.Kind, n int) func([]journal.Entry) bool {
	return func(entries []journal.Entry) bool { return count(entries, kind) >= n }
}

func anyOf(kind journal.Kind, is func(journal.Entry) bool) func([]journal.Entry) bool {
	return func(entries []journal.Entry) bool {
		for _, e := range entries {
			if e.Kind == kind && is(e) {
				return true
			}
		}
		return false
	}
}

func stageBy(words string) func([]journal.Entry) bool {
	return anyOf(journal.Stage, func(e journal.Entry) bool { return strings.Contains(e.Why, words) })
}

// boughtOnDemand reports whether a machine that is transient by its role is on demand by its pool.
var boughtOnDemand = anyOf(journal.Launch, func(e journal.Entry) bool {
	return e.Tier == "transient" && strings.HasSuffix(e.Pool, "/"+string(market.OnDemand))
})

// cutShort reports whether departing servers could not save everything.
func cutShort(entries []journal.Entry) bool {
	return count(entries, journal.Rollback) > 0 ||
		anyOf(journal.Flush, func(e journal.Entry) bool { return !strings.Contains(e.Why, "nothing is given up") })(entries)
}

// flushedInPart reports whether servers were gone before everything was saved, although there was time.
func flushedInPart(entries []journal.Entry) bool {
	for i, e := range entries {
		if e.Kind == journal.Flush && strings.Contains(e.Why, "nothing is given up") {
			return count(entries[i:], journal.Rollback) > 0
		}
	}
	return false
}

// reliableFrom reports whether a machine of a class was bought to replace a lost reliable one.
func reliableFrom(class market.Class) func([]journal.Entry) bool {
	return anyOf(journal.Launch, func(e journal.Entry) bool {
		return e.Tier == "reliable" && strings.HasSuffix(e.Pool, "/"+string(class))
	})
}

// reliableAgain reports whether a second reliable machine was bought.
func reliableAgain(entries []journal.Entry) bool {
	n := 0
	for _, e := range entries {
		if e.Kind == journal.Launch && e.Tier == "reliable" {
			n++
		}
	}
	return n >= 2
}

// cell is one run of the matrix.
type cell struct {
	workload    workload
	mode        mode
	disturbance disturbance
	seed        uint64
}

func (c cell) name() string {
	return strings.Join([]string{c.workload.app, c.mode.name, c.disturbance.name}, "/")
}

// cells returns the cells of the matrix whose names match a pattern such as "mf/*/evict".
func cells(workloads []workload, seed uint64, patterns string) (list []cell) {
	for _, d := range disturbances {
		for _, w := range workloads {
			for _, m := range modes {
				if c := (cell{w, m, d, seed}); matches(patterns, c.name()) {
					list = append(list, c)
				}
			}
		}
	}
	return list
}

// matches reports whether a name matches one of several patterns, separated by commas.
func matches(patterns, name string) bool {
	return slices.ContainsFunc(strings.Split(patterns, ","), func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}

// job returns a cell's job, without its disturbance and pace.
func (c cell) job(name string, seed uint64) job {
	j := c.workload.job(name, c.mode, seed)
	j.Machines, j.Dead, j.Notice, j.ThreeAbove = smallMachines, time.Minute, 6*time.Second, 5 // stage 2
	if c.mode.name == "bsp" || c.mode.name == "ssp3" {
		j.ThreeAbove = 2 // stage 3
	}
	return j
}

// run runs a cell and compares its result with that of the undisturbed run.
func (c cell) run(ctx context.Context, at place, base baseline) (came string, err error) {
	j := c.job("cell", c.seed)
	if c.disturbance.tune != nil {
		c.disturbance.tune(&j)
	}
	clock := c.disturbance.clock
	if clock == 0 {
		clock = smallClock
	}
	j.FlopsPerVCPU = paced(base.work, clock, smallMachines)
	t, err := begin(at.dir, at.binary, j, at.out)
	defer t.abandon()
	if err == nil {
		err = c.disturbance.do(ctx, t)
	}
	if err == nil {
		err = t.settle()
	}
	if err != nil {
		return "", errors.Join(err, t.checkLogs())
	}
	entries, err := t.finish(ctx)
	if err != nil {
		return "", errors.Join(err, t.checkLogs())
	}
	same, came := base.promise(t, c.mode, entries, c.tolerance())
	promises := append(t.promises(entries), same)
	if !c.disturbance.shown(trained(entries)) {
		promises = append(promises, promise{"the disturbance met the run", errors.New("nothing in the journal shows it: " + changes(entries))})
	}
	if c.disturbance.lossless {
		promises = append(promises, promise{"nothing is done twice, as everybody was warned", nothingRedone(entries)})
	}
	return came, broken(promises)
}

// trained returns a journal up to the last clock.
func trained(entries []journal.Entry) []journal.Entry {
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].Kind == journal.ClockDone {
			return entries[:i]
		}
	}
	return nil
}
