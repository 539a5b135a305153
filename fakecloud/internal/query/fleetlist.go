package query

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// fleet is a fleet as in DescribeFleets.
type fleet struct {
	ID        string   `xml:"fleetId" filter:"fleet-id"`
	State     string   `xml:"fleetState" filter:"fleet-state"`
	Activity  string   `xml:"activityStatus,omitempty" filter:"activity-status"`
	Type      string   `xml:"type" filter:"type"`
	Created   stamp    `xml:"createTime"`
	Until     *stamp   `xml:"validUntil"`
	Fulfilled float64  `xml:"fulfilledCapacity"`
	OnDemand  float64  `xml:"fulfilledOnDemandCapacity"`
	Target    capacity `xml:"targetCapacitySpecification"`
	Excess    string   `xml:"excessCapacityTerminationPolicy"`
	Replace   bool     `xml:"replaceUnhealthyInstances" filter:"replace-unhealthy-instances"`
	Expires   bool     `xml:"terminateInstancesWithExpiration"`
	Spot      struct {
		Strategy string `xml:"allocationStrategy"`
		Behavior string `xml:"instanceInterruptionBehavior"`
		Most     string `xml:"maxTotalPrice,omitempty"`
		Replace  string `xml:"maintenanceStrategies>capacityRebalance>replacementStrategy,omitempty"`
	} `xml:"spotOptions"`
	Ordinary struct {
		Strategy string `xml:"allocationStrategy"`
		Most     string `xml:"maxTotalPrice,omitempty"`
	} `xml:"onDemandOptions"`
	Configs set[fleetConfig] `xml:"launchTemplateConfigs"`
	Errors  set[fleetError]  `xml:"errorSet"`
	Tags    *tagList         `xml:"tagSet"`
}

type fleetConfig struct {
	Template  templateVersionRef `xml:"launchTemplateSpecification"`
	Overrides set[fleetOverride] `xml:"overrides"`
}

type templateVersionRef struct {
	ID      string `xml:"launchTemplateId"`
	Name    string `xml:"launchTemplateName"`
	Version string `xml:"version"`
}

func templateRef(t region.Template) templateVersionRef {
	return templateVersionRef{t.ID, t.Name, strconv.Itoa(t.Number)}
}

type capacity struct {
	Total    int    `xml:"totalTargetCapacity"`
	OnDemand int    `xml:"onDemandTargetCapacity"`
	Spot     int    `xml:"spotTargetCapacity"`
	Default  string `xml:"defaultTargetCapacityType"`
}

func fleetShape(f region.Fleet) fleet {
	v := fleet{
		ID: f.ID, State: f.State, Type: string(f.Kind), Created: stamp(f.Created),
		Fulfilled: f.Filled[market.Spot] + f.Filled[market.OnDemand], OnDemand: f.Filled[market.OnDemand],
		Target: capacity{int(f.Spot + f.OnDemand), int(f.OnDemand), int(f.Spot), "on-demand"},
		Excess: "termination", Errors: setOf(f.Refused, fleetErrorShape), Tags: tagSet(f.Tags),
	}
	v.Expires, v.Until = f.EndAtUntil, optional(f.Until)
	if f.KeepExcess {
		v.Excess = "no-termination"
	}
	if f.Spot > f.OnDemand {
		v.Target.Default = "spot"
	}
	v.Spot.Strategy, v.Spot.Behavior, v.Ordinary.Strategy = f.SpotStrategy, "terminate", f.OnDemandStrategy
	if f.MostSpot > 0 {
		v.Spot.Most = f.MostSpot.String()
	}
	if f.MostOnDemand > 0 {
		v.Ordinary.Most = f.MostOnDemand.String()
	}
	if f.Rebalance {
		v.Spot.Replace = "launch"
	}
	if f.SpotStrategy == "" {
		v.Spot.Strategy = "lowest-price"
	}
	if f.OnDemandStrategy == "" {
		v.Ordinary.Strategy = "lowest-price"
	}
	v.Activity = activity(f)
	for n, o := range f.Overrides {
		if o.Needs != nil && n > 0 && maps.Equal(o.Needs, f.Overrides[n-1].Needs) && o.Zone == f.Overrides[n-1].Zone {
			continue // another type of the same requirements
		}
		n := slices.IndexFunc(v.Configs.Items, func(c fleetConfig) bool { return c.Template == templateRef(o.Template) })
		if n < 0 {
			n = len(v.Configs.Items)
			v.Configs.Items = append(v.Configs.Items, fleetConfig{})
			v.Configs.Items[n].Template = templateRef(o.Template)
		}
		shape := overrideShape(o).Overrides
		if o.Needs != nil {
			needs := nodeOf("instanceRequirements", "Set", o.Needs)
			shape.Type, shape.Needs = "", &needs
		}
		if shape != (fleetOverride{}) {
			v.Configs.Items[n].Overrides.Items = append(v.Configs.Items[n].Overrides.Items, shape)
		}
	}
	return v
}

