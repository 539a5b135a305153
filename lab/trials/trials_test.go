package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// placeOf returns a place with the program, where whole jobs can run.
func placeOf(t *testing.T) (at place) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short is given, and this runs whole jobs: leave -short out")
	}
	if _, err := os.Stat("/proc/self/exe"); err != nil {
		t.Skip("no /proc here, by which machines' processes are found: run it on Linux")
	}
	at = place{dir: t.TempDir(), out: t.Output()}
	var err error
	if at.binary, err = build(t.Context(), at.dir); err != nil {
		t.Fatal(err)
	}
	return at
}

// Each disturbance meets one run. Applications and consistencies take turns, so that all are met; `make soak` runs
// all cells.
func TestEveryDisturbance(t *testing.T) {
	at := placeOf(t)
	workloads, err := small(at.dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []cell
	for i, d := range disturbances {
		list = append(list, cell{workloads[i%len(workloads)], modes[i%len(modes)], d, 1})
	}
	s := &soaking{place: at, bases: map[string]baseline{}}
	s.matrix(t.Context(), list, 2)
	for _, err := range s.failed {
		t.Error(err)
	}
}

// What a plan says of a job's own start, the dry run of that start and the run agree. `make agree` compares all policies and rule books.
func TestPlanDryRunAndRunAgree(t *testing.T) {
	at := placeOf(t)
	start := time.Date(2014, 3, 1, 8, 0, 0, 0, time.UTC)
	offers := []offer{
		{Policy: "tierml", Rules: "ec2-now", MaxPrice: true, Start: start},
		{Policy: "cost-per-work", Rules: "gce-spot", Tier: true, Start: start},
		{Policy: "checkpoint", Rules: "ec2-now", Budget: "$60", Start: start},
		{Policy: "on-demand", Rules: "ec2-2017", MaxPrice: true, Start: start},
		{Policy: "auto", Rules: "ec2-2017", Program: true, MaxPrice: true, Start: start},
	}
	if err := compareOffers(t.Context(), at, offers, "../../examples/data", len(offers), agreeSpeed); err != nil {
		t.Error(err)
	}
}

// What differs is noticed.
func TestDifferencesAreNoticed(t *testing.T) {
	plan := said{usd: 1, kinds: "a spot"}
	for _, c := range []struct {
		other said
		want  string
	}{
		{said{usd: 1.05, kinds: "a spot"}, ""},
		{said{usd: 1.06, kinds: "a spot"}, "cost differs by 5.7 %"},
		{said{usd: 1, kinds: "a spot, b on-demand"}, "kinds of machines differ"},
		{said{refused: "max_price"}, "one is refused"},
	} {
		if got := plan.like(c.other); got != c.want {
			t.Errorf("%v: %q, want %q", c.other, got, c.want)
		}
	}
}

// A site that could not be made has no processes: least of all those of which nothing can be read.
func TestNoSiteHasNoProcesses(t *testing.T) {
	dead := exec.Command("true")
	if err := dead.Start(); err != nil {
		t.Fatal(err)
	}
	defer dead.Wait()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(often) {
		if _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", dead.Process.Pid)); err != nil { // it has ended, and was not waited for
			break
		}
	}
	if pids := (site{}).processes(nil); len(pids) > 0 {
		t.Errorf("processes %v would be killed", pids)
	}
}

// A token that is counted twice, or whose document has another topic than its word, is found.
func TestTokensCountedOnce(t *testing.T) {
	words, totals, tokens := []int32{1, 2, 0, 3}, []int32{1, 5}, []int32{2, 2, 1, 2, 2, 2, 0}
	if err := checkTokens(words, totals, tokens); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"a word twice":      checkTokens([]int32{1, 3, 0, 3}, totals, nil),
		"less than nothing": checkTokens([]int32{2, 2, -1, 3}, totals, nil),
		"a token elsewhere": checkTokens(words, totals, []int32{1, 2, 1, 2, 2, 2, 0}),
		"nothing":           checkTokens(nil, nil, nil),
	} {
		if err == nil {
			t.Errorf("%s is not found", name)
		}
	}
}

// A plan follows from its seed, in order of time, and has every kind of fault that is wanted.
func TestDraw(t *testing.T) {
	s := storm{length: 15 * time.Minute, faults: 200, seed: 7, without: []string{"drop"}}
	p := s.draw()
	if p.String() != s.draw().String() || len(p) != s.faults {
		t.Fatal("a seed does not repeat its plan")
	}
	seen := map[string]bool{}
	for i, f := range p {
		seen[f.kind] = true
		if i > 0 && f.at < p[i-1].at || f.at > s.length {
			t.Errorf("%v comes after %v", f, p[i-1])
		}
	}
	for _, k := range kinds {
		if seen[k.name] == slices.Contains(s.without, k.name) {
			t.Errorf("%s: drawn %v", k.name, seen[k.name])
		}
	}
}

// A removal costs what its clocks took beyond adjacent ones with as many machines, whatever their length is.
func TestCostOfARemoval(t *testing.T) {
	var at []tick
	now := time.Duration(0)
	add := func(clocks, machines int, each time.Duration) {
		for range clocks {
			now += each
			at = append(at, tick{now, machines})
		}
	}
	add(20, 8, 100*time.Millisecond)
	asked := len(at)
	add(1, 8, 130*time.Millisecond)
	add(1, 7, 170*time.Millisecond)
	done := len(at)
	add(20, 7, 120*time.Millisecond)
	if got := removal(at, asked, done); math.Abs(got-.08) > 1e-9 {
		t.Errorf("%g s, not .08", got)
	}
	if mean, half := interval([]float64{1, 2, 3}); mean != 2 || math.Abs(half-2/math.Sqrt(3)) > 1e-9 {
		t.Errorf("%g ± %g", mean, half)
	}
}
