package tuning

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/tuner"
)

// Setting is how a job trains, as far as that can be changed between two clocks. It never changes the result.
type Setting struct {
	// Servers is the number of transient machines that serve; 0 = the reliable ones serve (stage 1).
	Servers int
	// Apart: transient machines that serve do not work.
	Apart bool
	// Rest: the reliable machines do not work (stage 3).
	Rest bool
}

// The knobs' names.
const (
	servers     = "servers"
	serversWork = "servers work"
	reliable    = "reliable machines work"
)

func settingOf(values map[string]int) Setting {
	return Setting{Servers: values[servers], Apart: values[serversWork] == 0, Rest: values[reliable] == 0}
}

// Fleet is the transient machines that stay.
type Fleet struct {
	Machines int
	Rate     float64 // declared, of all together, in any unit; 0 = unknown
}

// likeness is the largest difference between rates of fleets of one size that the tuner treats as the same. Replacing one of many machines
// by another type does not make another fleet; a switch to machines twice as fast does.
const likeness = .15

func (f Fleet) like(other Fleet) bool {
	return f.Machines == other.Machines && math.Abs(f.Rate-other.Rate) <= likeness*max(f.Rate, other.Rate)
}

// plan holds the measurements of settings for one fleet.
type plan struct {
	Fleet
	from    int64 // the clock at which it begins
	space   tuner.Space
	tuner   *tuner.Tuner
	known   []tuner.Setting
	off     bool
	samples int
	last    float64 // seconds per clock of the newest sample
	best    float64 // of the best one
	first   float64 // of the default
}

// find returns the plan for a fleet; nil = none.
func (b *Brain) find(f Fleet) *plan {
	if i := slices.IndexFunc(b.plans, func(p *plan) bool { return p.like(f) }); i >= 0 {
		return b.plans[i]
	}
	return nil
}

// plan returns the plan for a fleet: the existing one, or a new one.
func (b *Brain) plan(f Fleet, byDefault Setting, clock int64) (*plan, error) {
	if p := b.find(f); p != nil {
		return p, nil
	}
	if f.Machines < 2 {
		return nil, errors.New("one machine has nothing to share out")
	}
	o := &b.options
	p := &plan{Fleet: f, from: clock, space: space(o, f.Machines)}
	start := p.vector(byDefault)
	options := tuner.Options{Default: start, Every: o.Every, Trials: cmp.Or(o.Trials, usualTrials), Clocks: max(o.Clocks-int(clock), 1), Target: o.Target, Share: o.Share, Seed: o.Seed}
	for _, k := range slices.Concat(b.learned(), o.Known) {
		if x := p.vector(scaled(k, f.Machines)); p.space.Allowed(x) {
			p.known = append(p.known, x)
		}
	}
	if options.Known = p.known; len(p.known) > 0 {
		options.Trials = cmp.Or(o.Trials, knownTrials)
	}
	// Half of the machines serve and all work, as in stage 2: if a job begins far from that, it is the one trial that a short job can
	// afford.
	if far := byDefault.Servers == 0 || byDefault.Apart || byDefault.Rest; far && o.Share > 0 {
		usual := p.vector(Setting{Servers: (f.Machines + 1) / 2})
		options.Likely = []tuner.Setting{usual}
	}
	var err error
	if p.tuner, err = tuner.New(p.space, options); err != nil {
		return nil, err
	}
	b.plans = append(b.plans, p)
	return p, nil
}

// learned returns the best setting of each other fleet, the smallest first.
func (b *Brain) learned() (known []Known) {
	for _, p := range b.plans {
		if p.samples < 2 {
			continue
		}
		x, _, _ := p.tuner.Best()
		known = append(known, Known{Machines: p.Machines, Setting: p.values(p.setting(x))})
	}
	slices.SortStableFunc(known, func(a, b Known) int { return a.Machines - b.Machines })
	return known
}

