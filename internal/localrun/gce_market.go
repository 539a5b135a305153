package localrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/internal/planner"
	"github.com/tierml/tierml/internal/planner/local"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/provisioner"
)

// GCEMarket is what Compute Engine sells to a job: Spot prices of the job's own list, or else what its API tells, and
// on-demand prices of the catalog.
func GCEMarket(ctx context.Context, job *config.Job, account GCEAccount) (*local.Market, error) {
	catalog, err := local.ReadCatalog(job.GCE.Catalog)
	if err != nil {
		return nil, job.Fault("gce.catalog", fmt.Sprintf("%s: %v", job.GCE.Catalog, err),
			"name a CSV file with the columns region, instance_type, vcpu, memory_gib, linux_ondemand_usd_hour; "+
				"`tierml prices import skus.json --catalog gce.csv` makes one of Google's price list")
	}
	zones := job.Resources.Zones
	if len(zones) == 0 {
		if zones, err = account.Zones(ctx); err != nil {
			return nil, err
		}
	}
	m := &local.Market{Catalog: catalog}
	if job.GCE.Prices != "" {
		m.Trace, err = gceList(job, zones)
	} else {
		m.Trace, err = gceHistory(ctx, job, account, catalog, zones)
	}
	if err == nil {
		forecast(ctx, m, job, account)
	}
	return m, err
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
	return t, nil
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
