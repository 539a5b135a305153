package drill

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// account is a provider's account that can, or cannot, take machines back.
type account struct {
	done     *[]string
	preempts bool
}

func (a account) Terminate(_ context.Context, ids []string) error {
	*a.done = append(*a.done, "terminate "+strings.Join(ids, " "))
	return nil
}

func (a account) Preempt(_ context.Context, ids []string) error {
	if !a.preempts {
		return errors.New("cannot")
	}
	*a.done = append(*a.done, "preempt "+strings.Join(ids, " "))
	return nil
}

// Possible faults are caused through the provider's API; impossible ones are refused before any call, and the error lists the possible
// ones.
func TestThroughAProvider(t *testing.T) {
	var done []string
	machines := []Machine{{ID: "a"}, {ID: "b"}}
	undoable := map[bool]map[string]string{
		false: {Evict: "true notices need an experiment", Rebalance: "recommendations need an experiment"}, true: {Rebalance: "nothing is recommended"},
	}
	for preempts, reasons := range undoable {
		for _, do := range []string{Rebalance, Evict, EvictNow, Kill} {
			possible, err := Possible(do, reasons), Through(t.Context(), account{&done, preempts}, do, machines)
			if (possible == nil) != (err == nil) {
				t.Errorf("--do %s: %v, but %v", do, possible, err)
			}
			if possible != nil && !strings.Contains(possible.Error(), "--do kill") {
				t.Errorf("--do %s: %v", do, possible)
			}
		}
	}
	slices.Sort(done)
	if want := []string{"preempt a b", "terminate a b", "terminate a b"}; !slices.Equal(done, want) {
		t.Errorf("done: %q", done)
	}
	if err := Possible(Rebalance, undoable[true]); err == nil || !strings.Contains(err.Error(), "--do evict takes them back") {
		t.Error(err)
	}
}
