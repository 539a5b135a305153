package hosts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers"
)

// mostPartitions bounds the partitions that a job may report.
const mostPartitions = 1 << 16

// ProfileOf returns the last profile of a job.
func (b *Book) ProfileOf(job string) tiers.Profile { return b.measured[job].profile }

// Serving returns the present state on the reliable hosts, of these capacities.
func (b *Book) Serving(has map[step.ID]Load) Serving {
	t := tenants(b.live, b.measured, has, b.rules.Loss)
	out := Serving{Load: t.load, Loss: map[string]float64{}}
	for _, job := range t.jobs {
		out.Loss[job] = t.loss(job)
	}
	return out
}

// Report processes the load of serving a job, and returns which of its slots should serve, and how many more it should have. Occasionally
// this moves jobs' partitions away from an overloaded host, gives a job another slot, or takes one back. Only one such change is made at a
// time, and it is watched.
func (b *Book) Report(now time.Time, job string, r tiers.Served) (tiers.Preference, error) {
	bad := r.Clock <= 0 || len(r.Serving) == 0 || len(r.Serving) > mostPartitions || r.Clocks < 0 || r.Lately < 0 ||
		len(r.Owners) > 0 && len(r.Owners) != len(r.Serving) || len(r.In) != len(r.Out) || len(r.In) > 0 && len(r.In) != len(r.Serving) ||
		slices.ContainsFunc(slices.Concat(r.In, r.Out), func(bytes int64) bool { return bytes < 0 })
	if bad || slices.ContainsFunc(r.Serving, func(d time.Duration) bool { return d < 0 || d > time.Hour }) {
		return tiers.Preference{}, fmt.Errorf("a profile of %d partitions, %d of them with owners, and clocks of %s: %w",
			len(r.Serving), len(r.Owners), r.Clock, provisioner.ErrInvalid)
	}
	if !slices.ContainsFunc(b.live, func(s *Slot) bool { return s.Job == job }) {
		return tiers.Preference{}, nil
	}
	if m := b.measured[job]; !m.profile.Equal(r.Profile) || !slices.Equal(m.owners, r.Owners) || m.serves != r.OnlyServes {
		b.write(Line{T: now, Kind: Profiled, Job: job, Profile: &r.Profile, Owners: r.Owners, OnlyServes: r.OnlyServes})
	}
	m := b.measured[job]
	m.lately = cmp.Or(r.Lately, m.lately)
	b.measured[job] = m
	balancer{b}.reported(now, job, r)
	wish := b.measured[job].wish
	if wish.Owners == nil {
		wish.Owners = b.owners(job)
	}
	return wish, nil
}

// owners returns the slots that should serve a job's partitions if nothing else was decided: a job spreads them by number, which works if
// their loads are similar; nil = any.
func (b *Book) owners(job string) []step.ID {
	m, slots := b.measured[job], b.reliableOf(job)
	if b.watch == nil || b.watch.job != job {
		slots = slices.DeleteFunc(slots, func(id step.ID) bool { return id == m.wish.Leave })
	}
	serving := m.profile.Serving
	matters := func(more, less time.Duration) bool { return float64(more-less) >= notable*float64(m.profile.Clock) }
	if len(slots) < 2 || len(m.owners) == 0 || !matters(slices.Max(serving), slices.Min(serving)) {
		return nil
	}
	even := make([]step.ID, len(serving))
	for i, k := range evenly(serving, len(slots)) {
		even[i] = slots[k]
	}
	most := func(owners []step.ID) time.Duration {
		load := map[step.ID]time.Duration{}
		for i, owner := range owners {
			load[owner] += serving[i]
		}
		return slices.Max(slices.Collect(maps.Values(load)))
	}
	stray := func(id step.ID) bool { return !slices.Contains(slots, id) }
	if !slices.ContainsFunc(m.owners, stray) && !matters(most(m.owners), most(even)) {
		return m.owners
	}
	return even
}

