package sweep

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/sim"
)

// The guarantees wherever on-demand machines can be bought, whatever spot prices do: every start finishes, no run pays for machines that
// wait for others, no run costs more than dearest times the same work on on-demand machines by the same rules, and the policy deadline
// meets every feasible deadline. Tested on random markets, including the characters of characters_test.go, and on all recordings that are
// present; `make guarantees` tests more.

// guaranteesWanted returns how many starts of each market to test, 0 = as few as a build's tests need, and a seed.
func guaranteesWanted() (starts int, seed uint64) {
	starts, _ = strconv.Atoi(os.Getenv("TIERML_GUARANTEES"))
	seed, _ = strconv.ParseUint(os.Getenv("TIERML_GUARANTEES_SEED"), 10, 64)
	return starts, seed
}

// TestGuaranteesOnRandomMarkets needs no data.
func TestGuaranteesOnRandomMarkets(t *testing.T) {
	n, seed := guaranteesWanted()
	var runs []guarantee
	for i := range max(n, 2) {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		runs = append(runs, drawGuarantees(r, drawnCell(t, r), 4)...)
	}
	checkGuarantees(t, runs)
}

// TestGuaranteesOnRecordings: recordings are not shipped.
func TestGuaranteesOnRecordings(t *testing.T) {
	n, seed := guaranteesWanted()
	data, most := "../../../shared/data", 1
	if folder := os.Getenv("TIERML_GUARANTEES_DATA"); folder != "" {
		data, most = folder, 5
	}
	looked := 0
	for i, r := range recordings {
		file := filepath.Join(data, "spot", r[0]+".csv.gz")
		if _, err := os.Stat(file); err != nil {
			continue
		}
		all := pairs(t, file, filepath.Join(data, "catalog", "aws-ondemand-linux-"+r[1]+".csv.gz"))
		slices.SortStableFunc(all, func(a, b cell) int { return b.crossings - a.crossings })
		for k, c := range spread(all, most) {
			runs := drawGuarantees(rand.New(rand.NewPCG(seed, uint64(100*i+k))), c, max(n, 1))
			looked += len(runs)
			checkGuarantees(t, runs)
		}
	}
	if looked == 0 {
		t.Skip("no recordings there: TIERML_GUARANTEES_DATA names the folder that has spot/ and catalog/")
	}
}

// guarantee is one run to test.
type guarantee struct {
	market string
	cfg    sim.Config
	late   time.Duration // beyond the least time that the deadline must leave
	demand market.USD    // what a run on demand costs from the same start
	when   float64       // when the adversary strikes, from 0 to 1: see run
}

// pairs returns all pairs of pools with adjacent prices in one zone, of any types.
func pairs(t *testing.T, traceFile, catalogFile string) (out []cell) {
	t.Helper()
	rules, err := market.Rules("ec2-2017")
	if err != nil {
		t.Fatal(err)
	}
	zones := map[string]bidding.Candidate{}
	for _, p := range recordedPools(t, traceFile, catalogFile) {
		if before, ok := zones[p.Pool.Zone]; ok {
			a, b := before, p
			if b.Type.OnDemand < a.Type.OnDemand {
				a, b = b, a
			}
			out = append(out, cell{name: filepath.Base(traceFile) + " " + p.Pool.Zone + " " + a.Type.Name + " " + b.Type.Name,
				crossings: crossings(a) + crossings(b), job: cellJob(rules, a, b)})
		}
		zones[p.Pool.Zone] = p
	}
	return out
}

// drawnCell returns a market of two pools over ten days, whose prices cross the on-demand price often or seldom, for seconds or days.
func drawnCell(t *testing.T, r *rand.Rand) cell {
	t.Helper()
	rules, err := market.Rules([]string{"ec2-2017", "ec2-now"}[r.IntN(2)])
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	var pools [2]bidding.Candidate
	for i := range pools {
		kind := market.InstanceType{Name: fmt.Sprintf("m%d.large", i), VCPU: 2 << i, OnDemand: market.Dollar / 10 << i}
		if r.IntN(3) == 0 {
			kind.Rate = float64(kind.VCPU) * (0.7 + 0.6*r.Float64())
		}
		var points []market.PricePoint
		spell := math.Exp(r.Float64() * 10) // seconds to hours
		for at := begin; at.Before(begin.Add(10 * 24 * time.Hour)); {
			points = append(points, market.PricePoint{At: at, Price: market.USD(float64(kind.OnDemand) * math.Exp(1.5*r.NormFloat64()-0.8))})
			at = at.Add(3*time.Minute + time.Duration((spell+30)*r.ExpFloat64()*float64(time.Second)))
		}
		pools[i] = bidding.Candidate{Type: kind, History: market.NewHistory(points),
			Pool: market.Pool{Provider: "ec2", Region: "us-east-1", Zone: "us-east-1a", Type: kind.Name, Class: market.Spot}}
	}
	return cell{name: "drawn", job: cellJob(rules, pools[:]...)}
}

