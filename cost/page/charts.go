package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/market"
)

// palette is the number of the style sheet's colours for series.
const palette = 6

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// priceChart returns a chart of each pool's price, the bids of held machines if any, and what happened to the machines.
func priceChart(r *cost.Report) chart {
	c := chart{
		title: "Price of each pool, bids, launches and evictions", xLabel: "market time (UTC)",
		yLabel: "US$ per machine hour, log scale", xTime: true, logY: true,
	}
	if !(view{Report: r}).Bids() {
		c.title = "Price of each pool, launches and evictions"
	}
	end := unix(r.Run.AsOf)
	colour := colours(r)
	priced := map[string]int{}
	for _, s := range r.Series.Prices {
		priced[s.Pool] = colour[s.Pool]
		l := line{name: words.Pool(s.Pool), colour: colour[s.Pool], step: true}
		for _, p := range s.Steps {
			if p.USD > 0 {
				l.points = append(l.points, point{unix(p.At), p.USD})
			}
		}
		if n := len(l.points); n > 0 {
			l.points = append(l.points, point{end, l.points[n-1].y})
		}
		c.lines = append(c.lines, l)
	}
	holdings := holdingsOf(r)
	for _, h := range holdings {
		colour, ok := priced[h.pool]
		if !ok || h.bid == 0 {
			continue
		}
		bid := float64(h.bid) / float64(market.Dollar)
		c.lines = append(c.lines, line{
			name: fmt.Sprintf("bid $%s for %s", h.bid, words.Number(h.count, "machine")), colour: colour, dashed: true, hidden: true,
			points: []point{{unix(h.from), bid}, {unix(h.to), bid}},
		})
	}
	c.marks = priceMarks(r, priced)
	c.describe = fmt.Sprintf("%s; %s held; %s. The tables below have every figure.", words.Number(len(r.Series.Prices), "pool"),
		words.Number(len(holdings), "group")+" of machines", words.Number(r.Totals.Evictions, "eviction"))
	return c
}

// holding is a group of machines of one pool with one bid that were held over the same time.
type holding struct {
	pool     string
	bid      market.USD
	from, to time.Time
	count    int
}

func holdingsOf(r *cost.Report) []holding {
	var out []holding
	for _, i := range r.Instances {
		h := holding{pool: i.Pool, bid: i.Bid, from: i.Launched, to: r.Run.AsOf, count: 1}
		if i.Ended != nil {
			h.to = *i.Ended
		}
		same := slices.IndexFunc(out, func(o holding) bool {
			return o.pool == h.pool && o.bid == h.bid && o.from.Equal(h.from) && o.to.Equal(h.to)
		})
		if same >= 0 {
			out[same].count++
			continue
		}
		out = append(out, h)
	}
	return out
}

// priceMarks puts launches, notices and evictions on the bid or, without one, on the price.
func priceMarks(r *cost.Report, colours map[string]int) []mark {
	type key struct {
		at          time.Time
		pool, shape string
	}
	counts := map[key]int{}
	heights := map[key]float64{}
	var keys []key
	add := func(at time.Time, i cost.Instance, shape string) {
		k := key{at, i.Pool, shape}
		if counts[k]++; counts[k] == 1 {
			keys = append(keys, k)
			if heights[k] = float64(i.Bid) / float64(market.Dollar); i.Bid == 0 {
				heights[k] = priceAt(r, i.Pool, at)
			}
		}
	}
	for _, i := range r.Instances {
		if _, ok := colours[i.Pool]; !ok || i.Bid == 0 && !strings.HasSuffix(i.Pool, "/"+string(market.Spot)) {
			continue
		}
		add(i.Launched, i, "launch")
		if i.Warned != nil {
			add(*i.Warned, i, "notice")
		}
		if i.Ended != nil && i.EndedBy == string(market.ByProvider) {
			add(*i.Ended, i, "evicted")
		}
	}
	said := map[string]string{"launch": "launched", "notice": "warned", "evicted": "evicted"}
	var marks []mark
	for _, k := range keys {
		marks = append(marks, mark{
			point: point{unix(k.at), heights[k]}, shape: k.shape, colour: colours[k.pool],
			text: fmt.Sprintf("%s  %s of %s %s", k.at.UTC().Format("15:04:05"), words.Number(counts[k], "machine"), words.Pool(k.pool), said[k.shape]),
		})
	}
	return marks
}

// priceAt returns a pool's price at a time; before the first known price, that price.
func priceAt(r *cost.Report, pool string, at time.Time) (price float64) {
	for _, s := range r.Series.Prices {
		for n, step := range s.Steps {
			if s.Pool == pool && (n == 0 || !step.At.After(at)) {
				price = step.USD
			}
		}
	}
	return price
}

