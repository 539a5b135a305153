package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// SpotPrices returns each pool's Spot prices from since to until, in time order, from the API's capacity history. They
// include the price in force at since. Pools without a known price are omitted.
func (m *Market) SpotPrices(ctx context.Context, pools []market.Pool, since, until time.Time) (map[market.Pool][]market.PricePoint, error) {
	prices := map[market.Pool][]market.PricePoint{}
	for _, p := range pools {
		answer, err := m.history(ctx, p)
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		points, err := pricePoints(answer.GetPriceHistory())
		if err != nil {
			return nil, fmt.Errorf("asking for Spot prices of %s: %w", p, err)
		}
		if points = between(points, since, until); len(points) > 0 {
			prices[p] = points
		}
	}
	return prices, nil
}

func pricePoints(records []*computepb.CapacityHistoryResponsePriceRecord) ([]market.PricePoint, error) {
	var points []market.PricePoint
	for _, r := range records {
		price := r.GetListPrice()
		if price.GetCurrencyCode() != "USD" {
			return nil, fmt.Errorf("%w: a price in %q, not in US dollars", provisioner.ErrInvalid, price.GetCurrencyCode())
		}
		at := firstTime(r.GetInterval().GetStartTime())
		if at.IsZero() {
			return nil, fmt.Errorf("%w: a price without time", provisioner.ErrInvalid)
		}
		points = append(points, market.PricePoint{At: at, Price: market.USD(price.GetUnits())*market.Dollar + market.USD(price.GetNanos())})
	}
	slices.SortStableFunc(points, func(a, b market.PricePoint) int { return a.At.Compare(b.At) })
	return points, nil
}

// between returns the points from since to until, and the last one before.
func between(points []market.PricePoint, since, until time.Time) []market.PricePoint {
	first := 0
	for n, p := range points {
		if !p.At.After(since) {
			first = n
		}
	}
	return slices.DeleteFunc(points[first:], func(p market.PricePoint) bool { return p.At.After(until) })
}

func (m *Market) history(ctx context.Context, p market.Pool) (answer *computepb.CapacityHistoryResponse, err error) {
	doing := "asking for the history of " + p.String()
	if p.Provider != Provider || p.Region != m.config.Region || p.Class != market.Spot {
		return nil, fmt.Errorf("%s: %w: it is no Spot pool of Compute Engine in %s", doing, provisioner.ErrInvalid, m.config.Region)
	}
	err = m.try(ctx, doing, m.config.AttemptTimeout, func(ctx context.Context) (err error) {
		answer, err = m.advice.CapacityHistory(ctx, &computepb.CapacityHistoryAdviceRequest{
			Project: m.config.Project, Region: m.config.Region,
			CapacityHistoryRequestResource: &computepb.CapacityHistoryRequest{
				Types: []string{computepb.CapacityHistoryRequest_PRICE.String()},
				InstanceProperties: &computepb.CapacityHistoryRequestInstanceProperties{MachineType: &p.Type,
					Scheduling: &computepb.CapacityHistoryRequestInstancePropertiesScheduling{ProvisioningModel: proto.String("SPOT")}},
				LocationPolicy: &computepb.CapacityHistoryRequestLocationPolicy{
					Location: proto.String("projects/" + m.config.Project + "/zones/" + p.Zone)},
			},
		})
		return err
	})
	return answer, err
}