// reported processes a job's report.
func (b balancer) reported(now time.Time, job string, r tiers.Served) {
	if b.watch != nil {
		b.judge(now, job, r)
	}
	if state := b.state(now); b.watch == nil && state != b.rest {
		if b.rest = state; !b.relieve(now) && !b.restore(now) && !b.recycle(now) {
			b.vacate(now)
		}
	}
}

// state returns the current state.
func (b balancer) state(now time.Time) rest {
	r := rest{applied: b.applied, staying: len(b.staying(step.Reliable)), most: b.rules.Offers[step.Reliable].Most}
	for _, s := range b.live {
		if now.Sub(s.Placed) >= b.rules.Insist {
			r.aged++
		}
	}
	return r
}

// relieve makes a change for the host on which jobs lose most, if any lose more than the limit: partitions of a job move to other hosts on
// which it has slots, and if none can, a job gets another slot. It chooses the change that leaves the least loss there.
func (b balancer) relieve(now time.Time) (begun bool) {
	t := b.tenancy()
	var worst step.ID
	for _, h := range b.staying(step.Reliable) {
		if t.lossAt(h.ID) > b.rules.Loss && (worst == "" || t.lossAt(h.ID) > t.lossAt(worst)) {
			worst = h.ID
		}
	}
	if worst == "" {
		return false
	}
	var best *change
	for _, job := range t.jobs {
		if t.slots[job][worst] != "" && b.changeable(job) {
			best = better(best, b.tryMoves(worst, job))
		}
	}
	for _, job := range t.jobs {
		if best != nil && best.more == 0 {
			break
		}
		if t.slots[job][worst] != "" && b.changeable(job) {
			best = better(best, b.trySlot(worst, job))
		}
	}
	if best == nil {
		return false
	}
	load, h := t.load[worst], b.hosts[worst]
	takes := fmt.Sprintf("%.2f cores of host %s with %d vCPUs", load.Cores, worst, h.Size.VCPU)
	if h.Network > 0 && load.share(Capacity(Size{}, h.Network)) > load.Cores/float64(h.Size.VCPU) {
		takes = fmt.Sprintf("%.1f MB/s of the network of host %s with %.1f MB/s", max(load.In, load.Out)/1e6, worst, h.Network/1e6)
	}
	b.begin(now, best, fmt.Sprintf("serving takes %s, and jobs there would lose %.0f %% of their speed", takes, 100*t.lossAt(worst)))
	return true
}

// restore spreads moved partitions evenly over their job's slots again, if then no job would lose half of what it may: the neighbour that
// they made room for has left, or serves less.
func (b balancer) restore(now time.Time) (begun bool) {
	there := capacities(b.staying(step.Reliable))
	for _, job := range b.tenancy().jobs {
		m, slots := b.measured[job], b.reliableOf(job)
		elsewhere := func(owner step.ID) bool { return !slices.Contains(slots, owner) }
		if m.wish.Owners == nil || m.wish.More > 0 || len(slots) < 2 || !b.changeable(job) || slices.ContainsFunc(m.owners, elsewhere) {
			continue
		}
		even := make([]step.ID, len(m.owners))
		for i := range even {
			even[i] = slots[i%len(slots)]
		}
		t := b.spread(there, job, b.live)
		if slices.Equal(m.wish.Owners, even) || t.most() > b.rules.Loss/2 {
			continue
		}
		b.begin(now, &change{job: job, owners: even}, "the host that its partitions left can serve them again")
		return true
	}
	return false
}

// tryMoves returns the result of moving a job's partitions; nil = no improvement.
func (b balancer) tryMoves(from step.ID, job string) *change {
	t := b.tenancy()
	before := t.loss(job)
	moved := t.relieve(from, job)
	if len(moved) == 0 || t.loss(job) >= before {
		return nil
	}
	c := &change{job: job, owners: slices.Clone(b.measured[job].owners), moves: len(moved), left: t.lossAt(from)}
	for _, p := range moved {
		c.owners[p.partition] = t.slots[job][p.host]
	}
	return c
}

