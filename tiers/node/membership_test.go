package node

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierml/tierml/apps"
	registry "github.com/tierml/tierml/apps/all"
	"github.com/tierml/tierml/apps/tally"
	"github.com/tierml/tierml/internal/raced"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node/link"
)

// Every application, under every consistency model, counts all work once while splits change hands, machines join, leave and die, and
// everything returns to a cut. Where the model promises the bits of one process, they are equal.
func TestEveryApplicationThroughEveryChange(t *testing.T) {
	seeds := uint64(3)
	if raced.Detector {
		seeds = 1
	}
	for _, job := range everyApplication(t) {
		undisturbed, untrained := job.inOneProcess(t), job.untrained(t)
		for _, mode := range []struct {
			name          string
			deterministic bool
			staleness     ps.Clock
		}{{"deterministic", true, 0}, {"BSP", false, 0}, {"SSP1", false, 1}, {"SSP3", false, 3}, {"ASP", false, ps.Unbounded}} {
			exact := mode.deterministic || job.kind.Name() == tally.Kind{}.Name()
			for seed := range seeds {
				t.Run(fmt.Sprintf("%s/%s/%d", job.kind.Name(), mode.name, seed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						tables := job.throughEveryChange(t, job.schema(mode.deterministic, mode.staleness), seed)
						if exact && !tables.equal(undisturbed) {
							t.Error("parameters differ from those of one process")
						}
						if got := job.loss(t, job, tables); !(got <= untrained*job.learns) {
							t.Errorf("held-out loss %v; %v before any training, %v in one process", got, untrained, job.loss(t, job, undisturbed))
						}
					})
				})
			}
		}
	}
}

// everyApplication returns a small job for each application.
func everyApplication(t *testing.T) []*trained {
	two, five := classes(2, 400, 1), classes(consistencyClasses, 400, 1)
	const clocks = membershipClocks
	jobs := map[string]*trained{
		"mf":       prepared(t, heldOut, "mf", apps.Params{"rank": 4}, clocks, 0.97, "ratings.csv", firstRatings(t, 8000)),
		"lda":      prepared(t, heldOut, "lda", apps.Params{"topics": 5, "alpha_sum": 2}, clocks, 0.9, "docword.generated.txt", topics(5, 100, 100)),
		"mlr":      prepared(t, logLoss, "mlr", apps.Params{"batches": 2, "l2": 0.01}, clocks, 0.97, "five.libsvm", five),
		"dnn":      prepared(t, logLoss, "dnn", apps.Params{"batches": 2, "hidden": 8, "l2": 0.02}, clocks, 1, "five.libsvm", five),
		"logistic": prepared(t, objective, "logistic", apps.Params{"optimizer": "adagrad", "l2": 0.01}, clocks, 0.97, "two.libsvm", two),
		"svm":      prepared(t, objective, "svm", apps.Params{"optimizer": "adagrad", "l2": 0.01}, clocks, 0.97, "two.libsvm", two),
		"tally":    preparedKind(t, heldOut, tally.Kind{}, nil, clocks, 1, "", nil),
	}
	for _, name := range []string{"linear", "ridge", "lasso", "robust"} {
		jobs[name] = prepared(t, objective, name, apps.Params{"optimizer": "adagrad"}, clocks, 1, "five.libsvm", five)
	}
	var list []*trained
	for _, kind := range append(registry.Registry(), tally.Kind{}) {
		job := jobs[kind.Name()]
		if job == nil {
			t.Fatalf("application %s has no job here", kind.Name())
		}
		list = append(list, job)
	}
	return list
}

// firstRatings returns the beginning of the example's ratings.
func firstRatings(t *testing.T, lines int) []byte {
	file, err := os.Open("../../examples/data/jester5k.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for scanner := bufio.NewScanner(unpacked); lines >= 0 && scanner.Scan(); lines-- {
		fmt.Fprintln(&b, scanner.Text())
	}
	return b.Bytes()
}

// membershipClocks is how long these jobs train.
const membershipClocks = 40

// crew is the machines of a job, and what each holds.
type crew struct {
	*world
	random     *rand.Rand
	lead       ps.Clock // how far the first machine may be ahead of the others
	generation ps.Generation
	machines   map[ps.ServerID]*machine
	splits     map[ps.ServerID][]ps.Split
}

