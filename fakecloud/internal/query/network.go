package query

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/tierml/tierml/fakecloud/internal/region"
)

// This file shows the default network: its addresses are those of every default VPC of EC2.

const vpcCIDR = "172.31.0.0/16"

// zoneNumber is 0 for zone "...a", 1 for "...b": a default VPC has at most 16 subnets.
func zoneNumber(zone string) int { return int(zone[len(zone)-1]-'a') & 15 }

// privateAddress is in the subnet of the instance's zone. The first four addresses of a subnet are reserved by EC2. The addresses repeat
// after 4091 launches.
func privateAddress(i region.Instance) (a, b, c, d int) {
	n := (i.Number-1)%4091 + 4
	return 172, 31, zoneNumber(i.Pool.Zone)<<4 | n>>8, n & 255
}

// PrivateIP returns an address of the instance's subnet. Nothing listens there: machines reach each other over the loopback
// interface.
func PrivateIP(i region.Instance) string {
	a, b, c, d := privateAddress(i)
	return fmt.Sprintf("%d.%d.%d.%d", a, b, c, d)
}

// PrivateDNS returns the name in EC2's form.
func PrivateDNS(i region.Instance) string {
	a, b, c, d := privateAddress(i)
	return fmt.Sprintf("ip-%d-%d-%d-%d.%s.compute.internal", a, b, c, d, i.Pool.Region)
}

// PublicIP returns an address of the loopback interface that differs among 16 million machines: on Linux, an instance's servers on all
// addresses are reachable there.
func PublicIP(i region.Instance) string {
	if i.Elastic != "" {
		return i.Elastic
	}
	return fmt.Sprintf("127.%d.%d.%d", i.Number>>16&255, i.Number>>8&255, i.Number&255)
}

// first finds the only resource of a kind.
func (c *call) first(kind region.Kind) string {
	for _, s := range c.region.Resources(kind) {
		return s.ID
	}
	return ""
}

func (c *call) subnetOf(zone string) string {
	for _, s := range c.region.Resources(region.Subnet) {
		if s.Text == zone {
			return s.ID
		}
	}
	return ""
}

func arn(name string, c *call, kind region.Kind, id string) string {
	return "arn:aws:" + name + ":" + c.region.Name() + ":" + Account + ":" + string(kind) + "/" + id
}

type vpc struct {
	ID      string `xml:"vpcId" filter:"vpc-id"`
	Owner   string `xml:"ownerId" filter:"owner-id"`
	State   string `xml:"state" filter:"state"`
	CIDR    string `xml:"cidrBlock" filter:"cidr,cidr-block,cidrBlock"`
	Options string `xml:"dhcpOptionsId" filter:"dhcp-options-id"`
	Tenancy string `xml:"instanceTenancy"`
	Default bool   `xml:"isDefault" filter:"is-default,isDefault"`
	CIDRs   struct {
		ID    string `xml:"associationId" filter:"cidr-block-association.association-id"`
		CIDR  string `xml:"cidrBlock" filter:"cidr-block-association.cidr-block"`
		State string `xml:"cidrBlockState>state" filter:"cidr-block-association.state"`
	} `xml:"cidrBlockAssociationSet>item"`
	Tags *tagList `xml:"tagSet"`
}

func vpcShape(_ *call, s region.Resource) vpc {
	v := vpc{ID: s.ID, Owner: Account, State: "available", CIDR: vpcCIDR, Options: "default", Tenancy: "default", Default: true, Tags: tagSet(s.Tags)}
	v.CIDRs.ID, v.CIDRs.CIDR, v.CIDRs.State = "vpc-cidr-assoc-"+s.ID[len("vpc-"):], vpcCIDR, "associated"
	return v
}

type subnet struct {
	ID        string      `xml:"subnetId" filter:"subnet-id"`
	ARN       string      `xml:"subnetArn" filter:"subnet-arn"`
	State     string      `xml:"state" filter:"state"`
	Owner     string      `xml:"ownerId" filter:"owner-id"`
	VPC       string      `xml:"vpcId" filter:"vpc-id"`
	CIDR      string      `xml:"cidrBlock" filter:"cidr-block,cidr,cidrBlock"`
	Addresses int         `xml:"availableIpAddressCount" filter:"available-ip-address-count"`
	Zone      string      `xml:"availabilityZone" filter:"availability-zone,availabilityZone"`
	ZoneID    string      `xml:"availabilityZoneId" filter:"availability-zone-id,availabilityZoneId"`
	Default   bool        `xml:"defaultForAz" filter:"default-for-az,defaultForAz"`
	Public    bool        `xml:"mapPublicIpOnLaunch" filter:"map-public-ip-on-launch"`
	V6        bool        `xml:"assignIpv6AddressOnCreation"`
	V6CIDRs   set[string] `xml:"ipv6CidrBlockAssociationSet"`
	Tags      *tagList    `xml:"tagSet"`
}

