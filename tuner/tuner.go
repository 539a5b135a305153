// Package tuner finds the settings of a job while it trains ("Towards self-tuning parameter servers", cited by section). Every few clocks
// its driver reports the performance of the last setting, and requests the next: first the default, then trials spread over the space, then
// the setting that a Gaussian process expects to save the most time, if that exceeds the cost of the change. Every answer has its reason in
// words.
//
// It works on plain numbers. It knows nothing about machines, clouds, networks and files, how a setting is applied, or what disturbs a
// clock: the driver marks disturbed clocks, so that the tuner does not learn from the market.
package tuner

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Options of a Tuner.
type Options struct {
	Default Setting // in use when the job starts
	// Every is the number of clocks between decisions; a in the paper, where it is three times the workers, so that
	// each has pushed about three times (III-D). A clock holds a push of every split here, so 3 to 5 are enough. 0 = 4.
	Every int
	// Trials is the number of trials after the default, before the process decides: b in the paper. 0 = 10.
	Trials int
	// Clocks is the job's maximum number of clocks; 0 = unknown.
	Clocks int
	// Target is the loss at which the job ends: then settings are compared by the remaining time, which is the time per clock times the
	// remaining clocks according to the progress estimate (section IV). 0 = by the time per clock only, which is right for a job whose
	// model does not depend on its settings, since then neither do the remaining clocks.
	Target float64
	// Share is the total part of the job's time that trials may lose against the default, as a running account: savings by better settings
	// may be spent again. Trials then start near the default, and only settings that are significantly faster are used permanently. 0 =
	// any, as in the paper.
	Share float64
	// Change is the expected cost of a change, in seconds, until one was measured; 0 = a clock.
	Change float64
	// Known settings are the first trials: they have worked well for similar jobs. Those outside the space are skipped.
	Known []Setting
	// Likely settings are tried next, if trials may lose a share: they are expected to be no slower than the default.
	Likely []Setting
	Seed   uint64
}

// mostOfJob is the part of a job that the default and the trials may take.
const mostOfJob = 1. / 5

// Sample is the performance of a setting in some consecutive clocks.
type Sample struct {
	Setting Setting
	Loss    float64 // before the first of the clocks
	Clocks  []Clock
	// Change is how long the change to this setting took, in seconds; 0 = none, or unknown.
	Change float64
	// Done is how many clocks of the job are done after it; 0 = those of all samples so far.
	Done int
}

// Clock is one clock of a Sample.
type Clock struct {
	Seconds float64
	Loss    float64 // after it
	// Disturbed clocks had a cut, halt, move, recovery or eviction: they say nothing about the setting.
	Disturbed bool
}

// Step is the reason why a setting was chosen.
type Step string

const (
	Off     Step = "off"     // the job is not tuned
	First   Step = "default" // the default, for comparison
	Trial   Step = "trial"   // one of the trials spread over the space
	Again   Step = "again"   // repeated, as its clocks were disturbed
	Explore Step = "explore" // the expected improvement pays for the change
	Back    Step = "back"    // another tried setting is better than the current one
	Stay    Step = "stay"    // nothing pays
)

// Advice is the setting to use for the next clocks.
type Advice struct {
	Setting Setting
	Step    Step
	Change  bool    // it differs from the current one
	Gain    float64 // seconds that the setting is expected to save by the end of the job
	Cost    float64 // expected cost, in seconds, of the change and, for a new setting, its trial
	LogEI   float64 // log of the expected improvement of the log of the time, by which candidates are compared
	Why     string
}

