package api_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierml/tierml/market"
	ec2 "github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
)

// server answers with given texts and records requests.
type server struct {
	t      testing.TB
	url    string
	answer func(form url.Values) (status int, body string)

	mu     sync.Mutex
	forms  []url.Values
	header http.Header // of the last request
}

func newServer(t testing.TB, answer func(form url.Values) (int, string)) *server {
	s := &server{t: t, answer: answer}
	httpServer := httptest.NewServer(s)
	t.Cleanup(httpServer.Close)
	s.url = httpServer.URL
	return s
}

// always gives every request the same answer.
func always(status int, body string) func(url.Values) (int, string) {
	return func(url.Values) (int, string) { return status, body }
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		s.t.Errorf("reading a request: %v", err)
	}
	s.mu.Lock()
	s.forms = append(s.forms, r.PostForm)
	s.header = r.Header.Clone()
	s.mu.Unlock()
	status, body := s.answer(r.PostForm)
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

// recorded returns the requests so far.
func (s *server) recorded() []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.forms)
}

// actions returns the names of the calls so far.
func (s *server) actions() []string {
	var names []string
	for _, f := range s.recorded() {
		names = append(names, f.Get("Action"))
	}
	return names
}

// cloud returns an adapter for the server.
func (s *server) cloud(change ...func(*ec2.Config)) *ec2.Cloud {
	c := ec2.Config{Endpoint: s.url, Region: "us-west-1", Cluster: "blue", ImageID: "ami-1", MaxAttempts: 1,
		PollInterval: 10 * time.Millisecond}
	for _, f := range change {
		f(&c)
	}
	return newCloud(s.t, c)
}

// wantForm compares a request's fields, given one per line as "name=value".
func wantForm(t *testing.T, got url.Values, want string) {
	t.Helper()
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(got)) {
		lines = append(lines, name+"="+strings.Join(got[name], ","))
	}
	wanted := strings.Split(strings.TrimSpace(want), "\n")
	for n := range wanted {
		wanted[n] = strings.TrimSpace(wanted[n])
	}
	slices.Sort(wanted)
	if diff := cmp.Diff(wanted, lines); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func apiError(code, message string) string {
	return `<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error><Code>` + code + `</Code><Message>` +
		message + `</Message></Error></Errors><RequestID>req-1</RequestID></Response>`
}

// instance is one machine in EC2's XML.
type instance struct {
	id, state, lifecycle, spotRequest string
	code, transition                  string
	tags                              string
}

func (i instance) xml() string {
	text := `<item><instanceId>` + i.id + `</instanceId><imageId>ami-1</imageId><instanceState><name>` + i.state +
		`</name></instanceState><instanceType>c3.large</instanceType><launchTime>2014-03-01T10:00:00.000Z</launchTime>` +
		`<placement><availabilityZone>us-west-1a</availabilityZone></placement>` + i.tags
	if i.lifecycle != "" {
		text += `<instanceLifecycle>` + i.lifecycle + `</instanceLifecycle><spotInstanceRequestId>` + i.spotRequest + `</spotInstanceRequestId>`
	}
	if i.code != "" {
		text += `<stateReason><code>` + i.code + `</code><message>` + i.code + `: words</message></stateReason>`
	}
	return text + `<reason>` + i.transition + `</reason></item>`
}

func tagSet(pairs ...string) string {
	text := "<tagSet>"
	for n := 0; n < len(pairs); n += 2 {
		text += "<item><key>" + pairs[n] + "</key><value>" + pairs[n+1] + "</value></item>"
	}
	return text + "</tagSet>"
}

func runAnswer(instances ...instance) string {
	text := `<RunInstancesResponse><reservationId>r-1</reservationId><instancesSet>`
	for _, i := range instances {
		text += i.xml()
	}
	return text + `</instancesSet></RunInstancesResponse>`
}

func describeAnswer(next string, instances ...instance) string {
	text := `<DescribeInstancesResponse><reservationSet>`
	for _, i := range instances {
		text += `<item><reservationId>r-1</reservationId><instancesSet>` + i.xml() + `</instancesSet></item>`
	}
	return text + `</reservationSet>` + nextToken(next) + `</DescribeInstancesResponse>`
}

func nextToken(next string) string {
	if next == "" {
		return ""
	}
	return `<nextToken>` + next + `</nextToken>`
}

// requestsAnswer takes triples of request id, status code and update time.
func requestsAnswer(triples ...string) string {
	text := `<DescribeSpotInstanceRequestsResponse><spotInstanceRequestSet>`
	for n := 0; n < len(triples); n += 3 {
		text += `<item><spotInstanceRequestId>` + triples[n] + `</spotInstanceRequestId><status><code>` + triples[n+1] +
			`</code><updateTime>` + triples[n+2] + `</updateTime></status></item>`
	}
	return text + `</spotInstanceRequestSet></DescribeSpotInstanceRequestsResponse>`
}

func spotPool() market.Pool {
	return market.Pool{Provider: "ec2", Region: "us-west-1", Zone: "us-west-1a", Type: "c3.large", Class: market.Spot}
}

func spotRequest() provisioner.Request {
	return provisioner.Request{
		Token: "job-1/2", Pool: spotPool(), Bid: 123_456_789, Count: 17, UserData: "hello",
		Tags: map[string]string{"job": "mf", "attempt": "1"},
	}
}