// colours assigns each pool the same colour in all charts: pools with a spot price first, as in the price chart.
func colours(r *cost.Report) map[string]int {
	out := map[string]int{}
	add := func(pool string) {
		if _, ok := out[pool]; !ok {
			out[pool] = len(out) % palette
		}
	}
	for _, s := range r.Series.Prices {
		add(s.Pool)
	}
	for _, i := range r.Instances {
		add(i.Pool)
	}
	return out
}

// machineChart draws the number of machines, stacked by tier and pool, with the stages above, and evictions on it.
func machineChart(r *cost.Report) chart {
	c := chart{
		title: "Machines in training by tier and pool, stages and evictions", xLabel: "market time (UTC)", yLabel: "machines",
		xTime: true, zeroY: true,
	}
	if r.Programs != nil {
		c.title = "Machines by pool and evictions"
	}
	end := unix(r.Run.AsOf)
	most := 0
	for i, s := range r.Series.Machines {
		most = max(most, s.Reliable+s.Transient)
		next := end
		if i+1 < len(r.Series.Machines) {
			next = unix(r.Series.Machines[i+1].At)
		}
		c.addStage(s.Stage, unix(s.At), next)
	}
	c.lines = stacks(r)
	c.marks = lossMarks(r)
	c.rules = slices.DeleteFunc(incidents(r), func(i rule) bool { return i.kind != "rollback" })
	c.describe = fmt.Sprintf("At most %s took part; %s", words.Number(most, "machine"), words.Number(r.Totals.Evictions, "eviction"))
	if r.Programs == nil {
		c.describe += fmt.Sprintf(" and %s; the job changed its stage %s", words.Number(r.Totals.Rollbacks, "roll-back"), words.Number(max(0, len(c.bands)-1), "time"))
	}
	c.describe += "."
	return c
}

// stacks returns a line for each tier and pool, stacked on the previous ones; the topmost is drawn first, so that edges
// stay visible.
func stacks(r *cost.Report) []line {
	var keys []cost.PoolCount // without Count
	for _, s := range r.Series.Machines {
		for _, p := range poolsOf(s) {
			key := cost.PoolCount{Tier: p.Tier, Pool: p.Pool}
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	slices.SortFunc(keys, func(a, b cost.PoolCount) int {
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Pool, b.Pool))
	})
	end, colour := unix(r.Run.AsOf), colours(r)
	var below []point
	var out []line
	for _, key := range keys {
		l := line{name: strings.TrimSuffix(key.Tier+": "+words.Pool(key.Pool), ": "), colour: colour[key.Pool], step: true, area: true, base: below}
		if key.Pool == "" {
			l.colour = len(out)
		}
		for i, s := range r.Series.Machines {
			n := 0.0
			for _, p := range poolsOf(s) {
				if p.Tier == key.Tier && p.Pool == key.Pool {
					n = float64(p.Count)
				}
			}
			if below != nil {
				n += below[i].y
			}
			l.points = append(l.points, point{unix(s.At), n})
		}
		if n := len(l.points); n > 0 {
			l.points = append(l.points, point{end, l.points[n-1].y})
		}
		below = l.points
		out = append(out, l)
	}
	slices.Reverse(out)
	return out
}

// poolsOf returns the machines by pool; reports of older versions only have tiers.
func poolsOf(s cost.MachineStep) []cost.PoolCount {
	if len(s.Pools) > 0 || s.Reliable+s.Transient == 0 {
		return s.Pools
	}
	return []cost.PoolCount{{Tier: "reliable", Count: s.Reliable}, {Tier: "transient", Count: s.Transient}}
}

// lossMarks returns evictions and failures, at the number of machines that took part just before.
func lossMarks(r *cost.Report) []mark {
	type key struct {
		at         time.Time
		pool, fate string
	}
	counts := map[key]int{}
	var keys []key
	for _, i := range r.Instances {
		if i.Ended == nil || i.Fate != "failed" && i.EndedBy != string(market.ByProvider) {
			continue
		}
		k := key{*i.Ended, i.Pool, i.Fate}
		if counts[k]++; counts[k] == 1 {
			keys = append(keys, k)
		}
	}
	colour := colours(r)
	var out []mark
	for _, k := range keys {
		height := 0
		if at, _ := slices.BinarySearchFunc(r.Series.Machines, k.at, func(s cost.MachineStep, t time.Time) int { return s.At.Compare(t) }); at > 0 {
			height = r.Series.Machines[at-1].Reliable + r.Series.Machines[at-1].Transient
		}
		out = append(out, mark{point: point{unix(k.at), float64(height)}, shape: "evicted", colour: colour[k.pool],
			text: fmt.Sprintf("%s  %s of %s %s", k.at.UTC().Format("15:04:05"), words.Number(counts[k], "machine"), words.Pool(k.pool), k.fate)})
	}
	return out
}

