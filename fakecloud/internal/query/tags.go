package query

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tierml/tierml/fakecloud/internal/region"
)

type tagged struct {
	Resource string `xml:"resourceId" filter:"resource-id"`
	Kind     string `xml:"resourceType" filter:"resource-type"`
	Key      string `xml:"key" filter:"key"`
	Value    string `xml:"value" filter:"value"`
}

// allTags returns the tags of everything that has some.
func allTags(c *call) (list []tagged) {
	add := func(id, kind string, tags map[string]string) {
		for _, key := range slices.Sorted(maps.Keys(tags)) {
			list = append(list, tagged{id, kind, key, tags[key]})
		}
	}
	for _, i := range c.region.Instances(c.now) {
		add(i.ID, "instance", i.Tags)
	}
	for _, i := range c.region.Requests(c.now) {
		add(i.Request.ID, "spot-instances-request", i.Request.Tags)
	}
	for _, t := range c.region.Templates() {
		add(t.ID, "launch-template", t.Tags)
	}
	for _, f := range c.region.Fleets(c.now) {
		kind := "fleet"
		if f.SpotFleet() {
			kind = "spot-fleet-request"
		}
		add(f.ID, kind, f.Tags)
	}
	for _, s := range c.region.Resources("") {
		add(s.ID, string(s.Kind), s.Tags)
	}
	return list
}

