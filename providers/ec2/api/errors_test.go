package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/smithy-go"

	ec2 "github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
)

func TestErrorKinds(t *testing.T) {
	for _, c := range []struct {
		code   string
		status int
		kind   error // nil = unknown
		hint   string
	}{
		{"InsufficientInstanceCapacity", 500, provisioner.ErrNoCapacity, ""},
		{"UnfulfillableCapacity", 400, provisioner.ErrNoCapacity, ""},
		{"SpotMaxPriceTooLow", 400, provisioner.ErrPriceTooLow, ""},
		{"MaxSpotInstanceCountExceeded", 400, provisioner.ErrLimit, "Service Quotas"},
		{"VcpuLimitExceeded", 400, provisioner.ErrLimit, "Service Quotas"},
		{"InstanceLimitExceeded", 400, provisioner.ErrLimit, "Service Quotas"},
		{"RequestLimitExceeded", 503, provisioner.ErrThrottled, ""},
		{"Throttling", 400, provisioner.ErrThrottled, ""},
		{"InternalError", 500, provisioner.ErrTemporary, ""},
		{"Unavailable", 503, provisioner.ErrTemporary, ""},
		{"InvalidAMIID.NotFound", 400, provisioner.ErrNotFound, "one region"},
		{"InvalidSubnetID.NotFound", 400, provisioner.ErrNotFound, ""},
		{"InvalidParameterValue", 400, provisioner.ErrInvalid, ""},
		{"InvalidParameterCombination", 400, provisioner.ErrInvalid, ""},
		{"IdempotentParameterMismatch", 400, provisioner.ErrInvalid, "token"},
		{"Unsupported", 400, provisioner.ErrInvalid, "not offered"},
		{"UnauthorizedOperation", 403, provisioner.ErrDenied, "ec2:RunInstances"},
		{"AuthFailure", 401, provisioner.ErrDenied, ""},
		{"AuthFailure.ServiceLinkedRoleCreationNotPermitted", 403, provisioner.ErrDenied, "create-service-linked-role"},
		{"SomethingNew", 400, nil, ""},
		{"SomethingNew", 500, provisioner.ErrTemporary, ""},
	} {
		s := newServer(t, always(c.status, apiError(c.code, "their words")))
		_, err := s.cloud().Launch(t.Context(), spotRequest())
		for _, kind := range []error{provisioner.ErrNoCapacity, provisioner.ErrPriceTooLow, provisioner.ErrLimit, provisioner.ErrThrottled,
			provisioner.ErrTemporary, provisioner.ErrNotFound, provisioner.ErrInvalid, provisioner.ErrDenied} {
			if errors.Is(err, kind) != errors.Is(kind, c.kind) {
				t.Errorf("%s with status %d: errors.Is(%v) = %v", c.code, c.status, kind, errors.Is(err, kind))
			}
		}
		if _, theirs := errors.AsType[smithy.APIError](err); !theirs {
			t.Errorf("%s: EC2's own error is lost in %v", c.code, err)
		}
		for _, want := range []string{"launching 17 of ec2/us-west-1/us-west-1a/c3.large/spot", c.code, "their words", c.hint} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
	}
}

// A permanent failure is not retried, whatever its HTTP status; a temporary one is retried with the same token.
func TestAttempts(t *testing.T) {
	for code, want := range map[string]int{"InsufficientInstanceCapacity": 1, "InvalidParameterValue": 1, "RequestLimitExceeded": 2, "InternalError": 2} {
		s := newServer(t, always(http.StatusInternalServerError, apiError(code, "x")))
		_, err := s.cloud(func(c *ec2.Config) { c.MaxAttempts = 2 }).Launch(t.Context(), spotRequest())
		if err == nil || len(s.recorded()) != want {
			t.Errorf("%s: asked %d times, want %d (%v)", code, len(s.recorded()), want, err)
		}
		for _, form := range s.recorded() {
			if form.Get("ClientToken") != "job-1/2" {
				t.Errorf("%s: sent token %q", code, form.Get("ClientToken"))
			}
		}
	}
}

