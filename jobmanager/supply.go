package jobmanager

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sched"
)

// supply is the transient hosts that jobs can share: the present ones, by the journal of the shared hosts, and those that may be bought. If
// the market takes a host or sells none, the present ones count, and a little more: once that is requested, a host is bought as soon as the
// market sells one.
type supply struct {
	sizes map[string]sched.Resources // by machine type
	least sched.Resources            // of a host that may be bought
	most  int                        // hosts at a time
	costs slotPrices

	there   map[string]sched.Resources // by instance; those that stay
	refused bool                       // the market sells no host now
	since   time.Time                  // since when it has refused, or slots have waited; zero = unknown yet
}

// marketPatience is how long slots wait before the market is assumed to refuse, and believed is how long that is assumed.
const (
	marketPatience = 15 * time.Second
	believed       = time.Minute
)

// take processes a line of the shared hosts' journal.
func (s *supply) take(e journal.Entry) {
	s.costs.take(e)
	_, there := s.there[e.Instance]
	switch e.Kind {
	case journal.Launch:
		if pool, err := market.ParsePool(e.Pool); err == nil && e.Tier == "transient" {
			size, known := s.sizes[pool.Type]
			if !known {
				size = s.least
			}
			s.there[e.Instance] = size
			s.refused, s.since = false, time.Time{}
		}
	case journal.Notice:
		if there && e.Deadline != nil {
			s.lose(e.Instance)
		}
	case journal.Evicted, journal.Failed:
		if there {
			s.lose(e.Instance)
		}
	case journal.Terminated, journal.Release: // as it had no slots, or was not worth its price
		delete(s.there, e.Instance)
	case journal.LaunchFailed:
		if e.Tier == "transient" {
			s.refused, s.since = true, time.Time{}
		}
	}
}

func (s *supply) lose(instance string) {
	delete(s.there, instance)
	s.refused, s.since = true, time.Time{}
}

// hosts returns what jobs can share now. Waiting: slots wait for a host. Wish counts as existing even if the market has
// refused, and last is what jobs shared before. The first ones exist, and the others may be bought.
func (s *supply) hosts(now time.Time, waiting bool, wish sched.Resources, last []sched.Host) (all []sched.Host, there int) {
	switch {
	case !s.refused && !waiting:
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = now
	case s.refused && now.Sub(s.since) >= believed:
		s.refused, s.since = false, now
	case !s.refused && now.Sub(s.since) >= marketPatience:
		s.refused, s.since = true, now
	}
	if s.refused && len(s.there) == 0 && len(last) > 0 {
		return last, len(last) // jobs work on their reliable machines, and their slots wait: that is better than pausing them
	}
	for _, id := range slices.Sorted(maps.Keys(s.there)) {
		all = append(all, sched.Host{ID: id, Capacity: s.there[id]})
	}
	there = len(all)
	more, capacity := s.most-there, s.least
	if s.refused {
		more, capacity = min(more, 1), wish
	}
	for i := range more {
		all = append(all, sched.Host{ID: fmt.Sprintf("next-%d", i+1), Capacity: capacity})
	}
	return all, there
}
