package tiers

import (
	"errors"
	"time"

	"github.com/tierml/tierml/ps"
)

// OrphanEnds is how long a machine that was left alone for orphan_after takes to end its program and save its state, in wall-clock time.
const OrphanEnds = 5 * time.Second

// Command is the controller's request to a node. Each is answered by exactly one Answer with its ID. Commands of one node arrive in the
// order in which they were sent.
type Command struct {
	ID uint64
	Do Do
}

// Do is one of the structs below.
type Do interface{ command() }

type (
	// Welcome is the first command: it describes the job. The node answers when it can take splits.
	Welcome struct {
		Schema      ps.Schema
		Generation  ps.Generation
		Incarnation ps.Incarnation
		App         string            // name in the registry of applications
		Params      map[string]string // the application's parameters
		Dataset     []byte            // what was learned about the data when it was cut (apps.Dataset), as JSON
		SplitsURL   string            // where the splits are: a directory, one file per split
		EvalEvery   ps.Clock          // held-out examples are measured on multiples of this clock; 0 = never
		Until       ps.Clock          // no later clock is begun
		Heartbeat   time.Duration     // wall clock
		OrphanAfter time.Duration     // wall clock: without a controller for this long, the node stops
		Secrets     map[string]string // variables of the program that computes; not stored in any file of the run
	}
	// SetRoute announces which machines serve, and their addresses.
	SetRoute struct {
		Generation ps.Generation
		Route      ps.Route
		Peers      map[ps.ServerID]string // data-plane addresses
	}
	// Own makes the node the owner of partitions at their initial state or, to resume, as a checkpoint has
	// them at clock Cut.
	Own struct {
		Partitions []ps.Partition
		Checkpoint string
		Cut        ps.Clock
	}
	// BackUp makes the node the backup of partitions, with the same initial content as Own. Empty: they have history, so a full delivery is
	// needed first.
	BackUp struct {
		Partitions []ps.Partition
		Empty      bool
		Checkpoint string
		Cut        ps.Clock
	}
	// NameCut asks all owned partitions for a cut at a clock. Answer: CodePassed if one is past it; then none has taken the name.
	NameCut struct{ Cut ps.Clock }
	// UnnameCut withdraws the name.
	UnnameCut struct{ Cut ps.Clock }
	// CommitCut says that the cut is durably recorded: owners drop older undo, backups the older cut.
	CommitCut struct{ Cut ps.Clock }
	// SaveCut writes the committed cut of partitions that this node backs up to a blob store, in an object of its own below Place/Folder,
	// while it works. Answer, when it is written: Saved. A later SaveCut aborts one in progress.
	SaveCut struct {
		Cut        ps.Clock
		Partitions []ps.Partition
		Place      string // directory or URL
		Folder     string // of this checkpoint
	}
	// TakeStock asks what this node holds and works on: a restarted controller does not know. Answered, with Stock, when no move away from
	// here is in progress.
	TakeStock struct{}
	// MoveOut hands a partition to another node; answered, with Moved, when that one has all of it and this one no longer serves it. The
	// new owner serves it as soon as this node or the next route names it the owner.
	MoveOut struct {
		Partition ps.Partition
		To        ps.ServerID
		Address   string
		// Window copies it and hands it over while workers compute, between a clock's reads and its first contribution, so that no worker
		// notices. It takes longer: a node with little time left moves at once.
		Window bool
		// FaultIn makes the new owner serve at once and fetch rows on demand, for comparison (drills).
		FaultIn bool
	}
	// HurryMoves stops moves away from here from waiting for a window.
	HurryMoves struct{}
	// Promote makes this node the owner of partitions that it backs up, at the committed cut.
	Promote struct {
		Cut        ps.Clock
		Partitions []ps.Partition
	}
	// FenceWorker gives up a worker's incarnation. Answer: Standings.
	FenceWorker struct{ Incarnation ps.Incarnation }
	// SettleWorker resolves what a fenced incarnation has staged.
	SettleWorker struct {
		Incarnation ps.Incarnation
		Sequence    uint64
		Commit      bool
	}
	// FenceGeneration stops all service for generations before this one. Answer: Holdings.
	FenceGeneration struct{ Generation ps.Generation }
	// Recover returns to a committed cut under the fenced generation: owners by their undo or, if the route makes a backup the owner, from
	// the backup. Workers restart at the clock after the cut with these splits. Checkpoint (or Initial, at clock 0): no machine holds the
	// cut any more; the owners in the route read it from there.
	Recover struct {
		Generation ps.Generation
		Cut        ps.Clock
		Checkpoint string
		Initial    bool
		Route      ps.Route
		Peers      map[ps.ServerID]string
		Splits     []ps.Split
	}
	// Load reads splits into memory ahead of their assignment; answered when they are loaded.
	Load struct{ Splits []ps.Split }
	// Assign assigns splits, each from a clock on.
	Assign struct{ Splits []SplitAt }
	// Release takes splits back. Answered, with the first clock of each that was not begun, once all begun clocks are committed. With Drop
	// a worker may instead discard the current clock and repeat it: the machines that take its splits are fast enough that waiting for it
	// would cost more.
	Release struct {
		Splits []ps.Split
		Drop   bool
	}
	// Park stops the worker from beginning further clocks. Answer: the highest clock begun.
	Park struct{}
	// Unpark allows the worker to begin clocks up to Until.
	Unpark struct{ Until ps.Clock }
	// RunProgram starts a user's program on the machine, replacing the running one. Answered when the machine has accepted it;
	// ProgramStarted follows when it runs.
	RunProgram struct {
		Spec []byte // program.Spec as JSON: the same on every machine of a job
		// Attempt numbers all starts of all programs of a run. Reports include it, so that those of older attempts can be recognised.
		Attempt uint64
		Key     string // owner of the state: "rank-0", "task-17"
		Rank    int
		Ranks   int
		Task    int
		Tasks   int
		Master  string // host:port of rank 0; empty = this machine
		// Resume is the manifest of the initial state, by its digest; empty = none.
		Resume       string
		ResumeDigest string
		Settings     map[string]string // environment variables of a sweep's trial
		// Elastic: the gang's other ranks keep running when one is lost, and Peers are those running now (SetPeers).
		Elastic bool
		Peers   []string
		// Secrets travel only here: they are not stored in any file of the run.
		Secrets     map[string]string
		Heartbeat   time.Duration // wall clock, as in a Welcome
		OrphanAfter time.Duration // wall clock
	}
	// SetPeers lists the other running ranks of an elastic gang, as "RANK HOST:PORT".
	SetPeers struct {
		Attempt uint64
		Peers   []string
	}
	// SaveProgram mirrors the state of the program now; ProgramSaved or ProgramSaveFailed follows. The states of a round belong together.
	SaveProgram struct{ Attempt, Round uint64 }
	// StopProgram ends the program: SIGTERM, after Grace SIGKILL. Save mirrors its state after that. ProgramExited follows in any case.
	StopProgram struct {
		Attempt uint64
		Grace   time.Duration // wall clock
		Save    bool
	}
	// Stop ends the node's process after completing what it has begun. Again ends it at once and restarts it, empty, on the same machine:
	// this amounts to killing and restarting a job.
	Stop struct {
		Why   string
		Again bool
	}
)

