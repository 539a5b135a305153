package localrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/internal/planner"
	"github.com/tierml/tierml/internal/planner/local"
	"github.com/tierml/tierml/internal/pricelist"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/gceprice"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/provisioner"
)

// GCEMarket is what Compute Engine sells to a job: on-demand prices of the job's own catalog, or else of Google's price list, which
// is kept for a day in a folder; Spot prices of the job's own list, or what its API tells, or else of the price list, too.
func GCEMarket(ctx context.Context, job *config.Job, account GCEAccount, folder string) (*local.Market, error) {
	if job.GCE.Endpoint != "" {
		folder = "" // what is there may sell at other prices than Google
	}
	m := &local.Market{}
	zones, err := job.Resources.Zones, error(nil)
	if job.GCE.Catalog != "" { // before anybody is asked
		if err := givenCatalog(m, job, "gce.catalog", job.GCE.Catalog); err != nil {
			return nil, err
		}
	}
	if len(zones) == 0 {
		if zones, err = account.Zones(ctx); err != nil {
			return nil, err
		}
	}
	var listed *pricelist.Answer
	if m.Catalog == nil {
		if listed, err = gceCatalog(ctx, m, job, GCEBook(account, job.GCE.Region, zones, folder)); err != nil {
			return nil, err
		}
	}
	source := "Compute Engine's capacity history, asked now"
	if job.GCE.Prices != "" {
		source = job.GCE.Prices
		m.Trace, err = gceList(job, zones)
	} else if m.Trace, err = gceHistory(ctx, job, account, m.Catalog, zones); errors.Is(err, provisioner.ErrDenied) && listed != nil {
		source = fmt.Sprintf("the same list, of the whole region, as the capacity history may not be asked (%s)", firstLine(err))
		m.Trace, err = gceListed(job, listed, zones)
	}
	if err != nil {
		return nil, err
	}
	m.Sources = append(m.Sources, "Spot prices: "+source+".")
	forecast(ctx, m, job, account)
	gceLimits(ctx, m, job, account)
	return m, nil
}

// GCEBook is Google's price list of a region, for the machine types that some of its zones have.
func GCEBook(account GCEAccount, region string, zones []string, folder string) *pricelist.Book {
	return &pricelist.Book{Name: "Cloud Billing Catalog", Provider: config.ProviderGCE, Region: region, Folder: folder,
		Ask: func(ctx context.Context, _ []string) ([]pricelist.Offer, error) { // it comes as a whole
			var pages bytes.Buffer
			if err := account.PriceList(ctx, func(skus []byte) (bool, error) { pages.Write(skus); return true, nil }); err != nil {
				return nil, err
			}
			list, err := gceprice.Read(&pages)
			if err != nil {
				return nil, err
			}
			offers := map[string]pricelist.Offer{}
			for _, zone := range zones {
				types, err := account.Types(ctx, zone)
				if err != nil {
					return nil, err
				}
				for _, t := range types {
					if o, ok := list.Offer(region, t); ok {
						offers[t.Name] = pricelist.Offer{InstanceType: o.Type, Spot: o.Spot, SpotFrom: o.SpotFrom}
					}
				}
			}
			return slices.Collect(maps.Values(offers)), nil
		}}
}

// gceCatalog asks the price list for what the region sells.
func gceCatalog(ctx context.Context, m *local.Market, job *config.Job, book *pricelist.Book) (*pricelist.Answer, error) {
	const instead = "give on-demand prices with gce.catalog: a CSV file with the columns region, instance_type, vcpu, memory_gib, linux_ondemand_usd_hour"
	answer, err := book.Look(ctx, nil, job.Local.Start)
	if err != nil {
		return nil, fmt.Errorf("%w\nOr %s", err, instead)
	}
	m.Catalog = answer.Catalog()
	for _, kind := range append(namedTypes(job), job.Reliable.Type) {
		if _, priced := m.Catalog.Lookup(book.Region, kind); kind != "" && !priced {
			return nil, job.Fault("resources.any_of", fmt.Sprintf("no price of %s in %s can be made of Google's price list: there is no such type in the job's zones, or it is not sold by cores and memory alone",
				kind, book.Region), "write types such as n2-standard-4 that are sold there, or "+instead)
		}
	}
	m.Sources = append(m.Sources, "On-demand prices: "+answer.Source(job.Local.Start)+".")
	if answer.Lost != nil {
		m.Sources = append(m.Sources, "They will be asked for again next time: "+answer.Lost.Error()+".")
	}
	return answer, nil
}

