package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/all"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/exitcode"
	"github.com/tierml/tierml/providers"
	_ "github.com/tierml/tierml/providers/all"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node"
	"github.com/tierml/tierml/tiers/node/link"
	"github.com/tierml/tierml/tiers/node/splitdir"
)

// metadata answers like an instance metadata service, version 2, of a machine that is about to be reclaimed.
func metadata(t *testing.T, user node.UserData) *httptest.Server {
	values := map[string]string{
		"/latest/meta-data/instance-id":                 "i-0123456789abcdef0",
		"/latest/meta-data/instance-type":               "c3.xlarge",
		"/latest/meta-data/placement/availability-zone": "us-west-1a",
		"/latest/meta-data/placement/region":            "us-west-1",
		"/latest/meta-data/spot/instance-action":        `{"action": "terminate", "time": "2014-05-05T08:22:00Z"}`,
		"/latest/user-data":                             user.Encode(),
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" {
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
			_, _ = io.WriteString(w, "session")
			return
		}
		value, ok := values[r.URL.Path]
		switch {
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "session":
			w.WriteHeader(http.StatusUnauthorized)
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		default:
			_, _ = io.WriteString(w, value)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// An agent finds its controller through the metadata service, joins, forwards the notice and stops on request.
func TestAgent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	controller, err := link.Listen(t.Context(), link.Config{
		Listener: listener, Log: slog.New(slog.DiscardHandler),
		Accept: func(h tiers.Hello) error {
			if h.Token != "secret" {
				return errors.New("wrong token")
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = controller.Close() }()
	imds := metadata(t, node.UserData{
		Controller: listener.Addr().String(), Token: "secret", Job: "demo", Listen: "127.0.0.1:0", VCPU: 4})
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", imds.URL)
	mapping := clock.Mapping{Market: time.Date(2014, 5, 5, 0, 0, 0, 0, time.UTC), Wall: time.Now(), Speed: 600}
	env := map[string]string{EnvClock: mapping.String(), EnvFlops: "4e7"}

	var logged bytes.Buffer // read after the agent has ended
	ended := make(chan error, 1)
	go func() { ended <- Run(t.Context(), func(name string) string { return env[name] }, &logged) }()

	const id = ps.ServerID("i-0123456789abcdef0")
	var hello tiers.Hello
	var warned *tiers.Warned
	answers := map[uint64]tiers.Answer{}
	deadline := time.After(30 * time.Second)
	for warned == nil || len(answers) < 1 {
		select {
		case r := <-controller.Reports():
			switch r := r.Report.(type) {
			case tiers.Hello:
				hello = r
				welcome := tiers.Welcome{App: "no such application", Heartbeat: time.Second, OrphanAfter: time.Second}
				if err := controller.Send(id, tiers.Command{ID: 1, Do: welcome}); err != nil {
					t.Fatal(err)
				}
			case tiers.Warned:
				warned = &r
			case tiers.Answer:
				answers[r.ID] = r
			}
		case err := <-ended:
			t.Fatalf("the agent ended early: %v\n%s", err, logged.String())
		case <-deadline:
			t.Fatal("waited in vain")
		}
	}
	if hello.Instance != id || hello.Type != "c3.xlarge" || hello.VCPU != 4 || hello.Address == "" {
		t.Errorf("hello %+v", hello)
	}
	if want := time.Date(2014, 5, 5, 8, 22, 0, 0, time.UTC); warned.Rebalance || !warned.Deadline.Equal(want) {
		t.Errorf("warned %+v; want %v", *warned, want)
	}
	if a := answers[1]; a.Code != tiers.CodeFailed || !strings.Contains(a.Error, "no such application") {
		t.Errorf("a welcome to an unknown application was answered with %+v", a)
	}
	if err := controller.Send(id, tiers.Command{ID: 2, Do: tiers.Stop{Why: "test"}}); err != nil {
		t.Fatal(err)
	}
	for done := false; !done; {
		select {
		case <-controller.Reports():
		case err := <-ended:
			if done = true; err != nil {
				t.Errorf("the agent ended with %v", err)
			}
		case <-deadline:
			t.Fatal("the agent does not stop")
		}
	}
	for _, want := range []string{"held to 40 Mflop/s by pacing", "market=2014-05-05T00:"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("%q is not in the log:\n%s", want, logged.String())
		}
	}
}

func TestAgentRefusesABadEnvironment(t *testing.T) {
	for _, env := range []map[string]string{{EnvClock: "noon"}, {EnvFlops: "fast"}, {EnvFlops: "0"}, {EnvFlops: "NaN"}} {
		err := Run(context.Background(), func(name string) string { return env[name] }, io.Discard)
		if !exitcode.IsWrong(err) {
			t.Errorf("%v: %v; want one of a wrong command line", env, err)
		}
	}
}

// What the controller knows after splitting the data is enough to create the application and load a split elsewhere.
func TestNewApp(t *testing.T) {
	kind, err := all.Registry().Find("mf")
	if err != nil {
		t.Fatal(err)
	}
	ratings := "user,item,rating\n1,1,3\n1,2,4\n2,1,5\n2,3,1\n3,2,2\n3,3,4\n"
	directory := t.TempDir()
	data, err := kind.Prepare(apps.Input{Name: "ratings", Data: strings.NewReader(ratings)}, apps.Cut{Splits: 2, Seed: 1},
		splitdir.Create(directory))
	if err != nil {
		t.Fatal(err)
	}
	dataset, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	app, err := newApp("mf", map[string]string{"rank": "4"}, dataset)
	if err != nil {
		t.Fatal(err)
	}
	if tables := app.Tables(); len(tables) == 0 || tables[0].Rows != 3 {
		t.Errorf("tables %+v; want 3 users first", tables)
	}
	file, err := splitdir.Open(directory, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := app.LoadSplit(1, file, 1); err != nil {
		t.Error(err)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	if _, err := newApp("mf", map[string]string{"rank": "many"}, dataset); err == nil {
		t.Error("a parameter that is no number was taken")
	}
	if _, err := newApp("mf", nil, []byte("{")); err == nil {
		t.Error("half a dataset was taken")
	}
}

// The agent extends the timer of its machine's script, and reports when it cannot.
func TestPowerOffLater(t *testing.T) {
	said := filepath.Join(t.TempDir(), "said")
	command := filepath.Join(t.TempDir(), "power")
	if err := os.WriteFile(command, []byte("#!/bin/sh\necho \"$@\" >>"+said+"; [ ! -e "+said+".full ] || { echo no bus; exit 1; }\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{EnvPowerOff: command + " -P", EnvPowerOffAfter: "30"}
	later := powerOffLater(func(name string) string { return env[name] })
	if err := errors.Join(later(t.Context()), later(t.Context())); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(said); string(text) != "-P +30\n-P +30\n" {
		t.Errorf("it said %q", text)
	}
	if err := os.WriteFile(said+".full", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := later(t.Context()); err == nil || !strings.Contains(err.Error(), "no bus") {
		t.Errorf("a timer that cannot be set: %v", err)
	}
	for name := range env {
		if powerOffLater(func(of string) string { return map[bool]string{true: "x"}[of != name] }) != nil {
			t.Errorf("without %s there is a timer", name)
		}
	}
}

// Slots have no secrets of their host, but those of a pod's service account, which its processes share anyway.
func TestEnvironmentOfSlots(t *testing.T) {
	host := map[string]string{"AWS_REGION": "r", "AWS_ROLE_ARN": "role", "AWS_SECRET_ACCESS_KEY": "key", "SECRET": "x"}
	given := func(provider string) []string {
		host[providers.Variable] = provider
		return slotEnvironment(func(name string) string { return host[name] })[1:]
	}
	for provider, want := range map[string][]string{"ec2": {"AWS_REGION=r"}, "kubernetes": {"AWS_REGION=r", "AWS_SECRET_ACCESS_KEY=key", "AWS_ROLE_ARN=role"}} {
		if got := given(provider); !slices.Equal(got, want) {
			t.Errorf("%s: slots have %v, not %v", provider, got, want)
		}
	}
}
