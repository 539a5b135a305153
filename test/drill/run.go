package drill

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/localrun"
)

// Run is a `tierml run` under way, in a run directory of its own.
type Run struct {
	*Process
	Name string // of the directory below runs/
	site *Site
}

// StartRun starts the first run of a job on a cloud.
func (s *Site) StartRun(cloud *Cloud, name, file string, args ...string) (*Run, error) {
	args = append([]string{"run", "-y", "--plain", "--endpoint", cloud.Endpoint, file}, args...)
	p, err := s.start(name+".log", args...)
	return &Run{Process: p, Name: name + "-1", site: s}, err
}

// Dir is the run's directory.
func (r *Run) Dir() string { return r.site.Path(localrun.Root, r.Name) }

// Model reads the run's model file.
func (r *Run) Model() ([]byte, error) { return os.ReadFile(filepath.Join(r.Dir(), localrun.ModelFile)) }

// Printed is what the run has printed.
func (r *Run) Printed() string {
	text, _ := os.ReadFile(r.out.Name())
	return string(text)
}

// Journal reads what there is of the run's journal.
func (r *Run) Journal() ([]journal.Entry, error) {
	entries, _, err := journal.ReadFile(filepath.Join(r.Dir(), localrun.JournalFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// Until waits for something to be in the journal. It is false when the run ends before. A run that has nothing new to
// say for as long as patience is stuck, which is an error.
func (r *Run) Until(patience time.Duration, there func([]journal.Entry) bool) (bool, error) {
	lines, since := 0, time.Now()
	for ; ; time.Sleep(20 * time.Millisecond) {
		ended := false
		select {
		case <-r.ended:
			ended = true
		default:
		}
		entries, err := r.Journal()
		switch {
		case err != nil:
			return false, err
		case there(entries):
			return true, nil
		case ended:
			return false, nil
		}
		if news := progress(entries); news != lines {
			lines, since = news, time.Now()
		}
		limit := patience
		if lines == 0 { // the plan takes processor time, which others may want, too
			limit *= 5
		}
		if time.Since(since) > limit {
			return false, fmt.Errorf("stuck: %s has nothing to say for %v; it printed\n%s", r.Name, limit, r.Printed())
		}
	}
}

// progress counts what a run that is stuck has none of: prices go on whatever happens.
func progress(entries []journal.Entry) (n int) {
	for _, e := range entries {
		if e.Kind != journal.Price && e.Kind != journal.Charge {
			n++
		}
	}
	return n
}

// Wait waits for the end.
func (r *Run) Wait(patience time.Duration) error {
	_, err := r.Until(patience, func([]journal.Entry) bool { return false })
	return err
}

// Finished is an error unless the run has ended as it should.
func (r *Run) Finished() error {
	select {
	case <-r.ended:
	default:
		return fmt.Errorf("%s has not ended", r.Name)
	}
	if r.err != nil {
		return fmt.Errorf("%s: %w; it printed\n%s", r.Name, r.err, r.Printed())
	}
	return nil
}

// Reached is the highest clock that was ever done.
func Reached(entries []journal.Entry) (clock int64) {
	for _, e := range entries {
		if e.Kind == journal.ClockDone {
			clock = max(clock, e.Clock)
		}
	}
	return clock
}

// Count counts entries of a kind.
func Count(entries []journal.Entry, kind journal.Kind) (n int) {
	for _, e := range entries {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// CheckJournal checks what holds in every journal, whatever happened: each clock once and in order, never a loss beyond
// the last committed cut, or beyond the newest checkpoint where reliable machines were lost, a known end for every machine,
// and what was asked for with `tierml scale` until somebody asks for something else.
func CheckJournal(entries []journal.Entry) error {
	launched, ended := map[string]bool{}, map[string]bool{}
	var errs []error
	fault := func(line int, format string, args ...any) {
		errs = append(errs, fmt.Errorf("line %d: %s", line+1, fmt.Sprintf(format, args...)))
	}
	var done, best, cut, saved int64
	bared := false // a reliable machine was lost since the last cut
	reliable := map[string]bool{}
	wanted := ""
	for i, e := range entries {
		if err := e.Validate(); err != nil {
			fault(i, "%v", err)
		}
		switch e.Kind {
		case journal.Launch:
			launched[e.Instance] = true
			reliable[e.Instance] = e.Tier == "reliable"
		case journal.Leave:
			bared = bared || reliable[e.Instance]
		case journal.Checkpoint:
			saved = e.Clock
		case journal.Scale:
			if wanted != "" && e.From != wanted {
				fault(i, "%s are wanted; they were %s", e.From, wanted)
			}
			wanted = e.To
		case journal.Evicted, journal.Terminated, journal.Failed:
			if e.Ended != nil {
				ended[e.Instance] = true
			}
		case journal.ClockDone:
			if e.Clock != done+1 {
				fault(i, "clock %d comes after clock %d", e.Clock, done)
			}
			if e.Redone != (e.Clock <= best) {
				fault(i, "clock %d says redone %v; %d were done", e.Clock, e.Redone, best)
			}
			done, best = e.Clock, max(best, e.Clock)
		case journal.Cut:
			if e.Clock < cut {
				fault(i, "a cut at clock %d after one at clock %d", e.Clock, cut)
			}
			cut, bared = e.Clock, false
		case journal.Rollback:
			if e.Clock != cut && !(bared && e.Clock == saved) {
				fault(i, "back to clock %d; the last cut is at clock %d, the newest checkpoint at clock %d; reliable machines lost: %v",
					e.Clock, cut, saved, bared)
			}
			done, cut = e.Clock, e.Clock
		}
	}
	for id := range launched {
		if !ended[id] {
			errs = append(errs, fmt.Errorf("%s was launched, and its end is not in the journal", id))
		}
	}
	return errors.Join(errs...)
}

// Resume goes on with a job's first run, where it was saved.
func (s *Site) Resume(cloud *Cloud, name string) (*Run, error) {
	directory := filepath.Join(localrun.Root, name+"-1")
	p, err := s.start(name+".log", "run", "-y", "--plain", "--endpoint", cloud.Endpoint, "--resume", directory)
	return &Run{Process: p, Name: name + "-1", site: s}, err
}
