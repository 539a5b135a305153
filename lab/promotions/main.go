// Command promotions compares asha's decisions with those of Syne Tune's promotion variant of ASHA (a
// HyperbandScheduler of type promotion) on the same recorded losses: ridge regression with 81 step sizes, in random
// orders, on 1 to 16 workers. A free worker requests a trial, either a promoted or a new one, and trains it to its next
// rung; both decide in the same situations.
package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/tierml/tierml/sched"
)

//go:embed promotions.py
var promotionsScript []byte

const (
	promotionTrials = 81
	promotionClocks = 27
)

// promotionRungs are the clocks at which trials are paused.
var promotionRungs = []int{1, 3, 9}

// promotionCase is an order of trials, and the number that run at a time.
type promotionCase struct {
	Losses  [][]float64 `json:"losses"` // by trial and rung
	Rungs   []int       `json:"rungs"`
	Clocks  int         `json:"clocks"`
	Workers int         `json:"workers"`
}

// place is where the trials are recorded.
type place struct{ dir, binary string }

func main() {
	binary := flag.String("tierml", "tierml", "the program that trains the trials")
	python := flag.String("python", "python3", "a Python with syne-tune")
	data := flag.String("data", "", "a file of examples in LIBSVM's form")
	cases := flag.Int("cases", 20, "random orders")
	flag.Parse()
	if err := compare(*binary, *python, *data, *cases); err != nil {
		fmt.Fprintln(os.Stderr, "promotions:", err)
		os.Exit(1)
	}
}

func compare(binary, python, data string, cases int) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	at := place{binary: binary}
	if at.dir, err = os.MkdirTemp("", "tierml-promotions-"); err != nil {
		return fmt.Errorf("making a working directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(at.dir)) }()
	path, err := filepath.Abs(data)
	if err != nil {
		return fmt.Errorf("finding the data: %w", err)
	}
	curves, err := at.record(ctx, path)
	if err != nil {
		return err
	}
	var all []promotionCase
	for seed := range cases {
		order := rand.New(rand.NewPCG(uint64(seed), 1)).Perm(len(curves))
		c := promotionCase{Rungs: promotionRungs, Clocks: promotionClocks, Workers: 1 << (seed % 5)}
		for _, i := range order {
			c.Losses = append(c.Losses, curves[i])
		}
		all = append(all, c)
	}
	theirs, err := askSyneTune(ctx, python, at.dir, all)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "%d cases of %d trials on 1 to 16 workers, rungs at clocks %v of %d\n", len(all), len(curves), promotionRungs, promotionClocks)
	var errs []error
	for _, p := range []sched.ASHA{{Ceil: true}, {}} {
		same, equal, both, either := 0, 0, 0, 0
		for i, c := range all {
			ours := c.decide(p)
			if slices.Equal(ours, theirs[i]) {
				equal++
			}
			for k := range min(len(ours), len(theirs[i])) {
				if ours[k] != theirs[i][k] {
					break
				}
				same++
			}
			a, b := promoted(ours), promoted(theirs[i])
			for key := range a {
				if b[key] {
					both++
				}
			}
			either += len(a) + len(b)
		}
		name := "asha, rounding up"
		if !p.Ceil {
			name = "asha as in its paper"
		}
		either -= both
		fmt.Fprintf(os.Stdout, "%-22s %d of %d cases decision for decision; promotions: %d by both of %d by either, %.1f %%\n", name, equal, len(all), both, either, 100*float64(both)/float64(max(either, 1)))
		if p.Ceil && equal < len(all) {
			errs = append(errs, fmt.Errorf("%s differs from Syne Tune in %d cases", name, len(all)-equal))
		}
	}
	return errors.Join(errs...)
}

// promoted returns the promotions among decisions.
func promoted(decisions []string) map[string]bool {
	all := map[string]bool{}
	for _, d := range decisions {
		if strings.HasPrefix(d, "promote") {
			all[d] = true
		}
	}
	return all
}

var testRMSE = regexp.MustCompile(`clock +([0-9]+) of .* test [a-z A-Z]+ ([-+.0-9a-zA-Z]+)`)

