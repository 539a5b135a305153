package jobs

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/sched"
)

// Arrival is a recorded job: when it came, how many units it requested, and how long it ran with them, if known.
type Arrival struct {
	Group string
	At    float64 // seconds
	Units int
	Runs  float64 // seconds; 0 = unknown
}

// Runtime is how long a job ran with this many units; 0 units = unknown.
type Runtime struct {
	Seconds float64
	Units   int
}

// ReadArrivals reads recorded arrivals in a format recognised by its header: Philly's as Gavel reduced them (vc,
// arrival_s, num_gpus), or the tasks of Alibaba's GPU cluster of 2023 (openb_pod_list: num_gpu, pod_phase,
// creation_time, scheduled_time, deletion_time). Of the latter, ended tasks count, with the time from their scheduling
// to their deletion; tasks without a GPU count as one unit.
func ReadArrivals(r io.Reader) ([]Arrival, error) {
	t, err := readTable(r)
	if err != nil {
		return nil, err
	}
	var read func() (Arrival, bool, error)
	switch {
	case t.has("vc", "arrival_s", "num_gpus"):
		read = t.philly
	case t.has("num_gpu", "pod_phase", "creation_time", "scheduled_time", "deletion_time"):
		read = t.alibaba
	default:
		return nil, errors.New("line 1: neither Philly's columns (vc, arrival_s, num_gpus) nor Alibaba's (num_gpu, pod_phase, creation_time, scheduled_time, deletion_time)")
	}
	var all []Arrival
	for t.next() {
		a, counts, err := read()
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", t.line, err)
		}
		if counts {
			all = append(all, a)
		}
	}
	if t.err != nil {
		return nil, t.err
	}
	slices.SortStableFunc(all, func(a, b Arrival) int { return compareFloats(a.At, b.At) })
	return all, nil
}

// ReadRuntimes reads run times of jobs: runtime_s and num_gpus, or runtime alone.
func ReadRuntimes(r io.Reader) ([]Runtime, error) {
	t, err := readTable(r)
	if err != nil {
		return nil, err
	}
	column := "runtime"
	if t.has("runtime_s") {
		column = "runtime_s"
	}
	if !t.has(column) {
		return nil, errors.New("line 1: no column runtime_s or runtime")
	}
	var all []Runtime
	for t.next() {
		x := Runtime{Seconds: t.number(column)}
		if t.has("num_gpus") {
			x.Units = t.count("num_gpus")
		}
		if t.bad != nil {
			return nil, fmt.Errorf("line %d: %w", t.line, t.bad)
		}
		if x.Seconds > 0 {
			all = append(all, x)
		}
	}
	if t.err == nil && len(all) == 0 {
		t.err = errors.New("no run time above 0")
	}
	return all, t.err
}

func compareFloats(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// records reads a CSV file with a header, row by row.
type records struct {
	rows    *csv.Reader
	columns map[string]int
	row     []string
	line    int
	err     error // file's error
	bad     error // row's first error
}

func readTable(r io.Reader) (*records, error) {
	t := &records{rows: csv.NewReader(bufio.NewReader(r)), columns: map[string]int{}, line: 1}
	t.rows.ReuseRecord = true
	header, err := t.rows.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("empty; its first line must name the columns")
	}
	if err != nil {
		return nil, err
	}
	for i, name := range header {
		t.columns[strings.Clone(strings.TrimSpace(name))] = i
	}
	return t, nil
}

func (t *records) has(columns ...string) bool {
	return !slices.ContainsFunc(columns, func(c string) bool { _, ok := t.columns[c]; return !ok })
}

func (t *records) next() bool {
	t.row, t.err = t.rows.Read()
	t.line++
	t.bad = nil
	if errors.Is(t.err, io.EOF) {
		t.err = nil
		return false
	}
	return t.err == nil
}

func (t *records) text(column string) string { return t.row[t.columns[column]] }

// mostSeconds is longer than any recording, and any job.
const mostSeconds = 1e10

func (t *records) number(column string) float64 {
	x, err := strconv.ParseFloat(t.text(column), 64)
	if (err != nil || !(x >= 0) || x > mostSeconds) && t.bad == nil {
		t.bad = fmt.Errorf("%s is %q; it must be a number of seconds", column, t.text(column))
	}
	return x
}

func (t *records) count(column string) int {
	n, err := strconv.Atoi(t.text(column))
	if (err != nil || n < 0 || n > mostSize) && t.bad == nil {
		t.bad = fmt.Errorf("%s is %q; it must be a number from 0 to %d", column, t.text(column), mostSize)
	}
	return n
}

func (t *records) philly() (Arrival, bool, error) {
	a := Arrival{Group: strings.Clone(t.text("vc")), At: t.number("arrival_s"), Units: max(t.count("num_gpus"), 1)}
	return a, true, t.bad
}