// SplitAt is a split and the first clock that its worker has not begun.
type SplitAt struct {
	Split ps.Split
	Clock ps.Clock
}

func (Welcome) command()         {}
func (SetRoute) command()        {}
func (Own) command()             {}
func (BackUp) command()          {}
func (NameCut) command()         {}
func (UnnameCut) command()       {}
func (CommitCut) command()       {}
func (SaveCut) command()         {}
func (TakeStock) command()       {}
func (MoveOut) command()         {}
func (HurryMoves) command()      {}
func (Promote) command()         {}
func (FenceWorker) command()     {}
func (SettleWorker) command()    {}
func (FenceGeneration) command() {}
func (Recover) command()         {}
func (Load) command()            {}
func (Assign) command()          {}
func (Release) command()         {}
func (Park) command()            {}
func (Unpark) command()          {}
func (RunProgram) command()      {}
func (SetPeers) command()        {}
func (SaveProgram) command()     {}
func (StopProgram) command()     {}
func (Stop) command()            {}

// Report is a message from a node to the controller: one of the structs below.
type Report interface{ report() }

type (
	// Hello is the first report on every connection. A node whose controller returned reports what it holds.
	Hello struct {
		Token       string // from the user data: proves that the controller launched this machine
		Instance    ps.ServerID
		Address     string // of its data plane
		Type        string
		VCPU        int
		Incarnation ps.Incarnation // 0 before the first Welcome
		Generation  ps.Generation
	}
	// Answer ends a command. Code is CodeOK, or says what went wrong, with Error for people.
	Answer struct {
		ID     uint64
		Code   Code
		Error  string
		Result Result // nil, or the command's result
	}
	// Heartbeat is sent every Welcome.Heartbeat.
	Heartbeat struct {
		Folded     ps.Clock // lowest complete clock of the owned partitions; 0 if none is owned
		Owned      int
		CutBytes   int64 // what a cut would have to deliver now
		BytesIn    int64 // data plane, since start
		BytesOut   int64
		BytesSaved int64   // rows that the worker did not read because they were cached, since start
		Waited     float64 // seconds that the worker has waited for rows, since start
		Generation ps.Generation
		Serving    []ps.Serving // of the owned partitions, in order
	}
	// Progress reports that splits have committed a clock.
	Progress struct {
		Generation ps.Generation
		Clock      ps.Clock
		Splits     []SplitStats
		Seconds    float64 // wall clock, of this worker's part of the clock after its rows had arrived
	}
	// CutHeld reports that a backup holds a cut of all partitions that it backs up.
	CutHeld struct {
		Cut     ps.Clock
		Bytes   int64
		Seconds float64 // wall clock, from the first row to the last
	}
	// Warned reports that the provider will take the machine back.
	Warned struct {
		Rebalance bool      // only a raised risk, no deadline
		Deadline  time.Time // market time
	}
	// ProgramStarted reports that a program runs: the machine has its files, its setup and its state. Times are wall-clock seconds; a Setup
	// of 0 was done for an earlier program.
	ProgramStarted struct {
		Attempt               uint64
		Fetch, Setup, Restore float64
		Bytes                 int64  // of the state that was restored
		Step                  int64  // of that
		Note                  string // why it is not the requested state
	}
	// ProgramAdvanced reports a program's progress, as reported by itself.
	ProgramAdvanced struct {
		Attempt uint64
		Step    int64
		HasLoss bool    // it has reported one
		Loss    float64 // may be NaN: it diverged
	}
	// ProgramSaved reports that a program's state is in the run's store, as it was at a step.
	ProgramSaved struct {
		Attempt     uint64
		Manifest    string // for RunProgram.Resume
		Digest      string // SHA-256 of the manifest, hexadecimal
		Bytes, Sent int64  // of the state, and of what the store did not have
		Step        int64
		Round       uint64  // of the SaveProgram that requested it; 0 = none
		Seconds     float64 // wall clock
		Final       bool    // the program has ended: the attempt's last report about state
	}
	// ProgramSaveFailed reports that a program's state could not be mirrored. The machine retries at the next interval.
	ProgramSaveFailed struct {
		Attempt uint64
		Error   string
		Final   bool // the program has ended: its work since the previous state is lost
	}
	// ProgramExited reports that a program has ended, or that it could not be started: Phase is "fetch", "setup", "restore" or "run". It is
	// the last report of an attempt.
	ProgramExited struct {
		Attempt uint64
		Code    int
		Signal  string // that ended it; empty = none
		Phase   string
		Tail    string  // the last lines of its output
		Note    string  // the reason, if there is more to say
		Asked   bool    // by a StopProgram or a notice
		CPU     float64 // seconds of processor time; 0 = unknown
		Wait    float64 // seconds for which its threads waited for a processor, all together
		Memory  int64   // the most bytes held by one of its processes; 0 = unknown
	}
	// Used is what a machine has used since its agent began to count: the whole machine or, if it is shared, the agent's processes.
	Used struct {
		Seconds           float64 // wall clock since then
		CPU               float64 // seconds of processor time
		Memory            int64   // bytes, now
		GPU               float64 // seconds in which a GPU computed, averaged over all
		GPUMemory         int64   // bytes, now
		BytesIn, BytesOut int64   // network
	}
	// Failed reports an error that would occur on any other machine too: a split that cannot be computed, or sums that have diverged. The
	// node ends after it.
	Failed struct{ Error string }
	// Crashed reports that the agent ends by itself, and why: a panic, or an error that leaves it nothing to do. Another machine may not
	// have the problem. Log is the end of its log, with the stack of a panic: the machine's disk may be lost with it.
	Crashed struct{ Error, Log string }
)

