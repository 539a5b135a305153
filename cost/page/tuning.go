package page

import (
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/tierml/tierml/cost"
)

// settingsChart shows the settings of a job that is tuned during training.
func settingsChart(r *cost.Report) chart {
	c := chart{title: "Settings over time", xLabel: "market time (UTC)", yLabel: "value", xTime: true, zeroY: true}
	knobs := map[string]int{} // the highest value
	for _, s := range r.Series.Tuning {
		for name, v := range s.Setting {
			knobs[name] = max(knobs[name], v)
		}
	}
	for i, name := range slices.Sorted(maps.Keys(knobs)) {
		l := line{name: name, colour: i % palette, step: true}
		if knobs[name] < 2 {
			l.name, l.thin = name+" (1 = yes)", true
		}
		for _, s := range r.Series.Tuning {
			if s.Setting != nil {
				l.points = append(l.points, point{unix(s.At), float64(s.Setting[name])})
			}
		}
		if n := len(l.points); n > 0 {
			l.points = append(l.points, point{unix(r.Run.AsOf), l.points[n-1].y})
		}
		c.lines = append(c.lines, l)
	}
	c.rules = incidents(r)
	c.describe = fmt.Sprintf("The tuner was asked %d times. Vertical lines are evictions and roll-backs.", len(r.Series.Tuning))
	return c
}

// paceChart compares clock times under the measured settings with the default's.
func paceChart(r *cost.Report) chart {
	c := chart{title: "Pace of the settings", xLabel: "market time (UTC)", yLabel: "seconds per clock", xTime: true, zeroY: true}
	measured, byDefault := line{name: "setting in use", colour: 0}, line{name: "default", colour: 1, dashed: true}
	best := 0.
	for _, s := range r.Series.Tuning {
		if s.Pace == 0 {
			continue
		}
		measured.points = append(measured.points, point{unix(s.At), s.Pace})
		byDefault.points = append(byDefault.points, point{unix(s.At), s.Default})
		if best == 0 || s.Pace < best {
			best = s.Pace
		}
	}
	c.lines = []line{measured, byDefault}
	if n := len(measured.points); n > 0 {
		c.describe = fmt.Sprintf("%d settings were measured; a clock took %.3g s by the last, %.3g s by the best and %.3g s by default.",
			n, measured.points[n-1].y, best, byDefault.points[n-1].y)
	}
	return c
}

// improvementChart shows what the changes were expected to save, and what they did.
func improvementChart(r *cost.Report) chart {
	c := chart{title: "Expected and real improvement", xLabel: "market time (UTC)", yLabel: "seconds per clock", xTime: true}
	expected, real := line{name: "expected", colour: 3, step: true}, line{name: "real", colour: 0, step: true}
	for _, s := range r.Series.Tuning {
		if s.Expected != 0 {
			expected.points = append(expected.points, point{unix(s.At), s.Expected})
			real.points = append(real.points, point{unix(s.At), s.Real})
		}
	}
	for _, l := range []*line{&expected, &real} {
		if n := len(l.points); n > 0 {
			l.points = append(l.points, point{unix(r.Run.AsOf), l.points[n-1].y})
		}
	}
	c.lines = []line{expected, real}
	c.describe = fmt.Sprintf("%d changes were made for an expected improvement.", max(len(expected.points)-1, 0))
	return c
}

func settingsTable(r *cost.Report, most int) template.HTML {
	var rows [][]string
	seconds := func(v float64) string {
		if v == 0 {
			return ""
		}
		return fmt.Sprintf("%.3f", v)
	}
	for _, s := range r.Series.Tuning {
		var words []string
		for _, name := range slices.Sorted(maps.Keys(s.Setting)) {
			words = append(words, fmt.Sprintf("%s %d", name, s.Setting[name]))
		}
		rows = append(rows, []string{Stamp(s.At), fmt.Sprint(s.Clock), s.Step, strings.Join(words, ", "), seconds(s.Pace), seconds(s.Expected), seconds(s.Real)})
	}
	return dataTable([]string{"time", "clock", "step", "setting from then on", "s/clock of the one before", "expected to save", "saved"}, rows, most)
}
