package planner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/shapes"
)

// Offer is a spot pool on sale, with the shape of its machines and its price history.
type Offer struct {
	Pool    market.Pool
	Type    market.InstanceType
	History *market.History
	Hints   bidding.Hints // that the provider gives
}

// Resolved is the meaning of a job's words on a given market.
type Resolved struct {
	Want     bidding.Want
	Pools    []bidding.Candidate // sorted by pool
	Capacity map[market.Pool]int
	Reliable Fleet
	OnDemand []OnDemandType // sorted by pool
}

// Resolve finds what a job requests among the offers. What it does not find is reported as config.Faults, with the place in the job file.
// Catalog gives the on-demand types of a region, which need not have a spot price.
func Resolve(job *config.Job, offers []Offer, catalog *market.Catalog) (Resolved, error) {
	r := &resolver{job: job, offers: slices.Clone(offers), catalog: catalog}
	slices.SortFunc(r.offers, func(a, b Offer) int { return a.Pool.Compare(b.Pool) })
	if len(offers) == 0 {
		return Resolved{}, job.Fault("resources.any_of", "there are no prices of any machine in this market", "see what `tierml doctor` finds")
	}
	assumeType(job, r.offers)
	r.zones()
	r.pools()
	if len(r.faults) == 0 && !job.Restarts() && job.Reliable.Count > 0 {
		r.reliable()
	}
	r.capacity()
	if len(r.faults) > 0 {
		r.faults.Sort()
		return Resolved{}, r.faults
	}
	r.choice.Want = bidding.Want{Machines: job.Resources.Count.Most, VCPU: job.Resources.VCPU}
	return r.choice, nil
}

type resolver struct {
	job     *config.Job
	offers  []Offer
	catalog *market.Catalog
	choice  Resolved
	alike   float64 // the rate of all machines of a program, that of the first; 0 = none found yet
	faults  config.Faults
}

func (r *resolver) fault(field, problem, instead string) {
	r.faults = append(r.faults, r.job.Fault(field, problem, instead)...)
}

