package computeapi

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// regionView is a region as clients see it.
type regionView struct {
	Kind     string   `json:"kind"`
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Status   string   `json:"status"`
	Zones    []string `json:"zones"`
	Quotas   []quota  `json:"quotas"`
	SelfLink string   `json:"selfLink"`
}

type quota struct {
	Metric string  `json:"metric"`
	Limit  float64 `json:"limit"`
	Usage  float64 `json:"usage"`
}

// noLimit stands for the limit of an account that has none here.
const noLimit = 1e6

func (c *call) regionView() regionView {
	v := regionView{Kind: "compute#region", ID: number(c.region.Name()), Name: c.region.Name(), Status: "UP", SelfLink: c.link("regions", c.region.Name())}
	for _, zone := range c.region.Zones() {
		v.Zones = append(v.Zones, c.zoneLink(zone))
	}
	vcpus := map[string]int{}
	for _, t := range c.region.Types() {
		vcpus[t.Name] = t.VCPU
	}
	alive := 0
	inUse := map[market.Class]int{} // vCPUs
	for _, i := range c.region.Instances(c.now) {
		if i.State.Alive() {
			alive++
			inUse[i.Pool.Class] += vcpus[i.Pool.Type]
		}
	}
	v.Quotas = []quota{{"INSTANCES", noLimit, float64(alive)}, {"CPUS", noLimit, float64(inUse[market.OnDemand])},
		{"PREEMPTIBLE_CPUS", noLimit, float64(inUse[market.Spot])}}
	return v
}

func listRegions(c *call) (any, error) {
	return listOf(c, "region", []regionView{c.regionView()})
}

func getRegion(c *call) (any, error) {
	if name := c.PathValue("region"); name != c.region.Name() {
		return nil, refusalf(http.StatusNotFound, "notFound", "The resource 'projects/%s/regions/%s' was not found", c.project(), name)
	}
	return c.regionView(), nil
}

func getZone(c *call) (any, error) { return c.zoneView(c.zone()), nil }

func getProject(c *call) (any, error) {
	return struct {
		Kind           string   `json:"kind"`
		ID             string   `json:"id"`
		Name           string   `json:"name"`
		CommonMetadata metadata `json:"commonInstanceMetadata"`
		Quotas         []quota  `json:"quotas"`
		SelfLink       string   `json:"selfLink"`
	}{"compute#project", number(c.project()), c.project(), metadata{Fingerprint: fingerprint(nil)}, []quota{{"NETWORKS", noLimit, 1}}, c.link()}, nil
}

// imageView is an image as clients see it.
type imageView struct {
	Kind         string `json:"kind"`
	ID           string `json:"id"`
	Name         string `json:"name"`
	Family       string `json:"family,omitempty"`
	Status       string `json:"status"`
	SizeGiB      string `json:"diskSizeGb"`
	Architecture string `json:"architecture"`
	Created      string `json:"creationTimestamp"`
	SelfLink     string `json:"selfLink"`
}

func (c *call) image(name, family string) imageView {
	return imageView{"compute#image", number(name), name, family, "READY", "10", "X86_64", stamp(time.Unix(0, 0)), c.link("global", "images", name)}
}

// getImage: machines boot from any image here, so each exists; the newest of a family has its name.
func getImage(c *call) (any, error) {
	family := c.PathValue("family")
	return c.image(cmp.Or(c.PathValue("image"), family), family), nil
}

// getSerialPort: machines are processes, whose output is in files of the host (--logs), so the port is empty.
func getSerialPort(c *call) (any, error) {
	i, err := c.find()
	if err != nil {
		return nil, err
	}
	return map[string]string{"kind": "compute#serialPortOutput", "contents": "", "start": "0", "next": "0",
		"selfLink": c.link("zones", i.Pool.Zone, "instances", i.ID, "serialPort")}, nil
}

// stopInstance and startInstance are for on-demand machines: a stopped one costs nothing and keeps its name, labels and metadata.
func stopInstance(c *call) (any, error) {
	return c.changeState("stop", func(ids []string) ([]region.Change, error) { return c.region.Stop(c.now, ids, false) })
}

func startInstance(c *call) (any, error) {
	return c.changeState("start", func(ids []string) ([]region.Change, error) { return c.region.Start(c.now, ids) })
}

func (c *call) changeState(kind string, change func(ids []string) ([]region.Change, error)) (any, error) {
	return c.update(kind, func(i region.Instance) error {
		if _, err := change([]string{i.ID}); err != nil {
			return refusalf(http.StatusBadRequest, "resourceNotReady", "The resource 'projects/%s/zones/%s/instances/%s' is not ready: %v", c.project(), i.Pool.Zone, i.ID, err)
		}
		return nil
	})
}

// setDeletionProtection protects an on-demand machine from deletion, or ends that.
func setDeletionProtection(c *call) (any, error) {
	protected := true
	if text := c.URL.Query().Get("deletionProtection"); text != "" {
		var err error
		if protected, err = strconv.ParseBool(text); err != nil {
			return nil, invalid("deletionProtection", text, "Must be true or false.")
		}
	}
	return c.changeState("setDeletionProtection", func(ids []string) ([]region.Change, error) {
		return nil, c.region.Modify(c.now, ids[0], region.SetProtected(protected))
	})
}

// aggregateTypes lists the machine types of all zones.
func aggregateTypes(c *call) (any, error) {
	var all []typeView
	for _, zone := range c.region.Zones() {
		for _, t := range c.region.Types() {
			v := c.typeOf(t)
			v.Zone, v.SelfLink = zone, c.link("zones", zone, "machineTypes", t.Name)
			all = append(all, v)
		}
	}
	slices.SortStableFunc(all, func(a, b typeView) int { return cmp.Compare(a.Zone+"/"+a.Name, b.Zone+"/"+b.Name) })
	page, next, err := list(c, all)
	return aggregate(c, "machineType", page, next, func(v typeView) string { return c.zoneLink(v.Zone) }), err
}
