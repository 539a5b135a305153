package tiers

import (
	"math"
	"testing"

	"github.com/tierml/tierml/ps"
)

func TestNumbersOfMessagesAreBounded(t *testing.T) {
	schema := &ps.Schema{Partitions: 4, Splits: 3}
	marks := []ps.Clock{1, 2, 3}
	for name, c := range map[string]struct {
		r  Report
		ok bool
	}{
		"standing":            {Answer{Result: Standings{[]Standing{{Partition: 3, Marks: marks}}}}, true},
		"marks of none":       {Answer{Result: Standings{[]Standing{{Partition: 3}}}}, false},
		"too many marks":      {Answer{Result: Standings{[]Standing{{Marks: append(marks, 4)}}}}, false},
		"partition":           {Answer{Result: Standings{[]Standing{{Partition: 4, Marks: marks}}}}, false},
		"mark":                {Answer{Result: Standings{[]Standing{{Marks: []ps.Clock{1, 2, math.MaxInt64}}}}}, false},
		"no answer":           {Answer{ID: 7}, true},
		"a backup of no cut":  {Answer{Result: Holdings{Backups: []BackupHolding{{Cut: -1}}}}, true},
		"a negative cut":      {Answer{Result: Holdings{Backups: []BackupHolding{{Cut: -2}}}}, false},
		"progress":            {Progress{Clock: 9, Splits: []SplitStats{{Split: 2, Loss: math.NaN()}}}, true},
		"progress of split 3": {Progress{Clock: 9, Splits: []SplitStats{{Split: 3}}}, false},
		"loaded":              {Answer{Result: Stock{Loaded: []ps.Split{9}}}, false},
		"negative bytes":      {Heartbeat{CutBytes: -1}, false},
		"hello":               {Hello{Instance: "i-1", VCPU: 2}, true},
		"negative hello":      {Hello{VCPU: -2}, false},
		"saved":               {Answer{Result: Saved{[]SavedPart{{Partition: 9}}}}, false},
	} {
		if err := CheckReport(schema, c.r); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := CheckCommand(schema, Unpark{Until: math.MaxInt64}); err != nil {
		t.Error(err)
	}
	if CheckCommand(schema, Own{Partitions: []ps.Partition{4}}) == nil {
		t.Error("a command beyond the schema passes")
	}
}
