package sim

import (
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/agent/agenttest"
)

// examinee is a simulated node whose controller is the exam.
type examinee struct {
	t      *testing.T
	n      *node
	id     uint64
	answer tiers.Answer
}

func TestExam(t *testing.T) {
	w := &world{cfg: Config{
		Job: Job{Clocks: 9, Splits: 6, Partitions: 5, Work: 1e6}, FLOPSPerVCPU: 1e3, Record: func(journal.Entry) {},
		Timing: Timing{Speed: 1, Reply: time.Millisecond, Move: time.Second, Cut: time.Second},
	}}
	w.result.Outcome = "nobody hears of it"
	e := &examinee{t: t, n: newFleet(w).hire("i-1", 4).(*node)}
	e.n.agent.Report = func(r tiers.Report) {
		if a, ok := r.(tiers.Answer); ok {
			e.answer = a
		}
	}
	schema := ps.Schema{Partitions: w.cfg.Job.Partitions, Splits: w.cfg.Job.Splits}
	agenttest.Run(t, agenttest.Job{Welcome: tiers.Welcome{Schema: schema, Incarnation: 1}, Self: e.n.id}, e)
}

func (e *examinee) Do(do tiers.Do) tiers.Answer {
	e.id++
	e.n.take(tiers.Command{ID: e.id, Do: do})
	e.until(func() bool { return e.answer.ID == e.id })
	return e.answer
}

func (e *examinee) Rest(clock ps.Clock) { e.until(func() bool { return e.n.f.complete == clock }) }

func (e *examinee) Held(cut ps.Clock) { e.until(func() bool { return e.n.f.delivered == cut }) }

func (e *examinee) until(so func() bool) {
	e.t.Helper()
	for w := e.n.f.w; !so(); {
		e.n.f.settleInstant()
		if len(w.queue.heap) == 0 {
			e.t.Fatal("waited in vain")
		}
		next := w.queue.pop()
		w.elapsed, w.rank = next.at, next.rank
		next.do()
	}
}
