package step

import (
	"testing"
	"time"
)

// An absence advances the waking clock by at most a beat, and setting the clock back does not change it.
func TestAwake(t *testing.T) {
	a := NewAwake(3 * time.Second)
	at := time.Unix(1_000_000, 0)
	step := func(d time.Duration) {
		at = at.Add(d)
		a.Step(at)
	}
	step(0)
	began := a.Now()
	for range 4 {
		step(500 * time.Millisecond)
	}
	if !a.Over(began, 2*time.Second) || a.Over(began, 2*time.Second+1) {
		t.Errorf("always awake for 2 s: %v", a.Now().Sub(began))
	}
	step(-time.Hour)
	if !a.Over(began, 2*time.Second) || a.Over(began, 2*time.Second+1) {
		t.Errorf("set back: %v", a.Now().Sub(began))
	}
	step(12 * time.Second)
	if a.Over(began, 1) || !a.Due(began, 3*time.Second).Equal(at.Add(3*time.Second)) {
		t.Errorf("after an absence waiting begins anew: a patience is over in %v", a.Due(began, 3*time.Second).Sub(at))
	}
	if got := a.Due(began, time.Hour).Sub(at); got != time.Hour-2500*time.Millisecond {
		t.Errorf("what takes an hour does not begin anew: it is over in %v", got)
	}
	for range 11 { // absent all the time: in the end machines are judged
		step(2 * time.Second)
	}
	if !a.Over(began, 3*time.Second) {
		t.Errorf("absent again and again: %v", a.Now().Sub(began))
	}
	for over := false; !over; over = a.Over(began, 30*time.Second) {
		if step(2 * time.Second); a.Now().Sub(began) > 40*time.Second {
			t.Fatal("absent again and again: a wait of ten times the patience never ends")
		}
	}
	if due := a.Due(a.Now(), time.Second); !due.Equal(at.Add(time.Second)) {
		t.Errorf("due in %v", due.Sub(at))
	}
}
