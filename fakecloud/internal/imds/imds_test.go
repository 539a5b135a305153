package imds

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// host is an endpoint whose instance and wall clock the test sets.
type host struct {
	*Endpoint
	instance region.Instance
	wall     time.Time
}

func newHost() *host {
	h := &host{wall: time.Unix(1000, 0)}
	h.instance = region.Instance{
		ID: "i-0123456789abcdef0", Image: "ami-1", Number: 5, Reservation: "r-1",
		Pool:     market.Pool{Provider: "ec2", Region: "us-west-1", Zone: "us-west-1a", Type: "c3.xlarge", Class: market.Spot},
		UserData: []byte("hello\n"), Tags: map[string]string{"job": "demo"},
		Launched: time.Date(2017, 9, 18, 8, 0, 0, 0, time.UTC),
	}
	kind := region.Type{InstanceType: market.InstanceType{Arch: "x86_64"}}
	h.Endpoint = New(func() (region.Instance, region.Type) { return h.instance, kind }, func() time.Time { return h.wall })
	return h
}

func (h *host) ask(method, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func (h *host) token(t *testing.T, seconds string) string {
	t.Helper()
	w := h.ask(http.MethodPut, "/latest/api/token", ttlHeader, seconds)
	if w.Code != http.StatusOK || w.Header().Get(ttlHeader) != seconds {
		t.Fatalf("token: %d, ttl %q", w.Code, w.Header().Get(ttlHeader))
	}
	return w.Body.String()
}

func TestTokens(t *testing.T) {
	h := newHost()
	const path = "/latest/meta-data/instance-id"
	if w := h.ask(http.MethodGet, path); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "401 - Unauthorized") {
		t.Errorf("without a token: %d %s", w.Code, w.Body)
	}
	if w := h.ask(http.MethodGet, path, tokenHeader, "made up"); w.Code != http.StatusUnauthorized {
		t.Errorf("with a made-up token: %d", w.Code)
	}
	token := h.token(t, "60")
	if w := h.ask(http.MethodGet, path, tokenHeader, token); w.Code != http.StatusOK || w.Body.String() != "i-0123456789abcdef0" {
		t.Errorf("with a token: %d %s", w.Code, w.Body)
	}
	if w := h.ask(http.MethodPost, path, tokenHeader, token); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	h.wall = h.wall.Add(time.Minute)
	if w := h.ask(http.MethodGet, path, tokenHeader, token); w.Code != http.StatusUnauthorized {
		t.Errorf("with a token that is too old: %d", w.Code)
	}
	for _, tt := range []struct {
		method string
		header []string
		want   int
	}{
		{http.MethodPut, nil, http.StatusBadRequest},
		{http.MethodPut, []string{ttlHeader, "0"}, http.StatusBadRequest},
		{http.MethodPut, []string{ttlHeader, "21601"}, http.StatusBadRequest},
		{http.MethodPut, []string{ttlHeader, "soon"}, http.StatusBadRequest},
		{http.MethodGet, []string{ttlHeader, "60"}, http.StatusMethodNotAllowed},
		{http.MethodPut, []string{ttlHeader, "60", "X-Forwarded-For", "10.0.0.1"}, http.StatusForbidden},
	} {
		if w := h.ask(tt.method, "/latest/api/token", tt.header...); w.Code != tt.want {
			t.Errorf("%s token %v: %d, want %d", tt.method, tt.header, w.Code, tt.want)
		}
	}
}

func TestPaths(t *testing.T) {
	h := newHost()
	token := h.token(t, "21600")
	check := func(path, kind, want string) {
		t.Helper()
		w := h.ask(http.MethodGet, path, tokenHeader, token)
		if w.Code != http.StatusOK || w.Body.String() != want || w.Header().Get("Content-Type") != kind {
			t.Errorf("%s: %d %s %q, want %s %q", path, w.Code, w.Header().Get("Content-Type"), w.Body, kind, want)
		}
	}
	missing := func(path string) {
		t.Helper()
		w := h.ask(http.MethodGet, path, tokenHeader, token)
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "<h1>404 - Not Found</h1>") {
			t.Errorf("%s: %d %s, want 404", path, w.Code, w.Body)
		}
	}
	const meta = "/latest/meta-data/"
	check(meta+"instance-type", "text/plain", "c3.xlarge")
	check(meta+"instance-life-cycle", "text/plain", "spot")
	check(meta+"placement/availability-zone", "text/plain", "us-west-1a")
	check(meta+"placement/region", "text/plain", "us-west-1")
	check(meta+"placement/", "text/plain", "availability-zone\nregion")
	check(meta+"local-ipv4", "text/plain", "172.31.0.8")
	check(meta+"tags/instance", "text/plain", "job")
	check(meta+"tags/instance/job", "text/plain", "demo")
	check("/latest/user-data", "application/octet-stream", "hello\n")
	check("/latest", "text/plain", "dynamic\nmeta-data\nuser-data")
	check("/latest/dynamic/instance-identity/document", "application/json",
		`{"accountId":"000000000000","architecture":"x86_64","availabilityZone":"us-west-1a","billingProducts":null,`+
			`"devpayProductCodes":null,"marketplaceProductCodes":null,"imageId":"ami-1","instanceId":"i-0123456789abcdef0",`+
			`"instanceType":"c3.xlarge","kernelId":null,"pendingTime":"2017-09-18T08:00:00Z","privateIp":"172.31.0.8",`+
			`"ramdiskId":null,"region":"us-west-1","version":"2017-09-30"}`)
	missing(meta + "spot/instance-action")
	missing(meta + "spot/termination-time")
	missing(meta + "events/recommendations/rebalance")
	missing(meta + "nothing")
	check("/", "text/plain", "latest")

	h.instance.RebalanceAt = time.Date(2017, 9, 18, 8, 20, 0, 5e8, time.UTC)
	check(meta+"events/recommendations/rebalance", "application/json", `{"noticeTime":"2017-09-18T08:20:00Z"}`)
	missing(meta + "spot/instance-action")
	h.instance.Deadline = time.Date(2017, 9, 18, 8, 22, 0, 0, time.UTC)
	check(meta+"spot/instance-action", "application/json", `{"action":"terminate","time":"2017-09-18T08:22:00Z"}`)
	check(meta+"spot/termination-time", "text/plain", "2017-09-18T08:22:00Z")

	h.instance.UserData = nil
	missing("/latest/user-data")
}
