package node

import (
	"testing"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/agent/agenttest"
)

// examinee is a real node, with the real control and data plane on loopback.
type examinee struct {
	*world
	id ps.ServerID
}

func TestExam(t *testing.T) {
	real(t, nil, func(t *testing.T, w *world) {
		e := examinee{w, "i-1"}
		m := w.start(e.id, func(m *machine) { m.flops = 0 })
		hello := w.awaitReport(e.id, func(r tiers.Report) bool { _, ok := r.(tiers.Hello); return ok }).(tiers.Hello)
		agenttest.Run(t, agenttest.Setup{Welcome: w.welcome(1, 0), Self: e.id, Address: hello.Address}, e)
		if err := m.end(); err != nil {
			t.Error(err)
		}
	})
}

func (e examinee) Do(do tiers.Do) tiers.Answer { return e.answer(e.id, e.order(e.id, do)) }

func (e examinee) Rest(clock ps.Clock) { e.awaitClock(clock) }

func (e examinee) Held(cut ps.Clock) {
	e.awaitReport(e.id, func(r tiers.Report) bool { h, ok := r.(tiers.CutHeld); return ok && h.Cut == cut })
}
