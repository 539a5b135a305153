package page

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"
)

// chart is lines over one x axis, drawn as SVG. Colours and type sizes are left to the page's style sheet, so that one drawing serves light
// and dark.
type chart struct {
	title    string
	describe string // the chart in words, for people unable to see it
	xLabel   string
	yLabel   string
	xTime    bool // x is Unix seconds
	logY     bool
	zeroY    bool // y begins at 0
	lines    []line
	marks    []mark
	bands    []band
	rules    []rule
	dots     []mark // marks that the axes include
	ticks    []tick // of the x axis; nil = round values
}

type point struct{ x, y float64 }

// line is a series. Colour is an index into the page's palette.
type line struct {
	name   string
	colour int
	points []point
	step   bool // each value holds until the next point
	area   bool // filled down to base, or to the axis
	base   []point
	dashed bool
	thin   bool
	faint  bool   // behind a line of the same figure
	hidden bool   // not in the legend: it continues an existing series
	as     string // its name in the legend, which several may share; empty = its own
}

// mark is a small sign at a point. Shape is "launch", "notice", "evicted", "dot" or "best".
type mark struct {
	point
	shape  string
	colour int
	text   string
}

// band is a labelled interval of the x axis, drawn above the plot.
type band struct {
	from, to float64
	label    string
	level    int // 1, 2, 3: intensity of its colour
}

// rule is a vertical line through the plot.
type rule struct {
	x    float64
	kind string
	text string
}

// frame maps values to places.
type frame struct {
	left, top, right, bottom float64 // of the plot
	x0, x1, y0, y1           float64 // values at its edges; y as log10 if log
	log                      bool
}

func (f frame) x(v float64) float64 {
	return f.left + (v-f.x0)/(f.x1-f.x0)*(f.right-f.left)
}

func (f frame) y(v float64) float64 {
	if f.log {
		v = math.Log10(v)
	}
	return f.bottom - (v-f.y0)/(f.y1-f.y0)*(f.bottom-f.top)
}

// empty reports whether there is nothing to draw.
func (c chart) empty() bool {
	for _, l := range c.lines {
		if len(l.points) > 0 {
			return false
		}
	}
	return len(c.dots) == 0
}

