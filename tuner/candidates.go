package tuner

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// spread returns the nth point of a sequence that fills the unit cube evenly: multiples of the inverse powers of the generalised golden
// ratio, the root of x^(d+1) = x + 1, from a random shift. It is nearly as even as Sobol's points, in a dozen lines.
type spread struct{ shift, step []float64 }

func newSpread(dimension int, seed uint64) spread {
	root := 2.
	for range 60 {
		root = math.Pow(1+root, 1/float64(dimension+1))
	}
	r := rand.New(rand.NewPCG(seed, 0x5b7ead))
	s := spread{make([]float64, dimension), make([]float64, dimension)}
	for i := range dimension {
		s.shift[i], s.step[i] = r.Float64(), math.Pow(root, -float64(i+1))
	}
	return s
}

func (s spread) point(n int) []float64 {
	u := make([]float64, len(s.step))
	for i := range u {
		_, u[i] = math.Modf(s.shift[i] + float64(n)*s.step[i])
	}
	return u
}

const (
	evenly     = 512 // candidates that fill the space
	bestTried  = 3   // tried settings that moves start from
	bestOf     = 5   // candidates that moves start from
	movesOf    = 24  // for each start
	roundsOf   = 4   // each with steps a third as long as those before
	farthest   = .2
	attemptsAt = 20 // limit of consecutive points that are not allowed
)

// candidate is a setting that might be next.
type candidate struct {
	setting        Setting
	mean, variance float64
	log            float64 // log of the expected improvement
}

// candidates searches for settings with the highest expected improvement over least: points that fill the space, then moves around the best
// and around the settings in tried. The best is first; tried settings are included, as one noisy observation does not settle a setting.
func (s Space) candidates(judge func([]Setting) []candidate, tried []Setting, seed uint64) []candidate {
	r := rand.New(rand.NewPCG(seed, 0xca4d))
	fill := newSpread(len(s.Knobs), seed)
	var settings []Setting
	for n := range evenly {
		if x := s.at(fill.point(n)); s.holds(x) {
			settings = append(settings, x)
		}
	}
	best := top(judge(append(settings, tried...)))
	around := judge(tried)
	slices.SortStableFunc(around, func(a, b candidate) int { return cmp.Compare(a.mean, b.mean) })
	around = around[:min(len(around), bestTried)]
	for round := range roundsOf {
		far := farthest * math.Pow(1./3, float64(round))
		var moved []Setting
		for _, c := range slices.Concat(best, around) {
			for range movesOf {
				if x := s.move(c.setting, far, r); s.holds(x) {
					moved = append(moved, x)
				}
			}
		}
		if len(moved) > 0 {
			best = top(append(best, judge(moved)...))
		}
	}
	return best
}

// top returns the best few, each once.
func top(all []candidate) []candidate {
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.log, a.log) })
	var best []candidate
	for _, c := range all {
		if !slices.ContainsFunc(best, func(b candidate) bool { return slices.Equal(b.setting, c.setting) }) {
			best = append(best, c)
		}
		if len(best) == bestOf {
			break
		}
	}
	return best
}

// move changes a setting's knobs, each with probability two thirds and at least one: numbers by about far of their range and at least to
// the next, choices to any other.
func (s Space) move(from Setting, far float64, r *rand.Rand) Setting {
	u := s.unit(from)
	one := r.IntN(len(u))
	for i, k := range s.Knobs {
		if i != one && r.IntN(3) == 0 {
			continue
		}
		switch step := far * r.NormFloat64(); {
		case len(k.Choices) > 0:
			if i == one || r.Float64() < far {
				u[i] = r.Float64()
			}
		case k.Whole && !k.Log:
			least := 1 / (k.High - k.Low + 1)
			if math.Abs(step) < least && i == one {
				step = math.Copysign(least, step)
			}
			u[i] += step
		default:
			u[i] += step
		}
	}
	for i := range u {
		u[i] = min(max(u[i], 0), 1)
	}
	return s.at(u)
}

// trials returns the first settings to try: evenly over the space, in a random order of nearby ones (section III-B
// chooses them at random; ten even ones tell more), after those that have worked well for other jobs. Small spaces have
// fewer than requested.
func (s Space) trials(count int, except Setting, known []Setting, seed uint64) []Setting {
	fill := newSpread(len(s.Knobs), seed)
	var found []Setting
	for _, x := range known {
		if len(found) < count && s.holds(x) && !slices.Equal(x, except) && !slices.ContainsFunc(found, func(f Setting) bool { return slices.Equal(f, x) }) {
			found = append(found, slices.Clone(x))
		}
	}
	for n, missed := 0, 0; len(found) < count && missed < attemptsAt*count; n++ {
		x := s.at(fill.point(n))
		if !s.holds(x) || slices.Equal(x, except) || slices.ContainsFunc(found, func(f Setting) bool { return slices.Equal(f, x) }) {
			missed++
			continue
		}
		found = append(found, x)
	}
	return found
}

// beside returns the first settings to try, at most count, when trials must be cheap: known ones, and then the default with one knob moved
// by a step, the shortest first.
func (s Space) beside(around Setting, known []Setting, count int) []Setting {
	var found []Setting
	add := func(x Setting) {
		if s.holds(x) && !slices.Equal(x, around) && !slices.ContainsFunc(found, func(f Setting) bool { return slices.Equal(f, x) }) {
			found = append(found, slices.Clone(x))
		}
	}
	for _, x := range known {
		add(x)
	}
	first := len(found)
	for i, k := range s.Knobs {
		step := 1 / k.steps()
		for _, by := range []float64{step, -step} {
			u := s.unit(around)
			if u[i] += by; u[i] > 0 && u[i] < 1 {
				add(s.at(u))
			}
		}
	}
	slices.SortStableFunc(found[first:], func(a, b Setting) int {
		return cmp.Compare(s.distance(around, a), s.distance(around, b))
	})
	return found[:min(len(found), count)]
}

// mostSteps bounds the number of steps in a knob's range.
const mostSteps = 8

// steps returns how many steps a knob's range has.
func (k Knob) steps() float64 {
	switch {
	case len(k.Choices) > 0:
		return float64(len(k.Choices))
	case k.Whole && !k.Log:
		return min(k.High-k.Low+1, mostSteps)
	}
	return mostSteps
}

// distance sums the knobs' differences relative to their ranges.
func (s Space) distance(a, b Setting) (sum float64) {
	x, y := s.unit(a), s.unit(b)
	for i, k := range s.Knobs {
		if len(k.Choices) > 0 {
			sum += math.Ceil(math.Abs(x[i] - y[i]))
		} else {
			sum += math.Abs(x[i] - y[i])
		}
	}
	return sum
}
