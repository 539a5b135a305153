package aggregation

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// A search for a packing of up to small tasks tries everything. For more it gives up after this many failed tries, for up to twice as many
// tasks 50 times as many, which finds the fewest in 200 of 200 random pools: for others ten times as many
// save .1 % more of Philly's servers.
const (
	small = 12
	tries = 2000
	few   = 100 // tasks that every Recycle packs anew, too; Repack does so with any number
)

// piece is a task that is packed anew.
type piece struct {
	of   *job
	task int
	busy float64 // the share of an aggregator that it needs at least
}

// Longest is the most iterations of its slowest job that a cycle may hold, whatever Limits.Longer says.
const Longest = 8

// bin is an aggregator to be. Its cycle may be one iteration of its slowest job, or several: it is decided in the end.
type bin struct {
	slowest time.Duration
	used    [Longest]usage // in cycles of 1, 2, ... iterations
	open    [Longest]bool  // all that it serves fits into such a cycle
}

// cycle returns the shortest that fits.
func (b *bin) cycle() time.Duration {
	return time.Duration(1+slices.Index(b.open[:], true)) * b.slowest
}

// free returns the largest share of a cycle that is left.
func (b *bin) free() (most float64) {
	for i, open := range b.open {
		if open {
			most = max(most, 1-float64(b.used[i].work)/(float64(1+i)*float64(b.slowest)))
		}
	}
	return most
}

// packing searches for a way to serve pieces on fewer aggregators.
//
// Pieces of the longest iterations come first. So the first piece of a bin sets its cycle, all that follow can only make it fuller, and what
// does not fit once never will.
type packing struct {
	limits Limits
	pieces []piece
	bins   []bin
	at     []int // the bin of each piece
	most   int   // bins
	left   int   // tries
}

// pack finds a packing of all tasks into at most this many aggregators; false: there is none, or the search gave
// up.
func (p *Pool) pack(most int) (packing, bool) {
	jobs := slices.SortedFunc(maps.Values(p.jobs), func(a, b *job) int {
		return cmp.Or(cmp.Compare(b.Iteration, a.Iteration), cmp.Compare(a.ID, b.ID))
	})
	k, need := packing{limits: p.limits, most: most}, 0.0
	for _, j := range jobs {
		for _, task := range j.order() {
			// An aggregator's turns of a job take at least 1-Loss of what the job's own iterations would.
			busy := (1 - p.limits.Loss) * float64(j.Tasks[task].Exec) / float64(j.Iteration)
			k.pieces, need = append(k.pieces, piece{j, task, busy}), need+busy
		}
	}
	k.at, k.left = make([]int, len(k.pieces)), p.tries+len(k.pieces)
	switch {
	case len(k.pieces) <= small:
		k.left = math.MaxInt
	case len(k.pieces) <= 2*small:
		k.left *= 50
	}
	return k, k.place(0, need, float64(most))
}

// place places the pieces from the i-th, which need at least `need` aggregators and find `free` free: each where the least is left, then
// elsewhere.
func (k *packing) place(i int, need, free float64) bool {
	if i == len(k.pieces) {
		return true
	}
	if need > free+1e-9 {
		return false
	}
	of := k.pieces[i]
	into := func(at int, full bin) bool {
		if k.left--; k.left < 0 {
			return false
		}
		before := k.bins[at]
		k.bins[at], k.at[i] = full, at
		if k.place(i+1, need-of.busy, free-before.free()+full.free()) {
			return true
		}
		k.bins[at] = before
		return false
	}
	best, fullest := -1, bin{}
	for at := range k.bins {
		if full, ok := k.with(at, of); ok && (best < 0 || full.free() < fullest.free()) {
			best, fullest = at, full
		}
	}
	if best >= 0 && (into(best, fullest) || k.elsewhere(of, best, fullest, into)) {
		return true
	}
	if len(k.bins) == k.most {
		return false
	}
	empty := bin{slowest: of.of.Iteration}
	for i := range min(max(k.limits.Longer, 1), Longest) {
		empty.open[i] = true
	}
	k.bins = append(k.bins, empty)
	if full, ok := k.with(len(k.bins)-1, of); ok && into(len(k.bins)-1, full) {
		return true
	}
	k.bins = k.bins[:len(k.bins)-1]
	return false
}

