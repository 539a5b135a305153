package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// StartDetails is the Details of a `start` line: everything about the run that a reader needs to reproduce the report, years later and
// without the job file. Pools are market.Pool strings, money is a decimal string of US dollars, durations are seconds.
type StartDetails struct {
	Version string `json:"version"` // of the program that wrote the journal
	Name    string `json:"name"`    // of the job
	Seed    uint64 `json:"seed"`
	Clock   string `json:"clock"` // clock.Mapping.String: the mapping from wall-clock to market time
	Rules   string `json:"rules"` // the market rule book that bills, for example "ec2-2017"
	Cloud   string `json:"cloud,omitempty"`

	App            string  `json:"app"`
	Metric         string  `json:"metric,omitempty"` // the kind of loss, for example "rmse"; less is better
	TargetLoss     float64 `json:"target_loss,omitempty"`
	Clocks         int64   `json:"clocks,omitempty"` // requested by the job
	ClocksPerEpoch float64 `json:"clocks_per_epoch,omitempty"`
	Splits         int     `json:"splits,omitempty"`
	Partitions     int     `json:"partitions,omitempty"`

	Machines []MachineType `json:"machines"` // every type that the run may use
	Reliable Fleet         `json:"reliable"` // the machines that stay
	Pools    []string      `json:"pools,omitempty"`
	// ZoneIDs are the ids of the zones, whose names are specific to an account; absent if names are universal, or ids unknown.
	ZoneIDs map[string]string `json:"zone_ids,omitempty"`
	// Billed: the `charge` lines are the machines' bills, whatever the rule book says: they are slots of shared hosts.
	Billed bool `json:"billed,omitempty"`
	Want   Want `json:"want"`

	Program *ProgramDetails `json:"program,omitempty"` // absent if an application is trained

	OrphanAfter float64    `json:"orphan_after,omitempty"` // market seconds that agents continue to train without a controller
	Thresholds  Thresholds `json:"thresholds"`

	// Job is the job as resolved, in the job file's own words.
	Job json.RawMessage `json:"job,omitempty"`
}

// ProgramDetails describes a user's program.
type ProgramDetails struct {
	Tasks int   `json:"tasks,omitempty"` // of an array
	Of    int64 `json:"of,omitempty"`    // the step at which a program is done
	Sweep bool  `json:"sweep,omitempty"` // the tasks are trials of a sweep
	// SaveEvery is how often state is mirrored, in market seconds; absent without state.
	SaveEvery float64 `json:"save_every,omitempty"`
}

// ProgramStartDetails is the Details of a `program-start` line: the wall-clock seconds that the machine spent before.
type ProgramStartDetails struct {
	Fetch   float64 `json:"fetch,omitempty"` // of the workdir
	Setup   float64 `json:"setup,omitempty"`
	Restore float64 `json:"restore,omitempty"`
	// Settings of the sweep's trial.
	Settings map[string]string `json:"settings,omitempty"`
}

// MachineType is what the run assumes about one type of machine.
type MachineType struct {
	Name      string `json:"name"`
	VCPU      int    `json:"vcpu"`
	MemoryMiB int64  `json:"memory_mib,omitempty"`
	OnDemand  string `json:"on_demand"` // per hour
	// FLOPS is the compute rate of one machine in floating-point operations per wall-clock second. On a
	// replayed market a wall-clock second is Speed market seconds long.
	FLOPS float64 `json:"flops"`
	// Network is the capacity of its network link in one direction, in bytes per second; absent if unknown.
	Network float64 `json:"network,omitempty"`
}

// Fleet is a number of like machines.
type Fleet struct {
	Pool  string `json:"pool"`
	Count int    `json:"count"`
}

// Want is the requested transient capacity; one of the two is set.
type Want struct {
	Machines int `json:"machines,omitempty"`
	VCPU     int `json:"vcpu,omitempty"`
}

