package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// agents measures the cost of a clock to the whole cluster as machines are added while the work stays the same: the
// model has only a few hundred KiB, so that the number of messages matters, not their size. Everything runs on this
// host, so the processor time of a clock includes all machines, the controller and the cloud; it is more meaningful
// than clocks per second if other work interferes.
func agents(f *flag.FlagSet) func(context.Context, place) error {
	counts := f.String("machines", "16,32,64", "transient machines, besides one reliable")
	seconds := f.Int("seconds", 10, "how long is measured")
	data := f.String("data", "../examples/data/jester5k.csv.gz", "ratings to train on")
	consistency := f.String("consistency", "deterministic: true", "lines below train:")
	f.String("binary", "", "another build of the program, to compare with")
	return func(ctx context.Context, at place) error {
		path, err := filepath.Abs(*data)
		if err != nil {
			return fmt.Errorf("finding the data: %w", err)
		}
		fmt.Fprintln(at.out, "| machines | servers | clocks/s | processor ms/clock | requests/clock | KB/clock | resident MiB of an agent | its own |")
		fmt.Fprintln(at.out, "|---|---|---|---|---|---|---|---|")
		for count := range strings.SplitSeq(*counts, ",") {
			n, err := strconv.Atoi(count)
			if err != nil {
				return fmt.Errorf("-machines: %w", err)
			}
			c, err := at.agents(ctx, n, path, *consistency, time.Duration(*seconds)*time.Second)
			if err != nil {
				return fmt.Errorf("%d machines: %w", n, err)
			}
			fmt.Fprintf(at.out, "| %d | %d | %.1f | %.1f | %.0f | %.0f | %.1f | %.1f |\n", n, c.servers, c.rate, 1e3*c.busy, c.requests, c.kilobytes,
				c.resident, c.private)
		}
		return nil
	}
}

// agentLoad is the cost of a clock with many agents.
type agentLoad struct {
	servers             int
	rate                float64 // clocks per second
	busy                float64 // processor seconds per clock, for all processes
	requests, kilobytes float64 // per clock, for all workers; including answers
	resident, private   float64 // MiB of the median agent
}

func (at place) agents(ctx context.Context, machines int, data, consistency string, long time.Duration) (c agentLoad, err error) {
	j := usual("agents", "mf")
	j.Data, j.Params, j.Machines, j.Consistency = data, "{rank: 8, batches: 8}", machines, consistency
	j.FewServers = true
	j.Clocks, j.Splits, j.Partitions, j.Evaluate = 1_000_000, 128, 32, 1000
	j.FlopsPerVCPU, j.TwoAbove, j.ThreeAbove, j.Dead, j.Orphan = 1e12, 1, 3, time.Minute, 2*time.Minute // a busy host must not make machines seem dead
	t, err := begin(filepath.Join(at.dir, fmt.Sprintf("%d-%s", machines, filepath.Base(at.binary))), at.binary, j, at.out)
	defer t.abandon()
	if err != nil {
		return c, err
	}
	if err := t.await(ctx, func(entries []journal.Entry) bool { return settled(entries, machines+1) }); err != nil {
		return c, err
	}
	begun, err := t.spent()
	if err != nil {
		return c, err
	}
	select {
	case <-time.After(long):
	case <-ctx.Done():
		return c, ctx.Err()
	}
	ended, err := t.spent()
	if err != nil {
		return c, err
	}
	clocks := float64(ended.clock - begun.clock)
	c.rate, c.busy = clocks/ended.at.Sub(begun.at).Seconds(), (ended.busy-begun.busy)/clocks
	if c.resident, c.private, err = t.memory(); err != nil {
		return c, err
	}
	entries, err := t.journal()
	if err != nil {
		return c, err
	}
	c.servers = owners(entries, j.Partitions)
	if err := t.interrupt(); err != nil {
		return c, err
	}
	return c, t.traffic(&c)
}

// usage is a trial's progress, and the processor time that its processes have used, in seconds.
type usage struct {
	at    time.Time
	clock int64
	busy  float64
}

func (t *trial) spent() (s usage, err error) {
	entries, err := t.journal()
	if err != nil {
		return s, err
	}
	s.at, s.clock = time.Now(), reached(entries)
	for _, pid := range t.processes(nil) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return s, fmt.Errorf("reading a process's time: %w", err)
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 13 {
			return s, fmt.Errorf("/proc has %q", text)
		}
		for _, ticks := range fields[11:13] { // utime and stime, of 10 ms
			n, err := strconv.Atoi(ticks)
			if err != nil {
				return s, fmt.Errorf("reading a process's time: %w", err)
			}
			s.busy += float64(n) / 100
		}
	}
	return s, nil
}

// memory returns the median agent's memory, in MiB: resident, including the program's pages that all share, and
// private.
func (t *trial) memory() (resident, private float64, err error) {
	var all, own []float64
	for _, pid := range t.processes(t.run) {
		if pid == t.cloud.pid() {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return 0, 0, fmt.Errorf("reading a process's memory: %w", err)
		}
		var rss, mine float64
		for line := range strings.Lines(string(text)) {
			var kB float64
			switch name, rest, _ := strings.Cut(line, ":"); name {
			case "Rss":
				_, _ = fmt.Sscan(rest, &rss)
			case "Private_Clean", "Private_Dirty":
				_, _ = fmt.Sscan(rest, &kB)
				mine += kB
			}
		}
		all, own = append(all, rss/1024), append(own, mine/1024)
	}
	if len(all) == 0 {
		return 0, 0, errors.New("there is no agent")
	}
	slices.Sort(all)
	slices.Sort(own)
	return all[len(all)/2], own[len(own)/2], nil
}

var (
	workerEnds = regexp.MustCompile(`worker ends.* rounds=(\d+)`)
	clientEnds = regexp.MustCompile(`client ends.* requests=(\d+) bytes_in=(\d+) bytes_out=(\d+)`)
)

// traffic reads from the machines' logs what their workers sent and received.
func (t *trial) traffic(c *agentLoad) error {
	logs, err := filepath.Glob(t.path(machineLogs, "*.log"))
	if err != nil {
		return err
	}
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("reading a machine's log: %w", err)
		}
		worker, client := workerEnds.FindSubmatch(text), clientEnds.FindSubmatch(text)
		if worker == nil || client == nil {
			c.requests, c.kilobytes = math.NaN(), math.NaN() // a former build's agents do not log their traffic
			return nil
		}
		number := func(digits []byte) float64 {
			n, _ := strconv.ParseFloat(string(digits), 64)
			return n
		}
		if rounds := number(worker[1]); rounds > 0 {
			c.requests += number(client[1]) / rounds
			c.kilobytes += (number(client[2]) + number(client[3])) / rounds / 1e3
		}
	}
	return nil
}

// owners returns how many machines own partitions, from the moves away from the one that had all.
func owners(entries []journal.Entry, partitions int) (n int) {
	have := map[string]int{}
	for _, e := range entries {
		if e.Kind == journal.Move {
			if len(have) == 0 {
				have[e.From] = partitions
			}
			have[e.From] -= e.Count
			have[e.To] += e.Count
		}
	}
	for _, count := range have {
		if count > 0 {
			n++
		}
	}
	return max(n, 1)
}
