package provisionertest

import (
	"context"
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// pollEvery is the time between two checks for something that is to happen.
const pollEvery = 20 * time.Millisecond

// request requests count spot machines with a unique token, unique even among earlier runs.
func (s Subject) request(count int) provisioner.Request {
	return provisioner.Request{
		Token:    "exam-" + rand.Text(),
		Pool:     s.Spot,
		Bid:      s.Bid,
		Count:    count,
		UserData: "#!/bin/sh\n# exam\n",
		Tags:     map[string]string{"job": "exam"},
	}
}

// launch buys machines and ends them when the test ends.
func launch(t testing.TB, cloud provisioner.Cloud, r provisioner.Request) []provisioner.Instance {
	t.Helper()
	cleanUp(t, cloud, r.Token)
	instances, err := cloud.Launch(t.Context(), r)
	if err != nil {
		t.Fatalf("launching %d: %v", r.Count, err)
	}
	checkLaunched(t, r, instances)
	return instances
}

// cleanUp ends the machines of a token when the test ends, including those that the test does not know.
func cleanUp(t testing.TB, cloud provisioner.Cloud, token string) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		instances, err := cloud.List(ctx)
		if err != nil {
			t.Errorf("listing machines to clean up: %v", err)
			return
		}
		var left []provisioner.InstanceID
		for _, i := range instances {
			if i.Token == token && i.State != provisioner.Terminated {
				left = append(left, i.ID)
			}
		}
		if err := cloud.Terminate(ctx, left...); err != nil {
			t.Errorf("cleaning up %v: %v", left, err)
		}
	})
}

// checkLaunched checks Launch's promises about its result.
func checkLaunched(t testing.TB, r provisioner.Request, instances []provisioner.Instance) {
	t.Helper()
	if len(instances) < 1 || len(instances) > r.Count {
		t.Fatalf("asked for %d machines, got %d", r.Count, len(instances))
	}
	if got := ids(instances); !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("machines are not sorted by id, or some are there twice: %v", got)
	}
	for _, i := range instances {
		checkMachine(t, r, i)
	}
}

// checkMachine checks that a machine is as requested, and that its times are in order.
func checkMachine(t testing.TB, r provisioner.Request, i provisioner.Instance) {
	t.Helper()
	if i.ID == "" || i.Pool != r.Pool || i.Bid != r.Bid || i.Token != r.Token {
		t.Errorf("got machine %q of %s, bid %s, token %q; want %s, bid %s, token %q",
			i.ID, i.Pool, i.Bid, i.Token, r.Pool, r.Bid, r.Token)
	}
	if i.Launched.IsZero() || !i.Launched.Equal(i.Launched.Truncate(time.Second)) {
		t.Errorf("%s: launched %s: want whole seconds", i.ID, i.Launched)
	}
	if i.State != provisioner.Terminated {
		if !i.Ended.IsZero() || i.EndedBy != market.Running {
			t.Errorf("%s is %s, but ended %s by %q", i.ID, i.State, i.Ended, i.EndedBy)
		}
		return
	}
	if i.Ended.Before(i.Launched) || !i.Ended.Equal(i.Ended.Truncate(time.Second)) {
		t.Errorf("%s: launched %s, ended %s: want whole seconds, in order", i.ID, i.Launched, i.Ended)
	}
	if i.EndedBy == market.Running || i.Reason == "" {
		t.Errorf("%s has ended by %q with reason %q: want both", i.ID, i.EndedBy, i.Reason)
	}
}

func ids(instances []provisioner.Instance) []provisioner.InstanceID {
	list := make([]provisioner.InstanceID, len(instances))
	for n, i := range instances {
		list[n] = i.ID
	}
	return list
}

// ofToken lists the machines of a request.
func ofToken(t testing.TB, cloud provisioner.Cloud, token string) []provisioner.Instance {
	t.Helper()
	listed, err := cloud.List(t.Context())
	if err != nil {
		t.Fatalf("listing: %v", err)
	}
	if !slices.IsSorted(ids(listed)) {
		t.Errorf("the list is not sorted by id: %v", ids(listed))
	}
	return slices.DeleteFunc(listed, func(i provisioner.Instance) bool { return i.Token != token })
}

// await polls a request's machines until they are as wanted.
func await(t testing.TB, s Subject, token, what string, wanted func([]provisioner.Instance) bool) []provisioner.Instance {
	t.Helper()
	deadline := time.Now().Add(s.Patience)
	for {
		listed := ofToken(t, s.Cloud, token)
		if wanted(listed) {
			return listed
		}
		if time.Now().After(deadline) {
			t.Fatalf("not %s within %s: %+v", what, s.Patience, listed)
		}
		time.Sleep(pollEvery)
	}
}

func allAre(state provisioner.State) func([]provisioner.Instance) bool {
	return func(instances []provisioner.Instance) bool {
		return len(instances) > 0 && !slices.ContainsFunc(instances,
			func(i provisioner.Instance) bool { return i.State != state })
	}
}

// watch collects notices in the background until the test or the returned function ends it.
func watch(t testing.TB, cloud provisioner.Cloud) (notices <-chan provisioner.Notice, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan provisioner.Notice)
	done := make(chan error, 1)
	go func() {
		done <- cloud.Notify(ctx, func(n provisioner.Notice) {
			select {
			case told <- n:
			case <-ctx.Done():
			}
		})
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("notify ended with %v: want nil when its context is done", err)
		}
	}
	t.Cleanup(stop)
	return told, stop
}

// awaitNotice returns a machine's first notice of the kind, and skips others.
func awaitNotice(t testing.TB, s Subject, notices <-chan provisioner.Notice, kind provisioner.NoticeKind, id provisioner.InstanceID) provisioner.Notice {
	t.Helper()
	timeout := time.After(s.Patience)
	for {
		select {
		case n := <-notices:
			if n.Kind == kind && n.ID == id {
				return n
			}
			if n.Kind == provisioner.Ended && n.ID == id {
				t.Fatalf("%s ended before the notice %q: %+v", id, kind, n)
			}
		case <-timeout:
			t.Fatalf("no notice %q of %s within %s", kind, id, s.Patience)
		}
	}
}
