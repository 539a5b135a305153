package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	ec2 "github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
)

// byAction answers depending on the call.
func byAction(answers map[string]string) func(url.Values) (int, string) {
	return func(form url.Values) (int, string) {
		body, ok := answers[form.Get("Action")]
		if !ok {
			return http.StatusBadRequest, apiError("InvalidAction", form.Get("Action"))
		}
		return http.StatusOK, body
	}
}

func TestListReadsAllPages(t *testing.T) {
	s := newServer(t, func(form url.Values) (int, string) {
		if form.Get("NextToken") == "" {
			return http.StatusOK, describeAnswer("page2", instance{id: "i-0c", state: "running"}, instance{id: "i-0a", state: "stopped"})
		}
		return http.StatusOK, describeAnswer("", instance{id: "i-0b", state: "shutting-down"})
	})
	got, err := s.cloud().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var states []string
	for _, i := range got {
		states = append(states, string(i.ID)+" "+string(i.State))
	}
	if want := []string{"i-0a stopping", "i-0b stopping", "i-0c running"}; !slices.Equal(states, want) {
		t.Errorf("got %v, want %v", states, want)
	}
	first := `
		Action=DescribeInstances
		Version=2016-11-15
		Filter.1.Name=tag:tierml:cluster
		Filter.1.Value.1=blue
		MaxResults=1000`
	wantForm(t, s.recorded()[0], first)
	wantForm(t, s.recorded()[1], first+"\nNextToken=page2")
	if len(s.recorded()) != 2 {
		t.Errorf("asked %v: spot requests are of no interest without spot machines", s.actions())
	}
}

// The time and cause of a machine's end are derived from several of EC2's fields.
func TestListEnds(t *testing.T) {
	launched := time.Date(2014, 3, 1, 10, 0, 0, 0, time.UTC)
	now := time.Date(2014, 3, 1, 12, 0, 0, 600_000_000, time.UTC)
	for _, c := range []struct {
		name             string
		code, transition string
		status, updated  string
		by               market.EndedBy
		ended            time.Time
	}{
		{"by price, told by the request", "Server.SpotInstanceTermination", "",
			"instance-terminated-by-price", "2014-03-01T10:20:30.000Z", market.ByProvider, launched.Add(20*time.Minute + 30*time.Second)},
		{"by price, told by the transition", "Server.SpotInstanceTermination", "Service initiated (2014-03-01 10:20:29 GMT)",
			"instance-terminated-by-price", "2014-03-01T10:20:30.000Z", market.ByProvider, launched.Add(20*time.Minute + 29*time.Second)},
		{"no capacity, without a code", "", "", "instance-terminated-no-capacity", "2014-03-01T10:20:30.000Z",
			market.ByProvider, launched.Add(20*time.Minute + 30*time.Second)},
		{"by us", "Client.UserInitiatedShutdown", "User initiated (2014-03-01 11:00:00 GMT)",
			"instance-terminated-by-user", "2014-03-01T11:00:02.000Z", market.ByUser, launched.Add(time.Hour)},
		{"by us after a warning", "Client.UserInitiatedShutdown", "User initiated (2014-03-01 11:00:00 GMT)",
			"marked-for-termination", "2014-03-01T10:59:00.000Z", market.ByUser, launched.Add(time.Hour)},
		{"by us, without a code", "", "", "instance-terminated-by-user", "2014-03-01T11:00:02.900Z",
			market.ByUser, launched.Add(time.Hour + 2*time.Second)},
		{"by itself", "Client.InstanceInitiatedShutdown", "", "instance-terminated-by-user", "2014-03-01T11:00:02.000Z",
			market.ByUser, launched.Add(time.Hour + 2*time.Second)},
		{"host failed", "Server.InternalError", "Server.InternalError: failed (2014-03-01 11:00:00 GMT)", "fulfilled", "2014-03-01T10:00:01.000Z",
			market.ByProvider, launched.Add(time.Hour)},
		{"nothing told", "", "", "fulfilled", "2014-03-01T10:00:01.000Z", market.ByUser, now.Truncate(time.Second)},
		{"ended before it was up", "Server.InsufficientInstanceCapacity", "x (2014-03-01 09:59:59 GMT)", "fulfilled", "2014-03-01T10:00:01.000Z",
			market.ByProvider, launched},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t, byAction(map[string]string{
				"DescribeInstances": describeAnswer("", instance{id: "i-0a", state: "terminated", lifecycle: "spot",
					spotRequest: "sir-1", code: c.code, transition: c.transition}),
				"DescribeSpotInstanceRequests": requestsAnswer("sir-1", c.status, c.updated),
			}))
			cloud := s.cloud(func(config *ec2.Config) {
				config.Clock = clock.Mapping{Market: now, Wall: time.Now(), Speed: 1e-9} // time stops
			})
			for range 2 { // the same when listed again
				got, err := cloud.List(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if len(got) != 1 || got[0].EndedBy != c.by || !got[0].Ended.Equal(c.ended) || got[0].Reason == "" {
					t.Fatalf("got %+v; want ended %s by %q, with a reason", got, c.ended, c.by)
				}
			}
		})
	}
}

