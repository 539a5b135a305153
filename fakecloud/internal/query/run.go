package query

import (
	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// withoutEffect are the parameters of a launch that mean nothing on one machine.
var withoutEffect = []string{
	"AdditionalInfo", "BlockDeviceMapping", "CapacityReservationSpecification", "CpuOptions", "CreditSpecification",
	"DisableApiStop", "DisableApiTermination", "EbsOptimized", "EnclaveOptions", "HibernationOptions",
	"IamInstanceProfile", "InstanceInitiatedShutdownBehavior", "KernelId", "KeyName", "LicenseSpecification",
	"MaintenanceOptions", "MetadataOptions", "Monitoring", "NetworkInterface", "PrivateDnsNameOptions",
	"PrivateIpAddress", "RamdiskId", "RamDiskId", "SecurityGroup", "SecurityGroupId", "SubnetId",
}

var placementWithoutEffect = []string{"Tenancy", "GroupName", "Affinity"}

// spotOptions reads the market that is asked for: InstanceMarketOptions below prefix.
func (c *call) spotOptions(prefix string) (spot bool, maxPrice market.USD) {
	options := prefix + "InstanceMarketOptions"
	kind := c.text(options + ".MarketType")
	maxPrice = c.price(options + ".SpotOptions.MaxPrice")
	if t := c.text(options + ".SpotOptions.SpotInstanceType"); t != "" && t != "one-time" {
		c.fail(region.Errorf("Unsupported", "Spot requests of type %s are not supported here; use one-time.", t))
	}
	if b := c.text(options + ".SpotOptions.InstanceInterruptionBehavior"); b != "" && b != "terminate" {
		c.fail(region.Errorf("Unsupported", "Interruption behavior %s is not supported here; use terminate.", b))
	}
	c.ignore(options + ".SpotOptions.ValidUntil")
	switch kind {
	case "spot":
		return true, maxPrice
	case "":
		if maxPrice != 0 {
			c.fail(region.Errorf("MissingParameter", "The request must contain the parameter MarketType"))
		}
	default:
		c.invalid(options+".MarketType", kind)
	}
	return false, 0
}

// templateData reads what a launch and a launch template have in common.
func (c *call) templateData(prefix string) region.TemplateData {
	for _, name := range withoutEffect {
		c.ignore(prefix + name)
	}
	for _, name := range placementWithoutEffect {
		c.ignore(prefix + "Placement." + name)
	}
	d := region.TemplateData{
		Type:     c.text(prefix + "InstanceType"),
		Zone:     c.text(prefix + "Placement.AvailabilityZone"),
		Image:    c.text(prefix + "ImageId"),
		UserData: c.base64(prefix + "UserData"),
	}
	d.Spot, d.MaxPrice = c.spotOptions(prefix)
	tags := c.tagSpecifications(prefix+"TagSpecification", "instance", "spot-instances-request", "volume", "network-interface")
	d.Tags, d.RequestTags = tags["instance"], tags["spot-instances-request"]
	return d
}

func runInstances(c *call) (answer, error) {
	d := c.templateData("")
	id, name := c.text("LaunchTemplate.LaunchTemplateId"), c.text("LaunchTemplate.LaunchTemplateName")
	c.ignore("LaunchTemplate.Version")
	if id != "" || name != "" {
		t, err := c.region.Template(id, name)
		if err != nil {
			return nil, err
		}
		d = overlay(t.Data, d)
	}
	if d.Image == "" {
		c.fail(region.Errorf("MissingParameter", "The request must contain the parameter ImageId"))
	}
	if d.Type == "" {
		d.Type = "m1.small" // EC2's default
	}
	least, most := c.number("MinCount", 0), c.number("MaxCount", 0)
	c.required("MinCount")
	c.required("MaxCount")
	if least < 1 || most < least || most > 1000 {
		c.fail(region.Errorf("InvalidParameterValue", "MinCount %d and MaxCount %d must be from 1 to 1000 and in order", least, most))
	}
	token := c.clientToken()
	if err := c.ready(); err != nil {
		return nil, err
	}
	made, err := c.region.Launch(c.now, region.LaunchRequest{
		Type: d.Type, Zone: d.Zone, Image: d.Image, Spot: d.Spot, MaxPrice: d.MaxPrice, Min: least, Max: most,
		UserData: d.UserData, Tags: d.Tags, RequestTags: d.RequestTags, Token: token, Fingerprint: "RunInstances " + c.fingerprint(),
	})
	if err != nil {
		return nil, err
	}
	return &struct {
		header
		ID        string        `xml:"reservationId"`
		Owner     string        `xml:"ownerId"`
		Groups    set[string]   `xml:"groupSet"`
		Instances set[instance] `xml:"instancesSet"`
	}{ID: made.ID, Owner: Account, Instances: setOf(made.Instances, c.instance)}, nil
}

// overlay takes what a call says over what its template says.
func overlay(base, over region.TemplateData) region.TemplateData {
	if over.Type != "" {
		base.Type = over.Type
	}
	if over.Zone != "" {
		base.Zone = over.Zone
	}
	if over.Image != "" {
		base.Image = over.Image
	}
	if len(over.UserData) > 0 {
		base.UserData = over.UserData
	}
	if over.Spot {
		base.Spot, base.MaxPrice = true, over.MaxPrice
	}
	if over.Tags != nil {
		base.Tags = over.Tags
	}
	if over.RequestTags != nil {
		base.RequestTags = over.RequestTags
	}
	return base
}