func (t *records) alibaba() (Arrival, bool, error) {
	if t.text("scheduled_time") == "" || t.text("pod_phase") == "Running" || t.text("pod_phase") == "Pending" {
		return Arrival{}, false, nil
	}
	a := Arrival{At: t.number("creation_time"), Units: max(t.count("num_gpu"), 1)}
	a.Runs = t.number("deletion_time") - t.number("scheduled_time")
	return a, a.Runs > 0, t.bad
}

// Traced makes jobs from recorded arrivals. Behaviour that was not recorded is assumed: see docs/scheduler.md.
type Traced struct {
	Arrivals []Arrival
	// Runtimes are drawn for arrivals without one: from jobs with the same number of units, if there are ten or more.
	Runtimes []Runtime
	Slot     float64 // vCPUs per unit
	// Serial is the part of a clock, at the requested size, that more workers do not shorten.
	Serial float64
	// Stretch is how many times its request a job can use.
	Stretch float64
	// Longest bounds run times, in seconds; 0 = unbounded.
	Longest float64
}

// Clocks of a recorded job, and how many it takes until its early feedback.
const (
	tracedClocks   = 1000
	tracedFeedback = 100
)

// Jobs makes the jobs; equal seeds give equal jobs.
func (t *Traced) Jobs(seed uint64) ([]Script, error) {
	if len(t.Arrivals) == 0 {
		return nil, errors.New("no arrivals")
	}
	r := rand.New(rand.NewPCG(seed, 1))
	byUnits := map[int][]float64{}
	for _, x := range t.Runtimes {
		byUnits[x.Units] = append(byUnits[x.Units], x.Seconds)
		if x.Units != 0 {
			byUnits[0] = append(byUnits[0], x.Seconds)
		}
	}
	first := t.Arrivals[0].At
	var all []Script
	for i, a := range t.Arrivals {
		seconds := a.Runs
		if seconds == 0 {
			from := byUnits[a.Units]
			if len(from) < 10 {
				from = byUnits[0]
			}
			if len(from) == 0 {
				return nil, errors.New("the recording has no run times, and there are none to draw from")
			}
			seconds = from[r.IntN(len(from))]
		}
		if t.Longest > 0 {
			seconds = min(seconds, t.Longest)
		}
		clock := seconds / tracedClocks
		id := fmt.Sprintf("j%05d", i) // a sweep of its own: no other job's better loss stops it
		all = append(all, Script{
			ID: id, Group: a.Group, Sweep: id, Arrives: a.At - first, Demand: sched.Resources{t.Slot}, Workers: a.Units,
			MostWorkers: max(int(math.Round(t.Stretch*float64(a.Units))), a.Units),
			Clock:       sched.Fit{(1 - t.Serial) * clock * float64(a.Units), t.Serial * clock},
			Feedback:    tracedFeedback, Total: tracedClocks, Loss: r.Float64(),
		})
	}
	return all, nil
}

// Sweep is a search for good settings as in EPS, section 6: trials of one model with random arrivals.
type Sweep struct {
	Trials   int
	Apart    float64 // mean seconds between arrivals
	Clock    sched.Fit
	Feedback float64
	Total    float64
	Workers  int
	Servers  int
	Overhead int
	Slot     float64
}

// EPS returns the sweep of EPS's section 6: 75 trials of 8 workers and 4 servers plus an application master, with
// feedback at iteration 100. Iterations take 160 s of one worker, and .35 s per worker for each server's share; both
// are assumed.
func EPS(apart float64) Sweep {
	return Sweep{Trials: 75, Apart: apart, Clock: sched.Fit{160, 0, .35}, Feedback: 100, Total: 400, Workers: 8, Servers: 4, Overhead: 1, Slot: 1}
}

// Jobs makes the trials; equal seeds give equal ones. Losses are uniform over 0 to 1, and do not change in training.
func (s Sweep) Jobs(seed uint64) []Script {
	r := rand.New(rand.NewPCG(seed, 75))
	at := 0.
	var all []Script
	for i := range s.Trials {
		at += s.Apart * r.ExpFloat64()
		all = append(all, s.Trial(i, at, r.Float64()))
	}
	return all
}

// Trial returns one of a sweep's trials.
func (s Sweep) Trial(i int, arrives, loss float64) Script {
	return Script{ID: fmt.Sprintf("t%04d", i), Arrives: arrives, Demand: sched.Resources{s.Slot}, Workers: s.Workers, Servers: s.Servers, Overhead: s.Overhead,
		Clock: s.Clock, Feedback: s.Feedback, Total: s.Total, Loss: loss}
}
