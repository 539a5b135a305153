package computeapi

import (
	"net/http"
	"path"
	"strings"
)

// thing is a resource around machines that clients look up: a network, its subnetwork, a disk. None can be created or changed.
type thing struct {
	Kind     string   `json:"kind"`
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Zone     string   `json:"zone,omitempty"`
	Region   string   `json:"region,omitempty"`
	Network  string   `json:"network,omitempty"`
	Range    string   `json:"ipCidrRange,omitempty"`
	Private  bool     `json:"privateIpGoogleAccess,omitempty"`
	Auto     *bool    `json:"autoCreateSubnetworks,omitempty"`
	SizeGiB  string   `json:"sizeGb,omitempty"`
	Type     string   `json:"type,omitempty"`
	Status   string   `json:"status,omitempty"`
	Users    []string `json:"users,omitempty"`
	SelfLink string   `json:"selfLink"`
}

func (c *call) thing(kind, name string, at ...string) thing {
	link := c.link(append(at, kind+"s", name)...)
	return thing{Kind: "compute#" + kind, ID: number(link), Name: name, SelfLink: link}
}

func networks(c *call) []thing {
	auto := true
	n := c.thing("network", "default", "global")
	n.Auto = &auto
	return []thing{n}
}

func subnetworks(c *call) []thing {
	s := c.thing("subnetwork", "default", "regions", c.region.Name())
	s.Region, s.Network, s.Range, s.Private = c.link("regions", c.region.Name()), c.link("global", "networks", "default"), "10.128.0.0/20", true
	return []thing{s}
}

// disks returns those of the existing machines, in one zone or, without one, in all.
func disks(c *call) (all []thing) {
	for _, i := range c.region.Instances(c.now) {
		if c.status(i) == "" || c.zone() != "" && i.Pool.Zone != c.zone() {
			continue
		}
		for _, d := range c.givenOf(i).Disks {
			one := c.thing("disk", path.Base(d.Source), "zones", i.Pool.Zone)
			one.Zone, one.SizeGiB, one.Status, one.Type = c.zoneLink(i.Pool.Zone), d.SizeGiB, "READY", c.link("zones", i.Pool.Zone, "diskTypes", "pd-balanced")
			one.Users = []string{c.link("zones", i.Pool.Zone, "instances", i.ID)}
			all = append(all, one)
		}
	}
	return all
}

func diskTypes(c *call) (all []thing) {
	for _, name := range []string{"pd-balanced", "pd-ssd", "pd-standard"} {
		t := c.thing("diskType", name, "zones", c.zone())
		t.Zone = c.zoneLink(c.zone())
		all = append(all, t)
	}
	return all
}

func nothing(*call) []thing { return nil }

// listThings answers a list.
func listThings(kind string, of func(*call) []thing) func(*call) (any, error) {
	return func(c *call) (any, error) {
		if err := c.checkPlace(); err != nil {
			return nil, err
		}
		page, next, err := list(c, of(c))
		return struct {
			Kind  string  `json:"kind"`
			ID    string  `json:"id"`
			Items []thing `json:"items,omitempty"`
			Next  string  `json:"nextPageToken,omitempty"`
		}{"compute#" + kind + "List", strings.TrimPrefix(c.URL.Path, "/compute/v1/"), page, next}, err
	}
}

func getThing(of func(*call) []thing) func(*call) (any, error) {
	return func(c *call) (any, error) {
		if err := c.checkPlace(); err != nil {
			return nil, err
		}
		for _, one := range of(c) {
			if one.Name == c.PathValue("name") {
				return one, nil
			}
		}
		return nil, refusalf(http.StatusNotFound, "notFound", "The resource '%s' was not found", strings.TrimPrefix(c.URL.Path, "/compute/v1/"))
	}
}

// checkPlace refuses another region's; zones have already been checked.
func (c *call) checkPlace() error {
	if c.PathValue("region") == "" {
		return nil
	}
	_, err := getRegion(c)
	return err
}

func aggregateDisks(c *call) (any, error) {
	page, next, err := list(c, disks(c))
	return aggregate(c, "disk", page, next, func(d thing) string { return d.Zone }), err
}
