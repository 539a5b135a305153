package tuning

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tierml/tierml/tuner"
)

// measured has the results of a setting on six machines with links of 100 Mbit/s (`make -C lab paces`): the seconds of each clock, and of
// the change to it.
type measured struct {
	setting map[string]int
	change  float64
	clocks  []float64
	mean    float64
}

func readPaces(t *testing.T) map[string][]measured {
	t.Helper()
	file, err := os.Open("testdata/paces.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]measured{}
	for _, row := range rows {
		var m measured
		if err := json.Unmarshal([]byte(row[1]), &m.setting); err != nil {
			t.Fatal(err)
		}
		if m.change, err = strconv.ParseFloat(row[2], 64); err != nil {
			t.Fatal(err)
		}
		for text := range strings.FieldsSeq(row[3]) {
			ms, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			m.clocks = append(m.clocks, ms/1000)
			m.mean += ms / 1000
		}
		m.mean /= float64(len(m.clocks))
		all[row[0]] = append(all[row[0]], m)
	}
	return all
}

// The paper's figure 5 on our own servers: a tuned job closes at least .6 of the gap between the average setting and the best one,
// including its beginning and all changes, if the first settings take a fifth of its clocks (paper, table III: .58, .88, .57, .38). Six
// machines have 19 settings: all were measured.
func TestFigure5(t *testing.T) {
	const transient = 5
	for app, settings := range readPaces(t) {
		average, best := 0., settings[0].mean
		var means []float64
		for _, m := range settings {
			average += m.mean / float64(len(settings))
			best = min(best, m.mean)
			means = append(means, m.mean)
		}
		slices.Sort(means)
		first, _, _ := Outlook(Options{Clocks: 1e6, Partitions: 30, Seed: 1}, transient)
		clocks := 5*first*usualEvery + 5*firstPatience
		var closed []float64
		var ranks []int
		for seed := range uint64(9) {
			p := playPaces(t, settings, clocks, 0, seed)
			closed = append(closed, (average-p.mean)/(average-best))
			rank, _ := slices.BinarySearch(means, p.last)
			ranks = append(ranks, rank+1)
		}
		slices.Sort(closed)
		slices.Sort(ranks)
		middle, rank := closed[len(closed)/2], ranks[len(ranks)/2]
		t.Logf("%s: %d settings, %.3f to %.3f s per clock, mean %.3f; %d clocks, of which %d for the first settings; closed %.2f (%.2f to %.2f), the default alone %.2f; ends with rank %d (%d to %d)",
			app, len(settings), means[0], means[len(means)-1], average, clocks, first*usualEvery, middle, closed[0], closed[len(closed)-1], (average-settings[0].mean)/(average-best), rank, ranks[0], ranks[len(ranks)-1])
		if middle < .6 || rank > len(settings)*22/100 {
			t.Errorf("%s: closes %.2f of the gap, and ends with setting %d of %d", app, middle, rank, len(settings))
		}
	}
}

// Table VI of the paper: the clocks of all settings are divided into pieces of a clocks. From each piece one setting is estimated to be the
// best, and has a rank by all measured clocks; the mean of these ranks counts. Of 19 settings, rank r is that of 1 + 99 (r-1)/18 of 100.
func TestTableVI(t *testing.T) {
	for app, settings := range readPaces(t) {
		least := len(settings[0].clocks)
		var means []float64
		for _, m := range settings {
			least = min(least, len(m.clocks))
			means = append(means, m.mean)
		}
		slices.Sort(means)
		sum, slower, pieces := 0, 0., 0
		for from := 0; from+usualEvery <= least; from += usualEvery {
			var best measured
			estimate := math.Inf(1)
			for _, m := range settings {
				var piece []tuner.Clock
				for _, seconds := range m.clocks[from : from+usualEvery] {
					piece = append(piece, tuner.Clock{Seconds: seconds})
				}
				if pace, ok := tuner.Pace(piece); ok && pace < estimate {
					best, estimate = m, pace
				}
			}
			rank, _ := slices.BinarySearch(means, best.mean)
			sum, slower, pieces = sum+rank, slower+best.mean/means[0]-1, pieces+1
		}
		rank := 1 + 99*float64(sum)/float64(pieces)/float64(len(settings)-1)
		t.Logf("%s: the estimated best of %d pieces of %d clocks has rank %.1f of 100, and is %.1f %% slower than the best", app, pieces, usualEvery, rank, 100*slower/float64(pieces))
		if most := map[string]float64{"mlr": 5, "mf": 22, "dnn": 22}[app]; rank > most {
			t.Errorf("%s: rank %.1f, want at most %v", app, rank, most)
		}
	}
}

// played is a job whose clocks are drawn from the measured ones.
type played struct {
	mean  float64 // seconds per clock
	even  float64 // the same if each clock took its setting's mean
	last  float64 // mean of the last setting
	saved tuner.Net
}

func playPaces(t *testing.T, settings []measured, clocks int, share float64, seed uint64) (p played) {
	t.Helper()
	find := func(s Setting) measured {
		i := slices.IndexFunc(settings, func(m measured) bool { return settingOf(m.setting) == s })
		if i < 0 {
			t.Fatalf("%+v was not measured", s)
		}
		return settings[i]
	}
	rng := rand.New(rand.NewPCG(seed, 5))
	b := New(Options{Clocks: clocks, Partitions: 30, Share: share, Seed: seed})
	byDefault := settingOf(settings[0].setting)
	in, changing := find(byDefault), 0.
	for clock := 1; clock <= clocks; clock++ {
		seconds := in.clocks[rng.IntN(len(in.clocks))] + changing
		p.mean += seconds / float64(clocks)
		p.even += (in.mean + changing) / float64(clocks)
		d, asked := b.Clock(Report{Clock: int64(clock), Seconds: seconds, Fleet: Fleet{Machines: 5}, Default: byDefault, Moving: changing > 0})
		changing = 0
		if asked && d.Details.Step == "off" {
			t.Fatal(d.Why)
		}
		if asked && d.Setting != nil && !reflect.DeepEqual(d.Details.Setting, in.setting) {
			in = find(*d.Setting)
			changing = cmp.Or(in.change, .001)
		}
	}
	p.last, p.saved = in.mean, b.now.tuner.Saved()
	return p
}
