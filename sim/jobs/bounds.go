package jobs

import (
	"container/heap"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sched"
)

// needs is the least that some clocks of a job take, under any scheduler.
type needs struct {
	seconds float64         // with the best numbers, on dedicated hosts
	area    sched.Resources // seconds of each kind of resource, with the numbers that need the least
}

// sizes finds the best numbers for jobs of one kind.
type sizes struct {
	demand string
	clock  sched.Fit
	asked  [5]int
}

// bounder caches the needs of a clock by kind of job: a sweep's trials are of one kind.
type bounder struct {
	total sched.Resources
	known map[sizes]needs
}

// mostSize bounds the search if a job has no limit.
const mostSize = 1024

// of returns what one clock of a job needs.
func (b *bounder) of(j *Script) needs {
	key := sizes{string(appendKey(nil, j.Demand)), j.Clock, [5]int{j.Servers, j.Overhead, j.LeastWorkers, j.MostWorkers, 0}}
	if n, ok := b.known[key]; ok {
		return n
	}
	units := mostSize
	for k, v := range j.Demand {
		if v > 0 {
			units = min(units, int(b.total[k]/v+1e-9))
		}
	}
	n := needs{seconds: math.Inf(1)}
	least := math.Inf(1)
	leastWorkers, leastServers := j.least()
	for w := leastWorkers; w+leastServers+j.Overhead <= units && (j.MostWorkers == 0 || w <= j.MostWorkers); w++ {
		for s := leastServers; w+s+j.Overhead <= units; s++ {
			seconds := j.Clock.Seconds(w, s)
			n.seconds = min(n.seconds, seconds)
			least = min(least, seconds*float64(w+s+j.Overhead))
			if j.Servers == 0 {
				break
			}
		}
	}
	for _, v := range j.Demand {
		n.area = append(n.area, v*least)
	}
	b.known[key] = n
	return n
}

func appendKey(key []byte, r sched.Resources) []byte {
	for _, v := range r {
		bits := math.Float64bits(v)
		for range 8 {
			key = append(key, byte(bits))
			bits >>= 8
		}
	}
	return key
}

// LeastTimes returns a lower bound of the mean time from arrival until each job has done a number of clocks, on hosts
// with these total resources: the greater of the jobs' times alone, and the result of shortest remaining work first on
// a single machine that serves one job at a time with all of a resource, which no schedule undercuts (a job cannot use
// less than its least area).
func LeastTimes(total sched.Resources, jobs []*Script, clocks func(*Script) float64) float64 {
	if len(jobs) == 0 {
		return math.NaN()
	}
	b := &bounder{total: total, known: map[sizes]needs{}}
	alone := 0.
	for _, j := range jobs {
		alone += b.of(j).seconds * clocks(j)
	}
	best := alone
	for k, v := range total {
		if v <= 0 {
			continue
		}
		var work []portion
		for _, j := range jobs {
			work = append(work, portion{j.Arrives, b.of(j).area[k] * clocks(j) / v})
		}
		best = max(best, shortestFirst(work))
	}
	return best / float64(len(jobs))
}

// portion is work that arrives at a time.
type portion struct{ arrives, left float64 }

// shortestFirst returns the sum of times in the system on one machine that always works on the portion with the least
// work left.
func shortestFirst(work []portion) float64 {
	slices.SortStableFunc(work, func(a, b portion) int {
		switch {
		case a.arrives < b.arrives:
			return -1
		case a.arrives > b.arrives:
			return 1
		}
		return 0
	})
	var queue portions
	now, sum := 0., 0.
	for i := 0; i < len(work) || len(queue) > 0; {
		if len(queue) == 0 {
			now = max(now, work[i].arrives)
		}
		for i < len(work) && work[i].arrives <= now {
			heap.Push(&queue, work[i])
			i++
		}
		until := now + queue[0].left
		if i < len(work) && work[i].arrives < until {
			queue[0].left -= work[i].arrives - now
			now = work[i].arrives
			continue
		}
		now = until
		sum += now - queue[0].arrives
		heap.Pop(&queue)
	}
	return sum
}

type portions []portion

func (p portions) Len() int           { return len(p) }
func (p portions) Less(a, b int) bool { return p[a].left < p[b].left }
func (p portions) Swap(a, b int)      { p[a], p[b] = p[b], p[a] }
func (p *portions) Push(x any)        { *p = append(*p, x.(portion)) }
func (p *portions) Pop() any {
	last := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return last
}

// LeastDollars returns a lower bound of the cost of a run's machines, without reliable ones: each job's least vCPU
// hours at the lowest price of a vCPU between its arrival and its end in that run, ignoring that interrupted hours may
// be free.
func (m *Market) LeastDollars(r *Result) market.USD {
	hours := m.lowest(r.End)
	b := &bounder{total: sched.Resources{float64(m.Most)}, known: map[sizes]needs{}}
	sum := 0.
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		if !o.Finished() {
			continue
		}
		least := math.Inf(1)
		for h := int(o.Job.Arrives / 3600); h <= int(o.Ended/3600) && h < len(hours); h++ {
			least = min(least, hours[h])
		}
		sum += least * b.of(o.Job).area[0] * o.Job.Total / 3600
	}
	return market.USD(math.Floor(sum))
}

// lowest returns the lowest price of a vCPU hour within each hour, in billionths of a dollar.
func (m *Market) lowest(seconds float64) []float64 {
	hours := make([]float64, int(seconds/3600)+1)
	for h := range hours {
		hours[h] = math.Inf(1)
		if m.Policy == nil {
			hours[h] = perVCPU(m.OnDemand.Type.OnDemand, m.OnDemand.Type)
			continue
		}
		from := m.Start.Add(time.Duration(h) * time.Hour)
		for i := range m.Pools {
			hours[h] = min(hours[h], cheapest(&m.Pools[i], from, from.Add(time.Hour)))
		}
	}
	return hours
}

func cheapest(c *bidding.Candidate, from, to time.Time) float64 {
	if c.OnDemand() {
		return perVCPU(c.Type.OnDemand, c.Type)
	}
	least := math.Inf(1)
	if price, known := c.History.At(from); known {
		least = perVCPU(price, c.Type)
	}
	for _, p := range c.History.Points(from, to) {
		least = min(least, perVCPU(p.Price, c.Type))
	}
	return least
}

func perVCPU(price market.USD, t market.InstanceType) float64 {
	return float64(price) / float64(max(t.VCPU, 1))
}

func dollars(u market.USD) float64 { return float64(u) / float64(market.Dollar) }
