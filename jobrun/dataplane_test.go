package jobrun

import (
	"testing"

	"github.com/tierml/tierml/tiers/node"
)

// Two runs with the same name have different numbers on the data plane; a continued run keeps its number.
func TestDataPlaneOfEachRun(t *testing.T) {
	number := func(secret string) uint64 {
		s := &session{name: "demo-1", state: State{Secret: secret}}
		return node.JobNumber(s.dataPlane())
	}
	one, other, resumed := number("a"), number("b"), number("a")
	if one == other || one != resumed {
		t.Error(one, other, resumed)
	}
}
