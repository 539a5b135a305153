package prepare

import (
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
		former := &cost.Programs{Cores: c.cores, Use: &cost.Use{VCPU: c.vcpu}}
		if got := filled(&config.Job{Cloud: "ec2"}, former); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if got, want := single(&config.Job{Cloud: "ec2"}, former), name == "one core"; got != want {
			t.Errorf("%s: the one core: %v", name, got)
		}
	}
	if filled(&config.Job{Cloud: "ec2"}, &cost.Programs{Cores: 4}) {
		t.Error("it is known of machines that are not")
	}
}
