package api

import (
	"errors"
	"fmt"
	"golang.org/x/oauth2"
	"log/slog"
	"time"

	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/provisioner/adapter"
)

// Config selects the project and describes its machines. Zero values mean the defaults named; Project, Region and
// Cluster are required, and so is Image before the first Launch.
type Config struct {
	// Project is the id of the project to bill, "my-project-123".
	Project string
	// Region such as "us-central1". It is never guessed from a configuration or metadata.
	Region string
	// Cluster is the value of the label tierml-cluster, which separates this Cloud's machines from all others.
	Cluster string
	// Endpoint replaces Compute Engine's own address: "http://127.0.0.1:4000" for a fake cloud, or a private
	// endpoint's https address. With a loopback address, credentials are neither looked up nor sent.
	Endpoint string

	// Owner, when set, becomes the label tierml-owner: whom to ask about a machine.
	Owner string
	// Job, when set, becomes the label tierml-job and narrows this Cloud further: it sees and ends only the job's
	// machines.
	Job string
	// Labels are additional labels, in Compute Engine's format.
	Labels map[string]string
	// Image is what machines boot from: "projects/debian-cloud/global/images/family/debian-12".
	Image string
	// GPUs reports that the machines have GPUs and so cannot be migrated to another host.
	GPUs bool
	// Disk is the boot disk, which is deleted with its machine.
	Disk Disk
	// Network and Subnetwork of the machines' only interface; empty = the network "default".
	Network, Subnetwork string
	// ExternalIP gives machines a public address; without one they reach the internet through the network's own
	// gateway.
	ExternalIP bool
	// NetworkTags are matched by firewall rules.
	NetworkTags []string
	// ServiceAccount is the account that machines act as; empty = none.
	ServiceAccount string
	// StoreTokens configures the tokens that RunKeys returns.
	StoreTokens StoreTokens
	// Scopes of the service account's tokens (default cloud-platform: its roles decide what it may do).
	Scopes []string
	// NoSecureBoot turns off Shielded VM's secure boot, for images with unsigned drivers. The virtual trusted
	// platform module and integrity monitoring stay on.
	NoSecureBoot bool
	// StartupScript is run as root after a machine has booted.
	StartupScript string

	// Preemptible launches spot machines on Compute Engine's older terms: they end after 24 hours.
	Preemptible bool
	// ExtraNotice is how long before its shutdown a Spot machine's metadata announce a preemption, such as 120 s
	// (default 0; scheduling.preemptionNoticeDuration).
	ExtraNotice time.Duration
	// MaxRun is how long machines may run until Compute Engine itself deletes them, even if no controller is
	// left (default 0: forever). 30 s to 120 days; not with Preemptible.
	MaxRun time.Duration
	// Expires is when Compute Engine deletes machines at the latest, in market time: it limits MaxRun (default none).
	Expires time.Time

	// MaxAttempts is how often a call is tried before it fails (default 5).
	MaxAttempts int
	// AttemptTimeout bounds each try (default 30 s).
	AttemptTimeout time.Duration
	// PollInterval is how often Notify polls, wall-clock (default 5 s; a machine's own notice.Watch is faster).
	PollInterval time.Duration
	// ShutdownTime is the wall-clock time from the start of a preemption, when a machine begins to shut down, to
	// its end (default 30 s).
	ShutdownTime time.Duration
	// Settle is how long a machine may be missing from lists with no report of its end, wall-clock
	// (default 1 min).
	Settle time.Duration
	// Clock maps wall-clock to market time (default: they are the same).
	Clock clock.Mapping
	// Log gets events that need no action, such as a failed poll of Notify (default: nothing).
	Log *slog.Logger
}

// Disk is a boot disk. Compute Engine encrypts all disks.
type Disk struct {
	SizeGiB int64  // 0 = the image's
	Type    string // default pd-balanced
}

const cloudPlatform = "https://www.googleapis.com/auth/cloud-platform"

// StoreTokens are tokens for the objects of one run.
type StoreTokens struct {
	Give bool               // whether RunKeys returns tokens, made from this process's own
	From oauth2.TokenSource // source of that token; nil = Application Default Credentials
}

func (c Config) withDefaults() Config {
	setDefault(&c.Disk.Type, "pd-balanced")
	setDefault(&c.MaxAttempts, 5)
	setDefault(&c.AttemptTimeout, 30*time.Second)
	setDefault(&c.PollInterval, 5*time.Second)
	setDefault(&c.ShutdownTime, 30*time.Second)
	setDefault(&c.Settle, time.Minute)
	setDefault(&c.Clock, clock.Real())
	setDefault(&c.Log, slog.New(slog.DiscardHandler))
	if len(c.Scopes) == 0 {
		c.Scopes = []string{cloudPlatform}
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

var (
	clusterName = pattern.Of(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	projectID   = pattern.Of(`^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$`)
	regionName  = pattern.Of(`^[a-z]+-[a-z]+[0-9]+$`)
)

// Bounds of maxRunDuration, from "Limit the run time of a VM" in Compute Engine's documentation.
const (
	minRun = 30 * time.Second
	maxRun = 120 * 24 * time.Hour
)

// leash returns how long after its launch Compute Engine deletes a machine that is launched now; 0 = never.
func (c Config) leash() time.Duration {
	d := c.MaxRun
	if !c.Expires.IsZero() {
		left := max(c.Expires.Sub(c.Clock.Now()).Round(time.Second), minRun)
		if d == 0 || left < d {
			d = min(left, maxRun)
		}
	}
	return d
}

// validate returns all faults.
func (c Config) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !projectID().MatchString(c.Project) {
		fault("project %q: name its id, such as my-project-123", c.Project)
	}
	if !regionName().MatchString(c.Region) {
		fault("region %q: name one, such as us-central1", c.Region)
	}
	if !clusterName().MatchString(c.Cluster) {
		fault("cluster name %q: want up to 64 letters, digits and .-_ (it distinguishes machines)", c.Cluster)
	}
	if c.MaxRun != 0 && (c.MaxRun < minRun || c.MaxRun > maxRun) {
		fault("longest run %s: Compute Engine takes %s to %s", c.MaxRun, minRun, maxRun)
	}
	if c.Preemptible && (c.MaxRun != 0 || !c.Expires.IsZero() || c.ExtraNotice != 0) {
		fault("preemptible machines take neither a longest run nor an extra notice: want Spot ones")
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"attempt timeout", c.AttemptTimeout}, {"poll interval", c.PollInterval}, {"shutdown time", c.ShutdownTime},
		{"settle time", c.Settle}, {"extra notice", c.ExtraNotice},
	} {
		if d.value < 0 {
			fault("%s %s is below zero", d.name, d.value)
		}
	}
	if c.MaxAttempts < 0 || c.Disk.SizeGiB < 0 {
		fault("attempts %d, disk of %d GiB: neither can be below zero", c.MaxAttempts, c.Disk.SizeGiB)
	}
	if _, err := adapter.IsLocal(c.Endpoint); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