// gceListed returns the price list's Spot prices, in every zone.
func gceListed(job *config.Job, listed *pricelist.Answer, zones []string) (*trace.Trace, error) {
	points := map[market.Pool][]market.PricePoint{}
	for _, o := range listed.Offers {
		if o.Spot == 0 || !slices.ContainsFunc(job.Resources.AnyOf, func(m config.Machine) bool { return planner.Admits(m, o.InstanceType) }) {
			continue
		}
		for _, zone := range zones {
			pool := market.Pool{Provider: config.ProviderGCE, Region: job.GCE.Region, Zone: zone, Type: o.Name, Class: market.Spot}
			points[pool] = []market.PricePoint{{At: o.SpotFrom, Price: o.Spot}}
		}
	}
	if len(points) == 0 {
		return nil, job.Fault("resources.any_of", "Google's price list has no Spot prices of these types in "+job.GCE.Region, "write types that it sells there, or name Spot prices with gce.prices")
	}
	return &trace.Trace{Markets: trace.Of(points)}, nil
}

// gceList reads the job's own prices. Those of a whole region, which a price list has, hold in each of its zones.
func gceList(job *config.Job, zones []string) (*trace.Trace, error) {
	read, err := local.ReadPricesOf(job.GCE.Prices, config.ProviderGCE)
	if err != nil {
		return nil, job.Fault("gce.prices", fmt.Sprintf("%s: %v", job.GCE.Prices, err),
			"name Spot prices: a price store that `tierml prices import skus.json` has filled, or CSV with the columns timestamp, zone, instance_type, product, price")
	}
	t := &trace.Trace{}
	for _, m := range read.Markets {
		switch {
		case m.Pool.Region != job.GCE.Region:
		case m.Pool.Zone == m.Pool.Region:
			for _, zone := range zones {
				here := m.Pool
				here.Zone = zone
				t.Markets = append(t.Markets, trace.Market{Pool: here, History: m.History})
			}
		default:
			t.Markets = append(t.Markets, m)
		}
	}
	if len(t.Markets) == 0 {
		return nil, job.Fault("gce.prices", job.GCE.Prices+" has no Spot prices in "+job.GCE.Region, "write prices of that region, or another region")
	}
	return trace.New(t.Markets, read.Summary), nil
}

// gceHistory asks the API what the Spot prices of the types that will do were.
func gceHistory(ctx context.Context, job *config.Job, account GCEAccount, catalog *market.Catalog, zones []string) (*trace.Trace, error) {
	var pools []market.Pool
	for _, kind := range catalog.Types(job.GCE.Region) {
		if !slices.ContainsFunc(job.Resources.AnyOf, func(m config.Machine) bool { return planner.Admits(m, kind) }) {
			continue
		}
		for _, zone := range zones {
			pools = append(pools, market.Pool{Provider: config.ProviderGCE, Region: job.GCE.Region, Zone: zone, Type: kind.Name, Class: market.Spot})
		}
	}
	const instead = "name Spot prices with gce.prices: `tierml prices import skus.json --store prices.db` makes them of Google's price list"
	prices, err := account.SpotPrices(ctx, pools, job.Local.Start.Add(-lookBack), job.Local.Start)
	if errors.Is(err, provisioner.ErrDenied) {
		return nil, fmt.Errorf("%w\nOr %s", err, instead)
	}
	if err != nil {
		return nil, err
	}
	t := &trace.Trace{}
	for _, p := range pools {
		if points := prices[p]; len(points) > 0 {
			t.Markets = append(t.Markets, trace.Market{Pool: p, History: market.NewHistory(points)})
		}
	}
	if len(t.Markets) == 0 {
		return nil, job.Fault("resources.any_of", "Compute Engine tells no Spot prices of these types in "+strings.Join(zones, ", "),
			"write types that it sells there and the catalog has, or "+instead)
	}
	return t, nil
}

// TryGCE looks whether every pool's machine type is sold in its zone. Compute Engine has no trial of a launch: permissions,
// image and network are not looked at, nor capacity and quotas.
func TryGCE(ctx context.Context, account GCEAccount, pools []market.Pool) error {
	sold := map[string][]market.InstanceType{}
	for _, p := range pools {
		if sold[p.Zone] == nil {
			types, err := account.Types(ctx, p.Zone)
			if err != nil {
				return err
			}
			sold[p.Zone] = types
		}
		if !slices.ContainsFunc(sold[p.Zone], func(t market.InstanceType) bool { return t.Name == p.Type }) {
			return fmt.Errorf("compute Engine has no machine type %s in %s: %w", p.Type, p.Zone, provisioner.ErrInvalid)
		}
	}
	return nil
}
