// Package elasticity is the deciding core of a run: it turns what happens (prices, notices, losses,
// arrivals, answers) into what to do (buy, terminate, move, cut, recover), and writes down why. It is one
// state machine over plain values: no clock, no goroutine, no socket. elasticity/runner drives it in real time
// with real machines; sim drives the same code in simulated time.
//
// It composes market, bidding, provisioner, ps and tiers; nothing of those knows it.
package elasticity

import (
	"cmp"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/stopping"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Config is what a controller needs to know beforehand. Durations are market time unless said otherwise.
type Config struct {
	tempo.Settings
	Run      string // names the run in tokens: unique per run
	Job      Job
	Reliable Reliable
	Want     bidding.Want
	Pools    []Pool
	Policy   bidding.Policy
	Stages   tiers.Thresholds
	Load     tiers.LoadRule // zero = the default

	Checkpoints Checkpoints // of committed cuts, while training goes on
	// Past makes this a controller that takes a run over; nil = the run begins.
	Past *Past
	// FirstID is beyond all numbers of commands of earlier controllers: their answers must not be taken for those of ours.
	FirstID uint64
	// FirstGeneration and FirstIncarnation are beyond those of earlier controllers that do not take each other over, each of
	// which began with machines that knew nothing (elasticity/restart).
	FirstGeneration  ps.Generation
	FirstIncarnation ps.Incarnation

	CutsUnpaced bool          // always CutEvery after the last, whatever share of the links deliveries take: to measure what that does
	AskAgain    time.Duration // a launch that the controller before decided within that time, and has no answer to, is asked for again
	Chooses     bool          // the provider takes launches of several pools, and chooses
	MaxDuration time.Duration // the run ends in order after this; 0 = never
	Deadline    time.Time     // by which the work should be done, for the policy; zero = none
	Budget      market.USD    // that the run should keep to, for the policy; 0 = none
	PerHour     market.USD    // that all machines together may cost in an hour; 0 = no limit
	Rules       market.RuleBook
	WholeHours  bool // the rule book bills whole hours: what is paid for is worked to its end
	Silent      bool // nobody reads the journal: Step gives no Record. Totals tells what the run comes to
	// NoHeartbeats: machines send none, as simulated ones. Silence says nothing about them.
	NoHeartbeats bool
}

// Job is what is trained.
type Job struct {
	Schema      ps.Schema
	App         string
	Params      map[string]string
	Dataset     []byte // what was learned about the data when it was cut, for the application
	SplitsURL   string
	Clocks      ps.Clock
	Work        float64 // of all clocks, in vCPU hours at the declared rates, for the policy; 0 = unknown
	EvalEvery   ps.Clock
	Stop        stopping.Rules // end before all clocks are done
	Figure      string         // what people call the figure that Metric gives
	Heartbeat   time.Duration  // wall clock
	OrphanAfter time.Duration  // wall clock
	// Metric turns a mean loss per example into the figure that people read (RMSE: the square root); nil leaves
	// it as it is.
	Metric func(mean float64) float64
	// ResumeFrom is a checkpoint at clock ResumeAt; empty starts from the initial state.
	ResumeFrom string
	ResumeAt   ps.Clock
}

// Reliable is the reliable tier: on-demand machines.
type Reliable struct {
	Pool  market.Pool
	Type  market.InstanceType
	Count int
}

// Pool is a pool that the job allows for transient machines.
type Pool struct {
	Pool     market.Pool
	Type     market.InstanceType
	MaxPrice market.USD    // 0 = no limit of the job's own
	Hints    bidding.Hints // from providers and earlier runs
	// Availability is up to now; CapacityChanged adds to it. nil = nobody watches it.
	Availability *market.Availability
	History      *market.History // up to now; the controller appends to it. Of an on-demand pool: its constant price
}

// Controller is the state of a run. It is not safe for concurrent use: one driver steps it.
type Controller struct {
	cfg   Config
	now   time.Time
	awake Awake // what others are judged by
	hush  *hush // most machines have fallen silent together
	out   []Action

	acts      uint64    // actions so far, but for lines in the journal
	stirred   bool      // the last step may have left something to do: the next one looks
	silentAt  time.Time // nobody is silent for too long before
	restUntil time.Time // otherwise there is nothing to do before, unless an event says so

	started     time.Time
	prices      map[market.Pool]*market.History
	pricesKnown time.Time                         // every price change until then has been told
	deferred    map[market.Pool]time.Time         // pools without capacity, until when
	lifetimes   map[market.Pool]*market.Lifetimes // of machines of this run that have ended
	launches    map[string]*launch                // by token, until every machine of it has joined or gone
	refused     map[string]*launch                // by token, launches that failed: machines may turn up all the same
	listed      time.Time                         // when the provider was last asked for all machines
	unsure      time.Time                         // when a launch was last given up of which machines may turn up all the same
	reliable    securing
	counter     uint64 // of tokens
	machines    map[ps.ServerID]*machine
	roster      []*machine             // those that are not archived, in the order of joining, then by id
	archived    []*machine             // that have ended, with a bill and without splits: nothing is looked for among them
	early       map[ps.ServerID]*early // what was heard of machines whose launch is not answered yet
	joins       int
	nextPlan    time.Time
	wantPlan    bool
	seen        bidding.State        // by the policy, the last time it was asked
	seenWell    bool                 // its pools and machines are still so: prices change nothing of them
	switching   *switchover          // a proactive switch under way
	considered  []bidding.Considered // by the plan that is being carried out
	gathering   time.Time            // until then notices are gathered before anything is done about them
	readySince  time.Time            // when the first of the machines that wait to join was ready
	commands    map[uint64]sent
	lastID      uint64
	lastInc     ps.Incarnation

	adopting   *adoption // while a run is being taken over
	unnamed    bool      // cuts of the controller before were taken back
	stood      bool      // the job has begun: there is a line for its stage
	generation ps.Generation
	route      ps.Route
	routeNews  bool // owners changed since the last broadcast
	target     tiers.Layout
	takers     []*machine  // Index: Split; those of target.Worker, nil where nobody is known
	arranged   arrangement // what the target was made of
	// Kept for their memory.
	spareLoads   []int
	spareWorkers []ps.ServerID
	stage        tiers.Stage
	gauge        tiers.Gauge
	loadWhy      string    // the gauge's floor
	metered      bool      // a heartbeat has come since the last clock that was judged
	paces        []float64 // kept for its memory
	splits       []splitState
	between      int // splits that nobody holds, or that their holder was asked for
	relayout     bool
	wish         wish
	paused       string // why there are to be no transient machines for now

	committed ps.Clock // newest committed cut
	furthest  ps.Clock // that was ever committed
	cutDue    time.Time
	cut       *cut
	moves     map[ps.Partition]ps.ServerID
	moveRetry time.Time
	settle    *settling
	halt      *halting
	recovery  *recovery
	saves     savings

	crashes   Crashes
	crashLoop *crashLoop // the run ends because of it

	progress progress
	pace     pace
	salvage  salvage // of the work of servers that are about to go
	stopWhy  string  // an orderly end is wanted
	watch    stopping.Watch
	enough   string // why the model is good enough before all clocks are done
	ending   bool   // machines are being terminated for good
	outcome  string
	failWhy  string
	finished bool
	totals   Totals
}

// Totals is what a run has come to so far.
type Totals struct {
	Machines  int // bought
	Evictions int // machines that the provider took
	Switches  int
	Rollbacks int
	Lost      ps.Clock   // clocks that roll-backs undid
	Clocks    ps.Clock   // done, each once
	Charged   market.USD // of machines that have ended
}

// Totals tells what the run has come to so far.
func (c *Controller) Totals() Totals {
	t := c.totals
	t.Clocks = c.progress.done
	return t
}

type sent struct {
	to ps.ServerID
	do tiers.Do
}

// New returns a controller; its first Step launches the reliable machines.
func New(cfg Config) *Controller {
	if cfg.NoHeartbeats {
		cfg.DeadAfter = unjudged
	}
	c := &Controller{
		cfg:        cfg,
		awake:      NewAwake(cfg.DeadAfter),
		prices:     map[market.Pool]*market.History{},
		deferred:   map[market.Pool]time.Time{},
		lifetimes:  map[market.Pool]*market.Lifetimes{},
		launches:   map[string]*launch{},
		refused:    map[string]*launch{},
		machines:   map[ps.ServerID]*machine{},
		early:      map[ps.ServerID]*early{},
		commands:   map[uint64]sent{},
		moves:      map[ps.Partition]ps.ServerID{},
		generation: max(cfg.FirstGeneration, 1),
		lastInc:    cfg.FirstIncarnation,
		lastID:     cfg.FirstID,
		stage:      tiers.Stage1,
		committed:  cfg.Job.ResumeAt,
		splits:     make([]splitState, cfg.Job.Schema.Splits),
	}
	for _, p := range cfg.Pools {
		c.prices[p.Pool] = p.History
	}
	c.between = len(c.splits)
	for i := range c.splits {
		c.splits[i].next = cfg.Job.ResumeAt + 1
	}
	c.route.Owner = make([]ps.ServerID, cfg.Job.Schema.Partitions)
	c.route.Backup = make([]ps.ServerID, cfg.Job.Schema.Partitions)
	c.progress = newProgress(len(c.splits), cfg.Job.ResumeAt)
	if cfg.Past != nil {
		c.remember(cfg.Past)
	}
	return c
}

// Step takes in an event and gives what to do about it, in order. The slice is good until the next Step. Time never goes back,
// and may leap: the driver was stopped.
func (c *Controller) Step(now time.Time, e Event) []Action {
	clear(c.out)
	c.now, c.out = now, c.out[:0]
	c.awake.Step(now)
	if c.finished {
		return nil
	}
	if c.started.IsZero() {
		c.begin()
	}
	if _, price := e.(PriceChanged); !price {
		c.seenWell = false
	}
	if c.take(e) || c.stirred || !now.Before(c.restUntil) {
		c.advance()
	} else if c.planDue() {
		c.plan()
	}
	return c.out
}

func (c *Controller) begin() {
	c.started = c.now
	if past := c.cfg.Past; past != nil && !past.Started.IsZero() {
		c.started = past.Started
	}
	c.wantPlan = true
	c.beginAdoption()
	c.saves = savings{newest: c.cfg.Checkpoints.Newest, at: c.cfg.Checkpoints.NewestAt, older: c.cfg.Checkpoints.Older, due: c.now.Add(c.cfg.Checkpoints.Every)}
	for _, p := range c.cfg.Pools {
		for _, point := range c.cfg.Past.Unwritten(p.Pool, p.History) {
			c.recordPrice(p.Pool, point)
		}
	}
}

// take takes an event in. It reports whether there may be something to do about it beside planning: see rest.go.
func (c *Controller) take(e Event) (stirs bool) {
	switch e := e.(type) {
	case PriceChanged:
		c.takePrice(e)
		return false
	case CapacityChanged:
		c.takeCapacity(e)
		return false
	case Reported:
		return c.takeReport(e.ID, e.Report)
	case Wake:
		return false
	case PricesKnown:
		c.pricesKnown = e.At
	case Launched:
		c.takeLaunched(e)
	case LaunchFailed:
		c.takeLaunchFailed(e)
	case Listed:
		return c.takeListed(e)
	case InstanceEnded:
		c.takeEnded(e.Instance)
	case Warned:
		return c.takeWarned(e)
	case Disconnected:
		if m := c.machines[e.ID]; m != nil && m.brokenAt.IsZero() {
			m.brokenAt, m.hungUp = c.awake.Now(), !c.awake.Over(m.heard, c.hangUpWithin())
			c.lookAgain(c.now.Add(c.cfg.BrokenAfter))
		}
		return false
	case StopWanted:
		if c.stopWhy == "" {
			c.stopWhy = e.Why
		}
		if e.Now && !c.ending {
			c.outcome = "interrupted"
			c.endAll(e.Why)
		}
	case ScaleWanted:
		c.takeScale(e)
	case BudgetSpoke:
		c.takeBudget(e)
	case Exported:
		c.takeExported(e)
	case ManifestWritten:
		c.takeManifest(e)
	case SaveWanted:
		c.saves.wanted, c.cutDue = true, c.now
	}
	return true
}

func (c *Controller) checkDuration() {
	if c.enough == "" && c.cfg.Job.Stop.Time > 0 {
		c.enough = c.cfg.Job.Stop.Elapsed(c.now.Sub(c.started))
	}
	if c.cfg.MaxDuration > 0 && c.stopWhy == "" && c.now.Sub(c.started) >= c.cfg.MaxDuration {
		c.stopWhy = "max_duration " + c.cfg.MaxDuration.String() + " is over"
	}
}

// record writes a journal line. It is only put together when somebody reads it: of a simulated start among
// thousands nobody does.
func (c *Controller) record(entry func() journal.Entry) {
	if c.cfg.Silent {
		return
	}
	e := entry()
	e.T = c.now
	c.out = append(c.out, Record{Entry: e})
}

func (c *Controller) act(a Action) {
	c.acts++
	c.out = append(c.out, a)
}

func (c *Controller) send(to ps.ServerID, do tiers.Do) {
	c.lastID++
	c.commands[c.lastID] = sent{to: to, do: do}
	c.act(Send{ID: to, Command: tiers.Command{ID: c.lastID, Do: do}})
}

// waiting reports whether a command of a kind is unanswered.
func waiting[T tiers.Do](c *Controller) bool {
	for _, s := range c.commands {
		if _, ok := s.do.(T); ok {
			return true
		}
	}
	return false
}

// forget drops the unanswered commands of a node, whose answers will never come.
func (c *Controller) forget(id ps.ServerID) {
	for k, s := range c.commands {
		if s.to == id {
			delete(c.commands, k)
		}
	}
}

func (c *Controller) terminate(m *machine, why string) {
	if m.terminating || m.ended {
		return
	}
	m.terminating, m.why, m.terminated = true, why, c.now
	c.act(Terminate{IDs: []provisioner.InstanceID{provisioner.InstanceID(m.id)}, Why: why})
}

// Outcome is how the run ended: "finished", "interrupted" or "failed", and why it failed or is good enough before all clocks
// are done; empty while it goes on.
func (c *Controller) Outcome() (outcome, why string) { return c.outcome, cmp.Or(c.failWhy, c.enough) }
