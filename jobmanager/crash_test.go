package jobmanager

import (
	"strings"
	"testing"
)

// A Go program that crashes has the exit code of one that rejects its command line, and is distinguished by its output.
func TestCrashIsNoRefusal(t *testing.T) {
	for said, want := range map[string]string{
		"tierml: job.yaml:3:1: unknown field\n":                                        "",
		"12:00 clock 3\nfatal error: runtime: cannot allocate memory\n\ngoroutine 1 [": "takes more memory than a process of a job may have here, 512 MiB",
		"fatal error: all goroutines are asleep - deadlock!\n":                         "it crashed: fatal error: all goroutines",
		"panic: runtime error: index out of range\n\ngoroutine 1 [running]:\n":         "it crashed: panic: runtime error",
	} {
		if got := crash(said, 512<<20); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}
