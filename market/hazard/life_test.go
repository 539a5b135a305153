package hazard

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
)

// Machines of a fleet that is kept full live as long as their assumed life, whatever the mix of events.
func TestMachinesLiveAsAssumed(t *testing.T) {
	for _, life := range []Life{preemptible.Life, v100, Constant(0.1)} {
		const places = 16
		kept, lives := map[time.Duration]int{}, 0
		for i := range 200 {
			p := pool("a", "c5.xlarge", 0)
			p.Life, p.Places = life, places
			launched, length := [places]time.Time{}, 48*time.Hour
			start := begin.Add(time.Duration(i) * time.Hour)
			for k := range launched {
				launched[k] = start
			}
			events := eventsOf(&Hazard{Seed: 9, Pools: []Pool{p}}, start, length)
			for k := range events {
				for place, since := range launched {
					age := events[k].At.Sub(since)
					if !events[k].Takes(place, age) {
						continue
					}
					launched[place] = events[k].At
					if since.Equal(start) { // of later ones only short lives end in time
						lives++
						for _, at := range []time.Duration{time.Hour, 6 * time.Hour, 24 * time.Hour} {
							if age > at {
								kept[at]++
							}
						}
					}
				}
			}
			for _, since := range launched {
				if since.Equal(start) {
					lives++
					for _, at := range []time.Duration{time.Hour, 6 * time.Hour, 24 * time.Hour} {
						kept[at]++
					}
				}
			}
		}
		for at, n := range kept {
			if got, want := float64(n)/float64(lives), life.Survives(at); math.Abs(got-want) > 0.06 {
				t.Errorf("%+v: %.3f of %d machines outlive %s, want %.3f", life, got, lives, at, want)
			}
		}
	}
}

func TestHazardFallsWithAge(t *testing.T) {
	for _, life := range []Life{preemptible.Life, v100, v100.At(1)} {
		for age := time.Duration(0); age < 100*time.Hour; age += 10 * time.Minute {
			later := age + time.Minute
			if life.Hazard(later) > life.Hazard(age)*(1+1e-9) || life.Hazard(later) < life.UsualHour*(1-1e-9) {
				t.Fatalf("%+v: %g an hour at %s, %g a minute later", life, life.Hazard(age), age, life.Hazard(later))
			}
			slope := -math.Log(life.Survives(later)/life.Survives(age)) * 60
			if mean := life.Hazard(age + time.Minute/2); math.Abs(slope-mean) > 1e-4*mean {
				t.Fatalf("%+v: survival falls by %g an hour at %s, the hazard is %g", life, slope, age, mean)
			}
		}
	}
	if got := v100.At(0.5).PerHour(); math.Abs(got-0.5) > 1e-9 {
		t.Errorf("%g an hour, want 0.5", got)
	}
}

// An assumption says what is known about a model, and what is borrowed from another.
func TestAssumptionsAreByModel(t *testing.T) {
	of := func(model string, count int) market.InstanceType {
		return market.InstanceType{GPU: market.GPU{Name: model, Count: count}}
	}
	for _, c := range []struct {
		provider string
		kind     market.InstanceType
		hours    float64 // between evictions, as recorded
		says     string
	}{
		{"ec2", market.InstanceType{}, 3795, "a machine is evicted once in 3795 hours, 2222 to 28833 by zone and type"},
		{"gce", market.InstanceType{}, 49, "30 to 76 by zone and type"},
		{"ec2", of("V100", 1), 3.3, "0.72 to 17"},
		{"ec2", of("V100", 8), 1.16, "one recording"},
		{"ec2", of("K80", 4), 6.3, "4.2 to 7.7"},
		{"ec2", of("T4", 1), 2.35, "one recording"},
		{"gce", of("K80", 1), 0.75, "one recording"},
		{"ec2", of("H100", 8), 1.16, "taken from the V100"},
		{"gce", of("A100", 1), 3.4, "taken from the V100"},
		{"kube", of("L4", 1), 3.3, "taken from the V100"},
	} {
		a := Assume(c.provider, c.kind)
		if hours := 1 / a.PerHour(); hours > 2*c.hours || hours < c.hours/2 {
			t.Errorf("%s, %s: one in %.3g h, recorded were %.3g", c.provider, c.kind.GPU, hours, c.hours)
		}
		if !strings.Contains(a.Says(), c.says) {
			t.Errorf("%s, %s: %q, want %q in it", c.provider, c.kind.GPU, a.Says(), c.says)
		}
	}
}
