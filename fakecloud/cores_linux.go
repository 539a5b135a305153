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

// startOn starts a process that has these cores only, with all that it starts; none = all. Where that is refused it has all.
func startOn(cores []int, command *exec.Cmd) error {
	var before, set unix.CPUSet
	if len(cores) == 0 || unix.SchedGetaffinity(0, &before) != nil {
		return command.Start()
	}
	for _, core := range cores {
		set.Set(core)
	}
	runtime.LockOSThread() // a process inherits the cores of the thread that makes it
	_ = unix.SchedSetaffinity(0, &set)
	err := command.Start()
	if unix.SchedSetaffinity(0, &before) == nil {
		runtime.UnlockOSThread() // else the thread ends with its goroutine
	}
	return err
}
