package query

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"strconv"

	"github.com/tierml/tierml/fakecloud/internal/region"
)

type securityGroup struct {
	ID          string          `xml:"groupId" filter:"group-id"`
	ARN         string          `xml:"securityGroupArn"`
	Name        string          `xml:"groupName" filter:"group-name"`
	Description string          `xml:"groupDescription" filter:"description"`
	Owner       string          `xml:"ownerId" filter:"owner-id"`
	VPC         string          `xml:"vpcId" filter:"vpc-id"`
	In          set[permission] `xml:"ipPermissions" prefix:"ip-permission."`
	Out         set[permission] `xml:"ipPermissionsEgress" prefix:"egress.ip-permission."`
	Tags        *tagList        `xml:"tagSet"`
}

// permission holds all rules of one protocol and range of ports.
type permission struct {
	Protocol string         `xml:"ipProtocol" filter:"protocol"`
	From     *int           `xml:"fromPort" filter:"from-port"`
	To       *int           `xml:"toPort" filter:"to-port"`
	Groups   set[groupPair] `xml:"groups"`
	V4       set[v4Range]   `xml:"ipRanges"`
	V6       set[v6Range]   `xml:"ipv6Ranges"`
	Prefixes set[prefixes]  `xml:"prefixListIds"`
}

type groupPair struct {
	Owner       string `xml:"userId" filter:"user-id"`
	ID          string `xml:"groupId" filter:"group-id"`
	Description string `xml:"description,omitempty"`
}

type v4Range struct {
	CIDR        string `xml:"cidrIp" filter:"cidr"`
	Description string `xml:"description,omitempty"`
}

type v6Range struct {
	CIDR        string `xml:"cidrIpv6" filter:"ipv6-cidr"`
	Description string `xml:"description,omitempty"`
}

type prefixes struct {
	ID          string `xml:"prefixListId" filter:"prefix-list-id"`
	Description string `xml:"description,omitempty"`
}

func groupShape(c *call, s region.Resource) securityGroup {
	v := securityGroup{
		ID: s.ID, ARN: arn("ec2", c, s.Kind, s.ID), Name: s.Name, Description: s.Text, Owner: Account, VPC: c.first(region.VPC),
		Tags: tagSet(s.Tags),
	}
	for _, rule := range s.Rules {
		list := &v.In
		if rule.Egress {
			list = &v.Out
		}
		list.Items = withRule(list.Items, rule)
	}
	return v
}

func ports(r region.Rule) (from, to *int) {
	if r.Protocol == "-1" {
		return nil, nil
	}
	return &r.From, &r.To
}

func same(a, b *int) bool { return a == b || a != nil && b != nil && *a == *b }

func withRule(list []permission, r region.Rule) []permission {
	from, to := ports(r)
	n := slices.IndexFunc(list, func(p permission) bool { return p.Protocol == r.Protocol && same(p.From, from) && same(p.To, to) })
	if n < 0 {
		n = len(list)
		list = append(list, permission{Protocol: r.Protocol, From: from, To: to})
	}
	p := &list[n]
	switch {
	case r.Group != "":
		p.Groups.Items = append(p.Groups.Items, groupPair{Account, r.Group, r.Description})
	case r.CIDR != "":
		p.V4.Items = append(p.V4.Items, v4Range{r.CIDR, r.Description})
	case r.CIDRv6 != "":
		p.V6.Items = append(p.V6.Items, v6Range{r.CIDRv6, r.Description})
	default:
		p.Prefixes.Items = append(p.Prefixes.Items, prefixes{r.Prefixes, r.Description})
	}
	return list
}

// groupRule is a rule with its own id.
type groupRule struct {
	ID          string `xml:"securityGroupRuleId" filter:"security-group-rule-id"`
	Group       string `xml:"groupId" filter:"group-id"`
	Owner       string `xml:"groupOwnerId"`
	Egress      bool   `xml:"isEgress"`
	Protocol    string `xml:"ipProtocol"`
	From        int    `xml:"fromPort"`
	To          int    `xml:"toPort"`
	CIDR        string `xml:"cidrIpv4,omitempty"`
	CIDRv6      string `xml:"cidrIpv6,omitempty"`
	Prefixes    string `xml:"prefixListId,omitempty"`
	Referenced  *pair  `xml:"referencedGroupInfo"`
	Description string `xml:"description,omitempty"`
}

type pair struct {
	ID    string `xml:"groupId"`
	Owner string `xml:"userId"`
}

func ruleShapes(group string, rules []region.Rule) (list []groupRule) {
	for _, r := range rules {
		v := groupRule{ID: r.ID, Group: group, Owner: Account, Egress: r.Egress, Protocol: r.Protocol, From: r.From, To: r.To,
			CIDR: r.CIDR, CIDRv6: r.CIDRv6, Prefixes: r.Prefixes, Description: r.Description}
		if r.Group != "" {
			v.Referenced = &pair{r.Group, Account}
		}
		list = append(list, v)
	}
	return list
}

