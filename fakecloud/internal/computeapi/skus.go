package computeapi

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// This file answers the Cloud Billing Catalog API at Compute Engine's address: Google Cloud has a separate one. Google sells cores and
// memory, but the catalog here has whole machines: the prices of a family's cores and memory are chosen to yield its machines' prices, to
// the billionth of a dollar.

const computeEngine = "6F81-5844-456A"

// familyWords are the list's words for some families; others have their name in capitals.
var familyWords = map[string][2]string{
	"n1":  {"N1 Predefined Instance Core", "N1 Predefined Instance Ram"},
	"n2d": {"N2D AMD Instance Core", "N2D AMD Instance Ram"},
	"c2":  {"Compute optimized Core", "Compute optimized Ram"},
	"c2d": {"C2D AMD Instance Core", "C2D AMD Instance Ram"},
	"t2d": {"T2D AMD Instance Core", "T2D AMD Instance Ram"},
	"t2a": {"T2A Arm Instance Core", "T2A Arm Instance Ram"},
	"c4a": {"C4A Arm Instance Core", "C4A Arm Instance Ram"},
}

func listSKUs(c *call) (any, error) {
	if c.PathValue("service") != computeEngine {
		return nil, refusalf(http.StatusNotFound, "notFound", "Service %s is not in this list.", c.PathValue("service"))
	}
	if currency := c.URL.Query().Get("currencyCode"); currency != "" && currency != "USD" {
		return nil, refusalf(http.StatusBadRequest, "invalid", "Prices are in USD here.")
	}
	var all []map[string]any
	families := map[string][]region.Type{}
	for _, t := range c.region.Types() {
		family, _, _ := strings.Cut(t.Name, "-")
		families[family] = append(families[family], t)
	}
	for family, types := range families {
		words, known := familyWords[family]
		if !known {
			words = [2]string{strings.ToUpper(family) + " Instance Core", strings.ToUpper(family) + " Instance Ram"}
		}
		core, memory := rates(types, func(t region.Type) market.USD { return t.OnDemand })
		all = append(all, c.sku(words[0], "OnDemand", "h", core), c.sku(words[1], "OnDemand", "GiBy.h", memory))
		sold := slices.DeleteFunc(slices.Clone(types), func(t region.Type) bool { return c.spotPrice(t.Name) == 0 })
		if len(sold) > 0 {
			core, memory = rates(sold, func(t region.Type) market.USD { return c.spotPrice(t.Name) })
			all = append(all, c.sku("Spot Preemptible "+words[0], "Preemptible", "h", core), c.sku("Spot Preemptible "+words[1], "Preemptible", "GiBy.h", memory))
		}
	}
	slices.SortFunc(all, func(a, b map[string]any) int {
		return cmp.Compare(a["description"].(string), b["description"].(string))
	})
	return c.pageOfSKUs(all)
}

func (c *call) pageOfSKUs(all []map[string]any) (any, error) {
	size, first := 5000, 0
	for name, into := range map[string]*int{"pageSize": &size, "pageToken": &first} {
		if text := c.URL.Query().Get(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 || name == "pageSize" && n > 5000 || name == "pageToken" && n > len(all) {
				return nil, refusalf(http.StatusBadRequest, "invalid", "Invalid value for %s: %q", name, text)
			}
			if n > 0 {
				*into = n
			}
		}
	}
	answer := map[string]any{"skus": all[first:min(first+size, len(all))]}
	if first+size < len(all) {
		answer["nextPageToken"] = strconv.Itoa(first + size)
	}
	return answer, nil
}

// spotPrice returns a type's present price as a Spot machine, in the first zone that sells it: lists only know regions. 0 = it is not sold.
func (c *call) spotPrice(kind string) market.USD {
	for _, zone := range c.region.Zones() {
		changes := c.region.Prices(c.now, region.PriceQuery{Types: []string{kind}, Zones: []string{zone}})
		if len(changes) > 0 {
			return changes[0].Price // newest first
		}
	}
	return 0
}

// rates derives the prices of a core and of a GiB from two types of different shapes; with one shape, cores have the whole price.
func rates(types []region.Type, price func(region.Type) market.USD) (core, memory market.USD) {
	perCore := func(t region.Type) (usd, gib float64) {
		return float64(price(t)) / float64(t.VCPU), float64(t.MemoryMiB) / 1024 / float64(t.VCPU)
	}
	lean := slices.MinFunc(types, func(a, b region.Type) int { _, x := perCore(a); _, y := perCore(b); return cmp.Compare(x, y) })
	rich := slices.MaxFunc(types, func(a, b region.Type) int { _, x := perCore(a); _, y := perCore(b); return cmp.Compare(x, y) })
	leanUSD, leanGiB := perCore(lean)
	richUSD, richGiB := perCore(rich)
	each := 0.0
	if richGiB > leanGiB {
		each = max((richUSD-leanUSD)/(richGiB-leanGiB), 0)
	}
	return market.USD(max(leanUSD-float64(each*leanGiB), 0) + 0.5), market.USD(each + 0.5)
}

func (c *call) sku(what, usage, unit string, price market.USD) map[string]any {
	group := "CPU"
	if unit != "h" {
		group = "RAM"
	}
	id := strings.ToUpper(strings.ReplaceAll(what, " ", "-"))
	return map[string]any{
		"name": "services/" + computeEngine + "/skus/" + id, "skuId": id, "description": what + " running in " + c.region.Name(),
		"category":       map[string]string{"serviceDisplayName": "Compute Engine", "resourceFamily": "Compute", "resourceGroup": group, "usageType": usage},
		"serviceRegions": []string{c.region.Name()}, "serviceProviderName": "Google",
		"pricingInfo": []any{map[string]any{"currencyConversionRate": 1, "effectiveTime": c.now.UTC().Truncate(24 * time.Hour).Format(time.RFC3339),
			"pricingExpression": map[string]any{"usageUnit": unit, "displayQuantity": 1, "tieredRates": []any{map[string]any{"startUsageAmount": 0,
				"unitPrice": map[string]any{"currencyCode": "USD", "units": fmt.Sprint(int64(price / market.Dollar)), "nanos": int64(price % market.Dollar)}}}}}},
	}
}
