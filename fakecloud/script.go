package fakecloud

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/internal/clock"
)

// Verb is an action of a script.
type Verb string

// The verbs.
const (
	Kill       Verb = "kill"        // break machines: SIGKILL, no notice, recorded as Server.InternalError
	Evict      Verb = "evict"       // take spot machines back with the usual notice
	EvictNow   Verb = "evict-now"   // take spot machines back without notice
	Rebalance  Verb = "rebalance"   // recommend leaving spot machines
	NoCapacity Verb = "no-capacity" // sell nothing for a time
	SlowStart  Verb = "slow-start"  // boot slower
	Throttle   Verb = "throttle"    // refuse all requests for a time
)

// Step is one action. Its text form is one line:
//
//	at 6h kill oldest
//	at 2014-04-05T12:00:00Z evict random 3 of us-west-1a/c3.xlarge
//	at 10m no-capacity of c3.xlarge for 1h
//	at 10m slow-start x4 for 1h
//	at 10m slow-start boot 2s
//	at 10m throttle for 2m
//
// A step without "at" happens at once.
type Step struct {
	Offset time.Duration // market time since the cloud's start ...
	Time   time.Time     // ... or a market time
	Do     Verb
	Target string        // kill, evict, evict-now, rebalance: an instance id, or "oldest", "newest", "random", "all"
	Count  int           // maximum for oldest, newest and random; 0 = 1
	Of     string        // only these: a type, a zone, "zone/type" or a whole pool; "" = everywhere
	For    time.Duration // market time; no-capacity, throttle (required), slow-start (0 = forever)
	Boot   time.Duration // wall-clock time; slow-start
	Factor float64       // slow-start: factor relative to the usual boot time
}

// Script is a list of steps, in any order of time.
type Script []Step

// ParseScript parses steps, one per line. Empty lines and comments after # are skipped.
func ParseScript(text string) (Script, error) {
	var script Script
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		step, err := ParseStep(line)
		if err != nil {
			return nil, fmt.Errorf("script line %d: %w", n+1, err)
		}
		script = append(script, step)
	}
	return script, nil
}

