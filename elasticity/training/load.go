package training

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/tiers"
)

// leastSeconds is the shortest clock whose pace is meaningful: below, timers and scheduling dominate the measurement.
const leastSeconds = 0.05

// load is the machines' measured load, and the resulting stage.
type load struct {
	*step.Step
	cfg      *Config
	nodes    *nodes
	layout   *layout
	progress *progress
	held     func() bool // a recovery or a halt is in progress: figures say nothing about a layout

	Gauge   tiers.Gauge
	Why     string    // the reason for the gauge's floor
	metered bool      // a heartbeat has arrived since the last judged clock
	paces   []float64 // kept to reuse its memory
}

// layOut sets the target for the present members and records a change of stage.
func (ld *load) layOut() {
	members := ld.nodes.receivers()
	transient, reliable := tiers.Count(members)
	stage := ld.stageFor(transient, reliable)
	ld.layout.arrange(members, stage)
	if stage != ld.layout.Stage {
		ld.recordStage(transient, reliable)
	}
}

// Measure judges the load of the clock that has just ended. A clock that is shorter than a heartbeat is judged together with the following
// ones. While partitions move, figures say nothing about a layout, and after an absence of the controller all queued messages arrive at
// once.
func (ld *load) Measure() {
	if ld.layout.tuned != nil { // the settings decide
		ld.meterAgain()
		return
	}
	moving := len(ld.layout.Moves) > 0 || ld.held() || ld.layout.HandingOver()
	if seconds := ld.progress.Seconds; seconds > 0 && !moving {
		if why := ld.Gauge.Timed(seconds, ld.nodes.fleetRate(), ld.cfg.loadRule()); why != "" {
			ld.Why, ld.layout.Due = why, true
			return
		}
	}
	if !ld.metered {
		return
	}
	if len(ld.layout.Moves) > 0 || ld.held() || ld.Awake.JustResumed(ld.Awake.Now()) {
		ld.meterAgain()
		return
	}
	for _, m := range ld.nodes.Roster {
		if m.Member() && !m.Meter.Heard.After(m.Meter.Since) {
			return // nothing has been learned since the last judged clock
		}
	}
	usage := ld.usage()
	ld.meterAgain()
	before := ld.Gauge.Floor()
	if why := ld.Gauge.Clock(ld.layout.Stage, usage, ld.cfg.loadRule()); why != "" && ld.Gauge.Floor() != before {
		ld.Why, ld.layout.Due = why, true
	}
}

// meterAgain counts from here on.
func (ld *load) meterAgain() {
	ld.metered = false
	for _, m := range ld.nodes.Roster {
		m.Meter.begin(m.Stats)
	}
}

// usage returns what the reliable machines carried, and would carry one stage lower. There, a reliable machine is at one end of every
// transfer (stage 1), or each reliable machine does as much as an average transient one in addition to its present load (stage 2).
func (ld *load) usage() (u tiers.Usage) {
	var all, transient, peak float64 // bytes per second in; in or out of transient machines, of the busiest reliable one
	var slowest, link float64
	var reliable, others int
	paces := ld.paces[:0]
	for _, m := range ld.nodes.Roster {
		if !m.Member() {
			continue
		}
		seconds := ld.Wall(m.Meter.Heard.Sub(m.Meter.Since))
		in, out := float64(m.Stats.BytesIn-m.Meter.in)/seconds, float64(m.Stats.BytesOut-m.Meter.out)/seconds
		all += in
		pace := ld.paceOf(m)
		if m.Tier != tiers.Reliable {
			others++
			transient += max(in, out)
			if pace > 0 {
				paces = append(paces, pace)
			}
			continue
		}
		reliable++
		if link = m.kind.Link; link > 0 {
			peak = max(peak, max(in, out))
		}
		if pace > 0 && (slowest == 0 || pace < slowest) {
			slowest = pace
		}
	}
	ld.paces = paces
	if link > 0 {
		u.Network = peak / link
		u.Below = all / float64(reliable) / link
		if ld.layout.Stage == tiers.Stage3 {
			u.Below = (peak + transient/float64(max(others, 1))) / link
		}
	}
	if slowest > 0 && len(paces) > 0 {
		slices.Sort(paces)
		u.Straggler = paces[len(paces)/2] / slowest
	}
	return u
}

