package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/market"
)

type options struct {
	length             time.Duration
	faults             int
	seed               uint64
	machines, reliable int
	consistency        string
	tls                bool
	without            []string
	out                io.Writer
}

// deadAfter is the silence after which a machine is given up here, and notice the warning before an eviction.
const (
	deadAfter = 3 * time.Second
	notice    = 3 * time.Second
)

// fault is something that happens at a time since the start of training. It names its machine by a place among those
// that live then, from 0 to 1, so that a plan means something whatever happened before.
type fault struct {
	at    time.Duration
	kind  string
	place float64
	long  time.Duration
}

func (f fault) String() string {
	return fmt.Sprintf("%6.1fs %-15s %.3f %v", f.at.Seconds(), f.kind, f.place, f.long)
}

// plan is a list of faults, oldest first.
type plan []fault

func (p plan) String() string {
	lines := make([]string, len(p))
	for i, f := range p {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// kind says how often a fault is drawn, how long it may last, and what it does. It gives what it was done to, or nothing
// when there was nobody.
type kind struct {
	name        string
	weight      int
	short, long time.Duration
	do          func(s *stage, f fault) (string, error)
}

// kinds of faults. The order is that of drawing: add new ones at the end.
var kinds = []kind{
	{"kill", 6, 0, 0, (*stage).kill},
	{"kill-half", 2, 0, 0, (*stage).killHalf},
	{"silence", 4, deadAfter + 500*time.Millisecond, deadAfter + 3*time.Second, (*stage).silence},
	{"pause", 3, 100 * time.Millisecond, 1200 * time.Millisecond, (*stage).pause},
	{"drop", 6, 0, 0, (*stage).drop},
	{"evict", 4, 0, 0, evict("evict", 2)},
	{"evict-all", 1, 0, 0, evict("evict", 100)},
	{"evict-now", 3, 0, 0, evict("evict-now", 2)},
	{"evict-twice", 2, 100 * time.Millisecond, time.Second, (*stage).evictTwice},
	{"evict-late", 3, 500 * time.Millisecond, 2500 * time.Millisecond, (*stage).evictLate},
	{"no-capacity", 1, time.Second, 5 * time.Second, forAWhile("no-capacity")},
	{"slow-start", 1, 2 * time.Second, 5 * time.Second, (*stage).slowStart},
	{"throttle", 1, 500 * time.Millisecond, 2 * time.Second, forAWhile("throttle")},
	{"kill-controller", 3, 100 * time.Millisecond, 3 * time.Second, (*stage).killController},
	{"disk-full", 3, 2 * time.Second, 6 * time.Second, (*stage).fillDisk},
	{"kill-reliable", 2, 0, 0, (*stage).killReliable},
	{"scale", 4, 0, 0, (*stage).scale},
}

// draw gives the plan of a seed.
func draw(o options) plan {
	random := rand.New(rand.NewPCG(o.seed, 17))
	of := slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return slices.Contains(o.without, k.name) })
	total := 0
	for _, k := range of {
		total += k.weight
	}
	var p plan
	for range o.faults {
		f := fault{at: time.Duration(random.Int64N(int64(o.length))).Truncate(time.Millisecond), place: random.Float64()}
		n := random.IntN(total)
		for _, k := range of {
			if n -= k.weight; n < 0 {
				f.kind = k.name
				if k.long > 0 {
					f.long = (k.short + time.Duration(random.Int64N(int64(k.long-k.short)))).Truncate(time.Millisecond)
				}
				break
			}
		}
		p = append(p, f)
	}
	slices.SortStableFunc(p, func(a, b fault) int { return int(a.at - b.at) })
	return p
}

// machine is an instance that has a process.
type machine struct {
	id  string
	pid int
}

// machines are those of some classes that run, oldest first.
func (s *stage) machines(classes ...market.Class) ([]machine, error) {
	instances, err := s.cloud.Instances()
	if err != nil {
		return nil, err
	}
	var list []machine
	for _, i := range instances {
		if i.Ended.IsZero() && i.Metadata != "" && slices.Contains(classes, i.Pool.Class) {
			if pid := s.site.Machine(i.ID); pid != 0 {
				list = append(list, machine{i.ID, pid})
			}
		}
	}
	return list, nil
}

// victim is the machine at a fault's place among those of some classes; false when there is none.
func (s *stage) victim(f fault, classes ...market.Class) (machine, bool, error) {
	list, err := s.machines(classes...)
	if err != nil || len(list) == 0 {
		return machine{}, false, err
	}
	return list[int(f.place*float64(len(list)))], true, nil
}

func evict(verb string, most int) func(*stage, fault) (string, error) {
	return func(s *stage, f fault) (string, error) {
		targets, err := s.cloud.Do(fmt.Sprintf("%s random %d", verb, 1+int(f.place*float64(most))))
		return strings.Join(targets, " "), err
	}
}

// forAWhile makes a fault of the whole market, for so long by the wall clock.
func forAWhile(verb string) func(*stage, fault) (string, error) {
	return func(s *stage, f fault) (string, error) {
		_, err := s.cloud.Do(fmt.Sprintf("%s for %v", verb, (f.long * speed).Truncate(time.Second)))
		return "the market", err
	}
}

func (s *stage) slowStart(f fault) (string, error) {
	_, err := s.cloud.Do(fmt.Sprintf("slow-start boot %v for 1h", f.long)) // an hour is six seconds here
	return "the market", err
}

// evictTwice: the notice comes twice.
func (s *stage) evictTwice(f fault) (string, error) {
	m, ok, err := s.victim(f, market.Spot)
	if !ok || err != nil {
		return "", err
	}
	if _, err := s.cloud.Do("evict " + m.id); err != nil {
		return "", err
	}
	s.later(f.long, func() error {
		_, err := s.cloud.Do("evict " + m.id)
		return ignoreGone(err)
	})
	return m.id, nil
}

// evictLate: neither the machine nor the controller hears of the notice until most of its time is over.
func (s *stage) evictLate(f fault) (string, error) {
	m, ok, err := s.victim(f, market.Spot)
	if !ok || err != nil {
		return "", err
	}
	if _, err := s.cloud.Do(fmt.Sprintf("throttle for %v", (f.long * speed).Truncate(time.Second))); err != nil {
		return "", err
	}
	if _, err := s.stopFor(m, f.long); err != nil {
		return "", err
	}
	_, err = s.cloud.Do("evict " + m.id)
	return m.id, ignoreGone(err)
}

// ignoreGone: a machine may have ended since it was looked up.
func ignoreGone(err error) error {
	if err != nil && strings.Contains(err.Error(), "400") {
		return nil
	}
	return err
}