// Tuner holds what has been learned about a job. It is not safe for concurrent use.
//
// Invariant: advice depends only on Options and the samples and calls so far. Only undisturbed samples teach it;
// disturbed ones only count as clocks.
//
//  1. Ask gives the default, then each trial, each again until it has an undisturbed sample (Tell). A job for which that takes more than a
//     fifth of its clocks is not tuned (Off).
//  2. online: a Gaussian process over the log of a clock's time, or of the time until the target, says what each setting is expected to save (III-C).
//     Of candidates by expected improvement, the one that gains most beyond its cost is tried, if it gains anything (mostWorth).
//  3. Otherwise the best setting known comes back, if the one in use loses more than the change costs, or everything stays.
//
// Gains shrink as the job nears its end and the costs of changes do not, so changes end by themselves. The paper weighs the change alone;
// here the cost of trying a bad setting counts, too (trialCost).
type Tuner struct {
	space   Space
	options Options
	trials  []Setting
	tried   int // number of the default and trials with an undisturbed sample
	model   *model
	hyper   hyper
	costs   costs
	inUse   Setting
	unsure  bool // the last sample was disturbed
	clocks  int  // measured
	left    float64
	loss    float64
	losses  scaling
	asked   uint64
	worst   float64
	account account
	ended   bool // the account allows no further trials
}

// New returns a tuner for a job.
func New(space Space, o Options) (*Tuner, error) {
	if err := space.check(); err != nil {
		return nil, fmt.Errorf("tuner: %w", err)
	}
	if !space.holds(o.Default) {
		return nil, errors.New("tuner: the default is not a setting of the space")
	}
	if o.Every == 0 {
		o.Every = 4
	}
	if o.Trials == 0 {
		o.Trials = 10
	}
	if o.Every < 1 || o.Trials < 1 || o.Clocks < 0 || !(o.Target >= 0) || math.IsInf(o.Target, 0) || !(o.Share >= 0 && o.Share < 1) {
		return nil, fmt.Errorf("tuner: every %d clocks, %d trials, %d clocks in all, target %v, share %v", o.Every, o.Trials, o.Clocks, o.Target, o.Share)
	}
	if o.Target == 0 && o.Clocks == 0 {
		return nil, errors.New("tuner: without a target the number of clocks is needed to compare what is saved with what changes cost")
	}
	o.Trials = int(min(float64(o.Trials), space.size()-1))
	t := &Tuner{
		space: space, options: o, trials: space.trials(o.Trials, o.Default, o.Known, o.Seed), model: newModel(space, o.Target > 0),
		costs: newCosts(), inUse: slices.Clone(o.Default), left: float64(o.Clocks),
	}
	t.account.recordOf(o.Default)
	if t.limited() {
		t.trials = space.beside(o.Default, slices.Concat(o.Known, o.Likely), o.Trials)
	}
	return t, nil
}

// First returns how many settings are tried before the process decides: the default and the trials.
func (t *Tuner) First() int { return 1 + len(t.trials) }

// Off returns why the job is not tuned; "" if it is.
func (t *Tuner) Off() string {
	if len(t.trials) == 0 {
		return "not tuned: there is no other setting"
	}
	first := (1 + len(t.trials)) * t.options.Every
	if most := int(mostOfJob * float64(t.options.Clocks)); t.options.Clocks > 0 && first > most {
		return fmt.Sprintf("not tuned: trying %d settings for %d clocks each takes %d of the job's %d clocks, more than a fifth",
			1+len(t.trials), t.options.Every, first, t.options.Clocks)
	}
	if t.limited() && t.options.Clocks > 0 && len(t.options.Known) == 0 && !slices.ContainsFunc(t.trials, func(x Setting) bool { return t.clocksAt(x) <= t.options.Share*float64(t.options.Clocks) }) {
		return fmt.Sprintf("not tuned: trials may take %.2g %% more time at most, which is less than one takes of %d clocks", 100*t.options.Share, t.options.Clocks)
	}
	return ""
}