func (Hello) report()     {}
func (Answer) report()    {}
func (Heartbeat) report() {}
func (Progress) report()  {}
func (CutHeld) report()   {}
func (Warned) report()    {}
func (Failed) report()    {}
func (Used) report()      {}

func (ProgramStarted) report()    {}
func (ProgramAdvanced) report()   {}
func (ProgramSaved) report()      {}
func (ProgramSaveFailed) report() {}
func (ProgramExited) report()     {}

func (Crashed) report() {}

// SplitStats is the measurement of one split's batch.
type SplitStats struct {
	Split     ps.Split
	Examples  int64
	Loss      float64
	TestCount int64
	TestLoss  float64
	Work      float64
}

// Code is the outcome of a command.
type Code string

const (
	CodeOK     Code = ""
	CodePassed Code = "passed" // NameCut: choose a later clock
	CodeBusy   Code = "busy"   // another change is in progress
	CodeFailed Code = "failed" // see Error
	// CodeDamaged: the checkpoint to read differs from what was written. Others may be intact.
	CodeDamaged Code = "damaged"
)

// ErrDamaged is in the chain of errors about checkpoints that differ from what was written: torn, changed, or with missing parts. An older
// one may be intact.
var ErrDamaged = errors.New("the checkpoint is damaged")

// Result is one of the structs below.
type Result interface{ result() }

