package query

import (
	"maps"
	"strconv"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// stateCodes are EC2's numbers of the states.
var stateCodes = map[region.State]int{region.Pending: 0, region.Running: 16, region.ShuttingDown: 32, region.Terminated: 48,
	region.Stopping: 64, region.Stopped: 80}

type instanceState struct {
	Code int    `xml:"code"`
	Name string `xml:"name"`
}

func stateOf(s region.State) instanceState { return instanceState{stateCodes[s], string(s)} }

type stateReason struct {
	Code    string `xml:"code"`
	Message string `xml:"message"`
}

type placement struct {
	Zone    string `xml:"availabilityZone"`
	Group   string `xml:"groupName"`
	Tenancy string `xml:"tenancy"`
}

type enabledState struct {
	State string `xml:"state"`
}

type metadataOptions struct {
	State    string `xml:"state"`
	Tokens   string `xml:"httpTokens"`
	HopLimit int    `xml:"httpPutResponseHopLimit"`
	Endpoint string `xml:"httpEndpoint"`
	IPv6     string `xml:"httpProtocolIpv6"`
	Tags     string `xml:"instanceMetadataTags"`
}

type cpuOptions struct {
	Cores          int `xml:"coreCount"`
	ThreadsPerCore int `xml:"threadsPerCore"`
}

type groupRef struct {
	ID   string `xml:"groupId"`
	Name string `xml:"groupName"`
}

// addresses are an instance's addresses in the network.
type addresses struct {
	PrivateDNS string `xml:"privateDnsName"`
	DNS        string `xml:"dnsName"`
	PrivateIP  string `xml:"privateIpAddress,omitempty"`
	PublicIP   string `xml:"ipAddress,omitempty"`
	VPC        string `xml:"vpcId,omitempty"`
	Subnet     string `xml:"subnetId,omitempty"`
}

type instance struct {
	ID    string        `xml:"instanceId"`
	Image string        `xml:"imageId"`
	State instanceState `xml:"instanceState"`
	addresses
	TransitionReason string        `xml:"reason"`
	LaunchIndex      int           `xml:"amiLaunchIndex"`
	ProductCodes     set[string]   `xml:"productCodes"`
	Type             string        `xml:"instanceType"`
	Launched         stamp         `xml:"launchTime"`
	Placement        placement     `xml:"placement"`
	Monitoring       enabledState  `xml:"monitoring"`
	KeyName          string        `xml:"keyName,omitempty"`
	Groups           set[groupRef] `xml:"groupSet"`
	StateReason      *stateReason  `xml:"stateReason"`
	Architecture     string        `xml:"architecture"`
	RootDeviceType   string        `xml:"rootDeviceType"`
	RootDevice       string        `xml:"rootDeviceName"`
	BlockDevices     set[disk]     `xml:"blockDeviceMapping"`
	Virtualization   string        `xml:"virtualizationType"`
	Lifecycle        string        `xml:"instanceLifecycle,omitempty"`
	SpotRequest      string        `xml:"spotInstanceRequestId,omitempty"`
	Token            string        `xml:"clientToken"`
	Tags             *set[tag]     `xml:"tagSet"`
	Hypervisor       string        `xml:"hypervisor"`
	Interfaces       set[card]     `xml:"networkInterfaceSet"`
	EBSOptimized     bool          `xml:"ebsOptimized"`
	Hibernation      struct {
		Configured bool `xml:"configured"`
	} `xml:"hibernationOptions"`
	CPU             cpuOptions      `xml:"cpuOptions"`
	Metadata        metadataOptions `xml:"metadataOptions"`
	PlatformDetails string          `xml:"platformDetails"`
}

func (c *call) instance(i region.Instance) instance {
	t := c.region.TypeOf(i)
	v := instance{
		ID: i.ID, Image: i.Image, State: stateOf(i.State), TransitionReason: i.TransitionReason(), LaunchIndex: i.Index,
		Type: i.Pool.Type, Launched: stamp(i.Launched), Placement: placement{Zone: i.Pool.Zone, Tenancy: "default"},
		Monitoring: enabledState{"disabled"}, EBSOptimized: i.EBSOptimized, Architecture: t.Arch, RootDeviceType: "ebs", RootDevice: rootDevice,
		Virtualization: "hvm", SpotRequest: i.Request.ID, KeyName: i.KeyName, Token: i.Token, Tags: tagSet(i.Tags), Hypervisor: "xen",
		CPU:             cpuOptions{max(1, t.VCPU), 1},
		Metadata:        metadataOptions{"applied", "required", 1, "enabled", "disabled", "enabled"},
		PlatformDetails: "Linux/UNIX",
	}
	if v.Hibernation.Configured = i.Hibernation; i.Monitored {
		v.Monitoring.State = "enabled"
	}
	if i.Pool.Class == market.Spot {
		v.Lifecycle = "spot"
	}
	if i.State != region.ShuttingDown && i.State != region.Terminated {
		v.PrivateIP, v.PrivateDNS = PrivateIP(i), PrivateDNS(i)
		v.VPC, v.Subnet, v.Groups.Items = c.first(region.VPC), c.subnetOf(i.Pool.Zone), c.groupRefs(i)
		v.BlockDevices.Items, v.Interfaces.Items = c.disks(i), []card{networkCard(i, &v)}
	}
	if i.State.Alive() {
		v.PublicIP = PublicIP(i)
	} else {
		v.StateReason = &stateReason{i.Cause.Code, i.Cause.Message}
	}
	if i.State == region.Pending {
		v.StateReason = &stateReason{"pending", "pending"}
	}
	return v
}

// groupRefs names the groups of an instance.
func (c *call) groupRefs(i region.Instance) (list []groupRef) {
	for _, id := range i.Groups {
		s, _ := c.region.Resource(region.SecurityGroup, id)
		list = append(list, groupRef{id, s.Name})
	}
	return list
}

type reservation struct {
	ID        string        `xml:"reservationId"`
	Owner     string        `xml:"ownerId"`
	Groups    set[string]   `xml:"groupSet"`
	Instances set[instance] `xml:"instancesSet"`
}

// instanceFields are the filters of DescribeInstances.
var instanceFields = map[string]func(region.Instance) []string{
	"availability-zone":   one(func(i region.Instance) string { return i.Pool.Zone }),
	"client-token":        one(func(i region.Instance) string { return i.Token }),
	"image-id":            one(func(i region.Instance) string { return i.Image }),
	"instance-id":         one(func(i region.Instance) string { return i.ID }),
	"instance-state-code": one(func(i region.Instance) string { return strconv.Itoa(stateCodes[i.State]) }),
	"instance-state-name": one(func(i region.Instance) string { return string(i.State) }),
	"instance-type":       one(func(i region.Instance) string { return i.Pool.Type }),
	"launch-time":         one(func(i region.Instance) string { return i.Launched.UTC().Format("2006-01-02T15:04:05.000Z") }),
	"private-ip-address":  one(PrivateIP),
	"ip-address":          one(PublicIP),
	"private-dns-name":    one(PrivateDNS),
	"key-name":            one(func(i region.Instance) string { return i.KeyName }),
	"instance.group-id":   func(i region.Instance) []string { return i.Groups },
	"reservation-id":      one(func(i region.Instance) string { return i.Reservation }),
	"state-reason-code":   one(func(i region.Instance) string { return i.Cause.Code }),
	"spot-instance-request-id": func(i region.Instance) []string {
		if i.Request.ID == "" {
			return nil
		}
		return []string{i.Request.ID}
	},
	"instance-lifecycle": func(i region.Instance) []string {
		if i.Pool.Class != market.Spot {
			return nil // EC2 gives ordinary machines no lifecycle
		}
		return []string{"spot"}
	},
}

func instanceTags(i region.Instance) map[string]string { return i.Tags }

func describeInstances(c *call) (answer, error) {
	wanted := c.instanceIDs("InstanceId")
	filters := c.filters()
	page := c.page(5, 1000)
	if len(wanted) > 0 && c.form.Get("MaxResults") != "" {
		c.fail(region.Errorf("InvalidParameterCombination",
			"The parameter instancesSet cannot be used with the parameter maxResults"))
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	list := c.region.Instances(c.now)
	list, err := pickInstances(list, wanted)
	if err != nil {
		return nil, err
	}
	fields := maps.Clone(instanceFields)
	fields["subnet-id"] = one(func(i region.Instance) string { return c.subnetOf(i.Pool.Zone) })
	fields["owner-id"] = one(func(region.Instance) string { return Account })
	fields["instance.group-name"] = func(i region.Instance) (names []string) {
		for _, g := range c.groupRefs(i) {
			names = append(names, g.Name)
		}
		return names
	}
	fields["vpc-id"] = one(func(region.Instance) string { return c.first(region.VPC) })
	fields["architecture"] = one(func(i region.Instance) string { return c.region.TypeOf(i).Arch })
	if list, err = selectBy(list, filters, instanceTags, fields); err != nil {
		return nil, err
	}
	list, next := cut(list, page)
	v := &struct {
		header
		Reservations set[reservation] `xml:"reservationSet"`
		NextToken    string           `xml:"nextToken,omitempty"`
	}{Reservations: c.reservations(list), NextToken: next}
	return v, nil
}

// pickInstances keeps those with the ids, all of which must exist.
func pickInstances(list []region.Instance, ids []string) ([]region.Instance, error) {
	if len(ids) == 0 {
		return list, nil
	}
	byID := make(map[string]region.Instance)
	for _, i := range list {
		byID[i.ID] = i
	}
	wanted := make(map[string]bool)
	var missing []string
	for _, id := range ids {
		if _, ok := byID[id]; !ok {
			missing = append(missing, id)
		}
		wanted[id] = true
	}
	if len(missing) > 0 {
		return nil, region.NotFound(missing...)
	}
	var picked []region.Instance
	for _, i := range list {
		if wanted[i.ID] {
			picked = append(picked, i)
		}
	}
	return picked, nil
}

// reservations groups instances, which are in order of launch.
func (c *call) reservations(list []region.Instance) set[reservation] {
	var s set[reservation]
	for _, i := range list {
		if n := len(s.Items); n == 0 || s.Items[n-1].ID != i.Reservation {
			s.Items = append(s.Items, reservation{ID: i.Reservation, Owner: Account})
		}
		last := &s.Items[len(s.Items)-1]
		last.Instances.Items = append(last.Instances.Items, c.instance(i))
	}
	return s
}

type stateChange struct {
	ID       string        `xml:"instanceId"`
	Current  instanceState `xml:"currentState"`
	Previous instanceState `xml:"previousState"`
}

func terminateInstances(c *call) (answer, error) {
	c.ignore("Force", "SkipOsShutdown")
	list := c.instanceIDs("InstanceId")
	if len(list) == 0 {
		c.fail(region.Errorf("InvalidParameterCombination", "No instances specified"))
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	changes, err := c.region.Terminate(c.now, list)
	if err != nil {
		return nil, err
	}
	return changeAnswer(changes), nil
}
