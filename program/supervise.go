package program

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// tick is the interval at which a running program is checked.
	tick = 100 * time.Millisecond
	// remindEvery is the interval at which processes that missed a signal get it again.
	remindEvery = 500 * time.Millisecond
	// reportEvery is the least time between reports of progress.
	reportEvery = 500 * time.Millisecond
	// aheadEvery is the pause between searches for finished files while a program ends.
	aheadEvery = 300 * time.Millisecond
	// lastMoment is the time before a program's failure in which a written file counts as incomplete.
	lastMoment = time.Second
	// openQuiet is how long a file that was open when the program was killed must have been unchanged to count as complete.
	openQuiet = 10 * time.Second
)

// supervisor monitors a running program, in one goroutine (supervise).
//
// Invariant: when the last state is read, no process of the program is running, so that the state is final.
//
//  1. At each tick or signal progress is reported, and regular saves begin and end next to the program.
//  2. warn: when an end is wanted, the program is given the notice, then SIGTERM; on_notice runs next to it.
//  3. over: it has ended by itself, with all that it started, or it is time to kill it: as late as what is unsent still reaches the store before
//     the deadline (killAt).
//  4. conclude kills what is left, and saves for the last time. Files that it was writing when it was stopped are left out (halfWritten): the
//     version of the save before is worth more than half of a new one.
//
// If the machine disappears before step 4 ends, the newest complete generation stays in the store (mirror.Mirror).
type supervisor struct {
	*attempt
	p, hook *process
	state   string

	end      ending
	ends     bool
	termed   time.Time
	reminded time.Time
	suspects map[string]fs.FileInfo // files that were open for writing at SIGTERM
	note     string

	saving     chan Event // nil = no save in progress
	stopSaving context.CancelFunc
	ahead      time.Time // the last search for finished files
	next       time.Time // the next regular save; zero = none
	safe       time.Time // when the newest save or the program started
	late       bool      // a missing save has been reported
	due        bool      // a save is wanted
	set        uint64    // the set that the save belongs to; 0 = none
	sent       uint64    // the newest set that was saved
	request    uint64    // the snapshot round requested from the program
	written    uint64    // the round in its file

	waits waits

	reportedAt  time.Time
	reported    Reading
	reportedAny bool
}

