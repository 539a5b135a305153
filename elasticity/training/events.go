package training

import (
	"encoding/json"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// The events of training. Repeating an event is harmless.
type (
	// Reported is a node's report; its first is tiers.Hello.
	Reported struct {
		ID     ps.ServerID
		Report tiers.Report
	}
	// Disconnected: a node's stream broke.
	Disconnected struct{ ID ps.ServerID }
	// Exported answers the Export of a generation.
	Exported struct {
		Generation ps.Generation
		Model      string
		TestLoss   float64
		Details    json.RawMessage // for the journal: journal.ExportDetails
		Err        error
	}
	// ManifestWritten answers a WriteManifest. Trouble is an additional failure, such as that old ones could not be removed.
	ManifestWritten struct {
		Folder   string
		Manifest string
		Trouble  string
		Err      error
	}
	// Preferred answers Profiled with the owners of partitions preferred by the placer of jobs on shared machines.
	Preferred struct{ tiers.Preference }
)

func (Reported) Event()        {}
func (Disconnected) Event()    {}
func (Exported) Event()        {}
func (ManifestWritten) Event() {}
func (Preferred) Event()       {}

// Training's actions.
type (
	// Send sends a command to a node; answered by a report.
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
	// WriteManifest completes a checkpoint from what machines have saved, and removes old ones; answered by ManifestWritten.
	WriteManifest struct {
		Cut    ps.Clock
		Place  string
		Folder string
		Parts  []tiers.SavedPart
	}
)

// Profiled reports the load of serving the model, the servers, and the length of clocks. It is repeated, since knowledge about shared
// machines depends on it; the answer may be Preferred.
type Profiled struct{ tiers.Served }

func (Profiled) Action()      {}
func (Send) Action()          {}
func (Export) Action()        {}
func (WriteManifest) Action() {}
