package sim

import "time"

// rank orders what happens at the same instant.
type rank uint8

const (
	prices rank = iota
	notices
	losses
	arrivals
	reports
	answers
	wakeUps
)

// queue holds what will happen: by time, then rank, then the order in which it was put in. Times are lengths since
// the start of the run.
type queue struct {
	heap []event
	seq  uint64
}

type event struct {
	at   time.Duration
	rank rank
	seq  uint64
	do   func()
}

func (e *event) before(o *event) bool {
	switch {
	case e.at != o.at:
		return e.at < o.at
	case e.rank != o.rank:
		return e.rank < o.rank
	}
	return e.seq < o.seq
}

func (q *queue) push(at time.Duration, r rank, do func()) {
	q.seq++
	q.heap = append(q.heap, event{at, r, q.seq, do})
	for i := len(q.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q.heap[i].before(&q.heap[parent]) {
			break
		}
		q.heap[i], q.heap[parent] = q.heap[parent], q.heap[i]
		i = parent
	}
}

// pop takes out the next event; the queue must not be empty.
func (q *queue) pop() event {
	first, last := q.heap[0], len(q.heap)-1
	q.heap[0] = q.heap[last]
	q.heap[last] = event{} // lets go of its function
	q.heap = q.heap[:last]
	for i := 0; ; {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < last && q.heap[child].before(&q.heap[least]) {
				least = child
			}
		}
		if least == i {
			return first
		}
		q.heap[i], q.heap[least] = q.heap[least], q.heap[i]
		i = least
	}
}
