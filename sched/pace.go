package sched

import "math"

// Pace is a job's speed, by its workers and servers.
type Pace []Measured

// Measured is the speed over some consecutive clocks.
type Measured struct {
	Workers, Servers int
	Speed            float64 // clocks per second
}

// at returns the newest measured speed of these numbers; false = none.
func (p Pace) at(workers, servers int) (float64, bool) {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i].Workers == workers && p[i].Servers == servers {
			return p[i].Speed, true
		}
	}
	return 0, false
}

// Speed returns the expected speed of these numbers: measured, or fitted, or else that of the last measurement; false =
// nothing is known.
func (p Pace) Speed(workers, servers int) (float64, bool) {
	if speed, known := p.at(workers, servers); known || len(p) == 0 {
		return speed, known
	}
	if fit, known := p.Fit(); known {
		return 1 / fit.Seconds(workers, servers), true
	}
	return p[len(p)-1].Speed, true
}

// Fit is the seconds of a clock: a/w + b + c w/s + d w + e s with nonnegative coefficients: Optimus's model of synchronous training
// (EuroSys 2018, equation 4), where work is shared among w workers and every server exchanges updates with all.
type Fit [5]float64

func features(workers, servers int) [5]float64 {
	w, s := float64(workers), math.Max(float64(servers), 1)
	return [5]float64{1 / w, 1, w / s, w, s}
}

// Fit fits the model by least squares on relative errors, a coefficient at a time; false with fewer than two measurements.
func (p Pace) Fit() (Fit, bool) {
	var f Fit
	distinct := map[[2]int]bool{}
	for _, m := range p {
		if m.Workers > 0 && m.Speed > 0 {
			distinct[[2]int{m.Workers, m.Servers}] = true
		}
	}
	if len(distinct) < 2 {
		return f, false
	}
	const rounds = 2000
	for range rounds {
		before := f
		for k := range f {
			over, under := 0., 0.
			for _, m := range p {
				if m.Workers < 1 || !(m.Speed > 0) {
					continue
				}
				x := features(m.Workers, m.Servers)
				rest := 1.
				for i := range f {
					if i != k {
						rest -= f[i] * x[i] * m.Speed
					}
				}
				own := x[k] * m.Speed
				over, under = over+own*rest, under+own*own
			}
			f[k] = max(over/under, 0)
		}
		moved := 0.
		for k := range f {
			moved = max(moved, math.Abs(f[k]-before[k])/(f[k]+1e-12))
		}
		if moved < 1e-6 {
			break
		}
	}
	return f, true
}

// Seconds returns the seconds of a clock with these numbers.
func (f Fit) Seconds(workers, servers int) float64 {
	sum := 0.
	for i, x := range features(workers, servers) {
		sum += f[i] * x
	}
	return sum
}
