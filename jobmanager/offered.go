package jobmanager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/jobrun/prepare"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/sched"
	"github.com/tierml/tierml/sched/grants"
)

// offered is the maximum that a scheduler has for all jobs together: transient hosts, or jobs' own machines.
type offered struct {
	machines int             // jobs' own machines; 0 = they share hosts
	cloud    string          // of the hosts
	hosts    int             // at a time
	least    sched.Resources // of a host
	types    []market.InstanceType
}

// supplyOf returns what a file of shared hosts permits.
func supplyOf(file string) (s supply, o offered, err error) {
	job, err := config.LoadHosts(file)
	if err != nil {
		return s, o, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	prices, err := prepare.LoadMarket(ctx, job)
	if err != nil {
		return s, o, err
	}
	offers, _ := prices.Offers()
	found, err := planner.Resolve(job, offers, prices.Catalog)
	if err != nil {
		return s, o, err
	}
	s = supply{sizes: map[string]sched.Resources{}, there: map[string]sched.Resources{}, most: found.Want.Machines}
	least := found.Pools[0].Type
	for _, p := range found.Pools {
		s.sizes[p.Type.Name] = unitOf(p.Type)
		least.VCPU, least.MemoryMiB, least.GPU.Count = min(least.VCPU, p.Type.VCPU), min(least.MemoryMiB, p.Type.MemoryMiB), min(least.GPU.Count, p.Type.GPU.Count)
	}
	s.least = unitOf(least)
	if s.most == 0 {
		s.most = found.Want.VCPU / max(least.VCPU, 1)
	}
	rules, err := job.Rules()
	if err != nil {
		return s, o, err
	}
	tempo := job.Tempo()
	s.costs = newSlotPrices(found.Pools, s.most*least.VCPU)
	s.costs.wait, s.costs.bought = tempo.Wall(tempo.Startup).Seconds(), rules.Terms().Increment
	s.costs.spare = max(handOver, tempo.DrainMargin)
	s.costs.look = max(tempo.Wall(lookAhead), 4*lookAtGrants).Seconds()
	o = offered{cloud: job.Cloud, hosts: s.most, least: s.least, types: prices.Catalog.Types(found.Pools[0].Pool.Region)}
	for _, f := range offers {
		o.types = append(o.types, f.Type)
	}
	return s, o, nil
}

// unitOf returns the resources of a machine type: vCPUs, memory in MiB, and GPUs.
func unitOf(t market.InstanceType) sched.Resources {
	return sched.Resources{float64(t.VCPU), float64(t.MemoryMiB), float64(t.GPU.Count)}
}

// room returns the maximum number of workers of a size at a time.
func (o offered) room(unit sched.Resources) int {
	if o.machines > 0 {
		return o.machines
	}
	return o.hosts * grants.Units(o.least, unit)
}

// workers returns the maximum number of the smallest size.
func (o offered) workers() int { return o.room(sched.Resources{1}) }

// concerns reports whether a job's machines are among these: slots are for jobs of the hosts' cloud.
func (o offered) concerns(job *config.Job) bool { return o.machines > 0 || job.Cloud == o.cloud }

// refuses returns why a job would never start here; nil = it will.
func (o offered) refuses(job *config.Job) error {
	a := o.asked(job)
	switch room := o.room(a.Unit); {
	case o.machines > 0 && job.Resources.VCPU > 0:
		return errors.New("resources.vcpu: this job server grants jobs a number of machines (--slots): write count, such as count: 1..4")
	case o.machines == 0 && a.Unit[0] == 0:
		return errors.New("resources.any_of: none of its types is in the catalog of the shared hosts")
	case a.Least > room:
		return fmt.Errorf("resources.count: it needs %d workers, and there are never more than %d of its size: it would wait forever", a.Least, room)
	}
	return nil
}

// String returns the offer in words.
func (o offered) String() string {
	if o.machines > 0 {
		return fmt.Sprintf("%d machines of jobs' own", o.machines)
	}
	return fmt.Sprintf("%d hosts of at least %.0f vCPUs and %.1f GB", o.hosts, o.least[0], o.least[1]/1024)
}

// askedBy returns what a job's file requests, and its deadline in market time. An unreadable file requests one vCPU: its run reports the
// problem.
func (o offered) askedBy(file string) (grants.Asked, time.Time) {
	job, err := config.Load(file)
	if err != nil {
		return grants.Asked{Least: 1, Most: 1, Unit: sched.Resources{1, 1}, Fixed: true}, time.Time{}
	}
	return o.asked(job), job.Deadline
}

// asked returns what a job requests. It starts with no more than the maximum: otherwise it would block all others forever.
func (o offered) asked(job *config.Job) grants.Asked {
	largest := o.largest(job)
	count := job.Resources.Count
	if v := job.Resources.VCPU; v > 0 {
		count = config.Exactly((v + max(largest.VCPU, 1) - 1) / max(largest.VCPU, 1))
	}
	unit := unitOf(largest)
	if o.machines > 0 {
		unit = sched.Resources{1} // whatever it is
	}
	a := grants.Asked{Group: job.Group, Weight: job.Weight, Priority: job.Priority, Least: count.Least, Most: count.Most, Start: job.StartWith,
		Unit: unit, Fixed: job.IsProgram() || job.Restarts(), Clocks: int64(job.Train.Clocks), Budget: float64(job.Budget) / float64(market.Dollar)}
	a.Start = max(min(cmp.Or(a.Start, a.Most), o.room(unit)), a.Least)
	for _, f := range job.Feedback {
		a.Sweep, a.At, a.Keep = job.Name, append(a.At, int64(f.At)), append(a.Keep, f.Keep)
	}
	return a
}

// largest returns the resources of the largest worker that a job admits; zero = none of its types is known.
func (o offered) largest(job *config.Job) (largest market.InstanceType) {
	if own := job.MachineSize(); o.machines == 0 && own.VCPU > 0 {
		return own
	}
	for _, m := range job.Resources.AnyOf {
		var fits []market.InstanceType
		for _, t := range o.types {
			if m.Type == t.Name || m.Type == "" && m.CPUs.Admits(t.VCPU) && m.Memory.Admits(t.MemoryMiB) {
				fits = append(fits, t)
			}
		}
		if len(fits) > 0 {
			t := slices.MinFunc(fits, func(a, b market.InstanceType) int { return slices.Compare(unitOf(a), unitOf(b)) })
			largest.VCPU, largest.MemoryMiB = max(largest.VCPU, t.VCPU), max(largest.MemoryMiB, t.MemoryMiB)
		}
	}
	return largest
}
