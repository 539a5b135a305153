// Package kin finds the processes of a machine or a slot by their home, whatever their session. It does not know what they do. Without
// /proc it finds none.
package kin

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Carries reports whether a live process has a variable, as NAME=VALUE, in its environment. Those of other users cannot be read, except by
// root.
func Carries(pid int, variable []byte) bool {
	environment, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	for one := range bytes.SplitSeq(environment, []byte{0}) {
		if bytes.Equal(one, variable) {
			return true
		}
	}
	return false
}

// Of returns the processes whose home is a folder.
func Of(home string) (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	mark := []byte("HOME=" + home)
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && Carries(pid, mark) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// linger is how long killed processes may take to end: one that waits for a disk cannot be killed at once.
const linger = 5 * time.Second

// End kills the processes whose home is a folder, and waits until they have ended. It reports whether they have.
func End(home string) bool {
	unseen := 0
	for until := time.Now().Add(linger); ; time.Sleep(5 * time.Millisecond) {
		left := Of(home)
		if len(left) > 0 {
			unseen = 0
		} else if unseen++; unseen == 2 { // once may be in the middle of an exec, when a process shows no environment
			return true
		}
		for _, pid := range left { // one may have been created since the last look
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		if time.Now().After(until) {
			return false
		}
	}
}

// Reap removes what is left of children that have ended, except those that others wait for. The first process of a container inherits
// orphans as init does, and nobody else removes them.
func Reap(waitedFor func(pid int) bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || waitedFor(pid) {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat")) // PID (NAME) STATE PARENT ..., where the name may contain anything
		if err != nil {
			continue // another has removed it
		}
		f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(f) > 1 && string(f[0]) == "Z" && string(f[1]) == strconv.Itoa(os.Getpid()) {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // it has ended
		}
	}
}