// legend names the lines.
func (c chart) legend() (out []key) {
	for _, l := range c.lines {
		if l.hidden || len(l.points) == 0 {
			continue
		}
		k := key{cmp.Or(l.as, l.name), fmt.Sprintf("k%d", l.colour)}
		if l.faint {
			k.Class += " faint"
		}
		if !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	for _, m := range c.dots {
		if k := (key{map[string]string{"dot": "other trials", "best": "the best"}[m.shape], fmt.Sprintf("k%d", m.colour)}); !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out
}

// svg draws the chart in a box of width x height. The id must be unique in the page.
func (c chart) svg(id, class string, width, height float64) template.HTML {
	f := c.frame(width, height)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="chart %s" viewBox="0 0 %g %g" role="img" aria-labelledby="%s-t %s-d">`, class, width, height, id, id)
	fmt.Fprintf(&b, `<title id="%s-t">%s</title><desc id="%s-d">%s</desc>`, id, esc(c.title), id, esc(c.describe))
	c.drawAxes(&b, f, height)
	c.drawBands(&b, f)
	drawn := map[string]float64{}
	for _, r := range c.rules {
		if !sparse(drawn, r.kind, f.x(r.x), 1.5) {
			continue
		}
		fmt.Fprintf(&b, `<line class="rule %s" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"><title>%s</title></line>`,
			r.kind, f.x(r.x), f.x(r.x), f.top, f.bottom, esc(r.text))
	}
	for _, l := range c.lines {
		if l.hidden && len(l.points) > 0 && !sparse(drawn, fmt.Sprintf("%d %.0f", l.colour, f.y(l.points[0].y)), f.x(l.points[0].x), 2) {
			continue
		}
		drawLine(&b, f, l)
	}
	for _, m := range c.marks {
		if !sparse(drawn, fmt.Sprintf("%s %d %.0f", m.shape, m.colour, f.y(m.y)), f.x(m.x), 3) {
			continue
		}
		drawMark(&b, f, m)
	}
	for _, m := range c.dots {
		drawMark(&b, f, m)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // every text in it went through esc
}

// spark draws only the lines, for a table's cell.
func (c chart) spark(id string) template.HTML {
	const width, height = 120, 24
	f := c.frame(width, height)
	f.left, f.right, f.top, f.bottom = 1, width-1, 2, height-1
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="spark" viewBox="0 0 %d %d" role="img" aria-labelledby="%s-t"><title id="%s-t">%s: %s</title>`, width, height, id, id, esc(c.title), esc(c.describe))
	for _, l := range c.lines {
		drawLine(&b, f, l)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // every text in it went through esc
}

func esc(s string) string { return html.EscapeString(s) }

// frame finds the values at the edges of the plot.
func (c chart) frame(width, height float64) frame {
	f := frame{left: 52, top: 10, right: width - 18, bottom: height - 40, log: c.logY}
	if len(c.bands) > 0 {
		f.top = 30
	}
	f.x0, f.x1, f.y0, f.y1 = math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	dots := line{}
	for _, m := range c.dots {
		dots.points = append(dots.points, m.point)
	}
	for _, l := range append(c.lines, dots) {
		for _, p := range l.points {
			y := p.y
			if c.logY {
				y = math.Log10(p.y)
			}
			f.x0, f.x1 = math.Min(f.x0, p.x), math.Max(f.x1, p.x)
			f.y0, f.y1 = math.Min(f.y0, y), math.Max(f.y1, y)
		}
	}
	if c.zeroY {
		f.y0 = 0
	}
	if f.x1 <= f.x0 {
		f.x1 = f.x0 + 1
	}
	if f.y1 <= f.y0 {
		f.y0, f.y1 = f.y0-0.5, f.y1+0.5
	}
	room := (f.y1 - f.y0) * 0.06
	f.y1 += room
	if !c.zeroY {
		f.y0 -= room
	}
	if len(c.dots) > 0 { // none is on an edge
		room := (f.x1 - f.x0) * 0.05
		f.x0, f.x1 = f.x0-room, f.x1+room
	}
	return f
}

func (c chart) drawAxes(b *strings.Builder, f frame, height float64) {
	for _, v := range c.yTicks(f) {
		y := f.y(v)
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, f.left, f.right, y, y)
		fmt.Fprintf(b, `<text class="tick" x="%.1f" y="%.1f" text-anchor="end">%s</text>`, f.left-6, y+4, number(v))
	}
	room := 64.0 // pixels per label
	if c.xTime {
		room = 56
	}
	for _, t := range c.xTicks(f, int((f.right-f.left)/room)) {
		x := f.x(t.at)
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, x, x, f.bottom, f.bottom+4)
		fmt.Fprintf(b, `<text class="tick" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, x, f.bottom+17, esc(t.label))
	}
	fmt.Fprintf(b, `<line class="axis" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, f.left, f.right, f.bottom, f.bottom)
	fmt.Fprintf(b, `<text class="label" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, (f.left+f.right)/2, height-5, esc(c.xLabel))
	fmt.Fprintf(b, `<text class="label" transform="translate(11 %.1f) rotate(-90)" text-anchor="middle">%s</text>`, (f.top+f.bottom)/2, esc(c.yLabel))
}

func (c chart) drawBands(b *strings.Builder, f frame) {
	drawn := map[string]float64{}
	for _, s := range c.bands {
		x, w := f.x(s.from), f.x(s.to)-f.x(s.from)
		if w < 1 && !sparse(drawn, "", x, 1) {
			continue
		}
		fmt.Fprintf(b, `<rect class="band b%d" x="%.1f" y="6" width="%.1f" height="16"><title>%s</title></rect>`, s.level, x, math.Max(w, 0.5), esc(s.label))
		switch short := s.label[strings.LastIndexByte(s.label, ' ')+1:]; {
		case w > 50:
			fmt.Fprintf(b, `<text class="bandtext t%d" x="%.1f" y="18" text-anchor="middle">%s</text>`, s.level, x+w/2, esc(s.label))
		case w > 10:
			fmt.Fprintf(b, `<text class="bandtext t%d" x="%.1f" y="18" text-anchor="middle">%s</text>`, s.level, x+w/2, esc(short))
		}
	}
}

func drawLine(b *strings.Builder, f frame, l line) {
	if len(l.points) == 0 {
		return
	}
	l.points, l.base = f.thinned(l.points), f.thinned(l.base)
	var d strings.Builder
	path(&d, f, l.points, l.step, 'M')
	class := fmt.Sprintf("line s%d", l.colour)
	if l.dashed {
		class += " dashed"
	}
	if l.thin {
		class += " thin"
	}
	if l.faint {
		class += " faint"
	}
	if l.area {
		back := append([]point(nil), l.base...)
		if len(back) == 0 {
			back = []point{{l.points[0].x, f.y0}, {l.points[len(l.points)-1].x, f.y0}}
		}
		fill := d.String() + outline(f, back, l.step)
		fmt.Fprintf(b, `<path class="area f%d" d="%sZ"/>`, l.colour, fill)
	}
	fmt.Fprintf(b, `<path class="%s" d="%s"><title>%s</title></path>`, class, d.String(), esc(l.name))
}

