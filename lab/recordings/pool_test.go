package recordings

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/sim/sweep"
)

const (
	poolJobs   = 4
	poolWithin = 4 * time.Hour // in which the jobs of a pool begin, one after the other
	poolHours  = 8 * time.Hour
	forced     = 0.1 // of the fleet's price on demand, from which a reliable tier counts as forced by the model
)

const poolJob = `name: pool
cloud: local
policy: tierml
resources: {vcpu: %d, any_of: [%s], zones: [%s]}
reliable: auto
max_duration: 100h
train: {app: mf, data: %s, clocks: 480, splits: 64, partitions: 32}
local: {prices: %s, catalog: %s, rules: %s, start: %s, flops_per_vcpu: 200k, speed: 1, notice: 2m}
`

// poolMarket is a market for four equal jobs: the demo's and three others.
type poolMarket struct {
	name, prices, catalog, rules, zones, types, start string
	vcpu                                              int
}

var poolMarkets = []poolMarket{
	{"us-west-1 2014, c3", "../../examples/data/aws-us-west-1a-c3-2014.csv.gz", "../../examples/data/aws-ondemand-us-west-1-2015-04-02.csv", "ec2-2017", "us-west-1a",
		"{type: c3.xlarge}, {type: c3.4xlarge}", "2014-03-26T16:00:00Z", 64},
	{"us-west-1 2014, one c3", "../../examples/data/aws-us-west-1a-c3-2014.csv.gz", "../../examples/data/aws-ondemand-us-west-1-2015-04-02.csv", "ec2-2017", "us-west-1a",
		"{type: c3.xlarge}", "2014-03-26T16:00:00Z", 4},
	{"us-east-1 2015, c3", "spot/aws-us-east-1-2015-03-to-07.csv.gz", "catalog/aws-ondemand-linux-2015-04-02.csv.gz", "ec2-2017", "us-east-1a, us-east-1b",
		"{type: c3.xlarge}", "2015-04-20T00:00:00Z", 64},
	{"us-east-1 2015, one c3", "spot/aws-us-east-1-2015-03-to-07.csv.gz", "catalog/aws-ondemand-linux-2015-04-02.csv.gz", "ec2-2017", "us-east-1a, us-east-1b",
		"{type: c3.xlarge}", "2015-04-20T00:00:00Z", 4},
	{"us-east-1 2016, m4", "spot/aws-us-east-1-2016-02-to-04.csv.gz", "catalog/aws-ondemand-linux-2016-02-27.csv.gz", "ec2-2017", "us-east-1b",
		"{type: m4.4xlarge}, {type: m4.10xlarge}", "2016-03-15T00:00:00Z", 256},
	{"us-east-1 2021, c5", "spot/aws-us-east-1-2021-03-to-04.csv.gz", "catalog/aws-ondemand-linux-2022-06-22.csv.gz", "ec2-now", "us-east-1a",
		"{type: c5.xlarge}, {type: c5.2xlarge}", "2021-04-01T00:00:00Z", 64},
}

// pageStarts are those of the table in lab/papers/measured.md, and dearer the rows in which the pool costs more there.
const pageStarts = 100

var dearer = []string{"us-east-1 2015, c3, cost-per-work, 1.0 MB", "us-east-1 2016, m4, cost-per-work, 1.0 MB"}

// sized are one job's simulation by its own reliable tier, and the tier that holds the models of all four.
type sized struct {
	job       sim.Config
	pool      planner.Fleet
	share     float64 // of the tier's price in the fleet's, on demand
	most      float64 // of what the own tiers cost, at most that sharing can save
	modelSize int64
}

// remoteBlock makes a job one of a real cloud, as far as its timing goes.
type remoteBlock struct{}

func (remoteBlock) Shared() *config.Installation { return &config.Installation{} }
func (remoteBlock) Check(*config.Checker)        {}

// pooled is a market that is loaded, for a fleet.
type pooled struct {
	*testing.T
	job    *config.Job
	remote config.Job // sized as on the real cloud: its cuts are further apart than on a laptop
	offers []planner.Offer
	on     *local.Market
}

