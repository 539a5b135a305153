package journaltest

import (
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/journal"
)

// The story is a well-formed journal and has everything that a demo must show.
func TestStory(t *testing.T) {
	s := New(1)
	seen := map[journal.Kind]int{}
	for i, e := range s.Entries {
		if err := e.Validate(); err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
		if i > 0 && e.T.Before(s.Entries[i-1].T) {
			t.Fatalf("entry %d goes back in time", i)
		}
		seen[e.Kind]++
	}
	for _, k := range journal.Kinds() {
		if seen[k.Kind] == 0 && k.Kind != journal.Charge && k.Kind != journal.Tune && !strings.HasPrefix(string(k.Kind), "program-") { // it trains, and is not tuned
			t.Errorf("the story has no %q", k.Kind)
		}
	}
	for _, m := range s.Machines {
		if m.Ended.IsZero() {
			t.Errorf("machine %s never ends", m.ID)
		}
	}
}
