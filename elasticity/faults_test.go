package elasticity

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
)

// fault is something that happens to a world. It identifies its machine by a position among those alive at that time, from 0 to 1, so that
// a fault keeps a meaning when others are removed from the plan.
type fault struct {
	at   time.Duration
	do   string
	who  float64
	long time.Duration
}

// faultKind defines a fault's effect and its arguments.
type faultKind struct {
	verb      string
	who, long bool
	most      time.Duration // maximum of long
	weight    int           // in the draw
	do        func(w *world, f fault)
}

// The order is that of drawing: append new ones.
var faultKinds = []faultKind{
	{"evict-all", false, true, 3 * time.Second, 3, func(w *world, f fault) { w.evict(f.long, w.spot()...) }},
	{"evict-some", true, true, 3 * time.Second, 4, func(w *world, f fault) { w.evict(f.long, w.first(f.who)...) }},
	{"kill", true, false, 0, 6, func(w *world, f fault) { w.kill(w.one(w.spot(), f.who)) }},
	{"kill-some", true, false, 0, 3, func(w *world, f fault) {
		for _, id := range w.first(f.who) {
			w.kill(id)
		}
	}},
	{"silence", true, true, 6 * time.Second, 4, func(w *world, f fault) { w.nodes[w.one(w.spot(), f.who)].fallSilent(f.long) }},
	{"break-stream", true, true, 900 * time.Millisecond, 3, func(w *world, f fault) {
		w.nodes[w.one(w.spot(), f.who)].breakStream(f.long)
	}},
	{"blink", true, true, 400 * time.Millisecond, 2, func(w *world, f fault) {
		w.nodes[w.one(append(w.machinesOf(market.OnDemand), w.spot()...), f.who)].breakStream(f.long)
	}},
	{"slow", true, true, 200 * time.Millisecond, 2, func(w *world, f fault) {
		n := w.nodes[w.one(append(w.machinesOf(market.OnDemand), w.spot()...), f.who)]
		n.slow = f.long
		w.after(2*time.Second, func() { n.slow = 0 })
	}},
	{"want", true, false, 0, 5, func(w *world, f fault) { w.policy.count = int(f.who * 20) }},
	{"switch", false, false, 0, 4, func(w *world, _ fault) {
		if w.policy.pool == poolA {
			w.policy.pool = poolB
		} else {
			w.policy.pool = poolA
		}
	}},
	{"no-capacity", false, true, 4 * time.Second, 2, func(w *world, f fault) { w.cloud.none = w.now.Add(f.long) }},
	{"few", false, true, 4 * time.Second, 2, func(w *world, f fault) { w.cloud.few = w.now.Add(f.long) }},
	{"slow-answer", false, true, 4 * time.Second, 2, func(w *world, f fault) { w.cloud.slow = w.now.Add(f.long) }},
	{"stillborn", false, true, 4 * time.Second, 2, func(w *world, f fault) { w.cloud.stillborn = w.now.Add(f.long) }},
	{"mute", false, true, 4 * time.Second, 1, func(w *world, f fault) { w.cloud.mute = w.now.Add(f.long) }},
	{"full-disk", false, true, 3 * time.Second, 2, func(w *world, f fault) { w.store.full = w.now.Add(f.long) }},
	{"no-controller", false, true, 4 * time.Second, 2, func(w *world, f fault) { w.killController(f.long) }},
	{"restart", true, true, time.Second, 2, func(w *world, f fault) { w.nodes[w.one(w.spot(), f.who)].restart(f.long) }},
	{"stop", false, false, 0, 0, func(w *world, _ fault) { w.step(StopWanted{Why: "a user asked"}) }},
	{"stop-now", false, false, 0, 0, func(w *world, _ fault) { w.step(StopWanted{Why: "somebody insists", Now: true}) }},
	{"kill-reliable", true, false, 0, 2, func(w *world, f fault) { w.kill(w.one(w.machinesOf(market.OnDemand), f.who)) }},
	{"silence-reliable", true, true, 12 * time.Second, 2, func(w *world, f fault) { w.nodes[w.one(w.machinesOf(market.OnDemand), f.who)].fallSilent(f.long) }},
	{"damage", false, false, 0, 2, func(w *world, _ fault) { w.damageNewest() }},
	{"scale", true, false, 0, 4, func(w *world, f fault) { w.askForOthers(f.who) }},
	{"reliable", true, false, 0, 4, func(w *world, f fault) { w.askForReliable([]int{1, 1, -1, -1, 2}[int(f.who*5)]) }},
	// drawPlan sometimes draws one of these, after all others.
	{"pause", true, true, 15 * time.Second, 0, func(w *world, f fault) { w.pause(f.long, f.who < 0.5) }},
	{"clocks", true, true, 20 * time.Minute, 0, func(w *world, f fault) { w.setClock(f.who < 0.5, f.long) }},
	{"silence-all", true, true, 20 * time.Second, 0, func(w *world, f fault) { w.silenceMost(f.who, f.long) }},
	// Of TestMovesAtRandom.
	{"move-all", true, false, 0, 0, func(w *world, f fault) {
		if !w.absent {
			w.step(ScaleWanted{ID: uint64(len(w.scaled) + 1), MoveAll: []string{InWindow, AtOnce}[int(2*f.who)], By: "somebody"})
		}
	}},
	// Of TestPausesAtRandom.
	{"rest", false, true, 8 * time.Second, 0, func(w *world, f fault) { w.restFor(f.long) }},
	// Of TestMovesAtRandom.
	{"prefer", true, false, 0, 0, func(w *world, f fault) { w.prefer(f.who) }},
}

