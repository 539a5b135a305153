package recordings

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
)

// packed returns the least that machines cost an hour, of any types together, that hold the partitions of this many equal jobs; one is the least of
// machines of one type. It is exact: equal models need memory and network in one proportion, so a machine holds as many partitions as its scarcer one
// allows, and what is left is the cheapest way to cover a number. LossLimit adds nothing: serving takes thousandths of a core.
func packed(options []planner.ReliableOption, partitions, jobs int) (least market.USD, one planner.Fleet) {
	const unknown = market.USD(math.MaxInt64)
	all := partitions * jobs
	cost := make([]market.USD, all+1) // index: partitions that are held
	for n := range cost[1:] {
		cost[n+1] = unknown
	}
	cheapest := unknown
	holds := map[string]int{}
	for _, o := range options {
		if o.HasMemory == 0 || o.HasNetwork == 0 {
			continue
		}
		most := float64((partitions + o.Count - 1) / o.Count) // partitions for which Memory and Network are
		n := int(min(float64(o.HasMemory)/float64(o.Memory), o.HasNetwork/o.Network)*most + 1e-9)
		if n == 0 {
			continue
		}
		holds[o.Type.Name] = n
		if count := (all + n - 1) / n; o.Type.OnDemand*market.USD(count) < cheapest {
			cheapest, one = o.Type.OnDemand*market.USD(count), o.Fleet
			one.Count = count
		}
	}
	for n := 1; n <= all; n++ {
		for _, o := range options {
			if h := holds[o.Type.Name]; h > 0 {
				cost[n] = min(cost[n], cost[max(n-h, 0)]+o.Type.OnDemand)
			}
		}
	}
	return cost[all], one
}

// A hand-made case: two types, of which the larger is cheaper for what it holds.
func TestPackedIsTheLeast(t *testing.T) {
	option := func(name string, dollars float64, memory int64) planner.ReliableOption {
		o := planner.ReliableOption{Memory: 100, HasMemory: memory, Network: 10, HasNetwork: 1000}
		o.Type.Name, o.Type.OnDemand, o.Count = name, market.USD(dollars*float64(market.Dollar)), 1
		return o
	}
	// A partition takes 25 bytes: small holds 4, large 10.
	options := []planner.ReliableOption{option("small", 1, 110), option("large", 2, 250), option("unknown", .1, 0)}
	for jobs, want := range map[int][2]float64{1: {1, 1}, 2: {2, 2}, 3: {3, 3}, 4: {4, 4}, 6: {5, 6}} {
		least, fleet := packed(options, 4, jobs)
		one := fleet.Type.OnDemand * market.USD(fleet.Count)
		if float64(least)/float64(market.Dollar) != want[0] || float64(one)/float64(market.Dollar) != want[1] {
			t.Errorf("%d jobs: %v and %v, want %v", jobs, least, one, want)
		}
	}
}

// planned returns what the pool's tier for all four saves of what their own cost an hour.
func (s *sized) planned() float64 {
	own := s.job.Reliable
	return 1 - float64(s.pool.Type.OnDemand)*float64(s.pool.Count)/float64(own.Type.OnDemand)/float64(poolJobs*own.Count)
}

// What four jobs could save by sharing reliable machines, per hour of their tiers, for models of all sizes that force 10 % of a fleet and more: which
// fleets and models let them save half. `make pool-bound` runs it.
func TestPoolBound(t *testing.T) {
	data := os.Getenv("TIERML_POOL_BOUND")
	if data == "" {
		t.Skip("make pool-bound runs it")
	}
	fmt.Println("| market | fleet, vCPUs | models | of these, half possible | the best for sharing | own tier, $/h | saved at most | by the pool's tier |\n|---|---|---|---|---|---|---|---|")
	for _, m := range poolMarkets {
		if !strings.Contains(m.name, os.Getenv("TIERML_POOL_ONLY")) {
			continue
		}
		if strings.HasSuffix(m.name, "one c3") {
			continue // fleets of all sizes come here
		}
		for _, vcpu := range []int{4, 8, 16, 64, 256} {
			p := m.load(t, data, vcpu)
			var best sized
			sizes, half := 0, 0
			for model := int64(1 << 20); model < 256<<30; model += model / 10 {
				r, ok := p.sized(model)
				if !ok || r.share < forced {
					continue
				}
				if sizes++; r.most >= .5 {
					half++
				}
				if sizes == 1 || r.most > best.most {
					best = r
				}
			}
			if sizes == 0 {
				continue
			}
			own := best.job.Reliable
			fmt.Printf("| %s | %d | %d | %d | %s | %d %s, %.3f | %.0f %% | %.0f %% |\n", m.name, vcpu, sizes, half, planner.Bytes(best.modelSize), own.Count, own.Type.Name,
				dollars(own.Type.OnDemand)*float64(own.Count), 100*best.most, 100*best.planned())
		}
	}
}
