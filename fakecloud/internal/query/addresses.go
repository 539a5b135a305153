package query

import (
	"fmt"
	"slices"

	"github.com/tierml/tierml/fakecloud/internal/region"
)

// Elastic addresses are of the loopback interface, like machines' own (PublicIP), and beyond them.

// elasticAddress is a resource with the address as its name; the machine that has it knows.
type elasticAddress struct {
	IP          string   `xml:"publicIp" filter:"public-ip"`
	Allocation  string   `xml:"allocationId" filter:"allocation-id"`
	Association *string  `xml:"associationId" filter:"association-id"`
	Domain      string   `xml:"domain" filter:"domain"`
	Instance    *string  `xml:"instanceId" filter:"instance-id"`
	Card        *string  `xml:"networkInterfaceId" filter:"network-interface-id"`
	CardOwner   *string  `xml:"networkInterfaceOwnerId" filter:"network-interface-owner-id"`
	PrivateIP   *string  `xml:"privateIpAddress" filter:"private-ip-address"`
	Pool        string   `xml:"publicIpv4Pool"`
	Border      string   `xml:"networkBorderGroup" filter:"network-border-group"`
	Tags        *tagList `xml:"tagSet"`
}

func elasticShape(c *call, s region.Resource) elasticAddress {
	v := elasticAddress{IP: s.Name, Allocation: s.ID, Domain: "vpc", Pool: "amazon", Border: c.region.Name(), Tags: tagSet(s.Tags)}
	if i, ok := c.holder(s.Name); ok {
		association, card, owner, private := attachedTo("eipassoc", i), attachedTo("eni", i), Account, PrivateIP(i)
		v.Association, v.Instance, v.Card, v.CardOwner, v.PrivateIP = &association, &i.ID, &card, &owner, &private
	}
	return v
}

// holder returns the machine that has an elastic address. One that ends loses it.
func (c *call) holder(ip string) (region.Instance, bool) {
	for _, i := range shown(c) {
		if i.Elastic == ip {
			return i, true
		}
	}
	return region.Instance{}, false
}

func allocateAddress(c *call) (answer, error) {
	if domain := c.text("Domain"); domain != "" && domain != "vpc" {
		c.invalid("Domain", domain)
	}
	c.unspoken("Address", "PublicIpv4Pool", "NetworkBorderGroup", "CustomerOwnedIpv4Pool", "IpamPoolId")
	tags := c.tagSpecifications("TagSpecification", "elastic-ip")["elastic-ip"]
	if err := c.ready(); err != nil {
		return nil, err
	}
	ip := ""
	for n := 1; ; n++ {
		ip = fmt.Sprintf("127.255.%d.%d", n>>8, n&255)
		if _, taken := c.region.Resource(region.ElasticIP, ip); !taken {
			break
		}
	}
	return &struct {
		header
		elasticAddress
	}{elasticAddress: elasticShape(c, c.region.AddResource(c.now, "eipalloc", region.Resource{Kind: region.ElasticIP, Name: ip, Tags: tags}))}, nil
}

// address reads which address is meant.
func (c *call) address() func() (region.Resource, error) {
	id, ip := c.text("AllocationId"), c.text("PublicIp")
	if id == "" && ip == "" {
		c.required("AllocationId")
	}
	return func() (region.Resource, error) {
		if id == "" {
			s, ok := c.region.Resource(region.ElasticIP, ip)
			if !ok {
				return s, region.Errorf("InvalidAddress.NotFound", "Address '%s' not found.", ip)
			}
			return s, nil
		}
		s, ok := c.region.Resource(region.ElasticIP, id)
		if !ok {
			return s, region.Errorf("InvalidAllocationID.NotFound", "The allocation ID '%s' does not exist", id)
		}
		return s, nil
	}
}

