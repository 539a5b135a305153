package api

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/api/cloudbilling/v1"
	"google.golang.org/api/option"

	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/adapter"
)

// This file gets prices from the Cloud Billing Catalog API; Compute Engine's own API has them for Spot machines only
// (https://docs.cloud.google.com/billing/v1/how-tos/catalog-api).

const (
	// computeEngine is the service's name in the price list.
	computeEngine = "services/6F81-5844-456A"
	// skuPage is the largest page.
	skuPage = 5000
	// listHint tells what to do when the list cannot be read: it is public, but requests need an account's project.
	listHint = "enable its API: gcloud services enable cloudbilling.googleapis.com, or name a catalog"
)

// PriceList passes on Compute Engine's price list page by page, in the API's own JSON, with the fields that determine
// prices. It has some megabytes in about ten pages: all regions and products. Only the first page reports whether the
// list is available.
func (m *Market) PriceList(ctx context.Context, page func(skus []byte) (more bool, err error)) error {
	const doing = "asking for the price list of Compute Engine"
	options := []option.ClientOption{option.WithHTTPClient(m.http)}
	if local, _ := adapter.IsLocal(m.config.Endpoint); local { // a server on this host that speaks Compute Engine's protocol has its prices, too
		options = append(options, option.WithEndpoint(m.config.Endpoint))
	}
	service, err := cloudbilling.NewService(ctx, options...)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", doing, provisioner.ErrInvalid, err)
	}
	for next := ""; ; {
		var answer *cloudbilling.ListSkusResponse
		err := m.try(ctx, doing, m.config.AttemptTimeout, func(ctx context.Context) (err error) {
			answer, err = service.Services.Skus.List(computeEngine).CurrencyCode("USD").PageSize(skuPage).PageToken(next).Context(ctx).
				Fields("nextPageToken", "skus(skuId,description,category,serviceRegions,pricingInfo)").Do()
			return err
		})
		if err != nil {
			return fmt.Errorf("%w (%s)", err, listHint)
		}
		text, err := json.Marshal(answer)
		if err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
		if more, err := page(text); err != nil || !more || answer.NextPageToken == "" {
			return err
		}
		next = answer.NextPageToken
	}
}
