package runner

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

const (
	// leastUse is the shortest time that a line about a machine's use is about. The pause grows with the run's age, by usePart: a day has
	// about 450 lines per machine, a month 650.
	leastUse = 2 * time.Second
	usePart  = 60
)

// uses writes journal lines about machines' resource use. It does not affect the controller's decisions.
type uses struct {
	began time.Time // in wall-clock time
	of    map[ps.ServerID]*use
}

// use is a machine's use as of its last line, and its peak memory since.
type use struct {
	at                tiers.Used
	memory, gpuMemory int64
}

// take returns the line that is due for a machine.
func (u *uses) take(id ps.ServerID, r tiers.Used, now time.Time) (e journal.Entry, due bool) {
	if u.of == nil {
		u.began, u.of = now, map[ps.ServerID]*use{}
	}
	m := u.of[id]
	if m == nil || !(r.Seconds >= m.at.Seconds) { // or the agent has restarted
		u.of[id] = &use{at: r}
		return e, false
	}
	m.memory, m.gpuMemory = max(m.memory, r.Memory), max(m.gpuMemory, r.GPUMemory)
	seconds := r.Seconds - m.at.Seconds
	if seconds < max(leastUse, now.Sub(u.began)/usePart).Seconds()*.9 {
		return e, false
	}
	e = journal.Entry{Kind: journal.Use, Instance: string(id), Seconds: math.Round(seconds*1e3) / 1e3, OfUse: journal.OfUse{
		CPU: grown(m.at.CPU, r.CPU), Memory: m.memory, GPU: min(grown(m.at.GPU, r.GPU), seconds), GPUMemory: m.gpuMemory,
		BytesIn: max(0, r.BytesIn-m.at.BytesIn), BytesOut: max(0, r.BytesOut-m.at.BytesOut)}}
	u.of[id] = &use{at: r}
	return e, !math.IsInf(seconds, 0)
}

// grown returns the growth of a counter. Machines may report anything, but a journal has only finite numbers.
func grown(from, to float64) float64 {
	if by := to - from; by > 0 && !math.IsInf(by, 0) {
		return math.Round(by*1e6) / 1e6
	}
	return 0
}

// journalUse writes machines' use, and returns the other events.
func (r *Runner) journalUse(ctx context.Context, batch []elasticity.Event) []elasticity.Event {
	return slices.DeleteFunc(batch, func(e elasticity.Event) bool {
		reported, ok := e.(elasticity.Reported)
		if !ok {
			return false
		}
		used, ok := reported.Report.(tiers.Used)
		if !ok {
			return false
		}
		if e, due := r.uses.take(reported.ID, used, clock.Wall()); due {
			e.T = r.now()
			r.write(ctx, e)
		}
		return true
	})
}
