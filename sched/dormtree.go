package sched

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// How much an answer is improved, in nodes of search trees: wholeTree bounds the one over all apps and hosts, partTree each of those over
// a few hosts, and allParts these together. Problems with more than mostPlaces pairs of apps and hosts keep the greedy answer, which is
// within a few percent of the bound there.
const (
	wholeTree  = 60_000
	partTree   = 1_000
	allParts   = 500_000
	stale      = 200 // parts without an improvement end the search; far from the bound, three times as many do
	far        = .03
	mostPlaces = 2000
	near       = 1e-3 // the bound: an answer as near is not improved
)

// polish improves the greedy answer. A small problem is searched whole, so that its answer is the best and there is one whenever there can
// be. In a larger one, all apps are placed again on a few random hosts at a time, again and again (large neighbourhood search).
func (p *problem) polish(x *answer) *answer {
	if len(p.apps) == 0 || !p.small() {
		return x
	}
	bound := p.tighten(x)
	t := &tree{problem: p, best: x, nodes: wholeTree}
	all := make([]int, len(p.caps))
	for h := range all {
		all[h] = h
	}
	if t.search(all, t.byShare()) {
		return t.best
	}
	r := rand.New(rand.NewPCG(uint64(len(p.apps)), uint64(len(p.caps))))
	since := 0 // the last improvement
	for left := allParts; left > 0 && since < t.patience(bound) && t.worth < bound*(1-near); left -= partTree - max(t.nodes, 0) + 100 {
		t.nodes = partTree
		t.repair = t.lacking(t.best) > 0
		before := t.worth
		hosts := r.Perm(len(p.caps))[:min(len(p.caps), 1+r.IntN(4))]
		t.search(hosts, r.Perm(len(p.apps)))
		if since++; t.worth > before+rounding {
			since = 0
		}
	}
	return t.best
}

func (t *tree) patience(bound float64) int {
	if t.worth > bound*(1-far) {
		return stale
	}
	return 3 * stale
}

// small reports whether answers are improved.
func (p *problem) small() bool { return len(p.apps)*len(p.caps) <= mostPlaces }

// tighten lowers the prices that bound trees, towards the value of an answer, and returns the bound.
func (p *problem) tighten(x *answer) float64 {
	reached := .9 * float64(len(p.total))
	if p.lacking(x) == 0 {
		reached = p.valueOf(x)
	}
	return p.bound(reached)
}

// tree searches the placements of apps on some hosts depth first; what they have on other hosts stays. A branch ends when capacity, fairness
// or the number of resized apps is exceeded, or when the relaxation (dormbound.go) at the present prices shows that it holds nothing better.
type tree struct {
	*problem
	best  *answer // so far
	nodes int     // that may still be visited
	// repair: best lacks something, and any answer that lacks less is better. Whole trees look for answers that lack nothing.
	repair bool

	hosts, order []int
	x            answer    // under way: apps of order before the present one are placed
	most         []float64 // of the apps from each position on: the relaxation's value
	fairest      []float64 // and the least loss of fairness
	worth        float64   // of the best
	moved        bool      // best was replaced in this search
}

// byShare orders apps by their dominant shares, the largest first: the hardest to place come first.
func (t *tree) byShare() []int {
	order := make([]int, len(t.apps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t.apps[b].share, t.apps[a].share) })
	return order
}

// search reports whether it saw everything.
func (t *tree) search(hosts, order []int) bool {
	t.hosts, t.order, t.moved = hosts, order, false
	t.worth = math.Inf(-1)
	if lacks := t.lacking(t.best); t.repair {
		t.worth = -lacks
	} else if lacks == 0 {
		t.worth = t.valueOf(t.best)
	}
	t.x = answer{free: make([]Resources, len(t.caps))}
	for h, c := range t.caps {
		t.x.free[h] = slices.Clone(c)
	}
	t.x.on, t.x.counts = make([][]int, len(t.apps)), make([]int, len(t.apps))
	for i := range t.apps {
		t.x.on[i] = slices.Clone(t.best.on[i])
		for _, h := range hosts {
			t.x.on[i][h] = 0
		}
		for h, n := range t.x.on[i] {
			t.x.counts[i] += n
			for k, v := range t.apps[i].demand {
				t.x.free[h][k] -= v * float64(n)
			}
		}
	}
	t.relaxation()
	r := t.prices
	rent := 0.
	for ty := range r.types {
		for k, v := range r.types[ty].total {
			rent += r.price[ty*len(t.total)+k] * v
		}
	}
	t.place(0, 0, rent, 0, 0)
	return t.nodes > 0
}

