package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFigure(t *testing.T) {
	for x, want := range map[float64]string{1234567: "1230000", 999: "999", 12.345: "12.3", 0.012345: "0.0123", 0: "0"} {
		if got := figure(x); got != want {
			t.Errorf("%g is written %s, not %s", x, got, want)
		}
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		r    Result
		want string
	}{
		{Result{Row: Row{Bar: 0.8}, Ratio: 0.8}, "reached"},
		{Result{Row: Row{Bar: 0.8}, Ratio: 0.79}, "missed"},
		{Result{Row: Row{Bar: 1.2, AtMost: true}, Ratio: 1.3}, "missed"},
		{Result{Row: Row{Bar: 1.2, AtMost: true}, Ratio: 1.1}, "reached"},
		{Result{Ratio: 3}, ""},
		{Result{Row: Row{Bar: 2, Skip: "no peer"}}, "not run: no peer"},
	} {
		if got := c.r.Verdict(); got != c.want {
			t.Errorf("%+v: %q, not %q", c.r, got, c.want)
		}
	}
}

func TestUpdatePage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("before\n<!-- bench x -->\nold\n<!-- end x -->\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	results := []Result{{Row: Row{What: "w", Against: "a", Bar: 2}, Ratio: 3, OursMedian: 30, TheirsMedian: 10},
		{Row: Row{What: "q", Against: "a", Bar: 1.001, AtMost: true}, Ratio: 1.004, Low: 1.0038, High: 1.0041, OursMedian: 0.79012, TheirsMedian: 0.78701}}
	if err := updatePage(path, "x", markdown(results)); err != nil {
		t.Fatal(err)
	}
	if err := updatePage(path, "y", nil); err == nil {
		t.Error("a page without markers was changed")
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(page); strings.Contains(s, "old") || !strings.Contains(s, "| w | a | 3.00 | 0.00-0.00 | >= 2.00 | reached | 30.0 |") ||
		!strings.Contains(s, "| q | a | 1.0040 | 1.0038-1.0041 | <= 1.0010 | missed | 0.79012 | 0.78701 |") ||
		!strings.HasPrefix(s, "before\n") || !strings.HasSuffix(s, "<!-- end x -->\nafter\n") {
		t.Errorf("the page is now\n%s", s)
	}
}