// record trains each trial in one process, and returns its losses at the rungs. A loss that is not a number is replaced
// by a very large one.
func (p place) record(ctx context.Context, data string) (curves [][]float64, err error) {
	job := `name: recorded
cloud: none
train: {app: ridge, data: %s, clocks: %d, evaluate_every: 1, splits: 12, params: {step: %g}}
`
	file := filepath.Join(p.dir, "recorded.yaml")
	for i := range promotionTrials {
		step := math.Pow(10, -5+6*float64(i)/(promotionTrials-1))
		if err := os.WriteFile(file, fmt.Appendf(nil, job, data, promotionRungs[len(promotionRungs)-1], step), 0o600); err != nil {
			return nil, fmt.Errorf("recording a trial: %w", err)
		}
		cmd := exec.CommandContext(ctx, p.binary, "train", "--deterministic", "--into", filepath.Join(p.dir, "recorded.safetensors"), file)
		cmd.Dir = p.dir
		said, err := cmd.CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("recording a trial with step %g: %w\n%s", step, err, said)
		}
		losses := make([]float64, len(promotionRungs))
		for k := range losses {
			losses[k] = 1e30 + 1e24*float64(i) // none was reported: it diverged
		}
		for _, found := range testRMSE.FindAllStringSubmatch(string(said), -1) {
			clock, _ := strconv.Atoi(found[1])
			loss, err := strconv.ParseFloat(found[2], 64)
			if k := slices.Index(promotionRungs, clock); k >= 0 && err == nil && !math.IsNaN(loss) && !math.IsInf(loss, 0) {
				losses[k] = loss + 1e-9*float64(i) // no ties: the two break them differently
			}
		}
		curves = append(curves, losses)
	}
	return curves, nil
}

// askSyneTune has the script decide each case.
func askSyneTune(ctx context.Context, python, dir string, cases []promotionCase) (decisions [][]string, err error) {
	script := filepath.Join(dir, "promotions.py")
	if err := os.WriteFile(script, promotionsScript, 0o600); err != nil {
		return nil, fmt.Errorf("asking Syne Tune: %w", err)
	}
	text, err := json.Marshal(cases)
	if err != nil {
		return nil, fmt.Errorf("asking Syne Tune: %w", err)
	}
	cmd := exec.CommandContext(ctx, python, script)
	var problems bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), &problems
	said, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("asking Syne Tune: %w\n%s", err, problems.String())
	}
	if err := json.Unmarshal(said, &decisions); err != nil || len(decisions) != len(cases) {
		return nil, fmt.Errorf("asking Syne Tune: %d answers for %d cases: %w", len(decisions), len(cases), err)
	}
	return decisions, nil
}

// decide has a policy decide, as the script has Syne Tune decide.
func (c promotionCase) decide(p sched.ASHA) (decisions []string) {
	hosts := []sched.Host{{ID: "h", Capacity: sched.Resources{float64(c.Workers)}}}
	jobs := make([]sched.Job, len(c.Losses))
	for i := range jobs {
		jobs[i] = sched.Job{ID: fmt.Sprintf("%03d", i), Sweep: "s", Phase: sched.Queued, Arrived: float64(i), Demand: sched.Resources{1}, WantWorkers: 1}
	}
	var over []sched.Job
	var busy []busyTrial
	now, order := 0, 0
	for {
		state := sched.State{Hosts: hosts, Past: over}
		for i := range jobs {
			if jobs[i].Phase != "" {
				state.Jobs = append(state.Jobs, jobs[i])
			}
		}
		var begin []int
		for _, g := range p.Plan(state).Grants {
			i, _ := strconv.Atoi(g.Job)
			j := &jobs[i]
			switch {
			case g.Action == sched.Start || g.Until > j.Until: // it keeps its worker if it continues at once
				begin = append(begin, i)
				j.Phase = sched.Training
			case g.Action == sched.Pause:
				j.Phase = sched.Paused
			}
			j.Workers, j.Where, j.Until = g.Workers, g.Where, g.Until
		}
		// A plan names jobs by ID; Syne Tune is queried worker by worker: promotions from the highest rung down, the best first, and then new
		// trials.
		slices.SortFunc(begin, func(a, b int) int {
			x, y := jobs[a].Rungs, jobs[b].Rungs
			if len(x) == 0 || len(x) != len(y) {
				return cmp.Or(len(y)-len(x), a-b)
			}
			return cmp.Compare(x[len(x)-1], y[len(y)-1])
		})
		for _, i := range begin {
			decision, until, from, was := fmt.Sprintf("start %d", i), c.Clocks, 0, len(jobs[i].Rungs)
			if was > 0 {
				decision, from = fmt.Sprintf("promote %d from %d", i, c.Rungs[was-1]), c.Rungs[was-1]
			}
			if was < len(c.Rungs) {
				until = c.Rungs[was]
			}
			order++
			decisions, busy = append(decisions, decision), append(busy, busyTrial{i, now + until - from, order})
		}
		if len(busy) == 0 {
			return decisions
		}
		slices.SortFunc(busy, func(a, b busyTrial) int { return cmp.Or(a.until-b.until, a.order-b.order) })
		b := busy[0]
		busy, now = busy[1:], b.until
		j := &jobs[b.trial]
		if n := len(j.Rungs); n < len(c.Rungs) {
			j.Rungs = append(j.Rungs, c.Losses[b.trial][n])
			continue
		}
		over = append(over, *j) // it has finished
		*j = sched.Job{}
	}
}

// busyTrial is a trial that trains until a time.
type busyTrial struct{ trial, until, order int }
