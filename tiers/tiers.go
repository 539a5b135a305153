// Package tiers assigns roles to machines: it turns the members of a job into a Layout
// (TierML, CMU-PDL-16-102, section 3) and defines the messages between the controller and the machines.
// It is pure; tiers/node carries it out on a machine. It does not know why machines come and go.
package tiers

import "github.com/tierml/tierml/ps"

// Tier is how dependable a machine is.
type Tier string

const (
	Reliable  Tier = "reliable"  // on-demand: stays until the controller ends it
	Transient Tier = "transient" // spot: can be reclaimed
)

// Role is what a machine does (TierML, table 1). A machine can have several.
type Role string

const (
	Worker    Role = "worker"    // computes on its splits
	ParamServ Role = "ParamServ" // reliable: serves reads and updates
	ActivePS  Role = "ActivePS"  // transient: serves; its cuts go to a BackupPS
	BackupPS  Role = "BackupPS"  // reliable: holds the last committed cut
	Standby   Role = "standby"   // currently has nothing to do
)

// Stage is how far work has moved to transient machines.
type Stage int

const (
	// Stage1: ParamServs on reliable machines, workers everywhere.
	Stage1 Stage = 1
	// Stage2: ActivePSs on transient machines, BackupPSs on reliable ones, workers everywhere.
	Stage2 Stage = 2
	// Stage3: like stage 2, with no workers on reliable machines.
	Stage3 Stage = 3
)

// Member is a machine that takes part or could.
type Member struct {
	ID   ps.ServerID
	Tier Tier
	// Joined orders machines by age; transient ones that serve continue, and then the oldest serve.
	Joined int
	// Leaving machines (warned or draining their paid hour) get no partitions.
	Leaving bool
	// NoWork machines get no splits.
	NoWork bool
	// Rate weights the splits that a machine gets: its work per hour. 0 = its number of vCPUs.
	Rate float64
	VCPU int
	// Loaded are the splits whose data the machine has: it gets these first when splits move.
	Loaded SplitSet
}

// Thresholds are the ratios of transient to reliable machines at which stages change.
type Thresholds struct {
	TwoAbove   float64 // stage 2 above this ratio; default 1
	ThreeAbove float64 // stage 3 above this ratio; default 15
	// MostServers is the maximum number of transient machines that serve (ServersFor). 0 = half serve, whatever the number, as in the
	// paper.
	MostServers int
}

// ServerBytes is how much of a model usually justifies a server. Each worker talks to each server in every clock, so a small model loses
// more in messages than it gains from another server. On loopback a message costs about as much processor time as copying 100 KiB.
const ServerBytes = 128 << 10

// DefaultThresholds returns the paper's thresholds (TierML, section 3.2).
func DefaultThresholds() Thresholds { return Thresholds{TwoAbove: 1, ThreeAbove: 15} }

// Layout is the target: which machines serve, back up and work.
type Layout struct {
	Stage  Stage
	Route  ps.Route
	Worker []ps.ServerID // Index: Split
}
