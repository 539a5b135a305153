package sweep

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/sim"
)

// demoMaker makes examples/demo.yaml with a rule book and a maximum price; 0 = the file's.
func demoMaker(t *testing.T, rules string, most market.USD) *Maker {
	t.Helper()
	job, err := config.Load("../../examples/demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	job.Local.Rules = rules
	if most > 0 {
		job.Resources.MaxPrice = most
		for i := range job.Resources.AnyOf {
			job.Resources.AnyOf[i].MaxPrice = 0
		}
	}
	sold, err := local.Load(job)
	if err != nil {
		t.Fatal(err)
	}
	m := &Maker{Job: job, Catalog: sold.Catalog, Content: Content{Work: demoWork * float64(job.Train.Clocks),
		Schema: &ps.Schema{Partitions: job.Train.Partitions, Splits: job.Train.Splits, Tables: []ps.Table{{Name: "rows", Rows: 7000, Cols: 16}}}}}
	m.Offers, _ = sold.Offers()
	return m
}

func madeBy(m *Maker) func(string) (sim.Config, error) {
	return func(policy string) (sim.Config, error) {
		made, err := m.By(policy)
		return made.Sim, err
	}
}

// The plan's figures for the job's own start are the dry run's, for every policy that can run the job, and both exclude the same policies.
// A run that its budget ends costs no more.
func TestPlanAndDryRunAgree(t *testing.T) {
	cells := 0
	for _, rules := range []string{"ec2-2017", "ec2-pay-bid", "ec2-now", "gce-spot"} {
		for i, most := range []market.USD{0, market.Dollar, 0, market.Dollar} {
			m, ended := demoMaker(t, rules, most), 0
			if i >= 2 {
				m.Job.Budget = 8 * market.Dollar
			}
			base, err := m.Base()
			if err != nil {
				t.Fatal(err)
			}
			p := Experiment{Job: base, By: madeBy(m), Policies: Candidates(false), Replay: true}
			rows, err := Run(t.Context(), p, func(int, int) {})
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				made, err := m.By(row.Policy)
				if err != nil {
					t.Fatal(err)
				}
				if made.Sim.Deadline.IsZero() && row.Policy == "deadline" {
					made.Sim.Deadline = made.Sim.Start.Add(Within(&base))
				}
				plan, err := Predict(made.Sim)
				if err != nil {
					t.Fatal(err)
				}
				if m.Job.Budget > 0 {
					if !plan.Finished {
						ended++
					}
					if row.Cost > m.Job.Budget || plan.Finished != (row.Done == 1) || !plan.Finished && (!strings.HasPrefix(plan.Why, "the budget of $") || row.Cost < m.Job.Budget/2) {
						t.Errorf("%s, max_price %s, %s: a budget of %s ends the run at %s, with %.2f done: %s", rules, most, row.Policy, m.Job.Budget.Cents(), row.Cost, row.Done, plan.Why)
					}
				}
				if cells++; plan.Cost != row.Cost || plan.Done != row.Done || plan.Evictions != row.Evictions {
					t.Errorf("%s, max_price %s, %s: planned at $%s with %d evictions, the dry run has $%s and %d", rules, most, row.Policy, plan.Cost, plan.Evictions, row.Cost, row.Evictions)
				}
			}
			if refused := p.Refused(); len(rows)+len(refused) != len(p.Policies) || most == 0 && (len(refused) != 1 || refused[0].Policy != "on-demand") {
				t.Errorf("%s, max_price %s: refused are %v", rules, most, refused)
			}
			if i >= 2 && ended < 4 {
				t.Errorf("%s, max_price %s: the budget ends %d runs", rules, most, ended)
			}
		}
	}
	if cells < 60 {
		t.Errorf("%d cells", cells)
	}
}

