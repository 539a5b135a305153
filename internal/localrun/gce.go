package localrun

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// gceCallTimeout is longer than on EC2, whose launches answer at once: here an operation is waited for.
const gceCallTimeout = 5 * time.Minute

// GCEAccount is Compute Engine for looking at, and for ending machines: nothing is bought by it.
type GCEAccount interface {
	SpotPrices(ctx context.Context, pools []market.Pool, since, until time.Time) (map[market.Pool][]market.PricePoint, error)
	Zones(context.Context) ([]string, error)
	Types(ctx context.Context, zone string) ([]market.InstanceType, error)
	PriceList(ctx context.Context, page func(skus []byte) (more bool, err error)) error
	CapacityAdvice(ctx context.Context, p market.Pool, machines int) (provisioner.CapacityAdvice, bool, error)
	Holdings(context.Context) ([]provisioner.Holding, error)
	Terminate(context.Context, ...provisioner.InstanceID) error
	Granted(ctx context.Context, endpoint string, permissions []string) ([]string, error)
	Quotas(context.Context) ([]provisioner.Quota, error)
	ImageStatus(context.Context) (name, status string, err error)
	SubnetworkRange(context.Context) (addresses string, private bool, err error)
	MayActAs(ctx context.Context, endpoint string) (bool, error)
	MayUseSubnetwork(context.Context) (missing []string, err error)
	Services(ctx context.Context, endpoint string, names []string) (map[string]string, error)
	Preempt(context.Context, ...provisioner.InstanceID) error
	Close()
}

// startupScript is what Compute Engine's guest runs when a machine has booted. Nothing in it is secret: what only this
// machine may know is in an attribute of its own, which the agent reads.
func startupScript(p config.Program, minutes int) string {
	fetch := curl(p.URL)
	if strings.HasPrefix(p.URL, "gs://") {
		fetch = fetchFromGCS(p.URL)
	}
	return firstScript(first{fetch: fetch, environment: "TIERML_PROVIDER=gce"}, p.SHA256, minutes)
}

// fetchFromGCS needs no tool of Google's: the metadata server gives the machine's own token. STORAGE_EMULATOR_HOST is what
// Google's libraries know for another store.
func fetchFromGCS(address string) string {
	bucket, object, _ := strings.Cut(strings.TrimPrefix(address, "gs://"), "/")
	return `local store=https://storage.googleapis.com token
  if [ -n "${STORAGE_EMULATOR_HOST:-}" ]; then store=http://${STORAGE_EMULATOR_HOST#http://}; fi
  token=$(` + curlCommand + ` --header 'Metadata-Flavor: Google' \
    "http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/instance/service-accounts/default/token" |
    sed 's/.*"access_token" *: *"\([^"]*\)".*/\1/')
  ` + curlCommand + ` --location --header @- --output tierml.new \
    "$store/storage/v1/b/` + bucket + "/o/" + url.PathEscape(object) + `?alt=media" <<<"Authorization: Bearer $token"`
}

// orListed asks the provider for prices, until it refuses; from then on those of a list hold.
type orListed struct {
	adapter
	list   listed
	denied atomic.Bool
}

func (o *orListed) SpotPrices(ctx context.Context, pools []market.Pool, since, until time.Time) (map[market.Pool][]market.PricePoint, error) {
	if !o.denied.Load() {
		prices, err := o.adapter.SpotPrices(ctx, pools, since, until)
		if !errors.Is(err, provisioner.ErrDenied) {
			return prices, err
		}
		o.denied.Store(true)
	}
	return o.list.SpotPrices(ctx, pools, since, until)
}

// listed tells the prices of a list in place of the provider's answers.
type listed struct {
	adapter
	history map[market.Pool]*market.History
}

func (l listed) SpotPrices(_ context.Context, pools []market.Pool, since, until time.Time) (map[market.Pool][]market.PricePoint, error) {
	prices := map[market.Pool][]market.PricePoint{}
	for _, p := range pools {
		h := l.history[p]
		if h == nil {
			continue // nothing is known
		}
		if inForce, ok := h.Until(since).Last(); ok {
			prices[p] = append(prices[p], inForce)
		}
		prices[p] = append(prices[p], h.Points(since, until)...)
	}
	return prices, nil
}
