package bidding

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// priceOdds is what a pool's past tells about the next billing increment, given the present price: the moments of the
// lookback with about the same price, and how far the price then rose, and when. Prices are relative to the moment's
// price, so that a moment at another level still counts.
type priceOdds struct {
	parts  []part
	levels *levels
	known  []outcomes // by span, for machines to be bought
}

// part is some of a day's moments.
type part struct {
	*day
	from, to int
}

// Days caches pools' moments by day, which are only added to: forecasts of successive hours share nearly all of their
// week. It serves one job, like a Memo, and one goroutine.
type Days struct {
	known  map[dayKey]*day
	levels map[market.Pool]*levels
	last   forecastOf
}

// NewDays returns an empty Days.
func NewDays() *Days { return &Days{known: map[dayKey]*day{}, levels: map[market.Pool]*levels{}} }

type dayKey struct {
	pool      market.Pool
	day       int64
	increment time.Duration
}

const (
	mostDays = 2048 // limit; then all are computed again
	mostBids = 48   // limit per day, likewise
)

// day has the known moments of 24 hours.
type day struct {
	next    time.Time // the first unknown moment
	moments []moment
	rises   []rise    // of all moments, concatenated
	bids    []crossed // by bid
}

// moment is one instant of the past.
type moment struct {
	at    time.Time
	level int32
	// begin and end delimit its rises: the instants at which the price reached a new maximum within the increment, in
	// order.
	begin, end int32
}

// crossed has a day's moments after which the price exceeds a bid, soonest first: the same for all bids between two
// rises, as multiples of the price.
type crossed struct {
	from, below float64
	moments     []excess
}

// excess is a moment's crossing, and how long after the moment it comes.
type excess struct {
	moment, level int32
	after         time.Duration
}

// levels are the prices of a pool's moments, and each one's weight at another present price.
type levels struct {
	known   map[market.USD]int32 // Value: index in logs
	logs    []float64
	of      float64   // the logarithm of the present price
	weights []float64 // Index: level; 0 = not computed yet
	sums    []taken   // kept to reuse its memory
	asked   asked
}

// pieces is the number of parts of an increment by which crossings are summed up.
const pieces = 16

// asked is the last query about bids for a job that ends within the increment: the next are mostly for slightly
// different amounts of work.
type asked struct {
	odds    *priceOdds
	price   float64
	span    span // without the remaining time
	total   float64
	moments int
	lists   [][]excess // by part and bid
	before  []taken    // by bid: crossings before each piece of the increment
}

// outcomes caches results for a span: thousands of starts look at the same hours at the same prices.
type outcomes struct {
	span  span
	known map[market.USD][]prospect
}

// rise is a new maximum, relative to the moment's price, some time after it.
type rise struct {
	after  time.Duration
	factor float64
}

const (
	// momentEvery is the interval of moments. Prices change a few times an hour in busy markets.
	momentEvery = 15 * time.Minute
	// likeness is how close, in the logarithm, prices must be to count as about the same: the standard deviation of
	// a Gaussian weight. A tenth separates a market's levels, and exceeds its noise.
	likeness = 0.1
	// unlike is the weight of moments at any other price, so that a price never seen before still has odds.
	unlike = 0.02
)

// lookOut collects the moments of [until-lookback, until) whose increment has ended. A nil Days caches nothing.
func (d *Days) lookOut(pool market.Pool, h *market.History, until time.Time, lookback, increment time.Duration) priceOdds {
	var o priceOdds
	first, known := h.First()
	from := until.Add(-lookback)
	if !known {
		return o
	}
	if first.At.After(from) {
		from = first.At
	}
	o.levels = d.levelsOf(pool)
	before := func(m moment, at time.Time) int { return m.at.Compare(at) }
	for at := from.Truncate(24 * time.Hour); at.Before(until.Add(-increment)); at = at.Add(24 * time.Hour) {
		of := d.day(pool, at, increment)
		of.extend(h, o.levels, at.Add(24*time.Hour), until, increment)
		p := part{day: of}
		p.from, _ = slices.BinarySearchFunc(of.moments, from, before)
		p.to, _ = slices.BinarySearchFunc(of.moments, until.Add(-increment), before)
		if p.from < p.to {
			o.parts = append(o.parts, p)
		}
	}
	return o
}

// day returns a day's known moments.
func (d *Days) day(pool market.Pool, at time.Time, increment time.Duration) *day {
	begun := &day{next: at}
	if d == nil {
		return begun
	}
	key := dayKey{pool, at.Unix(), increment}
	if known := d.known[key]; known != nil {
		return known
	}
	if len(d.known) >= mostDays {
		clear(d.known)
	}
	d.known[key] = begun
	return begun
}

// levelsOf returns a pool's levels.
func (d *Days) levelsOf(pool market.Pool) *levels {
	if d != nil && d.levels[pool] != nil {
		return d.levels[pool]
	}
	l := &levels{known: map[market.USD]int32{}, of: math.NaN()}
	if d != nil {
		d.levels[pool] = l
	}
	return l
}

