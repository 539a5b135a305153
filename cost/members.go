package cost

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/words"
)

// Running is the state of a member whose newest attempt has not ended.
const Running = "running"

// Dropped is the state of a trial that a sweep gave up after feedback.
const Dropped = "dropped"

// Member is a rank or a task of a run of programs, as of its newest attempt.
type Member struct {
	Name     string     `json:"name"`  // rank-0, task-12
	State    string     `json:"state"` // Running, Dropped, or an outcome of the journal: finished, failed, lost, stopped, cancelled
	Attempts int        `json:"attempts"`
	Step     int64      `json:"step,omitempty"`      // of a task or a single program: a gang has one
	Loss     *float64   `json:"loss,omitempty"`      // the last reported
	Code     int        `json:"exit_code,omitempty"` // of the newest attempt
	Machine  string     `json:"machine,omitempty"`
	Pool     string     `json:"pool,omitempty"`
	Began    *time.Time `json:"began,omitempty"`
	Ended    *time.Time `json:"ended,omitempty"`
	Why      string     `json:"why,omitempty"` // its attempt ended
	// Output is the end of a failed attempt's output.
	Output string `json:"output,omitempty"`
	// SavedStep is the step of the newest state; absent = none was saved. Lost is the market time of work since then that the newest
	// attempt has lost.
	SavedStep *int64  `json:"saved_step,omitempty"`
	Lost      float64 `json:"lost_seconds,omitempty"`
}

// memberFacts are the journal's facts about a rank or task beyond its attempts.
type memberFacts struct {
	attempts int
	loss     *float64
	code     int
	why      string
	output   string
	saved    *int64
	settings map[string]string // of a sweep's trial
	dropped  string            // why; empty = it was not
	losses   []clockPoint
	every    int64 // steps between two of these
}

// keptLosses bounds the losses of a member.
const keptLosses = 200

// addMember follows the newest attempt of a rank or task.
func (p *running) addMember(e journal.Entry, began bool) {
	if p.members == nil {
		p.members = map[string]*memberFacts{}
	}
	f := p.members[e.Program]
	if f == nil {
		f = &memberFacts{}
		p.members[e.Program] = f
	}
	if began {
		f.attempts++
		f.code, f.why, f.output = 0, "", ""
	}
	if e.TrainLoss != nil {
		f.addLoss(e)
	} else if e.Kind == journal.ProgramStep {
		f.loss = nil // it was NaN
	}
	switch e.Kind {
	case journal.ProgramStart:
		var d journal.ProgramStartDetails
		if json.Unmarshal(e.Details, &d) == nil && d.Settings != nil {
			f.settings = d.Settings
		}
	case journal.ProgramSaved:
		f.saved = &e.Clock
	case journal.ProgramEnd:
		f.code, f.why, f.output = e.Code, e.Why, e.Log
		if e.Outcome == journal.Finished && f.settings != nil {
			f.loss = e.TrainLoss // a trial's result; absent if NaN
		}
	case journal.ProgramDropped:
		f.dropped = cmp.Or(e.Why, "dropped")
	}
}

// addLoss records a loss. Of very many, evenly spread ones stay.
func (f *memberFacts) addLoss(e journal.Entry) {
	f.loss = e.TrainLoss
	if n := len(f.losses); n > 0 && e.Clock < f.losses[n-1].clock+max(f.every, 1) && e.Clock >= f.losses[n-1].clock {
		return
	}
	f.losses = append(f.losses, clockPoint{at: e.T, clock: e.Clock, train: e.TrainLoss, redone: e.Redone})
	if len(f.losses) > keptLosses {
		f.every = max(2*f.every, 2)
		odd := false
		f.losses = slices.DeleteFunc(f.losses, func(clockPoint) bool { odd = !odd; return !odd })
	}
}