// load reads a market's recordings, for a fleet of this many vCPUs.
func (m poolMarket) load(t *testing.T, data string, vcpu int) pooled {
	t.Helper()
	at := func(path string) string {
		if path[0] == '.' {
			return path
		}
		return filepath.Join(data, path)
	}
	file := filepath.Join(t.TempDir(), "pool.yaml")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	absolute := func(path string) string { return filepath.Join(here, path) }
	prices, catalog := at(m.prices), at(m.catalog)
	if !filepath.IsAbs(prices) {
		prices, catalog = absolute(prices), absolute(catalog)
	}
	text := fmt.Sprintf(poolJob, vcpu, m.types, m.zones, absolute("../../examples/data/jester5k.csv.gz"), prices, catalog, m.rules, m.start)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	job, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	on, err := local.Load(job)
	if err != nil {
		t.Fatal(err)
	}
	offers, _ := on.Offers()
	p := pooled{t, job, *job, offers, on}
	p.remote.Cloud, p.remote.Block = "ec2", remoteBlock{}
	return p
}

// tier lets the planner choose one that holds this many models of this many bytes each. ok: it can.
func (p *pooled) tier(models int, bytes int64) (choice planner.Resolved, sizing planner.Sizing, ok bool) {
	p.Helper()
	choice, err := planner.Resolve(p.job, p.offers, p.on.Catalog)
	if err != nil {
		p.Fatal(err)
	}
	schema := &ps.Schema{Partitions: p.job.Train.Partitions, Splits: p.job.Train.Splits}
	for i := range models {
		schema.Tables = append(schema.Tables, ps.Table{Name: fmt.Sprintf("model-%d", i), Rows: uint64(max(bytes/4096, 1)), Cols: 1024})
	}
	work := float64(p.job.Resources.VCPU) * poolHours.Hours()
	sizing, err = planner.SizeReliable(&p.remote, &choice, p.on.Catalog, planner.ReliableNeed{Schema: schema, Work: work})
	return choice, sizing, err == nil
}

// sized lets the planner choose both tiers for models of this many bytes each.
func (p *pooled) sized(model int64) (s sized, ok bool) {
	p.Helper()
	own, sizing, ok1 := p.tier(1, model)
	all, _, ok2 := p.tier(poolJobs, model)
	if !ok1 || !ok2 {
		return s, false
	}
	cfg, _, err := sweep.ForJob(p.job, own, sweep.Content{Work: 1})
	if err != nil {
		p.Fatal(err)
	}
	s.job, s.pool, s.modelSize = sweep.OnEC2(cfg, poolHours), all.Reliable, model
	if apart := own.Reliable; apart.Type.OnDemand*market.USD(poolJobs*apart.Count) <= all.Reliable.Type.OnDemand*market.USD(all.Reliable.Count) {
		s.pool, s.pool.Count = apart, poolJobs*apart.Count // hosts of a job's own size, one for each slot
	}
	apart := float64(own.Reliable.Type.OnDemand) * float64(own.Reliable.Count)
	s.share = apart / float64(sweep.PerHour(&s.job))
	for jobs := 1; jobs <= poolJobs; jobs++ { // the best moment: this many are there at once
		least, one := packed(sizing.Options, p.job.Train.Partitions, jobs)
		s.most = max(s.most, 1-float64(least)/apart/float64(jobs))
		if jobs == poolJobs && one.Type.OnDemand*market.USD(one.Count) < s.pool.Type.OnDemand*market.USD(s.pool.Count) {
			s.pool = one // the planner prefers few machines, and counts the work that they do
		}
	}
	return s, true
}

// poolSpan is the time in which a job had its reliable tier.
type poolSpan struct{ from, to time.Time }

// poolRun simulates a job, and divides its bill by tiers.
func poolRun(t *testing.T, cfg sim.Config) (transient, reliable market.USD, had poolSpan, finished bool) {
	t.Helper()
	tier := map[string]string{}
	cfg.Record = func(e journal.Entry) {
		switch e.Kind {
		case journal.Launch:
			tier[e.Instance] = e.Tier
			if e.Tier == string(step.Reliable) && had.from.IsZero() {
				had.from = e.T
			}
		case journal.Charge:
			usd, err := market.ParseUSD(e.USD)
			if err != nil {
				t.Fatal(err)
			}
			if tier[e.Instance] == string(step.Reliable) {
				reliable += usd
			} else {
				transient += usd
			}
		}
	}
	r, err := sim.Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.Cost != transient+reliable {
		t.Fatalf("tiers cost %s and %s, the run %s", transient, reliable, r.Cost)
	}
	had.to = cfg.Start.Add(r.Runtime)
	return transient, reliable, had, r.Finished()
}

