// Package api implements provisioner.Cloud for Google Compute Engine, with the official client for Go (REST). It is
// the only package that imports that client, which is large.
//
// It only translates: requests into API calls, the API's machines into provisioner.Instance, its error codes into the
// contract's errors (errors.go). It does not know what a machine is for, and it cannot distinguish Compute Engine from
// another server with its protocol: one Config.Endpoint leads to the fake cloud.
//
// Three differences from EC2 shape the code. We choose machines' names: they derive from the token, so that the same
// request can never buy twice, however late it is repeated (names.go). A request can fail later, in an operation that
// must be waited for. And a deleted machine disappears from the lists: that it ended, when and by whom is read from the
// project's operations, which are kept for two weeks (events.go); what it was is remembered here. For a machine that
// ended before this Cloud first saw it, only the token is known.
//
// A Cloud starts goroutines only within a call, and waits for them.
package api

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"cloud.google.com/go/auth/credentials"
	"cloud.google.com/go/auth/httptransport"
	compute "cloud.google.com/go/compute/apiv1"
	"google.golang.org/api/option"

	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/adapter"
)

// Provider is Compute Engine's name in pools.
const Provider = "gce"

// Limits of Compute Engine.
const (
	maxLaunch       = 1000      // machines in one bulkInsert
	maxUserData     = 256 << 10 // bytes of one metadata value
	preemptibleLife = 24 * time.Hour
)

// Cloud is Compute Engine in one region, limited to one cluster's label: machines that were bought and are held there.
// Market has what is for sale, and Project what stands ready for the machines.
type Cloud struct {
	provisioner.Basic // defaults for the contract's optional methods
	*client
	Market
	Project

	seen     memory
	launches launches
}

// client calls Compute Engine.
type client struct {
	config Config
	http   *http.Client // with credentials

	instances  *compute.InstancesClient
	operations *compute.ZoneOperationsClient
	advice     *compute.AdviceClient
}

// Market is what Compute Engine sells in the region: zones, types, prices and forecasts. It is the same for all
// clusters.
type Market struct{ *client }

// Project is the environment that a cluster did not buy: image, network, services, permissions and quotas. It is
// read-only.
type Project struct{ *client }

var _ provisioner.Cloud = (*Cloud)(nil)

// New makes a Cloud. With a loopback endpoint it uses neither network nor files; otherwise it finds Application
// Default Credentials, and fails with provisioner.ErrDenied without them.
func New(ctx context.Context, c Config) (*Cloud, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("configuring Compute Engine: %w: %w", provisioner.ErrInvalid, err)
	}
	way := &client{config: c}
	var err error
	if way.http, err = newHTTPClient(c); err != nil {
		return nil, err
	}
	if err := way.connect(ctx); err != nil {
		return nil, fmt.Errorf("configuring Compute Engine: %w", err)
	}
	return &Cloud{client: way, Market: Market{way}, Project: Project{way}}, nil
}

func newHTTPClient(c Config) (*http.Client, error) {
	if local, _ := adapter.IsLocal(c.Endpoint); local {
		return &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}, nil
	}
	found, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{cloudPlatform}})
	if err != nil {
		return nil, fmt.Errorf("finding Google credentials: %w (run `gcloud auth application-default login`, or set "+
			"GOOGLE_APPLICATION_CREDENTIALS): %w", provisioner.ErrDenied, err)
	}
	client, err := httptransport.NewClient(&httptransport.Options{Credentials: found})
	if err != nil {
		return nil, fmt.Errorf("using Google credentials: %w: %w", provisioner.ErrInvalid, err)
	}
	return client, nil
}

func (c *client) connect(ctx context.Context) (err error) {
	if c.instances, err = compute.NewInstancesRESTClient(ctx, c.options(c.http)...); err != nil {
		return err
	}
	if c.operations, err = compute.NewZoneOperationsRESTClient(ctx, c.options(c.http)...); err != nil {
		return err
	}
	c.advice, err = compute.NewAdviceRESTClient(ctx, c.options(c.http)...)
	return err
}

func (c *client) options(client *http.Client) []option.ClientOption {
	options := []option.ClientOption{option.WithHTTPClient(client)}
	if c.config.Endpoint != "" {
		options = append(options, option.WithEndpoint(c.config.Endpoint))
	}
	return options
}

// within returns options for a client whose every request ends with ctx. The SDK's list calls ignore their context
// (v1.74.1), so that they could be neither cancelled nor bounded; a client per call costs next to nothing.
func (c *client) within(ctx context.Context) []option.ClientOption {
	bound := *c.http
	bound.Transport = boundTransport{c.http.Transport, ctx}
	return c.options(&bound)
}

type boundTransport struct {
	base http.RoundTripper
	ctx  context.Context
}

func (t boundTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.base.RoundTrip(r.WithContext(t.ctx))
}

// Close closes idle connections. The Cloud remains usable.
func (c *Cloud) Close() { c.http.CloseIdleConnections() }

// Traits returns what Compute Engine can do. It takes no bids: prices change at most daily, and capacity decides.
func (c *Cloud) Traits() provisioner.Traits {
	t := provisioner.Traits{
		Provider:     Provider,
		NoticeLength: c.config.ExtraNotice + c.config.ShutdownTime,
		MaxLaunch:    maxLaunch,
		MaxUserData:  maxUserData,
		Leases:       true,
		Preempts:     true,
	}
	if c.config.Preemptible {
		t.MaxLifetime = preemptibleLife
	}
	return t
}

// firstPause is the mean pause before the first retry; it doubles.
const firstPause = 200 * time.Millisecond

// try makes a call, and retries after a temporary failure. All calls may be repeated: those that change something
// carry a request id or are idempotent. It returns one of the contract's errors.
func (c *client) try(ctx context.Context, doing string, timeout time.Duration, call func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		one, cancel := context.WithTimeout(ctx, timeout)
		err := call(one)
		cancel()
		if err == nil {
			return nil
		}
		err = failure(ctx, doing, err)
		if ctx.Err() != nil || !provisioner.Retryable(err) || attempt >= c.config.MaxAttempts {
			return err
		}
		wait := firstPause << min(attempt-1, 6)
		if adapter.Pause(ctx, wait/2+rand.N(wait)) != nil {
			return failure(ctx, doing, err)
		}
	}
}