// scaled returns the setting for another number of machines: the same share serves.
func scaled(k Known, machines int) Setting {
	s := settingOf(k.Setting)
	if s.Servers > 0 {
		s.Servers = max(int(math.Round(float64(s.Servers)*float64(machines)/float64(max(k.Machines, 1)))), 1)
	}
	return s
}

// space returns the tunable parameters. Partitions move ("model"), and splits change hands ("data").
func space(o *Options, machines int) tuner.Space {
	choice := []string{"no", "yes"}
	knobs := []tuner.Knob{
		{Name: servers, Low: 0, High: float64(min(machines, o.Partitions)), Whole: true, Technique: "model"},
		{Name: serversWork, Choices: choice, Technique: "data"},
		{Name: reliable, Choices: choice, Technique: "data"},
	}
	// Serving reliable machines also work, as in stage 1; and some transient machine works.
	allowed := func(x tuner.Setting) bool {
		if x[0] == 0 {
			return x[1] == 1 && x[2] == 1
		}
		return x[1] == 1 || x[0] < float64(machines)
	}
	return tuner.Space{Knobs: knobs, Allowed: allowed}
}

// vector returns a setting in the tuner's form, moved into the space.
func (p *plan) vector(s Setting) tuner.Setting {
	x := tuner.Setting{min(max(float64(s.Servers), 0), p.space.Knobs[0].High), 1, 1}
	if s.Apart && x[0] > 0 && x[0] < float64(p.Machines) {
		x[1] = 0
	}
	if s.Rest && x[0] > 0 {
		x[2] = 0
	}
	return x
}

func (p *plan) setting(x tuner.Setting) Setting {
	return Setting{Servers: int(x[0]), Apart: x[1] == 0, Rest: x[2] == 0}
}

// values returns a setting's knobs by name, for the journal.
func (p *plan) values(s Setting) map[string]int {
	values := map[string]int{}
	for i, v := range p.vector(s) {
		values[p.space.Knobs[i].Name] = int(v)
	}
	return values
}

// costOf returns what a change took beyond the work that was done meanwhile; 0 = unknown.
func (p *plan) costOf(c *change) float64 {
	if c.unknown || p.last == 0 {
		return 0
	}
	return max(c.seconds-float64(c.clocks)*p.last, 1e-3)
}

// addSample records a sample's pace and returns its form in the journal.
func (p *plan) addSample(s tuner.Sample, clock int64) *journal.TuneSample {
	t := &journal.TuneSample{Setting: p.values(p.setting(s.Setting)), Loss: s.Loss, Change: s.Change, Clock: clock}
	for _, c := range s.Clocks {
		t.Clocks = append(t.Clocks, journal.TuneClock{Seconds: c.Seconds, Loss: c.Loss, Disturbed: c.Disturbed})
	}
	if seconds, ok := tuner.Pace(s.Clocks); ok {
		p.measured(seconds)
		t.Pace = seconds
	}
	if t.Default = p.tuner.Saved().Default; t.Pace > 0 {
		t.Real = t.Default - t.Pace
	}
	return t
}

// measured records the seconds per clock of a sample.
func (p *plan) measured(seconds float64) {
	p.samples++
	p.last = seconds
	if p.first == 0 {
		p.first = seconds
	}
	if p.best == 0 || seconds < p.best {
		p.best = seconds
	}
}

// remember restores a sample of an earlier controller.
func (p *plan) remember(t journal.TuneSample) {
	s := tuner.Sample{Setting: p.vector(settingOf(t.Setting)), Loss: t.Loss, Change: t.Change, Done: int(t.Clock - p.from)}
	for _, c := range t.Clocks {
		s.Clocks = append(s.Clocks, tuner.Clock{Seconds: c.Seconds, Loss: c.Loss, Disturbed: c.Disturbed})
	}
	if p.tuner.Tell(s) == nil && t.Pace > 0 {
		p.measured(t.Pace)
	}
}
