package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
)

// promises checks what must hold for job servers and their jobs after a storm.
func (h *house) promises(base baseline) []promise {
	finished := h.finished()
	overlaps, err := os.ReadFile(h.path("effects", "overlaps"))
	if err == nil {
		err = errors.New(string(overlaps))
	} else if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	warned, killed, excused, lost := h.losses()
	list := []promise{
		{"all jobs finish: none is ended by what happens to its host", finished},
		{"no program has two copies at a time", err},
		{"programs end with the state that they have undisturbed", h.results()},
		{fmt.Sprintf("no step is lost at %d notices and stops, at most what was not yet saved at %d kills, except for %d whose own store or machine failed then", warned, killed, excused), lost},
		{"models are the undisturbed ones", h.models(base)},
		{"bills are the clouds', to the billionth of a dollar", h.bills()},
	}
	for _, s := range h.servers {
		for _, l := range s.list() {
			if l.Hosts && !call.State(l.State).Over() {
				_, _ = s.tell("stop", l.Run)
			}
		}
	}
	return append(list, promise{"nothing is left: processes, folders of machines", h.nothingLeft()})
}

func (h *house) finished() error {
	var errs []error
	for i, s := range h.servers {
		for _, l := range s.list() {
			if !l.Hosts && l.State != string(call.Finished) {
				errs = append(errs, fmt.Errorf("server %d: %s is %s: %s", i, l.Run, l.State, l.Why))
			}
		}
	}
	return errors.Join(errs...)
}

// copies returns the names under which a job's programs log.
func (j houseJob) copies() (all []string) {
	for n := range max(j.ranks, j.tasks) {
		all = append(all, fmt.Sprintf("%s-%d", j.name, n))
	}
	return all
}

// note is a line of a program's log: "begin", "step", "end" (a stop was requested) or "done".
type note struct {
	word string
	step int
	sum  int64 // of "done"
	at   int64 // in microseconds
}

func (h *house) notes(name string) (all []note, err error) {
	text, err := os.ReadFile(h.path("effects", name))
	for line := range strings.Lines(string(text)) {
		var n note
		_, err := fmt.Sscan(line, &n.word, &n.step, &n.at)
		if n.word == "done" {
			_, err = fmt.Sscan(line, &n.word, &n.step, &n.sum, &n.at)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", name, line, err)
		}
		all = append(all, n)
	}
	return all, err
}

// results compares the sums over programs' steps.
func (h *house) results() error {
	var errs []error
	for _, j := range h.jobs {
		for _, name := range j.copies() {
			notes, err := h.notes(name)
			if err != nil || len(notes) == 0 {
				errs = append(errs, fmt.Errorf("%s: nothing was done: %w", name, err))
				continue
			}
			last, sum := notes[len(notes)-1], int64(0)
			for n := 1; n <= last.step; n++ {
				sum = (sum*31 + int64(n)) % 1000003
			}
			if last.word != "done" || last.sum != sum {
				errs = append(errs, fmt.Errorf("%s ends with %+v, want done and %d", name, last, sum))
			}
		}
	}
	return errors.Join(errs...)
}

const (
	// lastSave is the limit for a program's last save after it was stopped.
	lastSave = 5 * time.Second
	// outage is the limit for a program's save after its store returns: an attempt in progress fails, and the next one
	// follows.
	outage = 2*houseEvery + lastSave
)

// prevented returns the fault that kept a program's state from being saved between two instants; no other fault excuses
// a loss. Such faults are unavailable or full stores, and the end of the machine itself.
func (h *house) prevented(j houseJob, from, to time.Time) (by string) {
	journal, _ := os.ReadFile(filepath.Join(h.folder(j), rundir.JournalFile))
	for _, m := range h.met {
		with := false
		switch m.kind {
		case "store-away":
			with = j.remote
		case "disk-full":
			with = !j.remote
		case "kill-agent":
			machine := filepath.Base(m.whom) // and a suffix
			with = j.server == 1 || bytes.Contains(journal, []byte(machine[:max(0, strings.LastIndex(machine, "-"))]+`"`))
		case "kill-hosts":
			with = j.server == 1
		}
		if with && to.After(m.at) && from.Before(m.until.Add(time.Second)) {
			return m.kind
		}
	}
	return ""
}

