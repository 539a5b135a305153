package mf

import (
	"cmp"
	"slices"

	"github.com/tierml/tierml/apps/parallel"
	"github.com/tierml/tierml/internal/vector/fast"
)

// grid cuts ratings into blocks of some users by some items, as FPSGD does (Chin, Zhuang, Juan and Lin, "A fast
// parallel stochastic gradient method for matrix factorization in shared memory systems", ACM TIST 6(1), 2015). Threads
// work on blocks that share neither users nor items, and so need no locks; and a block's items stay in the
// second-level cache while its users come by one after another.
//
// Unlike there, which block comes after which is fixed: a block is ready when the block before it with the same users
// and the one before it with the same items are done. So the result does not depend on how many threads there are or
// which is faster, and no thread waits for all others.
type grid struct {
	users, items int             // groups
	blocks       [][][]fast.Cell // by batch and task
	order        *parallel.Graph
}

const (
	// itemBytes is how much room the vectors of a group of items should take: half of a usual second-level cache.
	itemBytes = 512 << 10
	// A group of items is not worth a cache of its own when a user comes by for fewer ratings than this: the items of a
	// larger group come from the third-level cache, but users, of which there are many more, come from memory less often.
	leastPerUser = 8
	// Users make as many groups as the work of a clock is worth telling apart, but no more than keep the threads busy.
	// Each user comes by once for each group of items, of which there are at least as many: not for too few ratings.
	userGroupCells  = 4096
	groupsPerThread = 2
	leastGroups     = 4 // and the most threads that the result does not depend on
	mostGroups      = 16
	perVisit        = 8
	// longVector is from how many bytes on a vector is work enough to keep the processor busy by itself.
	longVector = 1024
)

// gridSize is how many users and items there are, and how many have ratings.
type gridSize struct{ users, items, activeUsers, activeItems int }

// newGrid deals users, grouped into batches, and items out to groups that are even in ratings. Cells come user by
// user.
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

// groups deals numbers below n out to groups, even in cells, and gives each number's group.
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

// byPopularity deals items out to groups, even in cells, from the most popular one on. So the first groups are of few
// items, which stay in the caches nearest to the processor.
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

// A group of users goes through all groups of items, in as many rounds, and begins at one of its own. Tasks are
// numbered by round, then by group of users.
func (g *grid) itemsOf(users, round int) int { return (users*g.items/g.users + round) % g.items }

func (g *grid) task(users, items int) int {
	round := (items - users*g.items/g.users + g.items) % g.items
	return round*g.users + users
}

// inOrder says which task comes before which.
func (g *grid) inOrder() *parallel.Graph {
	order := parallel.NewGraph(g.tasks())
	last := make([]int, g.items) // by group of items: the task before, plus 1
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

// interleave mixes four stretches of a block, so that steps that follow each other are of different users and the
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
