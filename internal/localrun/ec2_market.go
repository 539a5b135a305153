package localrun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/internal/planner/local"
	"github.com/tierml/tierml/internal/pricelist"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/ec2"
)

// EC2Account is EC2 as far as a plan asks it.
type EC2Account interface {
	TypesFor(context.Context, ec2.Need) ([]string, error)
	PriceHistory(context.Context, ec2.PriceQuery, func(prices int)) (map[market.Pool][]market.PricePoint, error)
	OnDemand(ctx context.Context, names ...string) (found []market.InstanceType, missing []string, err error)
	Zones(context.Context) ([]ec2.Zone, error)
	Quota(ctx context.Context, endpoint, code string) (float64, error)
	PlacementScores(ctx context.Context, machines int, names ...string) (zones []ec2.Zone, all bool, err error)
}

// EC2Market is what EC2 sells to a job: spot prices of its last 90 days, and on-demand prices of the job's own catalog, or else
// of the AWS Price List, which are kept for a day in a folder.
func EC2Market(ctx context.Context, job *config.Job, account EC2Account, folder string) (*local.Market, error) {
	if job.EC2.Endpoint != "" {
		folder = "" // what is there may sell at other prices than EC2
	}
	m := &local.Market{}
	if job.EC2.Catalog != "" { // before anybody is asked
		if err := givenCatalog(m, job, "ec2.catalog", job.EC2.Catalog); err != nil {
			return nil, err
		}
	}
	query, err := priceQuery(ctx, account, job)
	if err != nil {
		return nil, err
	}
	if m.Catalog == nil {
		if err := listedCatalog(ctx, m, job, query, EC2Book(account, job.EC2.Region, folder)); err != nil {
			return nil, err
		}
	}
	prices, err := account.PriceHistory(ctx, query, func(int) {})
	if err != nil {
		return nil, err
	}
	if len(prices) == 0 {
		return nil, job.Fault("resources.any_of", "EC2 knows no spot prices of these types in "+job.EC2.Region, "write types and zones that it sells")
	}
	m.Trace = &trace.Trace{Markets: trace.Of(prices)}
	m.Sources = append([]string{fmt.Sprintf("Spot prices: EC2 in %s, asked now; %d pools, since %s.", job.EC2.Region, len(prices), query.Since.UTC().Format("2006-01-02"))}, m.Sources...)
	if err := advised(ctx, m, job, folder); err != nil {
		return nil, err
	}
	placed(ctx, m, job, account)
	ec2Limits(ctx, m, job, account)
	return m, nil
}

// givenCatalog reads the job's own list of types.
func givenCatalog(m *local.Market, job *config.Job, field, path string) (err error) {
	if m.Catalog, err = local.ReadCatalog(path); err != nil {
		return job.Fault(field, fmt.Sprintf("%s: %v", path, err),
			"name a CSV file with the columns region, instance_type, vcpu, memory_gib, linux_ondemand_usd_hour, or leave it out: the provider's price list is asked then")
	}
	source := "On-demand prices: " + path
	if info, err := os.Stat(path); err == nil {
		source += ", a file of " + info.ModTime().UTC().Format("2006-01-02")
	}
	m.Sources = append(m.Sources, source+".")
	return nil
}

// EC2Book is the AWS Price List of a region.
func EC2Book(account EC2Account, region, folder string) *pricelist.Book {
	return &pricelist.Book{Name: "AWS Price List", Provider: ec2.Provider, Region: region, Folder: folder,
		Ask: func(ctx context.Context, names []string) ([]pricelist.Offer, error) {
			types, _, err := account.OnDemand(ctx, names...)
			offers := make([]pricelist.Offer, 0, len(types))
			for _, t := range types {
				offers = append(offers, pricelist.Offer{InstanceType: t})
			}
			return offers, err
		}}
}

// listedCatalog asks the price list for what the job may buy.
func listedCatalog(ctx context.Context, m *local.Market, job *config.Job, q ec2.PriceQuery, book *pricelist.Book) error {
	names := q.Types
	if kind := job.Reliable.Type; kind != "" && len(names) > 0 && !slices.Contains(names, kind) {
		names = append(slices.Clone(names), kind)
	}
	const instead = "give on-demand prices with ec2.catalog: a CSV file with the columns region, instance_type, vcpu, memory_gib, linux_ondemand_usd_hour"
	answer, err := book.Look(ctx, names, job.Local.Start)
	if err != nil {
		return fmt.Errorf("%w\nOr %s", err, instead)
	}
	m.Catalog = answer.Catalog()
	for _, kind := range append(namedTypes(job), job.Reliable.Type) {
		if _, priced := m.Catalog.Lookup(book.Region, kind); kind != "" && !priced {
			return job.Fault("resources.any_of", fmt.Sprintf("the %s has no on-demand price of %s in %s", book.Name, kind, book.Region), "write types that are sold there, or "+instead)
		}
	}
	m.Sources = append(m.Sources, "On-demand prices: "+answer.Source(job.Local.Start)+".")
	if answer.Lost != nil {
		m.Sources = append(m.Sources, "They will be asked for again next time: "+answer.Lost.Error()+".")
	}
	return nil
}

// namedTypes are the types that a job names.
func namedTypes(job *config.Job) (names []string) {
	for _, m := range job.Resources.AnyOf {
		if m.Type != "" {
			names = append(names, m.Type)
		}
	}
	return names
}

// manyTypes is from when on the prices of all types are asked for, in place of so many by name.
const manyTypes = 100

// priceQuery asks for what the job may buy, as far back as EC2 remembers.
func priceQuery(ctx context.Context, cloud EC2Account, job *config.Job) (ec2.PriceQuery, error) {
	q := ec2.PriceQuery{Zones: job.Resources.Zones, Since: job.Local.Start.Add(-90 * 24 * time.Hour)}
	if len(q.Zones) == 0 {
		q.Zones = slices.Sorted(maps.Keys(job.EC2.Subnets))
	}
	for _, m := range job.Resources.AnyOf {
		if m.Type != "" {
			q.Types = append(q.Types, m.Type)
			continue
		}
		names, err := cloud.TypesFor(ctx, needOf(m))
		switch {
		case errors.Is(err, provisioner.ErrDenied): // the role is of before: all types' prices are asked for
			q.Types = nil
			return q, nil
		case err != nil:
			return q, err
		case len(names) == 0:
			return q, job.Fault("resources.any_of", "EC2 has no type that meets a need of this job in "+job.EC2.Region, "ask for less, or name a type")
		}
		q.Types = append(q.Types, names...)
	}
	slices.Sort(q.Types)
	if q.Types = slices.Compact(q.Types); len(q.Types) > manyTypes {
		q.Types = nil
	}
	return q, nil
}

// needOf is a need in EC2's terms.
func needOf(m config.Machine) ec2.Need {
	n := ec2.Need{MinVCPU: m.CPUs.Count, MinMemory: m.Memory.MiB, Arch: m.Arch}
	if !m.CPUs.OrMore {
		n.MaxVCPU = m.CPUs.Count
	}
	if !m.Memory.OrMore {
		n.MaxMemory = m.Memory.MiB
	}
	return n
}
