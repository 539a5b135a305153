package elasticity

import (
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Event is something that happened: one of the structs below. Telling the same event again is harmless.
type Event interface{ event() }

type (
	// PriceChanged: a pool's price per hour is Price from At on.
	PriceChanged struct {
		Pool  market.Pool
		At    time.Time
		Price market.USD
	}
	// PricesKnown: every price change until At has been told.
	PricesKnown struct{ At time.Time }
	// CapacityChanged: so many machines of a pool can be had or kept from At on, as somebody who watches it has seen.
	CapacityChanged struct {
		Pool  market.Pool
		At    time.Time
		Count int
	}
	// Launched answers a Launch: these machines were got. Refused are the pools that had too few, where there was a choice and
	// the provider says so.
	Launched struct {
		Token     string
		Instances []provisioner.Instance
		Refused   []provisioner.Refusal
	}
	// LaunchFailed answers a Launch: none were got. Unsure: it was asked for before, and that answer is lost, so that an error
	// which is definite (credentials have expired in between) says nothing of what had been bought.
	LaunchFailed struct {
		Token   string
		Err     error
		Refused []provisioner.Refusal
		Unsure  bool
	}
	// Listed: these are all machines that the provider has of this run, and of earlier starts of it, or had until lately. A
	// controller that takes a run over waits for the first; each later one shows whether what is believed is true.
	Listed struct {
		Instances []provisioner.Instance
		Asked     time.Time // when the provider was asked: what was launched later is not among them
	}
	// InstanceEnded: the provider says that a machine is gone.
	InstanceEnded struct{ Instance provisioner.Instance }
	// Warned: the provider says that a machine will go, or (Rebalance) that the risk has grown.
	Warned struct {
		ID        ps.ServerID
		Deadline  time.Time
		Rebalance bool
	}
	// Reported: a node said something; its first report is tiers.Hello.
	Reported struct {
		ID     ps.ServerID
		Report tiers.Report
	}
	// Disconnected: a node's stream broke.
	Disconnected struct{ ID ps.ServerID }
	// StopWanted: a person, a budget or a limit asks for an orderly end: flush, save, terminate. Now asks for
	// an end at once: nothing is saved, every machine is terminated.
	StopWanted struct {
		Why string
		Now bool
	}
	// Exported answers the Export of a generation.
	Exported struct {
		Generation ps.Generation
		Model      string
		TestLoss   float64
		Err        error
	}
	// ManifestWritten answers a WriteManifest. Trouble is what went wrong beside it, such as that old ones could not be
	// removed.
	ManifestWritten struct {
		Folder   string
		Manifest string
		Trouble  string
		Err      error
	}
	// SaveWanted asks for a checkpoint of the next cut, which is named at once; a Record of it, or of its failure, follows.
	SaveWanted struct{}
	// Trained: a fleet has all clocks up to Clock done, and another takes it Pace. The first one says that it has begun.
	// This and the next are of kill-and-restart runs only (elasticity/restart).
	Trained struct {
		Clock ps.Clock
		Pace  time.Duration
	}
	// Saved: a checkpoint at this clock is there. It answers a Save; where saving is continuous it comes when a fleet
	// is lost.
	Saved struct {
		Clock ps.Clock
		Model string // where
		Err   error
	}
	// Wake is the passing of time.
	Wake struct{}
)

func (PriceChanged) event()    {}
func (PricesKnown) event()     {}
func (CapacityChanged) event() {}
func (Launched) event()        {}
func (LaunchFailed) event()    {}
func (Listed) event()          {}
func (InstanceEnded) event()   {}
func (Warned) event()          {}
func (Reported) event()        {}
func (Disconnected) event()    {}
func (StopWanted) event()      {}
func (Exported) event()        {}
func (ManifestWritten) event() {}
func (SaveWanted) event()      {}
func (Trained) event()         {}
func (Saved) event()           {}
func (Wake) event()            {}

// Action is something to do: one of the structs below. Actions of one step are done in order.
type Action interface{ action() }

type (
	// Record writes a journal line; it must be durable before the next action is done.
	Record struct{ Entry journal.Entry }
	// Launch buys machines; answered by Launched or LaunchFailed.
	Launch struct{ Request provisioner.Request }
	// Terminate ends machines; answered by an InstanceEnded each.
	Terminate struct {
		IDs []provisioner.InstanceID
		Why string
	}
	// Send gives a node a command; answered by a report.
	Send struct {
		ID      ps.ServerID
		Command tiers.Command
	}
	// Export reads all tables at a complete clock from their owners and saves them; answered by Exported.
	Export struct {
		Clock      ps.Clock
		Final      bool // the job's result; otherwise a checkpoint to resume from
		Generation ps.Generation
		Route      ps.Route
		Peers      map[ps.ServerID]string
	}
	// WriteManifest makes a checkpoint of what machines have saved, and removes old ones; answered by ManifestWritten.
	WriteManifest struct {
		Cut    ps.Clock
		Place  string
		Folder string
		Parts  []tiers.SavedPart
	}
	// Train lets a fleet begin with the checkpoint at a clock (0 = the initial state), in place of what trained before;
	// answered by Trained. It ends with the first of its machines. This and the next are of kill-and-restart runs only.
	Train struct {
		Machines []ps.ServerID
		From     ps.Clock
	}
	// Save takes a checkpoint of what trains now; answered by Saved.
	Save struct{ Final bool }
	// Finish ends the run: every machine is gone.
	Finish struct{ Outcome string }
)

func (Record) action()        {}
func (Launch) action()        {}
func (Terminate) action()     {}
func (Send) action()          {}
func (Export) action()        {}
func (WriteManifest) action() {}
func (Train) action()         {}
func (Save) action()          {}
func (Finish) action()        {}
