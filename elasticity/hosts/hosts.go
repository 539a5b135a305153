// Package hosts shares machines among jobs. A host is a machine for all jobs together, bought by the same fleet and policies as a single
// job's machines: reliable hosts on demand, transient hosts on spot. A slot is a part of a host, in vCPUs, memory and GPUs, that one job
// has for a while; to the job it is a machine of the requested type.
//
//   - Book records which slots jobs have requested, where they are, and what they cost. It follows from Lines, which are on disk
//     before anything is answered or done: a successor reads them and continues.
//   - Brain has hosts bought for waiting slots, places slots on them, passes the hosts' notices and ends on to the slots, and
//     releases empty hosts at the end of their paid hour.
//   - Share computes what a slot pays of its host's bill. The idle share is the rest, rounding included.
//   - Serving estimates from jobs' measured profiles how busy reliable hosts are with serving, and what jobs lose by that;
//     Book.Report has partitions move away from hosts that are too busy, and lends jobs slots where moves do not help.
//
// The package decides over plain values. It knows nothing about what jobs compute, how slots reach jobs (package desk) and what runs on a
// host (package hostagent).
//
// Each file uses only those before it: hosts, share, lines, serving, watch, book, pack, ask, bill, scaling, repack, moves, brain, work,
// prices.
package hosts

import (
	"fmt"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// Size is the resources of a slot or a host.
type Size struct {
	VCPU      int   `json:"vcpu"`
	MemoryMiB int64 `json:"memory_mib"`
	GPUs      int   `json:"gpus,omitempty"` // whole devices
}

// SizeOf returns the resources of a machine type.
func SizeOf(t market.InstanceType) Size {
	return Size{VCPU: t.VCPU, MemoryMiB: t.MemoryMiB, GPUs: t.GPU.Count}
}

func (s Size) String() string {
	if s.GPUs > 0 {
		return fmt.Sprintf("%d vCPUs, %d MiB and %d GPUs", s.VCPU, s.MemoryMiB, s.GPUs)
	}
	return fmt.Sprintf("%d vCPUs and %d MiB", s.VCPU, s.MemoryMiB)
}

// Plus returns the sum.
func (s Size) Plus(o Size) Size {
	return Size{s.VCPU + o.VCPU, s.MemoryMiB + o.MemoryMiB, s.GPUs + o.GPUs}
}

// Minus returns the difference.
func (s Size) Minus(o Size) Size {
	return Size{s.VCPU - o.VCPU, s.MemoryMiB - o.MemoryMiB, s.GPUs - o.GPUs}
}

func (s Size) fits(o Size) bool {
	return s.VCPU <= o.VCPU && s.MemoryMiB <= o.MemoryMiB && s.GPUs <= o.GPUs
}

// partOf returns the sum of its shares of each of a host's resources.
func (s Size) partOf(host Size) float64 {
	part := float64(s.VCPU)/float64(host.VCPU) + float64(s.MemoryMiB)/float64(host.MemoryMiB)
	if host.GPUs > 0 {
		part += float64(s.GPUs) / float64(host.GPUs)
	}
	return part
}

// Load is what serving takes of a host, and Capacity what a host has for it.
type Load struct {
	Cores   float64
	In, Out float64 // bytes per second that its network receives and sends
}

// Capacity returns the load that a host can serve. A network of 0 is unknown, and limits nothing.
func Capacity(size Size, network float64) Load { return Load{float64(size.VCPU), network, network} }

// plus returns the sum of a load and n others.
func (l Load) plus(o Load, n float64) Load {
	return Load{l.Cores + n*o.Cores, l.In + n*o.In, l.Out + n*o.Out}
}

// share returns how much of a host's scarcest resource a load takes. Above 1, jobs have to wait for it.
func (l Load) share(of Load) (most float64) {
	for _, r := range [...][2]float64{{l.Cores, of.Cores}, {l.In, of.In}, {l.Out, of.Out}} {
		if r[1] > 0 {
			most = max(most, r[0]/r[1])
		}
	}
	return most
}

// loss returns the share of its speed that each job with a part of a load loses: all wait equally for the scarcest resource.
func (l Load) loss(of Load) float64 { return 1 - 1/max(1, l.share(of)) }

// Slot is a part of a host that a job has, or waits for. Times are whole seconds of market time.
type Slot struct {
	ID       provisioner.InstanceID
	Job      string
	User     int    // owner of the process; 0 = the hosts' own user
	Token    string // of the job's Request
	Pool     market.Pool
	Tier     step.Tier
	Size     Size
	Tags     map[string]string
	UserData string // for the slot's process

	Asked    time.Time
	Host     step.ID   // empty = waiting for a host
	Placed   time.Time // when the job starts to pay
	Returned time.Time // when the job gave it back and its process was told to end; zero = not yet

	Ended   time.Time // zero = not yet
	EndedBy market.EndedBy
	Why     string
	// Presumed: the end of its process was not observed.
	Presumed bool

	Charged bool // Cost is known
	Cost    market.USD
}

// Leaving reports whether the job has given the slot back.
func (s *Slot) Leaving() bool { return !s.Returned.IsZero() }

func (s *Slot) hasEnded() bool { return !s.Ended.IsZero() }
func (s *Slot) waiting() bool  { return s.Host == "" && !s.hasEnded() }

// Host is a machine that has slots, as the Brain knows it.
type Host struct {
	ID       step.ID
	Tier     step.Tier
	Size     Size
	Network  float64   // bytes per second in one direction; 0 = unknown
	Called   bool      // its agent has called
	Stays    bool      // it accepts new slots
	Deadline time.Time // when it goes; zero = no known end
	Used     Size
}

func (h *Host) free() Size { return h.Size.Minus(h.Used) }

// capacity returns the load that it can serve.
func (h *Host) capacity() Load { return Capacity(h.Size, h.Network) }

// tierOf returns the tier of hosts that serves a request: reliable slots are on demand.
func tierOf(class market.Class) step.Tier {
	if class == market.OnDemand {
		return step.Reliable
	}
	return step.Transient
}
