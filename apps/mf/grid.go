package mf

import (
	"cmp"
	"slices"

	"github.com/tierml/tierml/internal/parallel"
	"github.com/tierml/tierml/internal/vector/fast"
)

// grid divides ratings into blocks of some users by some items, as FPSGD does (Chin, Zhuang, Juan and Lin, "A fast
// parallel stochastic gradient method for matrix factorization in shared memory systems", ACM TIST 6(1), 2015). Threads
// work on blocks that share neither users nor items, and so need no locks; and a block's items stay in the second-level
// cache while its users are processed one after another.
//
// Unlike there, the order of blocks is fixed: a block is ready when the previous block with the same users and the
// previous one with the same items are done. So the result does not depend on the number or speed of threads, and no
// thread waits for all others.
type grid struct {
	users, items int             // numbers of groups
	blocks       [][][]fast.Cell // by batch and task
	order        *parallel.Graph
}

const (
	// itemBytes is the target size of the vectors of a group of items: half of a typical second-level cache.
	itemBytes = 512 << 10
	// Groups of items that fit the cache are not worth it if a user has fewer ratings per group than this: a larger
	// group's items come from the third-level cache, but users, of whom there are many more, come from memory less
	// often.
	leastPerUser = 8
	// The number of groups of users depends on the work of a clock, and is no more than keeps the threads busy. Each
	// user is processed once per group of items, of which there are at least as many, so groups must not have too few
	// ratings.
	userGroupCells  = 4096
	groupsPerThread = 2
	leastGroups     = 4 // and the most threads on which the result does not depend
	mostGroups      = 16
	perVisit        = 8
	// longVector is the size in bytes from which one vector keeps the processor busy.
	longVector = 1024
)

// gridSize is how many users and items there are, and how many have ratings.
type gridSize struct{ users, items, activeUsers, activeItems int }

// newGrid divides users, grouped into batches, and items into groups with about equal numbers of ratings. Cells
// are ordered by user.
func newGrid(cells []fast.Cell, size gridSize, batches, vectorBytes, threads int) *grid {
	users, items := max(size.activeUsers, 1), size.activeItems
	most := min(max(len(cells)/users/perVisit, leastGroups), mostGroups)
	if threads > leastGroups {
		most = max(most, groupsPerThread*threads)
	}
	g := &grid{users: min(max(len(cells)/batches/userGroupCells, 1), most, users)}
	g.items = max(g.users, min((items*vectorBytes+itemBytes-1)/itemBytes, len(cells)/users/leastPerUser))
	userGroup := groups(cells, size.users, g.users*batches, func(c fast.Cell) uint32 { return c.Row })
	itemGroup := byPopularity(cells, size.items, g.items)
	g.blocks = make([][][]fast.Cell, batches)
	for b := range g.blocks {
		g.blocks[b] = make([][]fast.Cell, g.tasks())
	}
	for _, cell := range cells {
		group := userGroup[cell.Row]
		block := &g.blocks[group/g.users][g.task(group%g.users, itemGroup[cell.Column])]
		*block = append(*block, cell)
	}
	if vectorBytes < longVector {
		for _, blocks := range g.blocks {
			for i := range blocks {
				blocks[i] = interleave(blocks[i])
			}
		}
	}
	g.order = g.inOrder()
	return g
}

// groups divides the numbers below n into groups with about equal numbers of cells, and returns each number's group.
func groups(cells []fast.Cell, n, count int, number func(fast.Cell) uint32) []int {
	train := make([]int, n)
	for _, c := range cells {
		train[number(c)]++
	}
	group := make([]int, n)
	for i, members := range deal(train, count) {
		for _, m := range members {
			group[m] = i
		}
	}
	return group
}

// byPopularity divides items into groups with about equal numbers of cells, starting with the most popular. So the
// first groups have few items, which stay in the fastest caches.
func byPopularity(cells []fast.Cell, items, count int) []int {
	popularity, order := make([]int, items), make([]int, items)
	for _, c := range cells {
		popularity[c.Column]++
	}
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(popularity[b], popularity[a]) })
	group, before := make([]int, items), 0
	for _, item := range order {
		group[item] = min(before*count/max(len(cells), 1), count-1)
		before += popularity[item]
	}
	return group
}

func (g *grid) tasks() int { return g.users * g.items }

// itemsOf returns the group of items for a group of users in a round: it goes through all groups of items,
// starting at its own. Tasks are numbered by round, then by group of users.
func (g *grid) itemsOf(users, round int) int { return (users*g.items/g.users + round) % g.items }

func (g *grid) task(users, items int) int {
	round := (items - users*g.items/g.users + g.items) % g.items
	return round*g.users + users
}

// inOrder returns the order of tasks.
func (g *grid) inOrder() *parallel.Graph {
	order := parallel.NewGraph(g.tasks())
	last := make([]int, g.items) // by group of items: the previous task, plus 1
	for round := range g.items {
		for users := range g.users {
			task := round*g.users + users
			if round > 0 {
				order.Before(task-g.users, task)
			}
			items := g.itemsOf(users, round)
			if last[items] > 0 {
				order.Before(last[items]-1, task)
			}
			last[items] = task + 1
		}
	}
	return order
}

// interleave mixes four stretches of a block, so that consecutive steps belong to different users and the
// processor can begin one before the last is finished.
func interleave(cells []fast.Cell) []fast.Cell {
	const ways = 4
	stretch := len(cells) / ways
	mixed := make([]fast.Cell, 0, len(cells))
	for i := range stretch {
		for way := range ways {
			mixed = append(mixed, cells[way*stretch+i])
		}
	}
	return append(mixed, cells[ways*stretch:]...)
}
