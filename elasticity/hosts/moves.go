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

// mostPartitions bounds what a job may report.
const mostPartitions = 1 << 16

// ProfileOf returns the last profile of a job.
func (b *Book) ProfileOf(job string) tiers.Profile { return b.measured[job].profile }

// Serving returns the present state. Cores are the vCPUs of the reliable hosts.
func (b *Book) Serving(cores map[step.ID]float64) Serving {
	out := Serving{Cores: map[step.ID]float64{}, Loss: map[string]float64{}}
	t := tenants(b.live, b.measured, cores, b.rules.Loss)
	for id, n := range t.numbers {
		out.Cores[id] = t.Load(n)
	}
	for _, job := range t.jobs {
		out.Loss[job] = t.Pool.Loss(job)
	}
	return out
}

// Report takes in what serving a job takes, and returns which of its slots should serve, and how many more it should have. Now and then that
// has jobs' partitions move away from a host on which serving takes too much (Parameter Service, 3.3.2 and appendix D), or gives a job
// another slot, or takes one back. One such change is made at a time, and watched.
func (b *Book) Report(now time.Time, job string, r tiers.Served) (tiers.Preference, error) {
	bad := r.Clock <= 0 || len(r.Serving) == 0 || len(r.Serving) > mostPartitions || r.Clocks < 0 || r.Lately < 0 ||
		len(r.Owners) > 0 && len(r.Owners) != len(r.Serving)
	if bad || slices.ContainsFunc(r.Serving, func(d time.Duration) bool { return d < 0 || d > time.Hour }) {
		return tiers.Preference{}, fmt.Errorf("a profile of %d partitions, %d of them with owners, and clocks of %s: %w",
			len(r.Serving), len(r.Owners), r.Clock, provisioner.ErrInvalid)
	}
	if !slices.ContainsFunc(b.live, func(s *Slot) bool { return s.Job == job }) {
		return tiers.Preference{}, nil
	}
	if m := b.measured[job]; !m.profile.Equal(r.Profile) || !slices.Equal(m.owners, r.Owners) {
		b.write(Line{T: now, Kind: Profiled, Job: job, Profile: &r.Profile, Owners: r.Owners})
	}
	m := b.measured[job]
	m.lately = cmp.Or(r.Lately, m.lately)
	b.measured[job] = m
	if b.watch != nil {
		b.judge(now, job, r)
	}
	if b.watch == nil && !b.relieve(now) && !b.restore(now) && !b.recycle(now) {
		b.vacate(now)
	}
	return b.measured[job].wish, nil
}

// relieve makes a change for the host on which jobs lose most, if any lose more than the limit: partitions of a job move to hosts on which it
// has slots, too, and if none can, a job gets another slot. Of several changes it is the one that leaves the least loss there.
func (b *Book) relieve(now time.Time) (begun bool) {
	t := b.tenancy()
	worst := 0
	var of step.ID
	for _, h := range b.staying(step.Reliable) {
		if n := t.numbers[h.ID]; t.LossAt(n) > b.rules.Loss && (worst == 0 || t.LossAt(n) > t.LossAt(worst)) {
			worst, of = n, h.ID
		}
	}
	if worst == 0 {
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
			best = better(best, b.trySlot(of, job))
		}
	}
	if best == nil {
		return false
	}
	b.begin(now, best, fmt.Sprintf("serving takes %.2f cores of host %s with %d vCPUs, and jobs there would lose %.0f %% of their speed",
		t.Load(worst), of, b.hosts[of].Size.VCPU, 100*t.LossAt(worst)))
	return true
}

// restore has partitions that were moved spread evenly over their job's slots again, if then no job would lose half of what it may: the
// neighbour that they made room for has left, or serves less.
func (b *Book) restore(now time.Time) (begun bool) {
	there := coresOf(b.staying(step.Reliable))
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
		lossy := func(n int) bool { return t.LossAt(n) > b.rules.Loss/2 }
		if slices.Equal(m.wish.Owners, even) || slices.ContainsFunc(slices.Collect(maps.Values(t.numbers)), lossy) {
			continue
		}
		b.begin(now, &change{job: job, owners: even}, "the host that its partitions left can serve them again")
		return true
	}
	return false
}

// tryMoves returns what moves of a job would do; nil = it would lose as much as before.
func (b *Book) tryMoves(from int, job string) *change {
	t := b.tenancy()
	before := t.Pool.Loss(job)
	moves := t.Relieve(from, job, slices.Collect(maps.Keys(t.slots[job]))).Moves
	if len(moves) == 0 || t.Pool.Loss(job) >= before {
		return nil
	}
	c := &change{job: job, owners: slices.Clone(b.measured[job].owners), moves: len(moves), left: t.LossAt(from)}
	for _, m := range moves {
		c.owners[t.partitions[job][m.Task]] = t.slots[job][m.To]
	}
	return c
}

// judge takes in a report while a change is watched.
func (b *Book) judge(now time.Time, job string, r tiers.Served) {
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
		b.write(Line{T: now, Kind: Judged, Job: w.job, Why: "not all jobs beside it had a hundred clocks"})
		return
	case w.beside == nil:
		if job == w.job && b.changed(r.Owners) {
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
		lost, judged := p.Took(r.Clocks, r.Lately, w.clocks[job])
		if judged && lost > b.rules.Loss {
			b.takeBack(now, fmt.Sprintf("after the last change job %s lost %.0f %% of its speed over a hundred clocks: it is taken back", job, 100*lost))
			return
		}
		if judged {
			delete(w.beside, job)
		}
	}
	if len(w.beside) == 0 {
		b.keep(now)
	}
}

// keep ends a watch well. A slot that was to go once another serves in its place goes.
func (b *Book) keep(now time.Time) {
	line := Line{T: now, Kind: Judged, Job: b.watch.job, Why: "no job lost more than the limit"}
	if m := b.measured[b.watch.job]; m.wish.Leave != "" && m.wish.More > b.watch.was.More {
		line.Kind, line.More, line.Leave, line.Why = Preferred, b.watch.was.More, m.wish.Leave, "its host can be given back: "+line.Why
	}
	b.write(line)
}

// changed reports whether the job's owners are those of the change that is watched: the preferred ones, or a slot among them that is new.
func (b *Book) changed(owners []step.ID) bool {
	if wish := b.measured[b.watch.job].wish.Owners; wish != nil {
		return slices.Equal(owners, wish)
	}
	slots := b.reliableOf(b.watch.job)
	return slices.ContainsFunc(owners, func(id step.ID) bool { return slices.Contains(slots, id) && !slices.Contains(b.watch.had, id) })
}

// attend begins to count clocks: of the changed job, and of its neighbours on hosts that serve more of it than before.
func (b *Book) attend() {
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
func (b *Book) hostOf(slot step.ID) step.ID {
	if s := b.slot(slot); s != nil && !s.over() {
		return s.Host
	}
	return ""
}

// takeBack has everything as before the change that is watched, which is not made again while the job has the slots that it had.
func (b *Book) takeBack(now time.Time, why string) {
	w := b.watch
	line := Line{T: now, Kind: Preferred, Job: w.job, More: w.was.More, Refused: w.had, Why: why}
	if b.measured[w.job].wish.Owners != nil {
		line.Owners = w.was.Owners
	}
	b.write(line)
}
