package journal

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Fields returns the fields that a kind of line carries in addition to t, kind and why. A number that is zero and
// a flag that is false are absent from the line, so only strings, times and objects can be required.
type Fields struct {
	Kind     Kind
	Required []string
	Optional []string
	Durable  bool // on disk before Write returns: recovery or a bill depends on the line
}

// kinds is docs/journal.md in Go; a test keeps the two in agreement.
var kinds = []Fields{
	{Start, []string{"details"}, nil, true},
	{Plan, []string{"details"}, nil, false},
	{Price, []string{"pool", "usd", "at"}, nil, false},
	{Intent, []string{"token", "pool"}, []string{"tier", "bid", "or", "count", "details"}, true},
	{Launch, []string{"token", "instance", "tier", "pool", "launched"}, []string{"bid"}, true},
	{LaunchFailed, []string{"token", "pool"}, []string{"tier", "bid", "or", "count"}, false},
	{Ready, []string{"instance"}, []string{"pool", "tier", "seconds"}, false},
	{Notice, []string{"instance", "pool"}, []string{"tier", "deadline"}, false},
	{Evicted, []string{"instance", "pool"}, []string{"tier", "ended", "ended_by"}, false},
	{Failed, []string{"instance", "pool"}, []string{"tier", "ended", "ended_by", "log"}, false},
	{Silence, []string{"to"}, []string{"count"}, false},
	{Provider, []string{"to"}, nil, true},
	{Terminated, []string{"instance", "pool"}, []string{"tier", "ended", "ended_by"}, false},
	{Join, []string{"instance"}, []string{"pool", "tier", "splits", "partitions", "clock", "from", "bytes"}, false},
	{Leave, []string{"instance"}, []string{"pool", "tier", "splits", "partitions", "clock", "seconds"}, false},
	{Stage, []string{"to"}, []string{"from", "transient", "reliable", "clock", "details"}, false},
	{Budget, []string{"to"}, []string{"usd", "clock"}, true},
	{Scale, []string{"from", "to"}, []string{"seconds", "clock", "details"}, true},
	{Tune, nil, []string{"from", "to", "clock", "details"}, false},
	{Move, []string{"from", "to"}, []string{"count", "partitions", "clock", "bytes", "seconds"}, false},
	{Moved, nil, []string{"count", "bytes", "seconds", "details"}, false},
	{Cut, nil, []string{"clock", "generation", "partitions", "bytes", "seconds"}, true},
	{Checkpoint, []string{"model"}, []string{"clock", "partitions", "bytes", "seconds"}, true},
	{SaveFailed, nil, []string{"clock"}, false},
	{TakeOver, nil, []string{"count", "clock", "generation"}, false},
	{Flush, nil, []string{"clock", "bytes", "seconds"}, false},
	{Rollback, nil, []string{"instance", "pool", "generation", "clock", "lost_clocks", "partitions", "seconds"}, true},
	{Switch, []string{"from", "to"}, []string{"from_mttf", "to_mttf", "count", "bid"}, false},
	{Release, []string{"instance", "pool"}, []string{"tier"}, false},
	{ClockDone, nil, []string{"clock", "train_loss", "test_loss", "seconds", "count", "transient", "reliable", "work", "redone"}, false},
	{Profile, []string{"details"}, []string{"clock", "seconds"}, false},
	{Use, []string{"instance", "seconds"}, []string{"cpu_seconds", "memory_bytes", "gpu_seconds", "gpu_memory_bytes", "bytes_in", "bytes_out"}, false},
	{Charge, []string{"instance", "pool", "from", "to", "usd"}, nil, false},
	{Export, nil, []string{"clock", "model", "test_loss", "outcome", "details"}, true},
	{ProgramStart, []string{"program", "instance"}, []string{"generation", "clock", "bytes", "model", "details"}, false},
	{ProgramStep, []string{"program"}, []string{"generation", "clock", "train_loss", "round", "redone", "why"}, false},
	{ProgramSaved, []string{"program", "model"}, []string{"instance", "generation", "clock", "bytes", "seconds", "digest", "round"}, true},
	{ProgramSaveFailed, []string{"program"}, []string{"instance", "generation"}, false},
	{ProgramEnd, []string{"program", "outcome"}, []string{"instance", "generation", "clock", "train_loss", "code", "log", "cpu_seconds", "wait_seconds", "memory_bytes"}, true},
	{ProgramDropped, []string{"program"}, []string{"clock"}, false},
	{Done, []string{"outcome"}, []string{"model", "train_loss", "test_loss", "clock", "log"}, true},
}

// Kinds lists every kind of line with its fields, in the order of a run's life.
func Kinds() []Fields { return slices.Clone(kinds) }

// Durable reports whether Write puts a line of this kind on disk before it returns.
func (k Kind) Durable() bool {
	i := slices.IndexFunc(kinds, func(f Fields) bool { return f.Kind == k })
	return i >= 0 && kinds[i].Durable
}

// Validate returns an entry's fault: an unknown kind, a missing field, or a field that its kind does not have. The Writer does not enforce
// it, because a fact with a field too many is better than none; tests of writers should.
func (e Entry) Validate() error {
	i := slices.IndexFunc(kinds, func(f Fields) bool { return f.Kind == e.Kind })
	switch {
	case i < 0:
		return fmt.Errorf("journal entry of unknown kind %q", e.Kind)
	case e.T.IsZero():
		return fmt.Errorf("journal entry %q has no time", e.Kind)
	}
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("journal entry %q: %w", e.Kind, err)
	}
	var have map[string]json.RawMessage
	if err := json.Unmarshal(line, &have); err != nil {
		return fmt.Errorf("journal entry %q: %w", e.Kind, err)
	}
	var wrong []string
	for _, name := range kinds[i].Required {
		if _, ok := have[name]; !ok {
			wrong = append(wrong, "lacks "+name)
		}
		delete(have, name)
	}
	for _, name := range append([]string{"t", "kind", "why"}, kinds[i].Optional...) {
		delete(have, name)
	}
	for name := range have {
		wrong = append(wrong, "does not carry "+name)
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return fmt.Errorf("journal entry %q: %s", e.Kind, strings.Join(wrong, ", "))
	}
	return nil
}

// Loss is v as TrainLoss and TestLoss hold it: absent if NaN, which JSON cannot represent.
func Loss(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
