package program

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/tierml/tierml/internal/kin"
)

// members returns the processes of a session, and all with an attempt's identity in their environment: workers of torchrun have sessions of
// their own. Zombies do not count.
func members(session int, id string) (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	mark := []byte(identity + "=" + id)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		// PID (NAME) STATE PPID PGRP SESSION ..., where the name may contain anything.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 4 || fields[0] == "Z" || fields[0] == "X" {
			continue
		}
		if fields[3] == strconv.Itoa(session) || kin.Carries(pid, mark) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// endsOn reports whether a signal ends a process: it neither catches nor ignores it.
func endsOn(pid int, signal syscall.Signal) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	handled := uint64(0)
	for line := range strings.Lines(string(text)) {
		for _, of := range []string{"SigIgn:", "SigCgt:"} {
			if mask, found := strings.CutPrefix(line, of); found {
				signals, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
				if err != nil {
					return false
				}
				handled |= signals
			}
		}
	}
	return handled>>(signal-1)&1 == 0
}

// halted reports whether all threads of a process have stopped: one in a system call stops at its end.
func halted(pid int) bool {
	stats, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	if err != nil {
		return true
	}
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		if state := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); len(state) > 0 && !strings.Contains("TtZX", state[0]) {
			return false
		}
	}
	return true
}

// openFiles returns the files below a directory that processes have open for writing; true = only to append.
func openFiles(pids []int, dir string) map[string]bool {
	open := map[string]bool{}
	if real, err := filepath.EvalSymlinks(dir); err != nil || real != dir {
		return open // Config's directory has been resolved; the program has replaced it
	}
	for _, pid := range pids {
		folder := "/proc/" + strconv.Itoa(pid) + "/fd"
		fds, err := os.ReadDir(folder)
		if err != nil {
			continue // it has ended
		}
		for _, fd := range fds {
			to, err := os.Readlink(filepath.Join(folder, fd.Name()))
			if err != nil || !strings.HasPrefix(to, dir+"/") {
				continue
			}
			flags, ok := flagsOf(pid, fd.Name())
			if !ok || flags&syscall.O_ACCMODE == syscall.O_RDONLY {
				continue
			}
			appends := flags&syscall.O_APPEND != 0
			if before, ok := open[to]; ok {
				appends = appends && before
			}
			open[to] = appends
		}
	}
	return open
}

// flagsOf returns the flags with which a file was opened.
func flagsOf(pid int, fd string) (flags int, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/fdinfo/" + fd)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "flags:"); found {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 8, 64)
			return int(n), err == nil
		}
	}
	return 0, false
}
