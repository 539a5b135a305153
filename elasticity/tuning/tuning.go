// Package tuning tunes a job while it trains: it changes which machines serve and which work. Training reports every completed clock. The
// package measures each setting, ignores clocks that the market disturbed, and asks a tuner for the next one. Each fleet size has a tuner
// of its own, as a good setting for sixteen machines says little about four.
//
// It knows nothing about machines, layouts and messages: training applies a setting, and reports when it is in place.
package tuning

import (
	"fmt"
	"math"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/tuner"
)

// Options are what a brain knows about its job.
type Options struct {
	Every      int     // clocks per measurement of a setting; 0 = 4
	Trials     int     // number of initial trials; 0 = 6, or 3 if some settings are known
	Clocks     int     // of the job
	Target     float64 // loss at which it ends; 0 = none: settings are compared by the time per clock
	Evaluate   int     // clocks between measurements of held-out examples, which take longer; 0 = never
	Partitions int     // upper bound on the machines that serve
	Known      []Known // that served jobs of this kind well, the best first
	Thorough   bool    // slow settings, too, are measured to the end: for measurements
	Share      float64 // of the job's time that trials may lose against the default; 0 = any
	Seed       uint64
}

// Known is a setting that was good for a fleet with this many transient machines.
type Known struct {
	Machines int            `json:"machines"`
	Setting  map[string]int `json:"setting"`
}

// Report describes a completed clock.
type Report struct {
	Clock   int64
	Seconds float64
	Loss    float64 // after it; 0 = unknown
	Fleet
	// Default is what the job would train with on these machines without tuning.
	Default Setting
	// Disturbed: an eviction, a loss, an arrival, a roll-back or a halt happened or is in progress.
	Disturbed bool
	// Moving: partitions or splits changed hands during the clock, or are about to.
	Moving bool
	// Cut: a cut or a checkpoint was in progress.
	Cut bool
}

// Decision is the setting to train with from now on.
type Decision struct {
	Setting  *Setting // nil = the stage's own setting
	Machines int      // number of transient machines that it is for
	From, To string
	Why      string
	Details  journal.TuneDetails
}

// UsualShare is the part of a job's time that trials may lose: including the current clock, at most 1 % in total.
const UsualShare = .005

const (
	usualEvery = 4
	// usualTrials are two for each knob; the paper has ten for eleven knobs.
	usualTrials = 6
	// knownTrials are enough if settings are known that served other jobs.
	knownTrials = 3
	// firstPatience and patience are how many quiet clocks in a row a fleet must have kept its size before the brain tunes for it: a lost
	// machine is soon replaced.
	firstPatience = 2
	patience      = 8
	// hopeless is the ratio to the best setting's time at which a trial is cut short.
	hopeless = 2
	// mostClocks bounds a sample that takes long because nothing should change; longest bounds its length, in multiples of Every.
	mostClocks = 16
	longest    = 32
)

// Brain decides for one job. It is not safe for use by several goroutines.
//
// Invariants:
//   - A setting never changes the result, so that a wrong decision costs time and nothing else; trials lose at most Options.Share of the
//     job's time, and a clock that is under way.
//   - A sample is of one setting on one fleet. It begins when the change to that setting ends; clocks that something else disturbed are in
//     it and do not count.
//   - No setting is changed at a clock that was disturbed.
//   - Decisions follow from the options and the reports alone. A later controller's brain has the same plans and samples from the journal
//     (Remember), except for the sample under way.
//
// A setting's course:
//  1. follow waits until a fleet has kept its size and rate for some quiet clocks; turn then adopts the plan for it, with its own tuner.
//  2. decide hands a setting out. While partitions and splits change hands, Clock adds up what the change costs.
//  3. Clock collects the sample until enough quiet clocks are in it or, early, until the setting is hopeless (due).
//  4. ask reports sample and cost to the tuner, and decides again. While no change pays, samples get longer (wait), and questions rare.
//
// Tried and rejected: one plan for all fleets of one size (after a switch to machines twice as fast its samples mislead), and the paper's
// ten first trials (it has eleven knobs, here are three, and each trial costs clocks).
type Brain struct {
	options Options
	plans   []*plan
	now     *plan   // nil: the fleet has not settled yet
	other   Fleet   // of the last clocks, if different
	others  int     // such clocks in a row
	loss    float64 // after the last clock

	// The current sample, of the current setting.
	setting  Setting
	sample   tuner.Sample
	cuts     []bool // Index: Sample.Clocks
	quiet    int    // its undisturbed clocks
	wait     int    // clocks until the next decision
	fresh    bool   // the setting has not been measured since the change to it
	changing *change
	expected float64 // seconds per clock that the setting was expected to save
}