// activity returns the word for what a fleet does; "" if it does nothing any more, or is of type instant.
func activity(f region.Fleet) string {
	switch {
	case f.Kind == region.Instant || f.State != "active":
		return ""
	case f.Filled[market.Spot] >= f.Spot && f.Filled[market.OnDemand] >= f.OnDemand:
		return "fulfilled"
	case len(f.Refused) > 0:
		return "error"
	}
	return "pending_fulfillment"
}

// describeFleets shows those of type instant by id only, like EC2.
func describeFleets(c *call) (answer, error) {
	return describe("fleetSet", func(c *call) []fleet {
		var list []fleet
		for _, f := range c.region.Fleets(c.now) {
			if !f.SpotFleet() && (f.Kind != region.Instant || slices.Contains(c.list("FleetId"), f.ID)) {
				list = append(list, fleetShape(f))
			}
		}
		return list
	}, key{param: "FleetId", filter: "fleet-id", code: "InvalidFleetId.NotFound", what: "fleet ID '%s'"})(c)
}

// fleetKind is how the calls of one of the two kinds of fleets name it.
type fleetKind struct {
	param, element string
	code, what     string // if there is none
	spot           bool
	events         map[string]string // EC2's words of event types, by those of an EC2 Fleet's history
	filters        bool
}

var (
	ec2Fleets = fleetKind{"FleetId", "fleetId", "InvalidFleetId.NotFound", "fleet ID", false, map[string]string{
		"instance-change": "instance-change", "fleet-change": "fleet-change", "error": "service-error"}, true}
	spotFleets = fleetKind{"SpotFleetRequestId", "spotFleetRequestId", "InvalidSpotFleetRequestId.NotFound", "spot fleet request ID", true, map[string]string{
		"instance-change": "instanceChange", "fleet-change": "fleetRequestChange", "error": "error", "": "information"}, false}
)

// find returns the fleet with an id.
func (k fleetKind) find(c *call, id string) (region.Fleet, error) {
	fleets := c.region.Fleets(c.now)
	n := slices.IndexFunc(fleets, func(f region.Fleet) bool { return f.ID == id && f.SpotFleet() == k.spot })
	if n < 0 {
		return region.Fleet{}, region.Errorf(k.code, "The %s '%s' does not exist", k.what, id)
	}
	return fleets[n], nil
}

// instances describes the machines of a fleet.
func (k fleetKind) instances(c *call) (answer, error) {
	id := c.required(k.param)
	var filters []filter
	if k.filters {
		filters = c.filters()
	}
	page := c.page(1, 1000)
	if err := c.ready(); err != nil {
		return nil, err
	}
	if _, err := k.find(c, id); err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(c.region.Instances(c.now), func(i region.Instance) bool { return i.Fleet != id || !i.State.Alive() })
	list, err := selectBy(list, filters, nil, map[string]func(region.Instance) []string{"instance-type": instanceFields["instance-type"]})
	if err != nil {
		return nil, err
	}
	list, next := cut(list, page)
	type member struct {
		ID      string `xml:"instanceId"`
		Type    string `xml:"instanceType"`
		Request string `xml:"spotInstanceRequestId,omitempty"`
		Health  string `xml:"instanceHealth"`
	}
	return &struct {
		header
		ID        node
		Members   set[member] `xml:"activeInstanceSet"`
		NextToken string      `xml:"nextToken,omitempty"`
	}{ID: nodeOf(k.element, "", map[string]string{"": id}), NextToken: next, Members: setOf(list, func(i region.Instance) member {
		return member{i.ID, i.Pool.Type, i.Request.ID, "healthy"}
	})}, nil
}

type fleetEvent struct {
	About struct {
		Description string `xml:"eventDescription,omitempty"`
		Kind        string `xml:"eventSubType"`
		Instance    string `xml:"instanceId,omitempty"`
	} `xml:"eventInformation"`
	Type string `xml:"eventType"`
	At   stamp  `xml:"timestamp"`
}