// level returns the level of a price.
func (l *levels) level(price market.USD) int32 {
	i, known := l.known[price]
	if !known {
		i = int32(len(l.logs))
		l.known[price], l.logs, l.weights = i, append(l.logs, math.Log(float64(price))), append(l.weights, 0)
	}
	return i
}

// weight returns a level's weight.
func (l *levels) weight(level int32) float64 {
	w := l.weights[level]
	if w == 0 {
		w = unlike
		if distance := (l.logs[level] - l.of) / likeness; distance < 4 && distance > -4 {
			w += math.Exp(-distance * distance / 2)
		}
		l.weights[level] = w
	}
	return w
}

// extend adds the moments before a day's end whose increment has ended by a time.
func (d *day) extend(h *market.History, l *levels, dayEnd, until time.Time, increment time.Duration) {
	last := until.Add(-increment)
	if dayEnd.Before(last) {
		last = dayEnd
	}
	if !d.next.Before(last) {
		return
	}
	d.bids = nil
	points := h.Points(d.next, until)
	price, known := h.At(d.next)
	for next := 0; d.next.Before(last); d.next = d.next.Add(momentEvery) { // next is the first point after the moment
		at := d.next
		for next < len(points) && !points[next].At.After(at) {
			price, known = points[next].Price, true
			next++
		}
		if !known || price <= 0 {
			continue
		}
		begin := len(d.rises)
		highest, end := price, at.Add(increment)
		for i := next; i < len(points) && points[i].At.Before(end); i++ {
			if p := points[i].Price; p > highest {
				highest = p
				d.rises = append(d.rises, rise{after: points[i].At.Sub(at), factor: float64(p) / float64(price)})
			}
		}
		d.moments = append(d.moments, moment{at: at, level: l.level(price), begin: int32(begin), end: int32(len(d.rises))})
	}
}

// crossed returns the moments after which the price exceeds a bid.
func (d *day) crossed(bid float64) []excess {
	i, found := slices.BinarySearchFunc(d.bids, bid, func(c crossed, bid float64) int { return cmp.Compare(c.from, bid) })
	if found {
		return d.bids[i].moments
	}
	if i > 0 && bid < d.bids[i-1].below {
		return d.bids[i-1].moments
	}
	c := crossed{below: math.Inf(1)}
	for n := range d.moments {
		m := &d.moments[n]
		for j := m.begin; j < m.end; j++ {
			r := &d.rises[j]
			if r.factor <= bid {
				c.from = max(c.from, r.factor)
				continue
			}
			c.below = min(c.below, r.factor)
			c.moments = append(c.moments, excess{int32(n), m.level, r.after})
			break
		}
	}
	slices.SortStableFunc(c.moments, func(a, b excess) int { return cmp.Compare(a.after, b.after) })
	if len(d.bids) >= mostBids {
		d.bids, i = d.bids[:0], 0
	}
	d.bids = slices.Insert(d.bids, i, c)
	return c.moments
}

// prospect is the expectation for a machine over one increment.
type prospect struct {
	hours float64 // hours until it is evicted or the increment ends
	work  float64 // hours of work
	paid  float64 // probability that the increment is paid for
	lost  float64 // probability that the machine is evicted in it
}

// span is what prospects depend on apart from the odds.
type span struct {
	increment time.Duration // length that is paid as a whole
	startup   time.Duration // part of it until the machine works
	handover  time.Duration // additional working time lost with an eviction
	notice    time.Duration // between a crossing and the eviction
	left      time.Duration // working time after which the job is done; machines are then released, and paid for
	free      bool          // an interrupted increment costs nothing
}

// prospectsAt returns the prospects for a fixed set of bids at a price.
func (o *priceOdds) prospectsAt(price market.USD, factors []float64, s span) ([]prospect, bool) {
	s.left = min(s.left, s.increment) // later events do not matter
	if len(o.parts) == 0 {
		return nil, false
	}
	if s.left < s.increment { // at the end of a job the span keeps changing
		out := make([]prospect, len(factors))
		o.ending(float64(price), factors, s, out)
		return out, true
	}
	var known map[market.USD][]prospect
	for i := range o.known {
		if o.known[i].span == s {
			known = o.known[i].known
		}
	}
	out := known[price]
	if out != nil {
		return out, true
	}
	if known == nil {
		known = map[market.USD][]prospect{}
		o.known = append(o.known, outcomes{span: s, known: known})
	}
	out = make([]prospect, len(factors))
	o.prospects(float64(price), factors, s, out)
	known[price] = out
	return out, true
}

// prospects returns the prospect at each of several bids, in ascending order, as multiples of the present price. It
// returns false if there is no past to learn from.
func (o *priceOdds) prospects(price float64, factors []float64, s span, out []prospect) bool {
	if len(o.parts) == 0 {
		return false
	}
	s.left = min(s.left, s.increment) // later events do not matter
	total, moments := o.weigh(price)
	l := o.levels
	l.sums = append(l.sums[:0], make([]taken, len(factors))...)
	for i := range o.parts {
		p := &o.parts[i]
		for j, bid := range factors {
			crossings := p.crossed(bid)
			if len(crossings) == 0 {
				break // nor is any higher bid
			}
			l.sums[j].add(p, crossings, l.weights, s.late(), &s)
		}
	}
	for j := range out {
		out[j] = l.sums[j].prospect(&s, total, moments)
	}
	return true
}

