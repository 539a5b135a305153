package jobrun

import (
	"testing"

	"github.com/tierml/tierml/tiers/node"
)

// Two runs of one name have different numbers on the data plane; one that continues has the same.
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
