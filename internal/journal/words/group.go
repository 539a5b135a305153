package words

import (
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// Grouper turns entries into lines, in the order in which things began to happen. Similar entries about single machines within Window of
// market time become one line. Any other noteworthy entry comes after what happened before it: it closes the groups.
type Grouper struct {
	Window time.Duration
	open   []group
}

type group struct {
	key   groupKey
	line  Line
	first journal.Entry
}

type groupKey struct {
	kind            journal.Kind
	pool, tier, bid string
	warned          bool // a notice with a deadline
}

// Add adds the next entry and returns the lines that are now complete.
func (g *Grouper) Add(e journal.Entry) []Line {
	lines := g.closeUntil(e.T.Add(-g.Window))
	if !Important(e) {
		return lines
	}
	if !aboutMachines(e.Kind) {
		return append(append(lines, g.Flush()...), Line{
			T: e.T, Kind: e.Kind, Text: text(e, 0), Why: e.Why, Pool: e.Pool, Entry: e,
		})
	}
	key := groupKey{e.Kind, e.Pool, e.Tier, e.Bid, e.Deadline != nil}
	i := slices.IndexFunc(g.open, func(o group) bool { return o.key == key })
	if i < 0 {
		i = len(g.open)
		g.open = append(g.open, group{key: key, first: e, line: Line{T: e.T, Kind: e.Kind, Why: e.Why, Pool: e.Pool, Entry: e}})
	}
	if !slices.Contains(g.open[i].line.Instances, e.Instance) { // a notice may come more than once
		g.open[i].line.Instances = append(g.open[i].line.Instances, e.Instance)
	}
	return lines
}

// Open returns the present lines of the groups that wait for more.
func (g *Grouper) Open() []Line {
	lines := make([]Line, 0, len(g.open))
	for _, o := range g.open {
		lines = append(lines, o.close())
	}
	return lines
}

// Flush closes all groups.
func (g *Grouper) Flush() []Line {
	lines := g.Open()
	g.open = g.open[:0]
	return lines
}

// closeUntil closes the groups that began before t. They began in the order of the list.
func (g *Grouper) closeUntil(t time.Time) []Line {
	var lines []Line
	for len(g.open) > 0 && g.open[0].line.T.Before(t) {
		lines = append(lines, g.open[0].close())
		g.open = slices.Delete(g.open, 0, 1)
	}
	return lines
}

func (o group) close() Line {
	o.line.Text = text(o.first, len(o.line.Instances))
	return o.line
}
