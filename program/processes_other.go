//go:build !linux

package program

import "syscall"

// members returns the leader while its group has any process: this system has no /proc.
func members(session int, _ string) []int {
	if syscall.Kill(-session, 0) != nil {
		return nil
	}
	return []int{-session}
}

// sample knows nothing on this system.
func (w *waits) sample(int) {}

// endsOn is not known on this system.
func endsOn(int, syscall.Signal) bool { return false }

// halted is not known on this system.
func halted(int) bool { return true }

// openFiles is not known on this system: files count as complete when they do not change.
func openFiles([]int, string) map[string]bool { return nil }
