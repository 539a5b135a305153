// Package doctortest tests doctor's checks: it performs them and compares their results. It knows no provider.
package doctortest

import (
	"strings"
	"testing"

	"github.com/tierml/tierml/doctor"
)

// Expectation is the expected result of a check.
type Expectation struct {
	Check  string
	Status doctor.Status
	Words  string // in its finding or advice
}

// Want returns an expectation.
func Want(check string, status doctor.Status, words string) Expectation {
	return Expectation{Check: check, Status: status, Words: words}
}

// Examine performs all checks and compares some. Failures must say what to do.
func Examine(t *testing.T, name string, checks []doctor.Check, want ...Expectation) {
	t.Helper()
	results := doctor.Run(t.Context(), checks, func(doctor.Result) {})
	for _, w := range want {
		seen := false
		for _, r := range results {
			if r.Check != w.Check {
				continue
			}
			seen = true
			if r.Status != w.Status || !strings.Contains(r.Found+" "+r.Advice, w.Words) {
				t.Errorf("%s: %s is %s: %q, advice %q; want %s with %q", name, r.Check, r.Status, r.Found, r.Advice, w.Status, w.Words)
			}
			if r.Status == doctor.Failed && r.Advice == "" {
				t.Errorf("%s: %s fails without saying what to do", name, r.Check)
			}
		}
		if !seen {
			t.Errorf("%s: there is no check %s", name, w.Check)
		}
	}
}
