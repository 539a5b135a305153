package bidding

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// priceOdds is what the past of a pool says about the next billing increment, given the present price: the moments of the
// lookback at which the price was about the same, and how far it then rose, and when. Prices count as multiples of the
// price of the moment, so that a moment at another level still counts.
type priceOdds struct {
	parts  []part
	levels *levels
	known  []outcomes // by span: of machines that are to be bought
}

// part is some moments of a day.
type part struct {
	*day
	from, to int
}

// Days are the moments of pools by the day, which grow and never change: forecasts of successive hours share nearly all of their week. It
// serves one job, as a Memo does, and one goroutine.
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
	mostDays = 2048 // are kept; then all are made again
	mostBids = 48   // of a day, likewise
)

// day is the moments of 24 hours that are known.
type day struct {
	next    time.Time // the first that is not
	moments []moment
	rises   []rise    // of all moments, one after the other
	bids    []crossed // by how high they are
}

// moment is one instant of the past.
type moment struct {
	at    time.Time
	level int32
	// begin and end are where its rises are: the instants at which the price reached a new maximum within the increment, in order.
	begin, end int32
}

// crossed are the moments of a day after which the price exceeds a bid, first those after which it does so soonest: the same for all bids between two
// rises, as multiples of the price.
type crossed struct {
	from, below float64
	moments     []excess
}

// excess is that of a moment, and how long after it.
type excess struct {
	moment, level int32
	after         time.Duration
}

// levels are the prices of a pool's moments, and how much moments at each count when another is the present price.
type levels struct {
	known   map[market.USD]int32 // Value: index in logs
	logs    []float64
	of      float64   // the logarithm of the present price
	weights []float64 // Index: level; 0 = not computed yet
	sums    []taken   // kept for its memory
	asked   asked
}

// pieces are those of an increment, by which crossings are summed up.
const pieces = 16

// asked is the last question about bids for a job that ends within the increment: the next are mostly about a little more or less work.
type asked struct {
	odds    *priceOdds
	price   float64
	span    span // without the time that is left
	total   float64
	moments int
	lists   [][]excess // of each part, by bid
	before  []taken    // of each bid, what is crossed before each piece of the increment
}

// outcomes is a cache of results for a span: thousands of starts look at the same hours at the same prices.
type outcomes struct {
	span  span
	known map[market.USD][]prospect
}

// rise is a new maximum, as a multiple of the moment's price, some time after it.
type rise struct {
	after  time.Duration
	factor float64
}

const (
	// momentEvery is the distance of moments. Prices change a few times an hour in busy markets.
	momentEvery = 15 * time.Minute
	// likeness is how near, in the logarithm, prices must be to count as about the same: the standard deviation of a
	// Gaussian weight. A tenth separates the levels of a market, and is more than its noise.
	likeness = 0.1
	// unlike is the weight of moments at any other price, so that a price never seen before still has odds.
	unlike = 0.02
)

// lookOut gathers the moments of [until-lookback, until), as far as the increment after each has ended. A nil Days keeps nothing.
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

// day returns what is known of a day.
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

// levelsOf returns those of a pool.
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

// level returns that of a price.
func (l *levels) level(price market.USD) int32 {
	i, known := l.known[price]
	if !known {
		i = int32(len(l.logs))
		l.known[price], l.logs, l.weights = i, append(l.logs, math.Log(float64(price))), append(l.weights, 0)
	}
	return i
}

// weight returns that of a moment.
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

// prospect is what is to be expected of a machine over one increment.
type prospect struct {
	hours float64 // of time that pass until it is evicted or the increment ends
	work  float64 // hours of work
	paid  float64 // probability that the increment is paid for
	lost  float64 // probability that the machine is evicted in it
}

// span is what prospects depend on besides the odds.
type span struct {
	increment time.Duration // that is paid in one piece
	startup   time.Duration // of it, until the machine works
	handover  time.Duration // working time that is lost with an eviction, on top of it
	notice    time.Duration // between a crossing and the eviction
	left      time.Duration // working time after which the job is done; machines are then given back, and paid for
	free      bool          // an interrupted increment costs nothing
}

// prospectsAt returns those of some bids, which are always the same at a price.
func (o *priceOdds) prospectsAt(price market.USD, factors []float64, s span) ([]prospect, bool) {
	s.left = min(s.left, s.increment) // what comes after does not matter
	if len(o.parts) == 0 {
		return nil, false
	}
	if s.left < s.increment { // the end of a job: a little later it is another span
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

// prospects returns what is to be expected at each of some bids, in ascending order, as multiples of the present price. It is
// false when there is no past to go by.
func (o *priceOdds) prospects(price float64, factors []float64, s span, out []prospect) bool {
	if len(o.parts) == 0 {
		return false
	}
	s.left = min(s.left, s.increment) // what comes after does not matter
	total, moments := o.weigh(price)
	l := o.levels
	l.sums = append(l.sums[:0], make([]taken, len(factors))...)
	for i := range o.parts {
		p := &o.parts[i]
		for j, bid := range factors {
			crossings := p.crossed(bid)
			if len(crossings) == 0 {
				break // nor is any bid above it
			}
			l.sums[j].add(p, crossings, l.weights, s.late(), &s)
		}
	}
	for j := range out {
		out[j] = l.sums[j].prospect(&s, total, moments)
	}
	return true
}

// ending is prospects for bids that are likely to be asked about again.
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

// weigh sets the present price, and returns how much all moments count, and how many there are.
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

// taken sums up moments after which machines are taken, by weight.
type taken struct {
	moments       int
	weight        float64
	after, worked float64 // nanoseconds until they are warned, and of work
}

// add counts crossings, in order, as far as they are not late.
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

// prospect returns the mean with those moments after which machines stay.
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

// late returns from when on a crossing changes nothing: the machine has finished, or is paid for.
func (s *span) late() time.Duration { return min(s.startup+s.left, s.increment-s.notice) }

// untilEnd returns the prospect without a crossing.
func (s *span) untilEnd() prospect {
	work := min(s.increment-s.startup, s.left)
	return prospect{hours: (s.startup + work).Hours(), work: work.Hours(), paid: 1}
}

// untilCrossing is that with one. A machine that has finished before pays as if there were none; one warned too late to
// be taken within the increment has paid for it, and will not pay for the next. Warned machines work no more: they hand
// over what they hold.
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
