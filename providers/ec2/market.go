package ec2

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/shapes"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/planner/pricelist"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
)

// marketAPI is the part of EC2 that a plan queries.
type marketAPI interface {
	TypesFor(context.Context, api.Need) ([]string, error)
	Types(ctx context.Context, names ...string) ([]market.InstanceType, error)
	PriceHistory(context.Context, api.PriceQuery, func(prices int)) (map[market.Pool][]market.PricePoint, error)
	OnDemand(ctx context.Context, names ...string) (found []market.InstanceType, missing []string, err error)
	Zones(context.Context) ([]api.Zone, error)
	Quota(ctx context.Context, endpoint, code string) (float64, error)
	Subnets(context.Context) ([]api.Subnet, error)
	PlacementScores(ctx context.Context, machines int, names ...string) (zones []api.Zone, all bool, err error)
}

// soldTo returns what EC2 sells to a job: spot prices of the last 90 days, and on-demand prices from the job's own catalog or else from the
// AWS Price List, which are cached in a folder for a day.
func soldTo(ctx context.Context, job *config.Job, account marketAPI, folder string) (*local.Market, error) {
	if blockOf(job).Endpoint != "" {
		folder = "" // an emulator may have prices other than EC2's
	}
	m := &local.Market{}
	if blockOf(job).Catalog != "" { // before any query
		if err := providers.ReadCatalog(m, job); err != nil {
			return nil, err
		}
	}
	gpus, err := gpuTypes(ctx, account, job)
	if err != nil {
		return nil, err
	}
	query, err := priceQuery(ctx, account, job, gpus)
	if err != nil {
		return nil, err
	}
	if m.Catalog == nil {
		if err := listCatalog(ctx, m, job, query.Types, book(account, blockOf(job).Region, folder)); err != nil {
			return nil, err
		}
	}
	m.Catalog = m.Catalog.WithGPUs(func(name string) market.GPU { return gpus[name].GPU })
	prices, err := account.PriceHistory(ctx, query, func(int) {})
	if err != nil {
		return nil, err
	}
	if len(prices) == 0 {
		return nil, job.Fault("resources.any_of", "EC2 knows no spot prices of these types in "+blockOf(job).Region, "write types and zones that it sells")
	}
	m.Trace = &trace.Trace{Markets: trace.Of(prices)}
	m.Sources = append([]string{fmt.Sprintf("Spot prices: EC2 in %s, asked now; %d pools, since %s.", blockOf(job).Region, len(prices), query.Since.UTC().Format("2006-01-02"))}, m.Sources...)
	if err := advised(ctx, m, job, folder); err != nil {
		return nil, err
	}
	billed(ctx, m, job, account)
	placed(ctx, m, job, account)
	warnOfQuotas(ctx, m, job, account)
	return m, nil
}

// book returns the AWS Price List of a region.
func book(account marketAPI, region, folder string) *pricelist.Book {
	return &pricelist.Book{Name: "AWS Price List", Provider: Name, Region: region, Folder: folder,
		Ask: func(ctx context.Context, names []string) ([]pricelist.Offer, error) {
			types, _, err := account.OnDemand(ctx, names...)
			offers := make([]pricelist.Offer, 0, len(types))
			for _, t := range types {
				offers = append(offers, pricelist.Offer{InstanceType: t})
			}
			return offers, err
		}}
}

// listCatalog queries the price list for what the job may buy.
func listCatalog(ctx context.Context, m *local.Market, job *config.Job, names []string, book *pricelist.Book) error {
	if kind := job.Reliable.Type; kind != "" && len(names) > 0 && !slices.Contains(names, kind) {
		names = append(slices.Clone(names), kind)
	}
	if job.IsHosts() { // slots may be of any type
		names = nil
	}
	unpriced := func(kind string) (problem, instead string) {
		return fmt.Sprintf("the %s has no on-demand price of %s in %s", book.Name, kind, book.Region), "write types that are sold there"
	}
	if small := smallTypes(job, names); len(small) > 0 {
		_, err := providers.AskCatalog(ctx, m, job, append(slices.Clone(names), small...), book, unpriced)
		if !errors.Is(err, provisioner.ErrInvalid) {
			return err
		}
		m.Sources = append(m.Sources, "The region does not sell all small types that the reliable tier could be of: it is chosen among the job's own.")
	}
	_, err := providers.AskCatalog(ctx, m, job, names, book, unpriced)
	return err
}

