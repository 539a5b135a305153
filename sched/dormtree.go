package sched

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Effort spent on improving answers, in nodes of search trees: wholeTree bounds the one over all apps and hosts, for problems of up to
// wholePlaces pairs of these; partTree bounds each tree over a part, and allParts these together. Problems of more than mostPlaces pairs
// keep the greedy answer, which is within a few percent of the bound there.
const (
	wholeTree   = 60_000
	wholePlaces = 120
	partTree    = 1_000
	allParts    = 500_000
	stale       = 500 // parts without an improvement end the search; far from the bound, three times as many do
	far         = .03
	mostPlaces  = 2000
	others      = 8    // starts that are improved in addition to the best, with a sixteenth of allParts each
	near        = 1e-3 // relative distance to the bound below which an answer is not improved
)

// polish improves greedy answers, the best of which comes first. A small problem is searched completely, so that its answer is optimal and
// found if there is one. In a larger one, all apps are placed again on a few random hosts, or a few on some hosts, repeatedly (large
// neighbourhood search): first from each of a few answers, which resize different jobs, and then from the best.
func (p *problem) polish(starts []*answer) *answer {
	if len(p.apps) == 0 || !p.small() {
		return starts[0]
	}
	bound := p.tighten(starts[0])
	t := &tree{problem: p, best: starts[0], nodes: wholeTree}
	if len(p.apps)*len(p.caps) <= wholePlaces {
		all := make([]int, len(p.caps))
		for h := range all {
			all[h] = h
		}
		if t.search(all, t.byShare()) {
			return t.best
		}
	}
	if p.lacking(t.best) > 0 {
		return t.best
	}
	r := rand.New(rand.NewPCG(uint64(len(p.apps)), uint64(len(p.caps))))
	best := t.best
	for _, x := range starts[1:min(len(starts), 1+others)] {
		t.best = p.repair(x)
		if t.worth = p.valueOf(t.best); p.lacking(t.best) == 0 {
			t.parts(r, bound, allParts/16)
		}
		if p.better(t.best, best) {
			best = t.best
		}
	}
	t.best, t.worth = best, p.valueOf(best)
	t.parts(r, bound, allParts)
	return t.best
}