// drawGuarantees draws starts of a market, with lengths, checkpoint costs and deadlines: one for each policy, and as many again for
// deadline.
func drawGuarantees(r *rand.Rand, c cell, starts int) (runs []guarantee) {
	for range starts {
		compute := time.Duration((0.25 + 11*r.Float64()*r.Float64()) * float64(time.Hour))
		cfg := OnEC2(c.job, compute)
		cfg.Reliable = elasticity.Reliable{}
		cfg.Checkpoints = sim.Checkpoints{
			Model: math.Exp(16 + 8*r.Float64()), Bandwidth: 100e6, Overhead: []float64{0, 0, 0.17}[r.IntN(3)], // up to 26 GB
			Every: time.Duration(1+r.IntN(30)) * time.Minute,
		}
		vary(r, &cfg, c.job.Reliable)
		first, last := window(&cfg)
		if last.Before(first) {
			return runs
		}
		cfg.Start = first.Add(time.Duration(r.Int64N(int64(last.Sub(first)) + 1)).Truncate(time.Second))
		demand := onDemandRun(cfg)
		for _, name := range guaranteed() {
			policy, err := bidding.ByName(name)
			if err != nil {
				panic(err)
			}
			g := guarantee{market: c.name, cfg: WithPolicy(cfg, policy), when: r.Float64(), demand: demand}
			if _, byRestart := policy.(bidding.ByRestart); byRestart {
				g.late = time.Duration(r.Float64() * r.Float64() * float64(compute))
				g.cfg.Deadline = cfg.Start.Add(leastTime(&g.cfg) + g.late)
			}
			runs = append(runs, g)
		}
	}
	return runs
}

// dearest is the most that a run may cost, as a multiple of its cost on demand.
const dearest = 1.5

// onDemandRun returns what a run costs on demand: the cheapest fleet for the work, from its start to the end of billing. State is loaded
// and saved once, as with any storage.
func onDemandRun(cfg sim.Config) market.USD {
	save, restart := cfg.Checkpoints.Times(cfg.Timing)
	cfg = WithPolicy(cfg, bidding.OnDemand{})
	cfg.PerHour, cfg.Deadline = 0, time.Time{}
	cfg.Job.Work += fleetRate(&cfg) * (save + restart).Seconds()
	r, err := sim.Run(cfg)
	if err != nil || !r.Finished() {
		panic(fmt.Sprint("a run on demand: ", err, r.Outcome))
	}
	return r.Cost
}

// vary draws further options of a job: a reliable tier, pools that the provider chooses among, an hourly limit with room for little more
// than the fleet on demand; and how long things take.
func vary(r *rand.Rand, cfg *sim.Config, reliable elasticity.Reliable) {
	if r.IntN(3) == 0 {
		cfg.Reliable = reliable
	}
	cfg.Allocation = []provisioner.Allocation{"", provisioner.PriceCapacityOptimized, provisioner.CapacityOptimized}[r.IntN(3)]
	if r.IntN(3) == 0 {
		fleet := cfg.Equivalent.Type.OnDemand*market.USD(cfg.Equivalent.Count) + 2*cfg.Reliable.Type.OnDemand*market.USD(cfg.Reliable.Count)
		cfg.PerHour = fleet + fleet/(bidding.Margin-1) + market.USD(1.5*r.Float64()*r.Float64()*float64(fleet)) + 1
	}
	if r.IntN(2) == 0 {
		seconds := func(most int) time.Duration { return time.Duration(r.IntN(most+1)) * time.Second }
		t := &cfg.Timing
		t.Launch, t.Boot, t.PriceLag, t.EndLag, t.NoticeLag = seconds(60), seconds(8*60), seconds(60), seconds(90), seconds(90)
		cfg.Settings.Startup = t.Launch + t.Boot + cfg.Settings.Begin // the job knows how slow its machines are
		cfg.Settings.Lag = t.Reply + t.EndLag + t.PriceLag
	}
}