// Thresholds are the figures at which the controller changes its mind.
type Thresholds struct {
	Stage2Ratio  float64 `json:"stage2_ratio,omitempty"`  // transient machines per reliable one above which stage 2 begins
	Stage3Ratio  float64 `json:"stage3_ratio,omitempty"`  // and stage 3
	SwitchFactor float64 `json:"switch_factor,omitempty"` // another pool's MTTF must be this many times as long
	SwitchAfter  float64 `json:"switch_after,omitempty"`  // for this many market seconds
}

// PlanDetails is the Details of a `plan` line: what the run promised before it bought anything.
type PlanDetails struct {
	Policy  string     `json:"policy,omitempty"`
	Assumed []string   `json:"assumed,omitempty"` // values that the job leaves open
	Pools   []PlanPool `json:"pools"`
	Cost    Estimate   `json:"cost"`    // US dollars
	Runtime Estimate   `json:"runtime"` // market seconds
	// OnDemand is the cheapest suitable fleet that no provider reclaims, and the cost of the undisturbed work on it.
	OnDemand OnDemandPlan `json:"on_demand"`
	// Reliable are the types that were considered for a reliable tier that the job leaves open, the chosen one first.
	Reliable []PlanReliable `json:"reliable,omitempty"`
	// Auto is how `policy: auto` was decided; absent if the job names its policy.
	Auto *PlanAuto `json:"auto,omitempty"`
	// Basis explains what Cost and Runtime are based on, or why they are unknown.
	Basis string `json:"basis,omitempty"`
	// Sources explains where the prices come from and how old they were.
	Sources []string `json:"sources,omitempty"`
	// Tuning names the settings tuned while training continues, or why none is; absent if the job does not tune.
	Tuning string `json:"tuning,omitempty"`
	// Own is how well earlier plans held in finished runs; absent if none has.
	Own *PlanOwn `json:"own,omitempty"`
	// Worth is the value of the job's choices; absent if nothing is compared.
	Worth *PlanWorth `json:"worth,omitempty"`
	// Prediction is for the run's own start; absent if it was not made.
	Prediction *Prediction `json:"prediction,omitempty"`
	// Program holds the assumptions about a user's program.
	Program *PlanProgram `json:"program,omitempty"`
}

// PlanProgram is what a plan assumes about a user's program.
type PlanProgram struct {
	Tasks   int     `json:"tasks,omitempty"`
	Hours   float64 `json:"hours"` // of one, on one machine of type On
	On      string  `json:"on"`
	Basis   string  `json:"basis"`
	Workdir int64   `json:"workdir_bytes,omitempty"` // packed
	State   int64   `json:"state_bytes,omitempty"`   // of one machine; absent = unknown
	Store   string  `json:"store"`
}

// PlanAuto is how `policy: auto` was decided.
type PlanAuto struct {
	Why         string          `json:"why"`
	ValueOfTime string          `json:"value_of_time,omitempty"` // of an hour
	Candidates  []PlanCandidate `json:"candidates,omitempty"`
}

// PlanCandidate is a policy and its results from past starts: weighted means and 95th percentiles.
type PlanCandidate struct {
	Policy   string  `json:"policy"`
	Starts   int     `json:"starts"`
	Cost     float64 `json:"cost"` // US dollars
	CostP95  float64 `json:"cost_p95"`
	Hours    float64 `json:"hours"`
	HoursP95 float64 `json:"hours_p95"`
	// Against is how much more expensive it is than the chosen policy over the common starts, including the value of time, as a share;
	// StdError is its standard error.
	Against  float64 `json:"against"`
	StdError float64 `json:"std_error"`
	Chosen   bool    `json:"chosen,omitempty"`
	Dropped  bool    `json:"dropped,omitempty"` // it has fewer starts than the chosen one, so that its means are not comparable
	Why      string  `json:"why,omitempty"`     // why it is not chosen, if not because of its mean
}

// PlanReliable is a type for the reliable tier, with what each machine needs and has: bytes, and bytes a second.
type PlanReliable struct {
	Type       string  `json:"type"`
	Count      int     `json:"count"`
	USD        string  `json:"usd_per_hour"` // of all machines
	Memory     int64   `json:"memory"`
	HasMemory  int64   `json:"has_memory"`
	Network    float64 `json:"network"`
	HasNetwork float64 `json:"has_network"`
	Refused    string  `json:"refused,omitempty"` // why it cannot be the tier
}