// An end without a time from EC2 is dated when it was first seen, also in later listings.
func TestListKeepsObservedEnd(t *testing.T) {
	s := newServer(t, always(http.StatusOK, describeAnswer("", instance{id: "i-0a", state: "terminated"})))
	cloud := s.cloud(func(c *ec2.Config) {
		c.Clock = clock.Mapping{Market: time.Date(2014, 3, 1, 12, 0, 0, 0, time.UTC), Wall: time.Now(), Speed: 1e6}
	})
	var ends []time.Time
	for range 3 {
		got, err := cloud.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, got[0].Ended)
	}
	if !ends[1].Equal(ends[0]) || !ends[2].Equal(ends[0]) {
		t.Errorf("the end moves: %v", ends)
	}
}

// A machine that Launch returned is listed before EC2 shows it, but only until EC2 has settled.
func TestListShowsFreshMachines(t *testing.T) {
	s := newServer(t, byAction(map[string]string{
		"RunInstances":      runAnswer(instance{id: "i-0a", state: "pending", lifecycle: "spot"}),
		"DescribeInstances": describeAnswer(""),
	}))
	for settle, want := range map[time.Duration]int{time.Hour: 1, time.Nanosecond: 0} {
		cloud := s.cloud(func(c *ec2.Config) { c.Settle = settle })
		if _, err := cloud.Launch(t.Context(), spotRequest()); err != nil {
			t.Fatal(err)
		}
		if got, err := cloud.List(t.Context()); err != nil || len(got) != want {
			t.Errorf("settling for %s: listed %v, %v; want %d", settle, got, err, want)
		}
	}
}

func TestListRefusesNonsense(t *testing.T) {
	s := newServer(t, always(http.StatusOK, `<DescribeInstancesResponse><reservationSet><item><instancesSet><item>
		<instanceId>i-0a</instanceId></item></instancesSet></item></reservationSet></DescribeInstancesResponse>`))
	if got, err := s.cloud().List(t.Context()); err == nil {
		t.Errorf("a machine without launch time gave %+v", got)
	}
}

