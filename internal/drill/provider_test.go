package drill

import (
	"context"
	"slices"
	"strings"
	"testing"
)

type account struct{ done *[]string }

func (a account) Terminate(_ context.Context, ids []string) error {
	*a.done = append(*a.done, "terminate "+strings.Join(ids, " "))
	return nil
}

type preempting struct{ account }

func (a preempting) Preempt(_ context.Context, ids []string) error {
	*a.done = append(*a.done, "preempt "+strings.Join(ids, " "))
	return nil
}

// What can be done is done through the provider's API; what cannot, is refused before anybody is asked, with what can.
func TestThroughAProvider(t *testing.T) {
	var done []string
	machines := []Machine{{ID: "a"}, {ID: "b"}}
	for _, provider := range []string{"ec2", "gce"} {
		for _, do := range Words() {
			var to Account = account{&done}
			if provider == "gce" {
				to = preempting{account{&done}}
			}
			possible, err := Possible(provider, do), Through(t.Context(), to, do, machines)
			if (possible == nil) != (err == nil) {
				t.Errorf("%s, --do %s: %v, but %v", provider, do, possible, err)
			}
			if possible != nil && !strings.Contains(possible.Error(), "--do kill") {
				t.Errorf("%s, --do %s: %v", provider, do, possible)
			}
		}
	}
	slices.Sort(done)
	if want := []string{"preempt a b", "terminate a b", "terminate a b"}; !slices.Equal(done, want) {
		t.Errorf("done: %q", done)
	}
	if err := Possible("ec2", Evict); err == nil || !strings.Contains(err.Error(), "Fault Injection Service") {
		t.Error(err)
	}
}
