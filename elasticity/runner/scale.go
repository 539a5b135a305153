package runner

import (
	"context"
	"errors"
	"sync"

	"github.com/tierml/tierml/elasticity"
)

// requests are the callers that wait for the controller's answers to scale requests.
type requests struct {
	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan elasticity.Scaled
	over    chan struct{} // closed when the run has ended
}

// begin gives a request its number and the channel for its answers, at most two.
func (q *requests) begin() (uint64, chan elasticity.Scaled) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	answers := make(chan elasticity.Scaled, 2)
	q.waiting[q.last] = answers
	return q.last, answers
}

func (q *requests) end(id uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.waiting, id)
}

func (q *requests) answer(a elasticity.Scaled) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if answers := q.waiting[a.ID]; answers != nil {
		answers <- a
	}
}

// Scale requests other numbers of machines from the controller. Told is called with the accepted numbers and, with wait, again when they
// are reached; the error is why the request is refused or cannot be met. It may be called from any goroutine while Run runs.
func (r *Runner) Scale(ctx context.Context, want elasticity.ScaleWanted, wait bool, told func(elasticity.Scale, bool) error) error {
	id, answers := r.requests.begin()
	defer r.requests.end(id)
	want.ID = id
	select {
	case r.events <- want:
	case <-r.requests.over:
		return errOver
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		select {
		case a := <-answers:
			if a.Err != nil {
				return a.Err
			}
			if err := told(a.Scale, a.Reached); err != nil || a.Reached || !wait {
				return err
			}
		case <-r.requests.over:
			return errOver
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

var errOver = errors.New("the run is over")
