package programs

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/sched/trials"
	"github.com/tierml/tierml/tuner"
)

// KnobVariable is the prefix of the environment variables that pass knobs' values to a program.
const KnobVariable = "TIERML_TUNE_"

// tuned searches for the values of a program's knobs that maximise its speed. The first values of lists and ranges are the default with
// which tuner.Options.Share compares.
//
// Invariant: an attempt's values follow from Work.settings, as sent by start; the journal records them with the attempt's start. So another
// controller attributes measurements of adopted attempts correctly.
//
//  1. start gives the attempt the values that were decided last for as many ranks (begin).
//  2. advance measures: a clock of the tuner is a number of steps (perClock), by the time that passes between reports. What is done again does not
//     count, nor the time until the first report.
//  3. Once there are enough clocks the tuner decides (decide). A change stops the attempt cleanly, as gangs do to grow; the time until the
//     next one is where this one was is what it cost.
type tuned struct {
	w        *Work
	space    tuner.Space
	perClock int64         // steps
	plans    map[int]*plan // by ranks
	at       time.Time     // of the last report that counts; zero = none in this attempt
	step     int64         // then
	sample   tuner.Sample
	changing *changing // nil = the current values are in place
}

// plan is what has been learned about a program on a number of machines.
type plan struct {
	*tuner.Tuner
	next tuner.Setting
	wait int   // clocks until the next decision
	from int64 // clocks done before it
	off  bool
}

// changing is a change in progress.
type changing struct {
	since time.Time
	step  int64
}

const (
	mostClocks   = 1000 // clocks of a job in which the tuner counts
	tuneEvery    = 4    // clocks per trial
	longestTuned = 16   // growth of the interval to the next decision, while nothing pays
)

func newTuned(w *Work) *tuned {
	if len(w.cfg.Knobs) == 0 || w.cfg.Of <= 0 {
		return nil
	}
	t := &tuned{w: w, perClock: max(w.cfg.Of/mostClocks, 1), plans: map[int]*plan{}}
	for _, r := range w.cfg.Knobs {
		k := tuner.Knob{Name: r.Name, Low: r.Low, High: r.High, Whole: true, Log: r.Log, Choices: r.Values, Technique: "restart"}
		t.space.Knobs = append(t.space.Knobs, k)
	}
	return t
}

// byDefault returns the first value of each knob.
func (t *tuned) byDefault() tuner.Setting {
	x := make(tuner.Setting, len(t.space.Knobs))
	for i, k := range t.space.Knobs {
		x[i] = k.Low // index 0 is the first of a list
	}
	return x
}

// variables returns values as environment variables.
func (t *tuned) variables(x tuner.Setting) map[string]string {
	all := map[string]string{}
	for name, v := range t.values(x) {
		all[KnobVariable+strings.ToUpper(name)] = strconv.Itoa(v)
	}
	return all
}

// values returns knobs' values by name.
func (t *tuned) values(x tuner.Setting) map[string]int {
	all := map[string]int{}
	for i, k := range t.space.Knobs {
		if all[k.Name] = int(x[i]); len(k.Choices) > 0 {
			all[k.Name], _ = strconv.Atoi(k.Choices[int(x[i])]) // the check of the job file has parsed it
		}
	}
	return all
}

// setting returns the setting with these values; false = the job has other knobs.
func (t *tuned) setting(values map[string]int) (tuner.Setting, bool) {
	x := t.byDefault()
	for i, k := range t.space.Knobs {
		v, known := values[k.Name]
		if x[i] = float64(v); len(k.Choices) > 0 {
			x[i] = float64(slices.Index(k.Choices, strconv.Itoa(v)))
		}
		if !known || x[i] < k.Low || len(k.Choices) == 0 && x[i] > k.High {
			return nil, false
		}
	}
	return x, true
}

// inUse returns the setting of the attempt that runs.
func (t *tuned) inUse() tuner.Setting {
	values := map[string]int{}
	for _, k := range t.space.Knobs {
		if v, err := strconv.Atoi(t.w.settings[0][KnobVariable+strings.ToUpper(k.Name)]); err == nil {
			values[k.Name] = v
		}
	}
	if x, known := t.setting(values); known {
		return x
	}
	return t.byDefault()
}

// begin returns the environment variables of an attempt.
func (t *tuned) begin(ranks int) map[string]string {
	t.at, t.sample = time.Time{}, tuner.Sample{}
	if p := t.plans[ranks]; p != nil {
		return t.variables(p.next)
	}
	return t.variables(t.byDefault())
}

// plan returns the plan for a number of ranks, a new one starting at this step if there is none. A change is expected to cost some seconds.
func (t *tuned) plan(ranks int, step int64, change float64) *plan {
	if p := t.plans[ranks]; p != nil {
		return p
	}
	done := step / t.perClock
	p := &plan{next: t.byDefault(), wait: tuneEvery, from: done}
	t.plans[ranks] = p
	var known []tuner.Setting
	for _, other := range slices.Sorted(maps.Keys(t.plans)) {
		if o := t.plans[other]; o.Tuner != nil && !slices.Equal(o.next, p.next) {
			known = append(known, o.next)
		}
	}
	clocks := int(max(t.w.cfg.Of/t.perClock-done, 1))
	seeker, err := tuner.New(t.space, tuner.Options{Default: p.next, Every: tuneEvery, Trials: 2 * len(t.space.Knobs), Clocks: clocks, Share: t.w.cfg.Share, Change: change, Known: known, Seed: 1})
	if err != nil { // checked with the job file
		p.off = true
		return p
	}
	p.Tuner = seeker
	return p
}