func subnetShape(c *call, s region.Resource) subnet {
	used := 0
	for _, i := range c.region.Instances(c.now) {
		if i.Pool.Zone == s.Text && i.State != region.Terminated {
			used++
		}
	}
	return subnet{
		ID: s.ID, ARN: arn("ec2", c, s.Kind, s.ID), State: "available", Owner: Account, VPC: c.first(region.VPC),
		CIDR: fmt.Sprintf("172.31.%d.0/20", zoneNumber(s.Text)<<4), Addresses: max(0, 4091-used), Zone: s.Text,
		ZoneID: zoneID(c.region.Name(), slices.Index(c.region.Zones(), s.Text)), Default: true, Public: true, Tags: tagSet(s.Tags),
	}
}

type gateway struct {
	ID       string   `xml:"internetGatewayId" filter:"internet-gateway-id"`
	Owner    string   `xml:"ownerId" filter:"owner-id"`
	VPC      string   `xml:"attachmentSet>item>vpcId" filter:"attachment.vpc-id"`
	Attached string   `xml:"attachmentSet>item>state" filter:"attachment.state"`
	Tags     *tagList `xml:"tagSet"`
}

func gatewayShape(c *call, s region.Resource) gateway {
	return gateway{s.ID, Account, c.first(region.VPC), "available", tagSet(s.Tags)}
}

type routeTable struct {
	ID         string     `xml:"routeTableId" filter:"route-table-id"`
	VPC        string     `xml:"vpcId" filter:"vpc-id"`
	Owner      string     `xml:"ownerId" filter:"owner-id"`
	Routes     set[route] `xml:"routeSet"`
	Associated struct {
		ID    string `xml:"routeTableAssociationId" filter:"association.route-table-association-id"`
		Table string `xml:"routeTableId" filter:"association.route-table-id"`
		Main  bool   `xml:"main" filter:"association.main"`
		State string `xml:"associationState>state"`
	} `xml:"associationSet>item"`
	Subnets set[string] `xml:"-" filter:"association.subnet-id"` // none: they follow the main table
	Tags    *tagList    `xml:"tagSet"`
}

type route struct {
	To      string `xml:"destinationCidrBlock" filter:"route.destination-cidr-block"`
	Gateway string `xml:"gatewayId" filter:"route.gateway-id"`
	State   string `xml:"state" filter:"route.state"`
	Origin  string `xml:"origin" filter:"route.origin"`
}

func routeTableShape(c *call, s region.Resource) routeTable {
	v := routeTable{ID: s.ID, VPC: c.first(region.VPC), Owner: Account, Tags: tagSet(s.Tags), Routes: set[route]{[]route{
		{vpcCIDR, "local", "active", "CreateRouteTable"}, {"0.0.0.0/0", c.first(region.InternetGateway), "active", "CreateRoute"},
	}}}
	v.Associated.ID, v.Associated.Table, v.Associated.Main, v.Associated.State = "rtbassoc-"+s.ID[len("rtb-"):], s.ID, true, "associated"
	return v
}

type image struct {
	ID             string      `xml:"imageId" filter:"image-id"`
	Location       string      `xml:"imageLocation"`
	State          string      `xml:"imageState" filter:"state"`
	Owner          string      `xml:"imageOwnerId" filter:"owner-id"`
	OwnerAlias     string      `xml:"imageOwnerAlias" filter:"owner-alias"`
	Created        string      `xml:"creationDate" filter:"creation-date"`
	Public         bool        `xml:"isPublic" filter:"is-public"`
	Architecture   string      `xml:"architecture" filter:"architecture"`
	Type           string      `xml:"imageType" filter:"image-type"`
	Name           string      `xml:"name" filter:"name"`
	Description    string      `xml:"description" filter:"description"`
	RootDeviceType string      `xml:"rootDeviceType" filter:"root-device-type"`
	RootDevice     string      `xml:"rootDeviceName" filter:"root-device-name"`
	Devices        set[device] `xml:"blockDeviceMapping"`
	Virtualization string      `xml:"virtualizationType" filter:"virtualization-type"`
	Hypervisor     string      `xml:"hypervisor" filter:"hypervisor"`
	ENA            bool        `xml:"enaSupport" filter:"ena-support"`
	Platform       string      `xml:"platformDetails" filter:"platform-details"`
	Usage          string      `xml:"usageOperation" filter:"usage-operation"`
	Tags           *tagList    `xml:"tagSet"`
}