// hostBill returns what hosts cost of which each job has its part: as many are kept as the present jobs fill, and an unneeded one goes when its paid
// time ends.
func hostBill(host market.USD, hosts int, increment time.Duration, jobs []poolSpan) (bill market.USD) {
	increment = max(increment, time.Second)
	var edges []time.Time
	for _, j := range jobs {
		edges = append(edges, j.from, j.to)
	}
	slices.SortFunc(edges, time.Time.Compare)
	for n := range hosts {
		most := n*poolJobs/hosts + 1 // jobs from which host n is needed
		var from, to time.Time
		pay := func() {
			if !from.IsZero() {
				bill += host.For((to.Sub(from) + increment - 1) / increment * increment)
			}
		}
		for i := 0; i+1 < len(edges); i++ {
			there := 0
			for _, j := range jobs {
				if !j.from.After(edges[i]) && j.to.After(edges[i]) {
					there++
				}
			}
			switch paid := from.Add((to.Sub(from) + increment - 1) / increment * increment); {
			case there < most:
			case !from.IsZero() && !edges[i].After(paid):
				to = edges[i+1]
			default:
				pay()
				from, to = edges[i], edges[i+1]
			}
		}
		pay()
	}
	return bill
}

// Four jobs that share reliable hosts, against four with a reliable tier of their own each, in four markets and with models of two sizes: one for
// which the smallest machine will do, and one that forces a tier of 10 % of the fleet. The planner chooses all tiers: a job's own for its
// model, the pool's for four. `make pool-costs` runs it; DATA has the recordings.
func TestPoolCosts(t *testing.T) {
	starts, err := strconv.Atoi(os.Getenv("TIERML_POOL_STARTS"))
	if err != nil {
		t.Skip("make pool-costs runs it")
	}
	fmt.Println("| market, policy | model | a job's own tier, $/h (of the fleet) | the pool's tier, $/h | apart: mean $ of four (P95) | pool: mean $ (P95) | of the reliable tiers' cost saved | possible | not met |\n|---|---|---|---|---|---|---|---|---|")
	for _, m := range poolMarkets {
		if !strings.Contains(m.name, os.Getenv("TIERML_POOL_ONLY")) {
			continue
		}
		var sizes []sized
		p := m.load(t, os.Getenv("TIERML_POOL_DATA"), m.vcpu)
		if s, ok := p.sized(1 << 20); ok {
			sizes = append(sizes, s)
		}
		for model := int64(64 << 20); model < 1<<40; model += model / 4 {
			if s, ok := p.sized(model); ok && s.share >= forced {
				sizes = append(sizes, s)
				break
			}
		}
		for _, s := range sizes {
			for _, policy := range []bidding.Policy{bidding.TierML{}, bidding.CostPerWork{}} {
				s.row(t, m.name+", "+policy.Name(), sweep.WithPolicy(s.job, policy), starts)
			}
		}
	}
}

