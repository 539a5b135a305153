package market

import "time"

// Bands of price relative to the bid, in eighths of it: up to 1/8, 1/4, 1/2, 3/4 and all of it. Calm markets
// sit in the low bands; the high ones tell a rising price early.
var bandEighths = [bands]USD{1, 2, 4, 6, 8}

const (
	bands = 5
	above = bands // the band of prices above the bid
)

// step is one stretch of constant price, in ages (time before now): began > ended.
type step struct {
	band         int
	began, ended time.Duration
	// crossing is the age of the first crossing after the step; without one (crossed is false) it is 0: the
	// price has stayed within the bid until now.
	crossing time.Duration
	crossed  bool
}

// length is how long the price stood.
func (s *step) length() time.Duration { return s.began - s.ended }

// left is the time until the crossing, summed over the step's instants, in square nanoseconds.
func (s *step) left() float64 {
	length := float64(s.length())
	return length * (float64(s.ended-s.crossing) + length/2)
}

// followedWithin is how much of the step a crossing followed within horizon.
func (s *step) followedWithin(horizon time.Duration) time.Duration {
	if !s.crossed {
		return 0
	}
	return min(max(horizon-(s.ended-s.crossing), 0), s.length())
}

// toldWithin is for how much of the step it is known whether a crossing followed within horizon.
func (s *step) toldWithin(horizon time.Duration) time.Duration {
	if s.crossed {
		return s.length()
	}
	return max(s.began-max(s.ended, horizon), 0)
}

// steps goes once through the history, backwards from now to the start of the lookback, and calls each with every
// step within the bid. It gives the number of crossings.
func (e Estimator) steps(h *History, now time.Time, bid USD, each func(*step)) (crossings int) {
	var edges [bands]USD
	for i, eighths := range bandEighths {
		edges[i] = bid/8*eighths + bid%8*eighths/8 // rounded down: whole prices pass the same test
	}
	points := h.points[:h.countUntil(now)]
	var s step
	before := above // the band of the step before in this order, that is later in time
	for i := len(points) - 1; i >= 0 && s.began < e.Lookback; i-- {
		s.ended, s.began = s.began, min(now.Sub(points[i].At), e.Lookback)
		s.band = bandOf(points[i].Price, &edges)
		if s.band == above {
			s.crossing, s.crossed = s.began, true
		} else {
			if before == above && s.crossed {
				crossings++
			}
			each(&s)
		}
		before = s.band
	}
	return crossings
}

func bandOf(price USD, edges *[bands]USD) int {
	for i, edge := range edges {
		if price <= edge {
			return i
		}
	}
	return above
}

// tally is what the instants of a band come to.
type tally struct {
	left     float64       // time until the crossing, summed; square nanoseconds
	exposure time.Duration // measure of the instants
	ended    time.Duration // measure of those that a crossing followed
}

// observation is a tally of all bands and of the present one.
type observation struct {
	all, present tally
	crossings    int
}

func (e Estimator) observe(h *History, now time.Time, bid USD) (o observation) {
	var tallies [bands]tally
	present := above
	o.crossings = e.steps(h, now, bid, func(s *step) {
		if present == above {
			present = s.band
		}
		t := &tallies[s.band]
		t.left += s.left()
		t.exposure += s.length()
		if s.crossed {
			t.ended += s.length()
		}
	})
	o.present = tallies[present]
	for _, t := range tallies {
		o.all.left += t.left
		o.all.exposure += t.exposure
		o.all.ended += t.ended
	}
	return o
}

// endedAtLeast is the least share of instants that counts as ended, as one over it.
const endedAtLeast = 20

// countsAsEnded is the measure of the instants that count as ended.
func (t *tally) countsAsEnded() float64 {
	return float64(max(t.ended, t.exposure/endedAtLeast))
}

// estimate blends the present band with all bands.
func (e Estimator) estimate(o observation) Estimate {
	switch {
	case o.all.exposure == 0:
		return Estimate{}
	case o.all.ended == 0:
		return Estimate{Known: true, Mean: o.all.exposure, Censored: true}
	}
	weight := float64(e.Prior) / float64(o.all.exposure)
	left := o.present.left + float64(weight*o.all.left)
	ended := o.present.countsAsEnded() + float64(weight*o.all.countsAsEnded())
	return Estimate{Known: true, Mean: toDuration(left / ended), Episodes: o.crossings}
}

// shareWithin gives the share of instants that a crossing followed within horizon, of those that can tell, in
// the same blend. There is at least one crossing.
func (e Estimator) shareWithin(h *History, now time.Time, bid USD, horizon time.Duration, o observation) float64 {
	weight := float64(e.Prior) / float64(o.all.exposure)
	present := above
	var soon, told float64
	e.steps(h, now, bid, func(s *step) {
		if present == above {
			present = s.band
		}
		share := weight
		if s.band == present {
			share++
		}
		soon += float64(share * float64(s.followedWithin(horizon)))
		told += float64(share * float64(s.toldWithin(horizon)))
	})
	return min(soon/told, 1)
}
