package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// product is the operating system whose prices are requested; licensed ones cost more.
const product = "Linux/UNIX"

// SpotPrices returns the history of each pool's spot price from since to until, ordered by time. EC2 also returns the price in force at
// since, which was set before it. Pools for which EC2 knows no price are left out.
func (m *Market) SpotPrices(ctx context.Context, pools []market.Pool, since, until time.Time) (map[market.Pool][]market.PricePoint, error) {
	byZone := map[string][]market.Pool{}
	var zones []string
	for _, p := range pools {
		if p.Provider != Provider || p.Region != m.config.Region || p.Class != market.Spot {
			return nil, fmt.Errorf("asking for spot prices: %w: %s is no spot pool of EC2 in %s",
				provisioner.ErrInvalid, p, m.config.Region)
		}
		if byZone[p.Zone] == nil {
			zones = append(zones, p.Zone)
		}
		byZone[p.Zone] = append(byZone[p.Zone], p)
	}
	slices.Sort(zones)
	prices := map[market.Pool][]market.PricePoint{}
	for _, zone := range zones {
		if err := m.zonePrices(ctx, zone, byZone[zone], since, until, prices); err != nil {
			return nil, err
		}
	}
	for _, points := range prices {
		slices.SortStableFunc(points, func(a, b market.PricePoint) int { return a.At.Compare(b.At) })
	}
	return prices, nil
}

// zonePrices adds the prices of one zone's pools.
func (m *Market) zonePrices(ctx context.Context, zone string, pools []market.Pool, since, until time.Time, prices map[market.Pool][]market.PricePoint) error {
	doing := "asking for spot prices in " + zone
	wanted := map[types.InstanceType]market.Pool{}
	var names []types.InstanceType
	for _, p := range pools {
		name := types.InstanceType(p.Type)
		wanted[name] = p
		names = append(names, name)
	}
	slices.Sort(names)
	pages := ec2.NewDescribeSpotPriceHistoryPaginator(m.api, &ec2.DescribeSpotPriceHistoryInput{
		AvailabilityZone:    &zone,
		InstanceTypes:       slices.Compact(names),
		ProductDescriptions: []string{product},
		StartTime:           &since,
		EndTime:             &until,
		MaxResults:          aws.Int32(pageSize),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return failure(ctx, doing, err)
		}
		for _, entry := range page.SpotPriceHistory {
			pool, ok := wanted[entry.InstanceType]
			if !ok || aws.ToString(entry.AvailabilityZone) != zone {
				continue
			}
			point, err := pricePoint(entry)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", doing, entry.InstanceType, err)
			}
			prices[pool] = append(prices[pool], point)
		}
	}
	return nil
}

// PriceQuery selects spot prices. EC2 keeps those of the last 90 days.
type PriceQuery struct {
	Types, Zones []string // none = all of the region
	Since        time.Time
}

// PriceHistory returns the spot prices of a region until now, ordered by time within each pool. EC2 answers in pages: progress receives the
// number of prices after each.
func (m *Market) PriceHistory(ctx context.Context, q PriceQuery, progress func(prices int)) (map[market.Pool][]market.PricePoint, error) {
	doing := "asking for spot prices in " + m.config.Region
	input := &ec2.DescribeSpotPriceHistoryInput{
		ProductDescriptions: []string{product}, StartTime: &q.Since, MaxResults: aws.Int32(pageSize),
	}
	for _, name := range q.Types {
		input.InstanceTypes = append(input.InstanceTypes, types.InstanceType(name))
	}
	if len(q.Zones) > 0 {
		input.Filters = []types.Filter{{Name: aws.String("availability-zone"), Values: q.Zones}}
	}
	prices, count := map[market.Pool][]market.PricePoint{}, 0
	for pages := ec2.NewDescribeSpotPriceHistoryPaginator(m.api, input); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, failure(ctx, doing, err)
		}
		for _, entry := range page.SpotPriceHistory {
			pool := market.Pool{Provider: Provider, Region: m.config.Region, Zone: aws.ToString(entry.AvailabilityZone),
				Type: string(entry.InstanceType), Class: market.Spot}
			point, err := pricePoint(entry)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", doing, entry.InstanceType, err)
			}
			prices[pool] = append(prices[pool], point)
		}
		count += len(page.SpotPriceHistory)
		progress(count)
	}
	for _, points := range prices {
		slices.SortStableFunc(points, func(a, b market.PricePoint) int { return a.At.Compare(b.At) })
	}
	return prices, nil
}

func pricePoint(entry types.SpotPrice) (market.PricePoint, error) {
	if entry.Timestamp == nil {
		return market.PricePoint{}, errors.New("a price without time")
	}
	price, err := market.ParseUSD(aws.ToString(entry.SpotPrice))
	return market.PricePoint{At: entry.Timestamp.UTC(), Price: price}, err
}
