package elasticity

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// The fault injector for launches: a run is rehearsed, every point is counted at which a controller could die around a purchase or an end,
// and then the same run is made once for each. The next controller knows only the journal.

// crashStory has launches of every kind: complete, partly filled, refused, answered late, in another pool, instead of machines that were
// taken or broke, one whose machines die before they call, and the end of all.
const crashStory = "1s few 1s; 2500ms kill 0.4; 3s switch; 3s slow-answer 1s; 4s evict-some 0.7 800ms; 5s no-capacity 500ms; " +
	"5500ms kill-reliable 0; 6500ms stillborn 1s; 7s kill-some 0.5; 8s switch"

func crashShape() shape {
	s := plain()
	s.partitions, s.splits, s.transient, s.clocks, s.saveEvery = 2, 4, 3, 100, 3*time.Second
	return s
}

// crashPoint reports whether a controller that dies here may have bought or ended something unrecorded, or the reverse. Once the end is in
// the journal the run has ended and gets no successor.
func crashPoint(a Action, after bool) bool {
	switch a := a.(type) {
	case Launch, Terminate:
		return true
	case Record:
		return !(after && a.Entry.Kind == journal.Done) && slices.Contains([]journal.Kind{journal.Intent, journal.Launch, journal.LaunchFailed, journal.Notice, journal.Release,
			journal.Switch, journal.Evicted, journal.Failed, journal.Terminated, journal.Leave, journal.TakeOver, journal.Done}, a.Entry.Kind)
	}
	return false
}

// crashing plays the story, with a controller that dies at points with these numbers, counted over all its lives, and returns the number of
// points.
func crashing(seed uint64, gone, hidden time.Duration, at ...int) (w *world, points int, err error) {
	return crashingIn(crashShape(), seed, gone, hidden, at...)
}

func crashingIn(s shape, seed uint64, gone, hidden time.Duration, at ...int) (w *world, points int, err error) {
	p, err := parsePlan(crashStory)
	if err != nil {
		return nil, 0, err
	}
	w = newWorld(seed, s)
	w.cloud.hidden = hidden
	w.crash = func(a Action, after bool) time.Duration {
		if !crashPoint(a, after) {
			return 0
		}
		points++
		if slices.Contains(at, points) {
			return gone
		}
		return 0
	}
	w.play(p)
	if err = w.run(); err == nil {
		err = w.checkPurchases()
	}
	if err == nil {
		err = w.check("finished")
	}
	return w, points, err
}

// checkPurchases: never a second machine for one intent, never an unaccounted one.
func (w *world) checkPurchases() error {
	bought := map[string]int{}
	for _, n := range w.order {
		bought[n.instance.Token]++
		if n.instance.State != provisioner.Terminated {
			return fmt.Errorf("%s is forgotten: it runs on after the end", n.id)
		}
	}
	intents := map[string]int{}
	written := map[ps.ServerID]journal.Entry{}
	for _, e := range w.entries {
		if e.Kind == journal.Intent {
			intents[e.Token] += e.Count
		}
		if e.Kind == journal.Launch {
			written[ps.ServerID(e.Instance)] = e
		}
	}
	for _, n := range w.order { // in the pool where it really is, at that pool's bid
		if e, ok := written[n.id]; ok && (e.Pool != n.instance.Pool.String() || e.Bid != fleet.BidText(n.instance.Pool, n.instance.Bid)) {
			return fmt.Errorf("%s of %s at %s is written down as one of %s at %s", n.id, n.instance.Pool, n.instance.Bid, e.Pool, e.Bid)
		}
	}
	for token, n := range bought {
		if n > intents[token] {
			return fmt.Errorf("%d machines were bought by %s, which asked for %d", n, token, intents[token])
		}
	}
	return nil
}

// However long the controller is absent, and however late the provider lists machines: at every single point.
func TestCrashAtEveryStepOfALaunch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ gone, hidden time.Duration }{
		{20 * time.Millisecond, 700 * time.Millisecond}, {1500 * time.Millisecond, 0}, {4 * time.Second, 2 * time.Second},
	} {
		_, points, err := crashing(1, c.gone, c.hidden)
		if err != nil {
			t.Fatal(err)
		}
		if points < 100 {
			t.Errorf("only %d points: the story has lost some of its launches", points)
		}
		t.Logf("gone %v, listed after %v: %d points", c.gone, c.hidden, points)
		for at := 1; at <= points; at++ {
			if _, _, err := crashing(1, c.gone, c.hidden, at); err != nil {
				t.Fatalf("gone for %v, listed after %v, point %d: %v", c.gone, c.hidden, at, err)
			}
		}
	}
}

// The same if the provider chooses among three pools for each purchase: the repeated request names all, with their bids, and its machines
// are where the provider has put them.
func TestCrashAtEveryStepOfAFleet(t *testing.T) {
	t.Parallel()
	s := crashShape()
	s.choice, s.transient = true, 5
	for _, c := range []struct{ gone, hidden time.Duration }{{20 * time.Millisecond, 700 * time.Millisecond}, {4 * time.Second, 2 * time.Second}} {
		w, points, err := crashingIn(s, 1, c.gone, c.hidden)
		if err != nil {
			t.Fatal(err)
		}
		pools, partly := map[string]bool{}, 0
		for _, e := range w.entries {
			if e.Kind == journal.Launch && e.Tier == string(tiers.Transient) {
				pools[e.Pool] = true
			}
			if e.Kind == journal.LaunchFailed && e.Pool == poolC.String() && len(e.Or) == 0 {
				partly++
			}
		}
		if points < 90 || len(pools) < 3 || partly == 0 {
			t.Errorf("the story has %d points, machines of %v, and %d fleets of which one pool had too few", points, pools, partly)
		}
		for at := 1; at <= points; at++ {
			if _, _, err := crashingIn(s, 1, c.gone, c.hidden, at); err != nil {
				t.Fatalf("gone for %v, listed after %v, point %d: %v", c.gone, c.hidden, at, err)
			}
		}
	}
}

// It dies again while it takes over the run: at each of the next points.
func TestCrashDuringAdoption(t *testing.T) {
	t.Parallel()
	_, points, err := crashing(2, 50*time.Millisecond, 300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for at := 1; at <= points; at += 7 {
		for next := 1; next <= 4; next++ {
			if _, _, err := crashing(2, 50*time.Millisecond, 300*time.Millisecond, at, at+next); err != nil {
				t.Fatalf("points %d and %d: %v", at, at+next, err)
			}
		}
	}
}
