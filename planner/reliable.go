package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/elasticity/training"
	"github.com/tierml/tierml/internal/grid"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/shapes"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// With `reliable: auto` the reliable tier is as small as it can be. It holds the model while machines come and go, so its memory and
// network matter; its vCPUs are busy only in stages 1 and 2, at on-demand prices.

const (
	// systemMiB is the memory used by the system of a small machine, where tiers.UsableMemory leaves less.
	systemMiB = 512
	// mostReliable is the maximum number of machines considered; oneMore is the surcharge on their price for each beyond the first, as it
	// is one more that may fail.
	mostReliable = 8
	oneMore      = 0.02
)

// ReliableNeed is what the reliable tier has to do, apart from what its count decides.
type ReliableNeed struct {
	Schema *ps.Schema
	Worker int64   // bytes that its worker needs, whatever the data
	Data   int64   // of all splits, in bytes, which each machine loads before the job is ready; 0 = unknown
	Work   float64 // the whole job's, in vCPU hours; 0 = unknown
}

// ReliableOption is a type and a count that were considered.
type ReliableOption struct {
	Fleet
	PerHour market.USD // that the machines cost together
	// Memory and Network, in bytes and in bytes per wall-clock second, are what each machine needs, and what it has.
	Memory, HasMemory   int64
	Network, HasNetwork float64
	Refused             string // why it cannot be the reliable tier; "" = it can
	score               float64
	dear                bool // it is refused only for its price
}

// Sizing is how the reliable tier was chosen.
type Sizing struct {
	Options []ReliableOption // the best of each type, suitable ones first, then by price
	Why     string           // the reason if nothing was chosen
}

// chosen reports whether the tier is the first of the options.
func (s *Sizing) chosen() bool { return len(s.Options) > 0 && s.Options[0].Refused == "" }

// SizesReliable reports whether a job leaves its reliable tier open. With the policy on-demand the tier is the whole fleet.
func SizesReliable(job *config.Job) bool {
	return job.Reliable.Auto() && job.Reliable.Count > 0 && !job.Restarts() && job.Policy != (bidding.OnDemand{}).Name()
}

// SizeReliable chooses the reliable tier of a job that leaves it open, and changes the choice. A declared type stays.
//
// Memory: model, undo, pending sums, contributions and two cuts (AdmitMemory). Network, sustained: a cut of every row at the planned
// interval in the share of the link that cuts may use, and in the part of an eviction notice that a flush may use. Cost per hour: the
// machines' price, minus their work next to transient machines at its price on the cheapest pool, plus what the fleet costs while it waits
// for a tier that is still loading the data.
func SizeReliable(job *config.Job, choice *Resolved, catalog *market.Catalog, need ReliableNeed) (Sizing, error) {
	want := job.Reliable
	switch {
	case !SizesReliable(job):
		return Sizing{}, nil
	case need.Schema.HasSparse():
		return unsized(job, choice, "the model has sparse tables, whose size is unknown beforehand; declare reliable.type")
	}
	s := sizer{job: job, choice: choice, need: need, tempo: job.Tempo(), notice: job.Local.Notice}
	s.market()
	first, last := want.Count, want.Count
	if !job.Written("reliable.count") {
		first, last = 1, min(mostReliable, max(need.Schema.Partitions, 1))
	}
	known := false
	for _, t := range catalog.Types(choice.Reliable.Pool.Region) {
		t, complete := shapes.Complete(t)
		if !slices.Contains(s.archs, cmp.Or(t.Arch, market.ArchOf(t.Name))) || t.OnDemand <= 0 {
			continue
		}
		if want.Bandwidth > 0 {
			t.Bandwidth, complete = float64(want.Bandwidth), t.VCPU > 0 && t.MemoryMiB > 0
		}
		known = known || complete
		s.add(t, complete, first, last)
	}
	if !known {
		return unsized(job, choice, "the sustained network of no type is known; declare reliable.type, or reliable.bandwidth")
	}
	slices.SortStableFunc(s.options, func(a, b ReliableOption) int {
		return cmp.Or(compareBool(a.Refused != "", b.Refused != ""), cmp.Compare(a.score, b.score), cmp.Compare(a.PerHour, b.PerHour))
	})
	out := Sizing{Options: s.options}
	if !out.chosen() {
		return out, s.refusal(last)
	}
	choice.Reliable = s.options[0].Fleet
	return out, nil
}