// relaxation sums what the relaxation gives apps from each position on, and their least losses.
func (t *tree) relaxation() {
	r := t.prices
	t.most, t.fairest = make([]float64, len(t.order)+1), make([]float64, len(t.order)+1)
	for at := len(t.order) - 1; at >= 0; at-- {
		i := t.order[at]
		a := t.apps[i]
		value, _, _ := r.alone(i)
		if a.old {
			kept := a.value*float64(a.holds) - r.ofFairness()*t.lossOf(i, a.holds)
			for ty, n := range r.held[i] {
				kept -= n * r.rent(ty, a.demand)
			}
			value = max(value-r.price[len(r.price)-1], kept)
		}
		t.most[at] = t.most[at+1] + value
		n := a.most
		if a.share > 0 {
			n = min(int(a.fair/a.share+rounding), a.most)
		}
		n = max(n, a.least)
		least := t.lossOf(i, n)
		if n < a.most {
			least = min(least, t.lossOf(i, n+1))
		}
		t.fairest[at] = t.fairest[at+1] + least
	}
}

// place places the apps of order from a position on. Value and rent are of those before it, rent of what they leave.
func (t *tree) place(at int, value, rent, loss float64, resized int) {
	if t.nodes <= 0 || resized > t.resize || !t.repair && loss+t.fairest[at] > t.unfair+rounding {
		return
	}
	r := t.prices
	bound := value + t.most[at] + rent + r.ofFairness()*(t.unfair-loss) + r.price[len(r.price)-1]*float64(t.resize-resized)
	if !t.repair && bound < t.worth+rounding && (t.moved || bound < t.worth-rounding) {
		return
	}
	if at == len(t.order) {
		t.keep(value, loss)
		return
	}
	t.onHosts(at, 0, value, rent, loss, resized)
}

// onHosts places the app at a position on the hosts from the h-th of hosts on, the number of units nearest to the best's first.
func (t *tree) onHosts(at, h int, value, rent, loss float64, resized int) {
	if t.nodes--; t.nodes <= 0 {
		return
	}
	i := t.order[at]
	a := t.apps[i]
	n := t.x.counts[i]
	if h == len(t.hosts) {
		if n < a.least && !t.repair {
			return
		}
		paid := 0.
		for host, units := range t.x.on[i] {
			if units > 0 {
				paid += t.prices.rent(t.types[host], a.demand) * float64(units)
			}
		}
		t.place(at+1, value+a.value*float64(n), rent-paid, loss+t.lossOf(i, n), resized+boolean(a.old && !slices.Equal(a.held, t.x.on[i])))
		return
	}
	host := t.hosts[h]
	fit := a.most - n
	for k, v := range a.demand {
		if v > 0 {
			fit = min(fit, int((t.x.free[host][k]+rounding)/v))
		}
	}
	fit = max(fit, 0)
	now := min(t.best.on[i][host], fit)
	for away := 0; now+away <= fit || now-away >= 0; away++ {
		for _, c := range [...]int{now + away, now - away} {
			if c < 0 || c > fit {
				continue
			}
			t.move(i, host, c)
			t.onHosts(at, h+1, value, rent, loss, resized)
			t.move(i, host, -c)
			if away == 0 {
				break
			}
		}
	}
}

func (t *tree) move(i, host, n int) {
	if n != 0 {
		t.put(&t.x, i, host, n)
	}
}

// keep takes the answer under way as the best: it is better, or as good and other, which lets later searches leave where they stand.
func (t *tree) keep(value, loss float64) {
	if t.repair {
		t.x.loss = loss
		value = -t.lacking(&t.x)
	}
	if value < t.worth-rounding || value < t.worth+rounding && t.moved {
		return
	}
	x := &answer{counts: slices.Clone(t.x.counts), loss: loss}
	same := true
	for i := range t.x.on {
		x.on = append(x.on, slices.Clone(t.x.on[i]))
		same = same && slices.Equal(x.on[i], t.best.on[i])
	}
	if same {
		return
	}
	for _, f := range t.x.free {
		x.free = append(x.free, slices.Clone(f))
	}
	t.best, t.worth, t.moved = x, max(t.worth, value), true
}
