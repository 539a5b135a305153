package elasticity

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/tiers"
)

// Stages follow the ratio of machines and, above that, what the reliable machines are seen to carry (docs/training.md,
// Stages). Their traffic comes with heartbeats, their pace with the reports of clocks that are done.

// meter is what is known of a machine's load since the last clock that was judged.
type meter struct {
	heard   time.Time // of the last heartbeat
	since   time.Time // of the heartbeat that in and out count from
	in, out int64
	work    float64 // done since then, in floating-point operations
	seconds float64 // that it took, in wall-clock seconds
}

// takeHeartbeat keeps what a node counts. It reports whether that makes a cut due.
func (c *Controller) takeHeartbeat(m *machine, h tiers.Heartbeat) (stirs bool) {
	c.pace.dirty += h.CutBytes - m.stats.CutBytes
	m.stats = h
	m.meter.heard = c.now
	if m.meter.since.IsZero() {
		m.meter.begin(h)
	}
	c.metered = true
	if c.overdue() {
		c.cutDue = c.now
		return true
	}
	return false
}

// begin counts from the last heartbeat on.
func (t *meter) begin(h tiers.Heartbeat) {
	t.since, t.in, t.out, t.work, t.seconds = t.heard, h.BytesIn, h.BytesOut, 0, 0
}

func (t *meter) worked(p tiers.Progress) {
	for i := range p.Splits {
		t.work += p.Splits[i].Work
	}
	t.seconds += p.Seconds
}

// measure judges the load of the clock that was just done. A clock that is shorter than a heartbeat is judged together
// with those that follow it. While partitions move, figures say nothing about a layout,
// and after an absence of the controller what has waited for it comes at once.
func (c *Controller) measure() {
	moving := len(c.moves) > 0 || c.recovery != nil || c.halt != nil || c.handingOver()
	if seconds := c.progress.seconds; seconds > 0 && !moving {
		if why := c.gauge.Timed(seconds, c.fleetRate(), c.loadRule()); why != "" {
			c.loadWhy, c.relayout = why, true
			return
		}
	}
	if !c.metered {
		return
	}
	if len(c.moves) > 0 || c.recovery != nil || c.halt != nil || c.awake.JustWoke(c.awake.Now()) {
		c.meterAgain()
		return
	}
	for _, m := range c.roster {
		if m.member() && !m.meter.heard.After(m.meter.since) {
			return // nothing has been heard of it since the last clock that was judged
		}
	}
	usage := c.usage()
	c.meterAgain()
	before := c.gauge.Floor()
	if why := c.gauge.Clock(c.stage, usage, c.loadRule()); why != "" && c.gauge.Floor() != before {
		c.loadWhy, c.relayout = why, true
	}
}

// fleetRate is the declared rate of all members together.
func (c *Controller) fleetRate() (rate float64) {
	for _, m := range c.roster {
		if m.member() {
			rate += c.typeOf(m.pool).WorkRate()
		}
	}
	return rate
}

// meterAgain counts from here on.
func (c *Controller) meterAgain() {
	c.metered = false
	for _, m := range c.roster {
		m.meter.begin(m.stats)
	}
}

func (c *Controller) loadRule() tiers.LoadRule {
	if c.cfg.Load == (tiers.LoadRule{}) {
		return tiers.DefaultLoadRule()
	}
	return c.cfg.Load
}

// usage returns what the reliable machines carried, and would carry one stage lower. There, every byte that machines
// exchange has a reliable one at its end (stage 1), or each reliable machine does what a mean transient one does
// beside what it does now (stage 2).
func (c *Controller) usage() (u tiers.Usage) {
	var all, transient, peak float64 // bytes per second in; in or out of transient machines, of the busiest reliable one
	var slowest, link float64
	var reliable, others int
	paces := c.paces[:0]
	for _, m := range c.roster {
		if !m.member() {
			continue
		}
		seconds := c.wall(m.meter.heard.Sub(m.meter.since))
		in, out := float64(m.stats.BytesIn-m.meter.in)/seconds, float64(m.stats.BytesOut-m.meter.out)/seconds
		all += in
		pace := c.paceOf(m)
		if m.tier != tiers.Reliable {
			others++
			transient += max(in, out)
			if pace > 0 {
				paces = append(paces, pace)
			}
			continue
		}
		reliable++
		if link = c.linkOf(m); link > 0 {
			peak = max(peak, max(in, out))
		}
		if pace > 0 && (slowest == 0 || pace < slowest) {
			slowest = pace
		}
	}
	c.paces = paces
	if link > 0 {
		u.Network = peak / link
		u.Below = all / float64(reliable) / link
		if c.stage == tiers.Stage3 {
			u.Below = (peak + transient/float64(max(others, 1))) / link
		}
	}
	if slowest > 0 && len(paces) > 0 {
		slices.Sort(paces)
		u.Straggler = paces[len(paces)/2] / slowest
	}
	return u
}

