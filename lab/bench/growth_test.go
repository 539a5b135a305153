package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLastRow(t *testing.T) {
	got, err := lastRow([]byte("built\n| a, b | c |\n|---|---|\n| 1.5 | x |\n| 2 | 3 |\n"))
	if err != nil || got["a, b"] != 2 || got["c"] != 3 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := lastRow([]byte("no table")); err == nil {
		t.Error("no table, and no error")
	}
}

// TestExponents measures a quadratic and, along with it, something linear that cannot do the largest size.
func TestExponents(t *testing.T) {
	var c growthCurve
	for _, n := range []int{10, 100, 1000} {
		power := func(p float64) Measure {
			return func(context.Context) (float64, error) { return math.Pow(float64(n), p), nil }
		}
		row := Row{What: "work, machines: 10", Ours: power(2), Theirs: power(1)}
		if n == 1000 {
			row.Theirs = nil
		}
		c.add(n, row)
	}
	var results []Result
	for _, row := range c.withExponents("machines") {
		row.Cold, row.Curve = true, "work"
		r, err := measure(t.Context(), row, 2)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, r)
	}
	last := results[len(results)-1]
	if last.What != "exponent of work" || math.Abs(last.OursMedian-2) > 1e-9 || math.Abs(last.TheirsMedian-1) > 1e-9 {
		t.Errorf("%+v", last)
	}
	if !results[2].alone() || results[1].alone() {
		t.Error("the former build did not do the largest size, and no other is missing")
	}
	dir := t.TempDir()
	path, err := drawCurves(dir, "x", "X", results[:3])
	if err != nil || path != filepath.Join(dir, "x.svg") {
		t.Fatal(path, err)
	}
	picture, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if points := strings.Count(string(picture), "<circle"); points != 5 {
		t.Errorf("%d points of 3 sizes, of which one side did 2", points)
	}
	for d := xml.NewDecoder(strings.NewReader(string(picture))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestShots gives the same runs to each figure.
func TestShots(t *testing.T) {
	runs := 0.0
	s := shots{run: func(context.Context) (map[string]float64, error) {
		runs++
		return map[string]float64{"a": runs, "b": -runs}, nil
	}}
	a, b := s.figure("a"), s.figure("b")
	for i, m := range []Measure{a, a, b, b} {
		if got, err := m(t.Context()); err != nil || got != []float64{1, 2, -1, -2}[i] {
			t.Errorf("figure %d is %v, %v", i, got, err)
		}
	}
	if _, err := s.figure("c")(t.Context()); err == nil {
		t.Error("no such figure, and no error")
	}
}
