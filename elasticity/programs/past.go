package programs

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// Past is what the journal of earlier controllers says about programs.
type Past struct {
	Attempt  uint64 // the highest
	Programs map[int]PastProgram
	Open     []PastAttempt // without an end in the journal
	Tuning   []PastTuning
}

// PastTuning is a decision about a program's knobs, and its basis.
type PastTuning struct {
	Step    int64
	Details journal.TuneDetails
}

// PastProgram is a task, or the gang's program as number 0.
type PastProgram struct {
	Lost      time.Time // when an attempt that may still be running somewhere was last given up
	Finished  bool
	Resume    []string // manifests by rank; empty = none
	Digests   []string
	Steps     []int64
	Dropped   bool
	Losses    []float64         // at the rungs of a sweep
	Last      *float64          // loss of a task, as in the journal
	Settings  map[string]string // of a sweep's trial that has begun
	Cancelled bool              // by a user
	Round     uint64            // the newest round in which a gang was saved
}

// PastAttempt is a rank or a task that ran.
type PastAttempt struct {
	Key, Instance string
	Attempt       uint64
	Step          int64 // the last one recorded
}

// ReadPast reads the lines of a journal that are about programs: of a gang with least to most ranks, or of tasks. The ranks of an elastic
// gang are separate programs.
func ReadPast(entries []journal.Entry, least, most, tasks int, elastic bool) (*Past, error) {
	place := func(key string) (number, rank int, err error) {
		number, rank, err = place(key, tasks, most)
		if elastic {
			number, rank = rank, 0
		}
		return number, rank, err
	}
	if tasks > 0 || elastic {
		least = 1
	}
	p := &Past{Programs: map[int]PastProgram{}}
	of, err := ranksOf(entries, least, place)
	if err != nil {
		return nil, err
	}
	keepers, rounds := map[int]*savedStates{}, map[int]uint64{}
	exited := map[int]bool{} // by program: a rank has succeeded, which is recorded once all have
	cancelled := map[int]bool{}
	open := map[string]PastAttempt{}
	var order []string
	for i, e := range entries {
		if e.Kind == journal.Tune {
			d, err := e.TuneDetails()
			if err != nil {
				return nil, fmt.Errorf("journal entry %d: %w", i+1, err)
			}
			p.Tuning = append(p.Tuning, PastTuning{e.Clock, d})
		}
		if e.Program == "" {
			continue
		}
		number, rank, err := place(e.Program)
		if err != nil {
			return nil, fmt.Errorf("journal entry %d: %w", i+1, err)
		}
		k := keepers[number]
		if k == nil {
			fresh := newSavedStates(of[e.Generation])
			k = &fresh
			keepers[number] = k
		}
		if of[e.Generation] != len(k.newest) {
			k.resize(of[e.Generation])
		}
		p.Attempt = max(p.Attempt, e.Generation)
		trial := p.Programs[number]
		switch e.Kind {
		case journal.ProgramStart:
			if _, again := open[e.Program]; !again {
				order = append(order, e.Program)
			}
			open[e.Program] = PastAttempt{Key: e.Program, Instance: e.Instance, Attempt: e.Generation, Step: e.Clock}
			var d journal.ProgramStartDetails
			if json.Unmarshal(e.Details, &d) == nil && d.Settings != nil {
				trial.Settings = d.Settings
			}
		case journal.ProgramStep:
			trial.Last = e.TrainLoss
			if int(e.Round) == len(trial.Losses)+1 {
				trial.Losses = append(trial.Losses, lossOf(e.TrainLoss))
			}
			if a, runs := open[e.Program]; runs && a.Attempt == e.Generation {
				a.Step = e.Clock
				open[e.Program] = a
			}
		case journal.ProgramDropped:
			trial.Dropped = true
		case journal.ProgramSaved:
			k.keep(rank, saved{e.Model, e.Digest, e.Clock}, e.Round)
			if e.Round < last {
				rounds[number] = max(rounds[number], e.Round)
			}
		case journal.ProgramEnd:
			delete(open, e.Program)
			if e.Outcome == journal.Lost {
				trial.Lost = e.T
			}
			if e.Outcome == journal.Cancelled {
				cancelled[number] = true
				break
			}
			if e.Outcome == journal.Finished {
				exited[number], trial.Last = true, e.TrainLoss
				break
			}
			exited[number] = false
			k.discardAttempt()
		}
		p.Programs[number] = trial
	}
	for number, k := range keepers {
		program := p.Programs[number]
		program.Finished, program.Round, program.Cancelled = exited[number], rounds[number], cancelled[number]
		for _, s := range k.set {
			program.Resume, program.Digests, program.Steps = append(program.Resume, s.manifest), append(program.Digests, s.digest), append(program.Steps, s.step)
		}
		p.Programs[number] = program
	}
	for _, key := range order {
		if a, still := open[key]; still {
			p.Open = append(p.Open, a)
		}
	}
	return p, nil
}

// ranksOf returns the number of ranks of each attempt. If an attempt was cut short, some may have no line.
func ranksOf(entries []journal.Entry, least int, place func(key string) (number, rank int, err error)) (map[uint64]int, error) {
	of := map[uint64]int{}
	for i, e := range entries {
		if e.Program == "" {
			continue
		}
		_, rank, err := place(e.Program)
		if err != nil {
			return nil, fmt.Errorf("journal entry %d: %w", i+1, err)
		}
		of[e.Generation] = max(of[e.Generation], rank+1, least)
	}
	return of, nil
}

// lossOf returns a loss as recorded in the journal, where NaN is absent.
func lossOf(loss *float64) float64 {
	if loss == nil {
		return math.NaN()
	}
	return *loss
}

// place returns the program and the rank that a key names.
func place(key string, tasks, ranks int) (number, rank int, err error) {
	kind, text, _ := strings.Cut(key, "-")
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n < 0:
	case kind == "task" && n < tasks:
		return n, 0, nil
	case kind == "rank" && tasks == 0 && n < ranks:
		return 0, n, nil
	}
	return 0, 0, fmt.Errorf("the job has no program %q", key)
}
