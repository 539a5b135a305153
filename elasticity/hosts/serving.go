package hosts

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/tiers"
)

// Serving is the load of reliable hosts according to jobs' measured profiles. A job's partitions count at the location of its last report;
// those on its transient slots do not. Without a report, they count as spread evenly over its reliable slots. Jobs without a profile do not
// count, and one that has not measured its bytes counts by cores alone.
//
// Parameter Service (AutoPS) reserves turns for each job in a cycle of each aggregator (appendix C). Hosts here reserve none: a host
// computes with all of its vCPUs and answers requests as they come, which slows no job down while the load is at most its vCPUs and its
// network (docs/decisions/0021).
type Serving struct {
	Load map[step.ID]Load   // by host: of serving if no job has to wait
	Loss map[string]float64 // by job: the share of its speed that it is expected to lose because others are served on the same hosts
}

// measured is what a job has reported.
type measured struct {
	profile tiers.Profile
	serves  bool      // its reliable slots do nothing else
	owners  []step.ID // slots; Index: ps.Partition; nil = unknown
	wish    tiers.Preference
	to      []step.ID     // the hosts for its additional slots; nil = any
	refused []step.ID     // no change for it while it has these reliable slots
	lately  time.Duration // the median length of the last clocks; not stored
}

// at returns the load of serving one partition of a profiled job.
func (m *measured) at(partition int) Load {
	p := &m.profile
	l := Load{Cores: float64(p.Serving[partition]) / float64(p.Clock)}
	if len(p.In) > 0 {
		l.In, l.Out = float64(p.In[partition])/p.Clock.Seconds(), float64(p.Out[partition])/p.Clock.Seconds()
	}
	return l
}

// load returns the load of serving all partitions of a job.
func (m *measured) load() (sum Load) {
	for i := range m.profile.Serving {
		sum = sum.plus(m.at(i), 1)
	}
	return sum
}

// piece is a partition of a profiled job, and where it is served.
type piece struct {
	job       string
	partition int
	host      step.ID
	load      Load
}

// tenancy records which reliable hosts serve which partitions of profiled jobs.
type tenancy struct {
	limit  float64                        // the share of its speed that a job may lose
	has    map[step.ID]Load               // capacity of the hosts
	load   map[step.ID]Load               // that serving takes there
	slots  map[string]map[step.ID]step.ID // by job: one of its slots on each host
	pieces map[string][]piece             // by job
	jobs   []string                       // sorted
}

// taken is the resources that slots take on a host.
type taken struct {
	cores  float64 // reserved for them
	load   Load    // that serving takes
	memory int64   // MiB
	gpus   int
}

func (t taken) plus(o taken, n int) taken {
	return taken{t.cores + float64(n)*o.cores, t.load.plus(o.load, float64(n)), t.memory + int64(n)*o.memory, t.gpus + n*o.gpus}
}

// within reports whether a host has the resources, and no job loses more than a share of its speed.
func (t taken) within(h *Host, loss float64) bool {
	load := t.load
	load.Cores = max(load.Cores, t.cores)
	return load.loss(h.capacity()) <= loss+1e-9 && t.memory <= h.Size.MemoryMiB && t.gpus <= h.Size.GPUs
}

// capacities returns the load that hosts can serve.
func capacities(hosts []*Host) map[step.ID]Load {
	has := map[step.ID]Load{}
	for _, h := range hosts {
		has[h.ID] = h.capacity()
	}
	return has
}