// change is the time until a setting is in place.
type change struct {
	clocks  int
	seconds float64
	unknown bool // something else disturbed it, too
}

// New returns the brain of a job.
func New(o Options) *Brain {
	if o.Every == 0 {
		o.Every = usualEvery
	}
	return &Brain{options: o, wait: o.Every}
}

// Outlook returns what a job with this many transient machines can expect: how many settings are tried at first, including the default, and
// for how many clocks each; or why it will not be tuned.
func Outlook(o Options, machines int) (trials, clocks int, off string) {
	b := New(o)
	p, err := b.plan(Fleet{Machines: machines}, Setting{}, 0)
	if err != nil {
		off = "not tuned: " + err.Error()
	} else if off = p.tuner.Off(); off == "" {
		return p.tuner.First(), b.options.Every, ""
	}
	if len(o.Known) > 0 {
		off += knownUsed
	}
	return 0, 0, off
}

// knownUsed is added to the reason for trying nothing.
const knownUsed = "; the setting that served jobs of this kind best is used"

// Clock processes a completed clock. It reports whether there is a decision; the decision may be to change nothing.
func (b *Brain) Clock(r Report) (Decision, bool) {
	if usable(r.Loss) {
		defer func() { b.loss = r.Loss }()
	}
	if b.follow(r) {
		return b.turn(r)
	}
	if b.now == nil || b.now.off || b.options.Target > 0 && b.loss == 0 {
		return Decision{}, false
	}
	disturbed := r.Disturbed || !r.like(b.now.Fleet) || !(r.Seconds > 0)
	if c := b.changing; c != nil {
		if disturbed || r.Moving {
			c.clocks, c.seconds, c.unknown = c.clocks+1, c.seconds+r.Seconds, c.unknown || disturbed
			return Decision{}, false
		}
		b.changing = nil
		b.sample.Change = b.now.costOf(c)
	}
	if len(b.sample.Clocks) == 0 {
		b.sample.Loss = b.loss
	}
	if b.options.Evaluate > 2 && r.Clock%int64(b.options.Evaluate) == 0 {
		disturbed = true
	}
	if disturbed = disturbed || r.Moving; !disturbed {
		b.quiet++
	}
	b.sample.Clocks, b.cuts = append(b.sample.Clocks, tuner.Clock{Seconds: r.Seconds, Loss: r.Loss, Disturbed: disturbed}), append(b.cuts, r.Cut)
	if !b.due() || disturbed {
		return Decision{}, false // nothing is changed during a disturbance
	}
	if usable(r.Loss) {
		b.loss = r.Loss
	}
	return b.nextSetting(r.Clock), true
}

// follow counts how long the fleet has differed in size from the one being tuned. It reports whether to switch to the new one.
func (b *Brain) follow(r Report) bool {
	if r.Machines == 0 || b.now != nil && r.like(b.now.Fleet) || r.Disturbed || r.Moving {
		b.others = 0
		return false
	}
	if !r.like(b.other) {
		b.other, b.others = r.Fleet, 0
	}
	b.others++
	if b.now == nil {
		return b.others >= firstPatience
	}
	return b.others >= patience
}

// turn begins with the settings of the present fleet.
func (b *Brain) turn(r Report) (Decision, bool) {
	b.others = 0
	p, err := b.plan(r.Fleet, r.Default, r.Clock)
	if err != nil {
		return b.off(r.Fleet, "not tuned: "+err.Error()), true
	}
	b.now = p
	if why := p.tuner.Off(); why != "" {
		return b.off(r.Fleet, why), true
	}
	return b.decide(b.now.tuner.Ask(b.loss), nil, r.Clock), true
}

// off leaves the fleet untuned, with a known good setting if there is one.
func (b *Brain) off(f Fleet, why string) Decision {
	if b.now == nil || !b.now.like(f) {
		b.now = &plan{Fleet: f}
	}
	b.now.off = true
	d := Decision{Machines: f.Machines, Why: why, Details: journal.TuneDetails{Step: string(tuner.Off), Machines: f.Machines, Rate: f.Rate}}
	if len(b.now.known) > 0 {
		x := b.now.setting(b.now.known[0])
		d.Setting, d.To = &x, b.now.space.Text(b.now.known[0])
		d.Why += knownUsed
		d.Details.Setting = b.now.values(x)
	}
	return d
}

