package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/adapter"
)

// This file asks the AWS Price List API for on-demand prices, which EC2's own API does not have
// (https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html).

const (
	// priceListPage is the maximum number of products in one response.
	priceListPage = 100
	// namedPrices is up to how many types are requested by name; beyond that, the whole region is requested: about ten pages.
	namedPrices = 12
)

// ListPrice is the on-demand price of a machine type.
type ListPrice struct {
	USD       market.USD // per hour
	Published time.Time  // when AWS published the list; zero = it does not say
}

// ListPrices returns the hourly on-demand prices of Linux machines on shared hardware in the region, by type: of the named types, or of all
// if none is named. Types that are missing from the price list are missing from the result.
func (m *Market) ListPrices(ctx context.Context, names ...string) (map[string]ListPrice, error) {
	doing := "asking the AWS Price List for on-demand prices in " + m.config.Region
	api, err := m.priceList(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	questions := [][]types.Filter{m.priceFilters()}
	if len(names) > 0 && len(names) <= namedPrices {
		questions = nil
		for _, name := range names {
			questions = append(questions, append(m.priceFilters(), filter("instanceType", name)))
		}
	}
	prices := map[string]ListPrice{}
	for _, filters := range questions {
		pages := pricing.NewGetProductsPaginator(api, &pricing.GetProductsInput{
			ServiceCode: aws.String("AmazonEC2"), FormatVersion: aws.String("aws_v1"), MaxResults: aws.Int32(priceListPage), Filters: filters})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, failure(ctx, doing, err)
			}
			for _, text := range page.PriceList {
				if err := addProduct(prices, text); err != nil {
					return nil, fmt.Errorf("%s: %w: %w", doing, provisioner.ErrInvalid, err)
				}
			}
		}
	}
	if len(names) > 0 {
		maps.DeleteFunc(prices, func(name string, _ ListPrice) bool { return !slices.Contains(names, name) })
	}
	return prices, nil
}

// priceList creates a client. The Price List API is available in few regions, which all give the same answers.
func (m *Market) priceList(ctx context.Context) (*pricing.Client, error) {
	near := m.config
	near.Region = priceListRegion(m.config.Region)
	sdk, err := loadSDK(ctx, near, m.http)
	if err != nil {
		return nil, err
	}
	local, _ := adapter.IsLocal(m.config.Endpoint)
	return pricing.NewFromConfig(sdk, func(o *pricing.Options) {
		if local { // an emulator of EC2's protocol on this host speaks this one, too; a VPC endpoint of EC2 does not
			o.BaseEndpoint = &m.config.Endpoint
		}
	}), nil
}

// priceListRegion returns the nearest region that has the API
// (https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-price-list-query-api.html).
func priceListRegion(region string) string {
	continent, _, _ := strings.Cut(region, "-")
	switch continent {
	case "eu", "af", "me", "il":
		return "eu-central-1"
	case "ap":
		return "ap-south-1"
	case "cn":
		return "cn-northwest-1"
	}
	return "us-east-1"
}

// priceFilters leave one product per type of a region: rented by the hour, not reserved, not licensed, not on a dedicated host.
func (m *Market) priceFilters() []types.Filter {
	return []types.Filter{
		filter("regionCode", m.config.Region), filter("operatingSystem", "Linux"), filter("preInstalledSw", "NA"),
		filter("tenancy", "Shared"), filter("capacitystatus", "Used"), filter("marketoption", "OnDemand"),
	}
}

func filter(field, value string) types.Filter {
	return types.Filter{Type: types.FilterTypeTermMatch, Field: &field, Value: &value}
}

// listed is the part of a price list entry that is parsed.
type listed struct {
	Published string `json:"publicationDate"`
	Product   struct {
		Attributes struct {
			Type string `json:"instanceType"`
		} `json:"attributes"`
	} `json:"product"`
	Terms struct {
		OnDemand map[string]struct {
			Dimensions map[string]struct {
				Unit  string            `json:"unit"`
				Price map[string]string `json:"pricePerUnit"`
			} `json:"priceDimensions"`
		}
	} `json:"terms"`
}

// addProduct adds a product's price. Of several entries for a type, the most expensive counts, so that savings are not
// exaggerated; free entries belong to capacity that is paid for otherwise.
func addProduct(prices map[string]ListPrice, text string) error {
	var p listed
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return fmt.Errorf("reading a product: %w", err)
	}
	name := p.Product.Attributes.Type
	if name == "" {
		return nil // no machine
	}
	published, _ := time.Parse(time.RFC3339, p.Published) // zero where the format differs
	for _, term := range p.Terms.OnDemand {
		for _, d := range term.Dimensions {
			if d.Unit != "Hrs" {
				return fmt.Errorf("%s is sold per %q, not by the hour", name, d.Unit)
			}
			text, ok := d.Price["USD"]
			if !ok {
				return fmt.Errorf("%s has no price in US dollars but in %s", name, strings.Join(slices.Sorted(maps.Keys(d.Price)), ", "))
			}
			usd, err := billionths(text)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if usd > prices[name].USD {
				prices[name] = ListPrice{USD: usd, Published: published.UTC()}
			}
		}
	}
	return nil
}

// billionths reads a price. The list has ten decimals, the last of which is 0.
func billionths(text string) (market.USD, error) {
	const decimals = 9
	if point := strings.IndexByte(text, '.'); point >= 0 && len(text) > point+1+decimals {
		text = text[:point+1+decimals]
	}
	return market.ParseUSD(text)
}

// OnDemand returns the named types, or all of the region, with their shapes and on-demand prices, sorted by name; missing lists those that
// EC2 has and the price list lacks.
func (m *Market) OnDemand(ctx context.Context, names ...string) (found []market.InstanceType, missing []string, err error) {
	shapes, err := m.Types(ctx, names...)
	if err != nil {
		return nil, nil, err
	}
	prices, err := m.ListPrices(ctx, names...)
	if errors.Is(err, provisioner.ErrDenied) {
		return nil, nil, fmt.Errorf("%w (let the role do pricing:GetProducts, which terraform/aws has, or name a catalog)", err)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, t := range shapes {
		p, priced := prices[t.Name]
		if !priced {
			missing = append(missing, t.Name)
			continue
		}
		t.OnDemand, t.Arch = p.USD, cmp.Or(t.Arch, market.ArchOf(t.Name))
		found = append(found, t)
	}
	return found, missing, nil
}
