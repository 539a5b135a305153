package sweep

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/sim"
)

// Deadlines compares policies on jobs with deadlines, on recordings of machines' availability: every policy with
// every slack and changeover on every recording, from many starts.
type Deadlines struct {
	Recordings  []Recording
	Policies    []string
	Work        time.Duration // per job, on its fleet
	Slacks      []float64     // deadlines, in multiples of the work
	Changeovers []time.Duration
	Rules       market.RuleBook
	// Together makes all recordings pools of one job, which may use machines of any. Otherwise each
	// recording is the only pool of its own jobs.
	Together bool
	// State is the size of a job's state in bytes, which another region fetches when the job moves there. The
	// changeover includes the time for that.
	State int64
	// Starts is the number of starts tried on each recording, spread over it; 0 = every tick.
	Starts int
	Seed   uint64
}

// Recording is the record of one pool over a period.
type Recording struct {
	Name  string
	Pool  market.Pool
	Type  market.InstanceType
	Every time.Duration // between ticks
	// Availability is for a fleet of Machines.
	Availability *market.Availability
	Machines     int
	Prices       *market.History // per machine
}

// Cell is one policy with one slack and changeover on one recording, over all starts. Costs are in hours of the fleet
// on demand: the work itself costs as many as it takes.
type Cell struct {
	Recording  string  `json:"recording"`
	Slack      float64 `json:"slack"`      // the deadline, in multiples of the work
	Changeover float64 `json:"changeover"` // hours
	Policy     string  `json:"policy"`
	Rules      string  `json:"rules"`
	Work       float64 `json:"work"` // hours
	Starts     int     `json:"starts"`
	Missed     int     `json:"missed"` // missed deadlines
	CostMean   float64 `json:"cost_mean"`
	CostSD     float64 `json:"cost_sd"`
	CostP95    float64 `json:"cost_p95"`
	Machines   float64 `json:"machines_mean"` // machines bought, per machine of the fleet
	Evictions  float64 `json:"evictions_mean"`
	Egress     float64 `json:"egress_mean"` // part of the cost: transfer of state between regions
}

// deadlineTask is a series of consecutive starts of a cell.
type deadlineTask struct {
	cfg    sim.Config
	hour   float64 // hourly on-demand cost of the fleet
	cell   int
	starts []time.Time
	first  int // index in the cell's starts
}

// deadlineBlock is how many starts a worker takes at a time: within a day, they rest on much the same strategies.
const deadlineBlock = 1024

