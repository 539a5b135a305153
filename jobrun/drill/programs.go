package drill

import (
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// programs is a watch's knowledge of a run of user programs.
type programs struct {
	runs  map[string]string // the machine of each program
	ended map[string]int64  // each one's progress when its last attempt ended
	hit   map[string]bool   // those whose machines are disturbed, and have not restarted elsewhere
}

// Runs reports whether user programs run, or have run.
func (w *Watch) Runs() bool { return len(w.of.runs) > 0 }

// struck records a disturbed machine.
func (p *programs) struck(machine string) {
	for name, on := range p.runs {
		if on == machine {
			p.hit[name] = true
		}
	}
}

// programStarts records an attempt. Training has continued when all programs of the disturbed machines run on others.
func (w *Watch) programStarts(e journal.Entry) {
	w.of.runs[e.Program] = e.Instance
	_, target := w.targets[e.Instance]
	if !w.of.hit[e.Program] || target {
		return
	}
	w.report.Steps += max(0, w.of.ended[e.Program]-e.Clock)
	w.recovered(e.Program, e.T)
}

func (w *Watch) programEnds(e journal.Entry) {
	w.of.ended[e.Program] = e.Clock
	if e.Outcome == journal.Finished {
		w.recovered(e.Program, e.T)
	}
}

// noticed records a notice. A recommendation takes no machine, so once the controller has it, its programs have survived.
func (w *Watch) noticed(e journal.Entry) {
	if e.Deadline != nil {
		w.warned[e.Instance] = true
		return
	}
	w.atRisk[e.Instance] = true
	if _, target := w.targets[e.Instance]; target && w.do == Rebalance {
		for name := range w.of.hit {
			if w.of.runs[name] == e.Instance {
				w.recovered(name, e.T)
			}
		}
	}
}

// recovered records that a disturbed program will not restart.
func (w *Watch) recovered(program string, at time.Time) {
	if !w.of.hit[program] {
		return
	}
	if delete(w.of.hit, program); len(w.of.hit) == 0 {
		w.report.WentOn = true
		w.report.Until = w.mapping.ToWall(at.Sub(w.at)).Seconds()
	}
}
