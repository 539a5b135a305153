// Package api is Google Compute Engine as a provisioner.Cloud, on the official client for Go (REST). It is the only
// package that imports that client, which is large.
//
// It translates and nothing more: requests into API calls, the API's machines into provisioner.Instance, its error codes
// into the contract's errors (errors.go). It knows nothing about what a machine is for, and it cannot distinguish Compute Engine from
// anything else that speaks its protocol: the fake cloud is one Config.Endpoint away.
//
// Three things are other than on EC2, and shape the code. Machines have names that we choose: they are made of the token, so that the
// same request can never buy twice, however late it is repeated (names.go). A request fails later, in an operation that is waited
// for. And a machine that is deleted is gone from the lists: that it ended, when and by whom is read from the project's operations,
// which are kept for two weeks (events.go); what it was is remembered here. A machine that ended before this Cloud first saw it is
// known by its token alone.
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

// Cloud is Compute Engine in one region, seen through one cluster's label: what is bought there and held. What is for sale is its
// Market's, and what stands ready for its machines its Project's.
type Cloud struct {
	provisioner.Basic // what of the contract is optional, where the methods do not say otherwise
	*client
	Market
	Project

	seen     memory
	launches launches
}

// client is the way to Compute Engine.
type client struct {
	config Config
	http   *http.Client // with credentials

	instances  *compute.InstancesClient
	operations *compute.ZoneOperationsClient
	advice     *compute.AdviceClient
}

// Market is what Compute Engine sells in the region: its zones, its types, their prices and its forecasts. It is the same for all
// clusters.
type Market struct{ *client }

// Project is what a cluster finds there that it did not buy: image, network, services, permissions and quotas. It only looks.
type Project struct{ *client }

var _ provisioner.Cloud = (*Cloud)(nil)

// New makes a Cloud. With a loopback endpoint it touches neither network nor files; else it finds Application Default
// Credentials, and fails with provisioner.ErrDenied when there are none.
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

// within returns the options of a client whose every request ends with ctx. The SDK's calls for lists forget their context
// (v1.74.1), so that they would neither end early nor in time; a client for one call costs nothing worth counting.
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

// Close gives up idle connections. The Cloud can be used on.
func (c *Cloud) Close() { c.http.CloseIdleConnections() }

// Traits says what Compute Engine can do. It takes no bids: prices change at most daily, and it is capacity that decides.
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

// firstPause is the mean time before a call is tried again; it doubles.
const firstPause = 200 * time.Millisecond

// try makes a call, again when it failed in a way that passes. All calls may be repeated: those that change something
// carry a request id, or are repeated harmlessly. The error is the contract's.
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
