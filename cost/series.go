package cost

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// maxLossPoints limits the loss series: a chart cannot show more.
const maxLossPoints = 600

// addSeries adds the data for charts.
func (l *Ledger) addSeries(r *Report, paid *meter, asOf time.Time) {
	r.Series = Series{Prices: []PriceSeries{}, Machines: l.machineSteps(asOf), Loss: []LossPoint{}, Tuning: l.tuning}
	for _, pool := range l.prices.pools() {
		series := PriceSeries{Pool: pool.String(), Steps: []PriceStep{}}
		for _, p := range l.prices.between(pool, l.first, asOf) {
			series.Steps = append(series.Steps, PriceStep{p.At, dollars(p.Price)})
		}
		r.Series.Prices = append(r.Series.Prices, series)
	}
	r.Series.Use = l.machineUse(asOf)
	points := l.training.points
	if l.start.Program != nil && l.start.Program.Tasks == 0 {
		points = l.programs.losses()
	}
	for _, p := range thin(points, maxLossPoints) {
		r.Series.Loss = append(r.Series.Loss, LossPoint{
			Clock: p.clock, At: p.at, USD: paid.at(p.at), Train: p.train, Test: p.test, Redone: p.redone,
		})
	}
}

// losses returns the losses of the rank that has reported the most: usually one rank reports for all.
func (p *running) losses() (most []clockPoint) {
	for _, name := range slices.Sorted(maps.Keys(p.members)) {
		if f := p.members[name]; len(f.losses) > len(most) {
			most = f.losses
		}
	}
	return most
}

// thin keeps at most n evenly chosen points, including the last, preferring in each gap a point that has a test loss: tests are rarer than
// clocks.
func thin(points []clockPoint, n int) []clockPoint {
	if len(points) <= n {
		return points
	}
	out := make([]clockPoint, 0, n)
	for i := range n {
		gap := points[i*len(points)/n : (i+1)*len(points)/n]
		keep := gap[len(gap)-1]
		for _, p := range gap {
			if p.test != nil && i < n-1 {
				keep = p
			}
		}
		out = append(out, keep)
	}
	return out
}

// machineSteps lists the machines over time, from joins and leaves, and the stage.
func (l *Ledger) machineSteps(asOf time.Time) []MachineStep {
	type change struct {
		at                  time.Time
		transient, reliable int
		stage               string
		tier, pool          string
	}
	changes := []change{{at: l.first}}
	for _, m := range l.order {
		step := func(at time.Time, by int) {
			c := change{at: at, transient: by, tier: m.tier, pool: m.usage.Pool.String()}
			if m.tier == reliableTier {
				c.transient, c.reliable = 0, by
			}
			changes = append(changes, c)
		}
		for _, i := range m.joined {
			step(i.from, 1)
			if !i.to.IsZero() {
				step(i.to, -1)
			}
		}
	}
	for _, s := range l.stages {
		changes = append(changes, change{at: s.at, stage: s.to})
	}
	slices.SortStableFunc(changes, func(a, b change) int { return a.at.Compare(b.at) })
	steps := []MachineStep{}
	var now MachineStep
	held := map[PoolCount]int{} // Count is 0 in the keys
	for _, c := range changes {
		if c.at.After(asOf) {
			break
		}
		now.At, now.Stage = c.at, cmp.Or(c.stage, now.Stage)
		now.Transient += c.transient
		now.Reliable += c.reliable
		held[PoolCount{Tier: c.tier, Pool: c.pool}] += c.transient + c.reliable
		now.Pools = countsOf(held)
		if n := len(steps); n > 0 && steps[n-1].At.Equal(c.at) {
			steps[n-1] = now
			continue
		}
		steps = append(steps, now)
	}
	return steps
}

// countsOf lists the pools that have machines: reliable ones first, then by pool.
func countsOf(held map[PoolCount]int) []PoolCount {
	var out []PoolCount
	for key, n := range held {
		if n > 0 {
			out = append(out, PoolCount{key.Tier, key.Pool, n})
		}
	}
	slices.SortFunc(out, func(a, b PoolCount) int { return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Pool, b.Pool)) })
	return out
}

// meter computes what was paid until a given time if each line of the bill counts evenly over the part of the machine's
// life that it covers. Computed from the end of the run it never falls, although a bill may: an hour that is due when
// it starts becomes free when the machine is reclaimed within it.
type meter struct {
	marks []mark
}

// mark is the meter's reading and slope (dollars per second) from an instant on.
type mark struct {
	at           time.Time
	usd, perTime float64
}

func newMeter(bills []bill, asOf time.Time) *meter {
	type change struct {
		at    time.Time
		slope float64
		jump  float64
	}
	var changes []change
	for _, b := range bills {
		life := b.life(asOf)
		for _, c := range b.charges {
			paid := interval{c.From, c.To}
			if paid.to.After(life.to) {
				paid.to = life.to
			}
			switch usd := dollars(c.Amount); {
			case usd == 0:
			case paid.length() == 0:
				changes = append(changes, change{at: c.From, jump: usd})
			default:
				slope := usd / paid.length().Seconds()
				changes = append(changes, change{at: paid.from, slope: slope}, change{at: paid.to, slope: -slope})
			}
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return a.at.Compare(b.at) })
	m := &meter{}
	var now mark
	for _, c := range changes {
		if !now.at.IsZero() {
			now.usd += now.perTime * c.at.Sub(now.at).Seconds()
		}
		now.at = c.at
		now.usd += c.jump
		now.perTime += c.slope
		m.marks = append(m.marks, now)
	}
	return m
}

// at returns the reading in dollars.
func (m *meter) at(t time.Time) float64 {
	i, found := slices.BinarySearchFunc(m.marks, t, func(k mark, t time.Time) int { return k.at.Compare(t) })
	if found { // the last mark at this instant
		for i+1 < len(m.marks) && m.marks[i+1].at.Equal(t) {
			i++
		}
		return m.marks[i].usd
	}
	if i == 0 {
		return 0
	}
	k := m.marks[i-1]
	return max(0, k.usd+k.perTime*t.Sub(k.at).Seconds())
}