type device struct {
	Name   string `xml:"deviceName" filter:"block-device-mapping.device-name"`
	Size   int    `xml:"ebs>volumeSize" filter:"block-device-mapping.volume-size"`
	Kind   string `xml:"ebs>volumeType" filter:"block-device-mapping.volume-type"`
	Delete bool   `xml:"ebs>deleteOnTermination" filter:"block-device-mapping.delete-on-termination"`
	Snap   string `xml:"ebs>snapshotId" filter:"block-device-mapping.snapshot-id"`
	Sealed bool   `xml:"ebs>encrypted" filter:"block-device-mapping.encrypted"`
}

// imageOwner is Amazon's account number for its Linux images.
const imageOwner = "137112412989"

func imageShape(_ *call, s region.Resource) image {
	return image{
		ID: s.ID, Location: "amazon/" + s.Name, State: "available", Owner: imageOwner, OwnerAlias: "amazon",
		Created: "2014-01-01T00:00:00.000Z", Public: true, Architecture: s.Text, Type: "machine", Name: s.Name,
		Description: "Every image runs the same command here", RootDeviceType: "ebs", RootDevice: "/dev/xvda",
		Devices:        set[device]{[]device{{"/dev/xvda", 8, "gp2", true, "snap-" + s.ID[len("ami-"):], false}}},
		Virtualization: "hvm", Hypervisor: "xen", ENA: true, Platform: "Linux/UNIX", Usage: "RunInstances", Tags: tagSet(s.Tags),
	}
}

// images returns the images of the requested owners.
func images(c *call) []image {
	c.ignore("ExecutableBy", "IncludeDeprecated", "IncludeDisabled")
	owners := c.list("Owner")
	held := slices.DeleteFunc(of(region.Image, imageShape)(c), func(i image) bool {
		return len(owners) > 0 && !slices.Contains(owners, i.Owner) && !slices.Contains(owners, i.OwnerAlias)
	})
	return append(held, broughtImages(c, owners)...)
}

// broughtImages returns the images of tools that bring their own, requested by a name and the number of another account, which owns them:
// since every image can be launched here, all exist. Of patterns only the first has one.
func broughtImages(c *call, owners []string) (list []image) {
	for _, f := range c.filters() {
		if f.name != "name" {
			continue
		}
		for _, owner := range owners {
			if len(owner) != len(Account) || strings.Trim(owner, "0123456789") != "" || owner == Account || owner == imageOwner {
				continue
			}
			exact := slices.DeleteFunc(slices.Clone(f.values), func(name string) bool { return strings.ContainsAny(name, "*?") })
			if len(exact) == 0 {
				exact = []string{strings.NewReplacer("*", "1", "?", "1").Replace(f.values[0])}
			}
			for _, name := range exact {
				sum := sha256.Sum256([]byte(owner + "/" + name))
				i := imageShape(c, region.Resource{Kind: region.Image, ID: "ami-" + hex.EncodeToString(sum[:])[:17], Name: name, Text: "x86_64"})
				i.Owner, i.OwnerAlias, i.Location = owner, "", owner+"/"+name
				list = append(list, i)
			}
		}
	}
	return list
}

type accountAttribute struct {
	Name   string `xml:"attributeName"`
	Values struct {
		Value string `xml:"item>attributeValue"`
	} `xml:"attributeValueSet"`
}

func describeAccountAttributes(c *call) (answer, error) {
	wanted := c.list("AttributeName")
	if err := c.ready(); err != nil {
		return nil, err
	}
	v := &listing[accountAttribute]{}
	v.Set.XMLName.Local = "accountAttributeSet"
	for _, a := range [][2]string{{"supported-platforms", "VPC"}, {"default-vpc", c.first(region.VPC)}} {
		if len(wanted) == 0 || slices.Contains(wanted, a[0]) {
			one := accountAttribute{Name: a[0]}
			one.Values.Value = a[1]
			v.Set.Items = append(v.Set.Items, one)
		}
	}
	return v, nil
}
