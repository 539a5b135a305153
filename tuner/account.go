package tuner

import (
	"fmt"
	"math"
	"slices"
)

// account is the benefit of settings for a job, in its undisturbed clocks, compared with the default.
type account struct {
	each      []*record // the first is the default's
	changes   float64   // total seconds of changes
	changed   float64   // number of changes
	exploring int       // clocks spent on unproven settings
}

// record has one setting's clocks.
type record struct {
	setting        Setting
	n, sum, square float64
}

const (
	// surely is how many standard errors faster than the default a setting must be for permanent use, and leastGain the minimum relative
	// gain.
	surely    = 3.
	leastGain = .01
	// steady is a sufficiently small standard error of the default's mean, and steadyMost the limit for measuring it,
	// in multiples of Every.
	steady     = .02
	steadyMost = 10
	// steep is the expected slowdown of a setting that differs from all tried ones by one knob's whole range.
	steep = .5
	// usualNoise is the minimum deviation of clocks of one setting: few clocks may be alike by chance.
	usualNoise = .02
)

func (r *record) mean() float64 { return r.sum / r.n }

// variance returns the variance of the mean.
func (r *record) variance() float64 {
	floor := usualNoise * r.mean()
	return max((r.square-r.sum*r.sum/r.n)/max(r.n-1, 1), floor*floor) / r.n
}

func (a *account) recordOf(x Setting) *record {
	for _, r := range a.each {
		if slices.Equal(r.setting, x) {
			return r
		}
	}
	a.each = append(a.each, &record{setting: slices.Clone(x)})
	return a.each[len(a.each)-1]
}

// pace returns the default's seconds per clock; 0 = not measured yet.
func (a *account) pace() float64 {
	if d := a.each[0]; d.n > 0 {
		return d.mean()
	}
	return 0
}

// saved returns the seconds saved against the default, negative if lost.
func (a *account) saved() (seconds float64) {
	if a.pace() == 0 {
		return 0
	}
	for _, r := range a.each[1:] {
		seconds += a.pace()*r.n - r.sum
	}
	return seconds - a.changes
}

// elsewhere returns the number of clocks with other settings than the default, and the variance of their total time.
func (a *account) elsewhere() (clocks, variance float64) {
	for _, r := range a.each[1:] {
		if r.n > 0 {
			clocks, variance = clocks+r.n, variance+r.n*r.n*r.variance()
		}
	}
	return clocks, variance
}

func (a *account) add(s Sample) {
	r := a.recordOf(s.Setting)
	for _, c := range s.Clocks {
		if !c.Disturbed {
			r.n, r.sum, r.square = r.n+1, r.sum+c.Seconds, r.square+c.Seconds*c.Seconds
		}
	}
	if s.Change > 0 {
		a.changes, a.changed = a.changes+s.Change, a.changed+1
	}
}

// proven reports whether a setting is faster than the default beyond noise.
func (a *account) proven(r *record) bool {
	d := a.each[0]
	if d.n < 2 || r.n < 2 {
		return false
	}
	gain := d.mean() - r.mean()
	return gain > leastGain*d.mean() && gain > surely*math.Sqrt(d.variance()+r.variance())
}

// home returns the setting to use between trials: the fastest proven one, or else the default.
func (a *account) home() *record {
	best := a.each[0]
	for _, r := range a.each[1:] {
		if a.proven(r) && r.mean() < best.mean() {
			best = r
		}
	}
	return best
}

// Net is a job's savings so far against its default.
type Net struct {
	Seconds float64 // negative = lost
	Within  float64 // two standard errors
	Default float64 // seconds per clock; 0 = not measured yet
}

// Saved returns the job's savings so far.
func (t *Tuner) Saved() Net {
	a := &t.account
	n := Net{Seconds: a.saved(), Default: a.pace()}
	if n.Default > 0 {
		clocks, variance := a.elsewhere()
		d := a.each[0]
		n.Within = 2 * math.Sqrt(clocks*clocks*d.variance()+variance+a.changed*d.n*d.variance()) // a change's cost is known to within a clock
	}
	return n
}

// limited reports whether trials may lose only a share of the job's time.
func (t *Tuner) limited() bool { return t.options.Share > 0 }

// balance returns how many seconds trials may still lose. The default is taken to be a standard error faster than
// measured.
func (t *Tuner) balance() float64 {
	a := &t.account
	elsewhere, _ := a.elsewhere()
	return t.options.Share*a.pace()*max(float64(t.options.Clocks), t.left) + a.saved() - elsewhere*math.Sqrt(a.each[0].variance())
}

