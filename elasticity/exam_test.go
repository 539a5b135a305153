package elasticity

import (
	"slices"
	"testing"

	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/agent/agenttest"
)

// A node of these worlds with the exam as its controller.
func TestExam(t *testing.T) {
	for seed := range uint64(20) {
		for _, s := range []shape{six(), counting()} {
			w := newWorld(seed, s)
			w.absent = true
			n := newNode(w, provisioner.Instance{ID: "i-1"})
			w.nodes[n.id], n.booted = n, true
			e := &agenttest.Stepped{
				Take:  n.take,
				Rests: func(c ps.Clock) bool { return n.agent.Begun == c && n.agent.Round == nil && n.agent.Sending == nil },
				Holds: func(c ps.Clock) bool {
					return slices.ContainsFunc(n.kept, func(r tiers.Report) bool { h, ok := r.(tiers.CutHeld); return ok && h.Cut == c })
				},
				Step: func() bool {
					if len(w.queue) == 0 {
						return false
					}
					w.next()
					return true
				},
			}
			n.agent.Report = e.Report
			agenttest.Run(t, agenttest.Setup{Welcome: tiers.Welcome{Schema: w.schema, Incarnation: 1}, Self: n.id}, e)
		}
	}
}
