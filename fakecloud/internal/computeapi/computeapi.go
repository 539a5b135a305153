// Package computeapi speaks the REST form of Google's Compute Engine API, version 1: JSON in and out, long-running operations, errors with
// Compute Engine's reasons, codes and statuses. It decides nothing; it translates between the wire and a region.Region.
//
// Credentials are accepted unchecked, and any project. A field that no real client would send is refused, so that a misspelt one does not
// go unnoticed; those without a meaning on one machine (networks, disks, accounts) are known and have no effect. A name can be used only
// once, even after its machine has ended.
package computeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
)

// maxRequest is larger than any request: user data and a startup script have at most 256 KiB each.
const maxRequest = 2 << 20

// Backend gives a call exclusive use of the region, at a time.
type Backend interface {
	Do(f func(r *region.Region, now time.Time))
}

// Handler answers requests.
type Handler struct {
	backend Backend
	log     *slog.Logger
	mux     *http.ServeMux
	lengths Lengths

	// Guarded by the backend: one call at a time.
	operations []*operation
	byName     map[string]*operation
	requests   map[string]*operation // by request id
	deleted    map[string]bool       // names of deleted machines
	given      map[string]properties // of machines, by name: properties without effect, to be read back
	count      uint64
}

// Durations are in market time.
type Lengths struct {
	Operation time.Duration // from the start of an insert to the end of its operation
	// Market converts a wall-clock duration, such as a notice's, to market time.
	Market func(time.Duration) time.Duration
}

// New returns a Handler.
func New(b Backend, log *slog.Logger, lengths Lengths) *Handler {
	h := &Handler{backend: b, log: log, lengths: lengths, mux: http.NewServeMux(), byName: map[string]*operation{},
		requests: map[string]*operation{}, deleted: map[string]bool{}, given: map[string]properties{}}
	const project, zone = "/compute/v1/projects/{project}", "/compute/v1/projects/{project}/zones/{zone}"
	for pattern, act := range map[string]action{
		"POST " + zone + "/instances":                                                 insert,
		"POST " + zone + "/instances/bulkInsert":                                      bulkInsert,
		"GET " + zone + "/instances":                                                  listInstances,
		"GET " + zone + "/instances/{instance}":                                       getInstance,
		"DELETE " + zone + "/instances/{instance}":                                    deleteInstance,
		"POST " + zone + "/instances/{instance}/setLabels":                            setLabels,
		"POST " + zone + "/instances/{instance}/setMetadata":                          setMetadata,
		"POST " + zone + "/instances/{instance}/setTags":                              setTags,
		"POST " + zone + "/instances/{instance}/reset":                                resetInstance,
		"GET " + project + "/global/images":                                           listImages,
		"GET " + zone + "/acceleratorTypes":                                           listAcceleratorTypes,
		"GET " + zone + "/acceleratorTypes/{name}":                                    getAcceleratorType,
		"GET " + project + "/aggregated/acceleratorTypes":                             aggregateAcceleratorTypes,
		"GET " + project + "/aggregated/instances":                                    aggregateInstances,
		"GET " + zone + "/operations":                                                 listOperations,
		"GET " + zone + "/operations/{operation}":                                     getOperation,
		"GET " + project + "/aggregated/operations":                                   aggregateOperations,
		"GET " + zone + "/machineTypes":                                               listTypes,
		"GET " + zone + "/machineTypes/{type}":                                        getType,
		"GET " + project + "/zones":                                                   listZones,
		"GET " + project + "/zones/{zone}":                                            getZone,
		"GET " + project + "/regions":                                                 listRegions,
		"GET " + project + "/regions/{region}":                                        getRegion,
		"GET " + project:                                                              getProject,
		"GET " + project + "/global/networks":                                         listThings("network", networks),
		"GET " + project + "/global/networks/{name}":                                  getThing(networks),
		"GET " + project + "/regions/{region}/subnetworks":                            listThings("subnetwork", subnetworks),
		"GET " + project + "/regions/{region}/subnetworks/{name}":                     getThing(subnetworks),
		"GET " + project + "/global/firewalls":                                        listThings("firewall", nothing),
		"GET " + project + "/global/instanceTemplates":                                listThings("instanceTemplate", nothing),
		"GET " + zone + "/disks":                                                      listThings("disk", disks),
		"GET " + zone + "/disks/{name}":                                               getThing(disks),
		"GET " + project + "/aggregated/disks":                                        aggregateDisks,
		"GET " + zone + "/diskTypes":                                                  listThings("diskType", diskTypes),
		"GET " + project + "/global/images/{image}":                                   getImage,
		"GET " + project + "/global/images/family/{family}":                           getImage,
		"GET " + project + "/aggregated/machineTypes":                                 aggregateTypes,
		"POST " + zone + "/instances/{instance}/setDeletionProtection":                setDeletionProtection,
		"POST " + zone + "/instances/{instance}/stop":                                 stopInstance,
		"POST " + zone + "/instances/{instance}/start":                                startInstance,
		"GET " + zone + "/instances/{instance}/serialPort":                            getSerialPort,
		"POST " + project + "/regions/{region}/subnetworks/{name}/testIamPermissions": testPermissions(getThing(subnetworks)),
		"POST /v1/projects/{resource...}":                                             testPermissions(permissible),
		"GET /v1/projects/{project}/services:batchGet":                                getServices,
		"GET /v1/services/{service}/skus":                                             listSKUs,
		"POST " + project + "/regions/{region}/advice/capacity":                       capacityAdvice,
		"POST " + project + "/regions/{region}/advice/capacityHistory":                capacityHistory,
		"POST " + zone + "/instances/{instance}/simulateMaintenanceEvent":             simulateMaintenance,
	} {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, act) })
	}
	h.mux.HandleFunc("POST "+zone+"/operations/{operation}/wait", h.serveWait)
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.refuse(w, r, refusalf(http.StatusNotFound, "notFound", "no method %s %s is spoken here", r.Method, r.URL.Path))
	})
	return h
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// action answers one call.
type action func(c *call) (any, error)

