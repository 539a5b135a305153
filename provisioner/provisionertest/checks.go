package provisionertest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

func checkSpotLife(t testing.TB, s Subject) { checkLife(t, s, s.request(2)) }

func checkOnDemandLife(t testing.TB, s Subject) {
	r := s.request(1)
	r.Pool, r.Bid = s.OnDemand, 0
	checkLife(t, s, r)
}

func checkLife(t testing.TB, s Subject, r provisioner.Request) {
	launched := launch(t, s.Cloud, r)
	if listed := ofToken(t, s.Cloud, r.Token); !slices.Equal(ids(listed), ids(launched)) {
		t.Fatalf("launched %v, listed right after %v", ids(launched), ids(listed))
	}
	running := await(t, s, r.Token, "running", allAre(provisioner.Running))
	for n, i := range running {
		checkMachine(t, r, i)
		if i.Tags["job"] != "exam" {
			t.Errorf("%s: tags %v: want job=exam", i.ID, i.Tags)
		}
		if !i.Launched.Equal(launched[n].Launched) {
			t.Errorf("%s: launched %s, now %s", i.ID, launched[n].Launched, i.Launched)
		}
	}
	if err := s.Cloud.Terminate(t.Context(), ids(launched)...); err != nil {
		t.Fatalf("terminating: %v", err)
	}
	ended := await(t, s, r.Token, "terminated", allAre(provisioner.Terminated))
	if !slices.Equal(ids(ended), ids(launched)) {
		t.Fatalf("launched %v, ended %v", ids(launched), ids(ended))
	}
	for _, i := range ended {
		checkMachine(t, r, i)
		if i.EndedBy != market.ByUser {
			t.Errorf("%s ended by %q: we did it", i.ID, i.EndedBy)
		}
	}
	again := ofToken(t, s.Cloud, r.Token)
	for n := range again {
		if !again[n].Ended.Equal(ended[n].Ended) {
			t.Errorf("%s ended %s, and at the next look %s", ended[n].ID, ended[n].Ended, again[n].Ended)
		}
	}
}

func checkWholeCount(t testing.TB, s Subject) {
	if got := launch(t, s.Cloud, s.request(3)); len(got) != 3 {
		t.Errorf("asked for 3 machines of a pool that has them, got %d", len(got))
	}
}

// checkOnly checks that a token has these machines and no others.
func checkOnly(t testing.TB, s Subject, token string, want []provisioner.Instance) {
	t.Helper()
	if listed := ofToken(t, s.Cloud, token); !slices.Equal(ids(listed), ids(want)) {
		t.Errorf("token %s has machines %v, want %v", token, ids(listed), ids(want))
	}
}

func checkSameToken(t testing.TB, s Subject) {
	r := s.request(2)
	first := launch(t, s.Cloud, r)
	second := launch(t, s.Cloud, r)
	if !slices.Equal(ids(first), ids(second)) {
		t.Errorf("the same request gave %v, then %v", ids(first), ids(second))
	}
	checkOnly(t, s, r.Token, first)
}

func checkSameTokenConcurrently(t testing.TB, s Subject) {
	r := s.request(2)
	cleanUp(t, s.Cloud, r.Token)
	answers := make([][]provisioner.Instance, 4)
	failures := make([]error, len(answers))
	var calls sync.WaitGroup
	for n := range answers {
		calls.Go(func() { answers[n], failures[n] = s.Cloud.Launch(t.Context(), r) })
	}
	calls.Wait()
	if err := errors.Join(failures...); err != nil {
		t.Fatalf("launching concurrently: %v", err)
	}
	for _, answer := range answers[1:] {
		if !slices.Equal(ids(answer), ids(answers[0])) {
			t.Errorf("the same request gave %v and %v", ids(answers[0]), ids(answer))
		}
	}
	checkOnly(t, s, r.Token, answers[0])
}

func checkLostAnswer(t testing.TB, s Subject) {
	r := s.request(2)
	cleanUp(t, s.Cloud, r.Token)
	if _, err := s.Cloud.Launch(t.Context(), r); err != nil { // carried out, but its answer is lost
		t.Fatalf("launching: %v", err)
	}
	bought := ofToken(t, s.Cloud, r.Token)
	if len(bought) == 0 {
		t.Fatalf("machines whose launch was not answered cannot be found by their token")
	}
	again := launch(t, s.Cloud, r)
	if !slices.Equal(ids(again), ids(bought)) {
		t.Errorf("bought %v, and when asked again %v", ids(bought), ids(again))
	}
	checkOnly(t, s, r.Token, again)
}

