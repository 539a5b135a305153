package mirror

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A file that is replaced by renaming faster than it is sent is still saved: each saved version is whole.
func TestReplacedFiles(t *testing.T) {
	store, version := t.TempDir(), 0
	m, dir := open(t, store, 1)
	replace := func() map[string]bool { // is called before and after files are read
		version++
		put(t, dir, "busy.tmp", fmt.Appendf(nil, "version %4d", version))
		if err := os.Rename(filepath.Join(dir, "busy.tmp"), filepath.Join(dir, "busy")); err != nil {
			t.Error(err)
		}
		return nil
	}
	replace()
	save(t, m, Selection{Open: replace})
	before := version
	saved := save(t, m, Selection{Open: replace})
	if got := m.Latest().Files; saved.Left != nil || len(got) != 1 || got[0].Size != 12 {
		t.Fatalf("%+v %+v", saved, got)
	}
	next, to := open(t, store, 2)
	if _, err := next.Restore(t.Context(), saved.Manifest, saved.Digest); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(to, "busy"))
	var n int
	if _, scanned := fmt.Sscanf(string(text), "version %d", &n); err != nil || scanned != nil || n < before || n > version {
		t.Errorf("restored %q, %v of versions %d to %d", text, err, before, version)
	}
}
