package query

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// This file speaks Spot Fleet, the older interface of fleets.

const spotConfig = "SpotFleetRequestConfig"

// Spot Fleet's terms, by EC2 Fleet's.
var (
	spotFleetStrategies = map[string]string{"lowestPrice": "lowest-price", "diversified": "diversified", "capacityOptimized": "capacity-optimized",
		"capacityOptimizedPrioritized": "capacity-optimized-prioritized", "priceCapacityOptimized": "price-capacity-optimized"}
	spotFleetOrders = map[string]string{"lowestPrice": "lowest-price", "prioritized": "prioritized"}
	spotFleetExcess = []string{"noTermination", "default"}
)

func requestSpotFleet(c *call) (answer, error) {
	const at = spotConfig + "."
	given := c.below(spotConfig)
	q := region.FleetRequest{
		SpotStrategy:     spotFleetStrategies[c.among(at+"AllocationStrategy", slices.Sorted(maps.Keys(spotFleetStrategies)))],
		OnDemandStrategy: spotFleetOrders[c.among(at+"OnDemandAllocationStrategy", slices.Sorted(maps.Keys(spotFleetOrders)))],
		Kind:             region.FleetKind(cmp.Or(c.among(at+"Type", []string{"request", "maintain"}), "maintain")),
		KeepExcess:       c.among(at+"ExcessCapacityTerminationPolicy", spotFleetExcess) == "noTermination",
		MostSpot:         c.price(at + "SpotMaxTotalPrice"), MostOnDemand: c.price(at + "OnDemandMaxTotalPrice"),
		Until: c.time(at + "ValidUntil"), EndAtUntil: c.boolean(at + "TerminateInstancesWithExpiration"),
		FleetTags: c.tagSpecifications(at+"TagSpecification", "spot-fleet-request")["spot-fleet-request"],
		Given:     given,
	}
	c.required(at + "IamFleetRole")
	c.required(at + "TargetCapacity")
	q.OnDemand = c.decimal(at + "OnDemandTargetCapacity")
	if q.Spot = c.decimal(at+"TargetCapacity") - q.OnDemand; q.Spot < 0 {
		c.fail(region.Errorf("InvalidSpotFleetRequestConfig", "OnDemandTargetCapacity is more than TargetCapacity."))
	}
	if from := c.time(at + "ValidFrom"); from.After(c.now) {
		c.fail(region.Errorf("Unsupported", "A ValidFrom in the future is not supported here."))
	}
	if !q.Until.IsZero() && !q.Until.After(c.now) {
		c.fail(region.Errorf("InvalidSpotFleetRequestConfig", "ValidUntil is in the past."))
	}
	if pools := c.number(at+"InstancePoolsToUseCount", 1); pools != 1 {
		c.fail(region.Errorf("Unsupported", "Several pools (InstancePoolsToUseCount) are not supported here; use diversified."))
	}
	if unit := c.text(at + "TargetCapacityUnitType"); unit != "" && unit != "units" {
		c.fail(region.Errorf("Unsupported", "Target capacity in %s is not supported here; use units.", unit))
	}
	c.interruptions(at + "InstanceInterruptionBehavior")
	q.Rebalance = c.rebalance(at+"SpotMaintenanceStrategies.CapacityRebalance", q.Kind)
	c.ignore(at+"ReplaceUnhealthyInstances", at+"Context")
	c.unspoken(at + "LoadBalancersConfig")
	if token := c.text(at + "ClientToken"); token != "" {
		q.Token = "spot " + token
	}
	var err error
	specifications, configs := at+"LaunchSpecifications", at+"LaunchTemplateConfigs"
	switch {
	case len(c.indices(specifications)) == 0:
		q.Overrides, err = c.overrides(configs, "SpotPrice")
	case len(c.indices(configs)) > 0 || q.OnDemand > 0:
		err = region.Errorf("InvalidSpotFleetRequestConfig", "LaunchSpecifications cannot be combined with LaunchTemplateConfigs or OnDemandTargetCapacity.")
	default:
		q.Overrides, err = c.launchSpecifications(specifications)
	}
	if err != nil {
		return nil, err
	}
	price := c.price(at + "SpotPrice")
	for n := range q.Overrides {
		q.Overrides[n].MaxPrice = cmp.Or(q.Overrides[n].MaxPrice, price)
	}
	q.Fingerprint = c.fingerprint()
	if err := c.ready(); err != nil {
		return nil, err
	}
	made, err := c.region.LaunchFleet(c.now, q)
	if err != nil {
		return nil, err
	}
	return &struct {
		header
		ID string `xml:"spotFleetRequestId"`
	}{ID: made.ID}, nil
}

