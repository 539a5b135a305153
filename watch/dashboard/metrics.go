package dashboard

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/watch/shared"
	"github.com/tierml/tierml/watch/status"
)

// counts are a run's counters. They are computed from its journal, so they do not restart with this process.
type counts struct {
	launches, launchFailures, notices, evictions, failures, rollbacks, switches prometheus.Counter
	clocks, lostClocks, cutBytes, checkpointBytes, movedBytes                   prometheus.Counter
	noticeLead, flushSeconds, clockSeconds, cutSeconds                          prometheus.Histogram
	failed                                                                      map[string]bool      // by machine
	warned                                                                      map[string]time.Time // by machine: its notice, until it has left
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
		failed:          map[string]bool{},
		warned:          map[string]time.Time{},
		launches:        counter("launches_total", "Machines bought."),
		launchFailures:  counter("launch_failures_total", "Launches that brought no machine."),
		notices:         counter("eviction_notices_total", "Machines whose eviction was announced."),
		evictions:       counter("evictions_total", "Machines that their provider took after a notice."),
		failures:        counter("failures_total", "Machines lost without a notice."),
		rollbacks:       counter("rollbacks_total", "Returns to a cut."),
		switches:        counter("switches_total", "Changes to another pool of machines."),
		clocks:          counter("clocks_total", "Clocks done, those done again counted again."),
		lostClocks:      counter("lost_clocks_total", "Clocks that roll-backs undid."),
		cutBytes:        counter("cut_bytes_total", "Bytes of committed cuts."),
		checkpointBytes: counter("checkpoint_bytes_total", "Bytes of saved checkpoints."),
		movedBytes:      counter("moved_bytes_total", "Bytes of partitions that moved between machines, where the journal tells."),
		noticeLead: histogram("eviction_notice_lead_seconds", "Wall-clock time from an eviction notice to its deadline.",
			[]float64{1, 5, 10, 30, 60, 90, 120}),
		flushSeconds: histogram("flush_seconds", "Wall-clock time from a machine's eviction notice until it has left training.",
			[]float64{.1, .5, 1, 2, 5, 10, 30, 60, 120}),
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
		if e.Deadline != nil { // otherwise it is a raised risk
			c.notices.Inc()
			c.noticeLead.Observe(max(0, m.ToWall(e.Deadline.Sub(e.T)).Seconds()))
			if _, told := c.warned[e.Instance]; !told {
				c.warned[e.Instance] = e.T
			}
		}
	case journal.Leave:
		if at, ok := c.warned[e.Instance]; ok {
			c.flushSeconds.Observe(max(0, m.ToWall(e.T.Sub(at)).Seconds()))
			delete(c.warned, e.Instance)
		}
	case journal.Evicted:
		delete(c.warned, e.Instance)
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
		c.cutBytes.Add(float64(max(0, e.Bytes)))
		c.cutSeconds.Observe(e.Seconds)
	case journal.Checkpoint:
		c.checkpointBytes.Add(float64(max(0, e.Bytes)))
	case journal.Move:
		c.movedBytes.Add(float64(max(0, e.Bytes)))
	}
}

func (c *counts) Collect(out chan<- prometheus.Metric) {
	for _, m := range []prometheus.Collector{c.launches, c.launchFailures, c.notices, c.evictions, c.failures, c.rollbacks, c.switches,
		c.clocks, c.lostClocks, c.cutBytes, c.checkpointBytes, c.movedBytes, c.noticeLead, c.flushSeconds, c.clockSeconds, c.cutSeconds} {
		m.Collect(out)
	}
}

