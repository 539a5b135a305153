package sameuser

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// inSession reports whether a process in this process's session has the socket with this inode open.
func inSession(inode uint64) bool {
	own := session("self")
	processes, err := os.ReadDir("/proc")
	if err != nil || own == "" {
		return false
	}
	want := fmt.Sprintf("socket:[%d]", inode)
	for _, p := range processes {
		if _, err := strconv.Atoi(p.Name()); err != nil || session(p.Name()) != own {
			continue
		}
		folder := filepath.Join("/proc", p.Name(), "fd")
		files, err := os.ReadDir(folder)
		if err != nil {
			continue // it has ended
		}
		for _, f := range files {
			if to, err := os.Readlink(filepath.Join(folder, f.Name())); err == nil && to == want {
				return true
			}
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
	// PID (NAME) STATE PPID PGRP SESSION ..., and the name may have anything in it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 4 {
		return ""
	}
	return string(fields[3])
}
