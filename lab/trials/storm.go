package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// storm describes the faults from which a plan is drawn.
type storm struct {
	length  time.Duration
	faults  int
	seed    uint64
	without []string // kinds
	always  []string // kinds that occur at least once, by the middle of the storm
}

// plan is a list of faults, the oldest first.
type plan []fault

func (p plan) String() string {
	lines := make([]string, len(p))
	for i, f := range p {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// draw returns the plan for a seed.
func (s storm) draw() (p plan) {
	random := rand.New(rand.NewPCG(s.seed, 17))
	of := slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return slices.Contains(s.without, k.name) })
	total := 0
	for _, k := range of {
		total += k.weight
	}
	for range s.faults {
		f := fault{at: time.Duration(random.Int64N(int64(s.length))).Truncate(time.Millisecond), place: random.Float64()}
		n := random.IntN(total)
		for _, k := range of {
			if n -= k.weight; n < 0 {
				f.kind = k.name
				if k.long > 0 {
					f.long = (k.short + time.Duration(random.Int64N(int64(k.long-k.short)))).Truncate(time.Millisecond)
				}
				break
			}
		}
		p = append(p, f)
	}
	for _, name := range s.always {
		k := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })]
		p = append(p, fault{kind: name, at: time.Duration(random.Int64N(int64(s.length) / 2)).Truncate(time.Millisecond),
			place: random.Float64(), long: (k.short + k.long) / 2, must: true})
	}
	slices.SortStableFunc(p, func(a, b fault) int { return int(a.at - b.at) })
	return p
}

// impossible returns the kinds whose requirements this host lacks.
func impossible() (kinds []string) {
	if _, err := exec.LookPath("ss"); err != nil || os.Geteuid() != 0 {
		kinds = append(kinds, "drop") // root and ss (Debian: iproute2)
	}
	if os.Geteuid() != 0 {
		kinds = append(kinds, "disk-full") // root, for a small file system of its own
	}
	return kinds
}

// play executes a plan, and returns how many faults hit a machine, by kind. It ends after the plan's length, or with the run.
func (t *trial) play(ctx context.Context, p plan, length time.Duration) (happened map[string]int, err error) {
	happened = map[string]int{}
	var watch progress
	var looked time.Time
	began := time.Now()
	for n := 0; (n < len(p) || time.Since(began) < length) && !t.run.over(); {
		if err := ctx.Err(); err != nil {
			return happened, err
		}
		if time.Since(looked) > time.Second {
			looked = time.Now()
			entries, err := t.journal()
			if err == nil {
				err = watch.look(t, entries)
			}
			if err != nil {
				return happened, fmt.Errorf("%v after the start, after %d faults: %w", time.Since(began).Round(time.Second), n, err)
			}
		}
		if n == len(p) || time.Since(began) < p[n].at {
			time.Sleep(often)
			continue
		}
		f := p[n]
		n++
		which := slices.IndexFunc(kinds, func(k kind) bool { return k.name == f.kind })
		whom, err := kinds[which].do(t, f)
		if err != nil {
			return happened, fmt.Errorf("fault %v: %w", f, err)
		}
		if whom == "" && f.must { // a request may have left no machines
			_, _ = t.scale("--restore") // or no controller to receive it
			f.at = time.Since(began) + time.Second/2
			later := slices.IndexFunc(p[n:], func(g fault) bool { return g.at > f.at })
			if later < 0 {
				later = len(p) - n
			}
			p = slices.Insert(p, n+later, f)
		}
		if whom != "" {
			happened[f.kind]++
			fmt.Fprintf(t.out, "%v  clock %d  %s\n", f, watch.clocks, whom)
		}
	}
	return happened, t.settle()
}

func faultsMet(happened map[string]int) string {
	total := 0
	var names []string
	for _, name := range slices.Sorted(maps.Keys(happened)) {
		total += happened[name]
		names = append(names, fmt.Sprintf("%d %s", happened[name], name))
	}
	return fmt.Sprintf("%d faults: %s", total, strings.Join(names, ", "))
}

