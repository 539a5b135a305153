package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/step"
)

var epoch = time.Unix(1_000_000, 0).UTC()

// A crash loop means that agents end by themselves, including on machines that came after the first crashes, with nothing committed in
// between.
func TestCrashLoop(t *testing.T) {
	for name, c := range map[string]struct {
		story string
		loop  bool
	}{
		// A letter is a crash: upper case with the agent's own reason. "|" brings new machines, "." commits, "-" excuses the
		// last crash.
		"nothing":                                  {"", false},
		"one bad minute of a large fleet":          {"AAAAAAAAAAAAAAAA", false},
		"many, and then a new one":                 {"AAAA|A", true},
		"one machine after another":                {"A|A|A|A|A", true},
		"too few":                                  {"A|A|A|A", false},
		"work is committed in between":             {"AAAA|.A|AAA", false},
		"without a word":                           {"aaaa|a", false},
		"without a word, again":                    {"aaa|a|a", true},
		"half of them without a word":              {"AAAA|a", false},
		"half of them without a word, again":       {"AAAA|a|a", true},
		"the provider took it":                     {"AAAA|A-", false},
		"the provider took the first, not others":  {"A-|AAA|AA", true},
		"a process that is killed now and then":    {"a|.a|.a|.a|.a|.a", false},
		"a process that is killed with no progess": {"a|a|a|a|a", true},
	} {
		t.Run(name, func(t *testing.T) {
			var crashes Crashes
			entered, now := epoch, epoch.Add(time.Minute)
			var last step.ID
			for i, letter := range c.story {
				now = now.Add(time.Second)
				switch letter {
				case '|':
					entered = now
				case '.':
					crashes.Progressed()
				case '-':
					crashes.Exclude(last)
				default:
					last = step.ID(fmt.Sprint("i-", i))
					crash := Crash{ID: last, Entered: entered, At: now, Why: "a reason", Told: letter == 'A'}
					crashes.Add(crash)
					crashes.Add(crash) // reported twice
				}
			}
			why, _, loop := crashes.Loop()
			if loop != c.loop || loop && !strings.Contains(why, "a reason") {
				t.Errorf("loop %v, %q", loop, why)
			}
		})
	}
}