// askForOthers requests other numbers of machines. Impossible requests are refused.
func (w *world) askForOthers(place float64) {
	if w.absent {
		return
	}
	w.policy.asked = true
	requests := []ScaleWanted{{Reset: true}, {Workers: 2}, {Workers: -2}, {Workers: 5, Servers: 1}, {Workers: -3, Servers: -1}, {Servers: 2},
		{Servers: -1}, {Workers: -20}}
	request := requests[int(place*float64(len(requests)))]
	request.ID, request.By = uint64(len(w.scaled)+1), "somebody"
	w.step(request)
}

// restFor pauses the run, and resumes it after a while; an absent controller learns of it on its return.
func (w *world) restFor(d time.Duration) {
	w.policy.asked = true
	w.request(ScaleWanted{Pause: true})
	var resume func()
	resume = func() {
		if w.request(ScaleWanted{Resume: true}); w.outcome == "" && (w.absent || w.stopped || w.ctrl.Scale().Paused) {
			w.after(300*time.Millisecond, resume)
		}
	}
	w.after(d, resume)
}

// askForReliable requests more or fewer reliable machines.
func (w *world) askForReliable(more int) {
	if !w.absent {
		w.step(ScaleWanted{ID: uint64(len(w.scaled) + 1), Reliable: more, By: "somebody"})
	}
}

// one returns the machine at a position of a list; "" if there is none.
func (w *world) one(ids []ps.ServerID, place float64) ps.ServerID {
	if len(ids) == 0 {
		return ""
	}
	return ids[int(place*float64(len(ids)))]
}

// first returns a fraction of the spot machines, oldest first.
func (w *world) first(part float64) []ps.ServerID {
	ids := w.spot()
	return ids[:int(part*float64(len(ids)))]
}

func (w *world) kill(id ps.ServerID) { w.end(id, market.ByProvider, "Server.InternalError") }

// plan is a list of faults, oldest first.
type plan []fault

func kindOf(verb string) faultKind {
	return faultKinds[slices.IndexFunc(faultKinds, func(k faultKind) bool { return k.verb == verb })]
}

// play makes a plan happen to the world.
func (w *world) play(p plan) {
	for _, f := range p {
		kind := kindOf(f.do)
		w.after(f.at, func() {
			class := market.Spot
			if f.do == "kill-reliable" || f.do == "silence-reliable" {
				class = market.OnDemand
			}
			if w.outcome == "" && (!kind.who || f.do == "pause" || f.do == "clocks" || f.do == "silence-all" || f.do == "want" || f.do == "scale" || f.do == "move-all" || f.do == "reliable" || len(w.machinesOf(class)) > 0) {
				kind.do(w, f)
			}
		})
	}
}