// losses compares where each attempt of a program starts with the progress of the one before.
func (h *house) losses() (warned, killed, excused int, err error) {
	var errs []error
	every := int(houseEvery / houseStep)
	for _, j := range h.jobs {
		for _, name := range j.copies() {
			notes, err := h.notes(name)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			for i := 1; i < len(notes); i++ {
				now, before := notes[i], notes[i-1]
				if now.word != "begin" {
					continue
				}
				at, lost := time.UnixMicro(before.at), before.step-now.step
				most, by := 0, ""
				if before.word == "end" {
					warned++
					by = h.prevented(j, at.Add(-time.Second), at.Add(lastSave))
				} else { // one save may have been in progress when it was killed
					killed++
					most = 2*every + 5
					by = h.prevented(j, at.Add(-outage), at)
				}
				switch {
				case lost <= most:
				case by != "":
					excused++
				default:
					errs = append(errs, fmt.Errorf("%s: %s at step %d (%.1f s), begins at step %d; it saves every %d steps", name, before.word, before.step, at.Sub(h.began).Seconds(), now.step, every))
				}
			}
		}
	}
	return warned, killed, excused, errors.Join(errs...)
}

// models compares the training jobs' models with the undisturbed one's, and checks their journals.
func (h *house) models(base baseline) error {
	var errs []error
	for _, j := range h.jobs {
		if j.train == nil {
			continue
		}
		t := &trial{site: site{dir: h.path(h.servers[j.server].name), binary: h.binary}, job: *j.train, out: h.out}
		entries, err := t.journal()
		if err == nil {
			err = checkJournal(entries)
		}
		m := modes[0]
		if strings.Contains(j.train.Consistency, "staleness") || strings.Contains(j.train.Consistency, "asp") {
			m = modes[1]
		}
		if err == nil {
			p, _ := base.promise(t, m, entries, cellTolerance)
			err = p.err
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", j.name, err))
		}
	}
	return errors.Join(errs...)
}

// bills reconciles the reports of runs that have their own cloud with its records.
func (h *house) bills() error {
	var errs []error
	for _, j := range h.jobs {
		if j.server == 1 {
			continue // slots are billed by the shared hosts (make pool)
		}
		text, err := h.ask("report", h.folder(j), "-o", "json")
		var r cost.Report
		if err == nil {
			err = json.Unmarshal([]byte(text), &r)
		}
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("the report of %s: %w: %s", j.name, err, text))
		case r.Reconciliation == nil || !r.Reconciliation.Equal:
			errs = append(errs, fmt.Errorf("%s: %+v", j.name, r.Reconciliation))
		}
		entries, _, err := journal.ReadFile(filepath.Join(h.folder(j), rundir.JournalFile))
		if err != nil || count(entries, journal.Done) == 0 {
			errs = append(errs, fmt.Errorf("the journal of %s has no end: %w", j.name, err))
		}
	}
	return errors.Join(errs...)
}

func (h *house) nothingLeft() error {
	servers := map[int]bool{}
	for _, s := range h.servers {
		servers[s.process.pid()] = true
	}
	for deadline := time.Now().Add(patience / 2); ; time.Sleep(100 * time.Millisecond) {
		var left []string
		for _, p := range h.belongings() {
			if !servers[p.pid] {
				left = append(left, strconv.Itoa(p.pid)+" "+strings.Join(p.args, " "))
			}
		}
		folders, _ := filepath.Glob(h.path("tmp", "*", "*"))
		left = append(left, folders...)
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%.2000s", strings.Join(left, "\n"))
		}
	}
}