// supervise monitors the program until it has ended and its state is saved.
func (a *attempt) supervise(p *process) Exited {
	s := &supervisor{attempt: a, p: p, state: a.m.state()}
	s.safe = time.Now()
	if every := a.m.config.Spec.Every; every > 0 && s.state != "" {
		s.next = s.safe.Add(every)
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	ended, gone := p.ended, false
	for {
		select {
		case <-ended:
			ended, gone = nil, true
		case <-a.wake:
		case <-ticker.C:
		case r := <-s.saving:
			s.finished(r)
		}
		now := time.Now()
		s.progressed(now, false)
		s.writePeers()
		if p.within == nil && !gone {
			s.waits.due(p.cmd.Process.Pid)
		}
		s.warn(now)
		if s.over(now, gone) {
			return s.conclude(gone)
		}
		s.mirrored(now)
	}
}

// progressed reports the program's progress.
func (s *supervisor) progressed(now time.Time, last bool) {
	s.progress.files(s.path("progress"), s.path("rungs"))
	if f := s.m.config.Spec.File; f != "" {
		s.progress.files(filepath.Join(s.m.work(), filepath.FromSlash(f)), "")
	}
	for _, r := range s.progress.atRungs() {
		s.advanced(r, now)
	}
	if r, any := s.progress.get(); any && (last || now.Sub(s.reportedAt) >= reportEvery) {
		s.advanced(r, now)
	}
}

// advanced reports a reading, unless it was the last one reported.
func (s *supervisor) advanced(r Reading, now time.Time) {
	if s.reportedAny && (r == s.reported || r.Step == s.reported.Step && math.IsNaN(r.Loss) && math.IsNaN(s.reported.Loss)) {
		return
	}
	s.reportedAt, s.reported, s.reportedAny = now, r, true
	s.report(Advanced{Of: s.of(), Reading: r})
}

// warn passes a request on: first the notice, then the signal.
func (s *supervisor) warn(now time.Time) {
	s.mu.Lock()
	early, asked, round := s.early, s.asked, s.round
	s.early, s.asked, s.round = false, false, 0
	s.mu.Unlock()
	if asked {
		s.want(round, now)
	}
	if early {
		s.publish(newNotice(rebalance, time.Time{}), now)
	}
	e, ends := s.wanted()
	if !ends {
		return
	}
	changed := s.ends && e.kind != s.end.kind
	s.end = e
	if s.ends && !changed {
		if now.Sub(s.reminded) >= remindEvery {
			s.reminded = now
			s.p.remind()
		}
		return
	}
	deadline := e.deadline
	if deadline.IsZero() {
		deadline = e.kill
	}
	s.publish(newNotice(e.kind, deadline), now)
	if s.ends {
		return
	}
	s.ends, s.termed, s.reminded = true, now, now
	s.output.note("%s: SIGTERM, %.1f seconds before the end", e.kind, max(0, deadline.Sub(now).Seconds()))
	s.terminate()
	if s.m.config.Spec.OnNotice != "" && e.kind == evicted {
		s.callHook()
	}
}

func (s *supervisor) publish(n notice, now time.Time) {
	s.m.notices.set(&n)
	if err := n.write(s.path("notice"), now); err != nil {
		s.m.config.Log.Warn("the notice's file", "err", err)
	}
}

// terminate sends SIGTERM and records the files that the program is writing: if it dies, they stay incomplete.
func (s *supervisor) terminate() {
	if s.state != "" {
		s.p.halt()
		s.suspects = map[string]fs.FileInfo{}
		for name, appends := range s.writing() {
			if info, _ := modified(name); info != nil && !appends {
				s.suspects[name] = info
			}
		}
	}
	s.p.signal(syscall.SIGTERM)
	s.p.proceed()
}

// writing returns the state's files that the program has open for writing.
func (s *supervisor) writing() map[string]bool {
	return openFiles(s.p.members(), s.state)
}

func (s *supervisor) callHook() {
	if err := write(s.path("on_notice"), s.m.config.Spec.OnNotice); err != nil {
		s.output.note("on_notice: %v", err)
		return
	}
	hook, err := launch(s.m.container, s.path("on_notice"), s.m.work(), s.id, s.environment(s.start.Secrets), s.output)
	if err != nil {
		s.output.note("on_notice: %v", err)
		return
	}
	s.hook = hook
}

// hooked reports whether the hook runs. In a container it has no process yet just after the start.
func (s *supervisor) hooked() bool {
	if s.hook == nil {
		return false
	}
	select {
	case <-s.hook.ended:
		return false
	default:
		return true
	}
}

// over reports whether no process of the program may run any more.
func (s *supervisor) over(now time.Time, gone bool) bool {
	if gone && !s.ends {
		if n := len(s.p.members()); n > 0 {
			s.note = fmt.Sprintf("%d processes that the program had started were still running when it ended, and were killed: let it wait for them", n)
		}
		return true
	}
	if !s.ends {
		return false
	}
	if gone && len(s.p.members()) == 0 && !s.hooked() {
		return true
	}
	kill := s.end.kill
	if !s.end.deadline.IsZero() {
		at := killAt(s.termed, s.end.deadline, s.unsent(), s.speed())
		if kill.IsZero() || at.Before(kill) {
			kill = at
		}
	}
	if now.Before(kill) {
		return false
	}
	if grace := now.Sub(s.termed); grace > tick {
		s.note = fmt.Sprintf("the program had not ended %.1f s after SIGTERM, and was killed", grace.Seconds())
	}
	return true
}

func (s *supervisor) unsent() int64 {
	if s.mirror == nil || !s.end.save {
		return 0
	}
	n, err := s.mirror.Unsent()
	if err != nil {
		return 0
	}
	return n
}

func (s *supervisor) speed() float64 {
	if s.mirror == nil {
		return 1
	}
	return s.mirror.Rate()
}

// conclude kills the remaining processes, saves the state for the last time, and returns the exit status.
func (s *supervisor) conclude(gone bool) Exited {
	half := s.halfWritten(gone)
	s.p.finish()
	if s.hook != nil {
		s.hook.finish()
	}
	s.output.end()
	s.progressed(time.Now(), true)
	tail, failed := s.output.last()
	exited := Exited{Of: s.of(), Phase: Running, Asked: s.ends, Tail: tail, Note: s.note}
	exited.Code, exited.Signal = s.p.status()
	exited.CPU, exited.Memory = s.p.used()
	exited.Wait = exited.CPU * s.waits.share()
	switch {
	case exited.Code != 0 && full(failed, tail):
		exited.Note = join(exited.Note, s.m.disk())
	case exited.Code == 137 && !s.ends:
		exited.Note = join(exited.Note, "something killed it: often the system, when memory runs out")
	}
	if exited.Code != 0 && !s.ends {
		half = either(half, justWritten(time.Now()))
	}
	if s.state != "" && (!s.ends || s.end.save) {
		left, foreign := s.saveLast(half)
		if len(left) > 0 {
			exited.Note = join(exited.Note, fmt.Sprintf("half-written and not saved: %s", list(left)))
		}
		if len(foreign) > 0 {
			exited.Note = join(exited.Note, fmt.Sprintf("not saved, as it leads out of the state folder: %s", list(foreign)))
		}
	} else if s.saving != nil {
		s.stopSaving()
		s.finished(<-s.saving)
	}
	if exited.Note != "" {
		s.output.note("%s", exited.Note)
	}
	return exited
}

// halfWritten returns a test for files that the program was writing when it died.
func (s *supervisor) halfWritten(gone bool) func(string) bool {
	if s.state == "" {
		return nil
	}
	half := map[string]bool{}
	if !gone || s.ends {
		s.p.halt() // it is about to be killed
		for name, appends := range s.writing() {
			if _, at := modified(name); !appends && time.Since(at) < openQuiet {
				half[name] = true
			}
		}
	}
	for name, before := range s.suspects {
		if info, at := modified(name); info != nil && info.Size() == before.Size() && at.Equal(before.ModTime()) && s.termed.Sub(at) < openQuiet {
			half[name] = true
		}
	}
	return func(name string) bool { return half[name] }
}

// justWritten returns a test for files written in the moment before the program failed.
func justWritten(now time.Time) func(string) bool {
	return func(name string) bool {
		_, at := modified(name)
		return now.Sub(at) < lastMoment
	}
}

func either(a, b func(string) bool) func(string) bool {
	return func(name string) bool { return a != nil && a(name) || b(name) }
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// list joins the first few names.
func list(names []string) string {
	text := ""
	for i, name := range names {
		if i == 3 {
			return text + fmt.Sprintf(" and %d more", len(names)-3)
		}
		if i > 0 {
			text += ", "
		}
		text += name
	}
	return text
}
