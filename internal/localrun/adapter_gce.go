//go:build !nogce

package localrun

import (
	"context"
	"strings"
	"time"

	"github.com/tierml/tierml/provisioner/gce"
)

// connectGCE makes the adapter for Compute Engine. A build with -tags nogce leaves it out, and the 17 MB of its client.
func (r *session) connectGCE(ctx context.Context, endpoint string) (adapter, error) {
	preemptible := ruleBook(r.cfg.Job.Local.Rules) == "gce-preemptible"
	cloud, err := gce.New(ctx, gce.Config{
		Project: anyProject, Region: r.region(), Cluster: r.name, Endpoint: endpoint, Image: anyImage,
		Preemptible: preemptible, MaxRun: r.leash(preemptible),
		PollInterval: pollNotices, ShutdownTime: r.cfg.Job.Local.Notice, Clock: r.cfg.Clock, Log: r.cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	if r.cfg.Past != nil { // Compute Engine does not tell what machines were that are gone
		for _, m := range r.cfg.Past.Machines {
			cloud.Recall(m.Instance)
		}
	}
	return cloud, nil
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
