package gce

import (
	"context"
	"strings"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/gce/api"
)

// Image and project for a cloud that emulates Compute Engine, which accepts any.
const (
	anyImage   = "projects/tierml/global/images/agent"
	anyProject = "fake-project"
)

// open makes the adapter for Compute Engine itself, or for the job's endpoint.
func open(ctx context.Context, job *config.Job, s providers.Session) (engine, error) {
	b := blockOf(job)
	c := api.Config{
		Project: b.Project, Region: b.Region, Cluster: b.Cluster, Owner: b.Owner, Labels: b.Labels, Endpoint: b.Endpoint,
		Image: image(job), GPUs: job.WantsGPUs(), Disk: api.Disk{SizeGiB: (b.Disk.MiB + 1023) >> 10, Type: b.DiskType},
		Network: b.Network, Subnetwork: b.Subnetwork, NetworkTags: b.NetworkTags, ExternalIP: b.ExternalIP,
		ServiceAccount: b.ServiceAccount, StoreTokens: api.StoreTokens{Give: b.StoreTokens}, NoSecureBoot: !b.SecureBoot, ExtraNotice: b.ExtraNotice,
		Job: s.Run, Expires: s.Expires, PollInterval: s.Poll, Clock: s.Clock, Log: s.Log,
	}
	if s.Minutes > 0 {
		c.StartupScript = startupScript(job.Installation(), providers.Closed(job), s.Minutes)
	}
	return made(api.New(ctx, c))
}

// openPlayed makes the adapter for one of this program's clouds that speaks Compute Engine's API.
func openPlayed(ctx context.Context, job *config.Job, s providers.Session) (providers.Account, error) {
	book, _, _ := strings.Cut(job.Local.Rules, "+")
	c := api.Config{
		Project: anyProject, Region: s.Region, Cluster: s.Run, Endpoint: s.Played, Image: anyImage, GPUs: job.WantsGPUs(), Preemptible: book == "gce-preemptible",
		PollInterval: s.Poll, ShutdownTime: job.Local.Notice, Clock: s.Clock, Log: s.Log,
	}
	if !c.Preemptible { // preemptible machines have 24 hours, and accept no other limit
		c.MaxRun = leash(job.MaxDuration, s.Clock.ToMarket(10*time.Minute))
	}
	return made(api.New(ctx, c))
}

// made keeps a nil pointer out of the interface.
func made(cloud *api.Cloud, err error) (engine, error) {
	if err != nil {
		return nil, err
	}
	return cloud, nil
}

// longestLeash is the longest that Compute Engine accepts.
const longestLeash = 120 * 24 * time.Hour

// leash returns how long after its launch Compute Engine deletes a machine by itself, in case no controller is left to
// do it: some wall-clock minutes after the run would have been ended.
func leash(run, after time.Duration) time.Duration {
	return min(max(run.Round(time.Second)+after.Round(time.Second), time.Minute), longestLeash)
}
