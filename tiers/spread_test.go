package tiers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tierml/tierml/ps"
)

// spreadByLooking implements spread's rule literally: each item goes to the first member that would hold least, from the first that holds
// most, looking at all members each time.
func spreadByLooking(now []ps.ServerID, members []Member, weight func(Member) float64) []ps.ServerID {
	next := make([]ps.ServerID, len(now))
	if len(members) == 0 {
		return next
	}
	held := make([][]int, len(members))
	var homeless []int
	for item, id := range now {
		if i := slices.IndexFunc(members, func(m Member) bool { return m.ID == id }); i >= 0 {
			held[i] = append(held[i], item)
		} else {
			homeless = append(homeless, item)
		}
	}
	per := func(i, more int) float64 { return float64(len(held[i])+more) / weight(members[i]) }
	emptiest := func() (best int) {
		for i := range members {
			if per(i, 1) < per(best, 1) {
				best = i
			}
		}
		return best
	}
	fullest := func() (best int) {
		for i := range members {
			if per(i, 0) > per(best, 0) {
				best = i
			}
		}
		return best
	}
	has := func(to int) func(int) bool {
		return func(item int) bool { return members[to].Loaded.Has(ps.Split(item)) }
	}
	for len(homeless) > 0 {
		to := emptiest()
		i := max(slices.IndexFunc(homeless, has(to)), 0)
		held[to] = append(held[to], homeless[i])
		homeless = slices.Delete(homeless, i, i+1)
	}
	for {
		from, to := fullest(), emptiest()
		if per(from, 0) <= per(to, 1) {
			break
		}
		i := len(held[from]) - 1
		for j := i; j >= 0; j-- {
			if has(to)(held[from][j]) {
				i = j
				break
			}
		}
		held[to] = append(held[to], held[from][i])
		held[from] = slices.Delete(held[from], i, i+1)
	}
	for i, items := range held {
		for _, item := range items {
			next[item] = members[i].ID
		}
	}
	return next
}

func TestSpreadTakesTheFirstOfEach(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		members := make([]Member, r.IntN(12))
		items := r.IntN(60)
		for i := range members {
			members[i] = Member{ID: ps.ServerID(fmt.Sprint(i)), VCPU: 1 << r.IntN(4)}
			for item := range items {
				if r.IntN(3) == 0 {
					members[i].Loaded = append(members[i].Loaded, ps.Split(item))
				}
			}
		}
		now := make([]ps.ServerID, items)
		for i := range now {
			now[i] = ps.ServerID(fmt.Sprint(r.IntN(len(members) + 3))) // includes some that are gone
		}
		weight := func(m Member) float64 { return float64(m.VCPU) }
		if got, want := spread(now, members, weight), spreadByLooking(now, members, weight); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v\nbecomes %v\nwant    %v", seed, now, got, want)
		}
	}
}
