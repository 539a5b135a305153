package tiers

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tierml/tierml/ps"
)

// Each test restates a rule of TierML (CMU-PDL-16-102), section 3.

// fleet returns reliable machines r1.. and transient ones t1.., which joined in this order.
func fleet(transient, reliable int) []Member {
	var members []Member
	add := func(tier Tier, letter string, n int) {
		for i := range n {
			members = append(members, Member{ID: ps.ServerID(fmt.Sprintf("%s%d", letter, i+1)), Tier: tier, Joined: len(members) + 1, VCPU: 4})
		}
	}
	add(Reliable, "r", reliable)
	add(Transient, "t", transient)
	return members
}

// empty returns a layout without any assignments.
func empty(partitions, splits int) Layout {
	return Layout{
		Route:  ps.Route{Owner: make([]ps.ServerID, partitions), Backup: make([]ps.ServerID, partitions)},
		Worker: make([]ps.ServerID, splits),
	}
}

// first lays out a job on a fleet for the first time: 64 partitions and 256 splits.
func first(transient, reliable int) Layout {
	return Next(empty(64, 256), fleet(transient, reliable), DefaultThresholds())
}

// holders returns the distinct ids of a list, sorted.
func holders(ids []ps.ServerID) []ps.ServerID {
	out := slices.Clone(ids)
	slices.Sort(out)
	return slices.Compact(out)
}

// named returns sorted ids.
func named(letter string, from, to int) (ids []ps.ServerID) {
	for i := from; i <= to; i++ {
		ids = append(ids, ps.ServerID(fmt.Sprintf("%s%d", letter, i)))
	}
	slices.Sort(ids)
	return ids
}

func union(lists ...[]ps.ServerID) []ps.ServerID { return holders(slices.Concat(lists...)) }

func expect(t *testing.T, what string, got, want []ps.ServerID) {
	t.Helper()
	if !slices.Equal(holders(got), want) {
		t.Errorf("%s on %v, want %v", what, holders(got), want)
	}
}

// Section 3.2: stage 1 up to as many transient machines as reliable ones, stage 2 up to 15 to one, stage 3 beyond.
func TestPaperStagesFollowTheRatio(t *testing.T) {
	for _, c := range []struct {
		transient, reliable int
		want                Stage
	}{
		{0, 1, Stage1}, {1, 1, Stage1}, {4, 4, Stage1}, {5, 4, Stage2}, {2, 1, Stage2},
		{60, 4, Stage2}, {15, 1, Stage2}, {61, 4, Stage3}, {16, 1, Stage3}, {63, 1, Stage3},
	} {
		if got := first(c.transient, c.reliable).Stage; got != c.want {
			t.Errorf("%d transient to %d reliable: stage %d, want %d", c.transient, c.reliable, got, c.want)
		}
	}
}

// Stage 1: parameter servers on the reliable machines only, workers on all.
func TestPaperStage1ParamServsOnReliableMachines(t *testing.T) {
	l := first(4, 4)
	expect(t, "ParamServs", l.Route.Owner, named("r", 1, 4))
	expect(t, "workers", l.Worker, union(named("r", 1, 4), named("t", 1, 4)))
}

// Stage 2: ActivePSs on half of the transient machines, BackupPSs on the reliable ones, workers on all.
func TestPaperStage2ActivePSsOnHalfOfTheTransientMachines(t *testing.T) {
	for _, n := range []int{8, 9, 60} {
		l := first(n, 4)
		expect(t, "ActivePSs", l.Route.Owner, named("t", 1, (n+1)/2))
		expect(t, "BackupPSs", l.Route.Backup, named("r", 1, 4))
		expect(t, "workers", l.Worker, union(named("r", 1, 4), named("t", 1, n)))
	}
}

// Stage 3: as stage 2, with no workers on the reliable machines: they would be the stragglers.
func TestPaperStage3NoWorkersOnReliableMachines(t *testing.T) {
	l := first(63, 1)
	expect(t, "ActivePSs", l.Route.Owner, named("t", 1, 32))
	expect(t, "BackupPSs", l.Route.Backup, named("r", 1, 1))
	expect(t, "workers", l.Worker, named("t", 1, 63))
}

// Table 1: which roles are on which machines. A reliable machine that serves is a BackupPS at the same time.
func TestPaperRoles(t *testing.T) {
	for _, c := range []struct {
		transient, reliable int
		id                  ps.ServerID
		tier                Tier
		want                []Role
	}{
		{1, 1, "r1", Reliable, []Role{Worker, ParamServ, BackupPS}},
		{1, 1, "t1", Transient, []Role{Worker}},
		{4, 1, "r1", Reliable, []Role{Worker, BackupPS}},
		{4, 1, "t2", Transient, []Role{Worker, ActivePS}},
		{4, 1, "t3", Transient, []Role{Worker}},
		{63, 1, "r1", Reliable, []Role{BackupPS}},
	} {
		if got := first(c.transient, c.reliable).Roles(Member{ID: c.id, Tier: c.tier}); !slices.Equal(got, c.want) {
			t.Errorf("%d:%d, %s: %v, want %v", c.transient, c.reliable, c.id, got, c.want)
		}
	}
	l := Next(empty(1, 1), fleet(4, 1), DefaultThresholds())
	if got := l.Roles(Member{ID: "t4", Tier: Transient}); !slices.Equal(got, []Role{Standby}) {
		t.Errorf("a machine for which there is nothing: %v", got)
	}
}

// Section 3.3, bulk revocation: with all transient machines warned, the reliable ones serve and work again. Those that
// only drain their paid hour work on and serve no longer.
func TestPaperBulkRevocationReturnsToTheReliableMachines(t *testing.T) {
	members := fleet(63, 1)
	for i := range members[1:] {
		members[i+1].Leaving, members[i+1].NoWork = true, i%2 == 0
	}
	l := Next(first(63, 1), members, DefaultThresholds())
	if l.Stage != Stage1 {
		t.Errorf("stage %d", l.Stage)
	}
	expect(t, "ParamServs", l.Route.Owner, named("r", 1, 1))
	var working []ps.ServerID
	for _, m := range members {
		if !m.NoWork {
			working = append(working, m.ID)
		}
	}
	expect(t, "workers", l.Worker, union(working))
}

// Section 3.3, partial revocation: partitions go to surviving ActivePSs, or to other surviving transient machines, so that half of the
// survivors serve. Partitions that survivors serve stay.
func TestPaperPartialRevocationMovesPartitionsToSurvivors(t *testing.T) {
	before := first(8, 1)
	members := fleet(8, 1)
	for i := 1; i <= 3; i++ { // t1 to t3 of the four that serve
		members[i].Leaving, members[i].NoWork = true, true
	}
	l := Next(before, members, DefaultThresholds())
	expect(t, "ActivePSs", l.Route.Owner, named("t", 4, 6))
	expect(t, "BackupPSs", l.Route.Backup, named("r", 1, 1))
	for p, owner := range before.Route.Owner {
		if owner == "t4" && l.Route.Owner[p] != "t4" {
			t.Errorf("partition %d leaves a survivor", p)
		}
	}
}

// Footnote 7: without a reliable machine, the others serve.
func TestPaperWithoutReliableMachinesTheOthersServe(t *testing.T) {
	for n := 1; n < 5; n++ {
		l := first(n, 0)
		expect(t, "servers", l.Route.Owner, named("t", 1, (n+1)/2))
		expect(t, "workers", l.Worker, named("t", 1, n))
	}
}