// advance records a program's progress.
func (t *tuned) advance(it *unit) {
	at := it.step()
	if !it.winding.IsZero() || it.ready.IsZero() || slices.ContainsFunc(it.ranks, func(r rank) bool { return r.behind }) || t.changing != nil && at < t.changing.step {
		t.at = time.Time{}
		return
	}
	seconds := func(since time.Time) float64 { return t.w.cfg.Wall(t.w.Now.Sub(since)).Seconds() }
	if t.at.IsZero() {
		begins := t.plans[len(it.ranks)] == nil
		p := t.plan(len(it.ranks), at, 2*t.w.cfg.Wall(it.ready.Sub(it.began)-it.prepared).Seconds())
		if t.at, t.step = t.w.Now, at; begins {
			t.advise(it, p, nil)
		}
		if c := t.changing; c != nil && p.Tuner != nil {
			t.sample.Change = max(seconds(c.since)-float64(at-c.step)/float64(t.perClock)*p.Saved().Default, 1e-3)
			t.changing = nil
		}
		return
	}
	gained := at - t.step
	p := t.plans[len(it.ranks)]
	if p.off || gained < t.perClock {
		return
	}
	each := seconds(t.at) * float64(t.perClock) / float64(gained)
	for range gained / t.perClock {
		t.sample.Clocks = append(t.sample.Clocks, tuner.Clock{Seconds: max(each, 1e-6)})
	}
	t.at, t.step = t.w.Now, at
	if p.Enough(t.sample.Clocks) || p.Saved().Default > 0 && len(t.sample.Clocks) >= p.wait {
		t.decide(it, p)
	}
}

// decide reports the sample to the tuner, and follows its advice.
func (t *tuned) decide(it *unit, p *plan) {
	s := t.sample
	s.Setting, s.Done = t.inUse(), int(it.step()/t.perClock-p.from)
	if p.Tell(s) != nil {
		p.off = true
		return
	}
	told := &journal.TuneSample{Setting: t.values(s.Setting), Clock: it.step(), Change: s.Change, Default: p.Saved().Default}
	for _, c := range s.Clocks {
		told.Clocks = append(told.Clocks, journal.TuneClock{Seconds: c.Seconds})
	}
	if pace, ok := tuner.Pace(s.Clocks); ok {
		told.Pace, told.Real = pace, told.Default-pace
	}
	t.advise(it, p, told)
}

// advise records the tuner's advice, and begins the change.
func (t *tuned) advise(it *unit, p *plan, told *journal.TuneSample) {
	if p.Tuner == nil {
		return
	}
	from, a := t.inUse(), p.Ask(0)
	p.off, p.next, t.sample = a.Step == tuner.Off, a.Setting, tuner.Sample{}
	if p.wait = min(2*p.wait, longestTuned*tuneEvery); a.Change || told == nil {
		p.wait = tuneEvery
	}
	d := journal.TuneDetails{Step: string(a.Step), Machines: len(it.ranks), Setting: t.values(a.Setting), Gain: a.Gain, Cost: a.Cost, Sample: told}
	why := a.Why
	if net := p.Saved(); net.Seconds != 0 {
		word := "saved"
		if d.Saved = net.Seconds; net.Seconds < 0 {
			word = "lost"
		}
		why += fmt.Sprintf("; in all %.1f s (within %.1f) %s against the default", math.Abs(net.Seconds), net.Within, word)
	}
	at := it.step()
	t.w.Record(func() journal.Entry {
		details, _ := journal.Pack(d) // of numbers
		return journal.Entry{Kind: journal.Tune, From: t.space.Text(from), To: t.space.Text(a.Setting), Clock: at, Why: why, Details: details}
	})
	if !slices.Equal(from, a.Setting) {
		t.changing = &changing{t.w.Now, at}
		t.w.wind(it, "its knobs are set to "+t.space.Text(a.Setting))
	}
}

// remember restores what earlier controllers have learned, from their journal.
func (t *tuned) remember(lines []PastTuning) {
	for _, l := range lines {
		p := t.plan(l.Details.Machines, l.Step, 0)
		if s := l.Details.Sample; s != nil && p.Tuner != nil {
			x, known := t.setting(s.Setting)
			sample := tuner.Sample{Setting: x, Change: s.Change, Done: int(s.Clock/t.perClock - p.from)}
			for _, c := range s.Clocks {
				sample.Clocks = append(sample.Clocks, tuner.Clock{Seconds: c.Seconds})
			}
			if !known || p.Tell(sample) != nil {
				continue
			}
		}
		if x, known := t.setting(l.Details.Setting); known {
			p.next, p.off = x, l.Details.Step == string(tuner.Off)
		}
	}
}

// Outlook describes a program's knobs before it starts.
func Outlook(knobs []trials.Range, of int64) string {
	var words []string
	for _, k := range knobs {
		if len(k.Values) > 0 {
			words = append(words, fmt.Sprintf("%s (%s)", k.Name, strings.Join(k.Values, ", ")))
			continue
		}
		words = append(words, fmt.Sprintf("%s (%.0f to %.0f)", k.Name, k.Low, k.High))
	}
	w := Work{cfg: &Config{Knobs: knobs, Of: of}}
	t := newTuned(&w)
	if t == nil {
		return "not tuned: without progress.of nobody knows how long a trial pays"
	}
	return fmt.Sprintf("the program's knobs are sought while it runs: %s; it begins with %s, and restarts from its state for each change", strings.Join(words, ", "), t.space.Text(t.byDefault()))
}