// chaos returns one long storm over a run that counts in integers (apps/tally), so that the sums in the tables can be compared with
// the sum of the work.
func chaos(f *flag.FlagSet) func(context.Context, place) error {
	var s storm
	f.DurationVar(&s.length, "duration", 15*time.Minute, "how long faults go on")
	f.IntVar(&s.faults, "faults", 200, "how many")
	f.Uint64Var(&s.seed, "seed", uint64(time.Now().UnixNano()%1e6), "seed of the plan of faults")
	machines := f.Int("machines", 8, "transient machines")
	reliable := f.Int("reliable", 2, "reliable machines")
	mode := f.String("consistency", "", "bsp, ssp or asp (default: drawn from the seed)")
	tls := f.Bool("tls", false, "everything between controller and machines in mutual TLS")
	without := f.String("without", "", "kinds of faults to leave out, with commas")
	show := f.Bool("plan", false, "print the plan of faults and do nothing")
	return func(ctx context.Context, at place) error {
		s.without = append(strings.Split(*without, ","), impossible()...)
		p := s.draw()
		fmt.Fprintf(at.out, "seed %d: %d faults in %v, without %s\n", s.seed, len(p), s.length, strings.Join(s.without, " "))
		if *show {
			fmt.Fprintln(at.out, p)
			return nil
		}
		j := usual("chaos", "tally")
		j.Machines, j.Reliable, j.Seed = *machines, fmt.Sprintf("{type: c3.large, count: %d}", *reliable), s.seed
		j.Clocks, j.Splits, j.Partitions, j.Evaluate = 10_000_000, 24, 16, 100
		j.Dead, j.Orphan, j.ThreeAbove = deadAfter, time.Minute, float64(*machines)/float64(*reliable)*0.7
		j.FlopsPerVCPU = paced(float64(j.Splits)*1e6, time.Second/4, *machines)
		modes := map[string]string{"bsp": "deterministic: false", "ssp": "staleness: 2", "asp": "consistency: asp"}
		usually := []string{"bsp", "ssp", "asp"}[rand.New(rand.NewPCG(s.seed, 18)).IntN(3)]
		if *mode != "" {
			usually = *mode
		}
		if j.Consistency = modes[usually]; j.Consistency == "" {
			return fmt.Errorf("-consistency %s: there are bsp, ssp and asp", usually)
		}
		j.Extra = fmt.Sprintf("checkpoint: {to: %s, every: 1s, keep: 2}", filepath.Join(at.dir, diskDir))
		if *tls {
			j.Extra += "\nsecurity: tls"
		}
		fmt.Fprintf(at.out, "%d transient and %d reliable machines, %s\n", *machines, *reliable, j.Consistency)
		return at.chaos(ctx, j, p, s)
	}
}

func (at place) chaos(ctx context.Context, j job, p plan, s storm) (err error) {
	if !slices.Contains(s.without, "disk-full") {
		var remove func(keep bool) error
		if remove, err = makeDisk(at.dir); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, remove(err != nil)) }()
	}
	t, err := begin(at.dir, at.binary, j, at.out)
	defer t.abandon()
	if err == nil {
		err = t.reach(ctx, 5)
	}
	if err != nil {
		return err
	}
	happened, err := t.play(ctx, p, s.length)
	if err == nil {
		err = t.interrupt()
	}
	if err != nil {
		return err
	}
	entries, err := t.journal()
	if err != nil {
		return err
	}
	again := 0
	for _, e := range entries {
		if e.Redone {
			again++
		}
	}
	fmt.Fprintln(at.out, faultsMet(happened))
	fmt.Fprintf(at.out, "%d clocks done, %d of them again; %s\n", count(entries, journal.ClockDone), again, changes(entries))
	promises := t.promises(entries)
	if happened["disk-full"] > 0 {
		promises = append(promises, promise{"a full disk makes a checkpoint fail", failedFor(entries)})
	}
	for _, p := range promises {
		verdict := "ok  "
		if p.err != nil {
			verdict = "LIE "
		}
		fmt.Fprintln(at.out, verdict, p.words)
	}
	return broken(promises)
}

// changes counts what happened to a run.
func changes(entries []journal.Entry) string {
	var parts []string
	for _, c := range []struct {
		kind  journal.Kind
		words string
	}{{journal.Join, "joins"}, {journal.Notice, "notices"}, {journal.Failed, "unwarned losses"}, {journal.Move, "moves"}, {journal.Stage, "stage changes"},
		{journal.Switch, "switches"}, {journal.Cut, "cuts"}, {journal.Rollback, "roll-backs"}, {journal.Checkpoint, "checkpoints"},
		{journal.SaveFailed, "that failed"}, {journal.TakeOver, "takeovers"}} {
		if n := count(entries, c.kind); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, c.words))
		}
	}
	return strings.Join(parts, ", ")
}