// guaranteed returns the policies to try.
func guaranteed() []string {
	if some := strings.Fields(os.Getenv("TIERML_GUARANTEES_POLICIES")); len(some) > 0 {
		return some
	}
	return bidding.Names()
}

// leastTime returns what a deadline must leave: a changeover, the work on the cheapest fleet on demand, the last checkpoint, the end of the
// machines, and rounding.
func leastTime(cfg *sim.Config) time.Duration {
	t := cfg.Timing
	save, restart := cfg.Checkpoints.Times(t)
	var best *bidding.Candidate
	for i := range cfg.Pools {
		p := &cfg.Pools[i]
		if p.OnDemand() && (best == nil || float64(p.Type.OnDemand)*best.Type.WorkRate() < float64(best.Type.OnDemand)*p.Type.WorkRate()) {
			best = p
		}
	}
	machines := (cfg.Want.VCPU + best.Type.VCPU - 1) / best.Type.VCPU
	change := t.Launch + t.Boot + restart
	work := cfg.Job.Work / (float64(machines) * best.Type.WorkRate() * cfg.FLOPSPerVCPU)
	return change + change/50 + 12*time.Second + time.Duration(work*float64(time.Second)) + save + cfg.Settings.Lag
}

// checkGuarantees executes the runs, on all cores.
func checkGuarantees(t *testing.T, runs []guarantee) {
	t.Helper()
	var all sync.WaitGroup
	var dear dearness
	next := make(chan *guarantee)
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for g := range next {
				if wrong := g.run(&dear); wrong != "" {
					c := &g.cfg
					t.Errorf("%s, %s, %s from %s: %s (%+v, reliable %d, %q, limit $%s, %+v)", g.market, c.Rules.Name(), c.Policy.Name(),
						c.Start.Format(time.RFC3339), wrong, c.Checkpoints, c.Reliable.Count, c.Allocation, c.PerHour, c.Timing)
				}
			}
		})
	}
	for i := range runs {
		next <- &runs[i]
	}
	close(next)
	all.Wait()
	t.Logf("%s: %d runs; %s", runs[0].market, len(runs), dear.String())
}

// dearness compares the runs' costs with those on demand.
type dearness struct {
	mu       sync.Mutex
	over     []float64
	worst    float64
	worstRun string
}

func (d *dearness) add(g *guarantee, cost market.USD) (over float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	over = float64(cost) / float64(g.demand)
	if d.over = append(d.over, over); over > d.worst {
		d.worst, d.worstRun = over, g.cfg.Policy.Name()
	}
	return over
}

func (d *dearness) String() string {
	above := 0
	for _, x := range d.over {
		if x > 1 {
			above++
		}
	}
	return fmt.Sprintf("%d dearer than on demand, at most %.3f times (%s)", above, d.worst, d.worstRun)
}

// run executes a run and reports what is wrong with it. A run that would leave its spot machines to meet the deadline is repeated with an
// adversary that reclaims them without notice: shortly before, or when their replacements are there and wait for a checkpoint. Only the first
// run counts for the cost: the fleet on demand does not meet the same faults.
func (g *guarantee) run(dear *dearness) string {
	wrong, left, cost := g.once()
	if over := dear.add(g, cost); wrong == "" && over > dearest {
		wrong = fmt.Sprintf("$%s, %.2f times the $%s of a run on demand", cost, over, g.demand)
	}
	for i, at := range left {
		if wrong != "" || i == 3 {
			break
		}
		if t := g.cfg.Timing; g.when < 0.2 {
			at -= time.Duration(g.when * float64(time.Minute))
		} else {
			save, _ := g.cfg.Checkpoints.Times(t)
			at += t.Launch + t.Boot + time.Duration(g.when*float64(save+5*time.Second))
		}
		g.cfg.Faults = []sim.Fault{{At: at, Do: sim.EvictNow, Target: "all"}}
		if wrong, _, _ = g.once(); wrong != "" {
			wrong += fmt.Sprintf(", its spot machines being taken %s after the start", at)
		}
	}
	return wrong
}

