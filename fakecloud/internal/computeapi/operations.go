package computeapi

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// operation is a long-running request.
type operation struct {
	name, kind, zone, request string
	group                     string // of a bulkInsert and of its inserts
	instance                  string // "" = several
	begun, done               time.Time
	failure                   *operationError
}

type operationError struct {
	code, message string
	status        int
}

// begin adds an operation that ends at done; zero = when its machine has ended.
func (c *call) begin(kind, request, instance string, done time.Time, failure *operationError) *operation {
	c.count++
	o := &operation{name: fmt.Sprintf("operation-%d-%s", c.count, strings.ToLower(kind)), kind: kind, zone: c.zone(), request: request,
		instance: instance, begun: c.now, done: done, failure: failure}
	c.operations = append(c.operations, o)
	c.byName[o.name] = o
	if request != "" {
		c.requests[request] = o
	}
	return o
}

// operationView is an operation as clients see it.
type operationView struct {
	Kind          string      `json:"kind"`
	ID            string      `json:"id"`
	Name          string      `json:"name"`
	Zone          string      `json:"zone"`
	Request       string      `json:"clientOperationId,omitempty"`
	Group         string      `json:"operationGroupId,omitempty"`
	Type          string      `json:"operationType"`
	Target        string      `json:"targetLink"`
	TargetID      string      `json:"targetId,omitempty"`
	Status        string      `json:"status"`
	StatusMessage string      `json:"statusMessage,omitempty"`
	User          string      `json:"user"`
	Progress      int         `json:"progress"`
	Inserted      string      `json:"insertTime"`
	Started       string      `json:"startTime"`
	Ended         string      `json:"endTime,omitempty"`
	Error         *errorsView `json:"error,omitempty"`
	ErrorStatus   int         `json:"httpErrorStatusCode,omitempty"`
	ErrorMessage  string      `json:"httpErrorMessage,omitempty"`
	SelfLink      string      `json:"selfLink"`
}

type errorsView struct {
	Errors []errorView `json:"errors"`
}

type errorView struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// user is the caller of every request.
const user = "somebody@example.com"

func (c *call) view(o *operation) operationView {
	v := c.viewOf(o.zone, o.name, o.kind, o.instance, o.begun, c.doneAt(o))
	v.User, v.Request, v.Group = user, o.request, o.group
	if o.failure != nil && v.Status == "DONE" {
		v.Error = &errorsView{[]errorView{{o.failure.code, o.failure.message}}}
		v.ErrorStatus, v.ErrorMessage = o.failure.status, http.StatusText(o.failure.status)
	}
	return v
}

// doneAt returns when an operation ends; zero = unknown yet. One that stops or deletes a machine lasts until that has ended.
func (c *call) doneAt(o *operation) time.Time {
	if o.failure != nil || o.kind != "delete" && o.kind != "stop" {
		return o.done
	}
	i, ok := c.region.Instance(c.now, o.instance)
	switch {
	case o.kind == "stop" && ok && i.State != region.Stopping: // it may run again
		return o.done
	case o.kind == "stop", !ok, i.State != region.Terminated:
		return time.Time{}
	case i.Ended.Before(o.begun):
		return o.begun
	}
	return i.Ended
}

func (c *call) viewOf(zone, name, kind, instance string, begun, done time.Time) operationView {
	v := operationView{Kind: "compute#operation", ID: number(name), Name: name, Zone: c.zoneLink(zone), Type: kind,
		Target: c.zoneLink(zone), Status: "RUNNING", Inserted: stamp(begun), Started: stamp(begun),
		SelfLink: c.link("zones", zone, "operations", name)}
	if instance != "" {
		v.Target, v.TargetID = c.link("zones", zone, "instances", instance), number(instance)
	}
	if !done.IsZero() && !done.After(c.now) {
		v.Status, v.Progress, v.Ended = "DONE", 100, stamp(done)
	}
	return v
}

// number returns the id for a name.
func number(name string) string {
	h := fnv.New64a()
	h.Write([]byte(name))
	return strconv.FormatUint(h.Sum64()>>1, 10)
}

