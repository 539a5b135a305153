package tiers

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tierml/tierml/ps"
)

// drawHistory repeatedly lays out a job, as members join and leave, and passes each step to f.
func drawHistory(t *rapid.T, f func(now Layout, members []Member, next Layout)) {
	now := empty(rapid.IntRange(1, 24).Draw(t, "partitions"), rapid.IntRange(1, 24).Draw(t, "splits"))
	members := fleet(0, rapid.IntRange(0, 3).Draw(t, "reliable"))
	joined := len(members)
	for range rapid.IntRange(1, 6).Draw(t, "steps") {
		for range rapid.IntRange(0, 20).Draw(t, "joins") {
			joined++
			members = append(members, Member{
				ID: named("t", joined, joined)[0], Tier: Transient, Joined: joined, VCPU: rapid.SampledFrom([]int{0, 4, 8, 16}).Draw(t, "vcpu"),
			})
		}
		var left []Member
		for _, m := range members {
			switch rapid.IntRange(0, 9).Draw(t, "fate") {
			case 0: // gone
				continue
			case 1:
				m.Leaving = true
			case 2:
				m.Leaving, m.NoWork = true, true
			}
			left = append(left, m)
		}
		members = left
		next := Next(now, members, DefaultThresholds())
		f(now, members, next)
		now = next
	}
}

// The same arguments give the same layout, in any order of the members, and are not changed.
func TestNextIsAFunction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawHistory(t, func(now Layout, members []Member, next Layout) {
			kept := Layout{Stage: now.Stage, Route: ps.Route{Owner: slices.Clone(now.Route.Owner), Backup: slices.Clone(now.Route.Backup)}, Worker: slices.Clone(now.Worker)}
			other := Next(now, rapid.Permutation(members).Draw(t, "order"), DefaultThresholds())
			if !reflect.DeepEqual(other, next) {
				t.Fatalf("members in another order: %+v, was %+v", other, next)
			}
			if !reflect.DeepEqual(now, kept) {
				t.Fatalf("Next has changed its argument")
			}
		})
	})
}

// A layout that suits its members stays unchanged.
func TestNextIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawHistory(t, func(_ Layout, members []Member, next Layout) {
			if again := Next(next, members, DefaultThresholds()); !reflect.DeepEqual(again, next) {
				t.Fatalf("again: %+v, was %+v", again, next)
			}
		})
	})
}

// Everything is assigned to a member that may have it, if there is one; and no member could pass an item to another one that would then
// have less than it.
func TestNextPlacesEverythingEvenly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawHistory(t, func(_ Layout, members []Member, next Layout) {
			stays := func(m Member) bool { return !m.Leaving }
			works := func(m Member) bool { return !m.NoWork }
			even := func(what string, ids []ps.ServerID, may func(Member) bool, weight func(Member) int) {
				if why := uneven(ids, members, may, weight); why != "" {
					t.Fatalf("%s in stage %d: %s\n%v\n%+v", what, next.Stage, why, ids, members)
				}
			}
			serves := func(m Member) bool { return stays(m) && slices.Contains(next.Route.Owner, m.ID) }
			if slices.ContainsFunc(members, stays) && slices.Contains(next.Route.Owner, "") {
				t.Fatalf("a partition without an owner: %v of %+v", next.Route.Owner, members)
			}
			one := func(Member) int { return 1 }
			even("owners", next.Route.Owner, serves, one)
			even("backups", next.Route.Backup, func(m Member) bool { return stays(m) && m.Tier == Reliable }, one)
			even("workers", next.Worker, func(m Member) bool {
				return works(m) && (next.Stage != Stage3 || m.Tier == Transient)
			}, func(m Member) int { return max(m.VCPU, 1) })
		})
	})
}

// uneven returns what is wrong with a spread; "" if nothing is.
func uneven(ids []ps.ServerID, members []Member, may func(Member) bool, weight func(Member) int) string {
	held := map[ps.ServerID]int{}
	for _, id := range ids {
		held[id]++
	}
	var allowed []Member
	for _, m := range members {
		if may(m) {
			allowed = append(allowed, m)
		} else if held[m.ID] > 0 {
			return string(m.ID) + " may not have any"
		}
	}
	if len(allowed) > 0 && held[""] > 0 {
		return "an item has no place"
	}
	for _, a := range allowed {
		for _, b := range allowed {
			if held[a.ID]*weight(b) > (held[b.ID]+1)*weight(a) {
				return string(a.ID) + " has too many, or " + string(b.ID) + " too few"
			}
		}
	}
	return ""
}

