package query

import (
	"slices"
	"strings"

	"github.com/tierml/tierml/fakecloud/internal/region"
)

// product is the only one on sale. EC2 also accepts the second name for it and answers with the first.
const product = "Linux/UNIX"

func isProduct(name string) bool { return name == product || name == product+" (Amazon VPC)" }

type spotPrice struct {
	Type    string `xml:"instanceType"`
	Product string `xml:"productDescription"`
	Price   string `xml:"spotPrice"`
	At      stamp  `xml:"timestamp"`
	Zone    string `xml:"availabilityZone"`
}

// priceFields are the filters of DescribeSpotPriceHistory.
var priceFields = map[string]func(region.PriceChange) []string{
	"availability-zone":   one(func(p region.PriceChange) string { return p.Zone }),
	"instance-type":       one(func(p region.PriceChange) string { return p.Type }),
	"product-description": func(region.PriceChange) []string { return []string{product, product + " (Amazon VPC)"} },
	"spot-price":          one(func(p region.PriceChange) string { return p.Price.String() }),
	"timestamp":           one(func(p region.PriceChange) string { return p.At.UTC().Format("2006-01-02T15:04:05.000Z") }),
}

func describeSpotPriceHistory(c *call) (answer, error) {
	q := region.PriceQuery{Start: c.time("StartTime"), End: c.time("EndTime"), Types: c.list("InstanceType")}
	if zone := c.text("AvailabilityZone"); zone != "" {
		q.Zones = []string{zone}
	}
	products := c.list("ProductDescription")
	filters, page := c.filters(), c.page(1, 1000)
	if err := c.ready(); err != nil {
		return nil, err
	}
	if q.End.IsZero() || q.End.After(page.asOf) {
		q.End = page.asOf // later pages belong to the list that the first one began
	}
	var list []region.PriceChange
	if len(products) == 0 || slices.ContainsFunc(products, isProduct) {
		list = c.region.Prices(c.now, q)
	}
	list, err := selectBy(list, filters, nil, priceFields)
	if err != nil {
		return nil, err
	}
	list, next := cut(list, page)
	return &struct {
		header
		Prices    set[spotPrice] `xml:"spotPriceHistorySet"`
		NextToken string         `xml:"nextToken"`
	}{NextToken: next, Prices: setOf(list, func(p region.PriceChange) spotPrice {
		return spotPrice{p.Type, product, priceText(p.Price), stamp(p.At), p.Zone}
	})}, nil
}

type spotRequest struct {
	ID       string    `xml:"spotInstanceRequestId"`
	Price    string    `xml:"spotPrice"`
	Type     string    `xml:"type"`
	State    string    `xml:"state"`
	Status   status    `xml:"status"`
	Launch   launch    `xml:"launchSpecification"`
	Instance string    `xml:"instanceId,omitempty"`
	Created  stamp     `xml:"createTime"`
	Product  string    `xml:"productDescription"`
	Tags     *set[tag] `xml:"tagSet"`
	Zone     string    `xml:"launchedAvailabilityZone,omitempty"`
	Behavior string    `xml:"instanceInterruptionBehavior"`
}

type status struct {
	Code    string `xml:"code"`
	Updated stamp  `xml:"updateTime"`
	Message string `xml:"message"`
}

type launch struct {
	Image     string    `xml:"imageId"`
	Type      string    `xml:"instanceType"`
	Placement spotPlace `xml:"placement"`
}

type spotPlace struct {
	Zone string `xml:"availabilityZone"`
}

func requestShape(i region.Instance) spotRequest {
	r := i.Request
	return spotRequest{
		ID: r.ID, Price: priceText(i.Bid), Type: "one-time", State: r.State,
		Status: status{r.Code, stamp(r.UpdatedAt), r.Message},
		Launch: launch{i.Image, i.Pool.Type, spotPlace{i.Pool.Zone}}, Instance: i.ID, Created: stamp(r.Created),
		Product: product, Tags: tagSet(r.Tags), Zone: i.Pool.Zone, Behavior: "terminate",
	}
}

// requestFields are the filters of DescribeSpotInstanceRequests.
var requestFields = map[string]func(region.Instance) []string{
	"spot-instance-request-id":       one(func(i region.Instance) string { return i.Request.ID }),
	"instance-id":                    one(func(i region.Instance) string { return i.ID }),
	"state":                          one(func(i region.Instance) string { return i.Request.State }),
	"status-code":                    one(func(i region.Instance) string { return i.Request.Code }),
	"launched-availability-zone":     one(func(i region.Instance) string { return i.Pool.Zone }),
	"launch.instance-type":           one(func(i region.Instance) string { return i.Pool.Type }),
	"type":                           one(func(region.Instance) string { return "one-time" }),
	"spot-price":                     one(func(i region.Instance) string { return priceText(i.Bid) }),
	"instance-interruption-behavior": one(func(region.Instance) string { return "terminate" }),
}

func describeSpotInstanceRequests(c *call) (answer, error) {
	wanted := c.list("SpotInstanceRequestId")
	filters, page := c.filters(), c.page(5, 1000)
	if err := c.ready(); err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(c.region.Requests(c.now), func(i region.Instance) bool {
		return len(wanted) > 0 && !slices.Contains(wanted, i.Request.ID)
	})
	for _, id := range wanted {
		if !slices.ContainsFunc(list, func(i region.Instance) bool { return i.Request.ID == id }) {
			return nil, unknownRequest(id)
		}
	}
	list, err := selectBy(list, filters, func(i region.Instance) map[string]string { return i.Request.Tags }, requestFields)
	if err != nil {
		return nil, err
	}
	list, next := cut(list, page)
	return &struct {
		header
		Requests  set[spotRequest] `xml:"spotInstanceRequestSet"`
		NextToken string           `xml:"nextToken,omitempty"`
	}{Requests: setOf(list, requestShape), NextToken: next}, nil
}

// unknownRequest distinguishes a wrong id from a malformed one.
func unknownRequest(id string) error {
	if !strings.HasPrefix(id, "sir-") {
		return region.Errorf("InvalidSpotInstanceRequestID.Malformed", "Invalid id: \"%s\" (expecting \"sir-...\")", id)
	}
	return region.Errorf("InvalidSpotInstanceRequestID.NotFound", "The spot instance request ID '%s' does not exist", id)
}

func cancelSpotInstanceRequests(c *call) (answer, error) {
	wanted := c.list("SpotInstanceRequestId")
	if len(wanted) == 0 {
		c.fail(region.Errorf("MissingParameter", "The request must contain the parameter SpotInstanceRequestId"))
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	requests, err := c.region.CancelRequests(c.now, wanted)
	if err != nil {
		return nil, err
	}
	type cancelled struct {
		ID    string `xml:"spotInstanceRequestId"`
		State string `xml:"state"`
	}
	return &struct {
		header
		Requests set[cancelled] `xml:"spotInstanceRequestSet"`
	}{Requests: setOf(requests, func(r region.SpotRequest) cancelled { return cancelled{r.ID, r.State} })}, nil
}
