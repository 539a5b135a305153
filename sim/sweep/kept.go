package sweep

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/tierml/tierml/internal/atomicfile"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/sim"
)

// keptTrials stores a chooser's trials in a file between a user's processes: a plan repeated an hour later simulates
// only the additional hour. A file belongs to one job; each trial is stored under the prices that it depends on, so
// that changed prices invalidate none.
type keptTrials struct {
	file   string
	trials map[string]planner.Trial
	prices map[time.Time][]byte // digests by step of the grid
}

const (
	// keptReach is how far before a start policies look at prices; 14 days for the MTTF (market.DefaultLookback).
	keptReach = 15 * 24 * time.Hour
	// keptFor is how long a job's unused file is kept.
	keptFor = 30 * 24 * time.Hour
)

// Keep reads trials from a folder, and saves new ones there. Version is the program's: another version may simulate
// differently. Trials are not keyed by recorded availability: with any, nothing is kept.
func (c *Chooser) Keep(folder, version string) {
	for _, p := range c.job.Pools {
		if p.Availability != nil {
			return
		}
	}
	c.kept = &keptTrials{
		file: filepath.Join(folder, c.digest(version)+".json"), trials: map[string]planner.Trial{}, prices: map[time.Time][]byte{},
	}
	// An unreadable file is no reason to fail: the runs are simulated again.
	if text, err := os.ReadFile(c.kept.file); err == nil {
		_ = json.Unmarshal(text, &c.kept.trials)
	}
}

// digest returns a digest of what the trials depend on apart from policies, starts and prices.
func (c *Chooser) digest(version string) string {
	hash := sha256.New()
	fmt.Fprintln(hash, version, Within(&c.job))
	for _, k := range c.candidates {
		fmt.Fprintln(hash, k.name, k.within)
		if k.refused == nil {
			writeJob(hash, k.cfg)
		}
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

func writeJob(hash io.Writer, job sim.Config) {
	fmt.Fprintln(hash, job.Rules.Name(), job.Rules.Terms(), job.Horizon, !job.Deadline.IsZero())
	for _, p := range job.Pools {
		fmt.Fprintln(hash, p.Pool, p.Type, p.MaxPrice, p.Hints)
	}
	if job.Hazard != nil {
		fmt.Fprintf(hash, "%+v\n", *job.Hazard)
	}
	if job.Programs != nil {
		fmt.Fprintf(hash, "%+v\n", *job.Programs)
	}
	job.Hazard, job.Programs = nil, nil
	job.Name, job.Start, job.Deadline, job.Rules, job.Policy, job.Pools = "", time.Time{}, time.Time{}, nil, nil, nil
	fmt.Fprintf(hash, "%+v", job)
}

// key names a trial by everything that its result depends on.
func (k *keptTrials) key(c *Chooser, policy string, id trialID) string {
	hash, from, until := sha256.New(), id.start.Truncate(pastEvery), id.start.Add(c.patience)
	if id.now {
		until = id.start.Add(pastEvery) // this may include later prices than the trial used: then it is simulated again needlessly
	}
	for at := from.Add(-keptReach); at.Before(until); at = at.Add(pastEvery) {
		if k.prices[at] == nil {
			k.prices[at] = pricesOf(&c.job, at)
		}
		hash.Write(k.prices[at])
	}
	return fmt.Sprintf("%s %s %d %v %x", policy, id.start.UTC().Format(time.RFC3339), id.draw, id.now, hash.Sum(nil)[:12])
}

// pricesOf returns a digest of all prices in a step of the grid.
func pricesOf(job *sim.Config, from time.Time) []byte {
	hash := sha256.New()
	number := func(x int64) { _ = binary.Write(hash, binary.LittleEndian, x) } // a hash accepts everything
	for _, p := range job.Pools {
		if p.OnDemand() {
			continue
		}
		price, known := p.History.At(from)
		if !known {
			price = -1
		}
		number(int64(price))
		for _, point := range p.History.Points(from, from.Add(pastEvery)) {
			number(point.At.UnixNano())
			number(int64(point.Price))
		}
	}
	return hash.Sum(nil)
}

// recall adds a candidate's stored trials.
func (k *keptTrials) recall(c *Chooser, of *candidate, samples []planner.Sample) {
	if k == nil || len(k.trials) == 0 {
		return
	}
	for _, s := range samples {
		if _, known := of.known[idOf(s)]; known {
			continue
		}
		if trial, ok := k.trials[k.key(c, of.name, idOf(s))]; ok {
			of.known[idOf(s)] = trial
		}
	}
}

// keep writes the last decision's trials. If writing fails, they are simulated again next time.
func (k *keptTrials) keep(c *Chooser, samples []planner.Sample) {
	if k == nil {
		return
	}
	now := map[string]planner.Trial{}
	for _, of := range c.candidates {
		for _, s := range samples {
			if trial, known := of.known[idOf(s)]; known {
				now[k.key(c, of.name, idOf(s))] = trial
			}
		}
	}
	k.trials = now
	folder := filepath.Dir(k.file)
	text, err := json.Marshal(now)
	if err != nil || os.MkdirAll(folder, 0o700) != nil {
		return
	}
	_ = atomicfile.Write(k.file, text, 0o600) // without it they are computed again
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > keptFor {
			_ = os.Remove(filepath.Join(folder, e.Name()))
		}
	}
}
