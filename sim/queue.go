package sim

import (
	"time"

	"github.com/tierml/tierml/tiers"
)

// rank orders events of the same instant.
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

// queue holds future events, ordered by time, then rank, then insertion. Times are measured from the start of the
// run.
//
// Machines that are bought together boot, report, answer and end together. So the heap orders moments, each with a list
// of events, rather than single events.
type queue struct {
	heap []*moment
	seq  uint64
	// The moments of the latest insertions: the newest for their time and rank, or nil. If one is dropped from here, a
	// later event for the same time and rank starts a moment of its own, with the same result.
	recent [4]*moment
	oldest int       // index in recent
	spare  []*moment // kept to reuse their memory
}

// moment has the events of one time and rank, in order.
type moment struct {
	at     time.Duration
	rank   rank
	seq    uint64
	events []event
	next   int // index of the first event that has not happened
}

// event is something that happens: it calls do or, if do is nil, delivers a machine's report.
type event struct {
	do     func()
	of     *node
	report tiers.Report
}

// happen runs the event.
func (e *event) happen() {
	if e.do != nil {
		e.do()
		return
	}
	e.of.reportArrives(e.report)
}

func (m *moment) before(o *moment) bool {
	switch {
	case m.at != o.at:
		return m.at < o.at
	case m.rank != o.rank:
		return m.rank < o.rank
	}
	return m.seq < o.seq
}

func (q *queue) push(at time.Duration, r rank, do func()) { q.put(at, r, event{do: do}) }

// put returns the moment to which it has added the event.
func (q *queue) put(at time.Duration, r rank, e event) *moment {
	for _, m := range q.recent {
		if m != nil && m.at == at && m.rank == r {
			m.events = append(m.events, e)
			return m
		}
	}
	m := q.blank()
	q.seq++
	m.at, m.rank, m.seq, m.events = at, r, q.seq, append(m.events, e)
	q.recent[q.oldest] = m
	q.oldest = (q.oldest + 1) % len(q.recent)
	q.heap = append(q.heap, m)
	for i := len(q.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q.heap[i].before(q.heap[parent]) {
			break
		}
		q.heap[i], q.heap[parent] = q.heap[parent], q.heap[i]
		i = parent
	}
	return m
}

// blank returns an empty moment.
func (q *queue) blank() *moment {
	last := len(q.spare) - 1
	if last < 0 {
		return new(moment)
	}
	m := q.spare[last]
	q.spare = q.spare[:last]
	return m
}

// empty reports whether no events are left.
func (q *queue) empty() bool { return len(q.heap) == 0 }

// due returns when the next event happens; the queue must not be empty.
func (q *queue) due() time.Duration { return q.heap[0].at }

// dueBesides returns when the next event happens apart from the only event of a moment at the queue's head; false if
// there is no other.
func (q *queue) dueBesides(m *moment) (at time.Duration, there bool) {
	if q.heap[0] != m || len(m.events) > m.next+1 {
		return q.heap[0].at, true
	}
	for i := 1; i <= 2 && i < len(q.heap); i++ {
		if !there || q.heap[i].at < at {
			at, there = q.heap[i].at, true
		}
	}
	return at, there
}

// pop removes and returns the next event with its time and rank; the queue must not be empty.
func (q *queue) pop() (at time.Duration, r rank, e event) {
	m := q.heap[0]
	at, r, e = m.at, m.rank, m.events[m.next]
	if m.next++; m.next == len(m.events) {
		q.dropFirst()
	}
	return at, r, e
}

// dropFirst removes a moment whose events have happened.
func (q *queue) dropFirst() {
	m, last := q.heap[0], len(q.heap)-1
	for i := range q.recent {
		if q.recent[i] == m {
			q.recent[i] = nil
		}
	}
	clear(m.events) // releases functions and reports
	m.events, m.next = m.events[:0], 0
	q.spare = append(q.spare, m)
	q.heap[0] = q.heap[last]
	q.heap[last] = nil
	q.heap = q.heap[:last]
	for i := 0; ; {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < last && q.heap[child].before(q.heap[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		q.heap[i], q.heap[least] = q.heap[least], q.heap[i]
		i = least
	}
}