// addStage adds a band, or extends the last one.
func (c *chart) addStage(stage string, from, to float64) {
	if stage == "" {
		return
	}
	label := "stage " + stage
	if n := len(c.bands); n > 0 && c.bands[n-1].label == label {
		c.bands[n-1].to = to
		return
	}
	c.bands = append(c.bands, band{from: from, to: to, label: label, level: strings.Index("123", stage[:1]) + 1})
}

// lossCharts returns the losses over time and over dollars.
func lossCharts(r *cost.Report) (overTime, overDollars chart) {
	metric := metricWord(r.Run.Metric)
	overTime = chart{title: title(metric) + " over time", xLabel: "market time (UTC)", yLabel: metric, xTime: true}
	overDollars = chart{title: title(metric) + " over dollars", xLabel: "US$ paid so far", yLabel: metric}
	byTime := func(p cost.LossPoint) float64 { return unix(p.At) }
	byUSD := func(p cost.LossPoint) float64 { return p.USD }
	overTime.lines, overDollars.lines = lossLines(r, byTime), lossLines(r, byUSD)
	overTime.rules = incidents(r)
	said := "No loss was measured."
	if last := lastLoss(r.Series.Loss); r.Programs != nil && last != nil {
		said = fmt.Sprintf("The %s that the program has reported last is %.4g.", metric, *last)
	}
	if r.Training.TestLoss != nil {
		said = fmt.Sprintf("The test %s ends at %.4f", metric, *r.Training.TestLoss)
		if r.Training.BestTestLoss != nil {
			said += fmt.Sprintf(", its best is %.4f at clock %d", *r.Training.BestTestLoss, r.Training.BestClock)
		}
		said += "."
	}
	overTime.describe = said + " Vertical lines are evictions and roll-backs."
	overDollars.describe = fmt.Sprintf("%s %s were paid in all.", said, r.Totals.Total.Cents())
	return overTime, overDollars
}

func lossLines(r *cost.Report, x func(cost.LossPoint) float64) []line {
	train := line{name: "training", colour: 2, thin: true}
	test := line{name: "test", colour: 0}
	for _, p := range r.Series.Loss {
		if p.Train != nil {
			train.points = append(train.points, point{x(p), *p.Train})
		}
		if p.Test != nil {
			test.points = append(test.points, point{x(p), *p.Test})
		}
	}
	smooth := line{name: "training, smoothed", colour: 2, points: smoothed(train.points)}
	if r.Programs != nil {
		return []line{{name: "as reported by the program", colour: 0, points: train.points}}
	}
	if len(smooth.points) > 0 {
		train.name, train.faint = "training, each "+LossUnit(r), true
	}
	return []line{train, smooth, test}
}

// LossUnit returns the unit of a run's losses in charts: programs, including tasks, report them at steps.
func LossUnit(r *cost.Report) string {
	if r.Programs != nil {
		return journal.Unit(journal.Single)
	}
	return journal.Unit(r.Run.Kind)
}

// lastLoss returns the last loss, or nil.
func lastLoss(points []cost.LossPoint) *float64 {
	if len(points) == 0 {
		return nil
	}
	return points[len(points)-1].Train
}

// smoothed returns the mean of a window of a twentieth of the points around each; none if there are too few to need it.
func smoothed(points []point) (out []point) {
	half := len(points) / 40
	if half < 1 {
		return nil
	}
	for i := range points {
		window := points[max(0, i-half):min(len(points), i+half+1)]
		sum := 0.0
		for _, p := range window {
			sum += p.y
		}
		out = append(out, point{points[i].x, sum / float64(len(window))})
	}
	return out
}

// incidents returns the incidents that training survived.
func incidents(r *cost.Report) []rule {
	var out []rule
	for _, e := range r.Events {
		switch e.Kind {
		case "evicted", "rollback":
			out = append(out, rule{x: unix(e.T), kind: e.Kind, text: e.T.UTC().Format("15:04:05") + "  " + e.String()})
		}
	}
	slices.SortStableFunc(out, func(a, b rule) int { return cmp.Compare(a.x, b.x) })
	return out
}
