// Package journal is the only record of a run, append-only: JSON lines, each with the market time, a kind, a reason and the fields of its
// kind. Reports, costs and replays are made from it alone.
//
// It knows how lines are written and read, not what follows from them. docs/journal.md documents every kind and field.
package journal

import (
	"encoding/json"
	"time"
)

// Kind names what a line is about.
type Kind string

// Every kind of line; docs/journal.md gives the fields of each.
const (
	Start        Kind = "start"             // first line: version, seed, clock mapping, resolved job
	Plan         Kind = "plan"              // what was promised before anything was bought
	Price        Kind = "price"             // pool, usd, at: the price per hour from `at` on
	Intent       Kind = "intent"            // token, pool, bid, count: written before the launch is tried
	Launch       Kind = "launch"            // token, instance, tier, pool, bid, launched
	LaunchFailed Kind = "launch-failed"     // token, pool, count
	Ready        Kind = "ready"             // instance: its agent is running and has its data
	Notice       Kind = "notice"            // instance, pool, deadline
	Evicted      Kind = "evicted"           // instance, pool, ended: the provider took it
	Failed       Kind = "failed"            // instance, pool: its agent disappeared without warning
	Silence      Kind = "silence"           // to, count: most machines have fallen silent together, or no longer are
	Provider     Kind = "provider"          // to: its calls fail, work again, or the run leaves its machines
	Terminated   Kind = "terminated"        // instance, pool, ended: the buyer ended it
	Join         Kind = "join"              // instance, splits, partitions: takes part in training
	Leave        Kind = "leave"             // instance: no longer takes part
	Stage        Kind = "stage"             // from, to, transient, reliable
	Budget       Kind = "budget"            // to: the response to the money spent
	Scale        Kind = "scale"             // from, to: how many machines are wanted
	Tune         Kind = "tune"              // from, to (settings), clock
	Move         Kind = "move"              // count partitions, from, to
	Moved        Kind = "moved"             // count partitions, bytes, seconds: moves have ended
	Cut          Kind = "cut"               // clock, bytes, seconds: committed
	Checkpoint   Kind = "checkpoint"        // clock, bytes, seconds, model: a committed cut was saved during training
	SaveFailed   Kind = "checkpoint-failed" // clock
	TakeOver     Kind = "takeover"          // count (machines taken over), clock, generation: a new controller
	Flush        Kind = "flush"             // clock (committed), bytes, seconds (left): the rescue of departing servers
	Rollback     Kind = "rollback"          // generation, clock (returned to), lost_clocks
	Switch       Kind = "switch"            // from, to (pools), from_mttf, to_mttf
	Release      Kind = "release"           // instance, pool: works to the end of its paid time, and then goes
	ClockDone    Kind = "clock"             // clock, train_loss, test_loss, seconds, machines, work, redone
	Profile      Kind = "profile"           // clock, seconds (median of a clock), details: the load of serving the model
	Use          Kind = "use"               // instance, seconds, cpu_seconds, memory_bytes and the like: what a machine has used since the previous line
	Charge       Kind = "charge"            // instance, pool, from, to (times), usd: a billed line
	Export       Kind = "export"            // clock, model, test_loss: parameters saved, as the result or to resume from
	Done         Kind = "done"              // outcome, model, test_loss
	// For users' programs. Program names a rank or a task, Generation its attempt.
	ProgramStart      Kind = "program-start"       // program, instance, generation, clock (step), bytes, model (state): it runs
	ProgramStep       Kind = "program-step"        // program, generation, clock (step), train_loss, round (the rung of a sweep, from 1), redone, why
	ProgramSaved      Kind = "program-saved"       // program, instance, generation, clock (step), bytes, seconds, model, digest
	ProgramSaveFailed Kind = "program-save-failed" // program, instance, generation
	ProgramEnd        Kind = "program-end"         // program, instance, generation, outcome, code, clock (step), train_loss
	ProgramDropped    Kind = "program-dropped"     // program, clock (step): a trial that is dropped after feedback
)

// Values of Outcome: for the end of a run the first three, for a program's attempt all except Interrupted and Cancelled.
const (
	Finished    = "finished"
	Failure     = "failed"
	Interrupted = "interrupted"
	Lost        = "lost"      // with a machine: work since the saved state is repeated
	Stopped     = "stopped"   // in order, with its state saved
	Cancelled   = "cancelled" // of a task: it is not assigned again
)