func checkSameTokenAfterTheEnd(t testing.TB, s Subject) {
	r := s.request(2)
	first := launch(t, s.Cloud, r)
	if err := s.Cloud.Terminate(t.Context(), ids(first)...); err != nil {
		t.Fatalf("terminating: %v", err)
	}
	await(t, s, r.Token, "terminated", allAre(provisioner.Terminated))
	again := launch(t, s.Cloud, r)
	if !slices.Equal(ids(again), ids(first)) {
		t.Errorf("launched %v, and after their end the same token gave %v", ids(first), ids(again))
	}
	if !allAre(provisioner.Terminated)(again) {
		t.Errorf("machines that have ended are said to live: %+v", again)
	}
}

func checkTokenReuse(t testing.TB, s Subject) {
	r := s.request(1)
	first := launch(t, s.Cloud, r)
	other := r
	other.Count = 2
	if got, err := s.Cloud.Launch(t.Context(), other); !errors.Is(err, provisioner.ErrInvalid) {
		t.Errorf("a used token with another count gave %v, %v: want ErrInvalid", ids(got), err)
	}
	checkOnly(t, s, r.Token, first)
}

func checkPartialCapacity(t testing.TB, s Subject) {
	s.SetFree(2)
	r := s.request(5)
	got := launch(t, s.Cloud, r)
	if len(got) != 2 {
		t.Errorf("asked for 5 where 2 are free: got %d", len(got))
	}
	again := launch(t, s.Cloud, r)
	if !slices.Equal(ids(again), ids(got)) {
		t.Errorf("the same request gave %v, then %v", ids(got), ids(again))
	}
	checkOnly(t, s, r.Token, got)
}

func checkNoCapacity(t testing.TB, s Subject) {
	s.SetFree(0)
	r := s.request(1)
	checkRefused(t, s, r, provisioner.ErrNoCapacity)
	s.SetFree(1)
	if got := launch(t, s.Cloud, r); len(got) != 1 {
		t.Errorf("got %d machines when there was capacity again", len(got))
	}
}

func checkBidTooLow(t testing.TB, s Subject) {
	r := s.request(1)
	r.Bid = s.LowBid
	checkRefused(t, s, r, provisioner.ErrPriceTooLow)
}

func checkInvalidRequest(t testing.TB, s Subject) {
	for _, change := range []func(*provisioner.Request){
		func(r *provisioner.Request) { r.Token = "" },
		func(r *provisioner.Request) { r.Count = 0 },
		func(r *provisioner.Request) { r.Pool.Provider = "nobody" },
		func(r *provisioner.Request) { r.Bid = -1 },
	} {
		r := s.request(1)
		change(&r)
		checkRefused(t, s, r, provisioner.ErrInvalid)
	}
}

// checkRefused checks that a request fails as expected and buys nothing.
func checkRefused(t testing.TB, s Subject, r provisioner.Request, want error) {
	t.Helper()
	cleanUp(t, s.Cloud, r.Token)
	got, err := s.Cloud.Launch(t.Context(), r)
	if !errors.Is(err, want) || len(got) > 0 {
		t.Errorf("got %v and error %v; want none and %v", ids(got), err, want)
	}
	checkOnly(t, s, r.Token, nil)
}

func checkTerminateTwice(t testing.TB, s Subject) {
	r := s.request(1)
	launched := launch(t, s.Cloud, r)
	for range 2 {
		if err := s.Cloud.Terminate(t.Context(), ids(launched)...); err != nil {
			t.Fatalf("terminating: %v", err)
		}
	}
	await(t, s, r.Token, "terminated", allAre(provisioner.Terminated))
	if err := s.Cloud.Terminate(t.Context(), ids(launched)...); err != nil {
		t.Errorf("terminating what has ended: %v", err)
	}
}

// checkEndStays terminates again a second later: machines' ends are in whole seconds.
func checkEndStays(t testing.TB, s Subject) {
	r := s.request(1)
	launched := launch(t, s.Cloud, r)
	if err := s.Cloud.Terminate(t.Context(), ids(launched)...); err != nil {
		t.Fatalf("terminating: %v", err)
	}
	ended := await(t, s, r.Token, "terminated", allAre(provisioner.Terminated))
	time.Sleep(time.Second)
	if err := s.Cloud.Terminate(t.Context(), ids(launched)...); err != nil {
		t.Fatalf("terminating again: %v", err)
	}
	if again := ofToken(t, s.Cloud, r.Token); !again[0].Ended.Equal(ended[0].Ended) {
		t.Errorf("terminating again moved the end from %s to %s", ended[0].Ended, again[0].Ended)
	}
}

