package sweep

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/tierml/tierml/sim"
)

// history is how much of it must lie before a start.
const history = 7 * 24 * time.Hour

// Starts says when to start. The zero value is the job's own start.
type Starts struct {
	Every bool // at every minute
	Count int  // so many, spread over the history: one at a random minute of each equal part
	At    time.Time
	Seed  uint64
}

// ParseStarts reads "every", a number, or a time in RFC 3339; "" is the job's own start.
func ParseStarts(s string, seed uint64) (Starts, error) {
	starts := Starts{Seed: seed}
	if s == "" {
		return starts, nil
	}
	if s == "every" {
		starts.Every = true
		return starts, nil
	}
	if n, err := strconv.Atoi(s); err == nil && n > 0 {
		starts.Count = n
		return starts, nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return Starts{}, fmt.Errorf("starts %q: write every, a number above 0, or a time such as 2014-04-11T23:40:00Z", s)
	}
	starts.At = at.UTC()
	return starts, nil
}

// times gives the starts that count: with a week of history before them, and room for the run behind.
func (s Starts) times(cfg *sim.Config) ([]time.Time, error) {
	first, last := window(cfg)
	minutes := int(last.Sub(first)/time.Minute) + 1
	if last.Before(first) {
		minutes = 0
	}
	switch {
	case !s.Every && s.Count == 0:
		at := s.At
		if at.IsZero() {
			at = cfg.Start
		}
		if at.Before(first.Add(-history)) || at.After(last.Add(horizonOf(cfg))) {
			return nil, fmt.Errorf("start %s: the prices reach from %s to %s", at.Format(time.RFC3339),
				first.Add(-history).Format(time.RFC3339), last.Add(horizonOf(cfg)).Format(time.RFC3339))
		}
		return []time.Time{at}, nil
	case minutes == 0:
		return nil, fmt.Errorf("no start fits: %s of history before it and %s behind it are more than the prices cover",
			history, horizonOf(cfg))
	case s.Every || s.Count >= minutes:
		out := make([]time.Time, minutes)
		for i := range out {
			out[i] = first.Add(time.Duration(i) * time.Minute)
		}
		return out, nil
	}
	random := rand.New(rand.NewPCG(s.Seed, 2))
	out := make([]time.Time, s.Count)
	for i := range out {
		from, to := i*minutes/s.Count, (i+1)*minutes/s.Count
		out[i] = first.Add(time.Duration(from+random.IntN(to-from)) * time.Minute)
	}
	return out, nil
}

// window gives the first and the last minute at which a run may start.
func window(cfg *sim.Config) (first, last time.Time) {
	for _, p := range cfg.Pools {
		if begin, ok := p.History.First(); ok && begin.At.After(first) {
			first = begin.At
		}
		if end, ok := p.History.Last(); ok && end.At.After(last) {
			last = end.At
		}
	}
	first = first.Add(history + time.Minute - 1).Truncate(time.Minute).UTC()
	return first, last.Add(-horizonOf(cfg)).Truncate(time.Minute).UTC()
}

// horizonOf is how much time a run must have behind its start.
func horizonOf(cfg *sim.Config) time.Duration {
	return cmp.Or(cfg.Horizon, cfg.MaxDuration, Horizon(ComputeTime(cfg)))
}
