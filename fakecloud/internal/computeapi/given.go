package computeapi

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/tierml/tierml/fakecloud/internal/region"
)

// given are properties of a machine that have no effect here and can be read back.
type given struct {
	Interfaces   []networkInterface `json:"networkInterfaces"`
	Disks        []attachedDisk     `json:"disks"`
	Accounts     []serviceAccount   `json:"serviceAccounts,omitempty"`
	Tags         networkTags        `json:"tags"`
	CanIPForward bool               `json:"canIpForward"`
	Platform     string             `json:"cpuPlatform"`
}

type networkInterface struct {
	Kind       string         `json:"kind,omitempty"`
	Name       string         `json:"name,omitempty"`
	Network    string         `json:"network,omitempty"`
	Subnetwork string         `json:"subnetwork,omitempty"`
	IP         string         `json:"networkIP,omitempty"`
	Stack      string         `json:"stackType,omitempty"`
	Type       string         `json:"nicType,omitempty"`
	Access     []accessConfig `json:"accessConfigs,omitempty"`
}

type accessConfig struct {
	Kind string `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
	Type string `json:"type,omitempty"`
	IP   string `json:"natIP,omitempty"`
	Tier string `json:"networkTier,omitempty"`
}

type attachedDisk struct {
	Kind       string `json:"kind"`
	Index      int    `json:"index"`
	Boot       bool   `json:"boot"`
	AutoDelete bool   `json:"autoDelete"`
	Name       string `json:"deviceName"`
	Mode       string `json:"mode"`
	Type       string `json:"type"`
	Source     string `json:"source"`
	SizeGiB    string `json:"diskSizeGb"`
	Interface  string `json:"interface"`
}

type serviceAccount struct {
	Email  string   `json:"email"`
	Scopes []string `json:"scopes,omitempty"`
}

type networkTags struct {
	Items       []string `json:"items,omitempty"`
	Fingerprint string   `json:"fingerprint,omitempty"`
}

// givenOf returns a machine's properties, completed as Compute Engine does. Machines of a restarted cloud have the defaults.
func (c *call) givenOf(i region.Instance) given {
	p := c.Handler.given[i.ID]
	g := given{Accounts: p.Accounts, CanIPForward: p.CanIPForward, Platform: "Intel Cascade Lake"}
	if p.Tags != nil {
		g.Tags = *p.Tags
	}
	g.Tags.Fingerprint = fingerprint(map[string]string{"tags": strings.Join(g.Tags.Items, ",")})
	for n, one := range append([]networkInterface(nil), p.Interfaces...) {
		g.Interfaces = append(g.Interfaces, c.completed(one, n, i))
	}
	if len(g.Interfaces) == 0 {
		g.Interfaces = []networkInterface{c.completed(networkInterface{}, 0, i)}
	}
	disks := p.Disks
	if len(disks) == 0 {
		disks = []disk{{Boot: true, AutoDelete: true}}
	}
	for n, d := range disks {
		name, size := i.ID, "10"
		if n > 0 {
			name = fmt.Sprintf("%s-%d", i.ID, n)
		}
		if d.Params != nil && len(d.Params.SizeGiB) > 0 {
			size = strings.Trim(string(d.Params.SizeGiB), `"`)
		}
		g.Disks = append(g.Disks, attachedDisk{Kind: "compute#attachedDisk", Index: n, Boot: d.Boot, AutoDelete: d.AutoDelete,
			Name: cmp.Or(d.Name, fmt.Sprintf("persistent-disk-%d", n)), Mode: cmp.Or(d.Mode, "READ_WRITE"), Type: cmp.Or(d.Type, "PERSISTENT"),
			Source: cmp.Or(d.Source, c.link("zones", i.Pool.Zone, "disks", name)), SizeGiB: size, Interface: "SCSI"})
	}
	return g
}

// completed is an interface with its address, which nothing listens on: machines share the loopback interface, their public address.
func (c *call) completed(one networkInterface, n int, i region.Instance) networkInterface {
	one.Kind, one.Name = "compute#networkInterface", fmt.Sprintf("nic%d", n)
	one.Network = cmp.Or(one.Network, c.link("global", "networks", "default"))
	one.Subnetwork = cmp.Or(one.Subnetwork, c.link("regions", c.region.Name(), "subnetworks", "default"))
	one.IP = cmp.Or(one.IP, fmt.Sprintf("10.128.%d.%d", n<<4|i.Number>>8&15, i.Number&255))
	access := append([]accessConfig(nil), one.Access...)
	for k := range access {
		access[k].Kind, access[k].Type = "compute#accessConfig", cmp.Or(access[k].Type, "ONE_TO_ONE_NAT")
		access[k].Name, access[k].Tier = cmp.Or(access[k].Name, "External NAT"), cmp.Or(access[k].Tier, "PREMIUM")
		access[k].IP = cmp.Or(access[k].IP, "127.0.0.1")
	}
	one.Access = access
	return one
}
