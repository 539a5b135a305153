package api_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"github.com/tierml/tierml/market"
	gce "github.com/tierml/tierml/providers/gce/api"
	"github.com/tierml/tierml/provisioner"
)

// scopes returns an aggregated list of one zone.
func scopes(kind, next string, items ...string) string {
	return fmt.Sprintf(`{"items": {"zones/us-central1-a": {%q: [%s]}, "zones/us-east1-b": {"warning": {"code": "NO_RESULTS_ON_PAGE"}}}, "nextPageToken": %q}`,
		kind, strings.Join(items, ","), next)
}

// TestListRequests: a list filters by label, page by page, and by operation.
func TestListRequests(t *testing.T) {
	s := newServer(t, func(r request) (int, string) {
		switch {
		case strings.HasSuffix(r.path, "operations"):
			return 200, `{}`
		case r.query["pageToken"] == "":
			return 200, scopes("instances", "next", machineAnswer(t, "m-2", nil))
		default:
			return 200, scopes("instances", "", machineAnswer(t, "m-1", func(i *computepb.Instance) { i.Status = proto.String("STAGING") }),
				machineAnswer(t, "of-another-region", func(i *computepb.Instance) { i.Zone = proto.String("zones/europe-west1-b") }))
		}
	})
	cloud := s.cloud(func(c *gce.Config) { c.Cluster = "Blue.1" })
	if _, err := cloud.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	label := s.recorded()[0].query["filter"]
	if !strings.HasPrefix(label, `labels.tierml-cluster = "blue-1_`) {
		t.Errorf("filter %s", label)
	}
	if len(s.recorded()) != 2 {
		t.Errorf("requests %v: want two pages, and none for operations, as no machine is this cluster's", s.recorded())
	}
	s2 := newServer(t, s.answer)
	got, err := s2.cloud().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := s2.recorded()
	for n, want := range []map[string]string{
		{"filter": `labels.tierml-cluster = "blue"`, "maxResults": "500"},
		{"filter": `labels.tierml-cluster = "blue"`, "maxResults": "500", "pageToken": "next"},
		{"filter": r[2].query["filter"], "maxResults": "500"},
	} {
		wantQuery(t, r[n], want)
	}
	if r[0].path != "aggregated/instances" || r[2].path != "aggregated/operations" ||
		!strings.HasPrefix(r[2].query["filter"], `targetLink eq ".*/instances/blue-`) {
		t.Errorf("requests %v", r)
	}
	if len(got) != 2 || got[0].ID != "m-1" || got[0].State != provisioner.Pending || got[1].State != provisioner.Running {
		t.Fatalf("got %+v", got)
	}
	i := got[1]
	if i.Pool != spotPool() || i.Token != "job-1/2" || i.Tags["job"] != "MF" || !i.Launched.Equal(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)) {
		t.Errorf("got %+v", i)
	}
}

// TestZoneOutOfReach: a list that omits a zone is an error: its machines would seem to be gone.
func TestZoneOutOfReach(t *testing.T) {
	s := newServer(t, func(request) (int, string) {
		return 200, `{"items": {"zones/us-central1-a": {"warning": {"code": "UNREACHABLE", "message": "no answer"}}}}`
	})
	if got, err := s.cloud().List(t.Context()); !errors.Is(err, provisioner.ErrTemporary) {
		t.Errorf("got %v, %v; want a temporary failure", got, err)
	}
}

// operationAnswer returns an operation on m-1, from second to second after the launch.
func operationAnswer(kind, user, status string, from, to int) string {
	at := func(s int) string { return fmt.Sprintf("2026-03-01T12:00:%02dZ", s) }
	return fmt.Sprintf(`{"name": "op-%s-%d", "operationType": %q, "user": %q, "status": %q, "statusMessage": %q, "insertTime": %q, "startTime": %q, "endTime": %q,
  "targetLink": "https://www.googleapis.com/compute/v1/projects/my-project/zones/us-central1-a/instances/MACHINE"}`,
		kind, from, kind, user, status, map[string]string{"system": "words of " + kind}[user], at(from), at(from), at(to))
}

