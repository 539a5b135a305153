// Package imds is the metadata endpoint of one instance, version 2 of the protocol only: a session token by PUT, then metadata by GET, as
// on EC2. Times in its answers are market times; a token's lifetime is in wall-clock time, as clients count it. It decides nothing: package
// region does.
package imds

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/query"
	"github.com/tierml/tierml/fakecloud/internal/region"
)

const (
	tokenHeader = "X-aws-ec2-metadata-token"
	ttlHeader   = "X-aws-ec2-metadata-token-ttl-seconds"
	maxTTL      = 6 * 60 * 60
	maxTokens   = 1024 // a client that requests more invalidates its oldest ones
)

// Look returns the instance's current state.
type Look func() (i region.Instance, t region.Type)

// Endpoint answers the metadata requests of one instance.
type Endpoint struct {
	look Look
	wall func() time.Time

	mu     sync.Mutex
	tokens []token
}

type token struct {
	value   string
	expires time.Time
}

// New returns an Endpoint; wall is the wall clock.
func New(look Look, wall func() time.Time) *Endpoint { return &Endpoint{look: look, wall: wall} }

func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", "EC2ws")
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch {
	case path == "/latest/api/token":
		e.serveToken(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		refuse(w, http.StatusMethodNotAllowed)
	case !e.valid(r.Header.Get(tokenHeader)):
		refuse(w, http.StatusUnauthorized)
	default:
		e.serveValue(w, path)
	}
}

// serveToken opens a session. Requests through a proxy are refused, as on EC2.
func (e *Endpoint) serveToken(w http.ResponseWriter, r *http.Request) {
	ttl, err := strconv.Atoi(r.Header.Get(ttlHeader))
	switch {
	case r.Method != http.MethodPut:
		refuse(w, http.StatusMethodNotAllowed)
		return
	case r.Header.Get("X-Forwarded-For") != "":
		refuse(w, http.StatusForbidden)
		return
	case err != nil || ttl < 1 || ttl > maxTTL:
		refuse(w, http.StatusBadRequest)
		return
	}
	secret := make([]byte, 32)
	rand.Read(secret) // never fails (crypto/rand)
	t := token{base64.URLEncoding.EncodeToString(secret), e.wall().Add(time.Duration(ttl) * time.Second)}
	e.mu.Lock()
	if len(e.tokens) == maxTokens {
		e.tokens = slices.Delete(e.tokens, 0, 1)
	}
	e.tokens = append(e.tokens, t)
	e.mu.Unlock()
	w.Header().Set(ttlHeader, strconv.Itoa(ttl))
	answer(w, "text/plain", t.value)
}

func (e *Endpoint) valid(value string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.wall()
	e.tokens = slices.DeleteFunc(e.tokens, func(t token) bool { return !t.expires.After(now) })
	return slices.ContainsFunc(e.tokens, func(t token) bool { return t.value == value })
}

func (e *Endpoint) serveValue(w http.ResponseWriter, path string) {
	values := e.values()
	if v, ok := values[path]; ok {
		answer(w, v.kind, v.text)
		return
	}
	if names := below(values, path); len(names) > 0 {
		answer(w, "text/plain", strings.Join(names, "\n"))
		return
	}
	refuse(w, http.StatusNotFound)
}