// plainNames replaces a launch specification's names with a launch's, where they differ.
var plainNames = strings.NewReplacer("TagSpecificationSet.", "TagSpecification.", "NetworkInterfaceSet.", "NetworkInterface.")

// launchSpecifications reads launches that need no template. One may name several zones or subnets.
func (c *call) launchSpecifications(prefix string) (list []region.Override, err error) {
	for _, n := range c.indices(prefix) {
		spec := item(prefix, n)
		base := region.Override{MaxPrice: c.price(spec + ".SpotPrice"), Weight: c.decimal(spec + ".WeightedCapacity")}
		form := make(url.Values)
		for name, value := range c.below(spec) {
			top, rest, _ := strings.Cut(name, ".")
			if top == "InstanceRequirements" {
				continue // byNeeds reads them
			}
			c.read[spec+"."+name] = true
			number, field, _ := strings.Cut(rest, ".")
			switch {
			case top == "GroupSet" && field == "GroupId":
				name = "SecurityGroupId." + number
			case top == "GroupSet" && field == "GroupName":
				name = "SecurityGroup." + number
			}
			form.Set(plainNames.Replace(name), value)
		}
		for _, name := range []string{"SpotPrice", "WeightedCapacity", "AddressingType"} {
			form.Del(name)
		}
		own := &call{params: newParams(form), region: c.region, now: c.now}
		data := own.templateData("")
		own.required("ImageId")
		if err := own.finish(); err != nil {
			return nil, err
		}
		for zone := range strings.SplitSeq(data.Zone, ",") {
			for subnet := range strings.SplitSeq(data.Subnet, ",") {
				one := data
				one.Zone, one.Subnet = strings.TrimSpace(zone), strings.TrimSpace(subnet)
				q, err := c.launchRequest(one)
				if err != nil {
					return nil, err
				}
				one.Zone, one.Groups, one.Image = q.Zone, q.Groups, q.Image
				o := base
				o.Template.Data = one
				o.Type = one.Type
				for _, chosen := range c.byNeeds(spec, o) {
					if chosen.Type == "" {
						c.required(spec + ".InstanceType")
					}
					list = append(list, chosen)
				}
			}
		}
	}
	return list, nil
}

// spotFleetRequest is a Spot Fleet as in DescribeSpotFleetRequests.
type spotFleetRequest struct {
	ID       string `xml:"spotFleetRequestId" filter:"spot-fleet-request-id"`
	State    string `xml:"spotFleetRequestState"`
	Activity string `xml:"activityStatus,omitempty"`
	Created  stamp  `xml:"createTime"`
	Config   node
	Tags     *set[tag] `xml:"tagSet"`
}

// cancelled translates EC2 Fleet's name of a state into Spot Fleet's.
func cancelled(state string) string { return strings.Replace(state, "deleted", "cancelled", 1) }

