package query

import (
	"cmp"
	"strconv"

	"github.com/tierml/tierml/fakecloud/internal/region"
)

// overrides reads every combination of template and override.
func (c *call) overrides() ([]region.Override, error) {
	var list []region.Override
	for _, n := range c.indices("LaunchTemplateConfigs") {
		config := item("LaunchTemplateConfigs", n)
		spec := config + ".LaunchTemplateSpecification"
		t, err := c.template(spec)
		if err != nil {
			return nil, err
		}
		q, err := c.launchRequest(t.Data)
		if err != nil {
			return nil, err
		}
		t.Data.Zone, t.Data.Groups = q.Zone, q.Groups
		numbers := c.indices(config + ".Overrides")
		if len(numbers) == 0 {
			list = append(list, region.Override{Template: t})
		}
		for _, m := range numbers {
			o := item(config+".Overrides", m)
			subnet, err := c.launchRequest(region.TemplateData{Zone: c.text(o + ".AvailabilityZone"), Subnet: c.text(o + ".SubnetId")})
			if err != nil {
				return nil, err
			}
			image, err := c.resolveImage(c.text(o + ".ImageId"))
			if err != nil {
				return nil, err
			}
			list = append(list, region.Override{
				Template: t, Type: c.text(o + ".InstanceType"), Zone: subnet.Zone, Image: image, MaxPrice: c.price(o + ".MaxPrice"),
				Weight: c.decimal(o + ".WeightedCapacity"), Priority: c.decimal(o + ".Priority"),
			})
		}
	}
	if len(list) == 0 {
		c.fail(region.Errorf("MissingParameter", "The request must contain the parameter LaunchTemplateConfigs"))
	}
	return list, nil
}

// capacity returns how many units are wanted on which terms.
func (c *call) capacity() (spot, onDemand float64) {
	const target = "TargetCapacitySpecification"
	c.required(target + ".TotalTargetCapacity")
	total := c.decimal(target + ".TotalTargetCapacity")
	spot, onDemand = c.decimal(target+".SpotTargetCapacity"), c.decimal(target+".OnDemandTargetCapacity")
	if kind := c.text(target + ".TargetCapacityUnitType"); kind != "" && kind != "units" {
		c.fail(region.Errorf("Unsupported", "Target capacity in %s is not supported here; use units.", kind))
	}
	rest := total - spot - onDemand
	if rest < 0 {
		c.fail(region.Errorf("InvalidParameterCombination", "Spot and On-Demand target capacity are more than the total."))
	}
	switch kind := c.text(target + ".DefaultTargetCapacityType"); kind {
	case "spot":
		spot += rest
	case "", "on-demand":
		onDemand += rest
	default:
		c.invalid(target+".DefaultTargetCapacityType", kind)
	}
	return spot, onDemand
}

func createFleet(c *call) (answer, error) {
	kind := cmp.Or(region.FleetKind(c.text("Type")), region.Maintain)
	if kind != region.Instant && kind != region.Once && kind != region.Maintain {
		c.invalid("Type", string(kind))
	}
	overrides, err := c.overrides()
	if err != nil {
		return nil, err
	}
	q := region.FleetRequest{
		Overrides: overrides, Min: c.decimal("SpotOptions.MinTargetCapacity"),
		SpotStrategy: c.text("SpotOptions.AllocationStrategy"), OnDemandStrategy: c.text("OnDemandOptions.AllocationStrategy"),
		Kind: kind, Token: c.clientToken(),
	}
	q.Spot, q.OnDemand = c.capacity()
	tags := c.tagSpecifications("TagSpecification", "instance", "fleet", "spot-instances-request", "volume")
	q.Tags, q.FleetTags = tags["instance"], tags["fleet"]
	if b := c.text("SpotOptions.InstanceInterruptionBehavior"); b != "" && b != "terminate" {
		c.fail(region.Errorf("Unsupported", "Interruption behavior %s is not supported here; use terminate.", b))
	}
	c.ignore("TerminateInstancesWithExpiration", "ReplaceUnhealthyInstances", "ExcessCapacityTerminationPolicy", "Context")
	c.unspoken("ValidFrom", "ValidUntil")
	q.MostSpot, q.MostOnDemand = c.price("SpotOptions.MaxTotalPrice"), c.price("OnDemandOptions.MaxTotalPrice")
	const rebalance = "SpotOptions.MaintenanceStrategies.CapacityRebalance.ReplacementStrategy"
	switch strategy := c.text(rebalance); {
	case strategy == "launch-before-terminate":
		c.fail(region.Errorf("Unsupported", "The replacement strategy %s is not supported here; use launch.", strategy))
	case strategy != "" && strategy != "launch":
		c.invalid(rebalance, strategy)
	case strategy != "" && kind != region.Maintain:
		c.fail(region.Errorf("InvalidParameterCombination", "Capacity rebalancing is for fleets of type maintain."))
	default:
		q.Rebalance = strategy != ""
	}
	q.Fingerprint = c.fingerprint()
	if err := c.ready(); err != nil {
		return nil, err
	}
	result, err := c.region.LaunchFleet(c.now, q)
	if err != nil {
		return nil, err
	}
	return &struct {
		header
		ID        string              `xml:"fleetId"`
		Errors    set[fleetError]     `xml:"errorSet"`
		Instances set[fleetInstances] `xml:"fleetInstanceSet"`
	}{ID: result.ID, Errors: setOf(result.Refused, fleetErrorShape), Instances: setOf(result.Bought, fleetInstancesShape)}, nil
}

type templateAndOverrides struct {
	Template struct {
		ID      string `xml:"launchTemplateId"`
		Version string `xml:"version"`
	} `xml:"launchTemplateSpecification"`
	Overrides fleetOverride `xml:"overrides"`
}

type fleetOverride struct {
	Type     string  `xml:"instanceType,omitempty"`
	MaxPrice string  `xml:"maxPrice,omitempty"`
	Zone     string  `xml:"availabilityZone,omitempty"`
	Weight   float64 `xml:"weightedCapacity,omitempty"`
	Priority float64 `xml:"priority,omitempty"`
}

func overrideShape(o region.Override) templateAndOverrides {
	var v templateAndOverrides
	v.Template.ID, v.Template.Version = o.Template.ID, strconv.Itoa(o.Template.Number)
	v.Overrides.Type, v.Overrides.Zone = o.Type, o.Zone
	v.Overrides.Weight, v.Overrides.Priority = o.Weight, o.Priority
	if o.MaxPrice != 0 {
		v.Overrides.MaxPrice = o.MaxPrice.String()
	}
	return v
}

type fleetError struct {
	Origin    templateAndOverrides `xml:"launchTemplateAndOverrides"`
	Lifecycle string               `xml:"lifecycle"`
	Code      string               `xml:"errorCode"`
	Message   string               `xml:"errorMessage"`
}

func fleetErrorShape(r region.FleetRefusal) fleetError {
	return fleetError{overrideShape(r.Override), string(r.Class), r.Err.Code, r.Err.Message}
}

type fleetInstances struct {
	Origin    templateAndOverrides `xml:"launchTemplateAndOverrides"`
	Lifecycle string               `xml:"lifecycle"`
	IDs       set[string]          `xml:"instanceIds"`
	Type      string               `xml:"instanceType"`
}

func fleetInstancesShape(b region.FleetInstances) fleetInstances {
	return fleetInstances{overrideShape(b.Override), string(b.Class), set[string]{b.IDs}, b.Pool.Type}
}