// elsewhere tries the other bins for a piece, the fullest first. Of bins that would be equal one is enough.
func (k *packing) elsewhere(of piece, best int, tried bin, into func(int, bin) bool) bool {
	type option struct {
		at   int
		full bin
	}
	var options []option
	for at := range k.bins {
		if full, ok := k.with(at, of); ok && at != best {
			options = append(options, option{at, full})
		}
	}
	slices.SortStableFunc(options, func(a, b option) int { return cmp.Compare(a.full.free(), b.full.free()) })
	for _, o := range options {
		if o.full != tried && into(o.at, o.full) {
			return true
		}
		tried = o.full
	}
	return false
}

// with returns a bin with a piece more; false: it does not fit.
func (k *packing) with(at int, of piece) (full bin, ok bool) {
	full = k.bins[at]
	added := load{of: of.of}
	added.add(of.of.Tasks[of.task], 1)
	for i := range full.open {
		if !full.open[i] {
			continue
		}
		cycle := time.Duration(1+i) * full.slowest
		full.used[i].add(&added, cycle)
		full.open[i] = loss(cycle, of.of.Iteration) <= k.limits.Loss && full.used[i].within(cycle, k.limits)
		ok = ok || full.open[i]
	}
	return full, ok
}

// Repack is for aggregators of one core that follow their turns (no Limits.Late). It recycles, and then packs all tasks from nothing; it adopts the result if that frees aggregators for few enough moves. It is for
// periodic scaling: the paper has nothing like it, and small clusters need it.
func (p *Pool) Repack() Change {
	c := p.Recycle()
	p.repack(&c)
	return c
}

func (p *Pool) repack(c *Change) {
	used := slices.DeleteFunc(slices.Clone(p.aggregators), func(a *aggregator) bool { return len(a.loads) == 0 })
	var best packing
	for most := len(used) - 1; most > 0; most = len(best.bins) - 1 {
		k, ok := p.pack(most)
		if !ok {
			break
		}
		best = k
	}
	if best.bins == nil {
		return
	}
	to := best.matched(used)
	if moves := best.moves(to); p.limits.Moves > 0 && moves > p.limits.Moves*(len(used)-len(to)) {
		return
	}
	p.adopt(c, best, to)
}

// matched gives each bin the aggregator that has most of its pieces already.
func (k *packing) matched(used []*aggregator) []*aggregator {
	type match struct {
		bin, kept int
		on        *aggregator
	}
	kept := map[match]int{}
	for i, of := range k.pieces {
		kept[match{bin: k.at[i], on: of.of.at[of.task]}]++
	}
	var matches []match
	for b := range k.bins {
		for _, a := range used {
			matches = append(matches, match{b, kept[match{bin: b, on: a}], a})
		}
	}
	slices.SortStableFunc(matches, func(a, b match) int { return cmp.Compare(b.kept, a.kept) })
	to, taken := make([]*aggregator, len(k.bins)), map[*aggregator]bool{}
	for _, m := range matches {
		if to[m.bin] == nil && !taken[m.on] {
			to[m.bin], taken[m.on] = m.on, true
		}
	}
	return to
}

// moves returns how many pieces are elsewhere.
func (k *packing) moves(to []*aggregator) (n int) {
	for i, of := range k.pieces {
		if of.of.at[of.task] != to[k.at[i]] {
			n++
		}
	}
	return n
}

// adopt moves tasks as a packing has them.
func (p *Pool) adopt(c *Change, k packing, to []*aggregator) {
	for _, of := range k.pieces {
		a := of.of.at[of.task]
		a.loads, a.cycle = nil, 0
	}
	p.changes++
	for i, of := range k.pieces {
		from, a := of.of.at[of.task], to[k.at[i]]
		a.take(of.of, of.of.Tasks[of.task])
		a.cycle = k.bins[k.at[i]].cycle()
		if of.of.at[of.task] = a; from != a {
			c.Moves = append(c.Moves, Move{Job: of.of.ID, Task: of.task, From: from.id, To: a.id})
			p.watch(of.of)
		}
	}
	p.release(c, p.aggregators)
}
