package gce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/gceprice"
	"github.com/tierml/tierml/market/shapes"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/planner/pricelist"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/provisioner"
)

// marketAPI is what a plan needs from Compute Engine.
type marketAPI interface {
	SpotPrices(ctx context.Context, pools []market.Pool, since, until time.Time) (map[market.Pool][]market.PricePoint, error)
	Zones(context.Context) ([]string, error)
	Types(ctx context.Context, zone string) ([]market.InstanceType, error)
	PriceList(ctx context.Context, page func(skus []byte) (more bool, err error)) error
	CapacityAdvice(ctx context.Context, p market.Pool, machines int) (provisioner.CapacityAdvice, bool, error)
	Quotas(context.Context) ([]provisioner.Quota, error)
}

// lookBack is the length of the requested price history.
const lookBack = 90 * 24 * time.Hour

// soldTo returns what Compute Engine sells to a job: on-demand prices from the job's own catalog, or else from Google's
// price list, which is cached in a folder for a day; Spot prices come from the job's own list, from the API, or else
// from the price list.
func soldTo(ctx context.Context, job *config.Job, account marketAPI, folder string) (*local.Market, error) {
	if blockOf(job).Endpoint != "" {
		folder = "" // the server there may sell at other prices than Google
	}
	m := &local.Market{}
	zones, err := job.Resources.Zones, error(nil)
	if blockOf(job).Catalog != "" { // before any query
		if err := providers.ReadCatalog(m, job); err != nil {
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
		if listed, err = askCatalog(ctx, m, job, book(account, blockOf(job).Region, zones, folder)); err != nil {
			return nil, err
		}
	}
	source := "Compute Engine's capacity history, asked now"
	if blockOf(job).Prices != "" {
		source = blockOf(job).Prices
		m.Trace, err = ownPrices(job, zones)
	} else if m.Trace, err = history(ctx, job, account, m.Catalog, zones); errors.Is(err, provisioner.ErrDenied) && listed != nil {
		source = fmt.Sprintf("the same list, of the whole region, as the capacity history may not be asked (%s)", providers.FirstLine(err))
		m.Trace, err = pricesOfList(job, listed, zones)
	}
	if err != nil {
		return nil, err
	}
	m.Sources = append(m.Sources, "Spot prices: "+source+".")
	billed(m, job)
	forecast(ctx, m, job, account)
	warnOfQuotas(ctx, m, job, account)
	return m, nil
}

// book returns Google's price list of a region, for the machine types that some of its zones have.
func book(account marketAPI, region string, zones []string, folder string) *pricelist.Book {
	return &pricelist.Book{Name: "Cloud Billing Catalog", Provider: Name, Region: region, Folder: folder,
		Ask: func(ctx context.Context, _ []string) ([]pricelist.Offer, error) { // it is served as a whole
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
				types, err := typesIn(ctx, account, zone)
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

// typesIn returns a zone's machine types, with GPUs named as in job files.
func typesIn(ctx context.Context, account interface {
	Types(ctx context.Context, zone string) ([]market.InstanceType, error)
}, zone string) ([]market.InstanceType, error) {
	types, err := account.Types(ctx, zone)
	for i, t := range types {
		types[i].GPU = shapes.Accelerators(t.GPU.Name, t.GPU.Count)
	}
	return types, err
}

// askCatalog gets what the region sells from the price list.
func askCatalog(ctx context.Context, m *local.Market, job *config.Job, book *pricelist.Book) (*pricelist.Answer, error) {
	return providers.AskCatalog(ctx, m, job, nil, book, func(kind string) (problem, instead string) {
		return fmt.Sprintf("no price of %s in %s can be made of Google's price list: there is no such type in the job's zones, or it is not sold by cores and memory alone",
			kind, book.Region), "write types such as n2-standard-4 that are sold there"
	})
}

// pricesOfList returns the price list's Spot prices, for every zone.
func pricesOfList(job *config.Job, listed *pricelist.Answer, zones []string) (*trace.Trace, error) {
	points := map[market.Pool][]market.PricePoint{}
	for _, o := range listed.Offers {
		if o.Spot == 0 || !slices.ContainsFunc(job.Resources.AnyOf, func(m config.Machine) bool { return planner.Admits(m, o.InstanceType) }) {
			continue
		}
		for _, zone := range zones {
			pool := market.Pool{Provider: Name, Region: blockOf(job).Region, Zone: zone, Type: o.Name, Class: market.Spot}
			points[pool] = []market.PricePoint{{At: o.SpotFrom, Price: o.Spot}}
		}
	}
	if len(points) == 0 {
		return nil, job.Fault("resources.any_of", "Google's price list has no Spot prices of these types in "+blockOf(job).Region, "write types that it sells there, or name Spot prices with gce.prices")
	}
	return &trace.Trace{Markets: trace.Of(points)}, nil
}

// ownPrices reads the job's own prices. Prices of a whole region, which a price list has, apply to each of its zones.
func ownPrices(job *config.Job, zones []string) (*trace.Trace, error) {
	read, err := local.ReadPricesOf(blockOf(job).Prices, Name)
	if err != nil {
		return nil, job.Fault("gce.prices", fmt.Sprintf("%s: %v", blockOf(job).Prices, err),
			"name Spot prices: a price store that `tierml prices import skus.json` has filled, or CSV with the columns timestamp, zone, instance_type, product, price")
	}
	t := &trace.Trace{}
	for _, m := range read.Markets {
		switch {
		case m.Pool.Region != blockOf(job).Region:
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
		return nil, job.Fault("gce.prices", blockOf(job).Prices+" has no Spot prices in "+blockOf(job).Region, "write prices of that region, or another region")
	}
	return trace.New(t.Markets, read.Summary), nil
}

// history gets the past Spot prices of suitable types from the API.
func history(ctx context.Context, job *config.Job, account marketAPI, catalog *market.Catalog, zones []string) (*trace.Trace, error) {
	var pools []market.Pool
	for _, kind := range catalog.Types(blockOf(job).Region) {
		if !slices.ContainsFunc(job.Resources.AnyOf, func(m config.Machine) bool { return planner.Admits(m, kind) }) {
			continue
		}
		for _, zone := range zones {
			pools = append(pools, market.Pool{Provider: Name, Region: blockOf(job).Region, Zone: zone, Type: kind.Name, Class: market.Spot})
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

// try checks whether every pool's machine type is sold in its zone. Compute Engine cannot try a launch: permissions,
// image, network, capacity and quotas are not checked.
func try(ctx context.Context, account marketAPI, pools []market.Pool) error {
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
