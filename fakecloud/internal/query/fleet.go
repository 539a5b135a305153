package query

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/fakecloud/internal/region"
)

// overrides reads every combination of template and override below a parameter. Spot Fleet calls the maximum price SpotPrice.
func (c *call) overrides(configs, price string) ([]region.Override, error) {
	var list []region.Override
	for _, n := range c.indices(configs) {
		config := item(configs, n)
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
			list = append(list, c.byNeeds(o, region.Override{
				Template: t, Type: c.text(o + ".InstanceType"), Zone: subnet.Zone, Image: image, MaxPrice: c.price(o + "." + price),
				Weight: c.decimal(o + ".WeightedCapacity"), Priority: c.decimal(o + ".Priority"),
			})...)
		}
	}
	if len(list) == 0 {
		c.fail(region.Errorf("MissingParameter", "The request must contain the parameter %s", configs))
	}
	return list, nil
}

// byNeeds returns an override for each type that meets the requirements below a parameter, or the override itself without any.
func (c *call) byNeeds(prefix string, o region.Override) (list []region.Override) {
	prefix += ".InstanceRequirements"
	given := c.below(prefix)
	if len(given) == 0 {
		return []region.Override{o}
	}
	if o.Type != "" {
		c.fail(region.Errorf("InvalidParameterCombination", "InstanceType and InstanceRequirements cannot both be specified."))
	}
	meets := c.requirements(prefix)
	image, known := c.region.Resource(region.Image, cmp.Or(o.Image, o.Template.Data.Image))
	for _, t := range c.region.Types() {
		if meets(t) && (!known || t.Arch == image.Text) {
			o.Type, o.Needs = t.Name, given
			list = append(list, o)
		}
	}
	if len(list) == 0 {
		c.fail(region.Errorf("InvalidParameterValue", "No instance types meet the requirements of %s.", prefix))
	}
	return list
}

// below returns the parameters below a name.
func (p *params) below(name string) map[string]string {
	all := make(map[string]string)
	for full := range p.form {
		if rest, ok := strings.CutPrefix(full, name+"."); ok {
			all[rest] = p.form.Get(full)
		}
	}
	return all
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
	overrides, err := c.overrides("LaunchTemplateConfigs", "MaxPrice")
	if err != nil {
		return nil, err
	}
	q := region.FleetRequest{
		Overrides: overrides, Min: c.decimal("SpotOptions.MinTargetCapacity"),
		SpotStrategy:     c.among("SpotOptions.AllocationStrategy", spotStrategies),
		OnDemandStrategy: c.among("OnDemandOptions.AllocationStrategy", onDemandStrategies),
		Kind:             kind, Token: c.clientToken(), Until: c.time("ValidUntil"), EndAtUntil: c.boolean("TerminateInstancesWithExpiration"),
		KeepExcess: c.among("ExcessCapacityTerminationPolicy", excessPolicies) == "no-termination",
	}
	if !q.Until.IsZero() && (kind == region.Instant || !q.Until.After(c.now)) {
		c.invalid("ValidUntil", c.text("ValidUntil"))
	}
	q.Spot, q.OnDemand = c.capacity()
	tags := c.tagSpecifications("TagSpecification", "instance", "fleet", "spot-instances-request", "volume")
	q.Tags, q.FleetTags = tags["instance"], tags["fleet"]
	c.ignore("ReplaceUnhealthyInstances", "Context")
	c.unspoken("ValidFrom", "SpotOptions.InstancePoolsToUseCount", "SpotOptions.SingleInstanceType", "SpotOptions.SingleAvailabilityZone",
		"OnDemandOptions.MinTargetCapacity", "OnDemandOptions.CapacityReservationOptions")
	q.MostSpot, q.MostOnDemand = c.price("SpotOptions.MaxTotalPrice"), c.price("OnDemandOptions.MaxTotalPrice")
	c.interruptions("SpotOptions.InstanceInterruptionBehavior")
	q.Rebalance = c.rebalance("SpotOptions.MaintenanceStrategies.CapacityRebalance", kind)
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

// The words of fleets.
var (
	spotStrategies     = []string{"lowest-price", "diversified", "capacity-optimized", "capacity-optimized-prioritized", "price-capacity-optimized"}
	onDemandStrategies = []string{"lowest-price", "prioritized"}
	excessPolicies     = []string{"no-termination", "termination"}
)

// among reads one of the words.
func (p *params) among(name string, words []string) string {
	word := p.text(name)
	if word != "" && !slices.Contains(words, word) {
		p.invalid(name, word)
	}
	return word
}

// interruptions reads what becomes of interrupted machines.
func (p *params) interruptions(name string) {
	if b := p.among(name, []string{"terminate", "stop", "hibernate"}); b != "" && b != "terminate" {
		p.fail(region.Errorf("Unsupported", "Interruption behavior %s is not supported here; use terminate.", b))
	}
}

// rebalance reads whether machines with a recommendation are replaced.
func (p *params) rebalance(prefix string, kind region.FleetKind) bool {
	name := prefix + ".ReplacementStrategy"
	strategy := p.among(name, []string{"launch", "launch-before-terminate"})
	switch {
	case strategy == "launch-before-terminate":
		p.fail(region.Errorf("Unsupported", "The replacement strategy %s is not supported here; use launch.", strategy))
	case strategy != "" && kind != region.Maintain:
		p.fail(region.Errorf("InvalidParameterCombination", "Capacity rebalancing is for fleets of type maintain."))
	}
	p.unspoken(prefix + ".TerminationDelay")
	return strategy != ""
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
	Needs    *node
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