func (s sized) row(t *testing.T, name string, cfg sim.Config, count int) {
	t.Helper()
	begins, err := sweep.Starts{Count: count, Seed: 1}.Times(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	perHour := s.pool.Type.OnDemand * market.USD(s.pool.Count)
	slot := cfg
	slot.Reliable.Type.OnDemand = perHour / market.USD(poolJobs*slot.Reliable.Count) // what a slot costs, of hosts with four
	random := rand.New(rand.NewPCG(1, 4))
	var apart, pool []float64
	var own, hosts market.USD
	for _, begin := range begins {
		var a, p market.USD
		var spans []poolSpan
		whole := true
		var tier market.USD
		for range poolJobs {
			offset := time.Duration(random.Int64N(int64(poolWithin/time.Minute))) * time.Minute
			one, other := cfg, slot
			one.Start, other.Start = begin.Add(offset), begin.Add(offset)
			transient, reliable, _, finished := poolRun(t, one)
			a, tier, whole = a+transient+reliable, tier+reliable, whole && finished
			transient, _, had, finished := poolRun(t, other)
			p, spans, whole = p+transient, append(spans, had), whole && finished
		}
		if !whole { // a mean over unequal work compares nothing
			continue
		}
		bill := hostBill(s.pool.Type.OnDemand, s.pool.Count, cfg.Rules.Terms().Increment, spans)
		own, hosts = own+tier, hosts+bill
		apart, pool = append(apart, dollars(a)), append(pool, dollars(p+bill))
	}
	n := len(apart)
	if n == 0 {
		t.Errorf("%s: no start finished all jobs", name)
		return
	}
	aMean, aHigh, pMean, pHigh := mean(apart), p95(apart), mean(pool), p95(pool)
	saved := 1 - dollars(hosts)/dollars(own)
	row := name + ", " + planner.Bytes(s.modelSize)
	fleet := func(f planner.Fleet) string {
		return fmt.Sprintf("%d %s, %.3f", f.Count, f.Type.Name, dollars(f.Type.OnDemand)*float64(f.Count))
	}
	missed := "" // a finding about the market and the catalog, not a fault of the program; but what the page says to be met stays met
	if pMean > aMean || pHigh > aHigh {
		if missed = "no dearer"; count >= pageStarts && !slices.Contains(dearer, row) {
			t.Errorf("%s: $%.2f (%.2f) in place of %.2f (%.2f), and lab/papers/measured.md says that it is no dearer", row, pMean, pHigh, aMean, aHigh)
		}
	}
	if s.share >= forced && saved < 0.5 {
		missed = strings.TrimPrefix(missed+", half saved", ", ")
	}
	fmt.Printf("| %s | %s | %s (%.1f %%) | %s | %.2f (%.2f) | %.2f (%.2f) | %.0f %% | %.0f %% | %s |\n", name, planner.Bytes(s.modelSize),
		fleet(planner.Fleet(cfg.Reliable)), 100*s.share, fleet(s.pool), aMean, aHigh, pMean, pHigh, 100*saved, 100*s.most, missed)
	if n < count {
		t.Errorf("%s: %d of %d starts finished all jobs", name, n, count)
	}
}

// The first table of the economics: the demo's job with a reliable machine of its own, at a quarter of its price, and without one.
func TestQuarterOfAReliableMachine(t *testing.T) {
	starts, err := strconv.Atoi(os.Getenv("TIERML_POOL_STARTS"))
	if err != nil {
		t.Skip("make pool-costs runs it")
	}
	fmt.Println("| mean $ (P95) | own c3.4xlarge | a quarter of its price | checkpoint |\n|---|---|---|---|")
	for _, row := range []struct {
		name, policy string
		hours        []time.Duration
	}{{"demo timing, tierml", "tierml", nil}, {"8 hours, tierml", "tierml", []time.Duration{poolHours}}, {"8 hours, cost-per-work", "cost-per-work", []time.Duration{poolHours}}} {
		own := demo(t)
		own.MaxDuration, own.Faults, own.Deadline = 5*24*time.Hour, nil, time.Time{}
		quarter := own
		quarter.Reliable.Type.OnDemand /= poolJobs
		line := "| " + row.name
		for _, run := range []struct {
			job    sim.Config
			policy string
		}{{own, row.policy}, {quarter, row.policy}, {own, "checkpoint"}} {
			rows, err := sweep.Run(t.Context(), sweep.Experiment{Job: run.job, Policies: []string{run.policy}, Hours: row.hours, Starts: sweep.Starts{Count: starts, Seed: 1}}, func(int, int) {})
			if err != nil {
				t.Fatal(err)
			}
			s := sweep.Summarize(rows)[0]
			line += fmt.Sprintf(" | %.2f (%.2f)", s.CostMean, s.CostP95)
			if s.Finished < cmp.Or(s.Compared, 1) || s.Finished < starts {
				line += fmt.Sprintf(", %d of %d finished", s.Finished, starts)
			}
		}
		fmt.Println(line + " |")
	}
}

// demo returns the demo's job with its declared reliable machine.
func demo(t *testing.T) sim.Config {
	t.Helper()
	job, err := config.Load("../../sim/sweep/testdata/replays/demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	on, err := local.Load(job)
	if err != nil {
		t.Fatal(err)
	}
	offers, _ := on.Offers()
	choice, err := planner.Resolve(job, offers, on.Catalog)
	if err != nil {
		t.Fatal(err)
	}
	const work = 5_049_036 // of a clock
	cfg, skipped, err := sweep.ForJob(job, choice, sweep.Content{Work: work * float64(job.Train.Clocks)})
	if err != nil || len(skipped) > 0 {
		t.Fatal(err, skipped)
	}
	return cfg
}
