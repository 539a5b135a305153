package prepare

import (
	"strings"
	"testing"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
)

// A plan warns of more machines than the host can simulate, and a run with more than fit in its memory is refused.
func TestMachinesOfThisHost(t *testing.T) {
	h := host{cores: 2, memory: 8 << 30}
	for _, c := range []struct {
		machines     int
		warns, fails bool
	}{{64, false, false}, {65, true, false}, {128, true, false}, {129, true, true}} {
		warning := h.warn(c.machines)
		if err := h.Admit(&config.Job{}, c.machines); (warning != "") != c.warns || (err != nil) != c.fails {
			t.Errorf("%d machines: %q, %v", c.machines, warning, err)
		}
		if c.warns && !strings.Contains(warning, "64 machines") {
			t.Errorf("it does not tell how many: %q", warning)
		}
	}
	if h := (host{cores: 4}); h.plays() != 128 || h.Admit(&config.Job{}, 1000) != nil {
		t.Errorf("nobody knows the memory: %d machines", h.plays())
	}
	if ThisHost().plays() < 1 {
		t.Error("this host plays no machine")
	}
	choice := planner.Resolved{Want: bidding.Want{VCPU: 100}, Reliable: planner.Fleet{Count: 1},
		Pools: []bidding.Candidate{{Type: market.InstanceType{VCPU: 16}}, {Type: market.InstanceType{VCPU: 8}}}}
	if got := LocalMachines(&config.Job{Cloud: config.CloudLocal}, choice); got != 14 {
		t.Errorf("%d machines, want 13 of 8 vCPUs and a reliable one", got)
	}
	if got := LocalMachines(&config.Job{Cloud: "ec2"}, choice); got != 0 {
		t.Errorf("%d machines of a cloud are played here", got)
	}
}
