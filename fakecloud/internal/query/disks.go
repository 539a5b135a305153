package query

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
)

// Volumes that callers create are records: machines see no disk. Resource.Text is the zone, the rest is in Resource.Given.

var volumeKinds = []string{"gp2", "gp3", "io1", "io2", "st1", "sc1", "standard"}

// user returns the machine that a volume is attached to. A machine that ends detaches its volumes.
func (c *call) user(s region.Resource) (region.Instance, bool) {
	for _, i := range shown(c) {
		if i.ID == s.Given["instance"] {
			return i, true
		}
	}
	return region.Instance{}, false
}

func volumeShape(c *call, s region.Resource) volume {
	size, _ := strconv.Atoi(s.Given["Size"])
	v := volume{ID: s.ID, SizeGiB: size, Zone: s.Text, State: "available", Created: stamp(s.Created), Kind: s.Given["VolumeType"],
		Encrypted: s.Given["Encrypted"] == "true", IOPS: s.Given["Iops"], Throughput: s.Given["Throughput"], Tags: tagSet(s.Tags)}
	if i, used := c.user(s); used {
		v.State, v.Attached.Items = "in-use", []volumeUsage{usage(s, i)}
	}
	return v
}

func usage(s region.Resource, i region.Instance) volumeUsage {
	at, _ := time.Parse(time.RFC3339, s.Given["at"])
	return volumeUsage{s.ID, i.ID, s.Given["device"], "attached", stamp(at), false}
}

// disks returns a machine's disks: the root disk and the volumes attached to it.
func (c *call) disks(i region.Instance) []disk {
	list := []disk{rootDisk(i)}
	for _, s := range c.region.Resources(region.Volume) {
		if s.Given["instance"] == i.ID {
			u, d := usage(s, i), disk{Device: s.Given["device"]}
			d.EBS.Volume, d.EBS.Status, d.EBS.Attached = s.ID, u.Status, u.Attached
			list = append(list, d)
		}
	}
	return list
}

func createVolume(c *call) (answer, error) {
	zone, token := c.required("AvailabilityZone"), c.clientToken()
	given := map[string]string{"VolumeType": cmp.Or(c.among("VolumeType", volumeKinds), "gp2"), "Encrypted": strconv.FormatBool(c.boolean("Encrypted")),
		"Size": c.text("Size"), "token": token}
	for _, name := range []string{"Iops", "Throughput"} {
		if c.number(name, 0) > 0 {
			given[name] = c.text(name)
		}
	}
	if snapshot := c.text("SnapshotId"); snapshot != "" {
		c.fail(region.Errorf("InvalidSnapshot.NotFound", "The snapshot '%s' does not exist.", snapshot))
	}
	c.required("Size")
	if size := c.number("Size", 0); c.err == nil && (size < 1 || size > 65536) {
		c.invalid("Size", given["Size"])
	}
	if c.boolean("MultiAttachEnabled") {
		c.fail(region.Errorf("Unsupported", "MultiAttachEnabled is not supported here."))
	}
	c.ignore("KmsKeyId")
	c.unspoken("OutpostArn", "AvailabilityZoneId", "SourceVolumeId", "VolumeInitializationRate", "Operator")
	tags := c.tagSpecifications("TagSpecification", "volume")["volume"]
	given["fingerprint"] = c.fingerprint()
	if c.err == nil && !slices.Contains(c.region.Zones(), zone) {
		c.fail(region.Errorf("InvalidZone.NotFound", "The zone '%s' does not exist.", zone))
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	made := func(s region.Resource) answer {
		return &struct {
			header
			volume
		}{volume: volumeShape(c, s)}
	}
	for _, s := range c.region.Resources(region.Volume) {
		if token == "" || s.Given["token"] != token {
			continue
		}
		if s.Given["fingerprint"] != given["fingerprint"] {
			return nil, region.Errorf("IdempotentParameterMismatch", "The client token has been used with other parameters.")
		}
		return made(s), nil
	}
	return made(c.region.AddResource(c.now, "vol", region.Resource{Kind: region.Volume, Text: zone, Given: given, Tags: tags})), nil
}

// volumeNamed finds a created volume; root disks end with their machines.
func (c *call) volumeNamed(id string) (region.Resource, error) {
	s, ok := c.region.Resource(region.Volume, id)
	if ok {
		return s, nil
	}
	for _, i := range shown(c) {
		if attachedTo("vol", i) == id {
			return s, region.Errorf("OperationNotPermitted", "The volume '%s' is the root device of '%s', and stays as long as it.", id, i.ID)
		}
	}
	return s, region.Errorf("InvalidVolume.NotFound", "The volume '%s' does not exist.", id)
}

type attachmentAnswer struct {
	header
	volumeUsage
}

func attachVolume(c *call) (answer, error) {
	id, instance, device := c.required("VolumeId"), c.required("InstanceId"), c.required("Device")
	if err := c.ready(); err != nil {
		return nil, err
	}
	s, err := c.volumeNamed(id)
	if err != nil {
		return nil, err
	}
	i, ok := c.region.Instance(c.now, instance)
	switch _, used := c.user(s); {
	case !ok:
		return nil, region.NotFound(instance)
	case used:
		return nil, region.Errorf("VolumeInUse", "%s is already attached to an instance", id)
	case i.State != region.Running && i.State != region.Stopped:
		return nil, region.Errorf("IncorrectState", "Instance '%s' is not 'running'.", instance)
	case i.Pool.Zone != s.Text:
		return nil, region.Errorf("InvalidVolume.ZoneMismatch", "The volume '%s' is not in the same availability zone as instance '%s'", id, instance)
	case slices.ContainsFunc(c.disks(i), func(d disk) bool { return d.Device == device }):
		return nil, region.Errorf("InvalidParameterValue", "Invalid value '%s' for unixDevice. Attachment point %s is already in use", device, device)
	}
	s.Given["instance"], s.Given["device"], s.Given["at"] = i.ID, device, c.now.UTC().Format(time.RFC3339)
	c.region.SetGiven(id, s.Given)
	return &attachmentAnswer{volumeUsage: usage(s, i)}, nil
}

func detachVolume(c *call) (answer, error) {
	id, instance, device := c.required("VolumeId"), c.text("InstanceId"), c.text("Device")
	_ = c.boolean("Force")
	if err := c.ready(); err != nil {
		return nil, err
	}
	s, err := c.volumeNamed(id)
	if err != nil {
		return nil, err
	}
	i, used := c.user(s)
	if !used || instance != "" && instance != i.ID || device != "" && device != s.Given["device"] {
		return nil, region.Errorf("IncorrectState", "Volume '%s' is not attached so.", id)
	}
	v := &attachmentAnswer{volumeUsage: usage(s, i)}
	v.Status = "detached"
	delete(s.Given, "instance")
	c.region.SetGiven(id, s.Given)
	return v, nil
}

func deleteVolume(c *call) (answer, error) {
	id := c.required("VolumeId")
	if err := c.ready(); err != nil {
		return nil, err
	}
	s, err := c.volumeNamed(id)
	if err != nil {
		return nil, err
	}
	if i, used := c.user(s); used {
		return nil, region.Errorf("VolumeInUse", "Volume %s is currently attached to %s", id, i.ID)
	}
	c.region.RemoveResource(id)
	return &done{Return: true}, nil
}
