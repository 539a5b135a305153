package main

import (
	"slices"
	"testing"
	"time"
)

// A plan follows from its seed, in order of time, and has every kind of fault that is wanted.
func TestDraw(t *testing.T) {
	o := options{length: 15 * time.Minute, faults: 200, seed: 7, without: []string{"drop"}}
	p := draw(o)
	if p.String() != draw(o).String() || len(p) != o.faults {
		t.Fatal("a seed does not repeat its plan")
	}
	seen := map[string]bool{}
	for i, f := range p {
		seen[f.kind] = true
		if i > 0 && f.at < p[i-1].at || f.at > o.length {
			t.Errorf("%v comes after %v", f, p[i-1])
		}
	}
	for _, k := range kinds {
		if seen[k.name] == slices.Contains(o.without, k.name) {
			t.Errorf("%s: drawn %v", k.name, seen[k.name])
		}
	}
}