// PlanOwn counts runs of the same kind of cloud, and those that ended inside the range of their plan.
type PlanOwn struct {
	Replayed bool `json:"replayed,omitempty"`
	Runs     int  `json:"runs"`
	ByCost   int  `json:"inside_by_cost"`
	ByTime   int  `json:"inside_by_time"`
}

// PlanWorth compares choices of the job with others, by means over past starts.
type PlanWorth struct {
	Starts  int            `json:"starts"`
	Tier    *PlanTierWorth `json:"reliable_tier,omitempty"`
	Waiting *PlanWaiting   `json:"prefer_time,omitempty"`
}

// PlanTierWorth is the cost with and without the reliable tier (by checkpoint), if only prices take machines.
type PlanTierWorth struct {
	With    string  `json:"usd_with"`
	Without string  `json:"usd_without"`
	From    float64 `json:"pays_from_machine_hours,omitempty"` // to one eviction for capacity; absent: at no rate
	Always  bool    `json:"pays_anyway,omitempty"`
}

// PlanWaiting is how much sooner `prefer: time` ends, and its cost.
type PlanWaiting struct {
	Policy  string  `json:"policy"`
	Seconds float64 `json:"sooner_seconds"`
	USD     string  `json:"usd_more"`
}

// Prediction is the result of one simulated run from the job's own start, in the recording's prices.
type Prediction struct {
	USD      string   `json:"usd"`
	Seconds  float64  `json:"seconds"`           // market seconds
	Finished bool     `json:"finished"`          // false: it would be ended before it is done
	Done     float64  `json:"done,omitempty"`    // share of the work
	Why      string   `json:"why,omitempty"`     // of that end
	Bought   string   `json:"bought,omitempty"`  // kinds of machines
	Basis    string   `json:"basis"`             // whose timing it assumes
	Skipped  []string `json:"skipped,omitempty"` // unsimulated steps of the job's script
}

// PlanPool is one pool that was considered.
type PlanPool struct {
	Pool     string  `json:"pool"`
	Price    string  `json:"price,omitempty"` // per hour; absent if unknown
	OnDemand string  `json:"on_demand,omitempty"`
	Saving   float64 `json:"saving,omitempty"` // fraction of the on-demand price, 0.8 = 80 %
	Bid      string  `json:"bid,omitempty"`
	// MTTF is the expected time in market seconds until the price exceeds the bid; 0 if unknown.
	MTTF         float64 `json:"mttf,omitempty"`
	MTTFCensored bool    `json:"mttf_censored,omitempty"` // no crossing was seen: MTTF is only a lower bound
	Capacity     string  `json:"capacity,omitempty"`      // in words
	// Hints are the provider's reports on the pool other than prices; absent if there are none, and on intent lines.
	Hints  *PoolHints `json:"hints,omitempty"`
	Count  int        `json:"count,omitempty"` // machines that satisfy the job
	Chosen bool       `json:"chosen,omitempty"`
	Why    string     `json:"why,omitempty"`
}

// PoolHints are a provider's reports of how long machines of a pool are kept, and whether they are available.
type PoolHints struct {
	Interrupted *PoolHint `json:"interrupted,omitempty"` // share of machines that were interrupted within a month
	Uptime      *PoolHint `json:"uptime,omitempty"`      // minimum lifetime of most machines, in hours
	Placement   *PoolHint `json:"placement,omitempty"`   // score from 1 to 10 of a launch
}

// PoolHint is a figure, and when it was reported.
type PoolHint struct {
	Value float64   `json:"value"`
	At    time.Time `json:"at"`
}

// IntentDetails is the Details of an `intent` line: alternatives, as they were seen then. PlanPool has the fields that a policy uses.
type IntentDetails struct {
	Considered []PlanPool `json:"considered"`
}

// Estimate is a figure with its range.
type Estimate struct {
	Low  float64 `json:"low"`
	Mid  float64 `json:"mid"`
	High float64 `json:"high"`
}

