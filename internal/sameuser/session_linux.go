package sameuser

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// inSession reports whether a process in this process's session has the socket with this inode open. It checks the most recent such process
// first: checking all of the host's processes takes time, and most connections belong to one agent.
func inSession(inode uint64, last *string) bool {
	own := session("self")
	if own == "" {
		return false
	}
	socket := fmt.Sprintf("socket:[%d]", inode)
	if *last != "" && session(*last) == own && hasOpen(*last, socket) {
		return true
	}
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, p := range processes {
		if _, err := strconv.Atoi(p.Name()); err == nil && session(p.Name()) == own && hasOpen(p.Name(), socket) {
			*last = p.Name()
			return true
		}
	}
	return false
}

func hasOpen(pid, socket string) bool {
	folder := filepath.Join("/proc", pid, "fd")
	files, err := os.ReadDir(folder)
	if err != nil {
		return false // it has ended
	}
	for _, f := range files {
		if to, err := os.Readlink(filepath.Join(folder, f.Name())); err == nil && to == socket {
			return true
		}
	}
	return false
}

// session returns a process's session; empty = the process has ended.
func session(pid string) string {
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return ""
	}
	// PID (NAME) STATE PPID PGRP SESSION ..., where the name may contain anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 4 {
		return ""
	}
	return string(fields[3])
}
