package config

import (
	"strings"
	"testing"
)

// Numbers that determine how much memory is allocated have an upper bound, which the message names.
func TestNumbersHaveAnUpperBound(t *testing.T) {
	const job = "name: x\ncloud: none\ntrain: {app: mf, data: foreign_test.go, clocks: 4, FIELD}\n"
	for _, field := range []string{"partitions: 2147483647", "partitions: 16385", "splits: 2147483647", "splits: 131073", "staleness: 1000000, consistency: ssp"} {
		_, err := parse("job.yaml", []byte(strings.Replace(job, "FIELD", field, 1)), func(string) (string, bool) { return "", false })
		if err == nil || !strings.Contains(err.Error(), "is too large") || !strings.Contains(err.Error(), "or less") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := parse("job.yaml", []byte(strings.Replace(job, "FIELD", "partitions: 16384, splits: 131072", 1)), func(string) (string, bool) { return "", false }); err != nil {
		t.Error(err)
	}
}