// unsized takes the cheapest type of resources.any_of, which Resolve has chosen, if its price allows that.
func unsized(job *config.Job, choice *Resolved, why string) (Sizing, error) {
	if t := choice.Reliable.Type; highestPrice(job, t) > 0 && t.OnDemand > highestPrice(job, t) {
		return Sizing{}, job.Fault("reliable", fmt.Sprintf("the cheapest type of resources.any_of, %s, costs $%s an hour on demand, above max_price", t.Name, t.OnDemand),
			"declare reliable.type, or raise max_price")
	}
	return Sizing{Why: "the cheapest type of resources.any_of: " + why}, nil
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// sizer tries the types.
type sizer struct {
	job     *config.Job
	choice  *Resolved
	need    ReliableNeed
	tempo   tempo.Settings
	notice  time.Duration // wall-clock time
	archs   []string
	perWork float64 // billionths of a dollar for a vCPU hour on the cheapest pool now
	machine float64 // vCPU hours an hour of one of its machines
	alone   float64 // share of the time in which the reliable tier has no transient machines
	options []ReliableOption
}

// market finds the work with which the reliable tier's own competes.
func (s *sizer) market() {
	for _, c := range s.choice.Pools {
		if arch := cmp.Or(c.Type.Arch, market.ArchOf(c.Type.Name)); !slices.Contains(s.archs, arch) {
			s.archs = append(s.archs, arch)
		}
		price, known := c.History.At(s.job.Local.Start)
		if last, any := c.History.Last(); !known && any { // of a dry run in other years
			price, known = last.Price, true
		}
		rate := c.Type.WorkRate()
		if !known || rate <= 0 {
			continue
		}
		if perWork := float64(price) / rate; s.perWork == 0 || perWork < s.perWork {
			s.perWork, s.machine, s.alone = perWork, rate, 0
			if c.OnDemand() {
				continue
			}
			bid := cmp.Or(c.MaxPrice, c.Type.OnDemand)
			if e := market.MTTF(c.History, s.job.Local.Start, bid); e.Known {
				s.alone = s.tempo.Startup.Hours() / (s.tempo.Startup.Hours() + e.Expected().Hours())
			}
		}
	}
}

// machines returns how many transient machines are wanted, from the cheapest pool.
func (s *sizer) machines() float64 {
	if s.choice.Want.VCPU == 0 || s.machine == 0 {
		return float64(s.choice.Want.Machines)
	}
	return math.Ceil(float64(s.choice.Want.VCPU) / s.machine)
}

// add adds the smallest sufficient number of machines of a type, or the reason why none suffices.
func (s *sizer) add(t market.InstanceType, known bool, first, last int) {
	var best ReliableOption
	for count := first; count <= last; count++ {
		o := s.option(t, known, count)
		if best.Count == 0 || compareBool(o.Refused != "", best.Refused != "") < 0 || best.Refused == "" && o.Refused == "" && o.score < best.score {
			best = o
		}
	}
	s.options = append(s.options, best)
}

// option computes the figures of count machines of a type.
func (s *sizer) option(t market.InstanceType, known bool, count int) ReliableOption {
	pool := s.choice.Reliable.Pool
	pool.Type = t.Name
	memory := tiers.ReliableMemory(s.need.Schema, count)
	o := ReliableOption{
		Fleet:   Fleet{Pool: pool, Type: t, Count: count},
		PerHour: t.OnDemand * market.USD(count),
		Memory:  memory.Total() + s.need.Worker, HasMemory: max(min(tiers.UsableMemory(t.MemoryMiB), (t.MemoryMiB-systemMiB)<<20), 0),
		Network: s.network(float64(memory.Rows)), HasNetwork: t.Bandwidth,
	}
	o.score = s.score(&o)
	limit := highestPrice(s.job, t)
	switch {
	case !known:
		o.Refused = "its sustained network is unknown"
	case o.Memory > o.HasMemory:
		o.Refused = fmt.Sprintf("it needs %s of memory and has %s for it", Bytes(o.Memory), Bytes(o.HasMemory))
	case o.Network > o.HasNetwork:
		o.Refused = fmt.Sprintf("it needs %s/s of sustained network and has %s/s", Bytes(int64(o.Network)), Bytes(int64(o.HasNetwork)))
	case limit > 0 && t.OnDemand > limit:
		o.Refused, o.dear = fmt.Sprintf("it costs $%s an hour, above the max_price of $%s", t.OnDemand, limit), true
	}
	return o
}

// network returns the bandwidth that a machine needs to receive a cut of this many bytes at the planned interval, and within an eviction
// notice.
func (s *sizer) network(cut float64) float64 {
	need := cut / (training.MostShare * s.tempo.Wall(s.tempo.CutEvery).Seconds())
	if notice := s.notice.Seconds(); notice > 0 {
		need = max(need, cut/(training.FlushMargin*notice))
	}
	return need
}

// score returns what the machines cost per hour, in billionths of a dollar, minus their work and plus the wait for them.
func (s *sizer) score(o *ReliableOption) float64 {
	works := 1.0
	thresholds := tiers.Thresholds{TwoAbove: s.job.Stages.TwoAbove, ThreeAbove: s.job.Stages.ThreeAbove}
	fleet := s.machines() * s.machine
	slow := o.Type.WorkRate() < fleet/float64(max(s.need.Schema.Splits, 1)) // a machine that would delay a split gets none
	if slow || tiers.StageFor(int(s.machines()), o.Count, thresholds) == tiers.Stage3 {
		works = s.alone
	}
	price := float64(o.PerHour) * (1 + oneMore*float64(o.Count-1))
	// Its work counts as at most one worker's, and at most at its price: the workers are bought separately.
	score := price - min(works*min(float64(o.Count)*o.Type.WorkRate(), s.machine)*s.perWork, price)
	if s.need.Data == 0 || s.need.Work == 0 || o.Type.Bandwidth == 0 || fleet == 0 {
		return score
	}
	load := float64(s.need.Data) / o.Type.Bandwidth // wall-clock seconds
	wait := max(load-s.tempo.Wall(s.tempo.Startup).Seconds(), 0) * s.tempo.Speed / time.Hour.Seconds()
	return score + wait*fleet*s.perWork/(s.need.Work/fleet) // once in the job's hours
}

// refusal is the fault of a job for which `most` machines of no type suffice, with the figures of the nearest.
func (s *sizer) refusal(most int) error {
	for _, o := range s.options { // sorted: the first is the cheapest
		if o.dear {
			return s.job.Fault("reliable", fmt.Sprintf("no type of %s that can be the reliable tier costs max_price or less: %s, the cheapest, costs $%s an hour",
				s.choice.Reliable.Pool.Region, o.Type.Name, o.Type.OnDemand), "raise max_price, declare reliable.type, or write policy: checkpoint, which does without")
		}
	}
	var nearest ReliableOption
	has := -1.0
	for _, o := range s.options {
		all := s.option(o.Type, o.Type.Bandwidth > 0, most)
		if share := min(float64(all.HasMemory)/float64(all.Memory), all.HasNetwork/all.Network); share > has {
			nearest, has = all, share
		}
	}
	return s.job.Fault("reliable", fmt.Sprintf("no type of %s on sale can be the reliable tier: of %s, the nearest, %s",
		s.choice.Reliable.Pool.Region, words.Number(nearest.Count, "machine"), nearest.Type.Name+", "+nearest.Refused),
		"write a reliable.count above "+fmt.Sprint(nearest.Count)+", choose a smaller model, or declare reliable.type")
}

// Options shown in addition to the choice: the next suitable ones, and the cheapest unsuitable ones.
const (
	shownNext    = 2
	shownRefused = 2
)

// shown returns the options that a plan lists, suitable ones first.
func (s *Sizing) shown() []ReliableOption {
	var will, not []ReliableOption
	for _, o := range s.Options {
		switch {
		case o.Refused == "":
			will = append(will, o)
		case len(will) == 0 || o.PerHour < will[0].PerHour:
			not = append(not, o)
		}
	}
	slices.SortStableFunc(not, func(a, b ReliableOption) int { return cmp.Compare(a.PerHour, b.PerHour) })
	return append(will[:min(len(will), 1+shownNext)], not[:min(len(not), shownRefused)]...)
}

// writeSizing shows how the reliable tier was chosen, if the job leaves it open.
func (p *Plan) writeSizing(b *terminal.Text, s Style) {
	if p.Sizing.Why != "" {
		s.paragraph(b, 2, "", "Reliable machines: "+p.Sizing.Why+".")
		b.WriteString("\n")
	}
	if !p.Sizing.chosen() {
		return
	}
	g := &grid.Grid{Head: []string{"", "RELIABLE", "", ">$/H", ">MEMORY", ">OF", ">NETWORK/S", ">OF"}, Names: 3}
	for i, o := range p.Sizing.shown() {
		mark := ""
		if i == 0 {
			mark = "✓"
		}
		g.Add(mark, o.Type.Name, fmt.Sprintf("x %d", o.Count), perHour(o.PerHour), Bytes(o.Memory), Bytes(o.HasMemory),
			Bytes(int64(o.Network)), Bytes(int64(o.HasNetwork)))
		if i > 0 {
			g.Remark(o.Refused)
		}
	}
	s.table(b, g, func(row int) string {
		if row == 0 {
			return green
		}
		return ""
	})
	b.WriteString("\n")
}
