package hosts

import (
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/sched/aggregation"
	"github.com/tierml/tierml/tiers"
)

// Serving is what the jobs' measured profiles say of reliable hosts, as Parameter Service (AutoPS) reckons it. A job's partitions count where
// it has last said that they are; those on its transient slots do not. Where it has not said so, they count as spread evenly over its
// reliable slots. A host computes with all of its vCPUs, and answers requests as they come. Jobs without a profile do not count.
type Serving struct {
	Cores map[step.ID]float64 // by host: that serving takes if no job has to wait
	Loss  map[string]float64  // by job: the share of its speed that it is expected to lose because others are served on the same hosts
}

// measured is what a job has reported.
type measured struct {
	profile tiers.Profile
	owners  []step.ID // slots; Index: ps.Partition; nil = not known
	wish    tiers.Preference
	refused []step.ID     // nothing is changed for it while it has these reliable slots
	lately  time.Duration // the median length of the last clocks; it is not on disk
}

// tenancy is which reliable hosts serve which partitions of profiled jobs.
type tenancy struct {
	*aggregation.Pool
	numbers    map[step.ID]int            // of hosts
	slots      map[string]map[int]step.ID // by job: one of its slots on each host, by number
	partitions map[string][]int           // by job: the partition of each task
	jobs       []string                   // sorted
}

// coresOf are hosts' vCPUs.
func coresOf(hosts []*Host) map[step.ID]float64 {
	cores := map[step.ID]float64{}
	for _, h := range hosts {
		cores[h.ID] = float64(h.Size.VCPU)
	}
	return cores
}

// tenants returns the present state. Cores are the vCPUs of the hosts.
func tenants(slots []*Slot, jobs map[string]measured, cores map[step.ID]float64, limit float64) tenancy {
	t := tenancy{aggregation.NewPool(aggregation.Limits{Loss: limit, Late: true}), map[step.ID]int{}, map[string]map[int]step.ID{}, map[string][]int{}, nil}
	for _, id := range slices.Sorted(maps.Keys(cores)) {
		t.numbers[id] = t.Add(cores[id])
	}
	type place struct {
		job  string
		slot step.ID
	}
	at, on := map[string][]int{}, map[place]int{} // hosts: by job, one for each slot; by slot
	for _, s := range slots {
		n := t.numbers[s.Host]
		if n == 0 || !jobs[s.Job].profile.Known() {
			continue
		}
		at[s.Job] = append(at[s.Job], n)
		on[place{s.Job, step.ID(s.ID)}] = n
		if t.slots[s.Job] == nil {
			t.slots[s.Job] = map[int]step.ID{}
		}
		if _, another := t.slots[s.Job][n]; !another && !s.Leaving() {
			t.slots[s.Job][n] = step.ID(s.ID)
		}
	}
	t.jobs = slices.Sorted(maps.Keys(at))
	for _, job := range t.jobs {
		of := jobs[job]
		j, places := aggregation.Tenant{ID: job, Iteration: of.profile.Clock}, []int{}
		for i, exec := range of.profile.Serving {
			host := at[job][i%len(at[job])]
			if len(of.owners) == len(of.profile.Serving) {
				host = on[place{job, of.owners[i]}]
			}
			if host > 0 {
				j.Tasks, places = append(j.Tasks, aggregation.Task{Exec: exec}), append(places, host)
				t.partitions[job] = append(t.partitions[job], i)
			}
		}
		t.Put(j, places)
	}
	return t
}