// OnDemandPlan is the on-demand fleet that a run is compared with.
type OnDemandPlan struct {
	Pool  string  `json:"pool"`
	Count int     `json:"count"`
	Hours float64 `json:"hours,omitempty"`
	USD   string  `json:"usd,omitempty"`
	// Beside is the time of a clock there without its share of the computing, in market seconds.
	Beside float64 `json:"beside,omitempty"`
}

// ScaleDetails is the Details of a `scale` line: the numbers in force from then on. Without a Want they are the job's.
type ScaleDetails struct {
	Want    *Want `json:"want,omitempty"`
	Servers int   `json:"servers,omitempty"` // 0 = the stage's number
	// Reliable machines; 0 = the job's number.
	Reliable int `json:"reliable,omitempty"`
	// Measured: the number of reliable machines follows measured load; no person set it.
	Measured bool `json:"measured,omitempty"`
	// Lent reliable machines are additional: the placer of the job on shared machines added them.
	Lent int `json:"lent,omitempty"`
	// Leaves is the reliable machine that goes when there is one too many; absent = the youngest.
	Leaves string `json:"leaves,omitempty"`
	// Paused names who paused the run; empty = not paused.
	Paused string `json:"paused,omitempty"`
	// Scheduled: only a scheduler has paused it.
	Scheduled bool `json:"scheduled,omitempty"`
}

// MovedDetails is the Details of a `moved` line: how long a worker waited for a partition because neither owner served it, in wall-clock
// seconds.
type MovedDetails struct {
	Waited  float64 `json:"waited"`  // all partitions together
	Longest float64 `json:"longest"` // the longest
}

// ProfileDetails is the Details of a `profile` line: for each partition, in order, the wall-clock nanoseconds per clock that its owner
// takes to add up contributions and to fold them, and the bytes that it receives and sends.
type ProfileDetails struct {
	Serving []int64 `json:"serving"`
	In      []int64 `json:"bytes_in,omitempty"` // absent if unknown
	Out     []int64 `json:"bytes_out,omitempty"`
}

// ExportDetails is the Details of an `export` line of a classifier's finished model.
type ExportDetails struct {
	Quality *Quality `json:"quality"`
}

// Quality is a classifier's quality on held-out examples, in addition to its score.
type Quality struct {
	Examples int64   `json:"examples"`
	Accuracy float64 `json:"accuracy"`
	Majority float64 `json:"majority"` // the accuracy of always predicting the most frequent class, Usual
	Usual    string  `json:"usual"`
	// Recall and F1 refer to Class, the rarer of two; without it they are means over all classes.
	Class  string  `json:"class,omitempty"`
	Recall float64 `json:"recall"`
	F1     float64 `json:"f1"`
	// AUC is the area under the ROC curve, for more than two classes the mean of each against the others; absent if the examples lack one.
	AUC *float64 `json:"auc,omitempty"`
}

// String implements fmt.Stringer; it leaves the accuracy out.
func (q *Quality) String() string {
	of := "mean over classes"
	if q.Class != "" {
		of = fmt.Sprintf("class %q", q.Class)
	}
	text := fmt.Sprintf("always %q would reach %.4g; %s: recall %.4g, F1 %.4g", q.Usual, q.Majority, of, q.Recall, q.F1)
	if q.AUC != nil {
		text += fmt.Sprintf("; AUC %.4g", *q.AUC)
	}
	return text
}

// StageDetails is the Details of a `stage` line if load has had an influence: the lowest stage that it permits, how often that fell, which
// makes the next fall take longer, and the reason.
type StageDetails struct {
	Floor int `json:"floor"`
	Falls int `json:"falls,omitempty"`
	// Undone is how many changes were undone because clocks became longer.
	Undone int    `json:"undone,omitempty"`
	Load   string `json:"load,omitempty"`
}