// Gauges, computed from the runs at each scrape.
var (
	infoGauge     = describe("run_info", "Always 1; what a run is.", "run", "job", "app", "rules")
	runningGauge  = describe("run_running", "1 while a run is running, 0 after its end.", "run")
	pausedGauge   = describe("run_paused", "1 while a limit by the hour keeps a run from having transient machines.", "run")
	clockGauge    = describe("run_clock", "The clock at which the model stands; falls at a roll-back.", "run")
	goalGauge     = describe("run_clocks_wanted", "Clocks that the job asks for.", "run")
	stageGauge    = describe("run_stage", "Stage of the tiers: 1, 2 or 3.", "run")
	lossGauge     = describe("run_loss", "The last measured loss, on training or test data.", "run", "data")
	spentGauge    = describe("run_spent_dollars", "What is due so far.", "run")
	savedGauge    = describe("run_saved_dollars", "What was saved so far against the same work on demand.", "run")
	hourGauge     = describe("run_dollars_per_hour", "What the machines of now cost in an hour.", "run")
	expectedGauge = describe("run_expected_dollars", "What the run is expected to have cost at its end, at the pace and prices so far.", "run")
	leftGauge     = describe("run_left_seconds", "Market time until all clocks are done, at the pace so far.", "run")
	coresGauge    = describe("run_cores_used", "Cores' worth of processor time that a program took on a machine, by the attempts that have ended.", "run", "type")
	memoryGauge   = describe("run_memory_bytes", "The most memory that one process of a program held, by the attempts that have ended.", "run", "type")
	machineGauge  = describe("run_machines", "Machines of a run by what they do.", "run", "tier", "pool", "state")
	usedCores     = describe("machine_cores_used", "Cores' worth of processor time that a machine used lately; of one that jobs share, this run's.", "run", "instance", "pool")
	usedMemory    = describe("machine_memory_used_bytes", "Memory that a machine used lately, at its peak.", "run", "instance", "pool")
	usedGPU       = describe("machine_gpu_used_ratio", "Share of the time in which a machine's GPUs computed lately.", "run", "instance", "pool")
	usedGPUMemory = describe("machine_gpu_memory_used_bytes", "Memory of its GPUs that a machine used lately, at its peak.", "run", "instance", "pool")
	usedNetwork   = describe("machine_network_bytes_per_second", "Bytes that a machine received and sent lately.", "run", "instance", "pool", "direction")
	staleGauge    = describe("run_staleness_bound_clocks", "How many clocks old a worker's reads may be, as the job says.", "run")
	budgetGauge   = describe("run_budget_dollars", "What the run may cost, as the job says.", "run")
	limitGauge    = describe("run_limit_dollars_per_hour", "What all its machines may cost in an hour, as the job says.", "run")
	mttfGauge     = describe("pool_mttf_seconds", "Market time until the price is expected to exceed the bid, when the pool was considered last.", "run", "pool")
	priceGauge    = describe("pool_price_dollars_per_hour", "Price of a machine of a pool.", "run", "pool")
	bidGauge      = describe("pool_bid_dollars_per_hour", "Bid of the machines held in a pool.", "run", "pool")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("tierml_"+name, help, labels, nil)
}

// Describe sends nothing: the runs are not known in advance.
func (b *Board) Describe(chan<- *prometheus.Desc) {}

// remembered is how long an ended run is exposed, so that the number of series does not grow over the years.
const remembered = 24 * time.Hour

// exposed requires the lock. Counters must not start low because the journal has not been read completely.
func (r *run) exposed(now time.Time) bool {
	return r.caught && (r.going || now.Sub(r.written) < remembered)
}

