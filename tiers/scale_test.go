package tiers

import (
	"slices"
	"testing"

	"github.com/tierml/tierml/ps"
)

// served counts the partitions of each server.
func served(l Layout) map[ps.ServerID]int {
	n := map[ps.ServerID]int{}
	for _, id := range l.Route.Owner {
		n[id]++
	}
	return n
}

// An added server takes one partition from each of the others in turn, round-robin, and a removed server gives away its own in the same
// way: counts stay even, and nothing else moves.
func TestServersTakeAndGiveInTurn(t *testing.T) {
	members := fleet(12, 1)
	before := Arrange(empty(60, 60), members, Stage2, 5)
	after := Arrange(before, members, Stage2, 6)
	givers := map[ps.ServerID]int{}
	for p, owner := range after.Route.Owner {
		if was := before.Route.Owner[p]; was != owner {
			givers[was]++
			if owner != "t6" {
				t.Errorf("partition %d moves from %s to %s", p, was, owner)
			}
		}
	}
	if len(givers) != 5 || served(after)["t6"] != 10 {
		t.Errorf("the sixth server gets %d partitions, from %v; want 2 from each of 5", served(after)["t6"], givers)
	}
	again := Arrange(after, members, Stage2, 5)
	for id, n := range served(again) {
		if n != 12 {
			t.Errorf("%s has %d partitions, want 12", id, n)
		}
	}
	for p, owner := range again.Route.Owner {
		if was := after.Route.Owner[p]; was != owner && was != "t6" {
			t.Errorf("partition %d moves from %s to %s", p, was, owner)
		}
	}
}

// A number of servers applies in every stage, as far as there are machines.
func TestNumberOfServers(t *testing.T) {
	for _, c := range []struct {
		stage         Stage
		serving, want int
	}{{Stage1, 2, 2}, {Stage1, 9, 4}, {Stage2, 1, 1}, {Stage2, 7, 7}, {Stage3, 20, 12}, {Stage2, 0, 6}, {Stage1, 0, 4}} {
		l := Arrange(empty(64, 64), fleet(12, 4), c.stage, c.serving)
		if n := len(served(l)); n != c.want {
			t.Errorf("stage %d, %d servers asked for: %d serve, want %d", c.stage, c.serving, n, c.want)
		}
	}
}

// Splits go to machines that have their data, as far as that is even (the contract, Data and memory: taking an inactive
// split back moves no bytes).
func TestSplitsGoWhereTheirDataIs(t *testing.T) {
	members := fleet(4, 1)
	now := Arrange(empty(8, 40), members, Stage2, 0)
	for i := range members {
		for s, id := range now.Worker {
			if id == members[i].ID || members[i].Tier == Reliable {
				members[i].Loaded = members[i].Loaded.With([]ps.Split{ps.Split(s)})
			}
		}
	}
	more := append(slices.Clone(members), Member{ID: "t9", Tier: Transient, Joined: 9, VCPU: 4})
	then := Arrange(now, more, Stage2, 0)
	back := Arrange(then, members, Stage2, 0)
	for s, id := range back.Worker {
		i := slices.IndexFunc(members, func(m Member) bool { return m.ID == id })
		if !members[i].Loaded.Has(ps.Split(s)) {
			t.Errorf("split %d goes to %s, which does not have its data", s, id)
		}
	}
}

// A small model has few servers, however many machines there are, so that messages grow with the machines and not with their
// square; a large one is served by half (TierML, section 3.2).
func TestServersSuitTheModel(t *testing.T) {
	for _, c := range []struct {
		rows            uint64 // of 64 bytes
		bytes           int64
		transient, want int
	}{
		{0, 1 << 10, 8, 1}, {1, 1 << 10, 64, 1}, {16, 1 << 10, 64, 1}, {17, 1 << 10, 64, 2}, {100, 1 << 10, 64, 7}, {100, 1 << 10, 1000, 7},
		{100, 1 << 10, 8, 4}, {1 << 40, 1 << 10, 9, 5}, {100, 1 << 10, 1, 1}, {16, 0, 64, 32}, {0, 0, 9, 5},
	} {
		schema := &ps.Schema{Tables: []ps.Table{{Rows: c.rows, Cols: 16}}}
		rule := DefaultThresholds()
		rule.MostServers = ServersFor(schema, c.bytes)
		if n := rule.Serving(c.transient); n != c.want {
			t.Errorf("%d rows, %d bytes to a server, %d machines: %d servers, want %d", c.rows, c.bytes, c.transient, n, c.want)
		}
	}
}
