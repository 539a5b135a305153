package program

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/program/mirror"
)

// want makes a save due.
func (s *supervisor) want(set uint64, now time.Time) {
	if s.state == "" || s.due && set == 0 {
		return
	}
	s.due, s.set = true, max(s.set, set)
	if set == 0 {
		set = uint64(now.UnixMilli()) // it only has to increase
	}
	s.request = max(s.request, set)
}

// mirrored begins a save if one is due and none is in progress.
func (s *supervisor) mirrored(now time.Time) {
	if s.state == "" {
		return
	}
	s.mirror.Watch()
	if s.ends {
		if s.end.save && s.saving == nil && now.Sub(s.ahead) > aheadEvery {
			s.begin(func(ctx context.Context) Event {
				_, _ = s.mirror.Send(ctx, mirror.Selection{Open: s.writing}) // the last save reports failures
				return nil
			})
		}
		return
	}
	if !s.next.IsZero() && !now.Before(s.next) {
		s.want(0, now)
		s.next = now.Add(s.m.config.Spec.Every)
	}
	s.overdue(now)
	if s.set > 0 && s.set <= s.sent { // saving again would push the previous round out of the store, which may be the newest that all ranks have
		s.due, s.set = false, 0
	}
	if !s.due || s.saving != nil {
		return
	}
	if !s.ready() {
		return
	}
	set := s.set
	s.due, s.set = false, 0
	s.begin(func(ctx context.Context) Event {
		e, _ := s.saveOnce(ctx, mirror.Selection{Open: s.writing}, set)
		return e
	})
}

// lateAfter is the number of intervals without a save after which it is reported.
const lateAfter = 3

// overdue reports once that regular saves fail: an eviction would undo more than the job permits.
func (s *supervisor) overdue(now time.Time) {
	if s.next.IsZero() || s.late || now.Sub(s.safe) <= lateAfter*s.m.config.Spec.Every {
		return
	}
	s.late = true
	reason := "the last attempt failed"
	switch {
	case s.saving != nil:
		reason = "one is still being sent: keep less in the state, or save less often"
	case s.due:
		reason = "the program has not come to the end of its step, where it takes snapshots"
	}
	s.report(SaveFailed{Of: s.of(), Reason: fmt.Sprintf("the newest save is %.0f s old, more than %d times state.every; %s", now.Sub(s.safe).Seconds(), lateAfter, reason)})
}

// ready reports whether there is something to save. A program that takes snapshots gets a request for one, which it takes at its next step, and
// on all ranks at the same one; others are saved as they are.
func (s *supervisor) ready() bool {
	k, keeps := readKept(s.path("kept"))
	if !keeps || k.Round >= s.request {
		return true
	}
	if s.written < s.request {
		s.written = s.request
		if err := replace(s.path("save"), []byte(strconv.FormatUint(s.request, 10)+"\n")); err != nil {
			s.m.config.Log.Warn("ask for a snapshot", "err", err)
		}
	}
	return false
}

// snapshot finds the step of the snapshot being saved: the newest of the Python package's.
func snapshot(entries []mirror.Entry) (step int64, ok bool) {
	for _, e := range entries {
		if name, found := strings.CutPrefix(e.Path, "tierml-"); e.Dir && found {
			if n, err := strconv.ParseInt(name, 10, 64); err == nil {
				step, ok = max(step, n), true
			}
		}
	}
	return step, ok
}

// begin saves concurrently with the program. The result arrives on the channel.
func (s *supervisor) begin(save func(context.Context) Event) {
	ctx, cancel := context.WithCancel(s.all)
	result := make(chan Event, 1)
	s.saving, s.stopSaving = result, cancel
	go func() {
		defer cancel()
		result <- save(ctx)
	}()
}

// finished handles the result of a save.
func (s *supervisor) finished(e Event) {
	s.saving, s.stopSaving, s.ahead = nil, nil, time.Now()
	if e != nil {
		s.report(e)
	}
	if saved, ok := e.(Saved); ok {
		s.safe, s.late, s.sent = s.ahead.Add(-saved.Took), false, max(s.sent, saved.Round)
	}
}

// saveOnce saves a generation.
func (s *supervisor) saveOnce(ctx context.Context, what mirror.Selection, set uint64) (Event, error) {
	began := time.Now()
	now, _ := s.progress.get()
	what.Step = now.Step
	what.StepOf, what.Round = snapshot, set
	saved, err := s.mirror.Save(ctx, what)
	if err != nil {
		reason := err.Error()
		if full(err, "") {
			reason += "; " + s.m.disk()
		}
		return SaveFailed{Of: s.of(), Round: set, Reason: reason, Final: what.Last, TakenOver: errors.Is(err, mirror.ErrTakenOver)}, err
	}
	return Saved{Of: s.of(), Manifest: saved.Manifest, Digest: saved.Digest, Round: set, Step: saved.Step, Bytes: saved.Bytes, Sent: saved.Sent,
		Took: time.Since(began), Final: what.Last, Left: saved.Left, Foreign: saved.Foreign}, nil
}

// saveLast saves the program's final state, before the deadline if there is one, which may be set during the save. It waits for an
// unavailable store.
func (s *supervisor) saveLast(half func(string) bool) (left, foreign []string) {
	if s.saving != nil {
		if s.ends && !s.end.deadline.IsZero() {
			s.stopSaving() // what has been sent need not be sent again
		}
		s.finished(<-s.saving)
	}
	s.begin(func(ctx context.Context) (e Event) {
		_ = s.patiently(ctx, ofHost, func() (err error) { // the event reports it
			e, err = s.saveOnce(ctx, mirror.Selection{Unfinished: half, Last: true}, 0)
			return err
		})
		return e
	})
	var late bool
	var until <-chan time.Time
	for s.saving != nil {
		if e, ends := s.wanted(); until == nil && !late && ends && !e.deadline.IsZero() {
			timer := time.NewTimer(time.Until(e.deadline.Add(-margin / 4)))
			defer timer.Stop()
			until = timer.C
		}
		select {
		case e := <-s.saving:
			if failed, ok := e.(SaveFailed); ok && late {
				failed.Reason = "the deadline came before everything was sent; the state before counts"
				e = failed
			}
			if saved, ok := e.(Saved); ok {
				left, foreign = saved.Left, saved.Foreign
			}
			s.finished(e)
		case <-until:
			until, late = nil, true
			s.stopSaving()
		case <-s.wake: // possibly a deadline
		}
	}
	return left, foreign
}
