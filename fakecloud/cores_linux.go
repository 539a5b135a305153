package fakecloud

import (
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// coresHere returns the cores that this process may use.
func coresHere() (all []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for core := 0; len(all) < set.Count(); core++ {
		if set.IsSet(core) {
			all = append(all, core)
		}
	}
	return all
}

// startOn starts a process on these cores only, with everything that it starts; none = all. If pinning fails, it may use all cores.
func startOn(cores []int, command *exec.Cmd) error {
	var before, set unix.CPUSet
	if len(cores) == 0 || unix.SchedGetaffinity(0, &before) != nil {
		return command.Start()
	}
	for _, core := range cores {
		set.Set(core)
	}
	runtime.LockOSThread() // a process inherits the cores of the thread that starts it
	_ = unix.SchedSetaffinity(0, &set)
	err := command.Start()
	if unix.SchedSetaffinity(0, &before) == nil {
		runtime.UnlockOSThread() // otherwise the thread ends with its goroutine
	}
	return err
}
