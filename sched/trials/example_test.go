package trials_test

import (
	"fmt"

	"github.com/tierml/tierml/sched/trials"
)

func ExampleParseRange() {
	r, err := trials.ParseRange("RATE", "log 1e-4..1")
	fmt.Println(r.Low, r.High, r.Log, err)
	// Output: 0.0001 1 true <nil>
}

// One of three trials continues after step 100. The second is out, as one is better; the first waits for the
// third.
func ExampleDecide() {
	rungs := []trials.Rung{{At: 100, Keep: 1}}
	for _, v := range trials.Decide(rungs, []trials.Trial{{Losses: []float64{0.3}}, {Losses: []float64{0.5}}, {}}) {
		fmt.Println(v.Decision == trials.Goes, v.Decision == trials.Waits, v.Decision == trials.Out)
	}
	// Output:
	// false true false
	// false false true
	// true false false
}
