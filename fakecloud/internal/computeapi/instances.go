package computeapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// instanceView is a machine as clients see it.
type instanceView struct {
	Kind          string            `json:"kind"`
	ID            string            `json:"id"`
	Name          string            `json:"name"`
	Zone          string            `json:"zone"`
	MachineType   string            `json:"machineType"`
	Status        string            `json:"status"`
	StatusMessage string            `json:"statusMessage,omitempty"`
	Created       string            `json:"creationTimestamp"`
	Started       string            `json:"lastStartTimestamp,omitempty"`
	Stopped       string            `json:"lastStopTimestamp,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	Fingerprint   string            `json:"labelFingerprint"`
	Metadata      metadata          `json:"metadata"`
	Scheduling    scheduling        `json:"scheduling"`
	Protected     bool              `json:"deletionProtection"`
	SelfLink      string            `json:"selfLink"`
	given
}

// status returns Compute Engine's status; "" = the machine is no longer listed. One that was only stopped stays until it is deleted.
func (c *call) status(i region.Instance) string {
	stays := i.Cause.Code == region.SelfShutdown.Operation || i.Cause.Code == region.HardwareFailure.Operation ||
		i.Cause.Code != region.UserRequest.Operation && !i.Terms.Delete
	switch {
	case i.State == region.Pending:
		return "STAGING"
	case i.State == region.Running && (i.Deadline.IsZero() || c.now.Before(i.NoticedAt.Add(i.Terms.ExtraNotice))):
		return "RUNNING"
	case i.State == region.Stopped:
		return "TERMINATED"
	case i.State != region.Terminated:
		return "STOPPING"
	case stays && !c.deleted[i.ID]:
		return "TERMINATED"
	}
	return ""
}

func (c *call) instance(i region.Instance) instanceView {
	v := instanceView{Kind: "compute#instance", ID: number(i.ID), Name: i.ID, Zone: c.zoneLink(i.Pool.Zone),
		MachineType: c.link("zones", i.Pool.Zone, "machineTypes", i.Pool.Type), Status: c.status(i),
		Created: stamp(i.Launched), Started: stamp(i.Launched), Stopped: stamp(i.Ended), Labels: i.Terms.Labels, Fingerprint: fingerprint(i.Terms.Labels),
		Scheduling: c.schedulingOf(i), Protected: i.Protected, SelfLink: c.link("zones", i.Pool.Zone, "instances", i.ID), given: c.givenOf(i)}
	v.Metadata.Kind, v.Metadata.Fingerprint = "compute#metadata", fingerprint(i.Tags)
	for _, key := range slices.Sorted(maps.Keys(i.Tags)) {
		v.Metadata.Items = append(v.Metadata.Items, metadataItem{key, i.Tags[key]})
	}
	return v
}

func (c *call) schedulingOf(i region.Instance) scheduling {
	restart := false
	s := scheduling{Model: "STANDARD", OnMaintenance: "MIGRATE", Restart: &restart}
	if i.Pool.Class == market.Spot {
		s.Model, s.OnMaintenance, s.Preemptible = "SPOT", "TERMINATE", true
		if i.Terms.Preemptible {
			s.Model = "STANDARD"
		}
	}
	if i.Terms.Delete {
		s.TerminationAction = "DELETE"
	}
	if i.Terms.MaxRun > 0 {
		s.MaxRun = lengthOf(i.Terms.MaxRun)
	}
	if i.Terms.ExtraNotice > 0 {
		s.Notice = lengthOf(time.Duration(float64(i.Terms.ExtraNotice) / float64(c.lengths.Market(time.Second)) * float64(time.Second)))
	}
	return s
}

func lengthOf(d time.Duration) *length {
	return &length{Seconds: json.RawMessage(fmt.Sprintf(`"%d"`, d.Round(time.Second)/time.Second))}
}

// allInstances returns the listed instances of a zone, "" = of all, by name.
func (c *call) allInstances(zone string) []instanceView {
	var views []instanceView
	for _, i := range c.region.Instances(c.now) {
		if (zone == "" || i.Pool.Zone == zone) && c.status(i) != "" {
			views = append(views, c.instance(i))
		}
	}
	slices.SortFunc(views, func(a, b instanceView) int { return strings.Compare(a.Zone+"/"+a.Name, b.Zone+"/"+b.Name) })
	return views
}

func listInstances(c *call) (any, error) {
	return listOf(c, "instance", c.allInstances(c.zone()))
}

func aggregateInstances(c *call) (any, error) {
	page, next, err := list(c, c.allInstances(""))
	return aggregate(c, "instance", page, next, func(v instanceView) string { return v.Zone }), err
}

// find returns a machine that is listed.
func (c *call) find() (region.Instance, error) {
	name := c.PathValue("instance")
	i, ok := c.region.Instance(c.now, name)
	if !ok || i.Pool.Zone != c.zone() || c.status(i) == "" {
		return i, c.notFound("instances", name)
	}
	return i, nil
}

func getInstance(c *call) (any, error) {
	i, err := c.find()
	if err != nil {
		return nil, err
	}
	return c.instance(i), nil
}

// fingerprint changes with the labels, so that a caller must have seen the labels that it replaces.
func fingerprint(labels map[string]string) string {
	h := fnv.New64a()
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(h, "%q=%q ", key, labels[key])
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// setLabels replaces a machine's labels.
func setLabels(c *call) (any, error) {
	var body struct {
		Labels      map[string]string `json:"labels"`
		Fingerprint string            `json:"labelFingerprint"`
	}
	if err := decode(c.body, &body); err != nil {
		return nil, err
	}
	if err := checkLabels(body.Labels); err != nil {
		return nil, err
	}
	i, err := c.find()
	if err != nil {
		return nil, err
	}
	if body.Fingerprint != fingerprint(i.Terms.Labels) {
		return nil, refusalf(http.StatusPreconditionFailed, "conditionNotMet", "Labels fingerprint either invalid or resource labels have changed")
	}
	c.region.SetLabels(c.now, i.ID, body.Labels)
	return c.view(c.begin("setLabels", c.URL.Query().Get("requestId"), i.ID, c.now, nil)), nil
}

// deleteInstance ends a machine, or removes the remains of one.
func deleteInstance(c *call) (any, error) {
	request := c.URL.Query().Get("requestId")
	if before := c.requests[request]; before != nil && request != "" {
		return c.view(before), nil
	}
	i, err := c.find()
	if err != nil {
		return nil, err
	}
	if i.Protected {
		return nil, refusalf(http.StatusBadRequest, "invalidResourceUsage", "Invalid resource usage: 'Resource cannot be deleted if it's protected against deletion.'.")
	}
	if _, err := c.region.Terminate(c.now, []string{i.ID}); err != nil {
		return nil, refusalf(http.StatusInternalServerError, "internalError", "%v", err)
	}
	c.deleted[i.ID] = true
	return c.view(c.begin("delete", request, i.ID, time.Time{}, nil)), nil
}

// simulateMaintenance preempts a Spot machine, as Compute Engine documents: with the usual notice. On-demand machines are moved, which is
// invisible here.
func simulateMaintenance(c *call) (any, error) {
	request := c.URL.Query().Get("requestId")
	if before := c.requests[request]; before != nil && request != "" {
		return c.view(before), nil
	}
	i, err := c.find()
	if err != nil {
		return nil, err
	}
	if i.Pool.Class == market.Spot {
		if err := c.region.Evict(c.now, []string{i.ID}); err != nil {
			return nil, refusalf(http.StatusBadRequest, "resourceNotReady", "%v", err)
		}
	}
	return c.view(c.begin("simulateMaintenanceEvent", request, i.ID, c.now, nil)), nil
}
