package adapter

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

func TestIsLocal(t *testing.T) {
	for endpoint, want := range map[string]struct {
		local bool
		fault string
	}{
		"":                             {},
		"http://127.0.0.1:4000":        {local: true},
		"http://localhost":             {local: true},
		"https://[::1]:4000":           {local: true},
		"https://ec2.example.com":      {},
		"http://ec2.example.com":       {fault: "use https"},
		"http://127.0.0.1.example.com": {fault: "use https"},
		"127.0.0.1:4000":               {fault: "want an address such as"},
		"ftp://localhost":              {fault: "want an address such as"},
	} {
		local, err := IsLocal(endpoint)
		if local != want.local || (err != nil) != (want.fault != "") || err != nil && !strings.Contains(err.Error(), want.fault) {
			t.Errorf("%q: local %v, error %v", endpoint, local, err)
		}
	}
}

func TestAnswer(t *testing.T) {
	client := errors.New("HTTP 500")
	whole := &Answer{Doing: "launching", Kind: provisioner.ErrLimit, Code: "TooMany", Message: "No more.", Hint: "ask for more", Request: "r-1", Err: client}
	if got, want := whole.Error(), "launching: "+provisioner.ErrLimit.Error()+": TooMany: No more. (ask for more) [request r-1]"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !errors.Is(whole, provisioner.ErrLimit) || !errors.Is(whole, client) {
		t.Error("an answer is neither of its kind, nor the client's error")
	}
	bare := &Answer{Doing: "listing", Code: "Odd"}
	if bare.Error() != "listing: Odd" || len(bare.Unwrap()) != 0 {
		t.Errorf("%q of %v", bare, bare.Unwrap())
	}
}

// Each notice is reported once, however often its machine is listed; temporary failures do not end the watch, others do.
func TestWatch(t *testing.T) {
	shown := func(id provisioner.InstanceID, state provisioner.State, warned bool) Shown {
		s := Shown{Instance: provisioner.Instance{ID: id, State: state}}
		if warned {
			s.Deadline = time.Unix(100, 0)
		}
		return s
	}
	looks := []struct {
		machines []Shown
		err      error
	}{
		{machines: []Shown{shown("a", provisioner.Running, false), shown("b", provisioner.Running, true)}},
		{err: provisioner.ErrThrottled},
		{machines: []Shown{shown("a", provisioner.Running, true), shown("b", provisioner.Running, false)}},
		{machines: []Shown{shown("a", provisioner.Terminated, true), shown("b", provisioner.Running, true)}},
		{machines: []Shown{shown("a", provisioner.Terminated, true)}},
		{err: provisioner.ErrDenied},
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var told []string
		looked := 0
		look := func(context.Context) ([]Shown, error) {
			l := looks[looked]
			looked++
			return l.machines, l.err
		}
		err := Watch(t.Context(), slog.New(slog.DiscardHandler), time.Second, look, func(n provisioner.Notice) {
			told = append(told, string(n.ID)+" "+string(n.Kind))
			if n.Kind == provisioner.Eviction && !n.Deadline.Equal(time.Unix(100, 0)) || n.Kind == provisioner.Ended && n.Instance.ID != n.ID {
				t.Errorf("%+v", n)
			}
		})
		if !errors.Is(err, provisioner.ErrDenied) || looked != len(looks) || time.Since(began) != time.Duration(len(looks)-1)*time.Second {
			t.Errorf("ended with %v after %d looks and %v", err, looked, time.Since(began))
		}
		if want := []string{"b " + string(provisioner.Eviction), "a " + string(provisioner.Eviction), "a " + string(provisioner.Ended)}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

func TestWatchEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		look := func(ctx context.Context) ([]Shown, error) { return nil, ctx.Err() }
		if err := Watch(ctx, slog.New(slog.DiscardHandler), time.Minute, look, func(provisioner.Notice) { t.Error("told of nothing") }); err != nil {
			t.Error(err)
		}
	})
}

// Machines that cannot be ended stay, others end; a launch that got some has not failed, and one that got none may be retried.
func TestMachines(t *testing.T) {
	broken, free := errors.New("broken"), 2
	m := &Machines{Traits: provisioner.Traits{Provider: "own"}, Now: func() time.Time { return time.Unix(100, 5) },
		Start: func(r provisioner.Request) (ids []provisioner.InstanceID, err error) {
			for ; free > 0 && len(ids) < r.Count; free-- {
				ids = append(ids, provisioner.InstanceID(r.Token+string(rune('a'+free))))
			}
			return ids, provisioner.ErrNoCapacity
		},
		End: func(id provisioner.InstanceID) error {
			if id == "xb" {
				return broken
			}
			return nil
		}}
	cloud := m.Cluster("c")
	pool := market.Pool{Provider: "own", Region: "r", Zone: "r-a", Type: "t", Class: market.OnDemand}
	got, err := cloud.Launch(t.Context(), provisioner.Request{Token: "x", Pool: pool, Count: 3})
	if err != nil || len(got) != 2 || got[0].ID != "xb" || !got[0].Launched.Equal(time.Unix(100, 0)) {
		t.Fatalf("%v, %v", got, err)
	}
	second := provisioner.Request{Token: "y", Pool: pool, Count: 1}
	if _, err := cloud.Launch(t.Context(), second); !errors.Is(err, provisioner.ErrNoCapacity) {
		t.Errorf("a full provider: %v", err)
	}
	free = 1
	if got, err := cloud.Launch(t.Context(), second); err != nil || len(got) != 1 {
		t.Errorf("tried again: %v, %v", got, err)
	}
	if err := cloud.Terminate(t.Context(), "xb", "xc"); !errors.Is(err, broken) || !provisioner.Retryable(err) {
		t.Errorf("ended with %v", err)
	}
	if live := m.Live(); len(live) != 2 || live[0].ID != "xb" || live[1].Token != "y" {
		t.Errorf("%v live", live)
	}
}