type (
	// Released answers Release.
	Released struct{ Splits []SplitAt }
	// Parked answers Park.
	Parked struct{ Begun ps.Clock }
	// Standings answers FenceWorker: per owned partition the incarnation's status, and the splits' progress there.
	Standings struct{ Partitions []Standing }
	// Holdings answers FenceGeneration.
	Holdings ps.Holdings
	// Saved answers SaveCut.
	Saved struct{ Parts []SavedPart }
	// Moved answers MoveOut.
	Moved ps.Moved
	// Stock answers TakeStock.
	Stock struct {
		Generation ps.Generation
		Suspended  bool // fenced and not recovered yet
		Version    uint64
		Named      ps.Clock // the cut that is named or on its way to the backups; 0 = none
		Owned      []OwnedPartition
		Backups    []BackupHolding
		Splits     []SplitAt // that the worker holds
		Loaded     []ps.Split
	}
)

// SavedPart is where a checkpoint's rows of one partition are.
type SavedPart struct {
	Partition ps.Partition
	Object    string // below the folder
	Offset    int64
	Bytes     int64
	SHA256    string // of these bytes, hexadecimal
}

// Servers' reports about their partitions.
type (
	OwnedPartition = ps.OwnedPartition
	Standing       = ps.OwnerStanding
	BackupHolding  = ps.BackupHolding
)

func (Released) result()  {}
func (Parked) result()    {}
func (Standings) result() {}
func (Holdings) result()  {}
func (Saved) result()     {}
func (Moved) result()     {}
func (Stock) result()     {}
