package elasticity

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Random worlds with random faults. The environment chooses them:
//
//	TIERML_SEEDS   how many worlds
//	TIERML_FIRST   the seed of the first
//	TIERML_FOR     stop after this time, such as 1m
//	TIERML_SEED    this world alone
//	TIERML_FAULTS  this plan of faults instead of the one that the seed draws
//	TIERML_TRACE   print every event and action
func TestRandomSchedulesKeepThePromises(t *testing.T) {
	first, seeds := setting("TIERML_FIRST", 0), setting("TIERML_SEEDS", 200)
	if os.Getenv("TIERML_SEED") != "" {
		first, seeds = setting("TIERML_SEED", 0), 1
	}
	limit, _ := time.ParseDuration(os.Getenv("TIERML_FOR"))
	began, failures, steps, done := time.Now(), 0, 0, uint64(0)
	for ; done < seeds && failures < 5 && (limit == 0 || time.Since(began) < limit); done++ {
		p := drawPlan(rand.New(rand.NewPCG(first+done, 2)))
		if text, ok := os.LookupEnv("TIERML_FAULTS"); ok {
			var err error
			if p, err = parsePlan(text); err != nil {
				t.Fatal(err)
			}
		}
		n, failed := explore(t, first+done, p)
		if steps += n; failed {
			failures++
		}
	}
	t.Logf("%d worlds, seeds %d to %d, %d steps, %d failures", done, first, first+done-1, steps, failures)
}

func setting(variable string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(variable), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// Seeds that once broke a promise. The file only grows. A seed draws another world when the tests' own code changes its draws, so failures
// also have tests of their own where possible.
func TestSeedsThatFailedBefore(t *testing.T) {
	text, err := os.ReadFile("testdata/seeds.list")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		word, reason, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "" || word == "#" {
			continue
		}
		seed, err := strconv.ParseUint(word, 10, 64)
		if err != nil || strings.TrimSpace(reason) == "" {
			t.Fatalf("testdata/seeds.list: %q is not a seed and a reason", line)
		}
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			explore(t, seed, drawPlan(rand.New(rand.NewPCG(seed, 2))))
		})
	}
}

// explore runs the world of a seed with a plan. A plan that breaks a promise is shrunk and printed.
func explore(t *testing.T, seed uint64, p plan) (steps int, failed bool) {
	t.Helper()
	steps, err := random(t, seed, p)
	if err == nil {
		return steps, false
	}
	p = shrink(p, func(smaller plan) bool { _, err := random(nil, seed, smaller); return err != nil })
	_, err = random(nil, seed, p)
	t.Errorf("seed %d: %v\nrepeat: TIERML_TRACE=1 TIERML_SEED=%d TIERML_FAULTS='%s' go test ./elasticity -run TestRandomSchedules\n"+
		"Add the seed, with the reason, to elasticity/testdata/seeds.list; see CONTRIBUTING.md.", seed, err, seed, p)
	return steps, true
}

// random runs the world of a seed with a plan and returns the number of steps.
func random(t *testing.T, seed uint64, p plan) (steps int, err error) {
	w := newWorld(seed, drawn(rand.New(rand.NewPCG(seed, 3))))
	if t != nil && os.Getenv("TIERML_TRACE") != "" {
		w.trace = t.Logf
	}
	w.play(p)
	if err := w.run(); err != nil {
		return w.steps, err
	}
	return w.steps, w.check(p.outcomes()...)
}
