// Package hazard draws the evictions that prices do not explain: without bids, a provider reclaims machines when it needs their capacity,
// sometimes one, sometimes many of a pool at once.
//
// Events depend only on a seed, a start and rates, so that all policies compared meet the same ones. The events at a lower rate, or in a
// shorter time, are a subset of those at a higher rate, or in a longer time.
//
// It does not know where rates come from or what an eviction does.
package hazard

import (
	"cmp"
	"container/heap"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tierml/tierml/market"
)

// The pattern of evictions, as recorded in fleets of 16 machines that were replenished (Bamboo, NSDI 23: p2.xlarge and g4dn.xlarge in
// us-east-1, November 2020): 43 and 21 % of the lost machines went alone, the others with a mean of 22 and 38 % of the fleet. All pools of
// a zone are rarely hit at once: in SkyPilot's recordings of four pools of us-west-2a (October 2022) spells of availability end together no
// more often than by chance.
const (
	// Alone is the share of evicted machines that are evicted alone.
	Alone = 1.0 / 3
	// MeanShare is the mean share of a pool's machines that each of the other events takes. The share itself is u² for
	// u uniform between 0 and 1.
	MeanShare = 1.0 / 3
	// WholeZone is the share of those events that hit all pools of a zone (assumed).
	WholeZone = 0.05
)

// Pool is a pool and the eviction rate of its machines.
type Pool struct {
	Pool   market.Pool
	Life       // of the pool's machines
	Places int // number of machines held at once; see Event
}

// Hazard has the evictions of some pools. A nil Hazard has none.
type Hazard struct {
	Seed  uint64
	Pools []Pool
	// Says describes where the rates come from: one sentence for each source.
	Says []string
	// Timeless events come at the same times after any start.
	Timeless bool
}

// Draw returns the evictions of one of several independent draws; number 0 is h.
func (h *Hazard) Draw(number int) *Hazard {
	if !h.Draws() || number == 0 {
		return h
	}
	other := *h
	other.Seed = mix(h.Seed, uint64(number))
	return &other
}

// Draws reports whether one draw may differ from another.
func (h *Hazard) Draws() bool { return h != nil && len(h.Pools) > 0 }

// Event takes machines of a pool. Each machine that a run holds in a pool has a place there, counted from 0: the lowest free one at its
// launch.
type Event struct {
	At   time.Time
	Pool market.Pool

	alone bool
	place int     // of the machine that is evicted alone
	share float64 // probability for each of the others
	seed  uint64
	life  Life
	// height is the fraction of a new machine's hazard below which a machine's hazard must be for the event to spare it: older machines
	// survive events that take young ones.
	height float64
}

// Takes reports whether the event takes the machine in a place at an age.
func (e *Event) Takes(place int, age time.Duration) bool {
	if e.life.Hazard(age) < float64(e.height*e.life.Hazard(0)) {
		return false
	}
	if e.alone {
		return place == e.place
	}
	return float64(mix(e.seed, uint64(place))>>11)/(1<<53) < e.share
}

// OfMonth returns the hourly rate at which a share of machines is evicted within a month of 730 hours.
func OfMonth(share float64) float64 { return -math.Log1p(-share) / monthHours }

const monthHours = 730

// Upcoming are the events of a period, in order. They are drawn one by one: most runs end before most have happened.
type Upcoming struct {
	start  time.Time
	layers layers // the one with the next event first
}

// Events returns the events of a period.
func (h *Hazard) Events(start time.Time, length time.Duration) *Upcoming {
	u := &Upcoming{start: start}
	if h == nil {
		return u
	}
	for i := range h.Pools {
		h.pool(&h.Pools[i], start, length.Hours(), u)
	}
	heap.Init(&u.layers)
	return u
}

// Next returns the next event; false if there is none.
func (u *Upcoming) Next() (e Event, there bool) {
	if len(u.layers) == 0 {
		return e, false
	}
	first := u.layers[0]
	if e = first.event(u.start); first.draw() {
		heap.Fix(&u.layers, 0)
	} else {
		heap.Pop(&u.layers)
	}
	return e, true
}

