package sim

import (
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/agent/agenttest"
)

// A simulated node whose controller is the exam.
func TestExam(t *testing.T) {
	w := &world{cfg: Config{
		Job: Workload{Clocks: 9, Splits: 6, Partitions: 5, Work: 1e6}, FLOPSPerVCPU: 1e3, Observers: Observers{Record: func(journal.Entry) {}},
		Timing: Timing{Speed: 1, Reply: time.Millisecond, Move: time.Second, Cut: time.Second},
	}}
	w.result.Outcome = "nobody hears of it"
	f := newFleet(w)
	n := f.hire("i-1", 4).(*node)
	e := &agenttest.Stepped{
		Take:  n.take,
		Rests: func(c ps.Clock) bool { return f.complete == c },
		Holds: func(c ps.Clock) bool { return f.delivered == c },
		Step: func() bool {
			f.settleInstant()
			if w.queue.empty() {
				return false
			}
			var next event
			w.elapsed, w.rank, next = w.queue.pop()
			next.happen()
			return true
		},
	}
	n.agent.Report = e.Report
	schema := ps.Schema{Partitions: w.cfg.Job.Partitions, Splits: w.cfg.Job.Splits}
	agenttest.Run(t, agenttest.Setup{Welcome: tiers.Welcome{Schema: schema, Incarnation: 1}, Self: n.id}, e)
}