// Enough reports whether the current setting has enough clocks: for the default when its mean is steady, for another when one more could
// cost more than trials may still lose.
func (t *Tuner) Enough(clocks []Clock) bool {
	if !t.limited() {
		return false
	}
	var r record
	for _, c := range clocks {
		if !c.Disturbed {
			r.n, r.sum, r.square = r.n+1, r.sum+c.Seconds, r.square+c.Seconds*c.Seconds
		}
	}
	if t.account.pace() == 0 {
		every := float64(t.options.Every)
		return r.n >= every && math.Sqrt(r.variance()) <= steady*r.mean() || r.n >= steadyMost*every
	}
	home := t.account.home()
	if r.n == 0 || slices.Equal(t.inUse, home.setting) || slices.Equal(t.inUse, t.options.Default) {
		return false
	}
	return (r.mean()-t.account.pace())*(r.n+1) > max(t.balance()-t.change(t.inUse, home.setting), 0)
}

// affords reports whether the trial of a setting, including the return, is expected to lose no more than trials may,
// and to end within a fifth of the job's clocks.
func (t *Tuner) affords(x Setting, expected float64) bool {
	if !t.limited() {
		return true
	}
	if t.options.Clocks > 0 && float64(t.account.exploring+t.options.Every) > mostOfJob*float64(t.options.Clocks) {
		return false
	}
	if slices.ContainsFunc(t.options.Known, func(k Setting) bool { return slices.Equal(k, x) }) {
		return t.balance() >= 0
	}
	loss := max(expected, t.risk(x))
	if t.likely(x) && t.account.recordOf(x).n == 0 {
		loss = 0
	}
	return loss+t.change(t.inUse, x)+t.change(x, t.options.Default) <= t.balance()
}

// change returns the highest expected cost of a change: if unknown, a clock or the option's value.
func (t *Tuner) change(from, to Setting) float64 {
	seconds, known := t.costs.expected(t.space.techniques(from, to))
	if !known {
		seconds = max(seconds, t.account.pace(), t.options.Change)
	}
	return seconds
}

func (t *Tuner) likely(x Setting) bool {
	return slices.ContainsFunc(t.options.Likely, func(l Setting) bool { return slices.Equal(l, x) })
}

// clocksAt returns the expected cost of a setting's trial in clocks of the default before anything is known: the trial
// and two changes.
func (t *Tuner) clocksAt(x Setting) float64 {
	if t.likely(x) {
		return 2
	}
	return steep*t.space.distance(t.options.Default, x)*float64(t.options.Every) + 2
}

// risk returns the expected loss of a trial, from the nearest tried setting: its loss, plus an amount in proportion to
// the distance. Beyond a setting that is slower than the default, it gets worse at least at the same rate.
func (t *Tuner) risk(x Setting) float64 {
	least, near := math.Inf(1), t.account.each[0]
	for _, r := range t.account.each {
		if d := t.space.distance(r.setting, x); r.n > 0 && d < least {
			least, near = d, r
		}
	}
	pace := t.account.pace()
	slope, excess := steep*pace, near.mean()-pace
	if far := t.space.distance(near.setting, t.options.Default); far > 0 {
		slope = max(slope, excess/far)
	}
	return max(excess+slope*least, 0) * float64(t.options.Every)
}

// within is online for a job whose trials may lose a share of its time: expensive settings are not tried, and only proven settings are used
// permanently.
func (t *Tuner) within(loss float64) Advice {
	home, left := t.account.home(), t.clocksLeft()
	saves := (t.account.pace() - home.mean()) * left
	if !t.ended {
		if a, ok := t.affordable(home, t.losses.factor(loss), left); ok && a.Gain > a.Cost {
			a.Gain += saves
			return a
		} else if !ok && home == t.account.each[0] {
			t.ended = true
		}
	}
	why := "nothing that may be tried is expected to pay"
	if t.ended {
		why = fmt.Sprintf("no more is tried: trials may lose %.2g %% of the job's time", 100*t.options.Share)
	}
	step := Stay
	if !slices.Equal(t.inUse, home.setting) {
		step, why = Back, "back, "+t.space.difference(t.inUse, home.setting)+": "+why
	}
	a := t.advise(step, home.setting, why)
	a.Gain = saves
	a.Cost, _ = t.costs.expected(t.space.techniques(t.inUse, home.setting))
	return a
}

// affordable returns the trial that gains the most beyond the best proven setting; false = no trial is affordable.
func (t *Tuner) affordable(home *record, loss, left float64) (most Advice, ok bool) {
	t.model.learn(&t.hyper, t.options.Seed)
	here := t.model.judge([]Setting{home.setting, t.options.Default}, loss)
	var can []candidate
	for _, c := range slices.Concat(t.model.next(here[0], loss, t.options.Seed+t.asked), t.model.judge(t.model.settings, loss)) {
		if !slices.Equal(c.setting, home.setting) && t.affords(c.setting, t.trialCost(c, here[1], left)) {
			can = append(can, c)
		}
	}
	if len(can) == 0 {
		return most, false
	}
	return t.mostWorth(can, here[0], left), true
}
