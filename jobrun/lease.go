package jobrun

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/provisioner"
)

// leaseBeyond is how much longer a machine's lease lasts than it waits for its controller. A machine past its lease should have
// powered itself off: it is a leak, which jobmanager/leaks.go and tierml down --expired end.
const leaseBeyond = 15 * time.Minute

// lease returns how long a machine is wanted after its controller last renewed it, which happens after a third of it.
func (r *session) lease() time.Duration {
	return r.cfg.Job.OrphanAfter + r.pace().Lease
}

// leaseFrom returns when the lease of a machine that was decided on at a time and never renewed ends.
func (r *session) leaseFrom(decided time.Time) time.Time {
	settings := r.cfg.Job.Tempo()
	return r.cfg.Clock.WallAt(decided).Add(settings.Wall(settings.BootWithin) + r.lease())
}

// renew renews leases of machines that have them.
func (r *session) renew(cloud providers.Account) func(context.Context, ...provisioner.InstanceID) error {
	if !cloud.Traits().Leases || !r.outlived() {
		return nil
	}
	generation := strconv.Itoa(r.cfg.Part + 1)
	return func(ctx context.Context, ids ...provisioner.InstanceID) error {
		_, latest := clock.Between() // a lease that is short by an hour would make others end a healthy machine
		return cloud.Renew(ctx, generation, latest.Add(r.lease()), ids...)
	}
}

// generationOf returns which controller of a run decided a launch, counted from 1, from the launch's token: see controllerConfig.
func generationOf(token string) string {
	parts := strings.Split(token, "-")
	if len(parts) < 2 {
		return ""
	}
	part, err := strconv.Atoi(parts[len(parts)-2])
	if err != nil {
		return ""
	}
	return strconv.Itoa(part + 1)
}

// removeLeftovers deletes remains of this run's launches other than machines: a controller that dies in the middle of one leaves a launch
// template. None is in progress when it is called.
func (r *session) removeLeftovers(ctx context.Context, cloud providers.Account) {
	if r.cfg.Job.Resources.ProviderChooses() == "" && !cloud.Traits().Leftovers {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := cloud.RemoveLeftovers(ctx); err != nil {
		r.cfg.Log.Warn("what launches have left was not removed; tierml leaks lists it", "err", err)
	}
}
