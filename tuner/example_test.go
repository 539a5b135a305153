package tuner_test

import (
	"fmt"

	"github.com/tierml/tierml/tuner"
)

// A tuner tries the default first, and learns from the measured clocks.
func ExampleTuner_Ask() {
	space := tuner.Space{Knobs: []tuner.Knob{{Name: "threads", Low: 1, High: 8, Whole: true, Technique: "settings"}}}
	t, err := tuner.New(space, tuner.Options{Default: tuner.Setting{2}, Clocks: 400, Trials: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	advice := t.Ask(0)
	fmt.Println(advice.Step, advice.Setting)
	// Output: default [2]
}