// ending is prospects for bids that are likely to be queried again.
func (o *priceOdds) ending(price float64, factors []float64, s span, out []prospect) {
	total, moments := o.weigh(price)
	l, same := o.levels, s
	same.left = 0
	q, step := &l.asked, s.increment/pieces
	if q.odds != o || q.price != price || q.span != same || len(q.lists) != len(o.parts)*len(factors) {
		*q = asked{odds: o, price: price, span: same, total: total, moments: moments, lists: q.lists[:0],
			before: append(q.before[:0], make([]taken, len(factors)*(pieces+2))...)}
		for i := range o.parts {
			p := &o.parts[i]
			for j, bid := range factors {
				crossings, to := p.crossed(bid), q.before[j*(pieces+2):]
				q.lists = append(q.lists, crossings)
				for n := range crossings {
					c := crossings[n : n+1]
					to[min(c[0].after/step, pieces)+1].add(p, c, l.weights, s.increment, &s)
				}
			}
		}
		for i := range q.before {
			if i%(pieces+2) > 0 {
				q.before[i].plus(&q.before[i-1])
			}
		}
	}
	late := s.late()
	piece := max(late/step, 0)
	for j := range factors {
		sum := q.before[j*(pieces+2)+int(piece)]
		for i := range o.parts {
			crossings := q.lists[i*len(factors)+j]
			from, _ := slices.BinarySearchFunc(crossings, piece*step, func(c excess, at time.Duration) int { return cmp.Compare(c.after, at) })
			sum.add(&o.parts[i], crossings[from:], l.weights, late, &s)
		}
		out[j] = sum.prospect(&s, q.total, q.moments)
	}
}

// weigh sets the present price, and returns the total weight of all moments and their number.
func (o *priceOdds) weigh(price float64) (total float64, moments int) {
	l := o.levels
	if of := math.Log(price); of != l.of {
		l.of, l.asked.odds = of, nil
		clear(l.weights)
	} else if l.asked.odds == o && l.asked.price == price {
		return l.asked.total, l.asked.moments
	}
	for _, p := range o.parts {
		for i := p.from; i < p.to; i++ {
			total += l.weight(p.moments[i].level)
		}
		moments += p.to - p.from
	}
	return total, moments
}

// taken sums the moments, by weight, after which machines are reclaimed.
type taken struct {
	moments       int
	weight        float64
	after, worked float64 // nanoseconds until they are warned, and nanoseconds of work
}

// add counts crossings, in order, up to a time.
func (t *taken) add(p *part, crossings []excess, weights []float64, late time.Duration, s *span) {
	idle := s.startup + s.handover
	for i := range crossings {
		c := &crossings[i]
		if c.after >= late {
			return
		}
		if int(c.moment) < p.from || int(c.moment) >= p.to {
			continue
		}
		w := weights[c.level]
		t.moments++
		t.weight += w
		t.after += float64(w * float64(c.after))
		t.worked += float64(w * float64(max(c.after-idle, 0)))
	}
}

func (t *taken) plus(o *taken) {
	t.moments += o.moments
	t.weight += o.weight
	t.after += o.after
	t.worked += o.worked
}

// prospect returns the mean, including the moments after which machines stay.
func (t *taken) prospect(s *span, total float64, moments int) prospect {
	whole := max(total-t.weight, 0)
	if t.moments == moments {
		whole = 0
	}
	end, paid := s.untilEnd(), whole
	if !s.free {
		paid += (t.after + float64(t.weight*float64(s.notice))) / float64(s.increment)
	}
	return prospect{
		hours: (t.after/float64(time.Hour) + float64(end.hours*whole)) / total,
		work:  (t.worked/float64(time.Hour) + float64(end.work*whole)) / total,
		paid:  paid / total, lost: t.weight / total,
	}
}

// late returns the time from which a crossing changes nothing: the machine has finished, or is paid for.
func (s *span) late() time.Duration { return min(s.startup+s.left, s.increment-s.notice) }

// untilEnd returns the prospect without a crossing.
func (s *span) untilEnd() prospect {
	work := min(s.increment-s.startup, s.left)
	return prospect{hours: (s.startup + work).Hours(), work: work.Hours(), paid: 1}
}

// untilCrossing returns the prospect with a crossing. A machine that has finished earlier pays as without one; one
// warned too late to be reclaimed within the increment has paid for it, and will not pay for the next. Warned machines
// do no more work: they hand it over.
func (s *span) untilCrossing(after time.Duration) prospect {
	end := after + s.notice
	if s.startup+s.left <= after || end >= s.increment {
		return s.untilEnd()
	}
	c := prospect{hours: after.Hours(), work: max(after-s.startup-s.handover, 0).Hours(), lost: 1}
	if !s.free {
		c.paid = end.Hours() / s.increment.Hours()
	}
	return c
}