// String returns what ParseScript reads.
func (s Script) String() string {
	var b strings.Builder
	for _, step := range s {
		b.WriteString(step.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// String returns what ParseStep reads.
func (s Step) String() string {
	var words []string
	add := func(w ...string) { words = append(words, w...) }
	switch {
	case !s.Time.IsZero():
		add("at", s.Time.UTC().Format(time.RFC3339Nano))
	case s.Offset != 0:
		add("at", short(s.Offset))
	}
	add(string(s.Do))
	if s.Target != "" {
		add(s.Target)
	}
	if s.Count != 0 {
		add(strconv.Itoa(s.Count))
	}
	if s.Factor != 0 {
		add("x" + strconv.FormatFloat(s.Factor, 'f', -1, 64))
	}
	if s.Boot != 0 {
		add("boot", short(s.Boot))
	}
	if s.Of != "" {
		add("of", s.Of)
	}
	if s.For != 0 {
		add("for", short(s.For))
	}
	return strings.Join(words, " ")
}

// short writes "6h" for 6h0m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// ParseStep reads one step.
func ParseStep(text string) (Step, error) {
	var s Step
	words := strings.Fields(text)
	fail := func(err error) (Step, error) { return Step{}, fmt.Errorf("%q: %w", strings.TrimSpace(text), err) }
	if len(words) > 1 && words[0] == "at" {
		if err := s.parseWhen(words[1]); err != nil {
			return fail(err)
		}
		words = words[2:]
	}
	if len(words) == 0 {
		return fail(errors.New("does nothing; write for example: at 6h kill oldest"))
	}
	s.Do = Verb(words[0])
	for words = words[1:]; len(words) > 0; {
		used, err := s.parseWord(words)
		if err != nil {
			return fail(err)
		}
		words = words[used:]
	}
	if err := s.check(); err != nil {
		return fail(err)
	}
	return s, nil
}

func (s *Step) parseWhen(word string) (err error) {
	if s.Offset, err = time.ParseDuration(word); err == nil && s.Offset >= 0 {
		return nil
	}
	s.Offset = 0
	if s.Time, err = time.Parse(time.RFC3339Nano, word); err != nil {
		return fmt.Errorf("at %q: want a time since the start such as 6h, or such as 2014-04-05T12:00:00Z", word)
	}
	s.Time = s.Time.UTC()
	return nil
}

// parseWord parses the word after the verb and returns how many words that was.
func (s *Step) parseWord(words []string) (used int, err error) {
	word := words[0]
	if word == "of" || word == "for" || word == "boot" {
		if len(words) < 2 {
			return 0, fmt.Errorf("nothing follows %q", word)
		}
		switch word {
		case "of":
			s.Of = words[1]
		case "for":
			s.For, err = positive(words[1])
		case "boot":
			s.Boot, err = positive(words[1])
		}
		return 2, err
	}
	if n, err := strconv.Atoi(word); err == nil {
		s.Count = n
		return 1, nil
	}
	if factor, ok := strings.CutPrefix(word, "x"); ok {
		s.Factor, err = strconv.ParseFloat(factor, 64)
		return 1, err
	}
	if s.Target != "" {
		return 0, fmt.Errorf("what is %q?", word)
	}
	s.Target = word
	return 1, nil
}

func positive(word string) (time.Duration, error) {
	d, err := time.ParseDuration(word)
	if err == nil && d <= 0 {
		err = fmt.Errorf("%q is not above 0", word)
	}
	return d, err
}

// check reports whether the parts of a step go together.
func (s Step) check() error {
	machines := s.Do == Kill || s.Do == Evict || s.Do == EvictNow || s.Do == Rebalance
	named := region.Named(s.Target)
	switch {
	case !slices.Contains([]Verb{Kill, Evict, EvictNow, Rebalance, NoCapacity, SlowStart, Throttle}, s.Do):
		return fmt.Errorf("%q: want kill, evict, evict-now, rebalance, no-capacity, slow-start or throttle", s.Do)
	case s.Offset < 0 || s.Offset != 0 && !s.Time.IsZero():
		return errors.New("the time must be one since the start, or one on the clock")
	case machines && !named && !slices.Contains([]string{"oldest", "newest", "random", "all"}, s.Target):
		return fmt.Errorf("%s of what? Write oldest, newest, random, all or an instance id", s.Do)
	case machines && (s.For != 0 || s.Boot != 0 || s.Factor != 0):
		return fmt.Errorf("%s happens at once: no duration, boot or factor", s.Do)
	case !machines && (s.Target != "" || s.Count != 0):
		return fmt.Errorf("%s has no target machines; limit it with: of TYPE", s.Do)
	case s.Count < 0 || s.Count != 0 && (named || s.Target == "all"):
		return errors.New("a count above 0 goes with oldest, newest and random only")
	case named && s.Of != "":
		return errors.New("an instance id needs no further limit")
	case (s.Do == NoCapacity || s.Do == Throttle) && s.For <= 0:
		return fmt.Errorf("%s for how long? Write: for 1h", s.Do)
	case s.For < 0 || s.Boot < 0:
		return errors.New("a duration below 0")
	case s.Do == Throttle && s.Of != "":
		return errors.New("throttle is for all requests; it has no pools")
	case s.Do != SlowStart && (s.Boot != 0 || s.Factor != 0):
		return errors.New("boot and a factor go with slow-start only")
	case s.Do == SlowStart && (s.Boot == 0) == (s.Factor == 0):
		return errors.New("slow-start wants either a factor such as x4, or: boot 2s")
	case s.Factor < 0 || s.Factor > 1e6 || s.Factor != s.Factor:
		return fmt.Errorf("factor %v is out of bounds", s.Factor)
	}
	return nil
}

// MarshalText and UnmarshalText make a step a string in JSON and YAML.
func (s Step) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the result of MarshalText.
func (s *Step) UnmarshalText(b []byte) (err error) {
	*s, err = ParseStep(string(b))
	return err
}

// step is a Step with its market time.
type step struct {
	Step
	at time.Time
}

// schedule orders the steps by time; ties keep the written order.
func (s Script) schedule(start time.Time, r *region.Region) ([]step, error) {
	var steps []step
	for _, st := range s {
		if err := st.check(); err != nil {
			return nil, fmt.Errorf("script step %q: %w", st, err)
		}
		if !r.Known(region.Scope(st.Of)) {
			return nil, fmt.Errorf("script step %q: no pool is called %q here", st, st.Of)
		}
		at := st.Time
		if at.IsZero() {
			at = start.Add(st.Offset)
		}
		steps = append(steps, step{st, at})
	}
	sortSteps(steps)
	return steps, nil
}

func sortSteps(steps []step) {
	slices.SortStableFunc(steps, func(a, b step) int { return a.at.Compare(b.at) })
}

// execute carries out the step and returns the affected machines.
func (s Step) execute(r *region.Region, m clock.Mapping, now time.Time) (targets []string, err error) {
	of := region.Scope(s.Of)
	if s.Target != "" {
		targets = r.Pick(now, s.Target, s.Count, of)
	}
	switch s.Do {
	case Kill:
		err = r.Kill(now, targets)
	case Evict:
		err = r.Evict(now, targets)
	case EvictNow:
		err = r.EvictNow(now, targets)
	case Rebalance:
		err = r.Rebalance(now, targets)
	case NoCapacity:
		r.RunOut(now, of, s.For)
	case SlowStart:
		r.SlowStart(now, of, m.ToMarket(s.Boot), s.Factor, s.For)
	case Throttle:
		r.Throttle(now, s.For)
	}
	return targets, err
}