// FailedElsewhere is the reason of ranks that are lost because another one has failed.
const FailedElsewhere = "the program failed on another machine"

// Values of To in a Budget line.
const (
	Warned = "warned"
	Paused = "paused"
	GoesOn = "goes-on"
	// The response to a silence of most machines, or of the provider: the run waits, hears them again, or gives them up.
	Waiting = "waiting"
	Heard   = "heard"
	GivenUp = "given-up"
)

// Entry is one line. Fields that a kind does not use are absent from the JSON. Money is a decimal string
// in US dollars, exact to the billionth.
type Entry struct {
	T    time.Time `json:"t"` // market time
	Kind Kind      `json:"kind"`
	Why  string    `json:"why,omitempty"`

	Instance string `json:"instance,omitempty"`
	Tier     string `json:"tier,omitempty"` // "reliable" or "transient"
	Token    string `json:"token,omitempty"`
	Pool     string `json:"pool,omitempty"` // market.Pool.String
	From     string `json:"from,omitempty"`
	To       string `json:"to,omitempty"`

	Or []Choice `json:"or,omitempty"` // pools in addition to Pool

	USD string `json:"usd,omitempty"`
	Bid string `json:"bid,omitempty"`

	At       *time.Time `json:"at,omitempty"`
	Launched *time.Time `json:"launched,omitempty"`
	Ended    *time.Time `json:"ended,omitempty"`
	Deadline *time.Time `json:"deadline,omitempty"`
	EndedBy  string     `json:"ended_by,omitempty"` // "user" or "provider"

	Count      int `json:"count,omitempty"`
	Splits     int `json:"splits,omitempty"`
	Partitions int `json:"partitions,omitempty"`
	Transient  int `json:"transient,omitempty"`
	Reliable   int `json:"reliable,omitempty"`

	Clock      int64   `json:"clock,omitempty"`
	LostClocks int64   `json:"lost_clocks,omitempty"`
	Generation uint64  `json:"generation,omitempty"`
	Bytes      int64   `json:"bytes,omitempty"`
	Seconds    float64 `json:"seconds,omitempty"` // wall-clock seconds
	Work       float64 `json:"work,omitempty"`    // floating-point operations
	Redone     bool    `json:"redone,omitempty"`  // this clock had been done before a roll-back

	OfSwitch

	TrainLoss *float64 `json:"train_loss,omitempty"`
	TestLoss  *float64 `json:"test_loss,omitempty"`

	Outcome string `json:"outcome,omitempty"` // "finished", "interrupted", "failed"; of a program's attempt also "lost", "stopped"; of a task "cancelled"
	Model   string `json:"model,omitempty"`

	OfProgram
	OfUse

	Log string `json:"log,omitempty"` // lines that an agent wrote before it ended by itself

	// Details is the resolved job (start), the plan (plan), or what another controller must know (scale, stage).
	Details json.RawMessage `json:"details,omitempty"`
}

// OfSwitch are the fields of a change of pools, in market seconds.
type OfSwitch struct {
	FromMTTF float64 `json:"from_mttf,omitempty"`
	ToMTTF   float64 `json:"to_mttf,omitempty"`
}

// OfProgram are the fields of lines about a user's program.
type OfProgram struct {
	Program string `json:"program,omitempty"` // "rank-0", "task-17"
	Digest  string `json:"digest,omitempty"`  // SHA-256 of what Model names, hexadecimal
	Code    int    `json:"code,omitempty"`    // exit code
	Round   uint64 `json:"round,omitempty"`   // states of a program's ranks that belong together have the same
}

// OfUse is what an attempt or a machine has used; 0 = unknown.
type OfUse struct {
	CPU       float64 `json:"cpu_seconds,omitempty"`
	Wait      float64 `json:"wait_seconds,omitempty"` // for which an attempt's threads waited for a processor, all together
	Memory    int64   `json:"memory_bytes,omitempty"` // the peak of one of an attempt's processes, or the machine's total peak
	GPU       float64 `json:"gpu_seconds,omitempty"`  // in which a GPU computed, averaged over a machine's GPUs
	GPUMemory int64   `json:"gpu_memory_bytes,omitempty"`
	BytesIn   int64   `json:"bytes_in,omitempty"` // over the network
	BytesOut  int64   `json:"bytes_out,omitempty"`
}

// Choice is a pool, and the bid there if one is made.
type Choice struct {
	Pool string `json:"pool"`
	Bid  string `json:"bid,omitempty"`
}
