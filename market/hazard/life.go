package hazard

import (
	"math"
	"time"
)

// Life is how long machines are kept: a fraction of launches meets scarce capacity, and these machines go at one rate, all others at a
// lower one. So the hazard falls with a machine's age. Rates are evictions per machine hour.
type Life struct {
	Scarce                float64 // the fraction, from 0 to 1
	ScarceHour, UsualHour float64
}

// Constant returns a life whose hazard does not depend on age.
func Constant(perHour float64) Life { return Life{UsualHour: perHour} }

// Survives returns the share of machines still running at an age.
func (l Life) Survives(age time.Duration) float64 {
	h := age.Hours()
	return float64(l.Scarce*math.Exp(-l.ScarceHour*h)) + float64((1-l.Scarce)*math.Exp(-l.UsualHour*h))
}

// Hazard returns the rate at an age.
func (l Life) Hazard(age time.Duration) float64 {
	if l.Scarce == 0 {
		return l.UsualHour
	}
	h := age.Hours()
	scarce, usual := float64(l.Scarce*math.Exp(-l.ScarceHour*h)), float64((1-l.Scarce)*math.Exp(-l.UsualHour*h))
	if scarce+usual == 0 {
		return min(l.ScarceHour, l.UsualHour)
	}
	return (float64(scarce*l.ScarceHour) + float64(usual*l.UsualHour)) / (scarce + usual)
}

// PerHour returns the number of machines lost in their first day per machine hour: a constant rate for callers that need one.
func (l Life) PerHour() float64 {
	if l.Scarce == 0 {
		return l.UsualHour
	}
	const day = 24
	run := func(share, rate float64) float64 {
		if rate == 0 {
			return share * day
		}
		return share * -math.Expm1(-rate*day) / rate
	}
	return (1 - l.Survives(day*time.Hour)) / (run(l.Scarce, l.ScarceHour) + run(1-l.Scarce, l.UsualHour))
}

// At returns a life of the same form with another PerHour.
func (l Life) At(perHour float64) Life {
	low, high := 0.0, 1.0
	times := func(f float64) Life { return Life{l.Scarce, f * l.ScarceHour, f * l.UsualHour} }
	for times(high).PerHour() < perHour {
		high *= 2
	}
	for range 60 {
		if mid := (low + high) / 2; times(mid).PerHour() < perHour {
			low = mid
		} else {
			high = mid
		}
	}
	return times(high)
}