// spotFleetRequests lists Spot Fleets, with their configurations as given, completed by defaults.
func spotFleetRequests(c *call) (list []spotFleetRequest) {
	for _, f := range c.region.Fleets(c.now) {
		if !f.SpotFleet() {
			continue
		}
		number := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
		config := map[string]string{"AllocationStrategy": "lowestPrice", "Type": string(f.Kind), "ExcessCapacityTerminationPolicy": "default",
			"TerminateInstancesWithExpiration": "false", "ReplaceUnhealthyInstances": "false", "InstanceInterruptionBehavior": "terminate"}
		maps.Copy(config, f.Given)
		maps.DeleteFunc(config, func(name, _ string) bool { return strings.HasPrefix(name, "TagSpecification.") })
		if config["TargetCapacity"] = number(f.Spot + f.OnDemand); f.OnDemand > 0 || config["OnDemandTargetCapacity"] != "" {
			config["OnDemandTargetCapacity"] = number(f.OnDemand)
		}
		if f.KeepExcess {
			config["ExcessCapacityTerminationPolicy"] = "noTermination"
		}
		config["FulfilledCapacity"] = number(f.Filled[market.Spot] + f.Filled[market.OnDemand])
		config["OnDemandFulfilledCapacity"] = number(f.Filled[market.OnDemand])
		one := spotFleetRequest{f.ID, cancelled(f.State), activity(f), stamp(f.Created), nodeOf("spotFleetRequestConfig", "", config), tagSet(f.Tags)}
		if f.State == "deleted_terminating" {
			one.Activity = "pending_termination"
		}
		list = append(list, one)
	}
	return list
}

func modifySpotFleetRequest(c *call) (answer, error) {
	id, policy := c.required("SpotFleetRequestId"), c.among("ExcessCapacityTerminationPolicy", spotFleetExcess)
	c.ignore("Context")
	c.unspoken("LaunchTemplateConfig")
	total, onDemand := c.decimal("TargetCapacity"), c.decimal("OnDemandTargetCapacity")
	f, err := spotFleets.find(c, id)
	if c.text("TargetCapacity") == "" {
		total = f.Spot + f.OnDemand
	}
	if c.text("OnDemandTargetCapacity") == "" {
		onDemand = f.OnDemand
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	if onDemand > total {
		return nil, region.Errorf("InvalidSpotFleetRequestConfig", "OnDemandTargetCapacity is more than TargetCapacity.")
	}
	keep := policy == "noTermination" || policy == "" && f.KeepExcess
	if err := c.region.Resize(c.now, id, total-onDemand, onDemand, !keep); err != nil {
		return nil, err
	}
	return &done{Return: true}, nil
}

func cancelSpotFleetRequests(c *call) (answer, error) {
	wanted, terminate := c.list("SpotFleetRequestId"), c.boolean("TerminateInstances")
	if len(wanted) == 0 {
		c.fail(region.Errorf("MissingParameter", "The request must contain the parameter SpotFleetRequestId"))
	}
	c.required("TerminateInstances")
	if err := c.ready(); err != nil {
		return nil, err
	}
	type cancellation struct {
		Current  string `xml:"currentSpotFleetRequestState"`
		Previous string `xml:"previousSpotFleetRequestState"`
		ID       string `xml:"spotFleetRequestId"`
	}
	type failure struct {
		Code    string `xml:"error>code"`
		Message string `xml:"error>message"`
		ID      string `xml:"spotFleetRequestId"`
	}
	v := &struct {
		header
		Cancelled set[cancellation] `xml:"successfulFleetRequestSet"`
		Failed    set[failure]      `xml:"unsuccessfulFleetRequestSet"`
	}{}
	for _, id := range wanted {
		f, err := spotFleets.find(c, id)
		switch {
		case !strings.HasPrefix(id, "sfr-"):
			v.Failed.Items = append(v.Failed.Items, failure{"fleetRequestIdMalformed", "The spot fleet request ID '" + id + "' is malformed", id})
		case err != nil:
			v.Failed.Items = append(v.Failed.Items, failure{"fleetRequestIdDoesNotExist", "The spot fleet request ID '" + id + "' does not exist", id})
		case f.State != "active":
			v.Failed.Items = append(v.Failed.Items, failure{"fleetRequestNotInCancellableState", "The fleet request is not in a cancellable state.", id})
		default:
			before, after, _ := c.region.DeleteFleet(c.now, id, terminate)
			v.Cancelled.Items = append(v.Cancelled.Items, cancellation{cancelled(after), before, id})
		}
	}
	return v, nil
}