// tenants returns the present state on hosts of these capacities.
func tenants(slots []*Slot, jobs map[string]measured, has map[step.ID]Load, limit float64) tenancy {
	t := tenancy{limit, has, map[step.ID]Load{}, map[string]map[step.ID]step.ID{}, map[string][]piece{}, nil}
	of := map[string][]*Slot{}
	for _, s := range slots {
		if _, there := has[s.Host]; !there || !jobs[s.Job].profile.Known() {
			continue
		}
		of[s.Job] = append(of[s.Job], s)
		if t.slots[s.Job] == nil {
			t.slots[s.Job] = map[step.ID]step.ID{}
		}
		if _, another := t.slots[s.Job][s.Host]; !another && !s.Leaving() {
			t.slots[s.Job][s.Host] = step.ID(s.ID)
		}
	}
	t.jobs = slices.Sorted(maps.Keys(of))
	for _, job := range t.jobs {
		m := jobs[job]
		for i, at := range m.servers(of[job]) {
			if at != nil {
				t.pieces[job] = append(t.pieces[job], piece{job, i, at.Host, m.at(i)})
			}
		}
		for _, p := range t.pieces[job] {
			t.load[p.host] = t.load[p.host].plus(p.load, 1)
		}
	}
	return t
}

// servers returns which of its slots serve a job's partitions; nil = none.
func (m *measured) servers(slots []*Slot) []*Slot {
	at := make([]*Slot, len(m.profile.Serving))
	if len(m.owners) != len(at) {
		for i, k := range evenly(m.profile.Serving, len(slots)) {
			at[i] = slots[k]
		}
		return at
	}
	for i, owner := range m.owners {
		if k := slices.IndexFunc(slots, func(s *Slot) bool { return step.ID(s.ID) == owner }); k >= 0 {
			at[i] = slots[k]
		}
	}
	return at
}

// evenly spreads partitions over slots by serving load: the largest first, each to the least loaded slot. Ties rotate.
func evenly(serving []time.Duration, slots int) []int {
	order := make([]int, len(serving))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(serving[b], serving[a]) })
	at, load := make([]int, len(serving)), make([]time.Duration, slots)
	for _, i := range order {
		at[i] = slices.Index(load, slices.Min(load))
		load[at[i]] += serving[i]
	}
	return at
}

// lossAt returns the share of its speed that a job loses on a host.
func (t *tenancy) lossAt(host step.ID) float64 { return t.load[host].loss(t.has[host]) }

// shareAt returns how much of a host's scarcest resource serving takes.
func (t *tenancy) shareAt(host step.ID) float64 { return t.load[host].share(t.has[host]) }

// loss returns a job's total loss: the slowest host sets the pace (appendix C).
func (t *tenancy) loss(job string) (most float64) {
	for _, p := range t.pieces[job] {
		most = max(most, t.lossAt(p.host))
	}
	return most
}

// most returns the largest loss on any host.
func (t *tenancy) most() (most float64) {
	for host := range t.has {
		most = max(most, t.lossAt(host))
	}
	return most
}

// relieve moves partitions of a job away from a host, the largest loads first, until no job there loses more than the limit. Each goes to
// the job's other host with the least room that fits (pseudocode 1); what fits none stays.
func (t *tenancy) relieve(from step.ID, job string) (moved []piece) {
	order, has := slices.Clone(t.pieces[job]), t.has[from]
	slices.SortStableFunc(order, func(a, b piece) int { return cmp.Compare(b.load.share(has), a.load.share(has)) })
	others := slices.Sorted(maps.Keys(t.slots[job]))
	for _, p := range order {
		if t.lossAt(from) <= t.limit {
			break
		}
		if p.host != from {
			continue
		}
		var best step.ID
		for _, to := range others {
			fits := t.load[to].plus(p.load, 1).loss(t.has[to]) <= t.limit
			if to != from && fits && (best == "" || t.shareAt(to) > t.shareAt(best)) {
				best = to
			}
		}
		if best != "" {
			t.load[from], t.load[best] = t.load[from].plus(p.load, -1), t.load[best].plus(p.load, 1)
			p.host = best
			moved = append(moved, p)
		}
	}
	for _, m := range moved {
		i := slices.IndexFunc(t.pieces[job], func(p piece) bool { return p.partition == m.partition })
		t.pieces[job][i] = m
	}
	return moved
}