// below lists a folder; names of folders end in a slash.
func below(values map[string]value, folder string) []string {
	var names []string
	for path := range values {
		rest, ok := strings.CutPrefix(path, folder+"/")
		if !ok {
			continue
		}
		if name, _, deeper := strings.Cut(rest, "/"); deeper {
			rest = name
			if len(folder) > len("/latest") { // the upper two levels have no slash
				rest += "/"
			}
		}
		names = append(names, rest)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func answer(w http.ResponseWriter, kind, text string) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.Write([]byte(text)) // a client that has disconnected needs no answer
}

// refuse answers with the metadata service's page for a status.
func refuse(w http.ResponseWriter, status int) {
	title := fmt.Sprintf("%d - %s", status, http.StatusText(status))
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="iso-8859-1"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN"
	"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">
<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">
 <head>
  <title>%[1]s</title>
 </head>
 <body>
  <h1>%[1]s</h1>
 </body>
</html>
`, title)
}

type value struct{ kind, text string }

func plain(text string) value { return value{"text/plain", text} }

func object(v any) value {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // values are strings and lists of strings
	}
	return value{"application/json", string(b)}
}

// values returns all paths that exist now. Any other path is 404, such as a notice's before there is one.
func (e *Endpoint) values() map[string]value {
	i, t := e.look()
	const meta = "/latest/meta-data/"
	values := map[string]value{
		meta + "ami-id":                              plain(i.Image),
		meta + "ami-launch-index":                    plain(strconv.Itoa(i.Index)),
		meta + "hostname":                            plain(query.PrivateDNS(i)),
		meta + "instance-action":                     plain("none"),
		meta + "instance-id":                         plain(i.ID),
		meta + "instance-life-cycle":                 plain(string(i.Pool.Class)),
		meta + "instance-type":                       plain(i.Pool.Type),
		meta + "local-hostname":                      plain(query.PrivateDNS(i)),
		meta + "local-ipv4":                          plain(query.PrivateIP(i)),
		meta + "placement/availability-zone":         plain(i.Pool.Zone),
		meta + "placement/region":                    plain(i.Pool.Region),
		meta + "reservation-id":                      plain(i.Reservation),
		meta + "services/domain":                     plain("amazonaws.com"),
		meta + "services/partition":                  plain("aws"),
		"/latest/dynamic/instance-identity/document": object(identity(i, t)),
	}
	for _, key := range slices.Sorted(maps.Keys(i.Tags)) {
		values[meta+"tags/instance/"+key] = plain(i.Tags[key])
	}
	if len(i.UserData) > 0 {
		values["/latest/user-data"] = value{"application/octet-stream", string(i.UserData)}
	}
	if !i.Deadline.IsZero() {
		at := stamp(i.Deadline)
		values[meta+"spot/instance-action"] = object(struct {
			Action string `json:"action"`
			Time   string `json:"time"`
		}{"terminate", at})
		values[meta+"spot/termination-time"] = plain(at)
	}
	if !i.RebalanceAt.IsZero() {
		values[meta+"events/recommendations/rebalance"] = object(struct {
			Time string `json:"noticeTime"`
		}{stamp(i.RebalanceAt)})
	}
	return values
}

// document is the instance identity document, unsigned.
type document struct {
	Account          string   `json:"accountId"`
	Architecture     string   `json:"architecture"`
	AvailabilityZone string   `json:"availabilityZone"`
	BillingProducts  []string `json:"billingProducts"`
	DevpayCodes      []string `json:"devpayProductCodes"`
	MarketplaceCodes []string `json:"marketplaceProductCodes"`
	Image            string   `json:"imageId"`
	Instance         string   `json:"instanceId"`
	Type             string   `json:"instanceType"`
	Kernel           *string  `json:"kernelId"`
	Pending          string   `json:"pendingTime"`
	PrivateIP        string   `json:"privateIp"`
	Ramdisk          *string  `json:"ramdiskId"`
	Region           string   `json:"region"`
	Version          string   `json:"version"`
}

func identity(i region.Instance, t region.Type) document {
	return document{
		Account: query.Account, Architecture: t.Arch, AvailabilityZone: i.Pool.Zone, Image: i.Image, Instance: i.ID,
		Type: i.Pool.Type, Pending: stamp(i.Launched), PrivateIP: query.PrivateIP(i), Region: i.Pool.Region, Version: "2017-09-30",
	}
}

// stamp formats a time as metadata does: whole seconds.
func stamp(t time.Time) string { return t.UTC().Truncate(time.Second).Format(time.RFC3339) }