// names lists one property of the offers, without duplicates, in order.
func (r *resolver) names(of func(Offer) string) []string {
	var names []string
	for _, o := range r.offers {
		names = append(names, of(o))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func zoneOf(o Offer) string { return o.Pool.Zone }
func typeOf(o Offer) string { return o.Pool.Type }

// zones checks that the zones exist and drops the offers elsewhere.
func (r *resolver) zones() {
	wanted := r.job.Resources.Zones
	if len(wanted) == 0 {
		return
	}
	for i, zone := range wanted {
		if known := r.names(zoneOf); !slices.Contains(known, zone) {
			r.fault(fmt.Sprintf("resources.zones[%d]", i), zone+" has no prices in this market", "there are prices of "+some(known))
		}
	}
	r.offers = slices.DeleteFunc(r.offers, func(o Offer) bool { return !slices.Contains(wanted, o.Pool.Zone) })
}

// some lists names, but not too many.
func some(names []string) string {
	const most = 12
	if len(names) == 0 {
		return "nothing"
	}
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// Admits reports whether machines of a type will do.
func Admits(m config.Machine, t market.InstanceType) bool {
	if m.Type != "" {
		return m.Type == t.Name
	}
	return m.CPUs.Admits(t.VCPU) && m.Memory.Admits(t.MemoryMiB) && (m.Arch == "" || m.Arch == t.Arch) && m.GPU.Admits(t.GPU)
}

// highestPrice returns the maximum price of a machine of a type per hour; 0 = there is no limit.
func highestPrice(job *config.Job, t market.InstanceType) market.USD {
	for _, m := range job.Resources.AnyOf {
		if Admits(m, t) {
			return cmp.Or(m.MaxPrice, job.Resources.MaxPrice)
		}
	}
	return job.Resources.MaxPrice
}

// pools picks the offers that any_of admits; the first entry that admits a pool sets its highest price.
func (r *resolver) pools() {
	taken := map[market.Pool]bool{}
	for i, m := range r.job.Resources.AnyOf {
		found, used := false, false
		for _, o := range r.offers {
			if !Admits(m, o.Type) {
				continue
			}
			found = true
			if taken[o.Pool] {
				continue
			}
			if r.job.WantsGPUs() && o.Type.GPU.Count == 0 && m.Rate == 0 {
				r.fault(fmt.Sprintf("resources.any_of[%d].type", i), m.Type+" has no GPU that is known, and the job asks for some: their work cannot be compared",
					"write rate in every entry of any_of, or remove it")
				break
			}
			taken[o.Pool], used = true, true
			r.pool(o, cmp.Or(m.MaxPrice, r.job.Resources.MaxPrice), m.Rate)
		}
		if !found && len(r.offers) > 0 {
			r.noMachine(i, m)
		}
		if found && !used && (m.MaxPrice > 0 || m.Rate > 0) {
			r.fault(fmt.Sprintf("resources.any_of[%d]", i), "admits only machines that entries before it admit, so that its max_price and rate have no effect",
				"write it before them, or remove it")
		}
	}
	slices.SortFunc(r.choice.Pools, func(a, b bidding.Candidate) int { return a.Pool.Compare(b.Pool) })
	slices.SortFunc(r.choice.OnDemand, func(a, b OnDemandType) int { return a.Pool.Compare(b.Pool) })
}

// pool adds an offer, and the same machines on demand: where the job's limit allows it, they may be bought instead of spot machines.
func (r *resolver) pool(o Offer, limit market.USD, rate float64) {
	switch o.Type.Rate = rate; {
	case rate > 0:
	case r.job.WantsGPUs():
		o.Type.Rate = float64(o.Type.GPU.Count)
	default:
		full, _ := shapes.Complete(o.Type)
		o.Type.Rate = full.Rate // for burstable types, their rate at full speed
		if r.job.Run != "" && !slices.ContainsFunc(r.job.Resources.AnyOf, func(m config.Machine) bool { return m.Rate > 0 }) {
			if cores := r.job.Cores(); cores > 0 {
				o.Type.Rate = min(full.WorkRate(), cores)
				break
			}
			r.alike = cmp.Or(r.alike, full.WorkRate()) // nobody knows how many vCPUs a program uses
			o.Type.Rate = r.alike
		}
	}
	onDemand := o.Pool
	onDemand.Class = market.OnDemand
	r.choice.OnDemand = append(r.choice.OnDemand, OnDemandType{Pool: onDemand, Type: o.Type})
	r.choice.Pools = append(r.choice.Pools, bidding.Candidate{
		Pool: o.Pool, Type: o.Type, History: o.History, MaxPrice: limit, Hints: o.Hints,
	})
	if o.Type.OnDemand > 0 && (limit == 0 || o.Type.OnDemand <= limit) {
		r.choice.Pools = append(r.choice.Pools, bidding.Candidate{
			Pool: onDemand, Type: o.Type, History: market.Constant(o.Type.OnDemand), MaxPrice: limit,
		})
	}
}

func (r *resolver) noMachine(i int, m config.Machine) {
	field := fmt.Sprintf("resources.any_of[%d]", i)
	if m.Type != "" {
		r.fault(field+".type", m.Type+" has no prices in this market", "there are prices of "+some(r.names(typeOf)))
		return
	}
	if m.GPU.Count > 0 {
		r.noGPU(field, m)
		return
	}
	r.fault(field, "no machine on sale meets this need", r.orMore(m)+"on sale are "+some(r.names(func(o Offer) string {
		return fmt.Sprintf("%s (cpus: %d, memory: %s, arch: %s)", o.Type.Name, o.Type.VCPU, config.Memory{MiB: o.Type.MemoryMiB}, o.Type.Arch)
	})))
}

// orMore advises to admit larger machines if there are any; else it is empty.
func (r *resolver) orMore(m config.Machine) string {
	more := m
	more.CPUs.OrMore, more.Memory.OrMore = true, true
	if !slices.ContainsFunc(r.offers, func(o Offer) bool { return Admits(more, o.Type) }) {
		return ""
	}
	var needs []string
	if m.CPUs.Count > 0 {
		needs = append(needs, "cpus: "+more.CPUs.String())
	}
	if m.Memory.MiB > 0 {
		needs = append(needs, "memory: "+more.Memory.String())
	}
	return "write " + strings.Join(needs, ", ") + " for larger machines, too; "
}

// noGPU reports that no machine has the requested GPUs, with a list of the GPUs on offer.
func (r *resolver) noGPU(field string, m config.Machine) {
	var with []string
	for _, o := range r.offers {
		if g := o.Type.GPU; g.Count > 0 {
			with = append(with, fmt.Sprintf("%s (%s, %.0f GB each)", o.Type.Name, g, gigabytes(g)))
		}
	}
	slices.Sort(with)
	with = slices.Compact(with)
	instead := "none of them has a GPU that is known: write zones and prices of machines that have some"
	if len(with) > 0 {
		instead = "on sale with GPUs are " + some(with)
	}
	r.fault(field, fmt.Sprintf("no machine on sale has gpu: %s and meets the rest of this need (%d types in %s were looked at)", m.GPU,
		len(r.names(typeOf)), some(r.names(zoneOf))), instead)
}

// gigabytes returns a GPU's memory as its vendor states it: for some in powers of 2, for others in powers of 10.
func gigabytes(g market.GPU) float64 {
	if g.MemoryMiB%1024 == 0 {
		return float64(g.MemoryMiB / 1024)
	}
	return float64(g.MemoryMiB) * (1 << 20) / 1e9
}

// GPUs says which GPUs the machines of a choice have: "p3.2xlarge has V100:1 (17 GB each)".
func (r Resolved) GPUs() string {
	var with []string
	for _, p := range r.Pools {
		if g := p.Type.GPU; g.Count > 0 {
			with = append(with, fmt.Sprintf("%s has %s (%.0f GB each)", p.Type.Name, g, gigabytes(g)))
		}
	}
	slices.Sort(with)
	return some(slices.Compact(with))
}

// reliable picks the machines that stay: the named type, or the cheapest on-demand type of the pools picked.
func (r *resolver) reliable() {
	want := r.job.Reliable
	zone, region := want.Zone, r.choice.Pools[0].Pool.Region
	if zone == "" {
		zone = r.choice.Pools[0].Pool.Zone
	}
	for _, o := range r.offers {
		if o.Pool.Zone == zone {
			region = o.Pool.Region
		}
	}
	if !slices.Contains(r.names(zoneOf), zone) {
		r.fault("reliable.zone", zone+" has no prices in this market", "there are prices of "+some(r.names(zoneOf)))
		return
	}
	t, ok := r.catalog.Lookup(region, want.Type)
	if want.Auto() { // until SizeReliable knows its needs
		t, ok = r.cheapest()
	}
	if !ok {
		r.fault("reliable.type", fmt.Sprintf("%s is not in the catalog of %s", want.Type, region),
			"write a type that is, such as "+r.choice.Pools[0].Type.Name)
		return
	}
	if want.Committed > 0 && slices.ContainsFunc(r.choice.OnDemand, func(o OnDemandType) bool { return o.Type.Name == t.Name }) {
		r.fault("reliable.committed", "workers may be "+t.Name+" on demand, too, and which of them the commitment would pay for is open",
			"take "+t.Name+" out of resources.any_of, or remove the line")
	}
	for _, o := range r.choice.OnDemand { // a declared rate applies to the type, whatever its machines are used for
		if o.Type.Name == t.Name && o.Type.Rate > 0 {
			t.Rate = o.Type.Rate
		}
	}
	if t, _ = shapes.Complete(t); want.Bandwidth > 0 {
		t.Bandwidth = float64(want.Bandwidth)
	}
	pool := r.choice.Pools[0].Pool
	pool.Region, pool.Zone, pool.Type, pool.Class = region, zone, t.Name, market.OnDemand
	r.choice.Reliable = Fleet{Pool: pool, Type: t, Count: want.Count}
}

func (r *resolver) cheapest() (market.InstanceType, bool) {
	types := r.choice.OnDemand
	best := slices.MinFunc(types, func(a, b OnDemandType) int {
		return cmp.Or(cmp.Compare(a.Type.OnDemand, b.Type.OnDemand), a.Pool.Compare(b.Pool))
	})
	return best.Type, true
}

// capacity returns the limits of the fake cloud's pools.
func (r *resolver) capacity() {
	r.choice.Capacity = map[market.Pool]int{}
	for _, name := range slices.Sorted(maps.Keys(r.job.Local.Capacity)) {
		found := false
		for _, o := range r.offers {
			if o.Type.Name == name {
				r.choice.Capacity[o.Pool], found = r.job.Local.Capacity[name], true
			}
		}
		if !found && len(r.offers) > 0 {
			r.fault("local.capacity."+name, name+" has no prices in this market", "there are prices of "+some(r.names(typeOf)))
		}
	}
}
