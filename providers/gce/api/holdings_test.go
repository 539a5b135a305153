package api_test

import (
	"encoding/json"
	"github.com/tierml/tierml/fakecloud/fakecloudtest"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/tierml/tierml/market"
	gce "github.com/tierml/tierml/providers/gce/api"
	"github.com/tierml/tierml/provisioner"
)

// A cloud of one job sees and ends only that job's machines; one of the cluster reports everything that costs money there, with the labels'
// contents, and nothing of other clusters.
func TestHoldings(t *testing.T) {
	config := fakeConfig(t)
	fake := fakecloudtest.Start(t, config)
	base := adapterConfig(fake.Endpoint(), config.Clock)
	base.Owner, base.Labels = "ann", map[string]string{"team": "ml"}
	expires := config.Clock.Now().Add(3 * time.Hour).Truncate(time.Second)
	launch := func(cluster, job, token string, count int) *gce.Cloud {
		c := base
		c.Cluster, c.Job, c.Expires = cluster, job, expires
		cloud := newCloud(t, c)
		pool := spotPool()
		pool.Class = market.OnDemand
		if _, err := cloud.Launch(t.Context(), provisioner.Request{Token: token, Pool: pool, Count: count, UserData: "x"}); err != nil {
			t.Fatal(err)
		}
		return cloud
	}
	first := launch("blue", "movies-1-0a", "movies-1", 2)
	launch("blue", "Movies 2", "movies-2", 1) // not valid as a label's value
	launch("green", "movies-1-0a", "movies-3", 1)

	if seen, err := first.List(t.Context()); err != nil || len(seen) != 2 {
		t.Errorf("a job's cloud lists %v, %v", seen, err)
	}
	ofCluster := base
	ofCluster.Cluster = "blue"
	whole := newCloud(t, ofCluster)
	held, err := whole.Holdings(t.Context())
	if err != nil || len(held) != 3 {
		t.Fatalf("%v, %v", held, err)
	}
	for _, h := range held {
		if h.Owner != "ann" || h.Expires.Sub(expires).Abs() > time.Minute || h.Overdue(expires.Add(-time.Hour)) || !h.Overdue(expires.Add(time.Hour)) {
			t.Errorf("%+v, wanted until %s", h, expires)
		}
		if (h.Token == "movies-1") != (h.Job == "movies-1-0a") {
			t.Errorf("token %s and job %s", h.Token, h.Job)
		}
	}
	var ids []provisioner.InstanceID
	for _, h := range held {
		ids = append(ids, h.ID)
	}
	if err := whole.Terminate(t.Context(), ids...); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); len(held) > 0; time.Sleep(5 * time.Millisecond) {
		if held, err = whole.Holdings(t.Context()); err != nil || time.Now().After(deadline) {
			t.Fatalf("%v are left, %v", held, err)
		}
	}
	other := base
	other.Cluster = "green"
	if held, err := newCloud(t, other).Holdings(t.Context()); err != nil || len(held) != 1 {
		t.Errorf("the other cluster has %v, %v", held, err)
	}
}

// A machine that has powered itself off is listed, because its disk still costs money; the job's filter is in the request.
func TestHoldingsOfStoppedMachines(t *testing.T) {
	s := newServer(t, func(r request) (int, string) {
		return 200, `{"items": {"zones/us-central1-a": {"instances": [
  {"name": "blue-a-b-000", "zone": "zones/us-central1-a", "machineType": "zones/us-central1-a/machineTypes/n2-standard-2", "status": "TERMINATED",
   "creationTimestamp": "2026-03-01T04:00:00.000-08:00", "labels": {"tierml-cluster": "blue", "tierml-job": "movies-1", "tierml-token": "t", "tierml-expiry": "1772370000"}},
  {"name": "controller-of-blue", "zone": "zones/us-central1-a", "machineType": "zones/us-central1-a/machineTypes/e2-small", "status": "RUNNING",
   "creationTimestamp": "2026-03-01T04:00:00.000-08:00", "labels": {"tierml-cluster": "blue", "tierml-job": "movies-1"}}]}}}`
	})
	held, err := s.cloud(func(c *gce.Config) { c.Job = "movies-1" }).Holdings(t.Context())
	if err != nil || len(held) != 1 || held[0].ID != "blue-a-b-000" || held[0].State != provisioner.Terminated || held[0].Expires.Unix() != 1772370000 {
		t.Errorf("%+v, %v", held, err)
	}
	want := `(labels.tierml-cluster = "blue") AND (labels.tierml-job = "movies-1")`
	if got := s.only("GET").query["filter"]; got != want {
		t.Errorf("filter %s, want %s", got, want)
	}
}

