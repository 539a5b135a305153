package cost

import (
	"maps"
	"math"
	"slices"
)

// Use compares what a run's programs used with the machines that they had, from the attempts that have ended.
type Use struct {
	Type   string  `json:"type"`
	Cores  float64 `json:"cores"`        // of processor time, on average
	Wanted float64 `json:"wanted_cores"` // if no thread had waited for a core
	VCPU   int     `json:"vcpu"`
	Memory int64   `json:"memory_bytes"` // the maximum of one process
	Of     int64   `json:"machine_memory_bytes,omitempty"`
	// Enough is a cheaper type that the job may use and that offers all this, with a tenth to spare.
	Enough string `json:"enough,omitempty"`
}

// spare is the factor by which a machine must exceed what was used.
const spare = 1.1

// Use returns nil until an attempt has ended, or if machines of several types were used.
func (l *Ledger) Use() *Use {
	var cpu, wait, ran float64
	u := &Use{}
	for _, a := range l.programs.attempts {
		m := l.machines[a.instance]
		if m == nil || a.began.IsZero() || a.cpu == 0 {
			continue
		}
		if kind := m.usage.Pool.Type; u.Type == "" || u.Type == kind {
			u.Type = kind
		} else {
			return nil
		}
		cpu, wait, ran = cpu+a.cpu, wait+a.wait, ran+l.clock.ToWall(a.ended.Sub(a.began)).Seconds()
		u.Memory = max(u.Memory, a.memory)
	}
	had, known := l.types[u.Type]
	if !known || ran <= 0 {
		return nil
	}
	u.Cores, u.Wanted, u.VCPU, u.Of = cpu/ran, (cpu+wait)/ran, had.VCPU, had.MemoryMiB<<20
	price := had.price
	for _, name := range slices.Sorted(maps.Keys(l.types)) {
		t := l.types[name]
		if t.price < price && float64(t.VCPU) >= math.Ceil(u.Wanted*spare) && float64(t.MemoryMiB<<20) >= float64(u.Memory)*spare {
			u.Enough, price = name, t.price
		}
	}
	return u
}

// Hint says what would have sufficed if most of the machine was idle; else it is empty.
func (u *Use) Hint() string {
	switch {
	case u.Wanted >= float64(u.VCPU)/2 || u.Of > 0 && u.Memory >= u.Of/2:
		return ""
	case u.Enough != "":
		return "a " + u.Enough + " would do"
	}
	return "most of it was idle"
}
