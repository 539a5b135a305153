package recordings

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/hazard"
)

// spell is how long a machine was there, in hours; it was still there then if it is not over.
type spell struct {
	hours float64
	over  bool
	count float64 // how much it counts
}

// TestLivesOnRecordings fits the lives of the table once more: on every other spell, tested on those between, and on all, compared with the
// table. Recordings of availability show an end only at the next probe.
func TestLivesOnRecordings(t *testing.T) {
	data := os.Getenv("TIERML_HAZARD_DATA")
	if data == "" {
		t.Skip("TIERML_HAZARD_DATA names no folder of recordings")
	}
	const probe = 1.0 / 6 // hours between two of most recordings
	sky := func(pattern string) (out []spell) {
		files, err := filepath.Glob(filepath.Join(data, "availability/skypilot/*/1-node", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no recordings (%v)", pattern, err)
		}
		for _, f := range files {
			out = append(out, skySpells(t, f)...)
		}
		return out
	}
	gpu := func(model string, count int) hazard.Life {
		return hazard.Assume("ec2", market.InstanceType{GPU: market.GPU{Name: model, Count: count}}).Life
	}
	for _, c := range []struct {
		name   string
		spells []spell
		table  hazard.Life
		blur   float64
		most   float64 // Kolmogorov-Smirnov distance of the held-out half
	}{
		{"Compute Engine, 2019", preemptibleSpells(t, filepath.Join(data, "availability/gcp-preemptible-lifetimes-2019.csv.gz")), hazard.Assume("gce", market.InstanceType{}).Life, 0, 0.10},
		{"V100", append(sky("*/*_v100_1.json.gz"), p3Spells(t, filepath.Join(data, "availability/bamboo/p3-trace.csv.gz"))...), gpu("V100", 1), probe, 0.10},
		{"eight V100", sky("*/*_v100_8.json.gz"), gpu("V100", 8), probe, 0.10},
		{"K80", sky("*/*_k80_1.json.gz"), gpu("K80", 1), probe, 0.24}, // by chance one in twenty pairs of 66 spells is as far apart
		{"eight K80", sky("*/*_k80_8.json.gz"), gpu("K80", 8), probe, 0.10},
	} {
		halves := [2][]spell{}
		for i, s := range c.spells {
			halves[i%2] = append(halves[i%2], s)
		}
		for i, half := range halves {
			life := fit(half)
			d := distance(life, halves[1-i], c.blur)
			t.Logf("%s: fitted on %d spells %.3g, tested on the other %d: distance %.3f; a constant hazard's %.3f", c.name, len(half), life,
				len(halves[1-i]), d, distance(hazard.Constant(hazardOf(half)), halves[1-i], c.blur))
			if d > c.most {
				t.Errorf("%s: the fit is %.3f from the other half", c.name, d)
			}
		}
		all := fit(c.spells)
		d := distance(c.table, c.spells, c.blur)
		t.Logf("%s: fitted on all %.3g, one in %.3g h; in the table %.3g, one in %.3g h: distance %.3f", c.name, all, 1/all.PerHour(), c.table, 1/c.table.PerHour(), d)
		if d > 0.10 || math.Abs(all.PerHour()/c.table.PerHour()-1) > 0.15 {
			t.Errorf("%s: the table is not what is fitted", c.name)
		}
	}
}

// fit maximises the likelihood by expectation and maximisation.
func fit(spells []spell) hazard.Life {
	l := hazard.Life{Scarce: 0.5, ScarceHour: 2, UsualHour: 0.05}
	for range 2000 {
		var n, scarce, ends1, ends2, hours1, hours2 float64
		for _, s := range spells {
			a, b := l.Scarce*math.Exp(-l.ScarceHour*s.hours), (1-l.Scarce)*math.Exp(-l.UsualHour*s.hours)
			if s.over {
				a, b = a*l.ScarceHour, b*l.UsualHour
			}
			p := s.count * a / (a + b)
			n, scarce, hours1, hours2 = n+s.count, scarce+p, hours1+p*s.hours, hours2+(s.count-p)*s.hours
			if s.over {
				ends1, ends2 = ends1+p, ends2+s.count-p
			}
		}
		l = hazard.Life{Scarce: scarce / n, ScarceHour: ends1 / hours1, UsualHour: ends2 / hours2}
	}
	return l
}

func hazardOf(spells []spell) float64 {
	ends, hours := 0.0, 0.0
	for _, s := range spells {
		hours += s.hours
		if s.over {
			ends++
		}
	}
	return ends / hours
}

// distance returns the Kolmogorov-Smirnov distance from the product-limit estimate, each machine counting once, with ends known to a blur.
func distance(l hazard.Life, spells []spell, blur float64) (most float64) {
	at := func(hours float64) float64 { return 1 - l.Survives(time.Duration(max(hours, 0)*float64(time.Hour))) }
	spells = slices.Clone(spells)
	slices.SortFunc(spells, func(a, b spell) int {
		switch {
		case a.hours < b.hours, a.hours == b.hours && a.over && !b.over:
			return -1
		case a.hours == b.hours && a.over == b.over:
			return 0
		}
		return 1
	})
	left := 1.0
	for i, s := range spells {
		before := 1 - left
		if s.over {
			left *= 1 - 1/float64(len(spells)-i)
		}
		most = max(most, at(s.hours-blur)-(1-left), before-at(s.hours+blur))
		if blur == 0 {
			most = max(most, math.Abs(at(s.hours)-before))
		} else if i+1 == len(spells) || spells[i+1].hours > s.hours {
			most = max(most, 1-left-at(s.hours+blur))
		}
	}
	return most
}

// rows reads a compressed CSV file.
func csvRows(t *testing.T, file string) [][]string {
	t.Helper()
	all, err := csv.NewReader(reader(t, file)).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return all
}

func float(t *testing.T, text string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// preemptibleSpells returns those of the two zones with more than a hundred machines, each of which counts as much. That a machine lived
// for 24 hours is no preemption: Google ended all by then.
func preemptibleSpells(t *testing.T, file string) (out []spell) {
	zones := map[string]float64{}
	all := csvRows(t, file)[1:]
	for _, r := range all {
		zones[r[1]]++
	}
	for _, r := range all {
		if hours := float(t, r[4]) / 3600; zones[r[1]] > 100 {
			out = append(out, spell{min(hours, 24), r[5] == "preempted" && hours < 23.99, 1 / zones[r[1]]})
		}
	}
	return out
}

// skySpells returns the times for which a machine was to be had.
func skySpells(t *testing.T, file string) (out []spell) {
	var recorded struct {
		Metadata struct {
			Gap float64 `json:"gap_seconds"`
		}
		Data []int
	}
	if err := json.NewDecoder(reader(t, file)).Decode(&recorded); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	run := 0
	for i, n := range recorded.Data {
		if n > 0 {
			run++
		}
		if last := i == len(recorded.Data)-1; run > 0 && (n == 0 || last) {
			out = append(out, spell{float64(run) * recorded.Metadata.Gap / 3600, n == 0, 1})
			run = 0
		}
	}
	return out
}

// p3Spells are lifetimes of instances, from lines of milliseconds, add or remove, and a name.
func p3Spells(t *testing.T, file string) (out []spell) {
	born, last := map[string]float64{}, 0.0
	for _, r := range csvRows(t, file) {
		last = float(t, r[0]) / 3.6e6
		if r[1] == "add" {
			born[r[2]] = last
		} else if since, known := born[r[2]]; known {
			out = append(out, spell{last - since, true, 1})
			delete(born, r[2])
		}
	}
	for _, since := range born {
		out = append(out, spell{last - since, false, 1})
	}
	return out
}
