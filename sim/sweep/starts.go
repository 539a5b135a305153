package sweep

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim"
)

// history is the history required before a start.
const history = 7 * 24 * time.Hour

// Starts selects the starts. The zero value means the job's own start.
type Starts struct {
	Every bool // at every minute
	Count int  // the number, spread over the history: one at a random minute of each equal part
	At    time.Time
	Seed  uint64
}

// ParseStarts parses "every", a number, or a time in RFC 3339; "" is the job's own start.
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

// usualStarts is the default for commands; if fewer count, they use those.
const usualStarts = 100

// Times returns the starts that count: with a week of history before them, room for the run after them, and no hole of
// the recording during the run.
func (s Starts) Times(cfg *sim.Config) ([]time.Time, error) {
	first, last := window(cfg)
	if !s.Every && s.Count == 0 {
		at := s.At
		if at.IsZero() {
			at = cfg.Start
		}
		if at.Before(first.Add(-history)) || at.After(last.Add(horizonOf(cfg))) {
			return nil, fmt.Errorf("start %s: the prices reach from %s to %s", at.Format(time.RFC3339),
				first.Add(-history).Format(time.RFC3339), last.Add(horizonOf(cfg)).Format(time.RFC3339))
		}
		return []time.Time{at}, nil
	}
	if last.Before(first) {
		return nil, fmt.Errorf("no start fits: %s of history before it and %s behind it are more than the prices cover",
			history, horizonOf(cfg))
	}
	open := openTo(cfg, first, last)
	minutes := countMinutes(open)
	// minute returns the n-th minute that counts.
	minute := func(n int) time.Time {
		for _, o := range open {
			if length := o.to - o.from; n >= length {
				n -= length
				continue
			}
			return first.Add(time.Duration(o.from+n) * time.Minute)
		}
		return time.Time{} // there are fewer
	}
	switch {
	case s.Count > max(minutes, usualStarts):
		return nil, fmt.Errorf("%d starts: the recording has no more than %d, one a minute; write fewer, or every for all of them", s.Count, minutes)
	case minutes == 0:
		return nil, fmt.Errorf("no start fits: wherever %s of history lie before it and %s behind it, the recording has holes", history, horizonOf(cfg))
	case s.Every || s.Count >= minutes:
		out := make([]time.Time, 0, minutes)
		for _, o := range open {
			for n := o.from; n < o.to; n++ {
				out = append(out, first.Add(time.Duration(n)*time.Minute))
			}
		}
		return out, nil
	}
	random := rand.New(rand.NewPCG(s.Seed, 2))
	out := make([]time.Time, s.Count)
	for i := range out {
		from, to := i*minutes/s.Count, (i+1)*minutes/s.Count
		out[i] = minute(from + random.IntN(to-from))
	}
	return out, nil
}

// minutes are starting minutes, counted from the first one; to is excluded.
type minutes struct{ from, to int }

func countMinutes(open []minutes) (n int) {
	for _, o := range open {
		n += o.to - o.from
	}
	return n
}

// openTo returns the minutes from first to last that no hole rules out as a start.
func openTo(cfg *sim.Config, first, last time.Time) (open []minutes) {
	end := int(last.Sub(first)/time.Minute) + 1
	next := 0
	for _, c := range closures(cfg) {
		// A start at the very end of a closure counts, one at its beginning does not.
		from, to := int(ceilMinutes(c.from.Sub(first))), int(ceilMinutes(c.to.Sub(first)))
		if from = min(from, end); from > next {
			open = append(open, minutes{next, from})
		}
		next = max(next, to)
	}
	if next < end {
		open = append(open, minutes{next, end})
	}
	return open
}

func ceilMinutes(d time.Duration) time.Duration {
	n := d / time.Minute
	if d%time.Minute > 0 {
		n++
	}
	return n
}

// closure is a period in which no start counts, because of a hole.
type closure struct {
	from, to time.Time
	pool     market.Pool
	hole     market.Hole
}

// closures returns the closures for all holes of the job's pools, in order of their beginning: from a start whose
// undisturbed work would reach into the hole, to its end; and, after a hole of more than half the history that a start
// needs, for another half of that history.
func closures(cfg *sim.Config) (out []closure) {
	compute := ComputeTime(cfg)
	for _, p := range cfg.Pools {
		for _, h := range p.History.Holes() {
			c := closure{h.From.Add(-compute), h.To, p.Pool, h}
			if h.To.Sub(h.From) > history/2 {
				c.to = c.to.Add(history / 2)
			}
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b closure) int { return a.from.Compare(b.from) })
	return out
}

// LeftOut names the pools that some policies leave out, and for each length the starts that do not count because of
// holes of the recording; for a start that is named, and simulated anyway, it warns of the hole.
func (p Experiment) LeftOut() (said []string) {
	if far := p.tooFarSaid(); far != "" {
		said = append(said, far)
	}
	for _, r := range p.Refused() {
		said = append(said, "left out: "+r.String())
	}
	for _, l := range p.lengths() {
		cfg := l.scale(p.Job)
		all := closures(&cfg)
		if len(all) == 0 {
			continue
		}
		first, last := window(&cfg)
		if !p.Starts.Every && p.Starts.Count == 0 {
			at := cmp.Or(p.Starts.At, cfg.Start)
			for _, c := range all {
				if at.After(c.from) && at.Before(c.hole.To) {
					said = append(said, fmt.Sprintf("the start %s: its run meets a time for which prices of %s were not recorded, from %s to %s: the last "+
						"one is taken to have held", at.UTC().Format(time.RFC3339), c.pool, c.hole.From.UTC().Format(time.RFC3339), c.hole.To.UTC().Format(time.RFC3339)))
					break
				}
			}
			continue
		}
		total, counted := int(last.Sub(first)/time.Minute)+1, countMinutes(openTo(&cfg, first, last))
		if total > counted && counted > 0 {
			said = append(said, fmt.Sprintf("%.4g hours of work: %.1f %% of the starting minutes do not count, as prices were not recorded while their runs would go on, or before",
				ComputeTime(&cfg).Hours(), 100*float64(total-counted)/float64(total)))
		}
	}
	return said
}

// window returns the first and the last minute at which a run may start.
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

// horizonOf returns how much time must follow a run's start.
func horizonOf(cfg *sim.Config) time.Duration {
	return cmp.Or(cfg.Horizon, cfg.MaxDuration, Horizon(ComputeTime(cfg)))
}