// Tell adds a setting's sample. Samples must be in the order of their clocks, whether or not the setting was advised.
func (t *Tuner) Tell(s Sample) error {
	if !t.space.holds(s.Setting) {
		return fmt.Errorf("tuner: %s is not a setting of the space", t.space.Text(s.Setting))
	}
	if !(s.Loss > 0) && t.options.Target > 0 || s.Change < 0 {
		return fmt.Errorf("tuner: loss %v before the sample, %v seconds for the change", s.Loss, s.Change)
	}
	for i, c := range s.Clocks {
		if !c.Disturbed && !(c.Seconds > 0 && !math.IsInf(c.Seconds, 0)) {
			return fmt.Errorf("tuner: clock %d of the sample took %v seconds", i+1, c.Seconds)
		}
	}
	if s.Change > 0 {
		t.costs.add(t.space.techniques(t.inUse, s.Setting), s.Change)
	}
	t.inUse = slices.Clone(s.Setting)
	done := max(t.clocks+len(s.Clocks), s.Done)
	if r := t.account.recordOf(s.Setting); r != t.account.each[0] && !t.account.proven(r) {
		t.account.exploring += done - t.clocks
	}
	t.clocks = done
	t.account.add(s)
	for _, c := range s.Clocks {
		if usable(c.Loss) {
			t.loss = c.Loss
		}
	}
	seconds, ok := Pace(s.Clocks)
	if t.unsure = !ok; t.unsure {
		return nil
	}
	value := math.Log(seconds)
	if t.options.Target > 0 {
		left := ClocksLeft(s.Loss, s.Clocks, t.options.Target)
		value = t.bounded(value + math.Log(max(left, 1)))
		if !math.IsInf(left, 0) {
			t.left = left
		}
	}
	t.model.add(s.Setting, t.losses.add(s.Loss), value)
	if t.tried <= len(t.trials) {
		t.tried++
	}
	return nil
}

// bounded returns the log of a remaining time, at most ten times the longest one so far: if the loss did not fall the estimate is infinite,
// which shows that the setting is bad but must not distort all others.
func (t *Tuner) bounded(value float64) float64 {
	if len(t.model.raw) == 0 {
		t.worst = math.Log(1e6)
		if !math.IsInf(value, 0) {
			t.worst = value
		}
	}
	if value <= t.worst {
		return value
	}
	if value > t.worst+math.Log(10) {
		return t.worst + math.Log(10)
	}
	t.worst = value
	return value
}

// Ask chooses the setting for the next clocks, given the present loss.
func (t *Tuner) Ask(loss float64) Advice {
	if why := t.Off(); why != "" {
		return Advice{Setting: t.options.Default, Step: Off, Change: !slices.Equal(t.inUse, t.options.Default), Why: why}
	}
	t.asked++
	switch {
	case t.tried == 0 && !t.unsure || t.limited() && t.account.pace() == 0:
		return t.advise(First, t.options.Default, fmt.Sprintf("the default for %d clocks, to compare the others with", t.options.Every))
	case t.unsure && t.tried <= len(t.trials) && t.affords(t.inUse, 0):
		return t.advise(Again, t.inUse, "the same once more: the last clocks were disturbed and say nothing about it")
	case t.tried <= len(t.trials) && t.affords(t.trials[t.tried-1], 0):
		next := t.trials[t.tried-1]
		return t.advise(Trial, next, fmt.Sprintf("trial %d of %d: %s", t.tried, len(t.trials), t.space.difference(t.inUse, next)))
	}
	if t.limited() {
		return t.within(loss)
	}
	return t.online(loss)
}

func (t *Tuner) advise(step Step, x Setting, why string) Advice {
	return Advice{Setting: slices.Clone(x), Step: step, Change: !slices.Equal(t.inUse, x), Why: why}
}

// online implements section III-C: the setting with the highest expected improvement, if that exceeds the cost of the
// change.
func (t *Tuner) online(loss float64) Advice {
	at := t.losses.factor(loss)
	t.model.learn(&t.hyper, t.options.Seed)
	best := t.model.best(at)
	here := t.model.judge([]Setting{t.inUse}, at)[0]
	left := t.clocksLeft()
	a := t.mostWorth(t.model.next(best, at, t.options.Seed+t.asked), best, left)
	if a.Gain > a.Cost && a.Change {
		return a
	}
	most := a
	loses := t.seconds(math.Exp(here.mean)-math.Exp(best.mean), left)
	change, known := t.costs.expected(t.space.techniques(t.inUse, best.setting))
	if loses > change {
		a = t.advise(Back, best.setting, fmt.Sprintf("back: the setting in use would take %s longer until the end than %s, and the change costs %s%s",
			span(loses), t.space.difference(t.inUse, best.setting), span(change), guess(known)))
		a.Gain, a.Cost = loses, change
		return a
	}
	a = t.advise(Stay, t.inUse, fmt.Sprintf("nothing pays: the best change is expected to save %s and to cost %s", span(most.Gain), span(most.Cost)))
	if !most.Change {
		a.Why = "nothing pays: no setting is expected to save more than the one in use"
	}
	a.Gain, a.Cost, a.LogEI = most.Gain, most.Cost, most.LogEI
	return a
}