// pool adds a pool, with an own random stream for each kind of event.
func (h *Hazard) pool(p *Pool, start time.Time, hours float64, u *Upcoming) {
	young := p.Hazard(0)
	if young <= 0 || p.Places <= 0 {
		return
	}
	zone := p.Pool
	zone.Type = ""
	own, all := h.stream(p.Pool, start), h.stream(zone, start)
	events := (1 - Alone) * young / MeanShare
	u.arrivals(kind{pool: p, own: own, alone: true}, own, Alone*young*float64(p.Places), hours)
	u.arrivals(kind{pool: p, own: own}, mix(own, 0), (1-WholeZone)*events, hours)
	u.arrivals(kind{pool: p, own: own}, all, WholeZone*events, hours)
}

// stream returns a seed for a pool, or the pools of a zone, and a start.
func (h *Hazard) stream(p market.Pool, start time.Time) uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(p.String())) // it never fails
	if h.Timeless {
		return mix(h.Seed, sum.Sum64())
	}
	return mix(mix(h.Seed, sum.Sum64()), uint64(start.UnixNano()))
}

// mix returns a number that looks random compared with those of neighbouring x and n (SplitMix64; Steele, Lea and Flood,
// OOPSLA 14).
func mix(x, n uint64) uint64 {
	x += (n + 1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// leastRate is the width of the lowest layer, in events per hour.
const leastRate = 1e-3

// kind is one of a pool's kinds of events.
type kind struct {
	pool  *Pool
	own   uint64 // the pool's stream
	alone bool
}

// arrivals adds a Poisson process. It is split into layers, each of which doubles the rate, drawn from its own seed: a higher rate adds
// events without changing any.
func (u *Upcoming) arrivals(k kind, stream uint64, rate, hours float64) {
	for n, low, width := uint64(0), 0.0, leastRate; low < rate; n, low, width = n+1, low+width, low+width {
		l := &layer{kind: k, order: u.layers.Len(), low: low, width: width, rate: rate, until: hours, random: rand.New(rand.NewPCG(stream, mix(stream, n)))}
		if l.draw() {
			u.layers = append(u.layers, l)
		}
	}
}

// layer is a part of a process.
type layer struct {
	kind
	order      int // among the pool's layers
	low, width float64
	rate       float64 // of the process: events above it are skipped
	until      float64 // in hours
	random     *rand.Rand

	// The event that was drawn last, and two random numbers of its own.
	hours float64
	after time.Duration
	u     float64
	seed  uint64
}

// draw draws the next event; false if there is none.
func (l *layer) draw() bool {
	for {
		if l.hours += l.random.ExpFloat64() / l.width; !(l.hours <= l.until) {
			return false
		}
		height := l.low + l.width*l.random.Float64()
		if l.u, l.seed = l.random.Float64(), l.random.Uint64(); height < l.rate {
			l.after = time.Duration(l.hours * float64(time.Hour))
			return true
		}
	}
}

// event returns the last event drawn.
func (l *layer) event(start time.Time) Event {
	height := func(seed uint64) float64 { return float64(mix(seed, 0)>>11) / (1 << 53) }
	e := Event{At: start.Add(l.after), Pool: l.pool.Pool, life: l.pool.Life}
	if l.alone {
		e.alone, e.place, e.height = true, int(l.u*float64(l.pool.Places)), height(l.seed)
	} else {
		e.share, e.seed, e.height = l.u*l.u, l.seed^l.own, height(^l.seed)
	}
	return e
}

// layers are a heap.Interface.
type layers []*layer

func (ls layers) Len() int      { return len(ls) }
func (ls layers) Swap(i, j int) { ls[i], ls[j] = ls[j], ls[i] }
func (ls *layers) Push(x any)   { *ls = append(*ls, x.(*layer)) }
func (ls layers) Less(i, j int) bool {
	a, b := ls[i], ls[j]
	if a.after != b.after {
		return a.after < b.after
	}
	return cmp.Or(a.pool.Pool.Compare(b.pool.Pool), cmp.Compare(a.order, b.order)) < 0
}

func (ls *layers) Pop() any {
	last := len(*ls) - 1
	l := (*ls)[last]
	*ls = (*ls)[:last]
	return l
}
