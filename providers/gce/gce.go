// Package gce is the provider Google Compute Engine: its block of the job file, its market, its doctor's checks, and its machines'
// metadata. providers/gce/api speaks to its API.
package gce

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/boot"
	"github.com/tierml/tierml/providers/gce/notice"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node"
)

// Provider is Compute Engine.
type Provider struct{}

func init() { providers.Register(Provider{}) }

// Facts returns static facts about Compute Engine.
func (Provider) Facts() providers.Facts {
	return providers.Facts{
		Provider: Terms, Bills: bills, NoBids: true, Endpoint: "https://compute.googleapis.com", MetadataVariable: "GCE_METADATA_HOST", Mark: "the label tierml-cluster=",
		Refused:    "Google's Application Default Credentials; `gcloud auth list` shows whose they are, terraform/gcp what they must be allowed",
		End:        "gcloud compute instances delete --project {project} --zone {zone} {machines}",
		Undoable:   map[string]string{"rebalance": "nothing is recommended beforehand on Compute Engine"},
		Preemption: "has Compute Engine take back, by a simulated maintenance event,",
		Reach: providers.Reach{
			NeedsZone: true,
			// Identity-Aware Proxy can connect to a port of the machine's address, but the controller listens only on loopback, which needs
			// SSH through the proxy.
			Tunnel: "gcloud compute ssh {instance} --project {project} --zone {zone} --tunnel-through-iap --quiet -- " +
				"-N -o ExitOnForwardFailure=yes -o ServerAliveInterval=15 -L 127.0.0.1:{local}:localhost:{port}",
			Token:   "gcloud compute ssh {instance} --project {project} --zone {zone} --tunnel-through-iap --quiet --command sudo%20cat%20/var/lib/tierml/token",
			Command: "gcloud compute ssh {instance} --project {project} --zone {zone} --tunnel-through-iap --quiet --command {command}",
			Shell:   "gcloud compute ssh {instance} --project {project} --zone {zone} --tunnel-through-iap --quiet --command {command} -- -t",
			Stopped: "see whether it runs: gcloud compute instances describe {instance} --project {project} --zone {zone} --format 'value(status)'; if it is TERMINATED: " +
				"gcloud compute instances start {instance} --project {project} --zone {zone}",
			Programs: map[string]string{"gcloud": "install Google's command line: https://cloud.google.com/sdk/docs/install"},
		},
	}
}

// engine is the part of Compute Engine that is used.
type engine interface {
	providers.Account
	marketAPI
	doctorAPI
}

// Open returns the adapter, with credentials found by the SDK.
func (Provider) Open(ctx context.Context, job *config.Job, s providers.Session) (providers.Account, error) {
	if s.Played != "" {
		return openPlayed(ctx, job, s)
	}
	cloud, err := open(ctx, job, s)
	if err != nil {
		return nil, err
	}
	prices := &orPlanned{Account: cloud, planned: providers.PlannedPrices(s.Offers)}
	prices.denied.Store(blockOf(job).Prices != "") // the job's own list replaces queries
	return prices, nil
}

// Market returns what Compute Engine sells to a job.
func (Provider) Market(ctx context.Context, job *config.Job, folder string) (*local.Market, error) {
	cloud, err := open(ctx, job, providers.Session{})
	if err != nil {
		return nil, err
	}
	defer cloud.Close()
	return soldTo(ctx, job, cloud, folder)
}

// Try checks whether Compute Engine sells the machine types of the pools.
func (Provider) Try(ctx context.Context, job *config.Job, pools []market.Pool) (string, error) {
	cloud, err := open(ctx, job, providers.Session{})
	if err != nil {
		return "", err
	}
	defer cloud.Close()
	if err := try(ctx, cloud, pools); err != nil {
		return "", err
	}
	return fmt.Sprintf("Compute Engine has the machine types of all %d pools. It has no trial of a launch: whether permissions, image, network\nand quotas are right will show when the first machine is bought.", len(pools)), nil
}

// Checks returns the checks of a job with cloud: gce.
func (Provider) Checks(job *config.Job) []doctor.Check {
	return checks(job, func(ctx context.Context) (doctorAPI, error) { return open(ctx, job, providers.Session{}) })
}

// Pace returns Compute Engine's intervals. Launching and renewing a lease are operations to wait for, and finding ended machines lists all
// operations of two weeks: so leases are long. Prices of the job's own list cost nothing to read, and a machine is billed once prices are
// known up to its end.
func (Provider) Pace(job *config.Job) providers.Pace {
	p := providers.Pace{Prices: time.Minute, Calls: 5 * time.Minute, Lease: 2 * time.Hour}
	if blockOf(job).Prices != "" {
		p.Prices = 5 * time.Second
	}
	return p
}

// Boot returns how machines fetch the program, with gs:// from Google's store.
func (Provider) Boot(at *config.Installation) providers.Boot {
	b := providers.Boot{Fetch: boot.Curl(at.Program.URL), Environment: "TIERML_PROVIDER=gce"}
	if strings.HasPrefix(at.Program.URL, "gs://") {
		b.Fetch = fetch(at.Program.URL)
	}
	return b
}

// fetch needs none of Google's tools: the metadata server issues the machine's own token. STORAGE_EMULATOR_HOST redirects Google's
// libraries to another store.
func fetch(address string) string {
	bucket, object, _ := strings.Cut(strings.TrimPrefix(address, "gs://"), "/")
	return `local store=https://storage.googleapis.com token
  if [ -n "${STORAGE_EMULATOR_HOST:-}" ]; then store=http://${STORAGE_EMULATOR_HOST#http://}; fi
  token=$(` + boot.CurlCommand + ` --header 'Metadata-Flavor: Google' \
    "http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/instance/service-accounts/default/token" |
    sed 's/.*"access_token" *: *"\([^"]*\)".*/\1/')
  ` + boot.CurlCommand + ` --location --header @- --output tierml.new \
    "$store/storage/v1/b/` + bucket + "/o/" + url.PathEscape(object) + `?alt=media" <<<"Authorization: Bearer $token"`
}

// startupScript returns the script that Compute Engine's guest runs after boot. It contains no secrets: what only this
// machine may know is in a separate attribute, which the agent reads.
func startupScript(at *config.Installation, closed providers.Closing, minutes int) string {
	b := Provider{}.Boot(at)
	b.Closed = closed
	return boot.Machine(b, "", at.Program.SHA256, minutes)
}

// Place returns the machines' network. It does not include zones.
func (Provider) Place(job *config.Job) (network, zones []string) {
	return blockOf(job).NetworkTags, nil
}

// Metadata returns a client of Compute Engine's metadata server, or of a compatible one. It names no deadline: this computes one, in market
// time.
func (Provider) Metadata(m clock.Mapping, log *slog.Logger) node.Machine { return metadata{m, log} }

type metadata struct {
	mapping clock.Mapping
	log     *slog.Logger
}

func (m metadata) Identity(ctx context.Context) (node.Identity, error) {
	id, err := notice.ReadIdentity(ctx)
	return node.Identity{Instance: ps.ServerID(id.ID), Type: id.Type}, err
}

func (m metadata) UserData(ctx context.Context) (string, error) {
	data, err := notice.ReadUserData(ctx)
	return string(data), err
}

func (m metadata) Watch(ctx context.Context, f func(tiers.Warned)) error {
	return notice.Watch(ctx, notice.Config{Clock: m.mapping, Report: providers.Report(m.log)}, func(n provisioner.Notice) { f(providers.Warned(n)) })
}