// Run returns the cells in the order of recordings, changeovers, slacks and policies, for any number of cores. A
// recording that is too short for a deadline has no cell for it. Progress is called from several goroutines.
func (d Deadlines) Run(ctx context.Context, progress func(done, total int)) ([]Cell, error) {
	cells, tasks, err := d.tasks()
	if err != nil {
		return nil, err
	}
	total := 0
	costs := make([][]float64, len(cells))
	for i := range cells {
		costs[i] = make([]float64, cells[i].Starts)
		total += cells[i].Starts
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next, finished atomic.Int64
	var mu sync.Mutex // guards cells
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(tasks)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(tasks)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				part, err := tasks[i].run(ctx, costs[tasks[i].cell][tasks[i].first:], func() { progress(int(finished.Add(1)), total) })
				if err != nil {
					stop(err)
					return
				}
				mu.Lock()
				cells[tasks[i].cell].add(part)
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for i := range cells {
		c := &cells[i]
		c.CostMean, c.CostSD, _, _, c.CostP95 = distribution(costs[i])
		c.Machines /= float64(c.Starts)
		c.Evictions /= float64(c.Starts)
		c.Egress /= float64(c.Starts)
	}
	return cells, nil
}

func (c *Cell) add(part Cell) {
	c.Missed += part.Missed
	c.Machines += part.Machines
	c.Evictions += part.Evictions
	c.Egress += part.Egress
}

// run simulates a task's starts, fills in their costs and returns the sums of the rest.
func (t *deadlineTask) run(ctx context.Context, costs []float64, done func()) (part Cell, err error) {
	if _, ok := t.cfg.Policy.(bidding.Deadline); ok {
		t.cfg.Policy = bidding.Deadline{Known: bidding.NewStrategies()}
	}
	slack := t.cfg.Deadline.Sub(t.cfg.Start)
	for i, start := range t.starts {
		if ctx.Err() != nil {
			return part, nil
		}
		cfg := t.cfg
		cfg.Start, cfg.Deadline = start, start.Add(slack)
		r, err := sim.Run(cfg)
		if err != nil {
			return part, err
		}
		if !r.Finished() || r.Runtime > slack {
			part.Missed++
		}
		part.Machines += float64(r.Machines) / float64(cfg.Want.Machines)
		part.Evictions += float64(r.Evictions) / float64(cfg.Want.Machines)
		part.Egress += dollars(r.Moved) / t.hour
		costs[i] = dollars(r.Cost) / t.hour
		done()
	}
	return part, nil
}

func (d Deadlines) tasks() (cells []Cell, tasks []deadlineTask, err error) {
	markets, err := d.markets()
	if err != nil {
		return nil, nil, err
	}
	for _, m := range markets {
		for _, change := range d.Changeovers {
			for _, slack := range d.Slacks {
				starts := d.starts(m, slack)
				if len(starts) == 0 {
					continue
				}
				for _, name := range d.Policies {
					policy, err := bidding.ByName(name)
					if err != nil {
						return nil, nil, err
					}
					cfg := d.config(m, policy, slack, change)
					for n, chunk := range slices.Collect(slices.Chunk(starts, deadlineBlock)) {
						tasks = append(tasks, deadlineTask{cfg: cfg, cell: len(cells), starts: chunk, first: n * deadlineBlock,
							hour: dollars(m[0].Type.OnDemand) * float64(m[0].Machines)})
					}
					cells = append(cells, Cell{Recording: nameOf(m), Slack: slack, Changeover: change.Hours(), Policy: name,
						Rules: d.Rules.Name(), Work: d.Work.Hours(), Starts: len(starts)})
				}
			}
		}
	}
	if len(cells) == 0 {
		return nil, nil, fmt.Errorf("no recording is as long as a deadline of %s", d.Work)
	}
	return cells, tasks, nil
}

// markets returns, for each job, the recordings that are its pools.
func (d Deadlines) markets() (out [][]Recording, err error) {
	for i := range d.Recordings {
		r := &d.Recordings[i]
		if r.Machines < 1 {
			return nil, fmt.Errorf("%s: no machine could ever be had", r.Name)
		}
		for _, other := range d.Recordings[:i] {
			switch {
			case !d.Together:
			case other.Pool == r.Pool:
				return nil, fmt.Errorf("%s and %s are recordings of one pool, %s", other.Name, r.Name, r.Pool)
			case other.Machines != r.Machines:
				return nil, fmt.Errorf("%s is about %d machines, %s about %d", other.Name, other.Machines, r.Name, r.Machines)
			}
		}
		out = append(out, d.Recordings[i:i+1])
	}
	if d.Together {
		return [][]Recording{d.Recordings}, nil
	}
	return out, nil
}

func nameOf(m []Recording) string {
	if len(m) == 1 {
		return m[0].Name
	}
	return fmt.Sprintf("%d pools", len(m))
}

// starts returns the ticks at which a job may start with its deadline within all recordings.
func (d Deadlines) starts(m []Recording, slack float64) (out []time.Time) {
	var first, end time.Time
	for i := range m {
		begin, ok := m[i].Availability.First()
		if !ok {
			return nil
		}
		if begin.At.After(first) {
			first = begin.At
		}
		if over := m[i].Availability.End(); end.IsZero() || over.Before(end) {
			end = over
		}
	}
	room, every := end.Sub(first)-time.Duration(slack*float64(d.Work)), m[0].Every
	if room < 0 {
		return nil
	}
	ticks := int(room/every) + 1
	if d.Starts == 0 || d.Starts >= ticks {
		for i := range ticks {
			out = append(out, first.Add(time.Duration(i)*every))
		}
		return out
	}
	random := rand.New(rand.NewPCG(d.Seed, 3))
	for i := range d.Starts {
		from, to := i*ticks/d.Starts, (i+1)*ticks/d.Starts
		out = append(out, first.Add(time.Duration(from+random.IntN(to-from))*every))
	}
	return out
}

// config returns the simulation of one cell. A clock is a second: partial work counts. On-demand machines are those of
// each region's first recording. As in Can't Be Late (NSDI 24, section 3.1), a fleet starts work a changeover after it
// was bought, including the loss of unsaved work, and everything else takes no time.
func (d Deadlines) config(m []Recording, policy bidding.Policy, slack float64, change time.Duration) sim.Config {
	r := &m[0]
	var pools []bidding.Candidate
	sold := map[string]bool{} // on demand, by region
	for _, r := range m {
		if demand := r.Pool; !sold[demand.Region] {
			sold[demand.Region] = true
			demand.Class = market.OnDemand
			pools = append(pools, bidding.Candidate{Pool: demand, Type: r.Type, History: market.Constant(r.Type.OnDemand)})
		}
		pools = append(pools, bidding.Candidate{Pool: r.Pool, Type: r.Type, History: r.Prices, Availability: r.Availability})
	}
	slices.SortFunc(pools, func(a, b bidding.Candidate) int { return a.Pool.Compare(b.Pool) })
	first, _ := r.Availability.First()
	deadline := time.Duration(slack * float64(d.Work))
	return sim.Config{
		Checkpoints: sim.Checkpoints{Model: float64(d.State)},
		Name:        nameOf(m), Seed: d.Seed, Start: first.At, Policy: policy, Rules: d.Rules, Continuous: true,
		Job: sim.Workload{Clocks: ps.Clock(max(d.Work/time.Second, 1)), Splits: 1, Partitions: 1,
			Work: d.Work.Seconds() * float64(r.Machines) * r.Type.WorkRate()},
		Want: bidding.Want{Machines: r.Machines}, Pools: pools, FLOPSPerVCPU: 1, Timing: sim.Timing{Speed: 1, Boot: change},
		Settings: tempo.Settings{
			Speed: 1, Startup: change, BootWithin: 2*change + 10*time.Minute, RetryCapacity: 10 * time.Minute, PlanEvery: 24 * time.Hour,
		},
		Deadline: first.At.Add(deadline), Horizon: 2*deadline + 24*time.Hour,
	}
}
