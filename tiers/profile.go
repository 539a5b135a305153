package tiers

import (
	"slices"
	"time"

	"github.com/tierml/tierml/ps"
)

// Profile is the load of serving a job's model (Parameter Service, section 3.2): the length of a clock, D_j, and for each partition the
// time per clock in which its owner adds up and folds contributions, e_t, and the bytes that the owner receives and sends. Times are in
// wall-clock time, so that on a busy host they are longer than alone.
type Profile struct {
	Clock   time.Duration   `json:"clock_ns"`           // the median
	Serving []time.Duration `json:"serving_ns"`         // Index: ps.Partition
	In      []int64         `json:"bytes_in,omitempty"` // per clock, by partition; nil = unknown
	Out     []int64         `json:"bytes_out,omitempty"`
}

// Known reports whether there is a profile.
func (p Profile) Known() bool { return p.Clock > 0 }

// Whole returns the time per clock of all partitions together.
func (p Profile) Whole() (sum time.Duration) {
	for _, t := range p.Serving {
		sum += t
	}
	return sum
}

// Cores returns the number of cores that serving takes.
func (p Profile) Cores() float64 {
	if !p.Known() {
		return 0
	}
	return float64(p.Whole()) / float64(p.Clock)
}

// Equal reports whether two profiles are the same.
func (p Profile) Equal(o Profile) bool {
	return p.Clock == o.Clock && slices.Equal(p.Serving, o.Serving) && slices.Equal(p.In, o.In) && slices.Equal(p.Out, o.Out)
}

// Served is a job's occasional report about its servers to the placer of jobs on shared machines.
type Served struct {
	Profile
	Owners []ps.ServerID `json:"owners,omitempty"`    // Index: ps.Partition; nil = unknown
	Clocks int           `json:"clocks,omitempty"`    // since the previous report
	Lately time.Duration `json:"lately_ns,omitempty"` // the median of their lengths

	OnlyServes bool `json:"only_serves,omitempty"` // the reliable machines do nothing else: other machines work on splits
}

// Preference is the answer: the owners of the job's partitions, and how many reliable machines it should have beyond its own number.
type Preference struct {
	Owners []ps.ServerID `json:"owners,omitempty"` // Index: ps.Partition; nil = any layout will do
	More   int           `json:"more,omitempty"`
	Leave  ps.ServerID   `json:"leave,omitempty"` // the reliable machine that goes when there is one too many; empty = the youngest
	Why    string        `json:"why,omitempty"`
}

// notable is the minimum relative change of a profile that is worth acting upon: clocks of one setting differ by a few percent.
const notable = 0.25

// near reports whether two profiles call for the same decisions.
func (p Profile) near(o Profile) bool {
	close := func(a, b int64) bool { return float64(max(a, b)) <= (1+notable)*float64(min(a, b)) }
	return p.Known() == o.Known() && len(p.Serving) == len(o.Serving) && close(int64(p.Clock), int64(o.Clock)) && close(int64(p.Whole()), int64(o.Whole())) &&
		close(sum(p.In), sum(o.In)) && close(sum(p.Out), sum(o.Out))
}

func sum(all []int64) (sum int64) {
	for _, n := range all {
		sum += n
	}
	return sum
}

// Sizes of a window, in clocks.
const (
	profiled      = 32           // in a profile
	leastServed   = profiled / 4 // clocks that a partition's owner must have reported: heartbeats arrive later than clocks
	longestWindow = 8 * profiled // without a report of some partition: an agent of a former version sends none
)

// Profiler turns measurements into profiles, one after another: each of the clocks since the last. A profile of all clocks so far would not
// follow a growing job.
type Profiler struct {
	known   Profile
	odd     bool // the last window differed notably
	lengths []time.Duration
	served  []ps.Serving // Index: Partition; since the last profile
	carried []carried    // the same
}

// carried is what a partition's owner received and sent for it.
type carried struct{ in, out, clocks int64 }

// NewProfiler returns a profiler for a job with this many partitions and its profile so far; the zero Profile = none.
func NewProfiler(partitions int, known Profile) *Profiler {
	return &Profiler{known: known, served: make([]ps.Serving, partitions), carried: make([]carried, partitions)}
}

// Profile returns the last that was notably different.
func (p *Profiler) Profile() Profile { return p.known }

// Served adds a partition owner's work.
func (p *Profiler) Served(s ps.Serving) {
	if int(s.Partition) < len(p.served) && s.Took >= 0 && s.Clocks >= 0 {
		p.served[s.Partition].Took += s.Took
		p.served[s.Partition].Clocks += s.Clocks
	}
}

// Carried adds the bytes that a machine received and sent while it served these partitions and no others. A machine does not measure them
// by partition: each has its share of the time that serving took.
func (p *Profiler) Carried(served []ps.Serving, in, out int64) {
	var whole time.Duration
	for _, s := range served {
		if int(s.Partition) >= len(p.carried) || s.Took < 0 || s.Clocks < 0 {
			return
		}
		whole += s.Took
	}
	if whole == 0 || in < 0 || out < 0 {
		return
	}
	for _, s := range served {
		part, c := float64(s.Took)/float64(whole), &p.carried[s.Partition]
		c.in, c.out, c.clocks = c.in+int64(part*float64(in)), c.out+int64(part*float64(out)), c.clocks+s.Clocks
	}
}

// Clock adds the length of a clock that is done. It reports whether the profile has changed notably.
func (p *Profiler) Clock(length time.Duration) (news bool) {
	if length <= 0 {
		return false
	}
	p.lengths = append(p.lengths, length)
	if len(p.lengths) < profiled {
		return false
	}
	if slices.ContainsFunc(p.served, func(s ps.Serving) bool { return s.Clocks < leastServed }) {
		if len(p.lengths) >= longestWindow {
			p.begin()
		}
		return false
	}
	slices.Sort(p.lengths)
	now := Profile{Clock: p.lengths[len(p.lengths)/2], Serving: make([]time.Duration, len(p.served))}
	for i, s := range p.served {
		now.Serving[i] = s.Took / time.Duration(s.Clocks)
	}
	now.In, now.Out = p.bytes()
	p.begin()
	if now.near(p.known) || p.known.Known() && !p.odd { // one window alone says little: tiny clocks vary when the computer is busy
		p.odd = !now.near(p.known)
		return false
	}
	p.known, p.odd = now, false
	return true
}

// bytes returns the bytes per clock of the window, or those known so far if some partition moved too often to be measured.
func (p *Profiler) bytes() (in, out []int64) {
	if slices.ContainsFunc(p.carried, func(c carried) bool { return c.clocks < leastServed }) {
		return p.known.In, p.known.Out
	}
	for _, c := range p.carried {
		in, out = append(in, c.in/c.clocks), append(out, c.out/c.clocks)
	}
	if sum(in)+sum(out) == 0 {
		return nil, nil // nothing crossed a network
	}
	return in, out
}

// begin begins a window.
func (p *Profiler) begin() {
	p.lengths = p.lengths[:0]
	clear(p.served)
	clear(p.carried)
}
