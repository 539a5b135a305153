package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/shapes"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/kube/api"
	"github.com/tierml/tierml/provisioner"
)

// marketAPI is what a plan needs from a cluster.
type marketAPI interface {
	Nodes(context.Context) ([]api.Node, error)
}

// lookBack is how long constant prices are assumed to have applied.
const lookBack = 90 * 24 * time.Hour

// soldTo returns what a cluster sells to a job: pods of one size, on the node types that the job names or the cluster
// has. A pod's price is the job file's, or else its share of its node's. A type without a price is not offered; Sources
// names it.
func soldTo(ctx context.Context, job *config.Job, cluster marketAPI) (*local.Market, error) {
	b, m := blockOf(job), &local.Market{}
	nodes, err := cluster.Nodes(ctx)
	if errors.Is(err, provisioner.ErrDenied) {
		m.Sources = append(m.Sources, "Nodes: unknown; "+providers.FirstLine(err)+".")
	} else if err != nil {
		return nil, err
	}
	if b.Catalog != "" {
		if err := providers.ReadCatalog(m, job); err != nil {
			return nil, err
		}
	}
	var spots *trace.Trace
	if b.Prices != "" {
		if spots, err = local.ReadPricesOf(b.Prices, b.PricesOf); err != nil {
			return nil, job.Fault(Name+".prices", fmt.Sprintf("%s: %v", b.Prices, err), "name spot prices as in docs/prices.md")
		}
		m.Sources = append(m.Sources, "Spot prices: "+b.Prices+".")
	}
	zones := zonesOf(job, nodes)
	var types []market.InstanceType
	points, unknown := map[market.Pool][]market.PricePoint{}, []string{}
	for _, name := range typesOf(job, nodes, m.Catalog) {
		t, share := b.offer(name, nodes, m.Catalog)
		if share > 1 {
			m.Sources = append(m.Sources, "Types: a pod is more than a node of type "+name+"; not used.")
			continue
		}
		if t.OnDemand == 0 {
			unknown = append(unknown, name)
			continue
		}
		types = append(types, t)
		for _, zone := range zones {
			pool := market.Pool{Provider: Name, Region: b.Region, Zone: zone, Type: name, Class: market.Spot}
			if p := b.spotPrices(job, spots, pool, share); len(p) > 0 {
				points[pool] = p
			} else {
				unknown = append(unknown, "spot "+name+" in "+zone)
			}
		}
	}
	if len(points) == 0 {
		return nil, job.Fault("resources.any_of", "no price of a pod is known"+whichOf(unknown),
			"write what an hour of a pod costs, spot: $0.02 and on_demand: $0.08 below kubernetes:, or name catalog and prices of the nodes")
	}
	if len(unknown) > 0 {
		m.Sources = append(m.Sources, "Prices: unknown of "+strings.Join(unknown, ", ")+"; not used.")
	}
	if b.Spot > 0 || b.OnDemand > 0 {
		m.Sources = append(m.Sources, "Prices of pods: the job file.")
	}
	m.Catalog, m.Trace = market.NewCatalog(b.Region, types), &trace.Trace{Markets: trace.Of(points)}
	return m, nil
}

// whichOf names types without a price.
func whichOf(unknown []string) string {
	if len(unknown) == 0 {
		return ": the cluster has no nodes, and the job names no types"
	}
	return " on " + strings.Join(unknown, ", ")
}

