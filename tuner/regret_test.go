package tuner

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func branin(u Setting) float64 {
	a, b := 15*u[0]-5, 15*u[1]
	c := b - 5.1/(4*math.Pi*math.Pi)*a*a + 5/math.Pi*a - 6
	return c*c + 10*(1-1/(8*math.Pi))*math.Cos(a) + 10
}

func hartmann(u Setting) float64 {
	a := [4][6]float64{{10, 3, 17, 3.5, 1.7, 8}, {.05, 10, 17, .1, 8, 14}, {3, 3.5, 1.7, 10, 17, 8}, {17, 8, .05, 10, .1, 14}}
	p := [4][6]float64{{1312, 1696, 5569, 124, 8283, 5886}, {2329, 4135, 8307, 3736, 1004, 9991},
		{2348, 1451, 3522, 2883, 3047, 6650}, {4047, 8828, 8732, 5743, 1091, 381}}
	sum := 0.
	for i, w := range [4]float64{1, 1.2, 3, 3.2} {
		inner := 0.
		for j := range 6 {
			d := u[j] - p[i][j]*1e-4
			inner += a[i][j] * d * d
		}
		sum -= w * math.Exp(-inner)
	}
	return sum
}

func median(a []float64) float64 {
	a = slices.Sorted(slices.Values(a))
	return (a[(len(a)-1)/2] + a[len(a)/2]) / 2
}

// Regret after 40 samples with 10 % noise, compared with optuna's GPSampler and random search (testdata/regret.py): the same
// functions, noise and definition of regret.
func TestRegretComparedWithOptuna(t *testing.T) {
	var theirs map[string]struct {
		SD         float64
		GP, Random []float64
	}
	readJSON(t, "regret.json", &theirs)
	for _, c := range []struct {
		name  string
		f     func(Setting) float64
		knobs int
		least float64
		seeds uint64
	}{{"branin", branin, 2, 0.39788735772973816, 20}, {"hartmann6", hartmann, 6, -3.32236801141551, 40}} {
		other := theirs[c.name]
		if len(other.GP) < 30 {
			t.Fatalf("%s: %d runs of the oracle", c.name, len(other.GP))
		}
		space := Space{}
		for i := range c.knobs {
			space.Knobs = append(space.Knobs, Knob{Name: string(rune('a' + i)), High: 1})
		}
		var sampled, chosen []float64
		for seed := range c.seeds {
			r := rand.New(rand.NewPCG(seed, 77))
			m, last := newModel(space, false), hyper{}
			least := math.Inf(1)
			ask := space.trials(10, nil, nil, seed)
			for n := range 40 {
				if n >= len(ask) {
					m.learn(&last, seed)
					ask = append(ask, m.next(m.best(0), 0, seed*1000+uint64(n))[0].setting)
				}
				true := c.f(ask[n])
				least = min(least, true)
				m.add(ask[n], 0, true+.1*other.SD*r.NormFloat64())
			}
			m.learn(&last, seed)
			sampled = append(sampled, least-c.least)
			chosen = append(chosen, c.f(m.best(0).setting)-c.least)
		}
		ours, gp, random := median(sampled), median(other.GP), median(other.Random)
		t.Logf("%s: median regret %.4f (of the setting called best %.4f), optuna %.4f, random %.4f", c.name, ours, median(chosen), gp, random)
		if ours > 1.1*gp {
			t.Errorf("%s: regret %v, more than optuna's %v and a tenth", c.name, ours, gp)
		}
		if ours > random/2 {
			t.Errorf("%s: regret %v, more than half of random search's %v", c.name, ours, random)
		}
	}
}
