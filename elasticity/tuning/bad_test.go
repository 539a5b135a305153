package tuning

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Jobs that begin with bad settings, drawn from the slower half of those measured, gain from tuning. Those that begin with settings better
// than the usual ones lose no more than others.
func TestBadSettingsAreLeft(t *testing.T) {
	const clocks = 600
	var gains, closed []float64
	for _, app := range []string{"dnn", "mf", "mlr"} {
		settings := readPaces(t)[app]
		bySpeed := slices.SortedFunc(slices.Values(settings), func(a, b measured) int {
			if a.mean < b.mean {
				return -1
			}
			return 1
		})
		best, bad := bySpeed[0].mean, bySpeed[len(bySpeed)/2:]
		var of []float64
		r := rand.New(rand.NewPCG(11, 46))
		for seed := range uint64(10) {
			from := bad[r.IntN(len(bad))]
			rest := slices.DeleteFunc(slices.Clone(settings), func(m measured) bool { return settingOf(m.setting) == settingOf(from.setting) })
			p := playPaces(t, append([]measured{from}, rest...), clocks, UsualShare, 300+seed)
			of = append(of, from.mean/p.even)
			closed = append(closed, (from.mean-p.last)/(from.mean-best))
		}
		slices.Sort(of)
		gains = append(gains, of...)
		for i, from := range bySpeed[:slices.IndexFunc(bySpeed, func(m measured) bool { return settingOf(m.setting) == settingOf(settings[0].setting) })] {
			if s := settingOf(from.setting); s.Servers > 0 && !s.Apart && !s.Rest {
				continue // near the usual one, which is not tried first then
			}
			rest := slices.DeleteFunc(slices.Clone(settings), func(m measured) bool { return settingOf(m.setting) == settingOf(from.setting) })
			p := playPaces(t, append([]measured{from}, rest...), clocks, UsualShare, 400+uint64(i))
			if p.even > 1.01*from.mean {
				t.Errorf("%s from %v, which is better than what is likely: %.4f slower", app, from.setting, p.even/from.mean-1)
			}
		}
		t.Logf("%s, %d clocks: %.2f times as fast in the median, %.2f to %.2f", app, clocks, of[5], of[0], of[9])
	}
	slices.Sort(gains)
	slices.Sort(closed)
	if gains[len(gains)/2] < 1.4 || closed[len(closed)/2] < .9 {
		t.Errorf("%.2f times as fast in the median", gains[len(gains)/2])
	}
	t.Logf("%d clocks: %.2f times as fast in the median of all; the last setting closes %.2f of the gap", clocks, gains[len(gains)/2], closed[len(closed)/2])
}