// No more items move than an even spread requires: compared with all even spreads, on small cases.
func TestNextMovesAsLittleAsCanBe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.IntRange(1, 9).Draw(t, "items")
		members := fleet(0, rapid.IntRange(1, 4).Draw(t, "members"))
		for i := range members {
			members[i].VCPU = rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "vcpu")
		}
		now := make([]ps.ServerID, items)
		held := make([]int, len(members))
		for i := range now {
			at := rapid.IntRange(0, len(members)).Draw(t, "at")
			if at == len(members) {
				now[i] = "gone"
				continue
			}
			now[i] = members[at].ID
			held[at]++
		}
		moved := 0
		next := spread(now, members, Member.weight)
		for i := range now {
			if next[i] != now[i] {
				moved++
			}
		}
		if least := fewestMoves(items, members, held); moved > least {
			t.Fatalf("%d items move, %d would do: from %v to %v on %+v", moved, least, now, next, members)
		}
	})
}

// fewestMoves tries every even way to distribute items, and returns the minimum number of moves.
func fewestMoves(items int, members []Member, held []int) int {
	least := math.MaxInt
	counts := make([]int, len(members))
	var share func(i, left int)
	share = func(i, left int) {
		if i < len(members)-1 {
			for n := range left + 1 {
				counts[i] = n
				share(i+1, left-n)
			}
			return
		}
		counts[i] = left
		moved := items
		for a, n := range counts {
			moved -= min(n, held[a])
			for b, m := range counts {
				if n*members[b].VCPU > (m+1)*members[a].VCPU {
					return
				}
			}
		}
		least = min(least, moved)
	}
	share(0, items)
	return least
}

func BenchmarkNext128(b *testing.B) {
	members := fleet(128, 1)
	now := Next(empty(256, 1024), members, DefaultThresholds())
	for b.Loop() {
		if l := Next(now, members, DefaultThresholds()); l.Stage != Stage3 {
			b.Fatal("stage")
		}
	}
}

// Preferred owners serve if they are reliable members that stay, and reliable machines serve at all; otherwise the layout is unchanged.
func TestPrefer(t *testing.T) {
	members := fleet(2, 2)
	leaving := slices.Clone(members)
	leaving[1].Leaving = true
	for _, c := range []struct {
		name    string
		members []Member
		stage   Stage
		owners  []ps.ServerID
		want    bool
	}{
		{"one of two", members, Stage1, []ps.ServerID{"r2", "r2", "r2", "r2"}, true},
		{"none", members, Stage1, nil, false},
		{"of another job", members, Stage1, []ps.ServerID{"r2"}, false},
		{"a transient one", members, Stage1, []ps.ServerID{"r1", "r2", "t1", "r1"}, false},
		{"one that leaves", leaving, Stage1, []ps.ServerID{"r2", "r2", "r2", "r2"}, false},
		{"one that is gone", members[2:], Stage1, []ps.ServerID{"r2", "r2", "r2", "r2"}, false},
		{"transient machines serve", members, Stage2, []ps.ServerID{"r2", "r2", "r2", "r2"}, false},
	} {
		l := Arrange(empty(4, 8), members, c.stage, 0)
		before := Layout{Stage: l.Stage, Worker: slices.Clone(l.Worker), Route: ps.Route{Owner: slices.Clone(l.Route.Owner), Backup: slices.Clone(l.Route.Backup)}}
		want := before.Route.Owner
		if c.want {
			want = c.owners
		}
		if got := Prefer(&l, c.members, c.owners); got != c.want || !slices.Equal(l.Route.Owner, want) ||
			!slices.Equal(l.Route.Backup, before.Route.Backup) || !slices.Equal(l.Worker, before.Worker) {
			t.Errorf("%s: %t, from %+v to %+v", c.name, got, before, l)
		}
	}
}

// Splits follow rates: a machine so slow that all would wait for its only split gets none, and alone it gets all.
func TestSlowMembersGetNoSplits(t *testing.T) {
	members := fleet(1, 4)
	for i := range members {
		members[i].VCPU, members[i].Rate = 4, 4
	}
	members[0].VCPU, members[0].Rate = 1, 0.1
	now := Layout{Worker: make([]ps.ServerID, 16), Route: ps.Route{Owner: make([]ps.ServerID, 2), Backup: make([]ps.ServerID, 2)}}
	next := Arrange(now, members, Stage2, 0)
	for i := range members[1:] {
		if n := held(next.Worker, members[i+1].ID); n != 4 {
			t.Errorf("%s has %d of 16 splits", members[i+1].ID, n)
		}
	}
	if n := held(Arrange(next, members[:1], Stage1, 0).Worker, members[0].ID); n != 16 {
		t.Errorf("alone it has %d of 16 splits", n)
	}
}

func held(ids []ps.ServerID, id ps.ServerID) (n int) {
	for _, h := range ids {
		if h == id {
			n++
		}
	}
	return n
}