// events returns the history of a fleet: its states, its machines, and why its last try yielded fewer than wanted.
func (c *call) events(f region.Fleet) (list []fleetEvent) {
	add := func(at time.Time, kind, what, instance string, about any) {
		e := fleetEvent{Type: kind, At: stamp(at)}
		e.About.Kind, e.About.Instance = what, instance
		if about != nil {
			text, _ := json.Marshal(about) // strings only
			e.About.Description = string(text)
		}
		list = append(list, e)
	}
	add(f.Created, "fleet-change", "submitted", "", nil)
	add(f.Created, "fleet-change", "active", "", nil)
	for _, i := range c.region.Instances(c.now) {
		if i.Fleet != f.ID {
			continue
		}
		about := map[string]string{"instanceType": i.Pool.Type, "image": i.Image, "productDescription": "Linux/UNIX", "availabilityZone": i.Pool.Zone}
		add(i.Launched, "instance-change", "launched", i.ID, about)
		if !i.State.Alive() {
			add(i.Ended, "instance-change", "terminated", i.ID, about)
		}
	}
	for _, r := range f.Refused {
		add(f.Tried, "error", r.Err.Code, "", map[string]string{"message": r.Err.Message})
	}
	if !f.Deleted.IsZero() {
		add(f.Deleted, "fleet-change", f.State, "", nil)
	}
	slices.SortStableFunc(list, func(a, b fleetEvent) int { return time.Time(a.At).Compare(time.Time(b.At)) })
	return list
}

// history describes what happened to a fleet.
func (k fleetKind) history(c *call) (answer, error) {
	id, from, kind := c.required(k.param), c.time("StartTime"), c.among("EventType", slices.Sorted(maps.Values(k.events)))
	c.required("StartTime")
	page := c.page(1, 1000)
	if err := c.ready(); err != nil {
		return nil, err
	}
	f, err := k.find(c, id)
	if err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(c.events(f), func(e fleetEvent) bool {
		return kind != "" && k.events[e.Type] != kind || time.Time(e.At).Before(from)
	})
	list, next := cut(list, page)
	if k.spot {
		for n := range list {
			list[n].Type, list[n].About.Kind = k.events[list[n].Type], cancelled(list[n].About.Kind)
		}
	}
	return &struct {
		header
		Records   set[fleetEvent] `xml:"historyRecordSet"`
		Last      stamp           `xml:"lastEvaluatedTime"`
		ID        node
		Start     stamp  `xml:"startTime"`
		NextToken string `xml:"nextToken,omitempty"`
	}{Records: set[fleetEvent]{list}, Last: stamp(c.now), ID: nodeOf(k.element, "", map[string]string{"": id}), Start: stamp(from), NextToken: next}, nil
}

func deleteFleets(c *call) (answer, error) {
	wanted, terminate := c.list("FleetId"), c.boolean("TerminateInstances")
	if len(wanted) == 0 {
		c.fail(region.Errorf("MissingParameter", "The request must contain the parameter FleetId"))
	}
	c.required("TerminateInstances")
	if err := c.ready(); err != nil {
		return nil, err
	}
	type deletion struct {
		Current  string `xml:"currentFleetState"`
		Previous string `xml:"previousFleetState"`
		ID       string `xml:"fleetId"`
	}
	type failure struct {
		Code    string `xml:"error>code"`
		Message string `xml:"error>message"`
		ID      string `xml:"fleetId"`
	}
	v := &struct {
		header
		Deleted set[deletion] `xml:"successfulFleetDeletionSet"`
		Failed  set[failure]  `xml:"unsuccessfulFleetDeletionSet"`
	}{}
	for _, id := range wanted {
		if _, err := ec2Fleets.find(c, id); err == nil {
			before, after, _ := c.region.DeleteFleet(c.now, id, terminate)
			v.Deleted.Items = append(v.Deleted.Items, deletion{after, before, id})
		} else {
			v.Failed.Items = append(v.Failed.Items, failure{"fleetIdDoesNotExist", "The fleet ID '" + id + "' does not exist", id})
		}
	}
	return v, nil
}

func modifyFleet(c *call) (answer, error) {
	id, policy := c.required("FleetId"), c.among("ExcessCapacityTerminationPolicy", excessPolicies)
	c.ignore("Context")
	c.unspoken("LaunchTemplateConfig")
	spot, onDemand := c.capacity()
	if err := c.ready(); err != nil {
		return nil, err
	}
	f, err := ec2Fleets.find(c, id)
	if err != nil {
		return nil, err
	}
	keep := policy == "no-termination" || policy == "" && f.KeepExcess
	if err := c.region.Resize(c.now, id, spot, onDemand, !keep); err != nil {
		return nil, err
	}
	return &done{Return: true}, nil
}
