package prepare

import (
	"fmt"
	"runtime"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/confine"
	"github.com/tierml/tierml/planner"
)

// Resources of this host that a machine of `cloud: local` takes, as measured: a process of 50 MB that trains at the job's declared rate.
// With more machines per core, starting many at once makes machines and controller wait for longer than dead_after.
const (
	machinesPerCore = 32
	machineMemory   = 64 << 20
)

// host is a computer that plays machines.
type host struct {
	cores  int
	memory int64 // bytes; 0 = unknown
}

func ThisHost() host { return host{cores: runtime.NumCPU(), memory: confine.HostMemory()} }

// fits is how many machines fit into memory.
func (h host) fits() int {
	if h.memory == 0 {
		return 1 << 30
	}
	return int(h.memory / machineMemory)
}

// plays is how many machines the host can simulate at once.
func (h host) plays() int { return min(h.cores*machinesPerCore, h.fits()) }

// LocalMachines returns a job's maximum number of concurrent machines, if this host simulates them; otherwise 0. (A switch to another pool
// has both for a while.)
func LocalMachines(job *config.Job, choice planner.Resolved) int {
	if job.Cloud != config.CloudLocal {
		return 0
	}
	return mostMachines(choice) + choice.Reliable.Count
}

// mostMachines returns a job's maximum number of transient machines, of the smallest type if it counts in vCPUs.
func mostMachines(choice planner.Resolved) int {
	most := choice.Want.Machines
	for _, pool := range choice.Pools {
		if vcpu := pool.Type.VCPU; choice.Want.VCPU > 0 && vcpu > 0 {
			most = max(most, (choice.Want.VCPU+vcpu-1)/vcpu)
		}
	}
	return most
}

// idle warns of machines without work, as a split is on only one machine; empty = all have some.
func idle(job *config.Job, machines int) string {
	without := machines - job.Train.Splits
	if without <= 0 {
		return ""
	}
	return fmt.Sprintf("the data are in %d splits, so %d of %d machines have no work: ask for fewer machines, or for more train.splits",
		job.Train.Splits, without, machines)
}

// warn warns that a job wants more machines than the host can simulate; empty = it does not.
func (h host) warn(machines int) string {
	if machines <= h.plays() {
		return ""
	}
	return fmt.Sprintf("this host can run %d machines at once (%d for each of %d cores, and memory for %d), and the job wants %d: they may keep "+
		"each other waiting for longer than dead_after; ask for fewer, or raise dead_after", h.plays(), machinesPerCore, h.cores, h.fits(), machines)
}

// Admit refuses a job whose machines do not fit into the host's memory.
func (h host) Admit(job *config.Job, machines int) error {
	if machines <= h.fits() {
		return nil
	}
	return job.Fault("resources", fmt.Sprintf("%d machines do not fit into this host's memory of %d MB, at %d MB each", machines, h.memory>>20, machineMemory>>20),
		fmt.Sprintf("ask for %d machines at the most, or use a cloud", h.fits()))
}