// Each change is reported once, in the order of ids; failures in between are survived.
func TestNotify(t *testing.T) {
	spot := func(id, state, request string) instance {
		i := instance{id: id, state: state, lifecycle: "spot", spotRequest: request}
		if state == "terminated" {
			i.code = "Server.SpotInstanceTermination"
		}
		return i
	}
	type look struct{ instances, requests string }
	looks := []look{
		{describeAnswer("", spot("i-0a", "running", "sir-1"), spot("i-0b", "running", "sir-2")),
			requestsAnswer("sir-1", "fulfilled", "2014-03-01T10:00:00.000Z", "sir-2", "fulfilled", "2014-03-01T10:00:00.000Z")},
		{"", ""}, // a failure
		{describeAnswer("", spot("i-0b", "running", "sir-2"), spot("i-0a", "running", "sir-1")),
			requestsAnswer("sir-1", "marked-for-termination", "2014-03-01T10:10:00.000Z", "sir-2", "marked-for-termination", "2014-03-01T10:10:01.000Z")},
		{describeAnswer("", spot("i-0a", "terminated", "sir-1"), spot("i-0b", "running", "sir-2")),
			requestsAnswer("sir-1", "instance-terminated-by-price", "2014-03-01T10:12:00.000Z", "sir-2", "marked-for-termination", "2014-03-01T10:10:01.000Z")},
	}
	number := -1
	s := newServer(t, func(form url.Values) (int, string) {
		if form.Get("Action") == "DescribeInstances" {
			number++
		}
		now := looks[min(number, len(looks)-1)]
		switch {
		case now.instances == "":
			return http.StatusServiceUnavailable, apiError("Unavailable", "later")
		case form.Get("Action") == "DescribeInstances":
			return http.StatusOK, now.instances
		}
		return http.StatusOK, now.requests
	})
	cloud := s.cloud(func(c *ec2.Config) {
		c.NoticeLength = 4 * time.Second
		c.Clock = clock.Mapping{Market: time.Date(2014, 3, 1, 10, 0, 0, 0, time.UTC), Wall: time.Now(), Speed: 600}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []provisioner.Notice
	err := cloud.Notify(ctx, func(n provisioner.Notice) {
		got = append(got, n)
		if n.Kind == provisioner.Ended {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	at := func(minute, second int) time.Time { return time.Date(2014, 3, 1, 10, minute, second, 0, time.UTC) }
	want := []provisioner.Notice{
		{Kind: provisioner.Eviction, ID: "i-0a", Deadline: at(50, 0)}, // 4 s are 40 market minutes
		{Kind: provisioner.Eviction, ID: "i-0b", Deadline: at(50, 1)},
		{Kind: provisioner.Ended, ID: "i-0a", Instance: provisioner.Instance{ID: "i-0a", Pool: spotPool(),
			State: provisioner.Terminated, Launched: at(0, 0), Ended: at(12, 0), EndedBy: market.ByProvider,
			Reason: "Server.SpotInstanceTermination: words", Tags: map[string]string{}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
}

func TestNotifyEndsWhenDenied(t *testing.T) {
	s := newServer(t, always(http.StatusForbidden, apiError("UnauthorizedOperation", "no")))
	err := s.cloud().Notify(t.Context(), func(provisioner.Notice) { t.Error("notice") })
	if !errors.Is(err, provisioner.ErrDenied) {
		t.Errorf("got %v, want ErrDenied", err)
	}
}

// Resources that cost money and were launched by a Cloud: neither ended machines, nor one that only has the cluster's tag.
func TestHoldings(t *testing.T) {
	own := func(id, state, expires string) instance {
		return instance{id: id, state: state, tags: tagSet("tierml:cluster", "blue", "tierml:token", "t", "tierml:job", "real-1-0a",
			"tierml:owner", "ann", "tierml:expires", expires)}
	}
	s := newServer(t, byAction(map[string]string{"DescribeInstances": describeAnswer("",
		own("i-0a", "running", "2026-11-22T20:00:00Z"), own("i-0b", "terminated", "2026-11-22T20:00:00Z"), own("i-0c", "pending", "tomorrow"),
		instance{id: "i-0d", state: "running", tags: tagSet("tierml:cluster", "blue")},
	), "DescribeLaunchTemplates": templatesAnswer()}))
	live, err := s.cloud().Holdings(t.Context())
	if err != nil || len(live) != 2 || live[0].ID != "i-0a" || live[1].ID != "i-0c" {
		t.Fatalf("%+v, %v; want i-0a and i-0c", live, err)
	}
	if h := live[0]; h.Job != "real-1-0a" || h.Owner != "ann" || !h.Expires.Equal(time.Date(2026, 11, 22, 20, 0, 0, 0, time.UTC)) || !live[1].Expires.IsZero() {
		t.Errorf("%+v", live)
	}
}