func groupRules(c *call) (list []groupRule) {
	for _, s := range c.region.Resources(region.SecurityGroup) {
		list = append(list, ruleShapes(s.ID, s.Rules)...)
	}
	return list
}

// group finds the group of a call.
func (c *call) group() (region.Resource, error) {
	id, name := c.text("GroupId"), c.text("GroupName")
	if id == "" && name == "" {
		return region.Resource{}, region.Errorf("MissingParameter", "The request must contain the parameter GroupName or GroupId")
	}
	return c.groupNamed(cmp.Or(id, name))
}

func (c *call) groupNamed(name string) (region.Resource, error) {
	s, ok := c.region.Resource(region.SecurityGroup, name)
	if !ok {
		return s, region.Errorf("InvalidGroup.NotFound", "The security group '%s' does not exist", name)
	}
	return s, nil
}

func createSecurityGroup(c *call) (answer, error) {
	s := region.Resource{
		Kind: region.SecurityGroup, Name: c.required("GroupName"), Text: c.required("GroupDescription"),
		Tags:  c.tagSpecifications("TagSpecification", "security-group")["security-group"],
		Rules: []region.Rule{{Protocol: "-1", From: -1, To: -1, CIDR: "0.0.0.0/0", Egress: true}},
	}
	network := c.text("VpcId")
	if err := c.ready(); err != nil {
		return nil, err
	}
	if network != "" && network != c.first(region.VPC) {
		return nil, region.Errorf("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", network)
	}
	if _, taken := c.region.Resource(region.SecurityGroup, s.Name); taken {
		return nil, region.Errorf("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'", s.Name, c.first(region.VPC))
	}
	rules := s.Rules
	s = c.region.AddResource(c.now, "sg", s)
	c.region.SetRules(s.ID, rules)
	return &struct {
		header
		Return bool     `xml:"return"`
		ID     string   `xml:"groupId"`
		ARN    string   `xml:"securityGroupArn"`
		Tags   *tagList `xml:"tagSet"`
	}{Return: true, ID: s.ID, ARN: arn("ec2", c, s.Kind, s.ID), Tags: tagSet(s.Tags)}, nil
}

