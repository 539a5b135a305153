package query

import (
	"github.com/tierml/tierml/fakecloud/internal/region"
)

// volume is the root disk of a machine, or one that a caller created.
type volume struct {
	ID         string           `xml:"volumeId" filter:"volume-id"`
	SizeGiB    int              `xml:"size" filter:"size"`
	Zone       string           `xml:"availabilityZone" filter:"availability-zone"`
	State      string           `xml:"status" filter:"status"`
	Created    stamp            `xml:"createTime"`
	Kind       string           `xml:"volumeType" filter:"volume-type"`
	Attached   set[volumeUsage] `xml:"attachmentSet"`
	Encrypted  bool             `xml:"encrypted" filter:"encrypted"`
	IOPS       string           `xml:"iops,omitempty"`
	Throughput string           `xml:"throughput,omitempty"`
	Tags       *tagList         `xml:"tagSet"`
}

type volumeUsage struct {
	Volume   string `xml:"volumeId"`
	Instance string `xml:"instanceId" filter:"attachment.instance-id"`
	Device   string `xml:"device" filter:"attachment.device"`
	Status   string `xml:"status" filter:"attachment.status"`
	Attached stamp  `xml:"attachTime"`
	Deleted  bool   `xml:"deleteOnTermination" filter:"attachment.delete-on-termination"`
}

// shown are the machines with disks and cards.
func shown(c *call) (list []region.Instance) {
	for _, i := range c.region.Instances(c.now) {
		if i.State != region.ShuttingDown && i.State != region.Terminated {
			list = append(list, i)
		}
	}
	return list
}

func volumes(c *call) (list []volume) {
	for _, i := range shown(c) {
		v := volume{ID: attachedTo("vol", i), SizeGiB: 8, Zone: i.Pool.Zone, State: "in-use", Created: stamp(i.Launched), Kind: "gp3"}
		v.Attached.Items = []volumeUsage{{v.ID, i.ID, rootDevice, "attached", stamp(i.Launched), true}}
		list = append(list, v)
	}
	return append(list, of(region.Volume, volumeShape)(c)...)
}

// attachedCard is a network card with its names in filters.
type attachedCard struct {
	card
	Zone string `xml:"availabilityZone" filter:"availability-zone"`
	Of   string `xml:"-" filter:"attachment.instance-id"`
	Name string `xml:"-" filter:"network-interface-id"`
}

func networkInterfaces(c *call) (list []attachedCard) {
	for _, i := range shown(c) {
		v := c.instance(i)
		list = append(list, attachedCard{card: networkCard(i, &v), Zone: i.Pool.Zone, Of: i.ID, Name: attachedTo("eni", i)})
	}
	return list
}

// rebootInstances does nothing: a machine is a process, whose end is the machine's.
func rebootInstances(c *call) (answer, error) {
	ids := c.list("InstanceId")
	if len(ids) == 0 {
		c.required("InstanceId")
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	for _, id := range ids {
		switch i, ok := c.region.Instance(c.now, id); {
		case !ok:
			return nil, region.NotFound(id)
		case i.State != region.Running:
			return nil, region.Errorf("IncorrectInstanceState", "The instance '%s' is not in the 'running' state.", id)
		}
	}
	return &done{Return: true}, nil
}

// getConsoleOutput: machines' output is in files of the host, so the console is empty.
func getConsoleOutput(c *call) (answer, error) {
	id := c.required("InstanceId")
	c.ignore("Latest")
	if err := c.ready(); err != nil {
		return nil, err
	}
	if _, ok := c.region.Instance(c.now, id); !ok {
		return nil, region.NotFound(id)
	}
	return &struct {
		header
		ID     string `xml:"instanceId"`
		At     stamp  `xml:"timestamp"`
		Output string `xml:"output"`
	}{ID: id, At: stamp(c.now)}, nil
}