// outcomes returns the ways in which a run with these faults may end.
func (p plan) outcomes() []string {
	out := []string{"finished"}
	for _, f := range p {
		switch f.do {
		case "stop", "stop-now":
			out = append(out, "interrupted")
		}
	}
	return out
}

func drawPlan(rng *rand.Rand) plan {
	total := 0
	for _, k := range faultKinds {
		total += k.weight
	}
	var p plan
	at := time.Duration(rng.Int64N(int64(8 * time.Second)))
	for at < 14*time.Second && len(p) < 12 {
		n := rng.IntN(total)
		for _, k := range faultKinds {
			if n -= k.weight; n < 0 {
				p = append(p, drawFault(rng, k, at))
				break
			}
		}
		at += time.Duration(rng.Int64N(int64(4 * time.Second)))
	}
	if last := rng.IntN(20); last < 4 {
		verb := []string{"stop", "stop-now", "kill-reliable", "kill-reliable"}[last]
		p = append(p, drawFault(rng, kindOf(verb), time.Duration(rng.Int64N(int64(14*time.Second)))))
	}
	if last := rng.IntN(20); last < 8 {
		verbs := [][]string{{"pause"}, {"pause"}, {"pause"}, {"pause", "pause"}, {"clocks", "no-controller"}, {"clocks", "no-controller"}, {"silence-all"}, {"silence-all"}}[last]
		for _, verb := range verbs {
			p = append(p, drawFault(rng, kindOf(verb), time.Duration(rng.Int64N(int64(14*time.Second)))))
		}
	}
	slices.SortStableFunc(p, func(a, b fault) int { return int(a.at - b.at) })
	return p
}

func drawFault(rng *rand.Rand, k faultKind, at time.Duration) fault {
	f := fault{at: at.Truncate(time.Millisecond), do: k.verb}
	if k.who {
		f.who = float64(rng.IntN(1000)) / 1000
	}
	if k.long {
		f.long = time.Duration(rng.Int64N(int64(k.most))).Truncate(time.Millisecond)
	}
	return f
}

func (p plan) String() string {
	var parts []string
	for _, f := range p {
		k := kindOf(f.do)
		s := fmt.Sprintf("%v %s", f.at, f.do)
		if k.who {
			s += " " + strconv.FormatFloat(f.who, 'g', -1, 64)
		}
		if k.long {
			s += " " + f.long.String()
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "; ")
}

// parsePlan reads what String wrote.
func parsePlan(text string) (plan, error) {
	p := plan{}
	for part := range strings.SplitSeq(text, ";") {
		words := strings.Fields(part)
		if len(words) == 0 {
			continue
		}
		f, err := parseFault(words)
		if err != nil {
			return nil, fmt.Errorf("fault %q: %w", strings.TrimSpace(part), err)
		}
		p = append(p, f)
	}
	return p, nil
}

func parseFault(words []string) (f fault, err error) {
	if len(words) < 2 {
		return f, fmt.Errorf("want a time and a verb")
	}
	if f.at, err = time.ParseDuration(words[0]); err != nil {
		return f, err
	}
	f.do = words[1]
	i := slices.IndexFunc(faultKinds, func(k faultKind) bool { return k.verb == f.do })
	if i < 0 {
		return f, fmt.Errorf("nobody knows how to %s", f.do)
	}
	rest := words[2:]
	next := func() string {
		if len(rest) == 0 {
			return ""
		}
		word := rest[0]
		rest = rest[1:]
		return word
	}
	if faultKinds[i].who {
		if f.who, err = strconv.ParseFloat(next(), 64); err != nil || f.who < 0 || f.who >= 1 {
			return f, fmt.Errorf("a place is from 0 to below 1: %v", words)
		}
	}
	if faultKinds[i].long {
		if f.long, err = time.ParseDuration(next()); err != nil {
			return f, err
		}
	}
	if len(rest) > 0 {
		return f, fmt.Errorf("too many words: %v", rest)
	}
	return f, nil
}

// shrink removes faults from a plan as long as the rest still fails.
func shrink(p plan, fails func(plan) bool) plan {
	for again := true; again; {
		again = false
		for i := range p {
			smaller := slices.Delete(slices.Clone(p), i, i+1)
			if fails(smaller) {
				p, again = smaller, true
				break
			}
		}
	}
	return p
}