// outline walks points backwards, mirroring the steps that path makes forwards.
func outline(f frame, points []point, step bool) string {
	var b strings.Builder
	for i := len(points) - 1; i >= 0; i-- {
		p := points[i]
		if step && i+1 < len(points) {
			fmt.Fprintf(&b, "L%.1f %.1f", f.x(points[i+1].x), f.y(p.y))
		}
		fmt.Fprintf(&b, "L%.1f %.1f", f.x(p.x), f.y(p.y))
	}
	return b.String()
}

func path(b *strings.Builder, f frame, points []point, step bool, first byte) {
	for i, p := range points {
		if i == 0 {
			fmt.Fprintf(b, "%c%.1f %.1f", first, f.x(p.x), f.y(p.y))
			continue
		}
		if step {
			fmt.Fprintf(b, "H%.1f", f.x(p.x))
			if p.y == points[i-1].y {
				continue
			}
			fmt.Fprintf(b, "V%.1f", f.y(p.y))
			continue
		}
		fmt.Fprintf(b, "L%.1f %.1f", f.x(p.x), f.y(p.y))
	}
}

func drawMark(b *strings.Builder, f frame, m mark) {
	x, y := f.x(m.x), math.Min(math.Max(f.y(m.y), f.top), f.bottom)
	shape := map[string]string{
		"launch":  "M-5 4L0 -5L5 4Z",
		"notice":  "M0 -6L6 0L0 6L-6 0Z",
		"evicted": "M-5 -5L5 5M-5 5L5 -5",
		"dot":     "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z",
		"best":    "M-7 0a7 7 0 1 0 14 0a7 7 0 1 0 -14 0Z",
	}[m.shape]
	fmt.Fprintf(b, `<path class="mark %s s%d f%d" transform="translate(%.1f %.1f)" d="%s"><title>%s</title></path>`,
		m.shape, m.colour, m.colour, x, y, shape, esc(m.text))
}

// yTicks returns about five round values; on a log axis 1, 2 and 5 of each decade, if at least two are in range.
func (c chart) yTicks(f frame) []float64 {
	if !f.log {
		return round(f.y0, f.y1, 5)
	}
	steps := []float64{1, 2, 5}
	if f.y1-f.y0 > 2 {
		steps = []float64{1}
	}
	var out []float64
	for e := math.Floor(f.y0); e <= f.y1; e++ {
		for _, s := range steps {
			if v := s * math.Pow(10, e); math.Log10(v) >= f.y0 && math.Log10(v) <= f.y1 {
				out = append(out, v)
			}
		}
	}
	if len(out) < 2 {
		return round(math.Pow(10, f.y0), math.Pow(10, f.y1), 5)
	}
	return out
}

// round returns about n round values between low and high.
func round(low, high float64, n int) []float64 {
	raw := (high - low) / float64(max(n, 1))
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	step := unit * 10
	for _, s := range []float64{1, 2, 5} {
		if unit*s >= raw {
			step = unit * s
			break
		}
	}
	var out []float64
	for i := math.Ceil(low / step); i*step <= high; i++ {
		out = append(out, i*step)
	}
	return out
}

type tick struct {
	at    float64
	label string
}

// xTicks returns at most n round values, or round times.
func (c chart) xTicks(f frame, n int) []tick {
	var out []tick
	if c.ticks != nil {
		return c.ticks
	}
	if !c.xTime {
		for _, v := range round(f.x0, f.x1, n) {
			out = append(out, tick{v, number(v)})
		}
		return out
	}
	step := timeStep(f.x1-f.x0, n)
	for v := math.Ceil(f.x0/step) * step; v <= f.x1; v += step {
		t := time.Unix(int64(v), 0).UTC()
		label := t.Format("15:04")
		switch {
		case step < 60:
			label = t.Format("15:04:05")
		case t.Hour() == 0 && t.Minute() == 0:
			label = t.Format("Jan 2")
		}
		out = append(out, tick{v, label})
	}
	return out
}

// timeStep returns the shortest of the usual steps that makes at most n ticks.
func timeStep(span float64, n int) float64 {
	steps := []float64{10, 30, 60, 300, 600, 1800, 3600, 2 * 3600, 3 * 3600, 4 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400, 30 * 86400}
	for _, s := range steps {
		if span/s <= float64(max(n, 1)) {
			return s
		}
	}
	return 365 * 86400
}

// number prints a tick with no more digits than it needs.
func number(v float64) string {
	if math.Abs(v) < 1e-12 {
		return "0"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.4g", v), ".0")
}
