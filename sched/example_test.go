package sched_test

import (
	"fmt"

	"github.com/tierml/tierml/sched"
)

// Dominant resource fairness on one host of 9 CPUs and 18 GB: the example of its paper (NSDI 11, section 4.1).
func ExampleByName() {
	policy, err := sched.ByName("drf")
	if err != nil {
		fmt.Println(err)
		return
	}
	plan := policy.Plan(sched.State{
		Hosts: []sched.Host{{ID: "host", Capacity: sched.Resources{9, 18}}},
		Jobs: []sched.Job{
			{ID: "memory", Group: "a", Demand: sched.Resources{1, 4}, WantWorkers: 9, MostWorkers: 9},
			{ID: "processor", Group: "b", Demand: sched.Resources{3, 1}, WantWorkers: 9, MostWorkers: 9},
		},
	})
	for _, g := range plan.Grants {
		fmt.Println(g.Job, g.Workers)
	}
	// Output:
	// memory 3
	// processor 2
}
