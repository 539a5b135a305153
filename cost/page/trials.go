package page

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/tierml/tierml/cost"
)

// Curve is the losses of a trial or a run, to be drawn together with others.
type Curve struct {
	Name   string
	Points []cost.LossPoint
}

// Drawing is a chart in two sizes, of which the style sheet shows the one that fits.
type Drawing struct {
	Title, Describe string
	Wide, Narrow    template.HTML
	Legend          []key
}

// DrawTrials draws the losses of a sweep's trials; the best one stands out. There is no drawing until a trial has two losses.
func DrawTrials(metric, unit string, trials []Curve, best string) []Drawing {
	return drawings("trials", trialCharts(metric, unit, trials, best))
}

// DrawRuns draws the losses of several runs, each in its own colour.
func DrawRuns(metric, unit string, runs []Curve) []Drawing {
	return drawings("runs", curves(metric, unit, runs, true, func(i int, l *line) { l.colour, l.dashed = i%palette, i >= palette }))
}

func drawings(id string, charts []chart) (out []Drawing) {
	for i, c := range charts {
		id := fmt.Sprintf("%s-%d", id, i)
		out = append(out, Drawing{c.title, c.describe, c.svg(id+"-wide", "wide", 510, 300), c.svg(id+"-narrow", "narrow", 340, 260), c.legend()})
	}
	return out
}

func trialCharts(metric, unit string, trials []Curve, best string) []chart {
	charts := curves(metric, unit, trials, false, func(i int, l *line) {
		l.colour, l.thin, l.faint, l.as = 2, true, true, "other trials"
		if trials[i].Name == best {
			l.colour, l.thin, l.faint, l.as = 0, false, false, "the best, "+best
		}
	})
	for i := range charts {
		if best != "" {
			charts[i].describe += fmt.Sprintf(" The strong one is the best, %s.", best)
		}
	}
	return charts
}

// curves draws losses over steps, hours and dollars. Hours count from the first loss of all or, if they ran at different times, from each
// one's own; paint assigns the colours.
func curves(metric, unit string, all []Curve, apart bool, paint func(i int, l *line)) (charts []chart) {
	metric = metricWord(metric)
	first := math.Inf(1)
	for _, t := range all {
		for _, p := range t.Points[:min(len(t.Points), 1)] {
			first = min(first, unix(p.At))
		}
	}
	since := "since the first loss"
	if apart {
		since = "since each one's first loss"
	}
	for _, over := range []struct {
		what, label string
		x           func(cost.LossPoint) float64
	}{
		{unit + "s", unit, func(p cost.LossPoint) float64 { return float64(p.Clock) }},
		{"hours", "hours of market time " + since, func(p cost.LossPoint) float64 { return (unix(p.At) - first) / 3600 }},
		{"dollars", "US$ paid", func(p cost.LossPoint) float64 { return p.USD }},
	} {
		c, drawn := chart{title: title(metric) + " over " + over.what, xLabel: over.label, yLabel: metric}, false
		for i, t := range all {
			l := line{name: t.Name}
			if apart && len(t.Points) > 0 {
				first = unix(t.Points[0].At)
			}
			for _, p := range t.Points {
				if y := cmp.Or(p.Test, p.Train); y != nil {
					l.points = append(l.points, point{over.x(p), *y})
				}
			}
			paint(i, &l)
			drawn = drawn || len(l.points) > 1
			c.lines = append(c.lines, l)
		}
		if !drawn {
			return nil
		}
		c.spread()
		c.describe = fmt.Sprintf("A line for each of %d.", len(all))
		charts = append(charts, c)
	}
	return charts
}

// decades is the ratio of the largest loss to the smallest from which they are drawn on a logarithmic scale.
const decades = 20

// spread draws losses on a logarithmic scale if a few large ones would hide how the others differ.
func (c *chart) spread() {
	low, high := math.Inf(1), math.Inf(-1)
	dots := line{}
	for _, m := range c.dots {
		dots.points = append(dots.points, m.point)
	}
	for _, l := range append(c.lines, dots) {
		for _, p := range l.points {
			low, high = min(low, p.y), max(high, p.y)
		}
	}
	if low > 0 && high/low > decades {
		c.logY, c.yLabel = true, c.yLabel+", log scale"
	}
}

// scattered is the maximum number of settings drawn.
const scattered = 6

// settingCharts draws the losses of trials by each setting that has several values.
func settingCharts(metric string, trials []cost.Trial, best string) (charts []chart) {
	values := map[string]map[string]bool{}
	for _, t := range trials {
		for name, value := range t.Settings {
			if values[name] == nil {
				values[name] = map[string]bool{}
			}
			values[name][value] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(values[name]) < 2 || len(charts) == scattered {
			continue
		}
		axis := newAxis(slices.Collect(maps.Keys(values[name])))
		metric := metricWord(metric)
		c := chart{title: title(metric) + " by " + name, xLabel: name + axis.note, yLabel: metric, ticks: axis.ticks,
			describe: fmt.Sprintf("A dot for each trial with a loss: its last %s by its %s. The strong one is the best.", metric, name)}
		for _, t := range slices.Backward(trials) { // the best is drawn last, on top
			if t.Loss == nil {
				continue
			}
			m := mark{point: point{axis.at(t.Settings[name]), *t.Loss}, shape: "dot", colour: 2, text: fmt.Sprintf("%s: %.4g at %s", t.Name(), *t.Loss, t.Words())}
			if t.Name() == best {
				m.shape, m.colour = "best", 0
			}
			c.dots = append(c.dots, m)
		}
		if c.spread(); len(c.dots) > 1 {
			charts = append(charts, c)
		}
	}
	return charts
}

// axis maps the values of a setting to positions: numbers that span decades logarithmically, words in order.
type axis struct {
	at    func(string) float64
	ticks []tick // nil = round numbers
	note  string
}

func newAxis(values []string) axis {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		x, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
			slices.Sort(values)
			words := axis{at: func(v string) float64 { return float64(slices.Index(values, v)) }}
			for i, v := range values {
				words.ticks = append(words.ticks, tick{float64(i), v})
			}
			return words
		}
		low, high = min(low, x), max(high, x)
	}
	number := func(v string) float64 { x, _ := strconv.ParseFloat(v, 64); return x } // all are numbers
	if low <= 0 || high/low < decades {
		return axis{at: number}
	}
	logs := axis{at: func(v string) float64 { return math.Log10(number(v)) }, note: ", log scale", ticks: []tick{}}
	for e := math.Ceil(math.Log10(low)); e <= math.Log10(high); e++ {
		logs.ticks = append(logs.ticks, tick{e, strconv.FormatFloat(math.Pow(10, e), 'g', 4, 64)})
	}
	return logs
}
