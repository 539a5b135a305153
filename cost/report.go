package cost

import (
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// Report describes what a run cost and achieved, as plain data: `tierml report -o json` prints it. Times are market time; money is a decimal
// string of US dollars; lists have a fixed order.
type Report struct {
	Run        Run         `json:"run"`
	Totals     Totals      `json:"totals"`
	Equivalent *Equivalent `json:"equivalent,omitempty"` // absent if the journal names no fleet for it
	Training   Training    `json:"training"`
	Programs   *Programs   `json:"programs,omitempty"` // of the user's own; absent if an application was trained
	Progress   Progress    `json:"progress"`
	Waste      Waste       `json:"waste"`
	Pools      []Pool      `json:"pools"`     // by pool
	Instances  []Instance  `json:"instances"` // by launch time, then name
	Decisions  []Decision  `json:"decisions"` // plans and purchases, in the order of the journal
	Events     []Event     `json:"events"`    // in the order of the journal
	Failure    *Failure    `json:"failure,omitempty"`
	Series     Series      `json:"series"`

	// Supplement lists what the journal of a killed run lacked, and Reconciliation says how the total compares with the provider's bill.
	// Both are absent if there are no records of the provider.
	Supplement     *Supplement     `json:"supplement,omitempty"`
	Reconciliation *Reconciliation `json:"reconciliation,omitempty"`
	Warnings       []string        `json:"warnings,omitempty"`
}

// Run identifies the run.
type Run struct {
	Name     string    `json:"name"`
	Version  string    `json:"version"`
	Policy   string    `json:"policy,omitempty"` // from the plan
	App      string    `json:"app"`
	Kind     string    `json:"kind"`             // of job: training, diloco, program, gang, array, sweep, hosts
	Search   string    `json:"search,omitempty"` // of a sweep: how its settings are drawn
	Metric   string    `json:"metric"`           // what the losses are
	Cloud    string    `json:"cloud,omitempty"`
	Rules    string    `json:"rules"`
	Seed     uint64    `json:"seed"`
	Finished bool      `json:"finished"` // the journal has its final line
	Outcome  string    `json:"outcome"`  // from the final line, or "unfinished"; the dashboard has "running", "waiting", "paused" or "killed"
	Why      string    `json:"why,omitempty"`
	Log      string    `json:"log,omitempty"` // of the agent whose crash is most informative about a run that was given up
	Model    string    `json:"model,omitempty"`
	Began    time.Time `json:"began"`
	AsOf     time.Time `json:"as_of"`              // the time of the report
	Speed    float64   `json:"speed"`              // market seconds per wall-clock second
	Replayed bool      `json:"replayed,omitempty"` // the market is a recording, so its dollars are not real
	Seconds  float64   `json:"seconds"`
	// Resumed is how often the run was resumed, ResumedAt when last.
	Resumed   int        `json:"resumed,omitempty"`
	ResumedAt *time.Time `json:"resumed_at,omitempty"`
	// ZoneIDs are the ids of the run's zones, whose names are specific to an account; absent if unknown.
	ZoneIDs map[string]string `json:"zone_ids,omitempty"`
}

// Totals is the bill, with figures for comparison.
type Totals struct {
	Total    market.USD `json:"total"`
	Spot     market.USD `json:"spot"`
	OnDemand market.USD `json:"on_demand"` // reliable machines
	// Committed is the part of the reliable machines' price covered by a commitment, which is paid anyway. It is not in the total.
	Committed market.USD `json:"committed,omitempty"`
	// Moved is the cost of moving the run's state between regions. It is in the total.
	Moved market.USD `json:"moved,omitempty"`
	// Equivalent, Saving and SavingPercent compare with the on-demand equivalent. Savings may be negative.
	Equivalent    market.USD `json:"equivalent"`
	Saving        market.USD `json:"saving"`
	SavingPercent float64    `json:"saving_percent"`
	// SameMachines is what the hours of the same machines would have cost on demand.
	SameMachines market.USD `json:"same_machines_on_demand"`
	MachineHours float64    `json:"machine_hours"`
	Evictions    int        `json:"evictions"`
	Rollbacks    int        `json:"rollbacks"`
}

// Training is the progress of the model.
type Training struct {
	Clocks       int      `json:"clocks"` // contained in the model
	Epochs       float64  `json:"epochs,omitempty"`
	RedoneClocks int      `json:"redone_clocks"`
	LostClocks   int64    `json:"lost_clocks"` // that roll-backs undid
	Work         float64  `json:"work"`        // floating-point operations contained in the model
	WorkInAll    float64  `json:"work_in_all"` // including lost work
	TrainLoss    *float64 `json:"train_loss,omitempty"`
	TestLoss     *float64 `json:"test_loss,omitempty"` // the last measured
	BestTestLoss *float64 `json:"best_test_loss,omitempty"`
	BestClock    int64    `json:"best_clock,omitempty"`
	// Quality is the saved model's, of a classifier.
	Quality *journal.Quality `json:"quality,omitempty"`
	Serving *Serving         `json:"serving,omitempty"` // absent if it was not measured
}

// Serving is the wall-clock cost of serving the model, per clock, for all partitions together.
type Serving struct {
	Clock        int64   `json:"clock"`
	ClockSeconds float64 `json:"clock_seconds"` // the median length of a clock
	Seconds      float64 `json:"seconds"`       // per clock, to add up contributions and to fold them
	Cores        float64 `json:"cores"`         // the same as a share of a core
}

// Progress is the price of getting on. A line of the bill counts evenly over the time that it covers.
type Progress struct {
	PerClock *float64  `json:"usd_per_clock,omitempty"` // dollars
	PerEpoch *float64  `json:"usd_per_epoch,omitempty"`
	Until    []Reached `json:"until,omitempty"` // from high losses to low ones
}

// Reached is when and at what cost the test loss first fell to a value.
type Reached struct {
	Loss    float64   `json:"loss"`
	Note    string    `json:"note"` // why this value
	Clock   int64     `json:"clock"`
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"` // since the run started
	USD     float64   `json:"usd"`
}

// Pool summarises the machines of one pool.
type Pool struct {
	Pool      string     `json:"pool"`
	Machines  int        `json:"machines"`
	Evicted   int        `json:"evicted"`
	Hours     float64    `json:"hours"`
	FreeHours float64    `json:"free_hours"`
	USD       market.USD `json:"usd"`
	PerHour   float64    `json:"usd_per_hour"` // paid per machine hour
	OnDemand  market.USD `json:"on_demand"`    // price per hour
	Saving    float64    `json:"saving"`       // as a fraction of the on-demand price for the same hours
}

// Instance is one machine's life and bill.
type Instance struct {
	ID       string     `json:"id"`
	Tier     string     `json:"tier"`
	Pool     string     `json:"pool"`
	Bid      market.USD `json:"bid"` // 0 for on-demand
	Launched time.Time  `json:"launched"`
	Joined   *time.Time `json:"joined,omitempty"`
	Warned   *time.Time `json:"warned,omitempty"`
	Ended    *time.Time `json:"ended,omitempty"` // absent while running
	EndedBy  string     `json:"ended_by,omitempty"`
	Fate     string     `json:"fate"` // "terminated", "evicted", "evicted without warning", "failed", "running"
	Why      string     `json:"why,omitempty"`
	Hours    float64    `json:"hours"`
	USD      market.USD `json:"usd"`
	Charges  []Charge   `json:"charges"`
}

// Charge is one line of the bill.
type Charge struct {
	From time.Time  `json:"from"`
	To   time.Time  `json:"to"`
	Rate market.USD `json:"rate"`
	USD  market.USD `json:"usd"`
	Free bool       `json:"free,omitempty"`
	Note string     `json:"note,omitempty"`
}

// Event is a noteworthy event in words.
type Event struct {
	T         time.Time `json:"t"`
	Kind      string    `json:"kind"`
	Text      string    `json:"text"`
	Why       string    `json:"why,omitempty"`
	Instances []string  `json:"instances,omitempty"`
}

// String returns the text with its reason.
func (e Event) String() string {
	if e.Why == "" {
		return e.Text
	}
	return e.Text + " (" + e.Why + ")"
}

// Series is the data for charts.
type Series struct {
	Prices   []PriceSeries `json:"prices"`   // by pool
	Machines []MachineStep `json:"machines"` // the machines from each instant on
	Loss     []LossPoint   `json:"loss"`     // one per clock, or what a program has reported; thinned if there are very many
	Tuning   []TuneStep    `json:"tuning,omitempty"`
	Use      []MachineUse  `json:"use,omitempty"` // by machine, as in Instances
}

// TuneStep is a setting from some instant on, and the result of the previous one.
type TuneStep struct {
	At      time.Time      `json:"at"`
	Clock   int64          `json:"clock"`
	Step    string         `json:"step"` // why: "default", "trial", "again", "explore", "back", "stay" or "off"
	Setting map[string]int `json:"setting,omitempty"`
	// Pace is the seconds per clock of the previous setting, Default those of the default; 0 = not measured.
	Pace    float64 `json:"pace,omitempty"`
	Default float64 `json:"default_pace,omitempty"`
	// Expected and Real are the seconds per clock by which it was expected to improve on the previous setting, and did.
	Expected float64 `json:"expected,omitempty"`
	Real     float64 `json:"real,omitempty"`
}

// PriceSeries is a pool's price as a step function.
type PriceSeries struct {
	Pool  string      `json:"pool"`
	Steps []PriceStep `json:"steps"`
}

// PriceStep is a price from an instant on.
type PriceStep struct {
	At  time.Time `json:"at"`
	USD float64   `json:"usd"`
}

// MachineStep is the set of machines from an instant on.
type MachineStep struct {
	At        time.Time `json:"at"`
	Transient int       `json:"transient"`
	Reliable  int       `json:"reliable"`
	Stage     string    `json:"stage,omitempty"`
	// Pools are those with machines in training: reliable ones first, then by pool.
	Pools []PoolCount `json:"pools,omitempty"`
}

// PoolCount is how many of a pool's machines take part.
type PoolCount struct {
	Tier  string `json:"tier"`
	Pool  string `json:"pool"`
	Count int    `json:"count"`
}

// LossPoint is a completed clock, or a step for which a program has reported its loss.
type LossPoint struct {
	Clock  int64     `json:"clock"`
	At     time.Time `json:"at"`
	USD    float64   `json:"usd"` // paid so far
	Train  *float64  `json:"train,omitempty"`
	Test   *float64  `json:"test,omitempty"`
	Redone bool      `json:"redone,omitempty"`
}