// TestEnds: a machine's end and its cause are read from the operations, once it is no longer listed.
func TestEnds(t *testing.T) {
	const preempted, hostError = "compute.instances.preempted", "compute.instances.hostError"
	for _, c := range []struct {
		name       string
		operations []string
		settled    bool // it has been missing from the list for long
		state      provisioner.State
		by         market.EndedBy
		second     int // of its end
		reason     string
	}{
		{"preempted", []string{operationAnswer(preempted, "system", "DONE", 10, 40)}, false, provisioner.Terminated, market.ByProvider, 40, "words of " + preempted},
		{"preempted, then deleted", []string{operationAnswer(preempted, "system", "DONE", 10, 40), operationAnswer("delete", "me", "DONE", 20, 41)}, false,
			provisioner.Terminated, market.ByProvider, 41, "words of " + preempted},
		{"deleted, then preempted", []string{operationAnswer("delete", "me", "DONE", 5, 41), operationAnswer(preempted, "system", "DONE", 10, 40)}, false,
			provisioner.Terminated, market.ByUser, 41, "words of " + preempted},
		{"deleted", []string{operationAnswer("insert", "me", "DONE", 0, 5), operationAnswer("delete", "me", "DONE", 20, 30)}, false,
			provisioner.Terminated, market.ByUser, 30, "delete by me"},
		{"being deleted", []string{operationAnswer("delete", "me", "RUNNING", 20, 30)}, false, provisioner.Stopping, market.Running, 0, ""},
		{"host error", []string{operationAnswer(hostError, "system", "DONE", 7, 7)}, false, provisioner.Terminated, market.ByProvider, 7, "words of " + hostError},
		{"not told yet", nil, false, provisioner.Running, market.Running, 0, ""},
		{"never told", nil, true, provisioner.Terminated, market.ByUser, -1, "no operation tells why"},
	} {
		t.Run(c.name, func(t *testing.T) {
			name, there := "first", true
			s := newServer(t, func(r request) (int, string) {
				switch {
				case strings.HasSuffix(r.path, "operations"):
					return 200, scopes("operations", "", strings.ReplaceAll(strings.Join(c.operations, ","), "MACHINE", name))
				case there:
					return 200, scopes("instances", "", machineAnswer(t, name, nil))
				default:
					return 200, `{}`
				}
			})
			cloud := s.cloud(func(g *gce.Config) {
				if c.settled {
					g.Settle = time.Nanosecond
				}
			})
			if _, err := cloud.List(t.Context()); err != nil { // so that the filter for operations shows how the cluster names machines
				t.Fatal(err)
			}
			name = nameOf(s)
			if _, err := cloud.List(t.Context()); err != nil {
				t.Fatal(err)
			}
			there = false
			got := find(t, cloud, name)
			if got.State != c.state || got.EndedBy != c.by || !strings.Contains(got.Reason, c.reason) {
				t.Errorf("got %+v", got)
			}
			if want := time.Date(2026, 3, 1, 12, 0, c.second, 0, time.UTC); c.second > 0 && !got.Ended.Equal(want) {
				t.Errorf("ended %s, want %s", got.Ended, want)
			}
			if again := find(t, cloud, name); !again.Ended.Equal(got.Ended) {
				t.Errorf("ended %s, then %s", got.Ended, again.Ended)
			}
		})
	}
}

// nameOf makes a name of the cluster from a filter that was sent.
func nameOf(s *server) string {
	for _, r := range s.recorded() {
		if _, rest, ok := strings.Cut(r.query["filter"], "/instances/"); ok {
			prefix, _, _ := strings.Cut(rest, `.*"`)
			return prefix + "aaaaaaaaaa-000"
		}
	}
	s.t.Fatal("no operations were asked for")
	return ""
}

func find(t *testing.T, cloud *gce.Cloud, name string) provisioner.Instance {
	t.Helper()
	listed, err := cloud.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range listed {
		if string(i.ID) == name {
			return i
		}
	}
	t.Fatalf("%s is not in %+v", name, listed)
	return provisioner.Instance{}
}

// TestTerminate: one delete for each machine, in its zone; stopped ones too, and none for unknown machines.
func TestTerminate(t *testing.T) {
	s := newServer(t, func(r request) (int, string) {
		switch {
		case r.method == "DELETE" && strings.HasSuffix(r.path, "m-2"):
			return 404, refusal(404, "notFound", "")
		case r.method == "DELETE":
			return 200, doneAnswer
		case strings.HasSuffix(r.path, "operations"):
			return 200, `{}`
		}
		return 200, scopes("instances", "", machineAnswer(t, "m-1", nil), machineAnswer(t, "m-2", nil),
			machineAnswer(t, "m-3", func(i *computepb.Instance) { i.Status = proto.String("TERMINATED") }))
	})
	if err := s.cloud().Terminate(t.Context(), "m-3", "m-1", "m-2", "m-1", "m-9"); err != nil {
		t.Fatal(err)
	}
	deleted := map[string]int{}
	for _, r := range s.recorded() {
		if r.method == "DELETE" {
			deleted[r.path]++
			wantQuery(t, r, map[string]string{})
		}
	}
	for _, name := range []string{"m-1", "m-2", "m-3"} {
		if deleted["zones/us-central1-a/instances/"+name] != 1 || len(deleted) != 3 {
			t.Errorf("deleted %v", deleted)
		}
	}
}

// TestPrices: the capacity history, in the API's own words.
func TestPrices(t *testing.T) {
	s := newServer(t, func(request) (int, string) {
		return 200, `{"priceHistory": [
  {"interval": {"startTime": "2026-03-03T00:00:00Z"}, "listPrice": {"currencyCode": "USD", "nanos": 47000000}},
  {"interval": {"startTime": "2026-03-01T00:00:00Z", "endTime": "2026-03-03T00:00:00Z"}, "listPrice": {"currencyCode": "USD", "units": "1", "nanos": 500000000}},
  {"interval": {"startTime": "2026-02-01T00:00:00Z", "endTime": "2026-03-01T00:00:00Z"}, "listPrice": {"currencyCode": "USD", "units": "2"}}]}`
	})
	cloud := s.cloud()
	day := func(d int) time.Time { return time.Date(2026, 3, d, 0, 0, 0, 0, time.UTC) }
	prices, err := cloud.SpotPrices(t.Context(), []market.Pool{spotPool()}, day(2), day(4))
	want := []market.PricePoint{{At: day(1), Price: 3 * market.Dollar / 2}, {At: day(3), Price: 47_000_000}}
	if got := prices[spotPool()]; err != nil || len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	r := s.only("POST")
	if r.path != "regions/us-central1/advice/capacityHistory" {
		t.Errorf("POST %s", r.path)
	}
	var sent computepb.CapacityHistoryRequest
	wantBody(t, r.body, `{"types": ["PRICE"], "instanceProperties": {"machineType": "n2-standard-2", "scheduling": {"provisioningModel": "SPOT"}},
  "locationPolicy": {"location": "projects/my-project/zones/us-central1-a"}}`, &sent)
}