// TuneDetails is the Details of a `tune` line: the tuner's decision, and the result of the previous setting. Another controller continues
// from these lines alone.
type TuneDetails struct {
	Step     string `json:"step"`     // the reason as a word: tuner.Step
	Machines int    `json:"machines"` // number of transient machines that the setting is for
	// Rate is their total declared rate.
	Rate float64 `json:"rate,omitempty"`
	// Setting has the value of each knob by name, from this clock on; absent: the stage decides.
	Setting map[string]int `json:"setting,omitempty"`
	Gain    float64        `json:"gain,omitempty"`  // wall-clock seconds that the setting is expected to save until the end, against the default
	Cost    float64        `json:"cost,omitempty"`  // and the expected cost of the change
	Saved   float64        `json:"saved,omitempty"` // total so far, against the default; less than 0 = lost
	Sample  *TuneSample    `json:"sample,omitempty"`
}

// TuneSample is the performance of a setting for some clocks. Seconds are wall-clock.
type TuneSample struct {
	Setting map[string]int `json:"setting"`
	Clock   int64          `json:"clock"`          // the last one
	Loss    float64        `json:"loss,omitempty"` // before the first
	Change  float64        `json:"change,omitempty"`
	Clocks  []TuneClock    `json:"clocks"`
	Pace    float64        `json:"pace,omitempty"`         // seconds per undisturbed clock; 0 = too few
	Default float64        `json:"default_pace,omitempty"` // the same for the default
	// Expected is how many seconds per clock it was expected to save against the default, Real how many it did.
	Expected float64 `json:"expected,omitempty"`
	Real     float64 `json:"real,omitempty"`
}

// TuneClock is one clock of a sample.
type TuneClock struct {
	Seconds   float64 `json:"seconds"`
	Loss      float64 `json:"loss,omitempty"`
	Disturbed bool    `json:"disturbed,omitempty"` // by the market, a cut or a measurement of the test loss
}

// Pack encodes details as the Details of an entry. The types hold nothing that JSON cannot represent, except a number that is not finite,
// which is a bug in the caller.
func Pack[D StartDetails | PlanDetails | IntentDetails | ScaleDetails | MovedDetails | ProfileDetails | ExportDetails | StageDetails | TuneDetails](d D) (json.RawMessage, error) {
	b, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("packing the details of a journal line: %w", err)
	}
	return b, nil
}

// StartDetails reads the details of a `start` line.
func (e Entry) StartDetails() (StartDetails, error) { return unpack[StartDetails](e, Start) }

// PlanDetails reads the details of a `plan` line.
func (e Entry) PlanDetails() (PlanDetails, error) { return unpack[PlanDetails](e, Plan) }

// IntentDetails reads the details of an `intent` line.
func (e Entry) IntentDetails() (IntentDetails, error) { return unpack[IntentDetails](e, Intent) }

// ScaleDetails reads the details of a `scale` line. If they do not say whose a pause is, as in older journals, its text does.
func (e Entry) ScaleDetails() (ScaleDetails, error) {
	d, err := unpack[ScaleDetails](e, Scale)
	d.Scheduled = d.Scheduled || strings.HasPrefix(d.Paused, "scheduler ")
	return d, err
}

// MovedDetails reads the details of a `moved` line.
func (e Entry) MovedDetails() (MovedDetails, error) { return unpack[MovedDetails](e, Moved) }

// ProfileDetails reads the details of a `profile` line.
func (e Entry) ProfileDetails() (ProfileDetails, error) { return unpack[ProfileDetails](e, Profile) }

// ExportDetails reads the details of an `export` line.
func (e Entry) ExportDetails() (ExportDetails, error) { return unpack[ExportDetails](e, Export) }

// StageDetails reads the details of a `stage` line.
func (e Entry) StageDetails() (StageDetails, error) { return unpack[StageDetails](e, Stage) }

// TuneDetails reads the details of a `tune` line.
func (e Entry) TuneDetails() (TuneDetails, error) { return unpack[TuneDetails](e, Tune) }

func unpack[D any](e Entry, want Kind) (d D, err error) {
	if e.Kind != want {
		return d, fmt.Errorf("a %q line has no %s details", e.Kind, want)
	}
	if len(e.Details) == 0 {
		return d, fmt.Errorf("the %q line: %w", want, errNoDetails)
	}
	if err := json.Unmarshal(e.Details, &d); err != nil {
		return d, fmt.Errorf("the details of the %q line: %w", want, err)
	}
	return d, nil
}

var errNoDetails = errors.New("it has no details")
