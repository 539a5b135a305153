package status

import (
	"encoding/json"
	"testing"

	"github.com/tierml/tierml/internal/journal"
)

// A run without work in progress waits, and says what for; so does a gang while a machine is missing.
func TestWaiting(t *testing.T) {
	type step struct {
		entry journal.Entry
		state string
		why   string
	}
	on := func(kind journal.Kind, machine string) journal.Entry {
		return journal.Entry{Kind: kind, Instance: machine}
	}
	rank := func(kind journal.Kind, name, outcome string) journal.Entry {
		e := journal.Entry{Kind: kind, Outcome: outcome}
		e.Program = name
		return e
	}
	ready := []step{
		{journal.Entry{Kind: journal.Plan, Why: "no pool can be bought from now", Details: json.RawMessage(`{"pools": [{"why": "its price is above the bid"}]}`)},
			Waiting, "no machine: no pool can be bought from now: its price is above the bid"},
		{journal.Entry{Kind: journal.LaunchFailed, Why: "no capacity"}, Waiting, "no machine: no capacity"},
		{on(journal.Launch, "i-1"), Waiting, "1 machine is starting"},
		{on(journal.Launch, "i-2"), Waiting, "2 machines are starting"},
	}
	for name, c := range map[string]struct {
		job   string
		steps []step
	}{
		"gang": {`{"want": {"machines": 2}, "program": {}}`, []step{
			{on(journal.Join, "i-1"), Waiting, "1 of 2 machines are there, 1 starting"},
			{on(journal.Join, "i-2"), Waiting, "its machines prepare the program"},
			{rank(journal.ProgramStart, "rank-0", ""), Running, ""},
			{rank(journal.ProgramStart, "rank-1", ""), Running, ""},
			{rank(journal.ProgramEnd, "rank-0", journal.Lost), Running, ""},
			{rank(journal.ProgramEnd, "rank-1", journal.Lost), Waiting, "its machines prepare the program"},
			{on(journal.Evicted, "i-1"), Waiting, "1 of 2 machines are there"},
			{on(journal.Launch, "i-3"), Waiting, "1 of 2 machines are there, 1 starting"},
			{on(journal.Join, "i-3"), Waiting, "its machines prepare the program"},
			{rank(journal.ProgramStart, "rank-0", ""), Running, ""},
			{rank(journal.ProgramEnd, "rank-0", journal.Finished), Running, ""},
			{journal.Entry{Kind: journal.Done, Outcome: journal.Finished, Why: "it is done"}, journal.Finished, "it is done"},
		}},
		"array": {`{"want": {"machines": 2}, "program": {"tasks": 3}}`, []step{
			{on(journal.Join, "i-1"), Running, ""},
			{on(journal.Evicted, "i-1"), Waiting, "1 machine is starting"},
			{on(journal.Evicted, "i-2"), Waiting, "no machine"},
		}},
		"training": {`{"want": {"machines": 2}}`, []step{
			{on(journal.Join, "i-1"), Running, ""},
			{on(journal.Leave, "i-1"), Running, ""}, // it saves its work
			{journal.Entry{Kind: journal.Budget, To: journal.Paused, Why: "too dear"}, Paused, "paused: too dear"},
			{on(journal.Terminated, "i-1"), Paused, "paused: too dear"},
			{journal.Entry{Kind: journal.Budget, To: journal.GoesOn}, Waiting, "1 machine is starting"},
		}},
	} {
		s := New()
		s.Feed(journal.Entry{Kind: journal.Start, Details: json.RawMessage(c.job)})
		for i, step := range append(ready[:len(ready):len(ready)], c.steps...) {
			s.Feed(step.entry)
			if state, why := s.State(true); state != step.state || why != step.why {
				t.Errorf("%s, step %d (%s): %s, %q; want %s, %q", name, i, step.entry.Kind, state, why, step.state, step.why)
			}
		}
		if state, _ := s.State(false); s.Outcome == "" && state != Killed {
			t.Errorf("%s without its process is %s", name, state)
		}
	}
}
