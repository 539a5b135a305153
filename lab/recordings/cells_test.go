package recordings

import (
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/sim/sweep"
	"github.com/tierml/tierml/tiers"
)

// cell is a market on which policies are compared: two types of one family in one zone, by one trace.
type cell struct {
	name      string
	crossings int // of the on-demand price, upwards, by both
	job       sim.Config
}

// TestCostPerWorkInEveryCell compares cost-per-work with tierml in every cell of recorded bid markets: never dearer by more
// than 0.5 %, and where prices cross the on-demand price ten times or more, never dearer and at least 3 % cheaper
// overall. Recordings are not shipped: `make cells CELLS="TRACE=CATALOG ..."` names them; TIERML_CELL picks those with
// that in their name.
func TestCostPerWorkInEveryCell(t *testing.T) {
	files := strings.Fields(os.Getenv("TIERML_CELLS"))
	if len(files) == 0 {
		t.Skip("TIERML_CELLS names no recordings: make cells")
	}
	var wild, tame [2]float64 // sums of cost over on-demand cost: tierml, cost-per-work
	for _, file := range files {
		traceFile, catalogFile, _ := strings.Cut(file, "=")
		for _, c := range cells(t, traceFile, catalogFile) {
			if !strings.Contains(c.name, os.Getenv("TIERML_CELL")) {
				continue
			}
			rows, err := sweep.Run(context.Background(), sweep.Experiment{
				Job: c.job, Policies: []string{"tierml", "cost-per-work"},
				Hours: []time.Duration{2 * time.Hour, 8 * time.Hour, 20 * time.Hour}, Starts: sweep.Starts{Count: 20, Seed: 1},
			}, func(int, int) {})
			if err != nil {
				t.Logf("%s: %v", c.name, err) // a short history
				continue
			}
			line := fmt.Sprintf("%-60s %4d crossings", c.name, c.crossings)
			sums := sweep.Summarize(rows)
			for i := 0; i < len(sums); i += 2 {
				a, b := sums[i], sums[i+1]
				line += fmt.Sprintf(" | %2.0f h: %.3f %.3f %+.1f %%", a.ComputeHours, a.CostMean/a.OnDemandCost, b.CostMean/b.OnDemandCost,
					100*(b.CostMean/a.CostMean-1))
				of, limit := &tame, 1.005
				if c.crossings >= 10 {
					of, limit = &wild, 1
				}
				of[0] += a.CostMean / a.OnDemandCost
				of[1] += b.CostMean / b.OnDemandCost
				if b.CostMean > limit*a.CostMean || b.Finished < a.Finished {
					t.Errorf("%s, %.0f h: cost-per-work costs $%.4f and finishes %d, tierml $%.4f and %d", c.name, a.ComputeHours,
						b.CostMean, b.Finished, a.CostMean, a.Finished)
				}
			}
			t.Log(line)
		}
	}
	t.Logf("mean of cost over on-demand cost: cost-per-work %+.1f %% in cells with 10 crossings or more, %+.1f %% elsewhere",
		100*(wild[1]/wild[0]-1), 100*(tame[1]/tame[0]-1))
	if wild[0] > 0 && wild[1] > 0.97*wild[0] {
		t.Errorf("cost-per-work is not 3 %% cheaper overall")
	}
}

// cells are all pairs of types of one family that a trace has in one zone. The job wants as many vCPUs as 16 machines of
// the smaller type have, plus one of that type that is reliable.
func cells(t *testing.T, traceFile, catalogFile string) (out []cell) {
	t.Helper()
	rules, err := market.Rules("ec2-2017")
	if err != nil {
		t.Fatal(err)
	}
	pools := recordedPools(t, traceFile, catalogFile)
	slices.SortFunc(pools, func(a, b bidding.Candidate) int {
		return cmp.Or(strings.Compare(a.Pool.Zone, b.Pool.Zone), cmp.Compare(a.Type.OnDemand, b.Type.OnDemand), a.Pool.Compare(b.Pool))
	})
	family := func(c bidding.Candidate) string { name, _, _ := strings.Cut(c.Type.Name, "."); return name }
	for i, a := range pools {
		for _, b := range pools[i+1:] {
			if a.Pool.Zone == b.Pool.Zone && family(a) == family(b) {
				out = append(out, cell{
					name:      filepath.Base(traceFile) + " " + a.Pool.Zone + " " + a.Type.Name + " " + b.Type.Name,
					crossings: crossings(a) + crossings(b), job: cellJob(rules, a, b),
				})
			}
		}
	}
	return out
}

// cellJob wants as many vCPUs as 16 machines of the first type have, of any of the spot pools or on demand.
func cellJob(rules market.RuleBook, spot ...bidding.Candidate) sim.Config {
	onDemand := func(c bidding.Candidate) bidding.Candidate {
		c.Pool.Class, c.History, c.Availability = market.OnDemand, market.Constant(c.Type.OnDemand), nil
		return c
	}
	pools, cheap, vcpu := slices.Clone(spot), spot[0], 16*spot[0].Type.VCPU
	for _, p := range spot {
		pools = append(pools, onDemand(p))
		if float64(p.Type.OnDemand)*cheap.Type.WorkRate() < float64(cheap.Type.OnDemand)*p.Type.WorkRate() {
			cheap = p
		}
	}
	slices.SortFunc(pools, func(a, b bidding.Candidate) int { return a.Pool.Compare(b.Pool) })
	return sim.Config{
		Name: "cell", Seed: 1, Policy: bidding.TierML{}, Rules: rules, Want: bidding.Want{VCPU: vcpu}, Pools: pools,
		Job:      sim.Workload{Clocks: 60, Splits: 64, Partitions: 2, Work: 1},
		Reliable: elasticity.Reliable{Pool: onDemand(spot[0]).Pool, Type: spot[0].Type, Count: 1},
		Equivalent: elasticity.Reliable{
			Pool: onDemand(cheap).Pool, Type: cheap.Type, Count: (vcpu + cheap.Type.VCPU - 1) / cheap.Type.VCPU,
		},
		Stages: tiers.Thresholds{TwoAbove: 1, ThreeAbove: 15}, FLOPSPerVCPU: 1000,
	}
}

func crossings(c bidding.Candidate) (n int) {
	above := false
	last, _ := c.History.Last()
	for _, p := range c.History.Points(time.Time{}, last.At) {
		if p.Price > c.Type.OnDemand && !above {
			n++
		}
		above = p.Price > c.Type.OnDemand
	}
	return n
}

// reader reads a file, unpacked.
func reader(t *testing.T, name string) io.Reader {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	if !strings.HasSuffix(name, ".gz") {
		return file
	}
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	return unpacked
}

// recordedPools returns the spot pools of a recording whose types a catalog knows, by pool.
func recordedPools(t *testing.T, traceFile, catalogFile string) (pools []bidding.Candidate) {
	t.Helper()
	recorded, err := trace.Read(reader(t, traceFile), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := market.ReadCatalog(reader(t, catalogFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range recorded.Markets {
		if kind, ok := catalog.Lookup(m.Pool.Region, m.Pool.Type); ok && kind.VCPU > 0 {
			pools = append(pools, bidding.Candidate{Pool: m.Pool, Type: kind, History: m.History})
		}
	}
	slices.SortFunc(pools, func(a, b bidding.Candidate) int { return a.Pool.Compare(b.Pool) })
	return pools
}
