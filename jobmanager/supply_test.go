package jobmanager

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/sched"
)

// What jobs can share follows the shared hosts' journal: a host that is taken is missed until another one is bought, or until the market
// is asked again.
func TestSupply(t *testing.T) {
	now := time.Unix(1000, 0)
	s := &supply{sizes: map[string]sched.Resources{"big": {16}}, least: sched.Resources{8}, most: 3, there: map[string]sched.Resources{}, costs: newSlotPrices(nil, 0, 0)}
	last := []sched.Host(nil)
	look := func(after time.Duration, waiting bool, want string) {
		t.Helper()
		now = now.Add(after)
		last, _ = s.hosts(now, waiting, sched.Resources{2}, last)
		var got []string
		for _, h := range last {
			got = append(got, fmt.Sprintf("%s:%g", h.ID, h.Capacity[0]))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%v instead of %s", got, want)
		}
	}
	say := func(kind journal.Kind, instance, of string) {
		e := journal.Entry{Kind: kind, Instance: instance, Tier: "transient", Pool: "ec2/r/z/" + of + "/spot"}
		if kind == journal.Notice {
			e.Deadline = &now
		}
		s.take(e)
	}
	look(0, false, "[next-1:8 next-2:8 next-3:8]")
	say(journal.Launch, "a", "small")
	say(journal.Launch, "b", "big")
	look(0, true, "[a:8 b:16 next-1:8]")
	look(marketPatience, true, "[a:8 b:16 next-1:2]") // slots wait in vain
	look(believed, true, "[a:8 b:16 next-1:8]")       // it is asked again
	say(journal.Launch, "c", "small")
	look(time.Hour, true, "[a:8 b:16 c:8]")
	say(journal.Notice, "a", "")
	look(0, false, "[b:16 c:8 next-1:2]")
	say(journal.Evicted, "a", "")
	say(journal.Launch, "d", "small")
	look(0, false, "[b:16 c:8 d:8]")
	say(journal.Terminated, "d", "") // nobody had a slot there
	look(0, false, "[b:16 c:8 next-1:8]")
	before := slices.Clone(last)
	say(journal.Failed, "b", "")
	say(journal.Evicted, "c", "")
	look(0, true, "[b:16 c:8 next-1:8]") // nothing is left: everybody keeps what was decided
	if !slices.EqualFunc(before, last, func(a, b sched.Host) bool { return a.ID == b.ID }) {
		t.Error(last)
	}
	say(journal.LaunchFailed, "", "")
	say(journal.Launch, "e", "small")
	look(0, true, "[e:8 next-1:8 next-2:8]")
}