// systemEvents returns the operations of the provider itself.
func (c *call) systemEvents() []operationView {
	var views []operationView
	for _, i := range c.region.Instances(c.now) {
		kind, begun, message := "", i.Ended, ""
		switch {
		case i.Cause.By == market.ByProvider && i.Cause.Code == region.CapacityTaken.Operation, i.State.Alive() && !i.NoticedAt.IsZero():
			kind, message = region.CapacityTaken.Operation, "Instance was preempted."
			if !i.NoticedAt.IsZero() {
				begun = i.NoticedAt
			}
		case i.Cause.Code == region.HardwareFailure.Operation:
			kind, message = i.Cause.Code, "Instance terminated by Compute Engine because of a host error."
		case i.Cause.Code == region.SelfShutdown.Operation:
			kind, message = i.Cause.Code, "Instance terminated by guest OS shutdown."
		case i.Cause.Code == region.RunOver.Operation:
			kind, message = "delete", "Instance reached the end of its maximum run duration."
		default:
			continue
		}
		v := c.viewOf(i.Pool.Zone, "systemevent-"+number(i.ID+kind), kind, i.ID, begun, i.Ended)
		v.User, v.StatusMessage = "system", message
		views = append(views, v)
	}
	return views
}

// allOperations returns the operations of a zone, "" = of all, newest first.
func (c *call) allOperations(zone string) []operationView {
	views := c.systemEvents()
	for _, o := range c.operations {
		views = append(views, c.view(o))
	}
	views = slices.DeleteFunc(views, func(v operationView) bool { return zone != "" && v.Zone != c.zoneLink(zone) })
	slices.SortStableFunc(views, func(a, b operationView) int { return strings.Compare(b.Inserted, a.Inserted) })
	return views
}

func listOperations(c *call) (any, error) {
	return listOf(c, "operation", c.allOperations(c.zone()))
}

func aggregateOperations(c *call) (any, error) {
	page, next, err := list(c, c.allOperations(""))
	return aggregate(c, "operation", page, next, func(v operationView) string { return v.Zone }), err
}

func getOperation(c *call) (any, error) {
	if o := c.byName[c.PathValue("operation")]; o != nil && o.zone == c.zone() {
		return c.view(o), nil
	}
	for _, v := range c.systemEvents() {
		if v.Name == c.PathValue("operation") {
			return v, nil
		}
	}
	return nil, c.notFound("operations", c.PathValue("operation"))
}

const (
	longestWait = 2 * time.Minute // as long as Compute Engine holds a call
	lookEvery   = 10 * time.Millisecond
)

// serveWait answers when the operation is done, or at a time limit.
func (h *Handler) serveWait(w http.ResponseWriter, r *http.Request) {
	late := time.After(longestWait)
	for {
		answer, err := h.act(r, nil, getOperation)
		if err != nil {
			h.refuse(w, r, err)
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-late:
			writeJSON(w, http.StatusOK, answer)
			return
		case <-time.After(lookEvery):
		}
		if answer.(operationView).Status == "DONE" {
			writeJSON(w, http.StatusOK, answer)
			return
		}
	}
}

// asFailure returns the region's refusal as the failure of an operation; an invalid request is refused at once.
func asFailure(err error) (*operationError, error) {
	e, ok := errors.AsType[*region.Error](err)
	if !ok {
		return nil, err
	}
	switch e.Code {
	case "InsufficientInstanceCapacity":
		return &operationError{"ZONE_RESOURCE_POOL_EXHAUSTED", "The zone does not have enough resources available to fulfill the request: " +
			e.Message, http.StatusServiceUnavailable}, nil
	case "MaxSpotInstanceCountExceeded", "InstanceLimitExceeded":
		return &operationError{"QUOTA_EXCEEDED", "Quota exceeded: " + e.Message, http.StatusForbidden}, nil
	}
	return nil, refusalf(http.StatusBadRequest, "invalid", "%s", e.Message)
}
