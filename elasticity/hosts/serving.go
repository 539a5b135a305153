package hosts

import (
	"maps"
	"slices"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/sched/aggregation"
	"github.com/tierml/tierml/tiers"
)

// Serving is what the jobs' measured profiles say of reliable hosts, as Parameter Service (AutoPS) reckons it. Each job's partitions count as
// spread evenly over its reliable slots, as they are in stage 1; in stages 2 and 3 transient slots serve, and hosts have less to do. A
// host computes with all of its vCPUs, and answers requests as they come. Jobs without a profile do not count.
type Serving struct {
	Cores map[step.ID]float64 // by host: that serving takes if no job has to wait
	Loss  map[string]float64  // by job: the share of its speed that it is expected to lose because others are served beside it
}

// aggregators are the reliable hosts with the profiled jobs that have slots on them.
func aggregators(slots []*Slot, profiles map[string]tiers.Profile, cores map[step.ID]float64) (pool *aggregation.Pool, numbers map[step.ID]int, jobs []string) {
	pool, numbers = aggregation.NewPool(aggregation.Limits{Late: true}), map[step.ID]int{}
	for _, id := range slices.Sorted(maps.Keys(cores)) {
		numbers[id] = pool.Add(cores[id])
	}
	at := map[string][]int{} // hosts of each job, one for each slot
	for _, s := range slots {
		if numbers[s.Host] > 0 && profiles[s.Job].Known() {
			at[s.Job] = append(at[s.Job], numbers[s.Host])
		}
	}
	jobs = slices.Sorted(maps.Keys(at))
	for _, job := range jobs {
		of := profiles[job]
		tasks, places := make([]aggregation.Task, len(of.Serving)), make([]int, len(of.Serving))
		for i, exec := range of.Serving {
			tasks[i].Exec, places[i] = exec, at[job][i%len(at[job])]
		}
		pool.Put(aggregation.Job{ID: job, Iteration: of.Clock, Tasks: tasks}, places)
	}
	return pool, numbers, jobs
}
