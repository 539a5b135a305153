package dashboard

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/status"
	"github.com/tierml/tierml/market"
)

// counts are a run's metrics that only grow. They are made of its journal, so they do not begin anew with this process.
type counts struct {
	launches, launchFailures, notices, evictions, failures, rollbacks, switches prometheus.Counter
	clocks, lostClocks, cutBytes                                                prometheus.Counter
	noticeLead, clockSeconds, cutSeconds                                        prometheus.Histogram
	failed                                                                      map[string]bool // by machine
}

func newCounts(name string) *counts {
	labels := prometheus.Labels{"run": name}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "tierml_" + name, Help: help, ConstLabels: labels})
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tierml_" + name, Help: help, ConstLabels: labels, Buckets: buckets})
	}
	return &counts{
		failed:         map[string]bool{},
		launches:       counter("launches_total", "Machines bought."),
		launchFailures: counter("launch_failures_total", "Launches that brought no machine."),
		notices:        counter("eviction_notices_total", "Machines whose eviction was announced."),
		evictions:      counter("evictions_total", "Machines that their provider took after a notice."),
		failures:       counter("failures_total", "Machines lost without a notice."),
		rollbacks:      counter("rollbacks_total", "Returns to a cut."),
		switches:       counter("switches_total", "Changes to another pool of machines."),
		clocks:         counter("clocks_total", "Clocks done, those done again counted again."),
		lostClocks:     counter("lost_clocks_total", "Clocks that roll-backs undid."),
		cutBytes:       counter("cut_bytes_total", "Bytes of committed cuts."),
		noticeLead: histogram("eviction_notice_lead_seconds", "Wall-clock time from an eviction notice to its deadline.",
			[]float64{1, 5, 10, 30, 60, 90, 120}),
		clockSeconds: histogram("clock_seconds", "Wall-clock time that a clock took.", prometheus.ExponentialBuckets(0.01, 4, 8)),
		cutSeconds:   histogram("cut_seconds", "Wall-clock time from naming a cut to its commit.", prometheus.ExponentialBuckets(0.01, 4, 8)),
	}
}

func (c *counts) add(e journal.Entry, m clock.Mapping) {
	switch e.Kind {
	case journal.Launch:
		c.launches.Inc()
	case journal.LaunchFailed:
		c.launchFailures.Inc()
	case journal.Notice:
		if e.Deadline != nil { // else it is a raised risk
			c.notices.Inc()
			c.noticeLead.Observe(max(0, m.ToWall(e.Deadline.Sub(e.T)).Seconds()))
		}
	case journal.Evicted:
		c.evictions.Inc()
	case journal.Failed:
		if !c.failed[e.Instance] { // given up first, ended later: two lines, one machine
			c.failed[e.Instance] = true
			c.failures.Inc()
		}
	case journal.Rollback:
		c.rollbacks.Inc()
		c.lostClocks.Add(float64(e.LostClocks))
	case journal.Switch:
		c.switches.Inc()
	case journal.ClockDone:
		c.clocks.Inc()
		c.clockSeconds.Observe(e.Seconds)
	case journal.Cut:
		c.cutBytes.Add(float64(e.Bytes))
		c.cutSeconds.Observe(e.Seconds)
	}
}

func (c *counts) Collect(out chan<- prometheus.Metric) {
	for _, m := range []prometheus.Collector{c.launches, c.launchFailures, c.notices, c.evictions, c.failures, c.rollbacks, c.switches,
		c.clocks, c.lostClocks, c.cutBytes, c.noticeLead, c.clockSeconds, c.cutSeconds} {
		m.Collect(out)
	}
}

