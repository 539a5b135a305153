package loglimit

import (
	"testing"
	"time"
)

func TestLimit(t *testing.T) {
	var l Limit
	now := time.Unix(1e9, 0)
	said := 0
	for range 1000 {
		if say, _ := l.note(now); say {
			said++
		}
		now = now.Add(time.Millisecond)
	}
	if said != LinesAMinute {
		t.Errorf("%d lines in a second", said)
	}
	if say, unsaid := l.note(now.Add(time.Minute)); !say || unsaid != 1000-LinesAMinute {
		t.Errorf("a minute later: %v, %d left out", say, unsaid)
	}
	if say, _ := l.note(now.Add(-time.Hour)); !say {
		t.Error("silent for an hour after the clock was set back")
	}
}
