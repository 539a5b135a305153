package api

import (
	"sync"
	"time"

	"github.com/tierml/tierml/provisioner"
)

// freshMachines remembers recently launched machines that EC2 may not show everywhere yet.
type freshMachines struct {
	mu       sync.Mutex
	machines map[provisioner.InstanceID]freshMachine
}

type freshMachine struct {
	instance provisioner.Instance
	until    time.Time // wall-clock: from when on EC2's answer counts again
}

// add remembers machines. Those that have ended, as the response to a repeated launch may say, are not fresh.
func (f *freshMachines) add(instances []provisioner.Instance, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.machines == nil {
		f.machines = map[provisioner.InstanceID]freshMachine{}
	}
	for _, i := range instances {
		if _, known := f.machines[i.ID]; !known && i.State != provisioner.Terminated {
			f.machines[i.ID] = freshMachine{instance: i, until: until}
		}
	}
}

// missing returns those that are not in the list, and forgets those whose time has passed.
func (f *freshMachines) missing(listed []provisioner.Instance, now time.Time) []provisioner.Instance {
	shown := make(map[provisioner.InstanceID]bool, len(listed))
	for _, i := range listed {
		shown[i.ID] = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var missing []provisioner.Instance
	for id, m := range f.machines {
		switch {
		case now.After(m.until):
			delete(f.machines, id)
		case !shown[id]:
			missing = append(missing, m.instance)
		}
	}
	provisioner.SortInstances(missing)
	return missing
}

// has reports whether a machine exists that EC2 may not know yet.
func (f *freshMachines) has(id provisioner.InstanceID, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, ok := f.machines[id]
	return ok && !now.After(m.until)
}