// paceOf returns the fraction of its declared rate that a machine achieves; 0 = unknown.
func (ld *load) paceOf(m *Node) float64 {
	rate := m.kind.Rate
	if m.Meter.seconds < leastSeconds || rate == 0 {
		return 0
	}
	return m.Meter.work / m.Meter.seconds / rate
}

// stageFor returns the stage for the members: the tuner's, or else by their numbers, and above that by load and by the requested number of
// servers.
func (ld *load) stageFor(transient, reliable int) tiers.Stage {
	if s, tuned := ld.layout.setting(transient); tuned {
		return stageOf(s)
	}
	return ld.stageBy(transient, reliable)
}

// stageBy returns the same for a job that is not tuned.
func (ld *load) stageBy(transient, reliable int) tiers.Stage {
	stage := tiers.StageFor(transient, reliable, ld.cfg.Stages)
	if transient > 0 {
		stage = max(stage, ld.Gauge.Floor())
	}
	if servers := ld.layout.Servers; stage == tiers.Stage1 && transient > 0 && servers > reliable {
		stage = tiers.Stage2
	}
	return stage
}

// whyStage returns the reason for stageFor's result.
func (ld *load) whyStage(transient, reliable int) string {
	if _, tuned := ld.layout.setting(transient); tuned {
		return "the tuner's setting"
	}
	stage := tiers.StageFor(transient, reliable, ld.cfg.Stages)
	why := fmt.Sprintf("%d transient to %d reliable machines; stage 2 above %g:1, stage 3 above %g:1",
		transient, reliable, ld.cfg.Stages.TwoAbove, ld.cfg.Stages.ThreeAbove)
	if floor := ld.Gauge.Floor(); transient > 0 && floor == tiers.Stage1 && ld.Why != "" {
		why = ld.Why + "; " + why
	} else if transient > 0 && stage < floor {
		stage, why = floor, fmt.Sprintf("%s; %d transient to %d reliable machines alone ask for stage %d", ld.Why, transient, reliable, stage)
	}
	if servers := ld.layout.Servers; stage == tiers.Stage1 && transient > 0 && servers > reliable {
		why = fmt.Sprintf("%d servers were asked for, more than the %d reliable machines", servers, reliable)
	}
	return why
}

// details returns what a later controller must know about the load so far.
func (ld *load) details() json.RawMessage {
	if ld.Gauge.Floor() == tiers.Stage1 && ld.Gauge.Falls() == 0 && ld.Gauge.Undone() == 0 {
		return nil
	}
	details, _ := journal.Pack(journal.StageDetails{Floor: int(ld.Gauge.Floor()), Falls: ld.Gauge.Falls(), Undone: ld.Gauge.Undone(), Load: ld.Why})
	return details // consists of integers and text
}

// recordStage records a change of stage, and resets the load figures.
func (ld *load) recordStage(transient, reliable int) {
	ld.Record(func() journal.Entry {
		return journal.Entry{
			Kind: journal.Stage, From: fmt.Sprint(int(ld.layout.Stage)), To: fmt.Sprint(int(ld.layout.Target.Stage)),
			Transient: transient, Reliable: reliable, Clock: int64(ld.progress.Done), Why: ld.whyStage(transient, reliable), Details: ld.details(),
		}
	})
	ld.Gauge.Again()
	ld.layout.Stage = ld.layout.Target.Stage
	if ld.Gauge.Floor() == tiers.Stage1 {
		ld.Why = "" // it has been recorded
	}
}
