package query

import (
	"strings"

	"github.com/tierml/tierml/fakecloud/internal/region"
)

// An instance's view of its root disk and its network card: clients look there for its addresses, groups and volumes.

type disk struct {
	Device string `xml:"deviceName"`
	EBS    struct {
		Volume   string `xml:"volumeId"`
		Status   string `xml:"status"`
		Attached stamp  `xml:"attachTime"`
		Deleted  bool   `xml:"deleteOnTermination"`
	} `xml:"ebs"`
}

func rootDisk(i region.Instance) disk {
	d := disk{Device: rootDevice}
	d.EBS.Volume, d.EBS.Status, d.EBS.Attached, d.EBS.Deleted = attachedTo("vol", i), "attached", stamp(i.Launched), true
	return d
}

const rootDevice = "/dev/xvda"

// attachedTo derives the id of a resource that lives as long as an instance.
func attachedTo(prefix string, i region.Instance) string {
	return prefix + strings.TrimPrefix(i.ID, "i")
}

type card struct {
	ID           string        `xml:"networkInterfaceId"`
	Subnet       string        `xml:"subnetId"`
	VPC          string        `xml:"vpcId"`
	Owner        string        `xml:"ownerId"`
	Status       string        `xml:"status"`
	Kind         string        `xml:"interfaceType"`
	PrivateIP    string        `xml:"privateIpAddress"`
	PrivateDNS   string        `xml:"privateDnsName"`
	Checked      bool          `xml:"sourceDestCheck"`
	Groups       set[groupRef] `xml:"groupSet"`
	Attachment   attachment    `xml:"attachment"`
	Associated   *association  `xml:"association"`
	PrivateAddrs set[address]  `xml:"privateIpAddressesSet"`
}

type attachment struct {
	ID       string `xml:"attachmentId"`
	Device   int    `xml:"deviceIndex"`
	Status   string `xml:"status"`
	Attached stamp  `xml:"attachTime"`
	Deleted  bool   `xml:"deleteOnTermination"`
}

type association struct {
	PublicIP string `xml:"publicIp"`
	Owner    string `xml:"ipOwnerId"`
}

type address struct {
	IP         string       `xml:"privateIpAddress"`
	DNS        string       `xml:"privateDnsName"`
	Primary    bool         `xml:"primary"`
	Associated *association `xml:"association"`
}

// networkCard returns the card of an instance whose addresses and groups are known.
func networkCard(i region.Instance, v *instance) card {
	c := card{
		ID: attachedTo("eni", i), Subnet: v.Subnet, VPC: v.VPC, Owner: Account, Status: "in-use", Kind: "interface",
		PrivateIP: v.PrivateIP, PrivateDNS: v.PrivateDNS, Checked: true, Groups: v.Groups,
		Attachment: attachment{ID: attachedTo("eni-attach", i), Status: "attached", Attached: stamp(i.Launched), Deleted: true},
	}
	if i.State.Alive() {
		c.Associated = &association{PublicIP(i), "amazon"}
		if i.Elastic != "" {
			c.Associated.Owner = Account
		}
	}
	c.PrivateAddrs.Items = []address{{v.PrivateIP, v.PrivateDNS, true, c.Associated}}
	return c
}
