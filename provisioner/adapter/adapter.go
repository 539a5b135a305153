// Package adapter has what the providers' adapters share: polling for notices, classifying providers' errors, and
// checking endpoints.
//
// It knows nothing about any particular provider: codes, hints and calls are the adapters' own.
package adapter

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"time"
)

// IsLocal reports whether an endpoint is on this host; "" = the provider's own, which is not. It refuses an endpoint
// elsewhere that is not https: machines' user data contain secrets of the cluster.
func IsLocal(endpoint string) (bool, error) {
	if endpoint == "" {
		return false, nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false, fmt.Errorf("endpoint %q: want an address such as http://127.0.0.1:4000", endpoint)
	}
	addr, err := netip.ParseAddr(u.Hostname())
	local := u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
	if !local && u.Scheme != "https" {
		return false, fmt.Errorf("endpoint %q: use https for an endpoint that is not on this machine", endpoint)
	}
	return local, nil
}

// Pause waits, or returns early with the cause of ctx's end.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
