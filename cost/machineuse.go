package cost

import (
	"math"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

const (
	// mostUse bounds the stored steps of a machine's use: beyond it, two neighbours are merged. mostUseInAll does so for a report.
	mostUse      = 240
	mostUseInAll = 4800
	leastUse     = 8
)

// MachineUse is the use over time of a machine or, if jobs share it, of this run's part.
type MachineUse struct {
	Machine string    `json:"machine"`
	Pool    string    `json:"pool"`
	VCPU    int       `json:"vcpu,omitempty"`
	Of      int64     `json:"machine_memory_bytes,omitempty"`
	Ended   bool      `json:"ended,omitempty"`
	Steps   []UseStep `json:"steps"`
}

// UseStep is the use in the Seconds of wall clock before At.
type UseStep struct {
	At        time.Time `json:"at"`
	Seconds   float64   `json:"seconds"`
	Cores     float64   `json:"cores"`                  // of processor time, on average
	Memory    int64     `json:"memory_bytes,omitempty"` // at its peak
	GPU       float64   `json:"gpu,omitempty"`          // share of the time, averaged over all GPUs
	GPUMemory int64     `json:"gpu_memory_bytes,omitempty"`
	In        float64   `json:"bytes_in_per_second,omitempty"`
	Out       float64   `json:"bytes_out_per_second,omitempty"`
}

// and merges both steps.
func (s UseStep) and(o UseStep) UseStep {
	both := s.Seconds + o.Seconds
	mean := func(a, b float64) float64 { return (a*s.Seconds + b*o.Seconds) / both }
	return UseStep{At: o.At, Seconds: both, Cores: mean(s.Cores, o.Cores), Memory: max(s.Memory, o.Memory), GPU: mean(s.GPU, o.GPU),
		GPUMemory: max(s.GPUMemory, o.GPUMemory), In: mean(s.In, o.In), Out: mean(s.Out, o.Out)}
}

// steps are in order of time.
type steps []UseStep

func (s *steps) add(e journal.Entry) {
	if e.Seconds <= 0 { // no controller writes that, but a journal may come from anywhere
		return
	}
	*s = append(*s, UseStep{At: e.T, Seconds: e.Seconds, Cores: e.CPU / e.Seconds, Memory: e.Memory, GPU: e.GPU / e.Seconds, GPUMemory: e.GPUMemory,
		In: float64(e.BytesIn) / e.Seconds, Out: float64(e.BytesOut) / e.Seconds})
	if len(*s) > mostUse {
		*s = s.halved()
	}
}

// halved returns the steps in half the resolution.
func (s steps) halved() (out steps) {
	for i := 0; i < len(s); i += 2 {
		if i+1 < len(s) {
			out = append(out, s[i].and(s[i+1]))
		} else {
			out = append(out, s[i])
		}
	}
	return out
}

// Whole returns the use of all the time as one step; false if none is known.
func (m MachineUse) Whole() (all UseStep, ok bool) {
	for i, s := range m.Steps {
		if all = all.and(s); i == 0 {
			all = s
		}
	}
	return all, len(m.Steps) > 0
}

// machineUse returns machines' use over time; nothing for those without data.
func (l *Ledger) machineUse(asOf time.Time) (out []MachineUse) {
	for _, m := range l.order {
		if len(m.used) > 0 {
			kind := l.types[m.usage.Pool.Type]
			out = append(out, MachineUse{Machine: m.id, Pool: m.usage.Pool.String(), VCPU: kind.VCPU, Of: kind.MemoryMiB << 20,
				Ended: m.ended() && !m.usage.End.After(asOf), Steps: m.used})
		}
	}
	most := max(leastUse, mostUseInAll/max(1, len(out)))
	for i := range out {
		for len(out[i].Steps) > most {
			out[i].Steps = steps(out[i].Steps).halved()
		}
	}
	return out
}

// UseNow returns the newest step of each machine that has not ended.
func (l *Ledger) UseNow() (out []MachineUse) {
	for _, m := range l.machineUse(l.AsOf()) {
		if !m.Ended {
			m.Steps = m.Steps[len(m.Steps)-1:]
			out = append(out, m)
		}
	}
	return out
}

// Peak returns the greatest value of the steps.
func (m MachineUse) Peak(of func(UseStep) float64) (most float64) {
	for _, s := range m.Steps {
		most = math.Max(most, of(s))
	}
	return most
}