func createTags(c *call) (answer, error) {
	resources := c.list("ResourceId")
	tags := c.tags("Tag")
	if len(resources) == 0 {
		c.fail(region.Errorf("MissingParameter", "The request must contain the parameter resourceIdSet"))
	}
	if len(tags) == 0 {
		c.fail(region.Errorf("MissingParameter", "The request must contain the parameter Tag"))
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	if err := c.region.ChangeTags(c.now, resources, func(have map[string]string) { maps.Copy(have, tags) }); err != nil {
		return nil, err
	}
	return &done{Return: true}, nil
}

// deleteTags removes tags by key, or by key and value; all if none is named.
func deleteTags(c *call) (answer, error) {
	resources := c.list("ResourceId")
	if len(resources) == 0 {
		c.fail(region.Errorf("MissingParameter", "The request must contain the parameter resourceIdSet"))
	}
	drop := make(map[string]*string)
	for _, n := range c.indices("Tag") {
		key := c.required(item("Tag", n) + ".Key")
		drop[key] = nil
		if c.form.Has(item("Tag", n) + ".Value") {
			value := c.text(item("Tag", n) + ".Value")
			drop[key] = &value
		}
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	err := c.region.ChangeTags(c.now, resources, func(have map[string]string) {
		maps.DeleteFunc(have, func(key, value string) bool {
			only, named := drop[key]
			return len(drop) == 0 || named && (only == nil || *only == value)
		})
	})
	if err != nil {
		return nil, err
	}
	return &done{Return: true}, nil
}

type instanceStatus struct {
	ID     string      `xml:"instanceId" filter:"instance-id"`
	Zone   string      `xml:"availabilityZone" filter:"availability-zone"`
	State  stateFields `xml:"instanceState"`
	System struct {
		Status  string `xml:"status" filter:"system-status.status"`
		Details check  `xml:"details>item" prefix:"system-status."`
	} `xml:"systemStatus"`
	Instance struct {
		Status  string `xml:"status" filter:"instance-status.status"`
		Details check  `xml:"details>item" prefix:"instance-status."`
	} `xml:"instanceStatus"`
}

type stateFields struct {
	Code int    `xml:"code" filter:"instance-state-code"`
	Name string `xml:"name" filter:"instance-state-name"`
}

type check struct {
	Name   string `xml:"name"`
	Status string `xml:"status" filter:"reachability"`
}

func isInstance(c *call, id string) bool {
	_, err := pickInstances(c.region.Instances(c.now), []string{id})
	return err == nil
}

// statuses are those of the running machines, or of all: a machine passes its checks as soon as it runs.
func instanceStatuses(c *call) (list []instanceStatus) {
	all := c.boolean("IncludeAllInstances")
	for _, i := range c.region.Instances(c.now) {
		if !all && i.State != region.Running {
			continue
		}
		v := instanceStatus{ID: i.ID, Zone: i.Pool.Zone, State: stateFields(stateOf(i.State))}
		v.System.Status, v.System.Details = "not-applicable", check{"reachability", "not-applicable"}
		switch i.State {
		case region.Running:
			v.System.Status, v.System.Details.Status = "ok", "passed"
		case region.Pending:
			v.System.Status, v.System.Details.Status = "initializing", "initializing"
		}
		v.Instance.Status, v.Instance.Details = v.System.Status, v.System.Details
		list = append(list, v)
	}
	return list
}

type offering struct {
	Type         string `xml:"instanceType" filter:"instance-type"`
	LocationType string `xml:"locationType"`
	Location     string `xml:"location" filter:"location"`
}

// offerings returns the types sold by region or zone: every zone sells every type on demand.
func offerings(c *call) (list []offering) {
	kind := c.text("LocationType")
	var places []string
	switch kind {
	case "", "region":
		kind, places = "region", []string{c.region.Name()}
	case "availability-zone":
		places = c.region.Zones()
	case "availability-zone-id":
		for n := range c.region.Zones() {
			places = append(places, zoneID(c.region.Name(), n))
		}
	default:
		c.invalid("LocationType", kind)
	}
	for _, place := range places {
		for _, t := range c.region.Types() {
			list = append(list, offering{t.Name, kind, place})
		}
	}
	return list
}

// change implements StopInstances and StartInstances.
func change(act func(c *call, ids []string) ([]region.Change, error)) action {
	return func(c *call) (answer, error) {
		list := c.instanceIDs("InstanceId")
		if len(list) == 0 {
			c.fail(region.Errorf("InvalidParameterCombination", "No instances specified"))
		}
		c.ignore("AdditionalInfo", "SkipOsShutdown")
		force, hibernate := c.boolean("Force"), c.boolean("Hibernate")
		if hibernate {
			c.fail(region.Errorf("UnsupportedHibernationConfiguration", "Hibernation is not supported here."))
		}
		c.force = force
		if err := c.ready(); err != nil {
			return nil, err
		}
		changes, err := act(c, list)
		if err != nil {
			return nil, err
		}
		return changeAnswer(changes), nil
	}
}

func changeAnswer(changes []region.Change) answer {
	return &struct {
		header
		Changes set[stateChange] `xml:"instancesSet"`
	}{Changes: setOf(changes, func(ch region.Change) stateChange {
		return stateChange{ch.ID, stateOf(ch.Current), stateOf(ch.Previous)}
	})}
}

func stopInstances(c *call, ids []string) ([]region.Change, error) {
	return c.region.Stop(c.now, ids, c.force)
}

func startInstances(c *call, ids []string) ([]region.Change, error) {
	return c.region.Start(c.now, ids)
}

// requestSpotInstances requests machines that may become available later.
func requestSpotInstances(c *call) (answer, error) {
	const launch = "LaunchSpecification."
	d := c.templateData(launch)
	d.Type = cmp.Or(d.Type, defaultType)
	q, err := c.launchRequest(d)
	if err != nil {
		return nil, err
	}
	q.MaxPrice = c.price("SpotPrice")
	count := c.number("InstanceCount", 1)
	if count < 1 || count > 1000 {
		c.fail(region.Errorf("InvalidParameterValue", "InstanceCount %d must be from 1 to 1000", count))
	}
	if kind := c.text("Type"); kind != "" && kind != "one-time" {
		c.fail(region.Errorf("Unsupported", "Spot requests of type %s are not supported here; use one-time.", kind))
	}
	if b := c.text("InstanceInterruptionBehavior"); b != "" && b != "terminate" {
		c.fail(region.Errorf("Unsupported", "Interruption behavior %s is not supported here; use terminate.", b))
	}
	c.ignore(launch + "AddressingType")
	c.unspoken("AvailabilityZoneGroup", "LaunchGroup", "ValidFrom", "BlockDurationMinutes")
	until := c.time("ValidUntil")
	q.RequestTags = c.tagSpecifications("TagSpecification", "spot-instances-request")["spot-instances-request"]
	if q.Image == "" {
		c.fail(region.Errorf("MissingParameter", "The request must contain the parameter LaunchSpecification.ImageId"))
	}
	q.Token, q.Fingerprint = c.clientToken(), c.fingerprint()
	if err := c.ready(); err != nil {
		return nil, err
	}
	made, err := c.region.RequestSpot(c.now, q, count, until)
	if err != nil {
		return nil, err
	}
	return &struct {
		header
		Requests set[spotRequest] `xml:"spotInstanceRequestSet"`
	}{Requests: setOf(made, requestShape)}, nil
}
