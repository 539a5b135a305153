// Package boottest is for tests that run the first scripts of machines.
package boottest

import (
	"os/exec"
	"testing"
)

// Need skips a test of a machine's first script if a program that the script runs is missing.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed, and the script runs it: apt-get install bash coreutils curl sed", p)
		}
	}
}
