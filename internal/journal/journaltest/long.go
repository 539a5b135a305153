package journaltest

import (
	"fmt"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// Long returns an unfinished run of this many stories, one after another.
func Long(seed uint64, times int) (entries []journal.Entry) {
	story := New(seed).Entries
	length := story[len(story)-1].T.Sub(story[0].T).Truncate(time.Second) + time.Hour
	for n := range times {
		by := time.Duration(n) * length
		later := func(t *time.Time) *time.Time {
			if t == nil {
				return nil
			}
			moved := t.Add(by)
			return &moved
		}
		for _, e := range story {
			if n > 0 && (e.Kind == journal.Start || e.Kind == journal.Plan) || e.Kind == journal.Done || e.Kind == journal.Charge {
				continue
			}
			e.T, e.At, e.Launched, e.Ended, e.Deadline = e.T.Add(by), later(e.At), later(e.Launched), later(e.Ended), later(e.Deadline)
			if e.Instance != "" {
				e.Instance += fmt.Sprintf("-%d", n)
			}
			if e.Clock > 0 {
				e.Clock += int64(400 * n)
			}
			entries = append(entries, e)
		}
	}
	return entries
}
