package page

import "math"

// A drawing has no more detail than a screen has columns, however long the run was, so the size of a page is limited.

// columnWidth is the width of a column, and of a line, in pixels of the drawing.
const columnWidth = 2

// thinned keeps the first, smallest, largest and last of the points in each column of the plot, in order: the curve looks the same.
func (f frame) thinned(points []point) []point {
	if columns := int(f.right-f.left) / columnWidth; len(points) <= 2*columns {
		return points
	}
	var out []point
	for i := 0; i < len(points); {
		column, low, high, end := math.Floor(f.x(points[i].x)/columnWidth), i, i, i
		for ; end < len(points) && math.Floor(f.x(points[end].x)/columnWidth) == column; end++ {
			if points[end].y < points[low].y {
				low = end
			}
			if points[end].y > points[high].y {
				high = end
			}
		}
		last := -1
		for _, at := range []int{i, min(low, high), max(low, high), end - 1} {
			if at > last {
				out = append(out, points[at])
				last = at
			}
		}
		i = end
	}
	return out
}

// sparse reports whether something at x is far enough from the last thing drawn of its kind; it remembers what is drawn.
func sparse(last map[string]float64, kind string, x, apart float64) bool {
	if before, ok := last[kind]; ok && math.Abs(x-before) < apart {
		return false
	}
	last[kind] = x
	return true
}