// Gauges, read off the runs at each scrape.
var (
	infoGauge    = describe("run_info", "Always 1; what a run is.", "run", "job", "app", "rules")
	runningGauge = describe("run_running", "1 while a run goes on, 0 after its end.", "run")
	clockGauge   = describe("run_clock", "The clock at which the model stands; falls at a roll-back.", "run")
	goalGauge    = describe("run_clocks_wanted", "Clocks that the job asks for.", "run")
	stageGauge   = describe("run_stage", "Stage of the tiers: 1, 2 or 3.", "run")
	lossGauge    = describe("run_loss", "The last measured loss, on training or test data.", "run", "data")
	spentGauge   = describe("run_spent_dollars", "What is due so far.", "run")
	savedGauge   = describe("run_saved_dollars", "What was saved so far against the same work on demand.", "run")
	hourGauge    = describe("run_dollars_per_hour", "What the machines of now cost in an hour.", "run")
	machineGauge = describe("run_machines", "Machines of a run by what they do.", "run", "tier", "pool", "state")
	priceGauge   = describe("pool_price_dollars_per_hour", "Price of a machine of a pool.", "run", "pool")
	bidGauge     = describe("pool_bid_dollars_per_hour", "Bid of the machines held in a pool.", "run", "pool")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("tierml_"+name, help, labels, nil)
}

// Describe sends nothing: which runs there are is not known before.
func (b *Board) Describe(chan<- *prometheus.Desc) {}

// Collect is called at each scrape.
func (b *Board) Collect(out chan<- prometheus.Metric) {
	for _, r := range b.all() {
		summary := r.summary(b.now())
		r.mu.Lock()
		if r.caught { // counters must not begin low because the journal has not been read to its end
			r.counts.Collect(out)
			g := gauges{out, summary.Run}
			g.progress(summary, r.status.Start.Rules)
			if summary.State == "running" {
				g.market(r.status.Groups(), r.status.Prices)
			}
		}
		r.mu.Unlock()
	}
}

// gauges sends the gauges of a run.
type gauges struct {
	out chan<- prometheus.Metric
	run string
}

func (g gauges) set(d *prometheus.Desc, value float64, labels ...string) {
	g.out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{g.run}, labels...)...)
}

// dollars sets a gauge to money, if it is known.
func (g gauges) dollars(d *prometheus.Desc, text string, labels ...string) {
	if v, err := market.ParseUSD(text); err == nil {
		g.set(d, float64(v)/1e9, labels...)
	}
}

func (g gauges) progress(s Summary, rules string) {
	g.set(infoGauge, 1, s.Job, s.App, rules)
	running := 0.0
	if s.State == "running" {
		running = 1
	}
	g.set(runningGauge, running)
	g.set(clockGauge, float64(s.Clock))
	if s.Clocks > 0 {
		g.set(goalGauge, float64(s.Clocks))
	}
	if stage, err := strconv.Atoi(s.Stage); err == nil {
		g.set(stageGauge, float64(stage))
	}
	if s.Train != nil {
		g.set(lossGauge, *s.Train, "train")
	}
	if s.Test != nil {
		g.set(lossGauge, *s.Test, "test")
	}
	g.dollars(spentGauge, s.Spent)
	g.dollars(savedGauge, s.Saved)
	g.dollars(hourGauge, s.PerHour)
}

func (g gauges) market(groups []status.Group, prices map[string]string) {
	type place struct{ tier, pool string }
	machines, bids := map[place]status.Group{}, map[string]string{}
	for _, group := range groups { // in one pool there may be machines with different bids
		sum := machines[place{group.Tier, group.Pool}]
		sum.Joined, sum.Starting, sum.Leaving = sum.Joined+group.Joined, sum.Starting+group.Starting, sum.Leaving+group.Leaving
		machines[place{group.Tier, group.Pool}] = sum
		bids[group.Pool] = group.Bid
	}
	for at, sum := range machines {
		g.set(machineGauge, float64(sum.Joined), at.tier, at.pool, "training")
		g.set(machineGauge, float64(sum.Starting), at.tier, at.pool, "starting")
		g.set(machineGauge, float64(sum.Leaving), at.tier, at.pool, "leaving")
	}
	for pool, bid := range bids {
		g.dollars(bidGauge, bid, pool)
	}
	for pool, price := range prices {
		g.dollars(priceGauge, price, pool)
	}
}