// smallTypes returns those whose prices are requested in addition to the job's own where the plan chooses the types of the reliable tier.
func smallTypes(job *config.Job, names []string) []string {
	if !planner.SizesReliable(job) || len(names) == 0 {
		return nil
	}
	var archs []string
	for _, name := range names {
		archs = append(archs, market.ArchOf(name))
	}
	return slices.DeleteFunc(shapes.ReliableTypes(archs...), func(name string) bool { return slices.Contains(names, name) })
}

// manyTypes is the number of types from which the prices of all types are requested, rather than of some by name.
const manyTypes = 100

// gpuTypes returns the names of the region's types with GPUs, for a job that requests some.
func gpuTypes(ctx context.Context, cloud interface {
	Types(ctx context.Context, names ...string) ([]market.InstanceType, error)
}, job *config.Job) (map[string]market.InstanceType, error) {
	if !job.WantsGPUs() {
		return nil, nil
	}
	all, err := cloud.Types(ctx)
	if err != nil {
		return nil, err
	}
	with := map[string]market.InstanceType{}
	for _, t := range all {
		if t.GPU.Name = shapes.GPUModel(t.GPU.Name); t.GPU.Count > 0 {
			with[t.Name] = t
		}
	}
	return with, nil
}

// named returns the types that meet a GPU requirement, sorted.
func named(m config.Machine, gpus map[string]market.InstanceType) (names []string) {
	for name, t := range gpus {
		if planner.Admits(m, t) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// noGPU says that no type of the region meets a GPU requirement, and lists those with GPUs.
func noGPU(job *config.Job, i int, gpus map[string]market.InstanceType) error {
	var with []string
	for _, name := range slices.Sorted(maps.Keys(gpus)) {
		with = append(with, name+" ("+gpus[name].GPU.String()+")")
	}
	instead := "choose another region"
	if len(with) > 0 {
		instead = "it has " + strings.Join(with, ", ")
	}
	return job.Fault(fmt.Sprintf("resources.any_of[%d]", i), fmt.Sprintf("EC2 has no type in %s with gpu: %s that meets the rest of this need (%d types with GPUs were looked at)",
		blockOf(job).Region, job.Resources.AnyOf[i].GPU, len(gpus)), instead)
}

// priceQuery requests prices of what the job may buy, as far back as EC2 remembers.
func priceQuery(ctx context.Context, cloud marketAPI, job *config.Job, gpus map[string]market.InstanceType) (api.PriceQuery, error) {
	q := api.PriceQuery{Zones: job.Resources.Zones, Since: job.Local.Start.Add(-90 * 24 * time.Hour)}
	if len(q.Zones) == 0 {
		q.Zones = slices.Sorted(maps.Keys(blockOf(job).Subnets))
	}
	for i, m := range job.Resources.AnyOf {
		if m.Type != "" {
			q.Types = append(q.Types, m.Type)
			continue
		}
		if m.GPU.Count > 0 {
			names := named(m, gpus)
			if len(names) == 0 {
				return q, noGPU(job, i, gpus)
			}
			q.Types = append(q.Types, names...)
			continue
		}
		names, err := cloud.TypesFor(ctx, needOf(m))
		switch {
		case errors.Is(err, provisioner.ErrDenied): // an old role: the prices of all types are requested
			q.Types = nil
			return q, nil
		case err != nil:
			return q, err
		case len(names) == 0:
			return q, job.Fault("resources.any_of", "EC2 has no type that meets a need of this job in "+blockOf(job).Region, "ask for less, or name a type")
		}
		q.Types = append(q.Types, names...)
	}
	slices.Sort(q.Types)
	if q.Types = slices.Compact(q.Types); len(q.Types) > manyTypes {
		q.Types = nil
	}
	return q, nil
}

// needOf returns a need in EC2's terms.
func needOf(m config.Machine) api.Need {
	n := api.Need{MinVCPU: m.CPUs.Count, MinMemory: m.Memory.MiB, Arch: m.Arch}
	if !m.CPUs.OrMore {
		n.MaxVCPU = m.CPUs.Count
	}
	if !m.Memory.OrMore {
		n.MaxMemory = m.Memory.MiB
	}
	return n
}
