package apps

import (
	"math"
	"slices"
	"strings"
	"testing"
)

var declared = []Param{
	{Name: "rank", Default: 16, Min: 1, Max: 100, Whole: true},
	{Name: "step", Default: 0.1, Min: 0, Max: 1},
}

func TestResolve(t *testing.T) {
	values, err := Params{"rank": uint64(3)}.Resolve(declared)
	if err != nil || values.Int("rank") != 3 || values.Float("step") != 0.1 {
		t.Errorf("%v, %v; want rank 3 and the default step", values, err)
	}
	for _, given := range []any{1, int64(1), 1.0, float32(1)} {
		if values, err := (Params{"step": given}).Resolve(declared); err != nil || values.Float("step") != 1 {
			t.Errorf("%T: %v, %v; want 1", given, values, err)
		}
	}
}

func TestResolveErrors(t *testing.T) {
	for _, c := range []struct {
		params Params
		want   string
	}{
		{Params{"rnak": 3}, `unknown parameter "rnak": did you mean "rank"?`},
		{Params{"momentum": 3}, `unknown parameter "momentum": there are rank, step`},
		{Params{"rank": 0}, "parameter rank: 0 is out of range: write a whole number from 1 to 100, for example 16"},
		{Params{"rank": 2.5}, "parameter rank: 2.5 is not a whole number: write a whole number from 1 to 100"},
		{Params{"rank": "3"}, `parameter rank: "3" is not a number: write a whole number from 1 to 100`},
		{Params{"step": true}, "parameter step: true is not a number: write a number from 0 to 1"},
		{Params{"step": math.NaN()}, "parameter step: NaN is out of range"},
	} {
		if _, err := c.params.Resolve(declared); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v: error %q, want %q", c.params, err, c.want)
		}
	}
}

func TestResolveTellsEveryFault(t *testing.T) {
	_, err := Params{"rank": 0, "step": 2, "stpe": 1}.Resolve(declared)
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("error %q, want three lines", err)
	}
}

func TestUndeclaredValuePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("asking for an undeclared hyper-parameter went unnoticed")
		}
	}()
	Values{}.Float("step")
}

func TestStreamsAreNamedByBatch(t *testing.T) {
	a, again, other := NewStream(1, 2, 3), NewStream(1, 2, 3), NewStream(1, 3, 2)
	x := a.Uint64()
	if x != again.Uint64() {
		t.Error("the same batch draws different numbers")
	}
	if x == other.Uint64() {
		t.Error("split 2, clock 3 and split 3, clock 2 draw the same numbers")
	}
}

// All orders of three items are about equally likely.
func TestShuffleIsFair(t *testing.T) {
	counts := map[[3]int]int{}
	const draws = 6000
	for i := range draws {
		items := [3]int{1, 2, 3}
		stream := NewStream(uint64(i), 0, 1)
		Shuffle(&stream, items[:])
		counts[items]++
	}
	for order, n := range counts {
		if n < draws/6-150 || n > draws/6+150 { // five standard deviations
			t.Errorf("order %v came %d times of %d", order, n, draws)
		}
	}
	if len(counts) != 6 {
		t.Errorf("%d orders, want 6", len(counts))
	}
}

func TestShuffleKeepsItems(t *testing.T) {
	items := []int{5, 4, 3, 2, 1}
	stream := NewStream(1, 1, 1)
	Shuffle(&stream, items)
	slices.Sort(items)
	if !slices.Equal(items, []int{1, 2, 3, 4, 5}) {
		t.Errorf("items became %v", items)
	}
}

func TestWith(t *testing.T) {
	given := Params{"step": 2}
	if got := given.With("step", 1).With("rank", 3); got["step"] != 2 || got["rank"] != 3 || len(given) != 1 {
		t.Errorf("%v; given are %v", got, given)
	}
}