func TestUnreachableIsTemporary(t *testing.T) {
	cloud := newCloud(t, ec2.Config{Endpoint: "http://127.0.0.1:1", Region: "us-west-1", Cluster: "blue", MaxAttempts: 1})
	if _, err := cloud.List(t.Context()); !errors.Is(err, provisioner.ErrTemporary) {
		t.Errorf("got %v, want ErrTemporary", err)
	}
}

func TestCancelledInMidRequest(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	s := newServer(t, func(url.Values) (int, string) {
		close(asked)
		<-release
		return http.StatusOK, describeAnswer("")
	})
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-asked
		cancel()
	}()
	if _, err := s.cloud().List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestConfigFaults(t *testing.T) {
	good := ec2.Config{Region: "us-west-1", Cluster: "blue", Endpoint: "http://127.0.0.1:1"}
	for name, c := range map[string]struct {
		change func(*ec2.Config)
		want   string
	}{
		"region":      {func(c *ec2.Config) { c.Region = "" }, "region is missing"},
		"cluster":     {func(c *ec2.Config) { c.Cluster = "" }, "cluster name"},
		"wildcard":    {func(c *ec2.Config) { c.Cluster = "blue*" }, "cluster name"},
		"plain http":  {func(c *ec2.Config) { c.Endpoint = "http://example.com" }, "https"},
		"no address":  {func(c *ec2.Config) { c.Endpoint = "localhost:4000" }, "want an address"},
		"root volume": {func(c *ec2.Config) { c.RootVolume = &ec2.RootVolume{} }, "root volume"},
		"interval":    {func(c *ec2.Config) { c.PollInterval = -time.Second }, "poll interval"},
	} {
		config := good
		c.change(&config)
		_, err := ec2.New(t.Context(), config)
		if !errors.Is(err, provisioner.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want ErrInvalid with %q", name, err, c.want)
		}
	}
}

// A fake cloud must never see credentials of the real one.
func TestLoopbackNeverSeesTheUsersCredentials(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDREAL")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_PROFILE", "no-such-profile")
	t.Setenv("AWS_ENDPOINT_URL_EC2", "http://127.0.0.1:1")
	s := newServer(t, always(http.StatusOK, describeAnswer("")))
	if _, err := s.cloud().List(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.header.Get("Authorization"); !strings.Contains(got, "Credential=local/") || strings.Contains(got, "AKIDREAL") {
		t.Errorf("signed as %q", got)
	}
	given := s.cloud(func(c *ec2.Config) { c.Credentials = &ec2.Credentials{AccessKeyID: "given", SecretAccessKey: "x"} })
	if _, err := given.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.header.Get("Authorization"); !strings.Contains(got, "Credential=given/") {
		t.Errorf("signed as %q", got)
	}
}

// A truncated answer reveals nothing about what was done: retrying is right.
func TestAnswerCutOff(t *testing.T) {
	whole := runAnswer(instance{id: "i-0a", state: "pending"})
	s := newServer(t, always(http.StatusOK, whole[:len(whole)/2]))
	if _, err := s.cloud().Launch(t.Context(), spotRequest()); !errors.Is(err, provisioner.ErrTemporary) {
		t.Errorf("got %v, want ErrTemporary", err)
	}
}

// An HTML page must not count as a list without machines, or as a termination.
func TestPagesAreNoAnswers(t *testing.T) {
	s := newServer(t, always(http.StatusOK, "<html><body>Please log in to the network.</body></html>"))
	cloud := newCloud(t, ec2.Config{Endpoint: s.url, Region: "us-west-1", Cluster: "blue", MaxAttempts: 1})
	if _, err := cloud.List(t.Context()); !errors.Is(err, provisioner.ErrTemporary) {
		t.Errorf("listing: %v", err)
	}
	if err := cloud.Terminate(t.Context(), "i-0123456789abcdef0"); !errors.Is(err, provisioner.ErrTemporary) {
		t.Errorf("terminating: %v", err)
	}
}