// mostWorth returns the candidate with the highest expected net gain.
func (t *Tuner) mostWorth(all []candidate, best candidate, left float64) Advice {
	var most Advice
	for _, c := range all {
		gain := t.seconds(saving(c.mean, c.variance, math.Exp(best.mean)), left)
		change, known := t.costs.expected(t.space.techniques(t.inUse, c.setting))
		trial := t.trialCost(c, best, left)
		if most.Setting != nil && gain-change-trial <= most.Gain-most.Cost {
			continue
		}
		most = t.advise(Explore, c.setting, fmt.Sprintf("%s is expected to save %s of the %s that are left, more than the change (%s%s) and its trial (%s) cost",
			cmp.Or(t.space.difference(t.inUse, c.setting), "what is in use, for longer,"), span(gain), span(t.seconds(math.Exp(best.mean), left)), span(change), guess(known), span(trial)))
		most.Gain, most.Cost, most.LogEI = gain, change+trial, c.log
	}
	return most
}

// clocksLeft returns the job's remaining clocks, at least one.
func (t *Tuner) clocksLeft() float64 {
	left := t.left
	if t.options.Clocks > 0 {
		if until := float64(t.options.Clocks - t.clocks); t.options.Target == 0 || until < left {
			left = until
		}
	}
	return max(left, 1)
}

// seconds converts the model's unit, the time per clock or the time until the target, into seconds until the end.
func (t *Tuner) seconds(v, left float64) float64 {
	if t.options.Target > 0 {
		return v
	}
	return v * left
}

// trialCost returns the expected cost of using a new setting until the next decision, if it is worse than the best. The
// paper weighs the change alone (III-C). Near the end of a job that keeps trying bad settings for gains that can no
// longer be realised.
func (t *Tuner) trialCost(next, best candidate, left float64) float64 {
	least := math.Exp(best.mean)
	worse := math.Exp(next.mean+next.variance/2) - least + saving(next.mean, next.variance, least) // E max(0, f - least)
	return t.seconds(max(worse, 0), left) * min(float64(t.options.Every)/left, 1)
}

// Best returns the tried setting with the least expected time from the last loss, in seconds until the end; false if there is nothing to
// compare.
func (t *Tuner) Best() (x Setting, seconds float64, ok bool) {
	if len(t.model.raw) == 0 {
		return t.options.Default, 0, false
	}
	t.model.learn(&t.hyper, t.options.Seed)
	best := t.model.best(t.losses.factor(t.loss))
	return slices.Clone(best.setting), t.seconds(math.Exp(best.mean), t.clocksLeft()), true
}

func guess(known bool) string {
	if known {
		return ""
	}
	return ", a guess"
}

// span formats seconds for display.
func span(seconds float64) string {
	switch {
	case seconds < 10:
		return fmt.Sprintf("%.2g s", seconds)
	case seconds < 600:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 36000:
		return fmt.Sprintf("%.0f min", seconds/60)
	}
	return fmt.Sprintf("%.0f h", seconds/3600)
}

// scaling maps the log of the loss to 0 to 1 over its observed range; a falling loss goes below 0.
type scaling struct{ first, unit float64 }

func (s *scaling) add(loss float64) float64 {
	if s.unit == 0 && usable(loss) {
		s.first, s.unit = math.Log(loss), math.Log(10)
	}
	return s.factor(loss)
}

func (s *scaling) factor(loss float64) float64 {
	if s.unit == 0 || !usable(loss) {
		return 1
	}
	return 1 + (math.Log(loss)-s.first)/s.unit
}