// linkOf is what a machine's link carries in one direction; 0 = nobody knows. What the job declares for its reliable type goes before
// what the catalog says of it, also where the job admits that type for transient machines.
func (c *Controller) linkOf(m *machine) float64 {
	if r := &c.cfg.Reliable; r.Type.Bandwidth > 0 && m.pool.Type == r.Pool.Type {
		return r.Type.Bandwidth
	}
	return c.typeOf(m.pool).Bandwidth
}

// leastSeconds is what a clock's work must take for its pace to say something: below, timers and scheduling are most
// of what is measured.
const leastSeconds = 0.05

// paceOf is how much of a machine's declared rate it does; 0 = it is not known.
func (c *Controller) paceOf(m *machine) float64 {
	rate := c.typeOf(m.pool).WorkRate()
	if m.meter.seconds < leastSeconds || rate == 0 {
		return 0
	}
	return m.meter.work / m.meter.seconds / rate
}

// stageFor returns the stage for the members: by their numbers, and above that by load and by the number of servers that
// was asked for.
func (c *Controller) stageFor(transient, reliable int) tiers.Stage {
	stage := tiers.StageFor(transient, reliable, c.cfg.Stages)
	if transient > 0 {
		stage = max(stage, c.gauge.Floor())
	}
	if servers := c.wish.servers; stage == tiers.Stage1 && transient > 0 && servers > reliable {
		stage = tiers.Stage2
	}
	return stage
}

// whyStage says why stageFor gives what it does.
func (c *Controller) whyStage(transient, reliable int) string {
	stage := tiers.StageFor(transient, reliable, c.cfg.Stages)
	why := fmt.Sprintf("%d transient to %d reliable machines; stage 2 above %g:1, stage 3 above %g:1",
		transient, reliable, c.cfg.Stages.TwoAbove, c.cfg.Stages.ThreeAbove)
	if floor := c.gauge.Floor(); transient > 0 && floor == tiers.Stage1 && c.loadWhy != "" {
		why = c.loadWhy + "; " + why
	} else if transient > 0 && stage < floor {
		stage, why = floor, fmt.Sprintf("%s; %d transient to %d reliable machines alone ask for stage %d", c.loadWhy, transient, reliable, stage)
	}
	if servers := c.wish.servers; stage == tiers.Stage1 && transient > 0 && servers > reliable {
		why = fmt.Sprintf("%d servers were asked for, more than the %d reliable machines", servers, reliable)
	}
	return why
}

// loadDetails is what a later controller must know of the load so far.
func (c *Controller) loadDetails() json.RawMessage {
	if c.gauge.Floor() == tiers.Stage1 && c.gauge.Falls() == 0 && c.gauge.Undone() == 0 {
		return nil
	}
	details, _ := journal.Pack(journal.StageDetails{Floor: int(c.gauge.Floor()), Falls: c.gauge.Falls(), Undone: c.gauge.Undone(), Load: c.loadWhy})
	return details // of integers and text
}

// recordStage writes a change of stage down, and counts load afresh.
func (c *Controller) recordStage(transient, reliable int) {
	c.record(func() journal.Entry {
		return journal.Entry{
			Kind: journal.Stage, From: fmt.Sprint(int(c.stage)), To: fmt.Sprint(int(c.target.Stage)),
			Transient: transient, Reliable: reliable, Clock: int64(c.progress.done), Why: c.whyStage(transient, reliable), Details: c.loadDetails(),
		}
	})
	c.gauge.Again()
	c.stage = c.target.Stage
	if c.gauge.Floor() == tiers.Stage1 {
		c.loadWhy = "" // it is written down
	}
}