// parts improves the best by trees over random parts, with this many nodes in total.
func (t *tree) parts(r *rand.Rand, bound float64, left int) {
	since := 0 // the last improvement
	for left > 0 && since < t.patience(bound) && t.worth < bound*(1-near) {
		t.nodes = partTree
		before := t.worth
		hosts, order := r.Perm(len(t.caps)), r.Perm(len(t.apps))
		if r.IntN(2) == 0 {
			hosts = hosts[:min(len(hosts), 1+r.IntN(4))]
		} else {
			hosts, order = hosts[:min(len(hosts), 3+r.IntN(6))], order[:min(len(order), 3+r.IntN(4))]
		}
		t.search(hosts, order)
		if since++; t.worth > before+rounding {
			since = 0
		}
		left -= partTree - max(t.nodes, 0) + 100
	}
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

// tree searches the placements of some apps on some hosts depth first; everything else stays. A branch ends when capacity, fairness or the
// number of resized apps is exceeded, or when the relaxation (dormbound.go) at the present prices shows that it holds nothing better.
type tree struct {
	*problem
	best  *answer // best so far
	nodes int     // left to visit

	hosts, order []int
	x            answer      // in progress: apps of order before the present one are placed
	rents        [][]float64 // per unit of an app on each type of host
	most         []float64   // of the apps from each position on: the relaxation's value
	fairest      []float64   // and their least loss of fairness
	worth        float64     // of best
	moved        bool        // best was replaced in this search
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

// search reports whether it was exhaustive.
func (t *tree) search(hosts, order []int) bool {
	t.hosts, t.order, t.moved = hosts, order, false
	t.worth = math.Inf(-1)
	if t.lacking(t.best) == 0 {
		t.worth = t.valueOf(t.best)
	}
	t.x = *t.best.clone()
	for _, i := range order {
		for _, h := range hosts {
			t.put(&t.x, i, h, -t.x.on[i][h])
		}
	}
	t.relaxation()
	value, loss, resized := 0., 0., 0
	for i, a := range t.apps {
		if !slices.Contains(order, i) {
			value, loss = value+a.value*float64(t.x.counts[i]), loss+t.lossOf(i, t.x.counts[i])
			resized += boolean(a.old && !slices.Equal(a.held, t.x.on[i]))
		}
	}
	rent := 0.
	for _, h := range hosts {
		rent += t.prices.rent(t.types[h], t.x.free[h])
	}
	t.place(0, value, rent, loss, resized)
	return t.nodes > 0
}

// relaxation sums the apps' relaxed values from each position on when only hosts have prices, and their least losses.
func (t *tree) relaxation() {
	r := t.prices
	if t.rents == nil {
		t.rents = make([][]float64, len(t.apps))
		for i, a := range t.apps {
			for ty := range r.types {
				t.rents[i] = append(t.rents[i], r.rent(ty, a.demand))
			}
		}
	}
	t.most, t.fairest = make([]float64, len(t.order)+1), make([]float64, len(t.order)+1)
	for at := len(t.order) - 1; at >= 0; at-- {
		value, loss := t.alone(t.order[at])
		t.most[at], t.fairest[at] = t.most[at+1]+value, t.fairest[at+1]+loss
	}
}

// alone returns the best value for one app, and its least loss, if it keeps what it has elsewhere and rents on hosts.
func (t *tree) alone(i int) (value, loss float64) {
	r, a := t.prices, t.apps[i]
	elsewhere, most, rent := t.x.counts[i], t.x.counts[i], math.Inf(1)
	same, kept := true, a.value*float64(a.holds)-r.ofFairness()*t.lossOf(i, a.holds)
	for _, h := range t.hosts {
		if n := t.room(i, h); n > 0 {
			most, rent = min(most+n, a.most), min(rent, t.rents[i][t.types[h]])
		}
		kept -= t.rents[i][t.types[h]] * float64(a.held[h])
	}
	at := func(n int) {
		v := a.value*float64(n) - r.ofFairness()*t.lossOf(i, n)
		if n > elsewhere {
			v -= rent * float64(n-elsewhere)
		}
		value, loss = max(value, v), min(loss, t.lossOf(i, n))
	}
	value, loss = math.Inf(-1), math.Inf(1)
	least := max(a.least, elsewhere)
	if least > most {
		return value, loss
	}
	at(least)
	at(most)
	if a.share > 0 {
		bend := int(a.fair/a.share + rounding)
		at(min(max(bend, least), most))
		at(min(max(bend+1, least), most))
	}
	if a.old {
		for h, n := range t.x.on[i] {
			same = same && (n == a.held[h] || n == 0 && slices.Contains(t.hosts, h))
		}
		if value -= r.price[len(r.price)-1]; same {
			value = max(value, kept)
		}
	}
	return value, loss
}

// room returns how many units of an app fit on a host.
func (t *tree) room(i, host int) int {
	fit := t.apps[i].most
	for k, v := range t.apps[i].demand {
		if v > 0 {
			fit = min(fit, int((t.x.free[host][k]+rounding)/v))
		}
	}
	return max(fit, 0)
}

// place places the apps of order from a position on. Value and rent are for the apps before it, rent for what they
// leave.
func (t *tree) place(at int, value, rent, loss float64, resized int) {
	if t.nodes <= 0 || resized > t.resize || loss+t.fairest[at] > t.unfair+rounding {
		return
	}
	r := t.prices
	bound := value + t.most[at] + rent + r.ofFairness()*(t.unfair-loss) + r.price[len(r.price)-1]*float64(t.resize-resized)
	if bound < t.worth+rounding && (t.moved || bound < t.worth-rounding) {
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
		if n < a.least {
			return
		}
		paid := 0.
		for _, host := range t.hosts {
			paid += t.rents[i][t.types[host]] * float64(t.x.on[i][host])
		}
		t.place(at+1, value+a.value*float64(n), rent-paid, loss+t.lossOf(i, n), resized+boolean(a.old && !slices.Equal(a.held, t.x.on[i])))
		return
	}
	host := t.hosts[h]
	fit := max(min(a.most-n, t.room(i, host)), 0)
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

// keep adopts the present answer as the best: it is better, or equal but different, which lets later searches leave a plateau.
func (t *tree) keep(value, loss float64) {
	if value < t.worth-rounding || value < t.worth+rounding && t.moved {
		return
	}
	if slices.EqualFunc(t.x.on, t.best.on, slices.Equal) {
		return
	}
	x := t.x.clone()
	x.loss = loss
	t.best, t.worth, t.moved = x, max(t.worth, value), true
}
