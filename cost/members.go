package cost

import (
	"cmp"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
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
	Step     int64      `json:"step,omitempty"`
	Loss     *float64   `json:"loss,omitempty"`      // the last reported
	Code     int        `json:"exit_code,omitempty"` // of the newest attempt
	Machine  string     `json:"machine,omitempty"`
	Pool     string     `json:"pool,omitempty"`
	Began    *time.Time `json:"began,omitempty"`
	Ended    *time.Time `json:"ended,omitempty"`
	Why      string     `json:"why,omitempty"` // its attempt ended
}

// memberFacts are the journal's facts about a rank or task beyond its attempts.
type memberFacts struct {
	attempts int
	loss     *float64
	code     int
	why      string
	dropped  bool
}

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
		f.code, f.why = 0, ""
	}
	if e.TrainLoss != nil {
		f.loss = e.TrainLoss
	}
	switch e.Kind {
	case journal.ProgramEnd:
		f.code, f.why = e.Code, e.Why
	case journal.ProgramDropped:
		f.dropped = true
	}
}

// list returns all ranks or tasks that have begun, by number.
func (p *running) list(machines map[string]*machine) (out []Member) {
	for name, f := range p.members {
		m := Member{Name: name, State: Running, Attempts: f.attempts, Step: p.steps[name], Loss: f.loss, Code: f.code, Why: f.why}
		if a := p.newest[name]; a != nil {
			m.Machine, m.Began, m.Ended = a.instance, instant(a.began), instant(a.ended)
			if machine := machines[a.instance]; machine != nil {
				m.Pool = machine.usage.Pool.String()
			}
			m.State = cmp.Or(a.outcome, Running)
		}
		switch {
		case f.dropped:
			m.State = Dropped
		case p.cancelled[name]:
			m.State = journal.Cancelled
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Member) int { // task-2 before task-10
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// instant is nil for the zero time.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
