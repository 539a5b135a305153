package jobmanager

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sched"
)

// What jobs can share follows the shared hosts' journal: a lost host is missing until another one is bought, or until the market is queried
// again.
func TestSupply(t *testing.T) {
	now := time.Unix(1000, 0)
	s := &supply{sizes: map[string]sched.Resources{"big": {16}}, least: sched.Resources{8}, most: 3, there: map[string]sched.Resources{}, costs: newSlotPrices(nil, 0)}
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
	look(believed, true, "[a:8 b:16 next-1:8]")       // it is queried again
	say(journal.Launch, "c", "small")
	look(time.Hour, true, "[a:8 b:16 c:8]")
	say(journal.Notice, "a", "")
	look(0, false, "[b:16 c:8 next-1:2]")
	say(journal.Evicted, "a", "")
	say(journal.Launch, "d", "small")
	look(0, false, "[b:16 c:8 d:8]")
	say(journal.Terminated, "d", "") // no job had a slot there
	look(0, false, "[b:16 c:8 next-1:8]")
	before := slices.Clone(last)
	say(journal.Failed, "b", "")
	say(journal.Evicted, "c", "")
	look(0, true, "[b:16 c:8 next-1:8]") // nothing is left: all jobs keep what was decided
	if !slices.EqualFunc(before, last, func(a, b sched.Host) bool { return a.ID == b.ID }) {
		t.Error(last)
	}
	say(journal.LaunchFailed, "", "")
	say(journal.Launch, "e", "small")
	look(0, true, "[e:8 next-1:8 next-2:8]")
}

// Surplus hosts are released shortly before their paid time ends, the youngest first; if market time is faster, by that much less
// wall-clock time. A host that is being released does not count any more.
func TestHostsAreGivenBackAtTheEndOfTheirHour(t *testing.T) {
	pool := bidding.Candidate{Pool: market.Pool{Provider: "ec2", Region: "r", Zone: "z", Type: "c.x", Class: market.Spot}, Type: market.InstanceType{Name: "c.x", VCPU: 4, OnDemand: market.Dollar}}
	s := &supply{sizes: map[string]sched.Resources{}, least: sched.Resources{4}, most: 3, there: map[string]sched.Resources{}, costs: newSlotPrices([]bidding.Candidate{pool}, 12)}
	s.costs.bought, s.costs.look = time.Hour, 60
	passes := clock.Mapping{Wall: time.Unix(5000, 0), Market: time.Unix(0, 0), Speed: 10}
	for _, h := range []struct {
		minute int
		id     string
	}{{0, "i-z"}, {30, "i-b"}, {31, "i-a"}} {
		s.take(journal.Entry{Kind: journal.Launch, T: time.Unix(int64(h.minute)*60, 0), Instance: h.id, Tier: "transient", Pool: pool.Pool.String()})
	}
	at := func(minute, want int) string {
		now := passes.WallAt(time.Unix(int64(minute)*60, 0))
		return fmt.Sprint(s.costs.market(s.there, now, passes).TooMany(want, unix(now)))
	}
	for _, c := range []struct {
		minute, want int
		hosts        string
	}{{45, 0, "[]"}, {55, 0, "[i-z]"}, {55, 9, "[]"}, {85, 0, "[i-a i-b]"}, {85, 8, "[i-a]"}, {85, 12, "[]"}} {
		if got := at(c.minute, c.want); got != c.hosts {
			t.Errorf("minute %d, %d slots wanted: %s go back, want %s", c.minute, c.want, got, c.hosts)
		}
	}
	s.take(journal.Entry{Kind: journal.Release, Instance: "i-a"})
	if got := at(85, 4); got != "[i-b]" || s.refused {
		t.Errorf("after one has gone: %s go back, the market refuses: %t", got, s.refused)
	}
}
