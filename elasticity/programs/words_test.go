package programs

import "testing"

// The reason for a failed setup is its last line of output that is a reason.
func TestLastLines(t *testing.T) {
	for tail, want := range map[string]string{
		"Collecting nosuch\nERROR: Could not find a version that satisfies the requirement nosuch\nERROR: No matching distribution found for nosuch\n\n" +
			"[notice] A new release of pip is available: 23.0 -> 24.0\n[notice] To update, run: pip install --upgrade pip\n": "Collecting nosuch / " +
			"ERROR: Could not find a version that satisfies the requirement nosuch / ERROR: No matching distribution found for nosuch",
		"error: Microsoft Visual C++ is required\n╰─> See above for output.\n\nnote: This error originates from a subprocess\nhint: See above": "error: Microsoft Visual C++ is required",
		"[notice] nothing else\n": "setup failed with exit code 1",
		"/srv/x/.tierml/job-1/attempts/rank-0.1/setup: line 3: pip3: command not found\n": "setup: line 3: pip3: command not found",
		"": "setup failed with exit code 1",
	} {
		r := rank{tail: tail, note: "setup failed with exit code 1"}
		if got := r.lastLines(3); got != want {
			t.Errorf("%q: said %q, want %q", tail, got, want)
		}
	}
	for phase, want := range map[string]string{phaseRun: "rank-0 ended with exit code 127 (the machine lacks a command: install it in setup, or choose an image that has it)",
		"setup": "setup failed with exit code 127 (the machine lacks a command: install it in setup, or choose an image that has it)"} {
		if got := (&rank{key: "rank-0", phase: phase, code: 127, exited: true}).words(); got != want {
			t.Errorf("in %s: %q", phase, got)
		}
	}
	if got := (&rank{}).lastLines(1); got != "it printed nothing" {
		t.Error(got)
	}
}