// throughEveryChange trains while the crew changes in every possible way, and returns the final tables.
func (j *trained) throughEveryChange(t *testing.T, schema ps.Schema, seed uint64) finished {
	w := &world{t: t, schema: schema, parties: newDataPlane(&schema), changed: make(chan struct{}), trains: j}
	w.parties.delay = 70 * time.Millisecond
	w.openLink()
	c := &crew{world: w, random: rand.New(rand.NewPCG(seed, 2)), lead: min(schema.Staleness, 3),
		machines: map[ps.ServerID]*machine{}, splits: map[ps.ServerID][]ps.Split{}}
	everything := make([]ps.Split, schema.Splits)
	for i := range everything {
		everything[i] = ps.Split(i)
	}
	half := len(everything) / 2

	c.join("i-1", 1, j)
	c.join("i-2", 2, j)
	c.assign("i-1", all(everything[:half]...))
	c.assign("i-2", all(everything[half:]...))
	c.reach(4)

	// Hand-over at rest: the receiver is ahead of the splits, and catches up before they join its own.
	c.hand("i-2", "i-1", 2)
	c.reach(8)

	// The same in progress, back and forth.
	c.proceed(16)
	for range 3 {
		c.pause()
		c.hand("i-1", "i-2", 3)
		c.pause()
		c.hand("i-2", "i-1", 3)
	}
	c.join("i-3", 3, j)
	c.hand("i-1", "i-3", 4)
	c.hand("i-2", "i-3", 2)
	c.reach(16)

	// One leaves.
	c.proceed(22)
	c.pause()
	c.hand("i-2", "i-3", 3)
	c.hand("i-2", "i-1", schema.Splits)
	c.do("i-2", tiers.Stop{Why: "leaves"})
	c.end("i-2")
	c.reach(22)

	// Everything returns to a cut, and splits are redistributed.
	cut := c.cut()
	c.proceed(cut + 5)
	c.await(0, func(r link.FromNode) bool { p, ok := r.Report.(tiers.Progress); return ok && p.Clock > cut })
	c.pause()
	c.recover(cut, map[ps.ServerID][]ps.Split{"i-1": everything[half-2:], "i-3": everything[:half-2]})
	c.pause()
	c.hand("i-1", "i-3", 2) // of what the roll-back has just assigned
	c.reach(cut + 4)

	// One dies, and another one replaces it.
	c.join("i-4", 4, j)
	c.proceed(cut + 8)
	c.pause()
	c.machines["i-3"].cancel()
	c.end("i-3")
	c.recover(cut, map[ps.ServerID][]ps.Split{"i-1": everything[half:], "i-4": everything[:half]})
	c.pause()
	c.hand("i-4", "i-1", 2)
	c.hand("i-1", "i-4", 3)
	c.lead = 0
	c.reach(j.clocks)

	synctest.Wait()
	for what, n := range w.parties.counted() {
		if n != 1 {
			t.Errorf("split@clock %s counted %d times", what, n)
		}
	}
	if n, want := len(w.parties.counted()), int(j.clocks-cut)*schema.Splits; n != want {
		t.Errorf("%d contributions of a split since the cut; want %d", n, want)
	}
	tables := j.readAll(t, fakeClient{w.parties, 0}, c.generation)
	for _, id := range []ps.ServerID{"i-1", "i-4"} {
		c.do(id, tiers.Stop{Why: "done"})
		c.end(id)
	}
	w.closeLink()
	return tables
}

func (c *crew) join(id ps.ServerID, incarnation ps.Incarnation, j *trained) {
	c.t.Helper()
	c.machines[id] = c.start(id, func(m *machine) { m.flops = j.program.WorkPerClock() / 3 }) // about a second each clock
	c.awaitReport(id, func(r tiers.Report) bool { _, ok := r.(tiers.Hello); return ok })
	welcome := c.welcome(incarnation, j.clocks)
	welcome.Generation = c.generation
	c.do(id, welcome)
	c.do(id, tiers.Unpark{Until: 4 + c.ahead(id)})
}

// ahead returns how many clocks a machine may go beyond the others.
func (c *crew) ahead(id ps.ServerID) ps.Clock {
	if id == "i-1" {
		return c.lead
	}
	return 0
}

func (c *crew) end(id ps.ServerID) {
	c.t.Helper()
	m := c.machines[id]
	<-m.ended
	if m.outcome != nil {
		c.t.Errorf("%s ended with %v", id, m.outcome)
	}
	delete(c.machines, id)
	delete(c.splits, id)
}

func (c *crew) assign(id ps.ServerID, splits []tiers.SplitAt) {
	c.t.Helper()
	c.do(id, tiers.Assign{Splits: splits})
	for _, s := range splits {
		c.splits[id] = append(c.splits[id], s.Split)
	}
}

// hand moves count of a machine's splits to another one, or all that it has.
func (c *crew) hand(from, to ps.ServerID, count int) {
	c.t.Helper()
	mine := c.splits[from]
	count = min(count, len(mine))
	released := c.do(from, tiers.Release{Splits: mine[:count]}).(tiers.Released)
	if len(released.Splits) != count {
		c.t.Fatalf("%s released %v of %v", from, released.Splits, mine[:count])
	}
	c.splits[from] = slices.Clone(mine[count:])
	c.assign(to, released.Splits)
}

// pause waits for a random part of a clock.
func (c *crew) pause() { time.Sleep(time.Duration(c.random.IntN(1500)) * time.Millisecond) }

// proceed lets the crew work through a clock.
func (c *crew) proceed(until ps.Clock) {
	c.t.Helper()
	for id := range c.machines {
		c.do(id, tiers.Unpark{Until: until + c.ahead(id)})
	}
}

// reach waits until a clock is complete and the first machine is as far ahead as it may be.
func (c *crew) reach(clock ps.Clock) {
	c.t.Helper()
	c.proceed(clock)
	c.parties.awaitFolded(c.t, clock)
	synctest.Wait()
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

func (d *dataPlane) awaitFolded(t *testing.T, clock ps.Clock) {
	t.Helper()
	for patience := 10 * time.Minute; !d.complete(clock); patience -= time.Second {
		if patience < 0 {
			t.Fatalf("clock %d is not complete in vain; %d is", clock, d.folded())
		}
		time.Sleep(time.Second)
	}
}

// cut makes a cut of the clock after the highest one begun.
func (c *crew) cut() (cut ps.Clock) {
	c.t.Helper()
	for id := range c.machines {
		cut = max(cut, c.do(id, tiers.Park{}).(tiers.Parked).Begun+1)
	}
	c.do("i-1", tiers.NameCut{Cut: cut})
	c.reach(cut)
	c.do("i-1", tiers.CommitCut{Cut: cut})
	return cut
}

// recover gives to a cut in a new generation.
func (c *crew) recover(cut ps.Clock, splits map[ps.ServerID][]ps.Split) {
	c.t.Helper()
	c.generation++
	for id := range c.machines {
		c.do(id, tiers.FenceGeneration{Generation: c.generation})
	}
	for id := range c.machines {
		c.do(id, tiers.Recover{Generation: c.generation, Cut: cut, Splits: splits[id]})
	}
	c.splits = splits
}
