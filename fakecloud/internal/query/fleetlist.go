package query

import (
	"slices"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// fleet is what DescribeFleets shows.
type fleet struct {
	ID        string   `xml:"fleetId" filter:"fleet-id"`
	State     string   `xml:"fleetState" filter:"fleet-state"`
	Activity  string   `xml:"activityStatus,omitempty" filter:"activity-status"`
	Type      string   `xml:"type" filter:"type"`
	Created   stamp    `xml:"createTime"`
	Fulfilled float64  `xml:"fulfilledCapacity"`
	OnDemand  float64  `xml:"fulfilledOnDemandCapacity"`
	Target    capacity `xml:"targetCapacitySpecification"`
	Excess    string   `xml:"excessCapacityTerminationPolicy"`
	Replace   bool     `xml:"replaceUnhealthyInstances" filter:"replace-unhealthy-instances"`
	Expires   bool     `xml:"terminateInstancesWithExpiration"`
	Spot      struct {
		Strategy string `xml:"allocationStrategy"`
		Behavior string `xml:"instanceInterruptionBehavior"`
	} `xml:"spotOptions"`
	Ordinary struct {
		Strategy string `xml:"allocationStrategy"`
	} `xml:"onDemandOptions"`
	Configs set[fleetConfig] `xml:"launchTemplateConfigs"`
	Errors  set[fleetError]  `xml:"errorSet"`
	Tags    *tagList         `xml:"tagSet"`
}

type fleetConfig struct {
	Template struct {
		ID      string `xml:"launchTemplateId"`
		Name    string `xml:"launchTemplateName"`
		Version string `xml:"version"`
	} `xml:"launchTemplateSpecification"`
	Overrides set[fleetOverride] `xml:"overrides"`
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
	if f.Spot > f.OnDemand {
		v.Target.Default = "spot"
	}
	v.Spot.Strategy, v.Spot.Behavior, v.Ordinary.Strategy = f.SpotStrategy, "terminate", f.OnDemandStrategy
	if f.SpotStrategy == "" {
		v.Spot.Strategy = "lowest-price"
	}
	if f.OnDemandStrategy == "" {
		v.Ordinary.Strategy = "lowest-price"
	}
	if f.Kind != region.Instant {
		v.Activity = "pending_fulfillment"
		if f.Filled[market.Spot] >= f.Spot && f.Filled[market.OnDemand] >= f.OnDemand {
			v.Activity = "fulfilled"
		} else if len(f.Refused) > 0 {
			v.Activity = "error"
		}
		if f.State != "active" {
			v.Activity = ""
		}
	}
	for _, o := range f.Overrides {
		n := slices.IndexFunc(v.Configs.Items, func(c fleetConfig) bool { return c.Template.ID == o.Template.ID })
		if n < 0 {
			n = len(v.Configs.Items)
			v.Configs.Items = append(v.Configs.Items, fleetConfig{})
			spec := &v.Configs.Items[n].Template
			spec.ID, spec.Name, spec.Version = o.Template.ID, o.Template.Name, "1"
		}
		if shape := overrideShape(o).Overrides; shape != (fleetOverride{}) {
			v.Configs.Items[n].Overrides.Items = append(v.Configs.Items[n].Overrides.Items, shape)
		}
	}
	return v
}

// describeFleets shows those of type instant by id only, as EC2 does.
func describeFleets(c *call) (answer, error) {
	return describe("fleetSet", func(c *call) []fleet {
		var list []fleet
		for _, f := range c.region.Fleets(c.now) {
			if f.Kind != region.Instant || slices.Contains(c.list("FleetId"), f.ID) {
				list = append(list, fleetShape(f))
			}
		}
		return list
	}, key{param: "FleetId", filter: "fleet-id", code: "InvalidFleetId.NotFound", what: "fleet ID '%s'"})(c)
}

func describeFleetInstances(c *call) (answer, error) {
	id := c.required("FleetId")
	filters, page := c.filters(), c.page(1, 1000)
	if err := c.ready(); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(c.region.Fleets(c.now), func(f region.Fleet) bool { return f.ID == id }) {
		return nil, region.Errorf("InvalidFleetId.NotFound", "The fleet ID '%s' does not exist", id)
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
		ID        string      `xml:"fleetId"`
		Members   set[member] `xml:"activeInstanceSet"`
		NextToken string      `xml:"nextToken,omitempty"`
	}{ID: id, NextToken: next, Members: setOf(list, func(i region.Instance) member {
		return member{i.ID, i.Pool.Type, i.Request.ID, "healthy"}
	})}, nil
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
		before, after, ok := c.region.DeleteFleet(c.now, id, terminate)
		if ok {
			v.Deleted.Items = append(v.Deleted.Items, deletion{after, before, id})
		} else {
			v.Failed.Items = append(v.Failed.Items, failure{"fleetIdDoesNotExist", "The fleet ID '" + id + "' does not exist", id})
		}
	}
	return v, nil
}

func modifyFleet(c *call) (answer, error) {
	id, policy := c.required("FleetId"), c.text("ExcessCapacityTerminationPolicy")
	c.ignore("Context")
	if policy != "" && policy != "termination" && policy != "no-termination" {
		c.invalid("ExcessCapacityTerminationPolicy", policy)
	}
	spot, onDemand := c.capacity()
	if err := c.ready(); err != nil {
		return nil, err
	}
	if err := c.region.Resize(c.now, id, spot, onDemand, policy != "no-termination"); err != nil {
		return nil, err
	}
	return &done{Return: true}, nil
}
