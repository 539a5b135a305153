package recordings

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim/sweep"
)

// recordings are prices of many years with the catalog nearest in time. They are not shipped: where they are not there,
// the test below is skipped.
var recordings = [][2]string{
	{"aws-regions-us-2009-2011", "2015-04-02"},
	{"aws-us-west-1a-c3-2014", "2015-04-02"},
	{"aws-us-east-1-2015-03-to-07", "2015-04-02"},
	{"aws-us-east-1-2016-02-to-04", "2016-02-27"},
	{"aws-us-east-1-2016-06-to-08-5min", "2016-02-27"},
	{"aws-gpu-2019-2020", "2022-06-22"},
	{"aws-us-east-1-2021-03-to-04", "2022-06-22"},
}

// TestNoPolicyBeatsTheOracleOnRecordings: start by start, no finished run of any policy by any rule book is cheaper than
// its oracle, nor than the row of all. It looks at the wildest market of each recording from one start; `make bound` looks at
// twelve, from the wildest to the calmest.
func TestNoPolicyBeatsTheOracleOnRecordings(t *testing.T) {
	data := "../../../shared/data"
	if folder := os.Getenv("TIERML_BOUND_DATA"); folder != "" {
		data = folder
	}
	starts, most, every := 1, 1, false
	if n, err := strconv.Atoi(os.Getenv("TIERML_BOUND")); err == nil {
		starts, most, every = n, 12, true
	}
	looked, runs := 0, 0
	for _, r := range recordings {
		file := filepath.Join(data, "spot", r[0]+".csv.gz")
		if _, err := os.Stat(file); err != nil {
			continue
		}
		all := cells(t, file, filepath.Join(data, "catalog", "aws-ondemand-linux-"+r[1]+".csv.gz"))
		if len(all) == 0 {
			t.Logf("%s: no two types of a family in one zone that the catalog knows", r[0])
			continue
		}
		slices.SortStableFunc(all, func(a, b cell) int { return b.crossings - a.crossings })
		all = spread(all, most)
		for _, c := range all {
			n := boundCell(t, c, starts, every)
			if looked++; n == 0 {
				t.Logf("%s: too short", c.name)
			}
			runs += n
		}
	}
	if looked == 0 {
		t.Skip("no recordings there: TIERML_BOUND_DATA names the folder that has spot/ and catalog/")
	}
	t.Logf("%d runs in %d markets, none cheaper than its oracle", runs, looked)
}

// spread takes at most `most` of a list, evenly from its first to its last.
func spread(all []cell, most int) (some []cell) {
	if len(all) <= most {
		return all
	}
	for i := range most {
		some = append(some, all[i*(len(all)-1)/max(most-1, 1)])
	}
	return some
}

// boundCell compares all runs of a market with their oracles, and gives how many there were.
func boundCell(t *testing.T, c cell, starts int, every bool) (runs int) {
	t.Helper()
	books, hours := []string{"ec2-2017", "ec2-now"}, []time.Duration{2 * time.Hour}
	if every {
		books, hours = append(books, "ec2-pay-bid", "gce-spot"), append(hours, 8*time.Hour)
	}
	for i, book := range books {
		rules, err := market.Rules(book)
		if err != nil {
			t.Fatal(err)
		}
		c.job.Rules = rules
		rows, err := sweep.Run(context.Background(), sweep.Experiment{
			Job: c.job, Policies: append(bidding.Names(), sweep.Oracle), Hours: hours, Starts: sweep.Starts{Count: starts, Seed: uint64(i)},
		}, func(int, int) {})
		if err != nil && strings.Contains(err.Error(), "no start fits") {
			return 0
		}
		if err != nil {
			t.Fatal(err)
		}
		all := map[time.Duration]map[int64]market.USD{}
		for _, h := range hours {
			all[h] = map[int64]market.USD{}
		}
		for _, r := range rows {
			if r.Policy == sweep.Oracle {
				all[r.Compute][r.Start.Unix()] = r.Cost
			}
		}
		for _, r := range rows {
			bound := max(r.Oracle, all[r.Compute][r.Start.Unix()])
			if r.OracleKnown && r.Finished() && r.Cost < bound {
				t.Errorf("%s, %s, %s from %s: %s costs $%s, and the oracle $%s", c.name, book, r.Compute, r.Start, r.Policy, r.Cost, bound)
			}
			if r.OracleKnown && !sweep.IsOracle(r.Policy) {
				runs++
			}
		}
		for _, s := range sweep.Summarize(rows) {
			if s.Regret != nil && *s.Regret < 0 && s.Finished == s.Starts {
				t.Errorf("%s, %s, %g h: regret %v of %s", c.name, book, s.ComputeHours, *s.Regret, s.Policy)
			}
		}
	}
	return runs
}
