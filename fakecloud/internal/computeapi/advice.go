package computeapi

import (
	"net/http"
	"strings"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// adviceBody is the body of a question about the capacity for a request.
type adviceBody struct {
	Size         int `json:"size"`
	Distribution struct {
		Shape string `json:"targetShape"`
		Zones []struct {
			Zone string `json:"zone"`
		} `json:"zones"`
	} `json:"distributionPolicy"`
	Flexibility struct {
		Selections map[string]struct {
			Types []string `json:"machineTypes"`
		} `json:"instanceSelections"`
	} `json:"instanceFlexibilityPolicy"`
	Properties struct {
		Scheduling scheduling `json:"scheduling"`
	} `json:"instanceProperties"`
}

// capacityAdvice scores a request for machines of one type in one zone by the share of it that is available now. How long machines will be
// kept is unknown here: it reports the real API's maximum.
func capacityAdvice(c *call) (any, error) {
	var body adviceBody
	if err := decode(c.body, &body); err != nil {
		return nil, err
	}
	var types []string
	for _, s := range body.Flexibility.Selections { // at most one is used
		types = append(types, s.Types...)
	}
	if c.PathValue("region") != c.region.Name() || len(body.Distribution.Zones) != 1 || len(types) != 1 || body.Size < 1 || body.Properties.Scheduling.Model != "SPOT" {
		return nil, refusalf(http.StatusBadRequest, "invalid", "Advice is given here for Spot machines of one type in one zone of region %s.", c.region.Name())
	}
	zone := body.Distribution.Zones[0].Zone
	zone = zone[strings.LastIndexByte(zone, '/')+1:]
	pool := market.Pool{Provider: region.GCE, Region: c.region.Name(), Zone: zone, Type: types[0], Class: market.Spot}
	room := c.region.Room(pool, body.Size)
	return map[string]any{"recommendations": []any{map[string]any{
		"scores": map[string]any{"obtainability": float64(room) / float64(body.Size), "estimatedUptime": "3600s"},
		"shards": []any{map[string]any{"zone": c.zoneLink(zone), "machineType": types[0], "instanceCount": body.Size, "provisioningModel": "SPOT"}},
	}}}, nil
}
