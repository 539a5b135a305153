package jobmanager

import (
	"testing"
	"time"

	"github.com/tierml/tierml/jobmanager/call"
)

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		f     facts
		want  call.State
		start bool
	}{
		"new":                                    {facts{}, call.Queued, true},
		"running":                                {facts{held: true, began: true}, call.Running, false},
		"being prepared":                         {facts{held: true}, call.Running, false},
		"wanted to end":                          {facts{held: true, began: true, stop: true}, call.Stopping, false},
		"finished":                               {facts{began: true, outcome: "finished"}, call.Finished, false},
		"finished before the wish was heard":     {facts{began: true, outcome: "finished", stop: true}, call.Finished, false},
		"failed":                                 {facts{began: true, outcome: "failed"}, call.Failed, false},
		"stopped":                                {facts{began: true, outcome: "interrupted", why: "tierml stop", stop: true}, call.Stopped, false},
		"out of budget":                          {facts{began: true, outcome: "interrupted", why: "the budget of $1 is used up"}, call.Stopped, false},
		"Ctrl-C at its own terminal":             {facts{began: true, outcome: "interrupted", why: "Ctrl-C"}, call.Stopped, false},
		"the host went down":                     {facts{began: true, outcome: "interrupted", why: "SIGTERM"}, call.Queued, true},
		"the host went down while it stopped":    {facts{began: true, outcome: "interrupted", why: "SIGTERM", stop: true}, call.Stopped, false},
		"killed":                                 {facts{began: true}, call.Queued, true},
		"killed before its journal":              {facts{fruitless: 1}, call.Queued, true},
		"killed too often":                       {facts{began: true, fruitless: patience}, call.Failed, false},
		"killed while it ended machines":         {facts{began: true, stop: true}, call.Stopping, true},
		"stopped before it began":                {facts{stop: true}, call.Stopped, false},
		"refused":                                {facts{refused: "no such application"}, call.Failed, false},
		"its host's disk was full":               {facts{began: true, host: "the disk is full", fruitless: patience - 1}, call.Queued, true},
		"its host ended it":                      {facts{began: true, outcome: "failed", host: "the disk is full"}, call.Queued, true},
		"its store was away for days":            {facts{began: true, host: "no answer", outlasted: true}, call.Failed, false},
		"its host ended it after it finished":    {facts{began: true, outcome: "finished", host: "the disk is full"}, call.Finished, false},
		"its host ended it while it was to end":  {facts{began: true, stop: true, host: "the disk is full"}, call.Stopping, true},
		"its output could not be written":        {facts{began: true, outcome: "interrupted", why: "its output cannot be written: no space"}, call.Queued, true},
		"its store was away after a reboot":      {facts{began: true, outcome: "interrupted", why: "SIGTERM", host: "no answer", outlasted: true}, call.Failed, false},
		"wanted again":                           {facts{began: true, outcome: "interrupted", why: "tierml stop", again: true}, call.Queued, true},
		"wanted again after it failed":           {facts{began: true, outcome: "failed", again: true, fruitless: patience}, call.Queued, true},
		"wanted again, then not, while it waits": {facts{began: true, outcome: "interrupted", again: true, stop: true}, call.Stopped, false},
	} {
		if got := judge(c.f); got.state != c.want || got.start != c.start {
			t.Errorf("%s: %+v, want %s, start %v", name, got, c.want, c.start)
		}
	}
}

// Whatever the facts, a job has either ended or is acted on; and an ended job is not started.
func TestEveryUnfinishedJobIsActedOn(t *testing.T) {
	for bits := range 1 << 5 {
		for _, outcome := range []string{"", "finished", "failed", "interrupted"} {
			for _, why := range []string{"", "SIGTERM", "tierml stop"} {
				for n := range 4 * (patience + 1) {
					fruitless := n / 4
					f := facts{stop: bits&1 > 0, again: bits&2 > 0, held: bits&4 > 0, began: bits&8 > 0 || outcome != "", outcome: outcome,
						why: why, fruitless: fruitless,
						host: []string{"", "the disk is full"}[n&1], outlasted: n&2 > 0}
					if bits&16 > 0 {
						f.refused = "no"
					}
					v := judge(f)
					if v.state.Over() == (f.held || v.start) {
						t.Fatalf("%+v: %+v", f, v)
					}
				}
			}
		}
	}
}

func TestBackOff(t *testing.T) {
	last := time.Duration(-1)
	for n := range 100 {
		d := backOff(n)
		if d < last || d > time.Minute {
			t.Errorf("after %d: %v", n, d)
		}
		last = d
	}
}
