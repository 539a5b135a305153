package main

import (
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// drawCurves writes a picture of all curves of a group to a folder: a panel for each, both axes logarithmic, this build
// next to the former. It returns no path if there is no curve.
func drawCurves(dir, group, title string, results []Result) (path string, err error) {
	var names []string
	curves := map[string][]Result{}
	for _, r := range results {
		if r.Curve == "" || r.Skip != "" {
			continue
		}
		if curves[r.Curve] == nil {
			names = append(names, r.Curve)
		}
		curves[r.Curve] = append(curves[r.Curve], r)
	}
	if len(names) == 0 {
		return "", nil
	}
	const width, height = 260, 220
	var b strings.Builder
	fmt.Fprintf(&b, pictureHead, width*len(names), height+20, html.EscapeString(title), html.EscapeString(strings.Join(names, ", ")), formerCommit)
	for i, name := range names {
		panel(&b, float64(i*width), width, height, name, curves[name])
	}
	fmt.Fprintf(&b, `<text x="50" y="%d" style="fill:%s">now</text><text x="90" y="%d" style="fill:%s">%s</text>`+"\n</svg>\n", height+14, curveColours[0], height+14, curveColours[1], formerCommit)
	path = filepath.Join(dir, group+".svg")
	return path, os.WriteFile(path, []byte(b.String()), 0o644)
}

// pictureHead takes the size, the title, the curves' names and the former build's name.
const pictureHead = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="t d">
<title id="t">%s</title><desc id="d">%s, of this build and of %s, by powers on both axes.</desc>
<style>text{font-family:sans-serif;font-size:11px;fill:#57606a}@media (prefers-color-scheme:dark){text{fill:#9198a1}}</style>
`

var curveColours = [2]string{"#2a7de1", "#d9772b"}

// panel draws one curve's points of both builds, with their values.
func panel(b *strings.Builder, left, width, height float64, name string, results []Result) {
	x0, x1, y0, y1 := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, r := range results {
		x0, x1 = min(x0, r.At), max(x1, r.At)
		for _, y := range []float64{r.OursMedian, r.TheirsMedian} {
			if y > 0 {
				y0, y1 = min(y0, y), max(y1, y)
			}
		}
	}
	x0, x1, y0, y1 = x0/1.3, x1*1.3, y0/1.4, y1*1.4
	at := func(x, y float64) (float64, float64) {
		return left + 48 + (width-60)*math.Log(x/x0)/math.Log(x1/x0), 24 + (height-48)*math.Log(y1/y)/math.Log(y1/y0)
	}
	fmt.Fprintf(b, `<text x="%.0f" y="14">%s, %s</text>`, left+48, html.EscapeString(name), html.EscapeString(results[0].Unit))
	fmt.Fprintf(b, `<rect x="%.0f" y="24" width="%.0f" height="%.0f" fill="none" stroke="#8888"/>`+"\n", left+48, width-60, height-48)
	for _, r := range results {
		x, _ := at(r.At, y0)
		fmt.Fprintf(b, `<text x="%.1f" y="%.0f" text-anchor="middle">%s</text>`, x, height-10, short(r.At))
	}
	for decade := math.Pow(10, math.Ceil(math.Log10(y0))); decade <= y1; decade *= 10 {
		_, y := at(x0, decade)
		fmt.Fprintf(b, `<line x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f" stroke="#8884"/><text x="%.0f" y="%.1f" text-anchor="end">%s</text>`,
			left+48, left+width-12, y, y, left+44, y+4, short(decade))
	}
	for side, colour := range curveColours {
		var line []string
		for _, r := range results {
			v := [2]float64{r.OursMedian, r.TheirsMedian}[side]
			if !(v > 0) {
				continue
			}
			x, y := at(r.At, v)
			line = append(line, fmt.Sprintf("%.1f,%.1f", x, y))
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"><title>%s</title></circle>`, x, y, colour, figure(v))
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s"/>`+"\n", strings.Join(line, " "), colour)
	}
}

// short formats 50000000 as 50M.
func short(x float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if x >= unit.size {
			return fmt.Sprintf("%g%s", x/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%g", x)
}
