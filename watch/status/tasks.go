package status

import (
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// tasks are how long the tasks of an array take. Machines finish tasks in batches, so that the time between two ends says nothing.
type tasks struct {
	since map[string]time.Time     // the starts of running attempts
	took  map[string]time.Duration // by tasks that are not done, in earlier attempts
	done  int                      // including dropped ones
	sum   time.Duration            // that those took
}

func (t *tasks) take(e journal.Entry) {
	if t.took == nil {
		t.since, t.took = map[string]time.Time{}, map[string]time.Duration{}
	}
	if since, runs := t.since[e.Program]; runs && e.Kind != journal.ProgramStep {
		t.took[e.Program] += e.T.Sub(since)
		delete(t.since, e.Program)
	}
	switch {
	case e.Kind == journal.ProgramStart:
		t.since[e.Program] = e.T
	case e.Kind == journal.ProgramEnd && e.Outcome == journal.Finished, e.Kind == journal.ProgramDropped:
		t.done, t.sum = t.done+1, t.sum+t.took[e.Program]
		delete(t.took, e.Program)
	}
}

// left returns how long the remaining tasks take on as many machines as work now, if each takes the mean; 0 = none has finished yet.
func (t *tasks) left(remaining int64, now time.Time) time.Duration {
	if t.done == 0 {
		return 0
	}
	mean := t.sum / time.Duration(t.done)
	var work, longest time.Duration
	for name, since := range t.since {
		rest := max(mean-t.took[name]-now.Sub(since), 0)
		work, longest = work+rest, max(longest, rest)
		remaining--
	}
	for name, took := range t.took {
		if _, runs := t.since[name]; !runs {
			work += max(mean-took, 0)
			remaining--
		}
	}
	work += time.Duration(max(remaining, 0)) * mean
	return max(work/time.Duration(max(len(t.since), 1)), longest)
}
