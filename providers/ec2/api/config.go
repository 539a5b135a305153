package api

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/adapter"
)

// Config selects an EC2 endpoint and machines. Zero values have the defaults named; Region and Cluster are required, and so is ImageID
// before the first Launch.
type Config struct {
	// Region such as "us-west-1". It is never guessed from profiles or metadata.
	Region string
	// Cluster is the value of the tag tierml:cluster that distinguishes this Cloud's machines from all others.
	Cluster string
	// Endpoint replaces EC2's own address: "http://127.0.0.1:4000" of a fake cloud, or a VPC endpoint's https address. With a loopback
	// address the caller's own credentials and profiles are never read.
	Endpoint string
	// Credentials replace the SDK's default chain (environment, profiles, SSO, machine role).
	Credentials *Credentials

	// Job, if set, becomes the tag tierml:job, and distinguishes this Cloud's machines from those of other jobs of the cluster.
	Job string
	// Owner, if set, becomes the tag tierml:owner: whom to ask about a machine.
	Owner string
	// ImageID is the machine image (AMI).
	ImageID string
	// Subnets maps zones to subnets; other zones use their default subnet.
	Subnets map[string]string
	// SecurityGroups are ids; none = the default group.
	SecurityGroups []string
	// InstanceProfile is the name of the role that machines get; none = no role.
	InstanceProfile string
	// StoreRole is the ARN of the role that RunKeys narrows to one run; none = RunKeys returns nothing.
	StoreRole string
	// Strategy is how EC2 chooses among the pools of a spot request that names several (default: EC2's recommendation,
	// provisioner.PriceCapacityOptimized).
	Strategy provisioner.Allocation
	// RootVolume replaces the image's own root volume.
	RootVolume *RootVolume

	// MaxAttempts bounds the attempts of a call (default 5).
	MaxAttempts int
	// AttemptTimeout bounds each try (default 30 s).
	AttemptTimeout time.Duration
	// PollInterval is Notify's polling interval, wall-clock (default 5 s: EC2's limit for describing calls is shared by the whole account;
	// a machine's own notice.Watch is faster).
	PollInterval time.Duration
	// NoticeLength is the time from a spot machine's mark to its end, wall-clock (default 2 min).
	NoticeLength time.Duration
	// Settle is how long EC2's copies may take to agree about a new machine, wall-clock (default 1 min).
	Settle time.Duration
	// Clock maps wall-clock to market time (default: they are the same).
	Clock clock.Mapping
	// Log gets failures that are retried, such as a failed poll of Notify (default: none).
	Log *slog.Logger
}

// Credentials are static credentials.
type Credentials struct {
	AccessKeyID, SecretAccessKey, SessionToken string
}

// RootVolume is an encrypted root volume.
type RootVolume struct {
	Device  string // as the image names it, "/dev/xvda"
	SizeGiB int32
}

func (c Config) withDefaults() Config {
	setDefault(&c.MaxAttempts, 5)
	setDefault(&c.AttemptTimeout, 30*time.Second)
	setDefault(&c.PollInterval, 5*time.Second)
	setDefault(&c.NoticeLength, 2*time.Minute)
	setDefault(&c.Settle, time.Minute)
	setDefault(&c.Strategy, provisioner.PriceCapacityOptimized)
	setDefault(&c.Clock, clock.Real())
	setDefault(&c.Log, slog.New(slog.DiscardHandler))
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// clusterName excludes the wildcards of EC2's filters.
var clusterName = pattern.Of(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// validate reports every fault.
func (c Config) validate() error {
	var faults []error
	if c.Region == "" {
		faults = append(faults, errors.New(`region is missing: name one, such as "us-west-1"`))
	}
	if !clusterName().MatchString(c.Cluster) {
		faults = append(faults, fmt.Errorf("cluster name %q: want up to 64 letters, digits and .-_ (machines are "+
			"told apart by it)", c.Cluster))
	}
	if c.Job != "" && !clusterName().MatchString(c.Job) {
		faults = append(faults, fmt.Errorf("job name %q: want up to 64 letters, digits and .-_", c.Job))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"attempt timeout", c.AttemptTimeout}, {"poll interval", c.PollInterval},
		{"notice length", c.NoticeLength}, {"settle time", c.Settle},
	} {
		if d.value < 0 {
			faults = append(faults, fmt.Errorf("%s %s is below zero", d.name, d.value))
		}
	}
	if c.Strategy != provisioner.PriceCapacityOptimized && c.Strategy != provisioner.CapacityOptimized {
		faults = append(faults, fmt.Errorf("strategy %q: want %s or %s", c.Strategy, provisioner.PriceCapacityOptimized, provisioner.CapacityOptimized))
	}
	if c.MaxAttempts < 0 {
		faults = append(faults, fmt.Errorf("attempts %d: want at least 1", c.MaxAttempts))
	}
	if v := c.RootVolume; v != nil && (v.Device == "" || v.SizeGiB < 1) {
		faults = append(faults, errors.New("root volume needs a device name and a size of at least 1 GiB"))
	}
	if _, err := adapter.IsLocal(c.Endpoint); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