// once also reports when spot machines were replaced by on-demand ones to meet the deadline.
func (g *guarantee) once() (wrong string, left []time.Duration, cost market.USD) {
	cfg, idle := g.cfg, idleness{alive: map[string]time.Time{}}
	cfg.Worked = idle.worked
	cfg.Record, cfg.Policy = func(e journal.Entry) {
		idle.add(e)
		if e.Kind == journal.Intent && strings.HasPrefix(e.Why, "safety net: losing") {
			left = append(left, e.T.Sub(cfg.Start))
		}
	}, caching(cfg.Policy, newRecollection(48*time.Hour))
	r, err := sim.Run(cfg)
	switch {
	case err != nil:
		return err.Error(), left, 0
	case !r.Finished():
		return fmt.Sprintf("%s after %s, at a cost of $%s; on demand it is $%s", r.Outcome, r.Runtime, r.Cost, OnDemandCost(&cfg)), left, r.Cost
	case cfg.Policy.Name() == "deadline" && cfg.Start.Add(r.Runtime).After(cfg.Deadline):
		return fmt.Sprintf("late by %s; the deadline left %s more than it must", cfg.Start.Add(r.Runtime).Sub(cfg.Deadline), g.late), left, r.Cost
	}
	if wait, until := idle.longest(); wait > longestIdle {
		return fmt.Sprintf("machines waited for %s until %s", wait, until.Format(time.RFC3339)), left, r.Cost
	}
	return "", left, r.Cost
}

// longestIdle is how long machines may wait: for others to start, and until the end of a paid hour.
const longestIdle = time.Hour + 30*time.Minute

// span is a time from one instant to another.
type span struct{ from, to time.Time }

// idleness measures how long paid machines waited while no machine worked.
type idleness struct {
	alive       map[string]time.Time // since when each machine runs
	lives, work []span               // of machines that have ended; and when machines worked
	last        time.Time            // of the last event
}

func (i *idleness) worked(from, to time.Time) { i.work = append(i.work, span{from, to}) }

func (i *idleness) add(e journal.Entry) {
	i.last = e.T
	switch e.Kind {
	case journal.Launch:
		i.alive[e.Instance] = e.T
	case journal.Terminated, journal.Evicted, journal.Failed:
		if since, ok := i.alive[e.Instance]; ok {
			i.lives = append(i.lives, span{since, e.T})
			delete(i.alive, e.Instance)
		}
	}
}

// longest returns the longest wait, and its end.
func (i *idleness) longest() (wait time.Duration, until time.Time) {
	for _, since := range i.alive {
		i.lives = append(i.lives, span{since, i.last})
	}
	slices.SortFunc(i.work, func(a, b span) int { return a.from.Compare(b.from) })
	gap := func(from, to time.Time) {
		if to.Sub(from) <= wait {
			return // not the longest
		}
		for _, l := range i.lives {
			begin, end := from, to
			if l.from.After(begin) {
				begin = l.from
			}
			if l.to.Before(end) {
				end = l.to
			}
			if end.Sub(begin) > wait {
				wait, until = end.Sub(begin), end
			}
		}
	}
	var done time.Time
	for _, w := range i.work {
		if gap(done, w.from); w.to.After(done) {
			done = w.to
		}
	}
	gap(done, i.last)
	return wait, until
}

// TestIdlenessSeesWork: a machine waits only while it runs and no machine works.
func TestIdlenessSeesWork(t *testing.T) {
	begin := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return begin.Add(time.Duration(minutes) * time.Minute) }
	idle := idleness{alive: map[string]time.Time{}}
	idle.add(journal.Entry{Kind: journal.Launch, Instance: "a", T: at(0)})
	idle.worked(at(50), at(60))
	idle.worked(at(5), at(100)) // a long one ends later than those it covers
	idle.add(journal.Entry{Kind: journal.Evicted, Instance: "a", T: at(120)})
	idle.add(journal.Entry{Kind: journal.Launch, Instance: "b", T: at(180)})
	idle.worked(at(205), at(300))
	idle.add(journal.Entry{Kind: journal.Terminated, Instance: "b", T: at(310)})
	if wait, until := idle.longest(); wait != 25*time.Minute || !until.Equal(at(205)) {
		t.Errorf("a wait of %s until %s", wait, until)
	}
}