// due reports whether the sample is large enough.
func (b *Brain) due() bool {
	if b.now.first == 0 && b.options.Share > 0 { // the default, which costs nothing
		return b.now.tuner.Enough(b.clocks())
	}
	if b.quiet >= b.wait || len(b.sample.Clocks) >= 3*b.wait && b.quiet > 0 || b.quiet > 0 && b.now.tuner.Enough(b.clocks()) {
		return true
	}
	if b.options.Thorough || b.quiet < 2 || !b.fresh || b.now.best == 0 {
		return false
	}
	seconds, ok := tuner.Pace(b.clocks())
	return ok && seconds > hopeless*b.now.best
}

// clocks returns the sample's clocks, where those with cuts count as disturbed unless most have some: a setting is then no worse for them.
func (b *Brain) clocks() []tuner.Clock {
	clocks := append([]tuner.Clock(nil), b.sample.Clocks...)
	bare := 0
	for i, c := range clocks {
		if !c.Disturbed && !b.cuts[i] {
			bare++
		}
	}
	if bare >= 2 && 2*bare >= b.quiet {
		for i := range clocks {
			clocks[i].Disturbed = clocks[i].Disturbed || b.cuts[i]
		}
	}
	if b.now.first == 0 {
		return clocks
	}
	return clocks[max(len(clocks)-max(mostClocks, 2*b.options.Every), 0):]
}

// nextSetting reports the results of the current setting to the tuner, and gets the next one.
func (b *Brain) nextSetting(clock int64) Decision {
	s := b.sample
	s.Setting, s.Clocks, s.Done = b.now.vector(b.setting), b.clocks(), int(clock-b.now.from)
	if err := b.now.tuner.Tell(s); err != nil {
		return b.off(b.now.Fleet, "tuning ends: "+err.Error())
	}
	told := b.now.addSample(s, clock)
	told.Expected = b.expected
	return b.decide(b.now.tuner.Ask(b.loss), told, clock)
}

// decide turns the tuner's advice into a decision.
func (b *Brain) decide(a tuner.Advice, told *journal.TuneSample, clock int64) Decision {
	from, first := b.setting, told == nil
	b.setting = b.now.setting(a.Setting)
	d := Decision{Machines: b.now.Machines, To: b.now.space.Text(a.Setting), Why: a.Why,
		Details: journal.TuneDetails{Step: string(a.Step), Machines: b.now.Machines, Rate: b.now.Rate, Setting: b.now.values(b.setting), Gain: a.Gain, Cost: a.Cost, Sample: told}}
	in := b.setting
	d.Setting = &in
	b.sample, b.cuts, b.quiet, b.expected = tuner.Sample{}, nil, 0, 0
	if !first {
		d.From = b.now.space.Text(b.now.vector(from))
	}
	if b.fresh = first || from != b.setting; b.fresh {
		b.changing = &change{unknown: first}
		if left := b.options.Clocks - int(clock); left > 0 && (a.Step == tuner.Explore || a.Step == tuner.Back) {
			b.expected = a.Gain / float64(left)
		}
	}
	if net := b.now.tuner.Saved(); net.Seconds != 0 {
		d.Details.Saved = net.Seconds
		word := "saved"
		if net.Seconds < 0 {
			word = "lost"
		}
		d.Why += fmt.Sprintf("; in all %.1f s (within %.1f) %s against the default", math.Abs(net.Seconds), net.Within, word)
	}
	if a.Step == tuner.Stay {
		b.wait = min(2*b.wait, longest*b.options.Every)
	} else {
		b.wait = b.options.Every
	}
	return d
}

// Past is a line of a journal.
type Past struct {
	Clock   int64
	Details journal.TuneDetails
}

// Remember restores the journal of the run's earlier controllers, and returns the last decision; false if there is none.
func (b *Brain) Remember(lines []Past) (last Decision, ok bool) {
	for _, line := range lines {
		d := line.Details
		p, err := b.plan(Fleet{d.Machines, d.Rate}, settingOf(d.Setting), line.Clock)
		if b.now = p; err != nil {
			continue
		}
		b.now.off = d.Step == string(tuner.Off)
		if d.Sample != nil {
			b.now.remember(*d.Sample)
		}
		b.setting = settingOf(d.Setting)
		last = Decision{Machines: d.Machines, Details: d}
		if d.Setting != nil {
			x := b.setting
			last.Setting = &x
		}
	}
	if b.now != nil {
		b.changing = &change{unknown: true}
	}
	return last, b.now != nil
}

func usable(loss float64) bool { return loss > 0 && !math.IsInf(loss, 0) }
