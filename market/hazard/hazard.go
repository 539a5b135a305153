// Package hazard draws the evictions that prices do not explain: where nobody bids, a provider reclaims machines when it needs
// their capacity, sometimes one, sometimes many of a pool at once.
//
// Events depend on a seed, a start and rates alone, so that all policies that are compared meet the same ones. The events at a
// lower rate, or in a shorter time, are a subset of those at a higher rate, or in a longer time.
//
// It knows nothing about where rates come from and what an eviction does.
package hazard

import (
	"cmp"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// How evictions come, as recorded in fleets of 16 machines that were filled up again (Bamboo, NSDI 23: p2.xlarge and g4dn.xlarge in
// us-east-1, November 2020): 43 and 21 % of the machines that were lost went alone, the others with a mean of 22 and 38 % of the fleet.
// That all pools of a zone are hit at once is rare: of SkyPilot's recordings of four pools of us-west-2a (October 2022) spells
// of availability end together no more often than by chance.
const (
	// Alone is the share of evicted machines that go alone.
	Alone = 1.0 / 3
	// MeanShare is the mean share of a pool's machines that one of the other events takes. The share itself is u² for u evenly
	// between 0 and 1.
	MeanShare = 1.0 / 3
	// WholeZone is the share of those events that take from all pools of a zone (assumed).
	WholeZone = 0.05
)

// Pool is a pool and how often its machines are evicted.
type Pool struct {
	Pool   market.Pool
	Life       // of its machines
	Places int // for machines that are held at once; see Event
}

// Hazard is the evictions of some pools. A nil Hazard has none.
type Hazard struct {
	Seed  uint64
	Pools []Pool
	// Says is where the rates come from, for people: one sentence for each source.
	Says []string
	// Timeless events come at the same times after any start.
	Timeless bool
}

// Draw returns the evictions of a number of independent draws; number 0 is h.
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

// Event takes machines of a pool. Each machine that a run holds in a pool has a place there, counted from 0: the lowest that is
// free when it is launched.
type Event struct {
	At   time.Time
	Pool market.Pool

	alone bool
	place int     // of the machine that goes alone
	share float64 // chance of each of the others
	seed  uint64
	life  Life
	// height is below which part of a new machine's hazard that of a machine must be for the event to spare it: the older ones
	// outlive events that take the young.
	height float64
}

// Takes reports whether the machine in a place goes at an age.
func (e *Event) Takes(place int, age time.Duration) bool {
	if e.life.Hazard(age) < float64(e.height*e.life.Hazard(0)) {
		return false
	}
	if e.alone {
		return place == e.place
	}
	return float64(mix(e.seed, uint64(place))>>11)/(1<<53) < e.share
}

// OfMonth returns the rate per hour at which a share of machines is evicted within a month of 730 hours.
func OfMonth(share float64) float64 { return -math.Log1p(-share) / monthHours }

const monthHours = 730

// Events returns those of a time, in order.
func (h *Hazard) Events(start time.Time, length time.Duration) []Event {
	if h == nil {
		return nil
	}
	var out []Event
	for i := range h.Pools {
		out = h.pool(&h.Pools[i], start, length, out)
	}
	slices.SortStableFunc(out, func(a, b Event) int { return cmp.Or(a.At.Compare(b.At), a.Pool.Compare(b.Pool)) })
	return out
}

// pool adds the events of a pool, of each kind from a stream of its own.
func (h *Hazard) pool(p *Pool, start time.Time, length time.Duration, out []Event) []Event {
	young := p.Hazard(0)
	if young <= 0 || p.Places <= 0 {
		return out
	}
	zone := p.Pool
	zone.Type = ""
	own, all := h.stream(p.Pool, start), h.stream(zone, start)
	events := (1 - Alone) * young / MeanShare
	at := func(hours float64) time.Time { return start.Add(time.Duration(hours * float64(time.Hour))) }
	height := func(seed uint64) float64 { return float64(mix(seed, 0)>>11) / (1 << 53) }
	arrivals(own, Alone*young*float64(p.Places), length, func(hours, u float64, seed uint64) {
		out = append(out, Event{At: at(hours), Pool: p.Pool, alone: true, place: int(u * float64(p.Places)), life: p.Life, height: height(seed)})
	})
	many := func(hours, u float64, seed uint64) {
		out = append(out, Event{At: at(hours), Pool: p.Pool, share: u * u, seed: seed ^ own, life: p.Life, height: height(^seed)})
	}
	arrivals(mix(own, 0), (1-WholeZone)*events, length, many)
	arrivals(all, WholeZone*events, length, many)
	return out
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

// arrivals calls each with the events of a Poisson process in a time: how many hours after its beginning, and two random numbers of
// its own. The process is cut into layers of which each doubles the rate, drawn from its own seed: a higher rate adds events, and
// changes none.
func arrivals(stream uint64, rate float64, length time.Duration, each func(hours, u float64, seed uint64)) {
	hours := length.Hours()
	for layer, low, width := uint64(0), 0.0, leastRate; low < rate; layer, low, width = layer+1, low+width, low+width {
		r := rand.New(rand.NewPCG(stream, mix(stream, layer)))
		for at := r.ExpFloat64() / width; at <= hours; at += r.ExpFloat64() / width {
			height, u, seed := low+width*r.Float64(), r.Float64(), r.Uint64()
			if height < rate {
				each(at, u, seed)
			}
		}
	}
}
