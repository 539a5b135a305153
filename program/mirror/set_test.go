package mirror

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Ranks whose controller was lost end and save separately. A state that all have saved is one set, and one that only some have is none:
// every rank of the next attempt restores the same.
func TestRanksThatSaveApartAreOneSet(t *testing.T) {
	for _, c := range []struct {
		last  []int // the ranks that save when they end
		named bool  // the round before is in the journal
		ranks int   // of the next attempt
		want  string
	}{
		{[]int{0, 1}, true, 2, "last last"}, {[]int{0, 1}, false, 2, "last last"}, {[]int{0}, true, 2, "round round"}, {[]int{1}, true, 2, "round round"},
		{nil, true, 2, "round round"}, {nil, false, 2, "round round"}, {[]int{1}, false, 2, "round round"},
		{[]int{0, 1}, false, 3, "last last none"}, {[]int{0, 1}, true, 1, "last"},
	} {
		store := t.TempDir()
		open := func(rank, ranks int, attempt uint64) *Mirror {
			key := func(n int) string { return fmt.Sprintf("rank-%d", n) }
			m, err := Open(t.Context(), Config{Store: store, Key: key(rank), Attempt: attempt, Dir: t.TempDir(), Rank: rank, Ranks: ranks, KeyOf: key})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(m.Close)
			return m
		}
		save := func(m *Mirror, what string, of Selection) Saved {
			if err := os.WriteFile(filepath.Join(m.config.Dir, "state"), []byte(what), 0o600); err != nil {
				t.Fatal(err)
			}
			saved, err := m.Save(t.Context(), of)
			if err != nil {
				t.Fatal(err)
			}
			return saved
		}
		before := []*Mirror{open(0, 2, 4), open(1, 2, 4)}
		var round [3]Saved
		for rank, m := range before {
			round[rank] = save(m, "round", Selection{Round: 7})
		}
		for _, rank := range c.last {
			save(before[rank], "last", Selection{Last: true})
		}
		got := ""
		for rank := range c.ranks {
			next := open(rank, c.ranks, 5)
			if !c.named {
				round[rank] = Saved{}
			}
			manifest, note, err := next.RestoreSet(t.Context(), round[rank].Manifest, round[rank].Digest)
			text, _ := os.ReadFile(filepath.Join(next.config.Dir, "state"))
			if manifest == nil {
				text = []byte("none")
			}
			if got += " " + string(text); err != nil || (note != "") != (manifest != nil && manifest.Name() != round[rank].Manifest) {
				t.Errorf("%+v: rank %d restores %q, %q: %v", c, rank, text, note, err)
			}
			save(next, "next", Selection{Round: 8}) // before the others have begun
		}
		if got[1:] != c.want {
			t.Errorf("%+v: ranks restore%s", c, got)
		}
	}
}
