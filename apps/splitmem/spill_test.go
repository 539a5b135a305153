package splitmem

import (
	"io"
	"testing"

	"github.com/tierml/tierml/ps"
)

// Data that fits is kept in memory, the rest elsewhere, complete, and all can be read.
func TestSpill(t *testing.T) {
	elsewhere := Files{}
	s := NewSpill(10, elsewhere.Create, elsewhere.Open)
	contents := []string{"seven", "", "eleven bytes", "six six", "five5"}
	for id, content := range contents {
		w, err := s.Create(ps.Split(id))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{content[:len(content)/2], content[len(content)/2:]} {
			if _, err := io.WriteString(w, part); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for id, content := range contents {
		r, err := s.Open(ps.Split(id))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != content {
			t.Errorf("split %d: %q, %v", id, got, err)
		}
		if want := id == 2 || id == 3; (elsewhere[ps.Split(id)] != nil) != want {
			t.Errorf("split %d elsewhere: %v, want %v", id, !want, want)
		}
	}
}
