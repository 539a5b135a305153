package mf

import (
	"os"
	"testing"

	"github.com/tierml/tierml/apps"
)

// rmse trains on a file and returns the test RMSE of the last clock's tables.
func rmse(t *testing.T, path string, splits int, seed uint64, clocks int, params apps.Params) float64 {
	t.Helper()
	files, dataset := prepareFile(t, path, apps.Cut{Splits: splits, Holdout: 0.2, Seed: seed})
	p := program(t, params, dataset)
	trainer := newTrainer(t, p, files, seed)
	for range clocks {
		if _, err := trainer.Step(false); err != nil {
			t.Fatal(err)
		}
	}
	stats, err := p.Evaluate(trainer, files.Open)
	if err != nil {
		t.Fatal(err)
	}
	return p.Score(stats.TestLoss, stats.TestCount)
}

// sequential is plain SGD by the same kernel: one split, every clock a whole pass, no bound on item steps.
func sequential(params apps.Params) apps.Params {
	plain := apps.Params{"batches": 1, "item_step_sum": 1000}
	for name, value := range params {
		if _, set := plain[name]; !set {
			plain[name] = value
		}
	}
	return plain
}

// The demo's figures: 64 splits that share 100 items, an eighth of the data per clock.
func TestJesterQualityDoesNotDependOnSplits(t *testing.T) {
	params := apps.Params{"rank": 16, "l2": 0.06, "batches": 8}
	plain := rmse(t, jester, 1, 1, 40, sequential(params))
	one := rmse(t, jester, 1, 1, 320, params)
	many := rmse(t, jester, 64, 1, 320, params)
	t.Logf("Jester5k: plain SGD %.4f, 1 split %.4f, 64 splits %.4f", plain, one, many)
	if many > 1.01*plain || one > 1.01*plain || many > 4.06 {
		t.Errorf("test RMSE %.4f with 64 splits, %.4f with 1, %.4f by plain SGD", many, one, plain)
	}
}

func TestMovieLensQuality(t *testing.T) {
	if testing.Short() {
		t.Skip("-short is given, and this trains for a quarter of a minute: leave -short out")
	}
	const clocks, bar = 320, 0.915
	seeds := seedsOf(5)
	var one, many float64
	for seed := uint64(1); seed <= seeds; seed++ {
		one += rmse(t, movielens, 1, seed, clocks, nil) / float64(seeds)
		many += rmse(t, movielens, 64, seed, clocks, nil) / float64(seeds)
	}
	t.Logf("MovieLens 100K, mean of %d seeds: 1 split %.4f, 64 splits %.4f", seeds, one, many)
	if one > bar || many > bar || many > 1.01*one {
		t.Errorf("test RMSE %.4f with 1 split, %.4f with 64; want at most %v, and within 1 %%", one, many, bar)
	}
}

// seedsOf returns how many seeds a figure is averaged over: the first alone, or n in make -C lab quality.
func seedsOf(n uint64) uint64 {
	if os.Getenv("TIERML_ALL_APPLICATIONS") == "" {
		return 1
	}
	return n
}