func deleteSecurityGroup(c *call) (answer, error) {
	s, err := c.group()
	if err != nil {
		return nil, err
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	if s.Name == region.DefaultGroup {
		return nil, region.Errorf("CannotDelete", "the specified group: \"%s\" name: \"%s\" cannot be deleted by a user", s.ID, s.Name)
	}
	for _, i := range c.region.Instances(c.now) {
		if slices.Contains(i.Groups, s.ID) && i.State != region.Terminated {
			return nil, region.Errorf("DependencyViolation", "resource %s has a dependent object", s.ID)
		}
	}
	for _, other := range c.region.Resources(region.SecurityGroup) {
		if other.ID != s.ID && slices.ContainsFunc(other.Rules, func(r region.Rule) bool { return r.Group == s.ID }) {
			return nil, region.Errorf("DependencyViolation", "resource %s has a dependent object", s.ID)
		}
	}
	c.region.RemoveResource(s.ID)
	return &struct {
		header
		Return bool   `xml:"return"`
		ID     string `xml:"groupId"`
	}{Return: true, ID: s.ID}, nil
}

// rules parses IpPermissions, or the older parameters of one rule.
func (c *call) rules(egress bool) (list []region.Rule) {
	permission := func(prefix string, from func(base region.Rule)) {
		base := region.Rule{Egress: egress, Protocol: protocolName(c.text(prefix + "IpProtocol"))}
		base.From, base.To = c.number(prefix+"FromPort", -1), c.number(prefix+"ToPort", -1)
		if base.Protocol == "-1" {
			base.From, base.To = -1, -1
		}
		from(base)
	}
	if c.form.Get("IpProtocol") != "" {
		permission("", func(r region.Rule) {
			if name := c.text("SourceSecurityGroupName"); name != "" {
				r.Group = c.groupID(name)
			} else {
				r.CIDR = c.cidr("CidrIp")
			}
			c.ignore("SourceSecurityGroupOwnerId")
			list = append(list, r)
		})
	}
	for _, n := range c.indices("IpPermissions") {
		prefix := item("IpPermissions", n) + "."
		c.required(prefix + "IpProtocol")
		permission(prefix, func(base region.Rule) {
			each := func(name string, read func(at string, r *region.Rule)) {
				for _, m := range c.indices(prefix + name) {
					r, at := base, item(prefix+name, m)+"."
					r.Description = c.text(at + "Description")
					read(at, &r)
					list = append(list, r)
				}
			}
			each("IpRanges", func(at string, r *region.Rule) { r.CIDR = c.cidr(at + "CidrIp") })
			each("Ipv6Ranges", func(at string, r *region.Rule) { r.CIDRv6 = c.cidr(at + "CidrIpv6") })
			each("PrefixListIds", func(at string, r *region.Rule) { r.Prefixes = c.required(at + "PrefixListId") })
			each("Groups", func(at string, r *region.Rule) {
				id, name := c.text(at+"GroupId"), c.text(at+"GroupName")
				c.ignore(at+"UserId", at+"VpcId")
				r.Group = c.groupID(cmp.Or(id, name))
			})
		})
	}
	return list
}

// protocolName returns the displayed names of common protocol numbers.
func protocolName(p string) string {
	return cmp.Or(map[string]string{"6": "tcp", "17": "udp", "1": "icmp", "all": "-1"}[p], p)
}

func (c *call) groupID(name string) string {
	s, err := c.groupNamed(name)
	var refused *region.Error
	if errors.As(err, &refused) {
		c.fail(refused)
	}
	return s.ID
}

func (c *call) cidr(name string) string {
	v := c.required(name)
	if _, err := netip.ParsePrefix(v); err != nil && v != "" {
		c.fail(region.Errorf("InvalidParameterValue", "CIDR block %s is malformed", v))
	}
	return v
}

// authorize adds rules to a group.
func authorize(egress bool) action {
	return func(c *call) (answer, error) {
		s, err := c.group()
		if err != nil {
			return nil, err
		}
		c.ignore("TagSpecification")
		rules := c.rules(egress)
		if len(rules) == 0 && len(c.indices("IpPermissions")) == 0 { // a permission without peers, as dstack writes it, adds nothing
			c.fail(region.Errorf("MissingParameter", "The request must contain the parameter IpPermissions"))
		}
		if err := c.ready(); err != nil {
			return nil, err
		}
		all := s.Rules
		for _, r := range rules {
			if slices.ContainsFunc(all, r.Same) {
				return nil, region.Errorf("InvalidPermission.Duplicate", "the specified rule \"peer: %s, %s, from port: %s, to port: %s, ALLOW\" already exists",
					cmp.Or(r.CIDR, r.CIDRv6, r.Group, r.Prefixes), r.Protocol, strconv.Itoa(r.From), strconv.Itoa(r.To))
			}
			all = append(all, r)
		}
		all = c.region.SetRules(s.ID, all)
		return &struct {
			header
			Return bool           `xml:"return"`
			Rules  set[groupRule] `xml:"securityGroupRuleSet"`
		}{Return: true, Rules: set[groupRule]{ruleShapes(s.ID, all[len(all)-len(rules):])}}, nil
	}
}

// revoke removes rules from a group, by their contents or by their ids.
func revoke(egress bool) action {
	return func(c *call) (answer, error) {
		s, err := c.group()
		if err != nil {
			return nil, err
		}
		rules, ids := c.rules(egress), c.list("SecurityGroupRuleId")
		if err := c.ready(); err != nil {
			return nil, err
		}
		for _, id := range ids {
			n := slices.IndexFunc(s.Rules, func(r region.Rule) bool { return r.ID == id && r.Egress == egress })
			if n < 0 {
				return nil, region.Errorf("InvalidSecurityGroupRuleId.NotFound", "The security group rule ID '%s' does not exist", id)
			}
			rules = append(rules, s.Rules[n])
		}
		all := s.Rules
		for _, r := range rules {
			if !slices.ContainsFunc(all, r.Same) {
				return nil, region.Errorf("InvalidPermission.NotFound", "The specified rule does not exist in this security group.")
			}
			all = slices.DeleteFunc(slices.Clone(all), r.Same)
		}
		c.region.SetRules(s.ID, all)
		return &done{Return: true}, nil
	}
}

// modifyInstanceAttribute changes an instance's groups or its protection, the mutable attributes here: one per call.
func modifyInstanceAttribute(c *call) (answer, error) {
	id, groups := c.required("InstanceId"), c.list("GroupId")
	attribute := c.text("Attribute")
	protect := attribute == "disableApiTermination"
	protected := protect && c.boolean("Value")
	if c.text("DisableApiTermination.Value") != "" {
		protect, protected = true, c.boolean("DisableApiTermination.Value")
	}
	if (len(groups) > 0) == protect || attribute != "" && attribute != "disableApiTermination" {
		c.fail(region.Errorf("InvalidParameterCombination", "Specify one attribute; groups or disableApiTermination can be changed here."))
	}
	for n := range groups {
		groups[n] = c.groupID(groups[n])
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	change := region.SetGroups(groups)
	if protect {
		change = region.SetProtected(protected)
	}
	if err := c.region.Modify(c.now, id, change); err != nil {
		return nil, err
	}
	return &done{Return: true}, nil
}