func checkTerminateUnknown(t testing.TB, s Subject) {
	if err := s.Cloud.Terminate(t.Context()); err != nil {
		t.Errorf("terminating nothing: %v", err)
	}
	if err := s.Cloud.Terminate(t.Context(), s.Unknown); err != nil {
		t.Errorf("terminating a machine that nobody knows: %v", err)
	}
	r := s.request(2)
	launched := launch(t, s.Cloud, r)
	if err := s.Cloud.Terminate(t.Context(), launched[0].ID, s.Unknown, launched[len(launched)-1].ID); err != nil {
		t.Errorf("terminating an unknown machine among others: %v", err)
	}
	await(t, s, r.Token, "terminated", allAre(provisioner.Terminated))
}

func checkEviction(t testing.TB, s Subject) {
	r := s.request(2)
	launched := launch(t, s.Cloud, r)
	await(t, s, r.Token, "running", allAre(provisioner.Running))
	notices, stop := watch(t, s.Cloud)
	id := launched[0].ID
	s.Evict(id)
	warned := awaitNotice(t, s, notices, provisioner.Eviction, id)
	if !warned.Deadline.After(launched[0].Launched) {
		t.Errorf("launched %s, to be evicted %s", launched[0].Launched, warned.Deadline)
	}
	if s.Expire != nil {
		s.Expire(id)
	}
	checkEndedByProvider(t, s, r, awaitNotice(t, s, notices, provisioner.Ended, id))
	stop()
	for _, i := range ofToken(t, s.Cloud, r.Token) {
		if i.ID != id && i.State != provisioner.Running {
			t.Errorf("%s was not evicted, but is %s", i.ID, i.State)
		}
	}
}

func checkKill(t testing.TB, s Subject) {
	r := s.request(1)
	launched := launch(t, s.Cloud, r)
	await(t, s, r.Token, "running", allAre(provisioner.Running))
	notices, _ := watch(t, s.Cloud)
	s.Kill(launched[0].ID)
	checkEndedByProvider(t, s, r, awaitNotice(t, s, notices, provisioner.Ended, launched[0].ID))
}

func checkEndedByProvider(t testing.TB, s Subject, r provisioner.Request, n provisioner.Notice) {
	t.Helper()
	if n.Instance.ID != n.ID || n.Instance.State != provisioner.Terminated || n.Instance.EndedBy != market.ByProvider {
		t.Errorf("notice of the end says %+v: want terminated by the provider", n.Instance)
	}
	checkMachine(t, r, n.Instance)
	for _, i := range ofToken(t, s.Cloud, r.Token) {
		if i.ID == n.ID && (i.EndedBy != n.Instance.EndedBy || !i.Ended.Equal(n.Instance.Ended)) {
			t.Errorf("the list says ended %s by %q, the notice %s by %q",
				i.Ended, i.EndedBy, n.Instance.Ended, n.Instance.EndedBy)
		}
	}
}

func checkNotifyOwnTermination(t testing.TB, s Subject) {
	r := s.request(1)
	launched := launch(t, s.Cloud, r)
	notices, _ := watch(t, s.Cloud)
	if err := s.Cloud.Terminate(t.Context(), launched[0].ID); err != nil {
		t.Fatalf("terminating: %v", err)
	}
	n := awaitNotice(t, s, notices, provisioner.Ended, launched[0].ID)
	checkMachine(t, r, n.Instance)
	if n.Instance.EndedBy != market.ByUser {
		t.Errorf("ended by %q: we did it", n.Instance.EndedBy)
	}
}

func checkOnlyOwnCluster(t testing.TB, s Subject) {
	r := s.request(1)
	ours := launch(t, s.Cloud, r)
	theirs := launch(t, s.Other, s.request(1))
	for _, c := range []struct {
		name         string
		cloud        provisioner.Cloud
		own, foreign provisioner.InstanceID
	}{
		{"first", s.Cloud, ours[0].ID, theirs[0].ID},
		{"second", s.Other, theirs[0].ID, ours[0].ID},
	} {
		listed, err := c.cloud.List(t.Context())
		if err != nil {
			t.Fatalf("listing: %v", err)
		}
		if got := ids(listed); !slices.Contains(got, c.own) || slices.Contains(got, c.foreign) {
			t.Errorf("the %s cluster lists %v: want %s and not %s", c.name, got, c.own, c.foreign)
		}
	}
}

func checkCancellation(t testing.TB, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := s.request(1)
	cleanUp(t, s.Cloud, r.Token)
	_, launchErr := s.Cloud.Launch(ctx, r)
	_, listErr := s.Cloud.List(ctx)
	for _, c := range []struct {
		name string
		err  error
	}{
		{"launch", launchErr}, {"list", listErr}, {"terminate", s.Cloud.Terminate(ctx, s.Unknown)},
	} {
		if !errors.Is(c.err, context.Canceled) {
			t.Errorf("%s with a cancelled context gave %v", c.name, c.err)
		}
	}
	_, stop := watch(t, s.Cloud)
	stop() // waits for Notify to return, and checks that it returns nil
}
