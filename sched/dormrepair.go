package sched

import (
	"math/rand/v2"
	"slices"
)

const (
	repairs = 600           // unsuccessful changes that end a repair, fewer if more is lacking
	hopeful = missing * .05 // the unit of what is lacking in that
)

// repair searches for an answer that lacks nothing: apps that lack units and a few random others are removed and placed
// again in random order, as long as that does not make it worse (ruin and recreate). A job that must not be resized in
// addition replaces one that was.
func (p *problem) repair(x *answer) *answer {
	r := rand.New(rand.NewPCG(1, uint64(len(p.apps))))
	lacks := p.lacking(x)
	for since := 0; lacks > 0 && since < repairs/(1+int(lacks/hopeful)); since++ {
		y := x.clone()
		if r.IntN(2) == 0 {
			y.noise = r
		}
		out, back := p.takeOut(y, r)
		if back >= 0 && !p.restore(y, back) {
			continue
		}
		r.Shuffle(len(out), func(a, b int) { out[a], out[b] = out[b], out[a] })
		p.fairly(y, out)
		if l := p.lacking(y); l <= lacks {
			if l < lacks {
				since = 0
			}
			x, lacks = y, l
			x.noise = nil
		}
	}
	return x
}

// takeOut removes the apps that lack units and one to five others. back is an app that should get what it holds, so that another may be
// resized; -1 = none.
func (p *problem) takeOut(x *answer, r *rand.Rand) (out []int, back int) {
	most, resized, back := 1+r.IntN(5), p.resized(x), -1
	hosts := r.Perm(len(p.caps))
	order := r.Perm(len(p.apps))
	if i := slices.IndexFunc(order, func(i int) bool { return p.apps[i].old && !slices.Equal(p.apps[i].held, x.on[i]) }); i >= 0 && r.IntN(2) == 0 {
		back, resized = order[i], resized-1
	} else if r.IntN(2) == 0 {
		hosts, most = hosts[:min(len(hosts), 1+r.IntN(4))], len(order)
	}
	for _, i := range order {
		a := p.apps[i]
		if i != back {
			if len(out) >= most && x.counts[i] >= a.least {
				continue
			}
			if a.old && slices.Equal(a.held, x.on[i]) {
				if resized == p.resize {
					continue
				}
				resized++
			}
			out = append(out, i)
		}
		for _, h := range hosts {
			p.put(x, i, h, -x.on[i][h])
		}
	}
	return out, back
}

// restore gives an app what it holds, if there is room.
func (p *problem) restore(x *answer, i int) bool {
	for h, n := range p.apps[i].held {
		for k, v := range p.apps[i].demand {
			if v*float64(n) > x.free[h][k]+rounding {
				return false
			}
		}
	}
	for h, n := range p.apps[i].held {
		p.put(x, i, h, n)
	}
	return true
}

// clone returns a copy without noise.
func (x *answer) clone() *answer {
	return &answer{counts: slices.Clone(x.counts), loss: x.loss, on: cloneRows(x.on), free: cloneRows(x.free)}
}

// cloneRows copies equally long rows into one array.
func cloneRows[R ~[]E, E any](rows []R) []R {
	var all R
	for _, row := range rows {
		all = append(slices.Grow(all, len(row)*len(rows)-len(all)), row...)
	}
	out, width := make([]R, len(rows)), len(all)/max(len(rows), 1)
	for i := range rows {
		out[i] = all[i*width : (i+1)*width : (i+1)*width]
	}
	return out
}
