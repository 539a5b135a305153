package all

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/splitmem"
	"github.com/tierml/tierml/ps"
)

// Whatever the number of splits and batches, some split reads at least LeastRows rows in one of its clocks.
func TestLeastRows(t *testing.T) {
	data := map[string]string{"sparse": sparse()}
	for name, e := range examples() {
		data[name] = e.data
	}
	for name, app := range map[string]string{"mf": "mf", "lda": "lda", "linear": "linear", "logistic": "logistic", "sparse": "logistic", "dnn": "dnn"} {
		for _, splits := range []int{1, 3} {
			for _, batches := range []int{1, 2} {
				t.Run(fmt.Sprintf("%s, splits: %d, batches: %d", name, splits, batches), func(t *testing.T) {
					p, files := prepared(t, app, data[name], splits, batches)
					least, most := p.(apps.Dense).LeastRows(), mostRows(t, p, files, splits, batches)
					if len(least) != len(p.Tables()) || least[0] == 0 {
						t.Errorf("at least %v rows of %d tables", least, len(p.Tables()))
					}
					for table := range least {
						if most[table] < least[table] {
							t.Errorf("table %d: at least %d rows, but splits ask for %d", table, least[table], most[table])
						}
					}
					if app == "mf" && splits*batches == 1 && least[0] != most[0] {
						t.Errorf("at least %d users of %d", least[0], most[0])
					}
				})
			}
		}
	}
}

// sparse returns examples that each have few of many features.
func sparse() string {
	var b strings.Builder
	for i := range 30 {
		fmt.Fprintf(&b, "%+d", 1-i%2*2)
		for f := range 7 {
			fmt.Fprintf(&b, " %d:1", 1+40*f+i)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func prepared(t *testing.T, app, data string, splits, batches int) (apps.Program, splitmem.Files) {
	t.Helper()
	kind, files := find(t, app), splitmem.Files{}
	dataset, err := kind.Prepare(apps.Input{Name: "small", Data: strings.NewReader(data)}, apps.Cut{Splits: splits, Holdout: 0.1, Seed: 1}, files.Create)
	if err != nil {
		t.Fatal(err)
	}
	params := apps.Params{}
	for _, p := range kind.Params() {
		if p.Name == "batches" {
			params["batches"] = batches
		}
	}
	p, err := kind.New(params, dataset)
	if err != nil {
		t.Fatal(err)
	}
	return p, files
}

// mostRows returns the maximum number of rows of each table that any split needs in a clock.
func mostRows(t *testing.T, p apps.Program, files splitmem.Files, splits, clocks int) []uint64 {
	t.Helper()
	most := make([]uint64, len(p.Tables()))
	for id := range ps.Split(splits) {
		file, err := files.Open(id)
		if err != nil {
			t.Fatal(err)
		}
		s, err := p.LoadSplit(id, file, 1)
		if err != nil {
			t.Fatal(err)
		}
		for c := range ps.Clock(clocks) {
			asked := make([]uint64, len(most))
			for _, k := range s.Needs(c+1, nil) {
				asked[k.Table]++
			}
			for table, n := range asked {
				most[table] = max(most[table], n)
			}
		}
	}
	return most
}
