package alert

import (
	"sync"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// look is how often a silent run is checked.
const look = 5 * time.Second

// Run watches one run and sends its alerts. A nil Run does nothing.
type Run struct {
	notifier *Notifier
	mu       sync.Mutex
	watch    *Watch
	done     chan struct{}
	over     sync.WaitGroup
}

// Start watches a run until Close, and notifies through a notifier that its owner closes.
func Start(run string, notifier *Notifier) *Run {
	r := &Run{notifier: notifier, watch: NewWatch(run), done: make(chan struct{})}
	r.over.Go(func() {
		tick := time.NewTicker(look)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-r.done:
				return
			case <-tick.C:
				now := time.Now()
				r.mu.Lock()
				if away := now.Sub(last); away > 2*look {
					r.watch.Away(away)
				}
				last = now
				r.notify(r.watch.Tick(now))
				r.mu.Unlock()
			}
		}
	})
	return r
}

// Recall processes a past entry.
func (r *Run) Recall(e journal.Entry) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watch.Recall(e, time.Now())
}

// Feed processes an entry. It does not block.
func (r *Run) Feed(e journal.Entry) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notify(r.watch.Feed(e, time.Now()))
}

func (r *Run) notify(alerts []Alert) {
	for _, a := range alerts {
		r.notifier.Notify(a)
	}
}

// Close stops watching.
func (r *Run) Close() {
	if r == nil {
		return
	}
	close(r.done)
	r.over.Wait()
}