// offer returns a pod on nodes of a type, and its share of the node: of vCPUs, memory or an extended
// resource, whichever is largest; 0 = unknown.
func (b *Block) offer(name string, nodes []api.Node, catalog *market.Catalog) (t market.InstanceType, share float64) {
	t = market.InstanceType{Name: name, Arch: market.ArchX86, VCPU: b.CPU, MemoryMiB: b.Memory.MiB, OnDemand: b.OnDemand}
	whole, has := market.InstanceType{}, map[string]int64{}
	if catalog != nil {
		whole, _ = catalog.Lookup(b.Region, name)
	}
	for _, n := range nodes {
		if n.Type != name {
			continue
		}
		t.Arch = n.Arch
		if model := modelOf(n.GPU); model != "" {
			whole.GPU.Name, whole.GPU.MemoryMiB = model, n.GPUMemoryMiB
		}
		for name, n := range n.Extended {
			has[name] = max(has[name], n)
		}
		if whole.VCPU == 0 {
			whole.VCPU = n.VCPU
		}
		if whole.MemoryMiB == 0 {
			whole.MemoryMiB = n.MemoryMiB
		}
	}
	if whole.Arch != "" {
		t.Arch = whole.Arch
	}
	if whole.VCPU > 0 {
		share = float64(b.CPU) / float64(whole.VCPU)
	}
	if whole.MemoryMiB > 0 && share > 0 {
		share = max(share, float64(b.Memory.MiB)/float64(whole.MemoryMiB))
	}
	if known := shapes.GPUOf(name); known.Count > 0 {
		whole.GPU = known
	}
	if has[gpus] == 0 {
		has[gpus] = int64(whole.GPU.Count)
	}
	for name, n := range b.Resources { // any order: the largest counts
		if has[name] > 0 && share > 0 {
			share = max(share, float64(n)/float64(has[name]))
		}
	}
	if t.GPU.Count = b.Resources[gpus]; t.GPU.Count > 0 {
		t.GPU.Name, t.GPU.MemoryMiB = whole.GPU.Name, whole.GPU.MemoryMiB
	}
	if t.OnDemand == 0 {
		t.OnDemand = part(whole.OnDemand, share)
	}
	return t, share
}

// modelOf returns a GPU's model as job files name it, from a node's label such as NVIDIA-L40S or nvidia-tesla-t4; empty = unknown.
func modelOf(label string) (model string) {
	label = "-" + strings.ToUpper(label) + "-"
	for _, known := range shapes.GPUModels() {
		if strings.Contains(label, "-"+strings.ToUpper(known)+"-") && len(known) > len(model) {
			model = known
		}
	}
	return model
}

// part returns a share of a price, rounded up.
func part(price market.USD, share float64) market.USD {
	return market.USD(math.Ceil(float64(price) * share))
}

// spotPrices returns the prices of a pod on spot nodes.
func (b *Block) spotPrices(job *config.Job, spots *trace.Trace, pool market.Pool, share float64) (points []market.PricePoint) {
	if b.Spot > 0 {
		return []market.PricePoint{{At: job.Local.Start.Add(-lookBack), Price: b.Spot}}
	}
	if spots == nil || share == 0 {
		return nil
	}
	for _, m := range spots.Markets {
		if m.Pool.Zone != pool.Zone && m.Pool.Zone != b.Region || m.Pool.Type != pool.Type {
			continue
		}
		first, _ := m.History.First()
		last, _ := m.History.Last()
		points = append(points, first)
		points = append(points, m.History.Points(first.At, last.At.Add(time.Nanosecond))...)
	}
	slices.SortStableFunc(points, func(a, b market.PricePoint) int { return a.At.Compare(b.At) })
	points = slices.CompactFunc(points, func(a, b market.PricePoint) bool { return a.At.Equal(b.At) })
	for i := range points {
		points[i].Price = part(points[i].Price, share)
	}
	return points
}

// typesOf returns suitable node types, sorted: those that the job names, or all.
func typesOf(job *config.Job, nodes []api.Node, catalog *market.Catalog) []string {
	names := map[string]bool{}
	for _, name := range append(providers.NamedTypes(job), job.Reliable.Type) {
		names[name] = name != ""
	}
	if len(providers.NamedTypes(job)) < len(job.Resources.AnyOf) { // the job specifies sizes
		for _, n := range nodes {
			names[n.Type] = true
		}
		if blockOf(job).Nodes == string(api.Plain) && len(nodes) == 0 {
			names[api.AnyType] = true
		}
		if catalog != nil && len(nodes) == 0 {
			for _, t := range catalog.Types(blockOf(job).Region) {
				names[t.Name] = true
			}
		}
	}
	maps.DeleteFunc(names, func(_ string, wanted bool) bool { return !wanted })
	return slices.Sorted(maps.Keys(names))
}

// zonesOf returns the zones that the job names, or the nodes' zones.
func zonesOf(job *config.Job, nodes []api.Node) []string {
	if len(job.Resources.Zones) > 0 {
		return job.Resources.Zones
	}
	zones := map[string]bool{}
	for _, n := range nodes {
		zones[n.Zone] = true
	}
	if len(zones) == 0 {
		zones[api.AnyZone] = true
	}
	return slices.Sorted(maps.Keys(zones))
}
