package elasticity

import (
	"slices"
	"testing"

	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/agent/agenttest"
)

// examinee is a node of these worlds whose controller is the exam.
type examinee struct {
	t      *testing.T
	n      *node
	id     uint64
	answer tiers.Answer
}

func TestExam(t *testing.T) {
	for seed := range uint64(20) {
		for _, s := range []shape{six(), counting()} {
			w := newWorld(seed, s)
			w.absent = true
			e := &examinee{t: t, n: newNode(w, provisioner.Instance{ID: "i-1"})}
			w.nodes[e.n.id], e.n.booted = e.n, true
			e.n.agent.Report = func(r tiers.Report) {
				if a, ok := r.(tiers.Answer); ok {
					e.answer = a
				}
			}
			agenttest.Run(t, agenttest.Job{Welcome: tiers.Welcome{Schema: w.schema, Incarnation: 1}, Self: e.n.id}, e)
		}
	}
}

func (e *examinee) Do(do tiers.Do) tiers.Answer {
	e.id++
	e.n.take(tiers.Command{ID: e.id, Do: do})
	e.until(func() bool { return e.answer.ID == e.id })
	return e.answer
}

func (e *examinee) Rest(clock ps.Clock) {
	e.until(func() bool { return e.n.agent.Begun == clock && e.n.agent.Round == nil && e.n.agent.Sending == nil })
}

func (e *examinee) Held(cut ps.Clock) {
	e.until(func() bool {
		return slices.ContainsFunc(e.n.kept, func(r tiers.Report) bool { h, ok := r.(tiers.CutHeld); return ok && h.Cut == cut })
	})
}

func (e *examinee) until(so func() bool) {
	e.t.Helper()
	for !so() {
		if len(e.n.w.queue) == 0 {
			e.t.Fatal("waited in vain")
		}
		e.n.w.next()
	}
}
