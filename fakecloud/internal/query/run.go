package query

import (
	"cmp"
	"strings"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// withoutEffect are the parameters of a launch without a meaning on one machine.
var withoutEffect = []string{
	"AdditionalInfo", "BlockDeviceMapping", "CapacityReservationSpecification", "CpuOptions", "CreditSpecification",
	"DisableApiStop", "EnclaveOptions",
	"IamInstanceProfile", "InstanceInitiatedShutdownBehavior", "KernelId", "LicenseSpecification",
	"MaintenanceOptions", "MetadataOptions", "NetworkInterface", "PrivateDnsNameOptions",
	"PrivateIpAddress", "RamdiskId", "RamDiskId",
}

var placementWithoutEffect = []string{"Tenancy", "GroupName", "Affinity"}

// defaultType is EC2's.
const defaultType = "m1.small"

// spotOptions reads the requested market: InstanceMarketOptions below prefix.
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
	c.unspoken(options+".SpotOptions.ValidUntil", options+".SpotOptions.BlockDurationMinutes")
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

// templateData reads what launches and launch templates have in common.
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
		KeyName:  c.text(prefix + "KeyName"),
		Subnet:   c.text(prefix + "SubnetId"),
		Groups:   append(c.list(prefix+"SecurityGroupId"), c.list(prefix+"SecurityGroup")...),
	}
	d.Shown = region.Shown{EBSOptimized: c.boolean(prefix + "EbsOptimized"), Monitored: c.boolean(prefix + "Monitoring.Enabled"),
		Hibernation: c.boolean(prefix + "HibernationOptions.Configured"), Protected: c.boolean(prefix + "DisableApiTermination")}
	for _, n := range c.indices(prefix + "NetworkInterface") {
		card := item(prefix+"NetworkInterface", n)
		d.Subnet = cmp.Or(d.Subnet, c.text(card+".SubnetId"))
		if len(d.Groups) == 0 {
			d.Groups = c.list(card + ".SecurityGroupId")
		}
	}
	d.Spot, d.MaxPrice = c.spotOptions(prefix)
	tags := c.tagSpecifications(prefix+"TagSpecification", "instance", "spot-instances-request", "volume", "network-interface")
	d.Tags, d.RequestTags = tags["instance"], tags["spot-instances-request"]
	return d
}

func runInstances(c *call) (answer, error) {
	d := c.templateData("")
	if c.text("LaunchTemplate.LaunchTemplateId")+c.text("LaunchTemplate.LaunchTemplateName") != "" {
		t, err := c.template("LaunchTemplate")
		if err != nil {
			return nil, err
		}
		d = overlay(t.Data, d)
	}
	if d.Image == "" {
		c.fail(region.Errorf("MissingParameter", "The request must contain the parameter ImageId"))
	}
	d.Type = cmp.Or(d.Type, defaultType)
	q, err := c.launchRequest(d)
	if err != nil {
		return nil, err
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
	q.Min, q.Max, q.Token, q.Fingerprint = least, most, token, "RunInstances "+c.fingerprint()
	made, err := c.region.Launch(c.now, q)
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

// launchRequest looks up what a launch names: its subnet, which implies a zone, its groups and its key.
func (c *call) launchRequest(d region.TemplateData) (region.LaunchRequest, error) {
	if d.Spot && d.Protected {
		return region.LaunchRequest{}, region.Errorf("UnsupportedOperation", "'disableApiTermination' is not supported for spot instances.")
	}
	image, err := c.resolveImage(d.Image)
	if err != nil {
		return region.LaunchRequest{}, err
	}
	q := region.LaunchRequest{
		Type: d.Type, Zone: d.Zone, Image: image, Spot: d.Spot, MaxPrice: d.MaxPrice, UserData: d.UserData, Tags: d.Tags,
		RequestTags: d.RequestTags, KeyName: d.KeyName, Shown: d.Shown,
	}
	if d.Subnet != "" {
		s, ok := c.region.Resource(region.Subnet, d.Subnet)
		if !ok {
			return q, region.Errorf("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", d.Subnet)
		}
		if q.Zone != "" && q.Zone != s.Text {
			return q, region.Errorf("InvalidParameterValue", "The availability zone '%s' does not match the subnet's.", q.Zone)
		}
		q.Zone = s.Text
	}
	if d.KeyName != "" {
		if _, ok := c.region.Resource(region.KeyPair, d.KeyName); !ok {
			return q, region.Errorf("InvalidKeyPair.NotFound", "The key pair '%s' does not exist", d.KeyName)
		}
	}
	if len(d.Groups) == 0 {
		d.Groups = []string{region.DefaultGroup}
	}
	for _, name := range d.Groups {
		s, err := c.groupNamed(name)
		if err != nil {
			return q, err
		}
		q.Groups = append(q.Groups, s.ID)
	}
	return q, nil
}

// resolveImage looks up an image that is named by a public parameter of Systems Manager. Those of images name an architecture.
func (c *call) resolveImage(name string) (string, error) {
	parameter, named := strings.CutPrefix(name, "resolve:ssm:")
	if !named {
		return name, nil
	}
	for _, i := range c.region.Resources(region.Image) {
		if strings.HasPrefix(parameter, "/aws/service/") && strings.Contains(parameter, i.Text) {
			return i.ID, nil
		}
	}
	return "", region.Errorf("InvalidParameterValue", "The parameter %s of Systems Manager was not found.", parameter)
}

// overlay gives a call's parameters precedence over its template's.
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
	if over.Subnet != "" {
		base.Subnet = over.Subnet
	}
	if over.KeyName != "" {
		base.KeyName = over.KeyName
	}
	if len(over.Groups) > 0 {
		base.Groups = over.Groups
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
	base.EBSOptimized = base.EBSOptimized || over.EBSOptimized
	base.Monitored = base.Monitored || over.Monitored
	base.Hibernation = base.Hibernation || over.Hibernation
	base.Protected = base.Protected || over.Protected
	if over.RequestTags != nil {
		base.RequestTags = over.RequestTags
	}
	return base
}
