package region

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Account holds everything of the account except machines: resources and launch templates.
type Account struct {
	names     namer
	templates []*Template
	resources []Resource // oldest first
}

// tags returns the tags of a thing; nil if it does not exist.
func (a *Account) tags(id string) *map[string]string {
	if n := slices.IndexFunc(a.templates, func(t *Template) bool { return t.ID == id }); n >= 0 {
		return &a.templates[n].Tags
	}
	if n := slices.IndexFunc(a.resources, func(s Resource) bool { return s.ID == id }); n >= 0 {
		return &a.resources[n].Tags
	}
	return nil
}

// Kind is a kind of resource.
type Kind string

// The kinds, by the words of EC2's tags.
const (
	Image           Kind = "image"
	VPC             Kind = "vpc"
	Subnet          Kind = "subnet"
	SecurityGroup   Kind = "security-group"
	KeyPair         Kind = "key-pair"
	InternetGateway Kind = "internet-gateway"
	RouteTable      Kind = "route-table"
	ElasticIP       Kind = "elastic-ip"
	Volume          Kind = "volume"
)

// Resource is something other than a machine that clients look up before they launch. None has any effect on a machine, except
// that a subnet implies its zone.
type Resource struct {
	Kind    Kind
	ID      string
	Name    string
	Text    string // a group's description, a subnet's zone, an image's architecture, a key's fingerprint
	Body    string // a key's public half
	Created time.Time
	Tags    map[string]string
	Rules   []Rule            // of a security group
	Given   map[string]string // of a volume
}

// Rule of a security group. It is stored and shown.
type Rule struct {
	ID          string
	Egress      bool
	Protocol    string // "tcp", "-1", ...
	From, To    int
	CIDR        string // exactly one of CIDR, CIDRv6, Group and Prefixes is set
	CIDRv6      string
	Group       string
	Prefixes    string
	Description string
}

// Same reports whether two rules allow the same.
func (u Rule) Same(v Rule) bool {
	u.ID, v.ID, u.Description, v.Description = "", "", "", ""
	return u == v
}

// DefaultGroup is the name of the group of machines that name none.
const DefaultGroup = "default"

// defaultResources returns those of a new account: a network with a subnet in each zone, its group, and an image for each
// architecture on sale. Their ids follow from the region's name and do not use up random numbers.
func defaultResources(c *Catalog) []Resource {
	id := func(prefix string, of ...string) string {
		return fmt.Sprintf("%s-%x", prefix, sha256.Sum256(fmt.Append(nil, c.config.Name, prefix, of)))[:len(prefix)+1+17]
	}
	list := []Resource{
		{Kind: VPC, ID: id("vpc")},
		{Kind: InternetGateway, ID: id("igw")},
		{Kind: RouteTable, ID: id("rtb")},
		{Kind: SecurityGroup, ID: id("sg"), Name: DefaultGroup, Text: "default VPC security group"},
	}
	group := &list[len(list)-1]
	group.Rules = []Rule{
		{ID: id("sgr", "in"), Protocol: "-1", From: -1, To: -1, Group: group.ID},
		{ID: id("sgr", "out"), Protocol: "-1", From: -1, To: -1, CIDR: "0.0.0.0/0", Egress: true},
	}
	for _, zone := range c.zones {
		list = append(list, Resource{Kind: Subnet, ID: id("subnet", zone), Text: zone})
	}
	arches := []string{}
	for _, t := range c.config.Types {
		arches = append(arches, t.Arch)
	}
	slices.Sort(arches)
	for _, arch := range slices.Compact(arches) {
		list = append(list, Resource{Kind: Image, ID: id("ami", arch), Name: "fakecloud-linux-" + arch, Text: arch})
	}
	return list
}

// Resources returns those of a kind, oldest first; all if kind is "".
func (a *Account) Resources(kind Kind) []Resource {
	var list []Resource
	for _, s := range a.resources {
		if s.Kind == kind || kind == "" {
			s.Tags, s.Rules, s.Given = maps.Clone(s.Tags), slices.Clone(s.Rules), maps.Clone(s.Given)
			list = append(list, s)
		}
	}
	return list
}

// Resource finds one by id or by name.
func (a *Account) Resource(kind Kind, idOrName string) (Resource, bool) {
	for _, s := range a.Resources(kind) {
		if s.ID == idOrName || s.Name == idOrName {
			return s, true
		}
	}
	return Resource{}, false
}

// AddResource stores a new one under a new id.
func (a *Account) AddResource(now time.Time, prefix string, s Resource) Resource {
	s.ID, s.Created = a.names.next(prefix), seconds(now)
	a.resources = append(a.resources, s)
	return s
}

// SetRules replaces the rules of a group and assigns ids to new ones.
func (a *Account) SetRules(group string, rules []Rule) []Rule {
	for n := range rules {
		if rules[n].ID == "" {
			rules[n].ID = a.names.next("sgr")
		}
	}
	for n := range a.resources {
		if a.resources[n].ID == group {
			a.resources[n].Rules = slices.Clone(rules)
		}
	}
	return rules
}

// SetGiven replaces what is given of a resource.
func (a *Account) SetGiven(id string, given map[string]string) {
	for n := range a.resources {
		if a.resources[n].ID == id {
			a.resources[n].Given = maps.Clone(given)
		}
	}
}

// RemoveResource removes one.
func (a *Account) RemoveResource(id string) {
	a.resources = slices.DeleteFunc(a.resources, func(s Resource) bool { return s.ID == id })
}