// No policy buys a machine above max_price, from any start. TIERML_STARTS is the number of starts drawn.
func TestNothingIsBoughtAboveMaxPrice(t *testing.T) {
	starts := 60
	if n, err := strconv.Atoi(os.Getenv("TIERML_STARTS")); err == nil {
		starts = n
	}
	seed := uint64(time.Now().UnixNano())
	type draw struct {
		at     time.Time
		policy string
	}
	var bought atomic.Int64
	var workers sync.WaitGroup
	r := rand.New(rand.NewPCG(seed, 1))
	for _, most := range []market.USD{market.Dollar / 20, market.Dollar * 15 / 100, market.Dollar * 3 / 10} {
		m := demoMaker(t, "ec2-2017", most)
		base, err := m.Base()
		if err != nil {
			t.Fatal(err)
		}
		types := map[string]market.USD{}
		for _, p := range base.Pools {
			types[p.Type.Name] = p.Type.OnDemand
		}
		types[base.Reliable.Type.Name] = base.Reliable.Type.OnDemand
		made := map[string]Made{}
		var names []string
		for _, name := range Candidates(false) {
			if cfg, err := m.By(name); err == nil { // else it is refused
				made[name], names = cfg, append(names, name)
			}
		}
		first, last := window(&base)
		drawn := make([]draw, starts/3)
		for i := range drawn {
			drawn[i] = draw{first.Add(time.Duration(r.Int64N(int64(last.Sub(first)))).Truncate(time.Minute)), names[r.IntN(len(names))]}
		}
		slices.SortFunc(drawn, func(a, b draw) int { return a.at.Compare(b.at) }) // neighbours share their past
		for part := range slices.Chunk(drawn, max(1, (len(drawn)+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))) {
			workers.Go(func() {
				cache := newRecollection(36 * time.Hour)
				for _, d := range part {
					one := made[d.policy].Sim
					one.Policy = caching(one.Policy, cache)
					one.Start, one.Horizon, one.MaxDuration, one.Faults, one.Deadline = d.at, 36*time.Hour, 0, nil, d.at.Add(Within(&base))
					one.Record = func(e journal.Entry) {
						if e.Kind != journal.Launch {
							return
						}
						pool, err := market.ParsePool(e.Pool)
						bid, _ := market.ParseUSD(fmt.Sprint(e.Bid))
						price := types[pool.Type]
						if pool.Class == market.Spot {
							price = bid
						}
						if bought.Add(1); err != nil || price > most {
							t.Errorf("seed %d: %s from %s buys %s at $%s, max_price is $%s", seed, d.policy, d.at, e.Pool, price, most)
						}
					}
					if _, err := sim.Run(one); err != nil {
						t.Error(err)
					}
				}
			})
		}
		workers.Wait()
	}
	if bought.Load() == 0 {
		t.Error("nothing was bought")
	}
}

// realCloud is the block of a job that runs on a provider's machines.
type realCloud struct{ config.Installation }

func (*realCloud) Check(*config.Checker) {}

// Traffic between zones of a real cloud is on the bill of plan, dry run and run alike: at each clock all machines together read and write
// the model. A declared value is kept, and on this computer nothing crosses zones.
func TestTrafficBetweenZonesIsCounted(t *testing.T) {
	m := demoMaker(t, "ec2-now", 10*market.Dollar)
	far := m.Offers[0]
	for _, o := range m.Offers {
		if o.Pool.Class == market.Spot {
			far = o
		}
	}
	far.Pool.Zone += "2"
	m.Offers, m.Job.Resources.Zones = append(m.Offers, far), append(m.Job.Resources.Zones, far.Pool.Zone)
	here, err := m.By("tierml")
	if err != nil || len(here.Counted) > 0 {
		t.Fatal(here.Counted, err)
	}
	m.Job.Cloud, m.Job.Block = "ec2", &realCloud{}
	made, err := m.By("tierml")
	if err != nil {
		t.Fatal(err)
	}
	fees := made.Sim.Rules.Terms().Fees
	if name, err := made.Job.Rules(); err != nil || name.Name() != made.Sim.Rules.Name() || len(made.Counted) != 1 || fees.Home != made.Sim.Reliable.Pool.Zone {
		t.Errorf("the run's rules are %v, the simulation's %s (%v); said: %q", name, made.Sim.Rules.Name(), err, made.Counted)
	}
	clocks := float64(made.Sim.Job.Clocks) / ComputeTime(&made.Sim).Hours()
	if all, want := float64(fees.TrafficMB)*1e6*float64(machinesWanted(&made.Sim)), 2*float64(m.state())*clocks; all < want-1e6*float64(machinesWanted(&made.Sim)) || all > want+1e6*float64(machinesWanted(&made.Sim)) {
		t.Errorf("%.0f bytes an hour cross zones, want %.0f", all, want)
	}
	if fees.TrafficPerHour(fees.Home) != 0 || fees.TrafficPerHour(far.Pool.Zone) == 0 {
		t.Errorf("at home $%s an hour, elsewhere $%s", fees.TrafficPerHour(fees.Home), fees.TrafficPerHour(far.Pool.Zone))
	}
	m.Job.Local.Rules = "ec2-now+traffic=5x0.01@us-west-1a"
	if made, err = m.By("tierml"); err != nil || made.Sim.Rules.Terms().Fees.TrafficMB != 5000 {
		t.Error(made.Sim.Rules.Name(), err)
	}
}