// A leash ends when machines are no longer wanted, however late they are bought, and the label says when.
func TestLeash(t *testing.T) {
	for name, c := range map[string]struct {
		maxRun, left time.Duration
		want         time.Duration
	}{
		"wanted for two hours": {0, 2 * time.Hour, 2 * time.Hour}, "the shorter": {time.Hour, 2 * time.Hour, time.Hour},
		"nearly over": {0, time.Second, 30 * time.Second}, "for longer than can be asked for": {0, 200 * 24 * time.Hour, 120 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, launchAnswer)
			cloud := s.cloud(func(g *gce.Config) {
				g.MaxRun, g.Expires, g.Job = c.maxRun, time.Now().Add(c.left), "movies-1"
				g.Labels = map[string]string{"team": "ml"}
			})
			r := spotRequest()
			r.Count, r.Generation = 1, "3"
			_, _ = cloud.Launch(t.Context(), r) // fails: no machine is listed
			var sent struct {
				Labels     map[string]string
				Scheduling struct {
					InstanceTerminationAction string
					MaxRunDuration            struct{ Seconds string }
				}
			}
			body := s.only("POST").body
			wantKnown(t, body)
			if err := json.Unmarshal([]byte(body), &sent); err != nil {
				t.Fatal(err)
			}
			seconds, _ := strconv.ParseInt(sent.Scheduling.MaxRunDuration.Seconds, 10, 64)
			if got := time.Duration(seconds) * time.Second; (got-c.want).Abs() > time.Minute || sent.Scheduling.InstanceTerminationAction != "DELETE" ||
				got < 30*time.Second || got > 120*24*time.Hour {
				t.Errorf("a leash of %s with %s, want %s", got, sent.Scheduling.InstanceTerminationAction, c.want)
			}
			expiry, err := strconv.ParseInt(sent.Labels["tierml-expiry"], 10, 64)
			if err != nil || time.Until(time.Unix(expiry, 0)).Round(time.Minute) != c.want.Round(time.Minute) && c.want > time.Minute {
				t.Errorf("tierml-expiry %q", sent.Labels["tierml-expiry"])
			}
			for label, want := range map[string]string{"tierml-job": "movies-1", "tierml-generation": "3", "team": "ml", "tierml-cluster": "blue"} {
				if sent.Labels[label] != want {
					t.Errorf("%s is %q, want %q", label, sent.Labels[label], want)
				}
			}
		})
	}
}

// wantKnown checks that the official model of the API knows every field.
func wantKnown(t *testing.T, body string) {
	t.Helper()
	wantBody(t, body, body, &computepb.Instance{})
}

// Zones are the region's zones that are up.
func TestZones(t *testing.T) {
	s := newServer(t, func(request) (int, string) {
		return 200, `{"items": [{"name": "us-central1-f", "status": "UP"}, {"name": "us-central1-a", "status": "UP"},
  {"name": "us-central1-b", "status": "DOWN"}, {"name": "us-central10-a", "status": "UP"}, {"name": "europe-west1-b", "status": "UP"}]}`
	})
	zones, err := s.cloud().Zones(t.Context())
	if err != nil || strings.Join(zones, " ") != "us-central1-a us-central1-f" {
		t.Errorf("%v, %v", zones, err)
	}
}

// The adapter's trait about bids, which plans and journals follow, agrees with its pools.
func TestNoBids(t *testing.T) {
	cloud := newServer(t, launchAnswer).cloud()
	if cloud.Traits().MaxBid != spotPool().TakesBids() {
		t.Error("the adapter's traits and its pools disagree on bids")
	}
}
