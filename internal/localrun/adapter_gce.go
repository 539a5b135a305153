//go:build !nogce

package localrun

import (
	"context"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner/gce"
)

// gceConfig is the adapter's, as a job has it.
func gceConfig(g config.GCE) gce.Config {
	return gce.Config{
		Project: g.Project, Region: g.Region, Cluster: g.Cluster, Owner: g.Owner, Labels: g.Labels, Endpoint: g.Endpoint,
		Image: g.Image, Disk: gce.Disk{SizeGiB: (g.Disk.MiB + 1023) >> 10, Type: g.DiskType},
		Network: g.Network, Subnetwork: g.Subnetwork, NetworkTags: g.NetworkTags, ExternalIP: g.ExternalIP,
		ServiceAccount: g.ServiceAccount, NoSecureBoot: !g.SecureBoot, ExtraNotice: g.ExtraNotice,
	}
}

// OpenGCE makes the adapter for looking and cleaning up: with a run's unique name, at its machines only. Nothing is bought
// by it.
func OpenGCE(ctx context.Context, g config.GCE, run string) (GCEAccount, error) {
	c := gceConfig(g)
	c.Job = run
	return gce.New(ctx, c)
}

// openGCEControllers makes the adapter for the machines of controllers: their disks and tags are not those of a run's.
func openGCEControllers(ctx context.Context, g config.GCE) (Controllers, error) {
	return gce.New(ctx, gceConfig(g))
}

// connectGCE makes the adapter for Compute Engine itself, by the SDK's own way to find credentials.
func (r *session) connectGCE(ctx context.Context) (adapter, error) {
	g := r.cfg.Job.GCE
	c := gceConfig(g)
	c.Job, c.Expires = r.unique(), r.expires()
	c.StartupScript = startupScript(g.Program, powerOffAfter(r.cfg.Job))
	c.PollInterval, c.Clock, c.Log = realPollNotices, r.cfg.Clock, r.cfg.Log
	cloud, err := gce.New(ctx, c)
	if err != nil {
		return nil, err
	}
	r.recall(cloud)
	prices := listed{cloud, map[market.Pool]*market.History{}}
	for _, o := range r.cfg.Offers {
		prices.history[o.Pool] = o.History
	}
	if g.Prices == "" {
		return &orListed{adapter: cloud, list: prices}, nil
	}
	return prices, nil
}

// connectFakeGCE makes the adapter for a cloud of this program that speaks Compute Engine's API. A build with -tags nogce
// leaves it out, and the 17 MB of its client.
func (r *session) connectFakeGCE(ctx context.Context, endpoint string) (adapter, error) {
	preemptible := ruleBook(r.cfg.Job.Local.Rules) == "gce-preemptible"
	cloud, err := gce.New(ctx, gce.Config{
		Project: anyProject, Region: r.region(), Cluster: r.unique(), Endpoint: endpoint, Image: anyImage,
		Preemptible: preemptible, MaxRun: r.leash(preemptible),
		PollInterval: pollNotices, ShutdownTime: r.cfg.Job.Local.Notice, Clock: r.cfg.Clock, Log: r.cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	r.recall(cloud)
	return cloud, nil
}

// recall tells of the machines of a controller before this one: Compute Engine does not tell what machines were that are
// gone.
func (r *session) recall(cloud *gce.Cloud) {
	if r.cfg.Past == nil {
		return
	}
	for _, m := range r.cfg.Past.Machines {
		cloud.Recall(m.Instance)
	}
}

// longestLeash is the longest that Compute Engine takes.
const longestLeash = 120 * 24 * time.Hour

// leash is after how long Compute Engine deletes a machine by itself, should nobody be left to do it: some minutes, as the
// clock on the wall goes, after the run would have been ended. Preemptible machines take none: they have 24 hours.
func (r *session) leash(preemptible bool) time.Duration {
	if preemptible {
		return 0
	}
	after := r.cfg.Clock.ToMarket(10 * time.Minute).Round(time.Second)
	return min(max(r.cfg.Job.MaxDuration.Round(time.Second)+after, time.Minute), longestLeash)
}

// ruleBook is the name of a rule book without the fees behind it.
func ruleBook(rules string) string {
	name, _, _ := strings.Cut(rules, "+")
	return name
}
