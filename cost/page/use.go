package page

import (
	"fmt"
	"html/template"
	"slices"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/progress"
)

// usage is a table row with a machine's use over time.
type usage struct {
	cost.MachineUse
	Cells []useCell
}

// useCell is a metric's curve, with its mean and peak in words.
type useCell struct {
	Name, Text string
	Curve      template.HTML // empty if there is nothing to draw
}

// UseColumns names the metrics that some machine has.
func (v view) UseColumns() []string {
	columns := []string{"processor", "memory"}
	for _, name := range []string{"GPU", "network"} {
		if slices.ContainsFunc(v.Series.Use, func(m cost.MachineUse) bool {
			return m.Peak(useFigures[name]) > 0
		}) {
			columns = append(columns, name)
		}
	}
	return columns
}

var useFigures = map[string]func(cost.UseStep) float64{
	"processor": func(s cost.UseStep) float64 { return s.Cores },
	"memory":    func(s cost.UseStep) float64 { return float64(s.Memory) },
	"GPU":       func(s cost.UseStep) float64 { return s.GPU },
	"network":   func(s cost.UseStep) float64 { return s.In + s.Out },
}

// mostUsages is the maximum number of machines shown.
const mostUsages = 24

// ShownUse returns the rows of the machines that are running, and of the newest others.
func (v view) ShownUse() (out []usage) {
	all := slices.Clone(v.Series.Use)
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b cost.MachineUse) int {
		if a.Ended == b.Ended {
			return 0
		} else if b.Ended {
			return -1
		}
		return 1
	})
	columns := v.UseColumns()
	for i, m := range all[:min(len(all), mostUsages)] {
		row := usage{MachineUse: m}
		whole, _ := m.Whole()
		for n, name := range columns {
			of := useFigures[name]
			c := chart{title: name + " of " + m.Machine, describe: useText(m, name, whole), zeroY: true}
			l := line{name: name, colour: n}
			for _, s := range m.Steps {
				l.points = append(l.points, point{unix(s.At), of(s)})
			}
			c.lines = []line{l}
			cell := useCell{Name: name, Text: c.describe}
			if len(l.points) > 1 && m.Peak(of) > 0 {
				cell.Curve = c.spark(fmt.Sprintf("use-%d-%d", i, n))
			}
			row.Cells = append(row.Cells, cell)
		}
		out = append(out, row)
	}
	return out
}

// useText is a figure of all the time in words.
func useText(m cost.MachineUse, name string, whole cost.UseStep) string {
	switch peak := m.Peak(useFigures[name]); name {
	case "processor":
		text := fmt.Sprintf("%.2f", whole.Cores)
		if m.VCPU > 0 {
			text += fmt.Sprintf(" of %d", m.VCPU)
		}
		return text + fmt.Sprintf(" cores, peak %.2f", peak)
	case "memory":
		text := "peak " + progress.Size(whole.Memory)
		if m.Of > 0 {
			text += " of " + progress.Size(m.Of)
		}
		return text
	case "GPU":
		return fmt.Sprintf("%.0f %%, peak %.0f %%, memory %s", 100*whole.GPU, 100*peak, progress.Size(whole.GPUMemory))
	}
	return fmt.Sprintf("%s/s in, %s/s out", progress.Size(int64(whole.In)), progress.Size(int64(whole.Out)))
}
