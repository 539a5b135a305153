package program

import "time"

const (
	waitsEvery = time.Second
	// waitsShare bounds the time that samples take, to one part in waitsShare.
	waitsShare = 250
)

// waits compares how long a program's threads waited for a processor, while they could run, with how long they ran. Processor time alone cannot
// tell a program that needs two cores from one that has two and needs eight. What threads do after the last sample before they end is missed, so
// that the share counts and not the sum.
type waits struct {
	ran, waited int64         // ns, of sampled threads
	seen        map[int]onCPU // as of the last sample, by thread
	next        time.Time
}

// onCPU is how long a thread has run and waited for a processor since it began, in nanoseconds.
type onCPU struct{ ran, waited int64 }

// due takes a sample if it is time for one.
func (w *waits) due(pid int) {
	began := time.Now()
	if began.Before(w.next) {
		return
	}
	w.sample(pid)
	now := time.Now()
	w.next = now.Add(max(waitsEvery, waitsShare*now.Sub(began)))
}

func (w *waits) add(before, now onCPU) {
	if now.ran < before.ran { // another thread has the number
		before = onCPU{}
	}
	w.ran += now.ran - before.ran
	w.waited += max(0, now.waited-before.waited)
}

// share returns the seconds of waiting per second of running; 0 = unknown.
func (w *waits) share() float64 {
	if w.ran == 0 {
		return 0
	}
	return float64(w.waited) / float64(w.ran)
}