// list returns all ranks or tasks that have begun, by number.
func (p *running) list(machines map[string]*machine, asOf time.Time) (out []Member) {
	for name, f := range p.members {
		m := Member{Name: name, State: Running, Attempts: f.attempts, Step: p.steps[name], Loss: f.loss, Code: f.code, Why: f.why, SavedStep: f.saved}
		if a := p.newest[name]; a != nil {
			m.Machine, m.Began, m.Ended = a.instance, instant(a.began), instant(a.ended)
			if machine := machines[a.instance]; machine != nil {
				m.Pool = machine.usage.Pool.String()
			}
			m.State = cmp.Or(a.outcome, Running)
			_, lost := a.useful(asOf)
			m.Lost = lost.length().Seconds()
		}
		switch {
		case f.dropped != "":
			m.State = Dropped
		case p.cancelled[name]:
			m.State = journal.Cancelled
		case m.State == journal.Failure:
			m.Output = f.output
		}
		if len(p.members) > 1 && strings.HasPrefix(name, "rank-") {
			m.Step, m.Loss = 0, nil // a gang has one step, which the journal records for whichever rank reports it
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Member) int { // task-2 before task-10
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// Failure is what is known about a run's failure: of its own, or of its rank or task that failed last.
type Failure struct {
	Why    string  `json:"why"`
	Member *Member `json:"program,omitempty"` // absent if an application was trained, or nothing has run
	Output string  `json:"output,omitempty"`  // the last lines of the program's output, or of the agent's log
	Others int     `json:"others,omitempty"`  // further ranks or tasks that failed
	Lost   string  `json:"lost"`              // in words
}

// outputLines is the number of a program's last lines that explain a failure.
const outputLines = 20

// Failure returns why the run, or a task of it, has failed; nil = neither has.
func (l *Ledger) Failure(asOf time.Time) *Failure {
	if !l.started {
		return nil
	}
	return failure(l.run(asOf), l.ran(asOf))
}

func failure(run Run, programs *Programs) *Failure {
	f := &Failure{Output: run.Log}
	if programs != nil {
		for i, m := range programs.Members {
			switch {
			case m.State != journal.Failure:
			case f.Member == nil || m.Ended != nil && m.Ended.After(*f.Member.Ended):
				if f.Member != nil {
					f.Others++
				}
				f.Member = &programs.Members[i]
			default:
				f.Others++
			}
		}
	}
	if run.Outcome != journal.Failure && (f.Member == nil || run.Outcome == journal.Finished) {
		return nil
	}
	f.Why = run.Why
	f.Lost = "Nothing beyond the newest checkpoint."
	if m := f.Member; m != nil {
		f.Why = cmp.Or(f.Why, m.Why)
		lines := strings.Split(m.Output, "\n")
		f.Output = cmp.Or(strings.Join(lines[max(0, len(lines)-outputLines):], "\n"), f.Output)
		f.Lost = m.lostWords()
	}
	return f
}

// Place returns where a member's newest attempt was, and how it ended, in words.
func (m *Member) Place() string {
	text := fmt.Sprintf("%s, attempt %d, on %s", m.Name, m.Attempts, m.Machine)
	if m.Pool != "" {
		text += " (" + words.Pool(m.Pool) + ")"
	}
	if m.Code != 0 {
		text += fmt.Sprintf(": exit code %d", m.Code)
	}
	return text
}

// lostWords describes what an ended member has lost, and from where it can resume.
func (m *Member) lostWords() string {
	switch work := words.Duration(m.Lost) + " of work"; {
	case m.SavedStep == nil && m.Lost == 0:
		return "No work: it had not begun."
	case m.SavedStep == nil:
		return work + ": no state was saved, so it begins anew."
	case m.Lost == 0:
		return fmt.Sprintf("Nothing: its state was saved at step %d.", *m.SavedStep)
	default:
		return fmt.Sprintf("%s since its state was saved at step %d.", work, *m.SavedStep)
	}
}

// instant returns nil for the zero time.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
