package node

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/tierml/tierml/apps"
	registry "github.com/tierml/tierml/apps/all"
	"github.com/tierml/tierml/ps"
)

// staleJob is an application with its default settings on a real data set. Its figure may be so much worse with stale
// reads: an error rate by .01, others by 1 %.
type staleJob struct {
	app, file string
	clocks    ps.Clock
	rate      bool // the figure is an error rate
	always    bool // also without TIERML_ALL_APPLICATIONS
}

var staleJobs = []staleJob{
	{app: "mlr", file: "mlr/mnist-t10k-images-idx3-ubyte.gz", clocks: 240, rate: true, always: true},
	{app: "dnn", file: "mlr/mnist-t10k-images-idx3-ubyte.gz", clocks: 96, rate: true, always: true},
	{app: "dnn", file: "mlr/mnist-t10k-images-idx3-ubyte.gz", clocks: 480, rate: true},
	{app: "mlr", file: "mlr/shuttle.csv.gz", clocks: 240, rate: true},
	{app: "dnn", file: "mlr/shuttle.csv.gz", clocks: 240, rate: true},
	{app: "logistic", file: "linear/a9a.gz", clocks: 100, rate: true},
	{app: "svm", file: "linear/a9a.gz", clocks: 100, rate: true},
	{app: "linear", file: "regression/california-housing.csv.gz", clocks: 200},
	{app: "ridge", file: "regression/california-housing.csv.gz", clocks: 200},
	{app: "lasso", file: "regression/california-housing.csv.gz", clocks: 200},
	{app: "robust", file: "regression/california-housing.csv.gz", clocks: 200},
	{app: "mf", file: "mf/ml-100k.u.data.gz", clocks: 100},
	{app: "lda", file: "lda/docword.20news-test.txt.gz", clocks: 60},
}

// Nobody has to touch a setting for stale reads: with what apps.Stale puts in place of the defaults, SSP and ASP end as BSP
// does, on real data, also where one worker has twice the work of the others and nothing but ps.MostAhead holds those back.
func TestStaleDefaultsDoNotCostQuality(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("uses TCP, and trains for some ten seconds without the race detector")
	}
	everything := os.Getenv("TIERML_ALL_APPLICATIONS") != ""
	seeds := uint64(3) // single runs scatter by half of what is allowed
	if everything {
		seeds = 5
	}
	for _, s := range staleJobs {
		if !everything && !s.always {
			continue
		}
		t.Run(s.app+"/"+filepath.Base(s.file), func(t *testing.T) {
			var want float64
			for seed := range seeds {
				want += s.figure(t, seed, nil) / float64(seeds)
			}
			for name, staleness := range map[string]ps.Clock{"SSP 1": 1, "SSP 3": 3, "ASP": ps.Unbounded} {
				var got float64
				for seed := range seeds {
					got += s.figure(t, seed, &staleness) / float64(seeds)
				}
				t.Logf("%-6s %.4f, BSP %.4f", name, got, want)
				allowed := 0.01 * want
				if s.rate {
					allowed = 0.01
				}
				if !(got <= want+allowed) || math.IsNaN(want) {
					t.Errorf("%s ends at %.4f, BSP at %.4f: more than %.4f worse", name, got, want, allowed)
				}
			}
		})
	}
}

// figure trains in one process (nil), or on four uneven nodes, and gives the figure of the held-out examples.
func (s *staleJob) figure(t *testing.T, seed uint64, staleness *ps.Clock) float64 {
	t.Helper()
	kind, err := registry.Registry().Find(s.app)
	if err != nil {
		t.Fatal(err)
	}
	var params apps.Params
	if stale, can := kind.(apps.Stale); can && staleness != nil {
		params = stale.StaleDefaults()
	}
	path := filepath.Join("../../../shared/data/ml", s.file)
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not there: it is a public data set that is not part of the repository", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	j := &trained{kind: kind, clocks: s.clocks, seed: seed, uneven: true}
	j.prepare(t, apps.Input{Name: path, Data: file, MaxBadLines: 10, Beside: func(name string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(filepath.Dir(path), name))
	}}, apps.Cut{Splits: consistencySplits, Holdout: 0.2, Seed: seed}, params)
	if staleness == nil {
		return heldOut(t, j, j.inOneProcess(t))
	}
	return heldOut(t, j, j.onNodes(t, 4, false, *staleness))
}