func associateAddress(c *call) (answer, error) {
	address, instance, card, again := c.address(), c.text("InstanceId"), c.text("NetworkInterfaceId"), c.boolean("AllowReassociation")
	if instance == "" && card == "" {
		c.fail(region.Errorf("MissingParameter", "Either 'InstanceId' or 'NetworkInterfaceId' must be provided"))
	}
	c.unspoken("PrivateIpAddress")
	if err := c.ready(); err != nil {
		return nil, err
	}
	s, err := address()
	if err != nil {
		return nil, err
	}
	list := shown(c)
	n := slices.IndexFunc(list, func(i region.Instance) bool {
		return (instance == "" || i.ID == instance) && (card == "" || attachedTo("eni", i) == card)
	})
	if n < 0 && instance == "" {
		return nil, region.Errorf("InvalidNetworkInterfaceID.NotFound", "The networkInterface ID '%s' does not exist", card)
	} else if n < 0 {
		return nil, region.NotFound(instance)
	}
	i := list[n]
	if i.State == region.Pending {
		return nil, region.Errorf("InvalidInstanceID", "The pending instance '%s' is not in a valid state for this operation", i.ID)
	}
	before, held := c.holder(s.Name)
	if (held && before.ID != i.ID || i.Elastic != "" && i.Elastic != s.Name) && !again {
		return nil, region.Errorf("Resource.AlreadyAssociated", "resource %s is already associated", s.ID)
	}
	if held {
		err = c.setElastic(before.ID, "")
	}
	if err == nil {
		err = c.setElastic(i.ID, s.Name)
	}
	return &struct {
		header
		Return bool   `xml:"return"`
		ID     string `xml:"associationId"`
	}{Return: true, ID: attachedTo("eipassoc", i)}, err
}

func (c *call) setElastic(instance, ip string) error {
	return c.region.Modify(c.now, instance, func(i *region.Instance) error {
		i.Elastic = ip
		return nil
	})
}

func disassociateAddress(c *call) (answer, error) {
	id, ip := c.text("AssociationId"), c.text("PublicIp")
	if id == "" && ip == "" {
		c.required("AssociationId")
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	for _, i := range shown(c) {
		if i.Elastic != "" && (attachedTo("eipassoc", i) == id || i.Elastic == ip) {
			return &done{Return: true}, c.setElastic(i.ID, "")
		}
	}
	return nil, region.Errorf("InvalidAssociationID.NotFound", "The association ID '%s' does not exist", id)
}

func releaseAddress(c *call) (answer, error) {
	address := c.address()
	c.ignore("NetworkBorderGroup")
	if err := c.ready(); err != nil {
		return nil, err
	}
	s, err := address()
	if err != nil {
		return nil, err
	}
	if i, held := c.holder(s.Name); held {
		return nil, region.Errorf("InvalidIPAddress.InUse", "Address %s is in use by %s.", s.Name, i.ID)
	}
	c.region.RemoveResource(s.ID)
	return &done{Return: true}, nil
}

// networkACL is the default one of a VPC: it lets everything pass.
type networkACL struct {
	ID         string              `xml:"networkAclId" filter:"network-acl-id"`
	VPC        string              `xml:"vpcId" filter:"vpc-id"`
	Owner      string              `xml:"ownerId" filter:"owner-id"`
	Default    bool                `xml:"default" filter:"default"`
	Entries    set[aclEntry]       `xml:"entrySet"`
	Associated set[aclAssociation] `xml:"associationSet"`
}

type aclEntry struct {
	Number   int    `xml:"ruleNumber" filter:"entry.rule-number"`
	Protocol string `xml:"protocol" filter:"entry.protocol"`
	Action   string `xml:"ruleAction" filter:"entry.rule-action"`
	Egress   bool   `xml:"egress" filter:"entry.egress"`
	CIDR     string `xml:"cidrBlock" filter:"entry.cidr"`
}

type aclAssociation struct {
	ID     string `xml:"networkAclAssociationId" filter:"association.association-id"`
	ACL    string `xml:"networkAclId" filter:"association.network-acl-id"`
	Subnet string `xml:"subnetId" filter:"association.subnet-id"`
}

func aclShape(c *call, s region.Resource) networkACL {
	v := networkACL{ID: "acl-" + s.ID[len("vpc-"):], VPC: s.ID, Owner: Account, Default: true}
	for _, egress := range []bool{true, false} {
		v.Entries.Items = append(v.Entries.Items, aclEntry{100, "-1", "allow", egress, "0.0.0.0/0"}, aclEntry{32767, "-1", "deny", egress, "0.0.0.0/0"})
	}
	for _, subnet := range c.region.Resources(region.Subnet) {
		v.Associated.Items = append(v.Associated.Items, aclAssociation{"aclassoc-" + subnet.ID[len("subnet-"):], v.ID, subnet.ID})
	}
	return v
}
