package page

import (
	"fmt"
	"html/template"
	"strings"

	"github.com/tierml/tierml/cost"
)

// Trial is one of a sweep, to be drawn.
type Trial struct {
	Name   string
	Points []cost.LossPoint
}

// Drawing is a chart in two sizes, of which the style sheet shows the one that fits.
type Drawing struct {
	Title, Describe string
	Wide, Narrow    template.HTML
}

// DrawTrials draws the test losses of a sweep's trials over dollars and over hours since its first trial began; the best one stands out. There
// is no drawing while no trial has two losses.
func DrawTrials(metric string, trials []Trial, best string) (drawings []Drawing) {
	metric = strings.ToUpper(metric)
	first := 0.
	for _, t := range trials {
		if len(t.Points) > 0 && (first == 0 || unix(t.Points[0].At) < first) {
			first = unix(t.Points[0].At)
		}
	}
	for i, c := range []chart{
		{title: metric + " over dollars", xLabel: "US$ paid by the trial", yLabel: metric},
		{title: metric + " over hours", xLabel: "hours of market time since the first loss", yLabel: metric},
	} {
		lines, drawn := []line{}, 0
		for _, t := range trials {
			l := line{name: t.Name, colour: 2, thin: true, faint: true}
			if t.Name == best {
				l.colour, l.thin, l.faint = 0, false, false
			}
			for _, p := range t.Points {
				if p.Test == nil {
					continue
				}
				x := p.USD
				if i == 1 {
					x = (unix(p.At) - first) / 3600
				}
				l.points = append(l.points, point{x, *p.Test})
			}
			if len(l.points) > 1 {
				drawn++
			}
			lines = append(lines, l)
		}
		if drawn == 0 {
			return nil
		}
		c.lines = lines
		c.describe = fmt.Sprintf("A line for each of %d trials.", len(trials))
		if best != "" {
			c.describe += fmt.Sprintf(" The strong one is the best, %s.", best)
		}
		id := fmt.Sprintf("trials-%d", i)
		drawings = append(drawings, Drawing{c.title, c.describe, c.svg(id+"-wide", "wide", 510, 300), c.svg(id+"-narrow", "narrow", 340, 260)})
	}
	return drawings
}