// judge processes a report while a change is watched.
func (b balancer) judge(now time.Time, job string, r tiers.Served) {
	w := b.watch
	if w.since.IsZero() {
		w.since = now
	}
	over := now.Sub(w.since) >= b.rules.Insist
	switch {
	case over && w.beside == nil:
		b.takeBack(now, "the last change did not come about")
		return
	case over: // somebody rests: no more can be learned
		b.keep(now, "not all jobs beside it had a hundred clocks")
		return
	case w.beside == nil:
		if job == w.job && b.changed(r.Owners) {
			w.since = now
			b.attend()
		}
		return
	}
	p := w.beside[job]
	switch {
	case p == nil:
		return
	case !slices.Equal(p.owners, r.Owners):
		delete(w.beside, job)
	case !p.whole:
		p.whole = true
	default:
		lost, judged := p.took(r.Clocks, r.Lately, w.clocks[job])
		if judged && lost > b.rules.Loss {
			b.takeBack(now, fmt.Sprintf("after the last change job %s lost %.0f %% of its speed over a hundred clocks: it is taken back", job, 100*lost))
			return
		}
		if judged {
			delete(w.beside, job)
		}
	}
	if len(w.beside) == 0 {
		b.keep(now, "no job lost more than the limit")
	}
}

// keep ends a watch successfully. A slot that was to be replaced goes.
func (b balancer) keep(now time.Time, why string) {
	line := Line{T: now, Kind: Judged, Job: b.watch.job, Why: why}
	if m := b.measured[b.watch.job]; m.wish.Leave != "" && m.wish.More > b.watch.was.More {
		line.Kind, line.More, line.Leave, line.Why = Preferred, m.wish.More-1, m.wish.Leave, "its host can be given back: "+line.Why
	}
	b.write(line)
}

// changed reports whether the job's owners are those of the watched change: the preferred ones, or all new slots among them.
func (b balancer) changed(owners []step.ID) bool {
	if wish := b.measured[b.watch.job].wish.Owners; wish != nil {
		return slices.Equal(owners, wish)
	}
	fresh := 0
	for _, id := range b.reliableOf(b.watch.job) {
		if slices.Contains(owners, id) && !slices.Contains(b.watch.had, id) {
			fresh++
		}
	}
	wish := b.owners(b.watch.job)
	return fresh > 0 && fresh >= b.measured[b.watch.job].wish.More-b.watch.was.More && (wish == nil || slices.Equal(owners, wish))
}

// attend begins to count clocks: of the changed job, and of its neighbours on hosts that now serve more of it.
func (b balancer) attend() {
	w := b.watch
	owners := b.measured[w.job].owners
	w.beside = map[string]*pace{w.job: {owners: owners, whole: true}}
	hosts := map[step.ID]bool{}
	for i, slot := range owners {
		if i >= len(w.was.Owners) || w.was.Owners[i] != slot {
			hosts[b.hostOf(slot)] = true
		}
	}
	for job, m := range b.measured {
		serves := slices.ContainsFunc(m.owners, func(slot step.ID) bool { return hosts[b.hostOf(slot)] })
		if serves && job != w.job && w.clocks[job] > 0 {
			w.beside[job] = &pace{owners: m.owners}
		}
	}
}

// hostOf returns where a slot is; empty = nowhere any more.
func (b balancer) hostOf(slot step.ID) step.ID {
	if s := b.slot(slot); s != nil && !s.hasEnded() {
		return s.Host
	}
	return ""
}

// takeBack reverts the watched change, which is not repeated while the job has the slots that it had.
func (b balancer) takeBack(now time.Time, why string) {
	w := b.watch
	line := Line{T: now, Kind: Preferred, Job: w.job, More: w.was.More, Refused: w.had, Why: why}
	if b.measured[w.job].wish.Owners != nil {
		line.Owners = w.was.Owners
	}
	b.write(line)
}
