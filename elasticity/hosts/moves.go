package hosts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/sched/aggregation"
	"github.com/tierml/tierml/tiers"
)

// mostPartitions bounds what a job may report.
const mostPartitions = 1 << 16

// ProfileOf is the last profile of a job.
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

// Report takes in what serving a job takes, and returns which of its slots should serve. Now and then that has jobs' partitions move away
// from a host on which serving takes too much (Parameter Service, 3.3.2 and appendix D). One such change is made at a time, and watched.
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
	if b.watch == nil {
		b.relieve(now)
	}
	return b.measured[job].wish, nil
}

// relieve has partitions of one job move away from the host on which jobs lose most, to hosts on which it has slots, too. Of several jobs
// it is the one that leaves the least loss there, and then the one with the fewest moves.
func (b *Book) relieve(now time.Time) {
	cores := coresOf(b.staying(step.Reliable))
	t := tenants(b.live, b.measured, cores, b.rules.Loss)
	worst := 0
	var of step.ID
	for _, h := range b.staying(step.Reliable) {
		if n := t.numbers[h.ID]; t.LossAt(n) > b.rules.Loss && (worst == 0 || t.LossAt(n) > t.LossAt(worst)) {
			worst, of = n, h.ID
		}
	}
	if worst == 0 {
		return
	}
	var best *relief
	for _, job := range t.jobs {
		if m := b.measured[job]; t.slots[job][worst] == "" || len(m.owners) != len(m.profile.Serving) || b.refused[job] == b.having(job) {
			continue
		}
		if r := b.try(cores, worst, job); r != nil && (best == nil || cmp.Or(cmp.Compare(r.left, best.left), cmp.Compare(r.moves, best.moves)) < 0) {
			best = r
		}
	}
	if best == nil {
		return
	}
	b.begin(now, best)
	b.write(Line{T: now, Kind: Preferred, Job: best.job, Owners: best.owners, Why: fmt.Sprintf(
		"serving takes %.2f cores of host %s with %.0f vCPUs, and jobs there would lose %.0f %% of their speed", t.Load(worst), of, cores[of], 100*t.LossAt(worst))})
}

// relief is a change that could be made.
type relief struct {
	job    string
	owners []step.ID // then
	on     []step.ID // slots that serve more then
	moves  int
	left   float64 // the most that a job loses on the relieved host then
}

// try returns what the moves of a job would do; nil = it would lose as much as before.
func (b *Book) try(cores map[step.ID]float64, from int, job string) *relief {
	t := tenants(b.live, b.measured, cores, b.rules.Loss)
	var among []int
	for n := range t.slots[job] {
		among = append(among, n)
	}
	before := t.Pool.Loss(job)
	change := t.Relieve(from, job, among)
	if len(change.Moves) == 0 || t.Pool.Loss(job) >= before {
		return nil
	}
	r := &relief{job: job, owners: slices.Clone(b.measured[job].owners), moves: len(change.Moves), left: t.LossAt(from)}
	for _, m := range change.Moves {
		slot := t.slots[job][m.To]
		r.owners[t.partitions[job][m.Task]] = slot
		r.on = append(r.on, slot)
	}
	return r
}

// having names the slots of a job: one whose partitions went back is not moved again while it has the same.
func (b *Book) having(job string) string {
	var ids []string
	for _, s := range b.live {
		if s.Job == job && s.Tier == step.Reliable {
			ids = append(ids, string(s.ID))
		}
	}
	return strings.Join(ids, " ")
}

// begin begins to watch a change.
func (b *Book) begin(now time.Time, r *relief) {
	w := &watch{job: r.job, before: b.measured[r.job].owners, after: r.owners, since: now, beside: map[string]*pace{}}
	w.beside[r.job] = &pace{owners: r.owners, before: cmp.Or(b.measured[r.job].lately, b.measured[r.job].profile.Clock)}
	hosts := map[step.ID]bool{}
	for _, slot := range r.on {
		hosts[b.byID[provisioner.InstanceID(slot)].Host] = true
	}
	for job, m := range b.measured {
		serves := slices.ContainsFunc(m.owners, func(slot step.ID) bool {
			s := b.byID[provisioner.InstanceID(slot)]
			return s != nil && s.Job == job && !s.over() && hosts[s.Host]
		})
		if serves && job != r.job && m.lately > 0 {
			w.beside[job] = &pace{owners: m.owners, before: m.lately}
		}
	}
	b.watch = w
}

// judge takes in a report while a change is watched.
func (b *Book) judge(now time.Time, job string, r tiers.Served) {
	w := b.watch
	if over := now.Sub(w.since) >= b.rules.Insist; over || !slices.Equal(b.measured[w.job].wish.Owners, w.after) {
		if b.watch = nil; over && !w.moved { // it has others to obey
			b.refused[w.job] = b.having(w.job)
		}
		return // else the job has other slots, or somebody rests: no more can be learned
	}
	if !w.moved {
		w.moved = job == w.job && slices.Equal(r.Owners, w.after)
		if w.moved {
			w.beside[job].whole = true
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
		p.clocks, p.sum = p.clocks+r.Clocks, p.sum+time.Duration(r.Clocks)*r.Lately
	}
	if p.clocks >= aggregation.Watched {
		delete(w.beside, job)
		if lost := 1 - float64(p.before)*float64(p.clocks)/float64(p.sum); lost > b.rules.Loss {
			b.write(Line{T: now, Kind: Preferred, Job: w.job, Owners: w.before, Why: fmt.Sprintf(
				"after the last move a job lost %.0f %% of its speed over %d clocks: partitions go back", 100*lost, p.clocks)})
			b.refused[w.job], b.watch = b.having(w.job), nil
			return
		}
	}
	if len(w.beside) == 0 {
		b.watch = nil
	}
}
