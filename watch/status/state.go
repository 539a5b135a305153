package status

import (
	"fmt"
	"strings"

	"github.com/tierml/tierml/internal/journal"
)

// States of a run without an outcome.
const (
	Running = "running"
	Waiting = "waiting" // not working: it has no machines, or too few
	Paused  = "paused"  // by a person, a scheduler or a limit
	Killed  = "killed"  // its process has ended
)

// Active reports whether a process runs the run.
func Active(state string) bool { return state == Running || state == Waiting || state == Paused }

// State returns a run's state, and the reason; held: a process runs it.
func (s *Status) State(held bool) (state, why string) {
	switch {
	case s.Outcome != "":
		return s.Outcome, s.Why
	case !held:
		return Killed, s.Why
	case s.Why != "":
		return Paused, s.Why
	}
	if why := s.waits(); why != "" {
		return Waiting, why
	}
	return Running, ""
}

// waits returns what the run waits for; empty if some of it is working.
func (s *Status) waits() string {
	var count [leaving + 1]int
	for _, m := range s.machines {
		count[m.state]++
	}
	switch here, starts := count[joined]+count[leaving], count[starting]; {
	case here > 0 && (s.Start.Program == nil || s.Start.Program.Tasks > 0 || s.ranks.busy()):
		return ""
	case here == 0 && starts == 1:
		return "1 machine is starting"
	case here == 0 && starts > 0:
		return fmt.Sprintf("%d machines are starting", starts)
	case here == 0:
		return strings.TrimSuffix("no machine: "+s.lacks, ": ")
	case here < s.Start.Want.Machines && starts > 0:
		return fmt.Sprintf("%d of %d machines are there, %d starting", here, s.Start.Want.Machines, starts)
	case here < s.Start.Want.Machines:
		return fmt.Sprintf("%d of %d machines are there", here, s.Start.Want.Machines)
	}
	return "its machines prepare the program"
}

// lack records why there is no machine.
func (s *Status) lack(e journal.Entry) {
	s.lacks = ""
	switch p := s.planned; {
	case e.Kind == journal.LaunchFailed:
		s.lacks = e.Why
	case e.Kind == journal.Plan && p.Cost.High == 0 && len(p.Pools) > 0: // nothing can be bought yet
		s.lacks = strings.TrimSuffix(e.Why+": "+p.Pools[0].Why, ": ")
	}
}

// ranks are the running ranks of a gang or a single program.
type ranks struct {
	running map[string]bool
	done    bool // the last ended one is done
}

func (r *ranks) busy() bool { return r.done || len(r.running) > 0 }

func (r *ranks) take(e journal.Entry) {
	switch e.Kind {
	case journal.ProgramStart:
		if r.running == nil {
			r.running = map[string]bool{}
		}
		r.running[e.Program], r.done = true, false
	case journal.ProgramEnd:
		delete(r.running, e.Program)
		r.done = e.Outcome == journal.Finished
	}
}
