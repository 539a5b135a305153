package dashboard

import (
	"strings"
	"testing"
)

// The page of a running run says why a scheduler has given it its number of machines, as `tierml why` does. The page of an ended run does
// not.
func TestPageShowsGrants(t *testing.T) {
	const why = "2 of 8 slots: b arrived <later>"
	root := t.TempDir()
	story := promising(t)
	hold(t, write(t, root, "demo-1", story[:len(story)/2]))
	write(t, root, "demo-2", story)
	b, server := boardWith(t, root, clockOf(story[:len(story)/2]), func() Manager {
		return Manager{Granted: map[string]string{"demo-1": why, "demo-2": why}}
	})
	await(t, b, 2)
	const shown = "Why this many machines: 2 of 8 slots: b arrived &lt;later&gt;"
	for run, want := range map[string]bool{"demo-1": true, "demo-2": false} {
		if got := strings.Contains(get(t, server, "/runs/"+run, 200), shown); got != want {
			t.Errorf("the page of %s says why: %v", run, got)
		}
	}
}