// call is one request.
type call struct {
	*Handler
	*http.Request
	body   []byte
	host   string // "http://127.0.0.1:4000"
	region *region.Region
	now    time.Time
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, act action) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		h.refuse(w, r, refusalf(http.StatusBadRequest, "badRequest", "reading the request: %v", err))
		return
	}
	answer, err := h.act(r, body, act)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	h.log.Debug("request", "method", r.Method, "path", r.URL.Path)
	writeJSON(w, http.StatusOK, answer)
}

func (h *Handler) act(r *http.Request, body []byte, act action) (answer any, err error) {
	h.backend.Do(func(reg *region.Region, now time.Time) {
		if reg.Throttled(now) {
			err = refusalf(http.StatusForbidden, "rateLimitExceeded", "Rate Limit Exceeded")
			return
		}
		c := &call{Handler: h, Request: r, body: body, host: "http://" + r.Host, region: reg, now: now}
		if err = c.checkZone(); err == nil {
			answer, err = act(c)
		}
	})
	return answer, err
}

func (c *call) project() string { return c.PathValue("project") }
func (c *call) zone() string    { return c.PathValue("zone") }

// link returns a resource's address: link("zones", "us-central1-a").
func (c *call) link(parts ...string) string {
	address := c.host + "/compute/v1/projects/" + c.project()
	for _, part := range parts {
		address += "/" + part
	}
	return address
}

func (c *call) zoneLink(zone string) string { return c.link("zones", zone) }

func (c *call) checkZone() error {
	zone := c.zone()
	for _, known := range c.region.Zones() {
		if zone == known || zone == "" {
			return nil
		}
	}
	return refusalf(http.StatusBadRequest, "invalid", "Invalid value for field 'zone': '%s'. Unknown zone.", zone)
}

// refusal is an error with Compute Engine's reason.
type refusal struct {
	status          int
	reason, message string
}

func (e *refusal) Error() string { return e.reason + ": " + e.message }

func refusalf(status int, reason, format string, args ...any) *refusal {
	return &refusal{status, reason, fmt.Sprintf(format, args...)}
}

func invalid(field, value, why string) *refusal {
	return refusalf(http.StatusBadRequest, "invalid", "Invalid value for field '%s': '%s'. %s", field, value, why)
}

func (c *call) notFound(kind, name string) *refusal {
	return refusalf(http.StatusNotFound, "notFound", "The resource 'projects/%s/zones/%s/%s/%s' was not found", c.project(), c.zone(), kind, name)
}

func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	e, ok := errors.AsType[*refusal](err)
	if !ok {
		e = refusalf(http.StatusInternalServerError, "internalError", "%v", err)
	}
	h.log.Debug("request refused", "method", r.Method, "path", r.URL.Path, "reason", e.reason, "message", e.message)
	domain := "global"
	if e.reason == "rateLimitExceeded" {
		domain = "usageLimits"
	}
	type item struct {
		Message string `json:"message"`
		Domain  string `json:"domain"`
		Reason  string `json:"reason"`
	}
	var body struct {
		Error struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
			Errors  []item `json:"errors"`
		} `json:"error"`
	}
	body.Error.Code, body.Error.Message = e.status, e.message
	body.Error.Errors = []item{{e.message, domain, e.reason}}
	writeJSON(w, e.status, body)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	w.Write(append(text, '\n')) // a client that has disconnected needs no answer
}

// stamp formats a time as Compute Engine does: milliseconds, in its own time zone.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(pacific).Format("2006-01-02T15:04:05.000-07:00")
}

var pacific = time.FixedZone("", -7*60*60)