// Collect is called at each scrape.
func (b *Board) Collect(out chan<- prometheus.Metric) {
	if b.manager != nil {
		collectKeeper(out, b.manager(nil))
	}
	views, _ := b.views(nil) // the page of hosts reports the error
	for _, v := range views {
		collectHosts(gauges{out, v.Run}, v)
	}
	for _, r := range b.all() {
		summary := r.summary(b.now())
		r.mu.Lock()
		if r.exposed(b.now()) {
			r.counts.Collect(out)
			g := gauges{out, summary.Run}
			start := r.start
			if r.status != nil {
				start = r.status.Start
			}
			g.progress(summary, start.Rules)
			g.promised(start.Job)
			if r.status != nil {
				g.use(r.status.Ledger.Use())
			}
			if summary.Active() && r.status != nil {
				g.market(r.status.Groups(), r.status.Prices)
				g.lasting(r.status.Ledger.Considered())
				g.machines(r.status.Ledger.UseNow())
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

// dollars sets a gauge to an amount, if known.
func (g gauges) dollars(d *prometheus.Desc, text string, labels ...string) {
	if v, err := market.ParseUSD(text); err == nil {
		g.set(d, float64(v)/1e9, labels...)
	}
}

func (g gauges) progress(s Summary, rules string) {
	g.set(infoGauge, 1, s.Job, s.App, rules)
	running := 0.0
	if s.Active() {
		running = 1
	}
	g.set(runningGauge, running)
	paused := 0.0
	if s.State == status.Paused {
		paused = 1
	}
	if s.Active() {
		g.set(pausedGauge, paused)
	}
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
	g.dollars(expectedGauge, s.Expected)
	if s.Expected != "" {
		g.set(leftGauge, s.TimeLeft)
	}
}

// use exposes programs' use of their machines, once an attempt has ended.
func (g gauges) use(u *cost.Use) {
	if u != nil {
		g.set(coresGauge, u.Cores, u.Type)
		g.set(memoryGauge, float64(u.Memory), u.Type)
	}
}

// machines exposes each machine's present use.
func (g gauges) machines(all []cost.MachineUse) {
	for _, m := range all {
		now := m.Steps[0]
		g.set(usedCores, now.Cores, m.Machine, m.Pool)
		g.set(usedMemory, float64(now.Memory), m.Machine, m.Pool)
		if now.GPUMemory > 0 {
			g.set(usedGPU, now.GPU, m.Machine, m.Pool)
			g.set(usedGPUMemory, float64(now.GPUMemory), m.Machine, m.Pool)
		}
		if now.In+now.Out > 0 {
			g.set(usedNetwork, now.In, m.Machine, m.Pool, "in")
			g.set(usedNetwork, now.Out, m.Machine, m.Pool, "out")
		}
	}
}

// promised exposes the job's own limits; absent ones are omitted.
func (g gauges) promised(job json.RawMessage) {
	says := promiseOf(job)
	g.dollars(budgetGauge, says.Budget)
	g.dollars(limitGauge, says.Limits.PerHour)
	if t := says.Train; t != nil {
		bound := 0.0 // for a job that does not say
		if t.Staleness != nil {
			bound = *t.Staleness
		}
		g.set(staleGauge, bound)
	}
}

// lasting exposes how long pools were expected to last, if known.
func (g gauges) lasting(seen map[string]float64) {
	for pool, seconds := range seen {
		g.set(mttfGauge, seconds, pool)
	}
}

func (g gauges) market(groups []status.Group, prices map[string]string) {
	type place struct{ tier, pool string }
	machines, bids := map[place]status.Group{}, map[string]string{}
	for _, group := range groups { // one pool may have machines with different bids
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

// Gauges of machines that jobs share.
var (
	hostCPUsGauge   = describe("hosts_vcpus", "vCPUs of shared hosts that stay: held by slots, or free.", "run", "tier", "state")
	hostMemoryGauge = describe("hosts_memory_bytes", "Memory of shared hosts that stay: held by slots, or free.", "run", "tier", "state")
	hostSlotsGauge  = describe("hosts_slots", "Slots that jobs have requested: held on a host, or waiting for one.", "run", "state")
	hostJobsGauge   = describe("hosts_jobs", "Jobs that hold slots of shared hosts or wait for some.", "run")
	hostWaitGauge   = describe("hosts_longest_wait_seconds", "Market time that the longest-waiting slot has waited for a host.", "run")
	hostHourGauge   = describe("hosts_dollars_per_hour", "What shared hosts cost in an hour.", "run")
	hostIdleGauge   = describe("hosts_idle_dollars_per_hour", "What shared hosts cost in an hour and no slot pays.", "run")
	idleGauge       = describe("hosts_idle_dollars", "What shared hosts have cost so far and no job pays (yet).", "run")
)

func collectHosts(g gauges, v shared.View) {
	used, free := map[string]hosts.Size{}, map[string]hosts.Size{}
	held, waiting := 0, 0
	for _, h := range v.Hosts {
		if held += h.Slots; !h.Leaving {
			used[h.Tier], free[h.Tier] = used[h.Tier].Plus(h.Used), free[h.Tier].Plus(h.Free)
		}
	}
	for tier := range used {
		for state, size := range map[string]hosts.Size{"held": used[tier], "free": free[tier]} {
			g.set(hostCPUsGauge, float64(size.VCPU), tier, state)
			g.set(hostMemoryGauge, float64(size.MemoryMiB)*(1<<20), tier, state)
		}
	}
	for _, j := range v.Jobs {
		waiting += j.Waiting
	}
	g.set(hostSlotsGauge, float64(held), "held")
	g.set(hostSlotsGauge, float64(waiting), "waiting")
	g.set(hostJobsGauge, float64(len(v.Jobs)))
	g.set(hostWaitGauge, v.Waited)
	g.dollars(hostHourGauge, v.PerHour)
	g.dollars(hostIdleGauge, v.Idle)
	for _, p := range v.Bill {
		if p.Job == "" {
			g.dollars(idleGauge, p.USD)
		}
	}
}

// Gauges of a job server. Their names date from when it was called the controller: dashboards and alerts use them.
var (
	jobsGauge       = describe("controller_jobs", "Jobs of the job server by their state.", "state")
	allSpentGauge   = describe("controller_spent_dollars", "What all runs of the job server have cost.")
	allBudgetGauge  = describe("controller_budget_dollars", "What they may cost together.")
	allHourGauge    = describe("controller_dollars_per_hour", "What the machines of all its runs cost in an hour.")
	trialsGauge     = describe("sweep_trials", "Trials of a sweep by their state, until all have ended.", "sweep", "state")
	sweptGauge      = describe("sweep_spent_dollars", "What the trials of a sweep have cost.", "sweep")
	sweepLimitGauge = describe("sweep_budget_dollars", "What they may cost together.", "sweep")
	grantedGauge    = describe("scheduler_workers", "Workers that the scheduler has granted to all jobs.")
	restingGauge    = describe("scheduler_paused_jobs", "Jobs without workers that had some.")
	longestGauge    = describe("scheduler_longest_wait_seconds", "Wall-clock time since the arrival of the job that has waited longest for its first workers.")
	allLimitGauge   = describe("controller_limit_dollars_per_hour", "What they may cost in an hour together.")
	jobStates       = []string{"queued", "running", "waiting", "paused", "stopping", "finished", "failed", "stopped"}
)

func collectKeeper(out chan<- prometheus.Metric, k Manager) {
	count := map[string]int{}
	for _, j := range k.Jobs {
		count[j.State]++
	}
	set := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, state := range jobStates {
		set(jobsGauge, float64(count[state]), state)
	}
	for _, s := range k.Sweeps {
		trials := s.states()
		if trials["queued"]+trials["running"]+trials["stopping"] == 0 {
			continue // the number of series must not grow over the years
		}
		for _, state := range jobStates {
			set(trialsGauge, float64(trials[state]), s.ID, state)
		}
		set(sweptGauge, float64(dollars(s.Spent))/1e9, s.ID)
		if s.Budget != "" {
			set(sweepLimitGauge, float64(dollars(s.Budget))/1e9, s.ID)
		}
	}
	if s := k.Grants; s != nil {
		set(grantedGauge, float64(s.Workers))
		set(restingGauge, float64(s.Paused))
		set(longestGauge, s.Longest.Seconds())
	}
	set(allSpentGauge, float64(k.Spent)/1e9)
	set(allHourGauge, float64(k.Rate)/1e9)
	if k.Budget > 0 {
		set(allBudgetGauge, float64(k.Budget)/1e9)
	}
	if k.PerHour > 0 {
		set(allLimitGauge, float64(k.PerHour)/1e9)
	}
}
