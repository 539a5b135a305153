// Package loglimit bounds how much others can make a process log: some lines a minute, and the number of the rest. It does not know what
// the lines are about.
package loglimit

import (
	"log/slog"
	"sync"
	"time"
)

// LinesAMinute is how many lines a Limit permits.
const LinesAMinute = 30

// Limit bounds the lines about one kind of event. The zero value is ready. It may be used by several goroutines.
type Limit struct {
	mu           sync.Mutex
	minute       time.Time
	said, unsaid int
}

// note reports whether a line may be written now, and how many were suppressed since the last one.
func (l *Limit) note(now time.Time) (say bool, unsaid int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.minute) >= time.Minute || now.Before(l.minute) {
		l.minute, l.said = now, 0
	}
	if l.said >= LinesAMinute {
		l.unsaid++
		return false, 0
	}
	l.said++
	unsaid, l.unsaid = l.unsaid, 0
	return true, unsaid
}

// Warn writes a line, if permitted, with the number of suppressed ones.
func (l *Limit) Warn(log *slog.Logger, message string, args ...any) {
	l.WarnAt(time.Now(), log, message, args...)
}

// WarnAt is Warn by another clock.
func (l *Limit) WarnAt(now time.Time, log *slog.Logger, message string, args ...any) {
	say, unsaid := l.note(now)
	if !say {
		return
	}
	if unsaid > 0 {
		args = append(args, "others_not_listed", unsaid)
	}
	log.Warn(message, args...)
}
