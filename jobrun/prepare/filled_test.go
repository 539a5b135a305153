package prepare

import (
	"math"
	"runtime"
	"testing"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/cost"
)

// Programs that use all of two or more cores may be able to use more; those that wait, or have one core, are assumed to use what they used.
func TestFilled(t *testing.T) {
	for name, c := range map[string]struct {
		cores float64
		vcpu  int
		want  bool
	}{"four threads": {3.9, 4, true}, "two of four": {2, 4, false}, "one thread": {1, 2, false}, "one core": {1, 1, false}, "waits": {.02, 2, false}, "unknown": {4, 0, false}} {
		former := &cost.Programs{Wanted: c.cores, Use: &cost.Use{VCPU: c.vcpu}}
		if got := filled(&config.Job{Cloud: "ec2"}, former); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if got, want := single(&config.Job{Cloud: "ec2"}, former), name == "one core"; got != want {
			t.Errorf("%s: the one core: %v", name, got)
		}
	}
	if filled(&config.Job{Cloud: "ec2"}, &cost.Programs{Wanted: 4}) {
		t.Error("it is known of machines that are not")
	}
}

// Programs that fill a machine may use any number of cores, unless their threads waited for a fixed number. Machines of the local cloud have no
// more cores than this computer.
func TestWanted(t *testing.T) {
	here := float64(runtime.NumCPU())
	for name, c := range map[string]struct {
		cloud        string
		wanted, want float64
		vcpu         int
	}{
		"one thread":                       {"ec2", 1, 1, 4},
		"a thread for each core":           {"ec2", 3.9, math.Inf(1), 4},
		"eight threads on four":            {"ec2", 8, 8, 4},
		"one thread, here":                 {config.CloudLocal, .9, .9, 64},
		"twice this computer's cores here": {config.CloudLocal, 2 * here, here, 64},
	} {
		if got := wanted(&config.Job{Cloud: c.cloud}, &cost.Programs{Wanted: c.wanted, Use: &cost.Use{VCPU: c.vcpu}}); got != c.want {
			t.Errorf("%s: %v cores, not %v", name, got, c.want)
		}
	}
}
